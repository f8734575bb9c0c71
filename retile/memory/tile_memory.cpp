#include "retile/memory/tile_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/error.h"

namespace retile {

CountedBuffer::CountedBuffer(Buffer buffer, MemoryMeter& meter) : buffer_(std::move(buffer)), meter_(&meter) {
  meter_->add(size());
}

CountedBuffer::CountedBuffer(CountedBuffer&& other) noexcept
    : buffer_(std::move(other.buffer_)), meter_(std::exchange(other.meter_, nullptr)) {}

CountedBuffer& CountedBuffer::operator=(CountedBuffer&& other) noexcept {
  std::swap(buffer_, other.buffer_);
  std::swap(meter_, other.meter_);
  (void)other.release();
  return *this;
}

CountedBuffer::~CountedBuffer() { (void)release(); }

Buffer CountedBuffer::release() {
  if (meter_ != nullptr) meter_->remove(size());
  meter_ = nullptr;
  return std::move(buffer_);
}

CountedBuffer TileMemory::allocate(std::size_t device, std::int64_t bytes, const Allocate& allocate) {
  const std::int64_t alive = devices_[device].alive();
  if (bytes > limit_ - alive) {
    throw RuntimeError(fmt::format("no memory for a tile of {} bytes on device {}: it holds {} and may hold {}", bytes,
                                   device, alive, limit_));
  }
  return adopt(device, allocate(static_cast<std::size_t>(bytes)));
}

std::int64_t TileMemory::peak() const {
  std::int64_t peak = 0;
  for (const MemoryMeter& device : devices_) peak = std::max(peak, device.peak());
  return peak;
}

}  // namespace retile
