// The memory of a process's tiles: where they lie, how much of it is alive, and a limit to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "retile/engines/buffer.h"

namespace retile {

// Bytes of tiles that are alive on one device.
class DeviceMemory {
 public:
  std::int64_t alive() const { return alive_; }
  std::int64_t peak() const { return peak_; }
  void add(std::int64_t bytes);
  void remove(std::int64_t bytes) { alive_ -= bytes; }

 private:
  std::int64_t alive_ = 0;
  std::int64_t peak_ = 0;
};

// A tile's bytes, counted on its device for as long as they are here. The device's memory outlives it.
class CountedBuffer {
 public:
  CountedBuffer() = default;
  CountedBuffer(Buffer buffer, DeviceMemory& memory);
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
  DeviceMemory* memory_ = nullptr;
};

// Bytes that the lists of copies of a prepared run take in a process, unless told (docs/memory.md). Where they need
// more, every execution works copies out anew: slower, but a list for every pair of devices may need more than the
// tiles.
constexpr std::int64_t usual_listed_bytes = 32 << 20;

// All tiles of a run, those that it is given included.
class TileMemory {
 public:
  static constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

  explicit TileMemory(std::size_t devices, std::int64_t limit = no_limit) : devices_(devices), limit_(limit) {}

  // Throws RuntimeError where there is no memory, or more on the device than the limit.
  CountedBuffer allocate(std::size_t device, std::int64_t bytes);
  CountedBuffer adopt(std::size_t device, Buffer buffer) { return {std::move(buffer), devices_[device]}; }
  // Memory that belongs to somebody else for the whole of the run.
  void add(std::size_t device, std::int64_t bytes) { devices_[device].add(bytes); }

  // The most that any device had at once.
  std::int64_t peak() const;

 private:
  std::vector<DeviceMemory> devices_;
  std::int64_t limit_;
};

}  // namespace retile
