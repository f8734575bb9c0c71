// CRC-32C (Castagnoli): the checksum of messages and of chunks in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace retile {

// The checksum of bytes, or of bytes that follow others: crc32c(b, crc32c(a)) is that of a and b. Every change of up to
// 32 bits in a row is found, and of all others all but one in 2^32.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

// All ways to compute it that this processor has, the fastest last. They give the same numbers.
using Crc32c = std::uint32_t (*)(std::span<const std::byte> bytes, std::uint32_t before);
std::vector<Crc32c> crc32c_ways();

}  // namespace retile
