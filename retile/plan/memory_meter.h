// A meter of the bytes that are alive on a device, and their peak.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile {

// The number of bytes. Throws RuntimeError where it overflowed.
inline std::int64_t fitting(std::optional<std::int64_t> bytes) {
  if (bytes) return *bytes;
  throw RuntimeError("the memory that a device needs does not fit in 63 bits");
}

inline std::int64_t add_bytes(std::int64_t a, std::int64_t b) { return fitting(checked_add(a, b)); }

class MemoryMeter {
 public:
  void add(std::int64_t bytes) {
    note(bytes);
    alive_ += bytes;
  }
  void remove(std::int64_t bytes) { alive_ -= bytes; }
  // Counts bytes that are needed only for a moment.
  void note(std::int64_t bytes) { peak_ = std::max(peak_, add_bytes(alive_, bytes)); }

  std::int64_t alive() const { return alive_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t alive_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace retile
