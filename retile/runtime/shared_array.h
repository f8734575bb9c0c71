// Arrays while a program runs: the tiles that live in this process, and how much memory they take.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "retile/memory/buffer.h"
#include "retile/plan/memory_meter.h"

namespace retile::runtime {

// The row-major bytes of one array's tile on each of this process's devices.
using TileBuffers = std::vector<Buffer>;

// Counted by a meter, which outlives it, as long as it lives: bytes of the device that has the most.
class Array {
 public:
  Array(MemoryMeter& meter, std::int64_t tile_bytes, TileBuffers buffers)
      : tiles(std::move(buffers)), meter_(meter), tile_bytes_(tile_bytes) {
    meter_.add(tile_bytes_);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { meter_.remove(tile_bytes_); }

  std::int64_t tile_bytes() const { return tile_bytes_; }

  TileBuffers tiles;

 private:
  MemoryMeter& meter_;
  std::int64_t tile_bytes_;
};

// Values may share one. Who holds it alone may have the array's memory.
using SharedArray = std::shared_ptr<Array>;

}  // namespace retile::runtime
