// Checksums of messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace retile::transfer {

// A CRC-32C of each of four lanes, to which the words of eight bytes are dealt out in turn, and of these four. So four
// words are on their way at once. Every change of up to 32 bits in a row of one word is found, and of all others all
// but one in 2^32.
class Checksum {
 public:
  // More bytes. All but the last are a multiple of `unit` long.
  static constexpr std::size_t unit = 32;
  void add(std::span<const std::byte> bytes);
  std::uint32_t value() const;

 private:
  std::array<std::uint32_t, 4> lanes_{1, 2, 3, 4};
};

// The CRC-32C (Castagnoli) of a word after what `crc` stands for, by the processor's instruction where it has one, and
// by a table.
std::uint32_t crc32c(std::uint32_t crc, std::uint64_t word);
std::uint32_t crc32c_by_table(std::uint32_t crc, std::uint64_t word);

}  // namespace retile::transfer
