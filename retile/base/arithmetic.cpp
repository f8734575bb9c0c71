#include "retile/base/arithmetic.h"

#include "retile/base/error.h"

namespace retile {

std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<std::int64_t> checked_product(std::span<const std::int64_t> factors) {
  std::optional<std::int64_t> result = 1;
  for (const std::int64_t factor : factors) {
    result = checked_multiply(*result, factor);
    if (!result) return std::nullopt;
  }
  return result;
}

std::int64_t product(std::span<const std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) result *= factor;
  return result;
}

std::vector<std::int64_t> prime_factors(std::int64_t n) {
  ensure(n > 0, "only positive numbers have prime factors");
  std::vector<std::int64_t> factors;
  for (std::int64_t p = 2; p <= n / p; p += p == 2 ? 1 : 2) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

}  // namespace retile
