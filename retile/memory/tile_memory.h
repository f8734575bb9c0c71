// The memory of a process's tiles: where they lie, how much of it is alive, and a limit to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "retile/memory/buffer.h"
#include "retile/plan/memory.h"
#include "retile/plan/memory_meter.h"

namespace retile {

// A tile's bytes, counted by their device's meter, which outlives it, for as long as they are here.
class CountedBuffer {
 public:
  CountedBuffer() = default;
  CountedBuffer(Buffer buffer, MemoryMeter& meter);
  CountedBuffer(CountedBuffer&& other) noexcept;
  CountedBuffer& operator=(CountedBuffer&& other) noexcept;
  CountedBuffer(const CountedBuffer&) = delete;
  CountedBuffer& operator=(const CountedBuffer&) = delete;
  ~CountedBuffer();

  std::byte* data() { return buffer_.data(); }
  std::int64_t size() const { return static_cast<std::int64_t>(buffer_.size()); }
  bool empty() const { return buffer_.empty(); }
  // Hands the bytes to somebody who does not count.
  Buffer release();

 private:
  Buffer buffer_;
  MemoryMeter* meter_ = nullptr;
};

// All tiles of a run, those that it is given included.
class TileMemory {
 public:
  explicit TileMemory(std::size_t devices, std::int64_t limit = no_memory_limit) : devices_(devices), limit_(limit) {}

  // Memory of a kind. Throws RuntimeError if there is none.
  using Allocate = std::function<Buffer(std::size_t bytes)>;

  // Throws RuntimeError if there is no memory, or more on the device than the limit.
  CountedBuffer allocate(std::size_t device, std::int64_t bytes, const Allocate& allocate);
  CountedBuffer allocate(std::size_t device, std::int64_t bytes) {
    return allocate(device, bytes, [](std::size_t size) { return Buffer(size); });
  }
  CountedBuffer adopt(std::size_t device, Buffer buffer) { return {std::move(buffer), devices_[device]}; }
  // Memory that belongs to somebody else for the whole of the run.
  void add(std::size_t device, std::int64_t bytes) { devices_[device].add(bytes); }

  // The most that any device had at once.
  std::int64_t peak() const;

 private:
  std::vector<MemoryMeter> devices_;
  std::int64_t limit_;
};

}  // namespace retile
