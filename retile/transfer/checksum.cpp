#include "retile/transfer/checksum.h"

#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace retile::transfer {
namespace {

constexpr std::uint32_t castagnoli = 0x82F63B78U;  // bits reversed

using Table = std::array<std::uint32_t, 256>;

constexpr Table make_table() {
  Table table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? castagnoli : 0);
    table[i] = crc;
  }
  return table;
}

constexpr Table table = make_table();

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

using Lanes = std::array<std::uint32_t, 4>;

void add_by_table(Lanes& lanes, const std::byte* bytes, std::size_t units) {
  for (; units > 0; --units, bytes += Checksum::unit) {
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = crc32c_by_table(lanes[i], word_at(bytes + 8 * i));
  }
}

#if defined(__x86_64__)

bool has_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

[[gnu::target("sse4.2")]] std::uint32_t crc32c_by_instruction(std::uint32_t crc, std::uint64_t word) {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
}

[[gnu::target("sse4.2")]] void add_by_instruction(Lanes& lanes, const std::byte* bytes, std::size_t units) {
  std::uint64_t a = lanes[0];
  std::uint64_t b = lanes[1];
  std::uint64_t c = lanes[2];
  std::uint64_t d = lanes[3];
  for (; units > 0; --units, bytes += Checksum::unit) {
    a = _mm_crc32_u64(a, word_at(bytes));
    b = _mm_crc32_u64(b, word_at(bytes + 8));
    c = _mm_crc32_u64(c, word_at(bytes + 16));
    d = _mm_crc32_u64(d, word_at(bytes + 24));
  }
  lanes = {static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(c),
           static_cast<std::uint32_t>(d)};
}

#else

bool has_instruction() { return false; }
std::uint32_t crc32c_by_instruction(std::uint32_t crc, std::uint64_t word) { return crc32c_by_table(crc, word); }
void add_by_instruction(Lanes& lanes, const std::byte* bytes, std::size_t units) { add_by_table(lanes, bytes, units); }

#endif

}  // namespace

std::uint32_t crc32c_by_table(std::uint32_t crc, std::uint64_t word) {
  for (unsigned byte = 0; byte < 8; ++byte) crc = (crc >> 8U) ^ table[(crc ^ (word >> (8 * byte))) & 0xFFU];
  return crc;
}

std::uint32_t crc32c(std::uint32_t crc, std::uint64_t word) {
  return has_instruction() ? crc32c_by_instruction(crc, word) : crc32c_by_table(crc, word);
}

void Checksum::add(std::span<const std::byte> bytes) {
  const std::size_t units = bytes.size() / unit;
  (has_instruction() ? add_by_instruction : add_by_table)(lanes_, bytes.data(), units);
  const std::size_t rest = bytes.size() % unit;
  if (rest == 0) return;
  std::array<std::byte, unit> last{};
  std::memcpy(last.data(), bytes.data() + units * unit, rest);
  add_by_table(lanes_, last.data(), 1);
}

std::uint32_t Checksum::value() const {
  std::uint32_t crc = 0;
  for (const std::uint32_t lane : lanes_) crc = crc32c(crc, lane);
  return crc;
}

}  // namespace retile::transfer
