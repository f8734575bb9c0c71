#include "retile/base/arithmetic.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "retile/base/error.h"

namespace retile {
namespace {

using Factors = std::vector<std::int64_t>;
__extension__ using Wide = __int128;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();

std::optional<std::int64_t> narrowed(Wide value) {
  if (value < smallest || value > largest) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

// Values of every magnitude, so that results fall on both sides of the limit.
rc::Gen<std::int64_t> any_magnitude() {
  return rc::gen::apply([](std::int64_t value, int shift) { return value >> shift; },
                        rc::gen::arbitrary<std::int64_t>(), rc::gen::inRange(0, 63));
}

TEST(MultiplyDivideUp, takes_products_of_any_size) {
  EXPECT_EQ(multiply_divide_up(10, 1, 4), 3);
  EXPECT_EQ(multiply_divide_up(10, 2, 4), 5);
  EXPECT_EQ(multiply_divide_up(10, 0, 4), 0);
  EXPECT_EQ(multiply_divide_up(largest, largest - 1, largest), largest - 1);
}

TEST(CheckedMultiply, gives_the_product_up_to_the_limit) {
  EXPECT_EQ(checked_multiply(6, 7), 42);
  EXPECT_EQ(checked_multiply(largest, 1), largest);
  EXPECT_EQ(checked_multiply(std::int64_t{1} << 31, (std::int64_t{1} << 32) - 1), 9223372034707292160);
  EXPECT_EQ(checked_multiply(largest, 0), 0);
}

TEST(CheckedMultiply, gives_nothing_beyond_the_limit) {
  EXPECT_EQ(checked_multiply(std::int64_t{1} << 31, std::int64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_multiply(largest, 2), std::nullopt);
  EXPECT_EQ(checked_multiply(smallest, -1), std::nullopt);
}

RC_GTEST_PROP(CheckedMultiply, agrees_with_wider_arithmetic, ()) {
  const std::int64_t a = *rc::gen::scale(100, any_magnitude());
  const std::int64_t b = *rc::gen::scale(100, any_magnitude());
  RC_ASSERT(checked_multiply(a, b) == narrowed(Wide{a} * b));
}

TEST(CheckedAdd, gives_nothing_beyond_the_limit) {
  EXPECT_EQ(checked_add(largest - 1, 1), largest);
  EXPECT_EQ(checked_add(largest, 1), std::nullopt);
  EXPECT_EQ(checked_add(smallest, -1), std::nullopt);
}

RC_GTEST_PROP(CheckedAdd, agrees_with_wider_arithmetic, ()) {
  const std::int64_t a = *rc::gen::scale(100, any_magnitude());
  const std::int64_t b = *rc::gen::scale(100, any_magnitude());
  RC_ASSERT(checked_add(a, b) == narrowed(Wide{a} + b));
}

TEST(CheckedProduct, of_no_factors_is_1) { EXPECT_EQ(checked_product(Factors{}), 1); }

TEST(CheckedProduct, gives_the_product_up_to_the_limit) {
  EXPECT_EQ(checked_product(Factors{2, 3, 7}), 42);
  EXPECT_EQ(checked_product(Factors{largest, 1, 1}), largest);
  EXPECT_EQ(checked_product(Factors(62, 2)), std::int64_t{1} << 62);
}

TEST(CheckedProduct, gives_nothing_beyond_the_limit) {
  EXPECT_EQ(checked_product(Factors(63, 2)), std::nullopt);
  EXPECT_EQ(checked_product(Factors(64, 2)), std::nullopt);  // 0 in wrapping arithmetic
  EXPECT_EQ(checked_product(Factors{largest, 2, 1}), std::nullopt);
}

TEST(Product, is_1_for_no_factors_and_reaches_the_limit) {
  EXPECT_EQ(product(Factors{}), 1);
  EXPECT_EQ(product(Factors{2, 3, 7}), 42);
  EXPECT_EQ(product(Factors{7, 7, 73, 127, 337, 92737, 649657}), largest);
}

TEST(PrimeFactors, are_ascending_with_repetition) {
  EXPECT_EQ(prime_factors(1), Factors{});
  EXPECT_EQ(prime_factors(2), Factors{2});
  EXPECT_EQ(prime_factors(12), (Factors{2, 2, 3}));
  EXPECT_EQ(prime_factors(49), (Factors{7, 7}));
  EXPECT_EQ(prime_factors(2 * 3 * 5 * 7 * 11), (Factors{2, 3, 5, 7, 11}));
}

TEST(PrimeFactors, of_large_numbers) {
  EXPECT_EQ(prime_factors(2147483647), Factors{2147483647});
  EXPECT_EQ(prime_factors(std::int64_t{1} << 62), Factors(62, 2));
  EXPECT_EQ(prime_factors(largest), (Factors{7, 7, 73, 127, 337, 92737, 649657}));
}

TEST(PrimeFactors, of_every_number_to_20000_are_primes_that_make_it) {
  const auto is_prime = [](std::int64_t n) {
    for (std::int64_t d = 2; d * d <= n; ++d) {
      if (n % d == 0) return false;
    }
    return n > 1;
  };
  for (std::int64_t n = 1; n <= 20000; ++n) {
    const Factors factors = prime_factors(n);
    ASSERT_EQ(product(factors), n);
    ASSERT_TRUE(std::is_sorted(factors.begin(), factors.end())) << n;
    ASSERT_TRUE(std::all_of(factors.begin(), factors.end(), is_prime)) << n;
  }
}

TEST(PrimeFactors, of_numbers_below_1_are_a_bug) {
  EXPECT_THROW(prime_factors(0), InternalError);
  EXPECT_THROW(prime_factors(-6), InternalError);
}

}  // namespace
}  // namespace retile
