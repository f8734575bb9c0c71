#include "retile/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace retile {
namespace {

constexpr std::uint32_t castagnoli = 0x82F63B78U;  // bits reversed: the highest is x^0

constexpr std::uint32_t times_x(std::uint32_t polynomial) {
  return (polynomial >> 1U) ^ ((polynomial & 1U) != 0 ? castagnoli : 0);
}

constexpr auto table = [] {
  std::array<std::uint32_t, 256> entries{};
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    entries[i] = i;
    for (int bit = 0; bit < 8; ++bit) entries[i] = times_x(entries[i]);
  }
  return entries;
}();

std::uint32_t add_by_table(std::span<const std::byte> bytes, std::uint32_t state) {
  for (const std::byte byte : bytes) {
    state = (state >> 8U) ^ table[(state ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU];
  }
  return state;
}

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before) {
  return ~add_by_table(bytes, ~before);
}

#if defined(__x86_64__)

// x^exponent.
constexpr std::int64_t power(std::size_t exponent) {
  std::uint32_t result = 0x80000000U;
  for (std::size_t i = 0; i < exponent; ++i) result = times_x(result);
  return static_cast<std::int64_t>(result);
}

// NOLINTBEGIN(*-simd-intrinsics): the instructions have no other name
#define RETILE_NARROW [[gnu::target("sse4.2,pclmul")]]
#define RETILE_WIDE [[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.2")]]

// Four runs of so many bytes one behind the other are on their way at once.
constexpr std::size_t run = 1024;

// The state after so many more bytes of zeroes, as its exponent says: 8 * bytes - 33.
RETILE_NARROW inline std::uint64_t moved(std::uint64_t state, std::int64_t factor) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<std::int64_t>(state)), _mm_cvtsi64_si128(factor), 0x00);
  return _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)));
}

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

RETILE_NARROW std::uint32_t crc32c_by_words(std::span<const std::byte> bytes, std::uint32_t before) {
  constexpr std::int64_t by_run = power(8 * run - 33);
  constexpr std::int64_t by_two = power(16 * run - 33);
  constexpr std::int64_t by_three = power(24 * run - 33);
  std::uint64_t state = ~before;
  for (; bytes.size() >= 4 * run; bytes = bytes.subspan(4 * run)) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    std::uint64_t fourth = 0;
    for (const std::byte* at = bytes.data(); at < bytes.data() + run; at += 8) {
      state = _mm_crc32_u64(state, word_at(at));
      second = _mm_crc32_u64(second, word_at(at + run));
      third = _mm_crc32_u64(third, word_at(at + 2 * run));
      fourth = _mm_crc32_u64(fourth, word_at(at + 3 * run));
    }
    state = moved(state, by_three) ^ moved(second, by_two) ^ moved(third, by_run) ^ fourth;
  }
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) state = _mm_crc32_u64(state, word_at(bytes.data()));
  return ~add_by_table(bytes, static_cast<std::uint32_t>(state));
}

// Folding (Gopal and others, Fast CRC computation for generic polynomials, 2009): 16 bytes times x^(8 * distance) are
// congruent to two products of 64 bits, which are added to the 16 bytes that lie so far behind.
struct Fold {
  std::int64_t first;  // factor of the first eight bytes
  std::int64_t last;
};

constexpr Fold fold_by(std::size_t distance) { return {power(8 * distance + 31), power(8 * distance - 33)}; }

RETILE_WIDE inline __m512i folded(__m512i sum, __m512i next, Fold fold) {
  const __m512i factors =
      _mm512_set_epi64(fold.last, fold.first, fold.last, fold.first, fold.last, fold.first, fold.last, fold.first);
  const __m512i first = _mm512_clmulepi64_epi128(sum, factors, 0x00);
  const __m512i last = _mm512_clmulepi64_epi128(sum, factors, 0x11);
  return _mm512_ternarylogic_epi64(first, last, next, 0x96);  // the exclusive or of all three
}

RETILE_WIDE std::uint32_t crc32c_by_folding(std::span<const std::byte> bytes, std::uint32_t before) {
  constexpr std::size_t step = 256;  // four sums of 64 bytes
  constexpr Fold by_64 = fold_by(64);
  constexpr Fold by_step = fold_by(step);
  if (bytes.size() < step) return crc32c_by_words(bytes, before);
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size() / step * step;
  const __m512i state = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~before)));
  __m512i a = _mm512_xor_si512(_mm512_loadu_si512(at), state);
  __m512i b = _mm512_loadu_si512(at + 64);
  __m512i c = _mm512_loadu_si512(at + 128);
  __m512i d = _mm512_loadu_si512(at + 192);
  for (at += step; at < end; at += step) {
    a = folded(a, _mm512_loadu_si512(at), by_step);
    b = folded(b, _mm512_loadu_si512(at + 64), by_step);
    c = folded(c, _mm512_loadu_si512(at + 128), by_step);
    d = folded(d, _mm512_loadu_si512(at + 192), by_step);
  }
  // 64 bytes whose CRC is that of all before them.
  std::array<std::byte, 64> rest{};
  _mm512_storeu_si512(rest.data(), folded(folded(folded(a, b, by_64), c, by_64), d, by_64));
  const std::uint32_t crc = crc32c_by_words(rest, ~std::uint32_t{0});  // a state of 0
  return crc32c_by_words(bytes.subspan(bytes.size() / step * step), crc);
}
// NOLINTEND(*-simd-intrinsics)

#endif

}  // namespace

std::vector<Crc32c> crc32c_ways() {
  std::vector<Crc32c> ways{crc32c_by_table};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") == 0 || __builtin_cpu_supports("pclmul") == 0) return ways;
  ways.push_back(crc32c_by_words);
  if (__builtin_cpu_supports("avx512f") == 0 || __builtin_cpu_supports("vpclmulqdq") == 0) return ways;
  ways.push_back(crc32c_by_folding);
#endif
  return ways;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  static const Crc32c fastest = crc32c_ways().back();
  return fastest(bytes, before);
}

}  // namespace retile
