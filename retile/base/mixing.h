// Numbers that look random and are the same everywhere: made-up data, checksums.
#pragma once

#include <cstdint>

namespace retile {

// A bijective mixing of 64 bits (the finalizer of SplitMix64).
constexpr std::uint64_t mix_bits(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

}  // namespace retile
