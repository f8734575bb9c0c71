// Arrays while a program runs: the tiles that live in this process, and how much memory they take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/engines/array.h"
#include "retile/language/program.h"

namespace retile::runtime {

// The row-major bytes of one array's tile on each of this process's devices.
using TileBuffers = std::vector<Buffer>;

// Bytes per device: all devices have tiles of equal sizes. Additions throw RuntimeError where they do not fit in 63
// bits.
class MemoryMeter {
 public:
  void add(std::int64_t bytes) {
    note(bytes);
    alive_ += bytes;
  }
  void remove(std::int64_t bytes) { alive_ -= bytes; }
  // This much more is needed for a moment.
  void note(std::int64_t bytes) {
    const auto sum = checked_add(alive_, bytes);
    if (!sum) throw RuntimeError("the memory that a device needs does not fit in 63 bits");
    peak_ = std::max(peak_, *sum);
  }

  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t alive_ = 0;
  std::int64_t peak_ = 0;
};

// Counted by a meter, which outlives it, as long as it lives.
class Array {
 public:
  Array(MemoryMeter& meter, std::int64_t tile_bytes, TileBuffers buffers)
      : tiles(std::move(buffers)), meter_(meter), tile_bytes_(tile_bytes) {
    meter_.add(tile_bytes_);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { meter_.remove(tile_bytes_); }

  TileBuffers tiles;

 private:
  MemoryMeter& meter_;
  std::int64_t tile_bytes_;
};

// Values share arrays. Who holds the only one may have the array's memory.
using Value = std::shared_ptr<Array>;

inline std::int64_t tile_bytes(const language::ArrayType& type) {
  return checked_bytes(type.placement.local_size(), bytes_of(type.element));
}

}  // namespace retile::runtime
