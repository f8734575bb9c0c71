// How much memory a piece of code has taken from the heap at once. Linking this replaces operator new.
#pragma once

#include <cstdint>

namespace retile::bench {

// Counts from its construction, on all threads; at most one lives at a time.
class HeapMeter {
 public:
  HeapMeter();
  HeapMeter(const HeapMeter&) = delete;
  HeapMeter& operator=(const HeapMeter&) = delete;
  HeapMeter(HeapMeter&&) = delete;
  HeapMeter& operator=(HeapMeter&&) = delete;
  ~HeapMeter();

  std::int64_t peak_bytes() const;
};

}  // namespace retile::bench
