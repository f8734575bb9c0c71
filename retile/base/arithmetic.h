// Checked 64-bit arithmetic and prime factors. Sizes are positive and fit in 63 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace retile {

// Nothing where the result does not fit.
std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b);

// The product of positive factors; 1 for none; nothing where it does not fit.
std::optional<std::int64_t> checked_product(std::span<const std::int64_t> factors);

// The product of factors whose product is known to fit: an invariant of every type and box.
std::int64_t product(std::span<const std::int64_t> factors);

// The quotient rounded up. `a` is not negative, `b` is positive.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

// a · b / c rounded up, however large a · b is; the result is no larger than `a`. None is negative, `c` is positive.
constexpr std::int64_t multiply_divide_up(std::int64_t a, std::int64_t b, std::int64_t c) {
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>((static_cast<Wide>(a) * b + c - 1) / c);
}

// Ascending, with repetition: 12 gives 2, 2, 3. Empty for 1. `n` must be positive.
std::vector<std::int64_t> prime_factors(std::int64_t n);

}  // namespace retile
