// What is allocated on the heap, for tests of memory.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <string>

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

// Whether a command keeps to a cap on all memory of its process, which a sanitizer's own memory breaks.
inline bool is_capped_too_tightly(const std::string& command) {
  return !heap_can_be_measured && command.find("retile rechunk ") != std::string::npos;
}

}  // namespace retile::test
