// What is allocated on the heap, for tests of memory.
#pragma once

#include <malloc.h>

#include <cstdint>

namespace retile::test {

// Sanitizers have heaps of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool heap_can_be_measured = false;
#else
constexpr bool heap_can_be_measured = true;
#endif

// Bytes that are allocated.
inline std::int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace retile::test
