// Every local operation for every element type, against the definition written out element by element.
#include "retile/runtime/local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "retile/base/error.h"
#include "retile/language/liveness.h"
#include "tests/support/local_arrays.h"

namespace retile::test {
namespace {

using language::LocalFunction;
using language::LocalInstruction;
using language::LocalOp;

// --- Random arrays.

Shape arbitrary_shape(int least_rank, int most_rank) {
  const int rank = *rc::gen::inRange(least_rank, most_rank + 1);
  return *rc::gen::container<Shape>(static_cast<std::size_t>(rank), rc::gen::inRange<std::int64_t>(1, 5));
}

template <typename Number>
std::vector<Number> special_numbers() {
  using Limits = std::numeric_limits<Number>;
  if constexpr (std::is_integral_v<Number>) {
    return {0, 1, -1, 2, 3, -7, 1000, Limits::min(), Limits::min() + 1, Limits::max()};
  } else {
    std::vector<Number> numbers{Limits::max(),      Limits::min(),       Limits::denorm_min(),
                                Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()};
    for (const double number : {0.0, -0.0, 1.0, -1.5, 0.1, 3e9, -3e9, 1e-30, 88.5, -2147483648.0, 2147483647.5}) {
      numbers.push_back(static_cast<Number>(number));
    }
    return numbers;
  }
}

template <typename Number>
LocalArray<Number> arbitrary_array(const Shape& shape) {
  const auto count = static_cast<std::size_t>(product(shape));
  return {shape, *rc::gen::container<std::vector<Number>>(count, rc::gen::elementOf(special_numbers<Number>()))};
}

// Sums of products of these are exact in f32, in whatever order.
template <typename Number>
LocalArray<Number> exact_array(const Shape& shape) {
  LocalArray<Number> array{shape, {}};
  for (std::int64_t i = 0; i < product(shape); ++i) {
    const int numerator = *rc::gen::inRange(-64, 64);
    array.elements.push_back(
        static_cast<Number>(std::is_integral_v<Number> ? numerator * 40000000.0 : numerator / 8.0));
  }
  return array;
}

// --- Definitions.

template <typename Number>
Number wrapped(std::int64_t value) {
  return static_cast<Number>(static_cast<std::uint32_t>(value));
}

template <typename Number>
Number naive(LocalOp op, Number a, Number b) {
  if constexpr (std::is_integral_v<Number>) {
    const std::int64_t x = a;
    const std::int64_t y = b;
    switch (op) {
      case LocalOp::add:
        return wrapped<Number>(x + y);
      case LocalOp::subtract:
        return wrapped<Number>(x - y);
      case LocalOp::multiply:
        return wrapped<Number>(x * y);
      case LocalOp::divide:
        return wrapped<Number>(x / y);
      default:
        return std::max(a, b);
    }
  }
  switch (op) {
    case LocalOp::add:
      return a + b;
    case LocalOp::subtract:
      return a - b;
    case LocalOp::multiply:
      return a * b;
    case LocalOp::divide:
      return a / b;
    default:
      if (std::isnan(static_cast<double>(a)) || std::isnan(static_cast<double>(b))) return static_cast<Number>(NAN);
      return a > b ? a : b;
  }
}

template <typename Number>
class LocalOps : public ::testing::Test {};
using NumberTypes = ::testing::Types<float, double, std::int32_t>;
TYPED_TEST_SUITE(LocalOps, NumberTypes);

template <typename Number>
class LocalFloats : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LocalFloats, Floats);

#define EXPECT_PROPERTY(...) EXPECT_TRUE(rc::check(__VA_ARGS__))

// --- Arithmetic.

TYPED_TEST(LocalOps, arithmetic_acts_element_by_element) {
  for (const LocalOp op : {LocalOp::add, LocalOp::subtract, LocalOp::multiply, LocalOp::divide, LocalOp::max}) {
    EXPECT_PROPERTY([&] {
      const Shape shape = arbitrary_shape(0, 3);
      const auto a = arbitrary_array<TypeParam>(shape);
      auto b = arbitrary_array<TypeParam>(shape);
      if (op == LocalOp::divide && std::is_integral_v<TypeParam>) {
        for (TypeParam& divisor : b.elements) divisor = divisor == 0 ? 1 : divisor;
      }
      LocalArray<TypeParam> expected{shape, {}};
      for (std::size_t i = 0; i < a.elements.size(); ++i) {
        expected.elements.push_back(naive(op, a.elements[i], b.elements[i]));
      }
      LocalInstruction instruction;
      instruction.op = op;
      RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a, b}, shape) == expected));
    });
  }
}

TYPED_TEST(LocalOps, negate_and_relu_act_element_by_element) {
  EXPECT_PROPERTY([] {
    const auto a = arbitrary_array<TypeParam>(arbitrary_shape(0, 3));
    LocalArray<TypeParam> negated = a;
    LocalArray<TypeParam> clipped = a;
    for (TypeParam& x : negated.elements) {
      if constexpr (std::is_integral_v<TypeParam>) {
        x = wrapped<TypeParam>(-std::int64_t{x});
      } else {
        x = -x;
      }
    }
    for (TypeParam& x : clipped.elements) {
      if (x <= 0) x = 0;
    }
    LocalInstruction instruction;
    instruction.op = LocalOp::negate;
    RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a}, a.shape) == negated));
    instruction.op = LocalOp::relu;
    RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a}, a.shape) == clipped));
  });
}

TYPED_TEST(LocalFloats, functions_act_element_by_element) {
  EXPECT_PROPERTY([] {
    const auto a = arbitrary_array<TypeParam>(arbitrary_shape(0, 3));
    const auto check = [&](LocalOp op, TypeParam (*function)(TypeParam)) {
      LocalArray<TypeParam> expected = a;
      for (TypeParam& x : expected.elements) x = function(x);
      LocalInstruction instruction;
      instruction.op = op;
      RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a}, a.shape) == expected));
    };
    check(LocalOp::exp, [](TypeParam x) { return std::exp(x); });
    check(LocalOp::tanh, [](TypeParam x) { return std::tanh(x); });
    check(LocalOp::sqrt, [](TypeParam x) { return std::sqrt(x); });
  });
}

TEST(Local, division_of_an_integer_by_zero_names_the_statement_and_the_element) {
  const LocalArray<std::int32_t> a{{2, 3}, {1, 2, 3, 4, 5, 6}};
  const LocalArray<std::int32_t> b{{2, 3}, {1, 1, 1, 1, 0, 0}};
  LocalInstruction instruction;
  instruction.op = LocalOp::divide;
  instruction.range = {4, 9};
  try {
    evaluate_one<std::int32_t, std::int32_t>(instruction, {a, b}, {2, 3});
    FAIL() << "nothing was thrown";
  } catch (const RuntimeError& error) {
    EXPECT_STREQ(error.what(),
                 "sample.spmd:1:5: error: device 5 divides by zero at [1, 1] of its tile\n"
                 "    1 | q = a / b\n"
                 "      |     ^~~~~");
  }
}

// --- Conversions.

template <typename Target, typename Source>
void check_conversions() {
  const LocalArray<Source> a{{static_cast<std::int64_t>(special_numbers<Source>().size())}, special_numbers<Source>()};
  LocalArray<Target> expected{a.shape, {}};
  for (const Source x : a.elements) {
    if constexpr (std::is_integral_v<Target> && std::is_floating_point_v<Source>) {
      const double whole = std::isnan(x) ? 0 : std::trunc(std::min(2147483647.0, std::max(-2147483648.0, double{x})));
      expected.elements.push_back(static_cast<Target>(whole));
    } else {
      expected.elements.push_back(static_cast<Target>(x));
    }
  }
  LocalInstruction instruction;
  instruction.op = LocalOp::convert;
  EXPECT_TRUE((evaluate_one<Target, Source>(instruction, {a}, a.shape) == expected))
      << typeid(Source).name() << " to " << typeid(Target).name();
}

TYPED_TEST(LocalOps, converts_from_every_type) {
  check_conversions<TypeParam, float>();
  check_conversions<TypeParam, double>();
  check_conversions<TypeParam, std::int32_t>();
}

TEST(Local, conversions_to_integers_saturate) {
  const LocalArray<float> a{{6}, {NAN, INFINITY, -INFINITY, -1.9F, 2147483648.0F, 2147483520.0F}};
  LocalInstruction instruction;
  instruction.op = LocalOp::convert;
  EXPECT_THAT((evaluate_one<std::int32_t, float>(instruction, {a}, {6}).elements),
              ::testing::ElementsAre(0, INT32_MAX, INT32_MIN, -1, INT32_MAX, 2147483520));
}

// --- What makes arrays.

TYPED_TEST(LocalOps, literals_fill_the_shape) {
  LocalInstruction instruction;
  instruction.op = LocalOp::literal;
  instruction.number = -3;
  const LocalArray<TypeParam> expected{{2, 3}, std::vector<TypeParam>(6, TypeParam{-3})};
  EXPECT_TRUE((evaluate_one<TypeParam, TypeParam>(instruction, {}, {2, 3}) == expected));
  EXPECT_TRUE((evaluate_one<TypeParam, TypeParam>(instruction, {}, {}) == LocalArray<TypeParam>{{}, {-3}}));
}

TYPED_TEST(LocalOps, iota_counts_along_a_dimension) {
  EXPECT_PROPERTY([] {
    const Shape shape = arbitrary_shape(1, 4);
    const auto dimension = *rc::gen::inRange<std::size_t>(0, shape.size());
    LocalInstruction instruction;
    instruction.op = LocalOp::iota;
    instruction.numbers = {static_cast<std::int64_t>(dimension)};
    const auto expected =
        array_of<TypeParam>(shape, [&](const Shape& index) { return static_cast<TypeParam>(index[dimension]); });
    RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {}, shape) == expected));
  });
}

TEST(Local, coordinates_are_those_of_the_device) {
  const std::vector<std::int32_t> coordinates{1, 2, 0};  // of device 5 along x, y, z
  for (int axis = 0; axis < 3; ++axis) {
    LocalInstruction instruction;
    instruction.op = LocalOp::coordinate;
    instruction.index = axis;
    EXPECT_THAT((evaluate_one<std::int32_t, std::int32_t>(instruction, {}, {}).elements),
                ::testing::ElementsAre(coordinates[static_cast<std::size_t>(axis)]));
  }
}

// --- Matrix products.

template <typename Number>
LocalArray<Number> naive_matmul(const LocalArray<Number>& a, const LocalArray<Number>& b) {
  Shape shape = a.shape;
  shape.back() = b.shape.back();
  return array_of<Number>(shape, [&](const Shape& index) {
    Number sum = 0;
    Shape left = index;
    Shape right = index;
    for (std::int64_t k = 0; k < a.shape.back(); ++k) {
      left.back() = k;
      right[right.size() - 2] = k;
      sum = naive(LocalOp::add, sum, naive(LocalOp::multiply, element_at(a, left), element_at(b, right)));
    }
    return sum;
  });
}

TYPED_TEST(LocalOps, matmul_multiplies_every_batch) {
  EXPECT_PROPERTY([] {
    Shape left = arbitrary_shape(0, 2);
    Shape right = left;
    const auto size = rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 5), rc::gen::inRange<std::int64_t>(5, 40));
    const std::int64_t inner = *size;
    left.insert(left.end(), {*size, inner});
    right.insert(right.end(), {inner, *size});
    const auto a = exact_array<TypeParam>(left);
    const auto b = exact_array<TypeParam>(right);
    const auto expected = naive_matmul(a, b);
    LocalInstruction instruction;
    instruction.op = LocalOp::matmul;
    // Equal numbers: which zero a sum of zeros is, is Eigen's business.
    RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a, b}, expected.shape).elements == expected.elements));
  });
}

TYPED_TEST(LocalFloats, matmul_gives_the_same_bits_wherever_its_operands_lie) {
  constexpr std::int64_t size = 67;
  LocalArray<TypeParam> a{{size, size}, {}};
  for (std::int64_t i = 0; i < size * size; ++i) a.elements.push_back(static_cast<TypeParam>(std::sin(i) / 3));
  LocalFunction function;
  add_parameter(function, a.type());
  LocalInstruction instruction;
  instruction.op = LocalOp::matmul;
  instruction.operands = {0, 0};
  instruction.type = a.type();
  function.results.push_back(add_instruction(function, instruction));
  const std::size_t bytes = a.elements.size() * sizeof(TypeParam);
  std::vector<TypeParam> room(a.elements.size() + 16);
  std::optional<Buffer> first;
  for (std::size_t shift = 0; shift < 16; ++shift) {
    std::memcpy(room.data() + shift, a.elements.data(), bytes);
    Buffer result = std::move(evaluate(function, {reinterpret_cast<const std::byte*>(room.data() + shift)}).arrays[0]);
    if (!first) first = result;
    EXPECT_TRUE(result == *first) << shift;
  }
}

// --- Rearrangements.

TYPED_TEST(LocalOps, transpose_permutes_dimensions) {
  EXPECT_PROPERTY([] {
    const auto a = arbitrary_array<TypeParam>(arbitrary_shape(0, 4));
    LocalInstruction instruction;
    instruction.op = LocalOp::transpose;
    instruction.numbers.resize(a.shape.size());
    for (std::size_t d = 0; d < a.shape.size(); ++d) instruction.numbers[d] = static_cast<std::int64_t>(d);
    for (std::size_t d = a.shape.size(); d-- > 1;) {
      std::swap(instruction.numbers[d], instruction.numbers[*rc::gen::inRange<std::size_t>(0, d + 1)]);
    }
    Shape shape;
    for (const std::int64_t d : instruction.numbers) shape.push_back(a.shape[static_cast<std::size_t>(d)]);
    const auto expected = array_of<TypeParam>(shape, [&](const Shape& index) {
      Shape source(index.size());
      for (std::size_t d = 0; d < index.size(); ++d)
        source[static_cast<std::size_t>(instruction.numbers[d])] = index[d];
      return element_at(a, source);
    });
    RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a}, shape) == expected));
  });
}

TYPED_TEST(LocalOps, reshape_keeps_the_row_major_order) {
  EXPECT_PROPERTY([] {
    const Shape shape = arbitrary_shape(0, 4);
    const auto a = arbitrary_array<TypeParam>(shape);
    LocalInstruction instruction;
    instruction.op = LocalOp::reshape;
    const LocalArray<TypeParam> expected{{product(shape)}, a.elements};
    RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a}, expected.shape) == expected));
  });
}

TYPED_TEST(LocalOps, broadcast_repeats_dimensions_of_size_one) {
  EXPECT_PROPERTY([] {
    const Shape shape = arbitrary_shape(0, 4);
    const auto added = *rc::gen::inRange<std::size_t>(0, shape.size() + 1);
    Shape operand_shape(shape.begin() + static_cast<std::ptrdiff_t>(added), shape.end());
    for (std::int64_t& size : operand_shape) size = *rc::gen::element<std::int64_t>(1, size);
    const auto a = arbitrary_array<TypeParam>(operand_shape);
    LocalInstruction instruction;
    instruction.op = LocalOp::broadcast;
    const auto expected = array_of<TypeParam>(shape, [&](const Shape& index) {
      Shape source(index.begin() + static_cast<std::ptrdiff_t>(added), index.end());
      for (std::size_t d = 0; d < source.size(); ++d) source[d] = operand_shape[d] == 1 ? 0 : source[d];
      return element_at(a, source);
    });
    RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a}, shape) == expected));
  });
}

TYPED_TEST(LocalOps, slice_keeps_a_box) {
  EXPECT_PROPERTY([] {
    const auto a = arbitrary_array<TypeParam>(arbitrary_shape(0, 4));
    Shape lo;
    Shape hi;
    Shape shape;
    for (const std::int64_t size : a.shape) {
      lo.push_back(*rc::gen::inRange<std::int64_t>(0, size));
      hi.push_back(*rc::gen::inRange<std::int64_t>(lo.back() + 1, size + 1));
      shape.push_back(hi.back() - lo.back());
    }
    LocalInstruction instruction;
    instruction.op = LocalOp::slice;
    instruction.numbers = lo;
    instruction.numbers.insert(instruction.numbers.end(), hi.begin(), hi.end());
    const auto expected = array_of<TypeParam>(shape, [&](const Shape& index) {
      Shape source = index;
      for (std::size_t d = 0; d < source.size(); ++d) source[d] += lo[d];
      return element_at(a, source);
    });
    RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a}, shape) == expected));
  });
}

TYPED_TEST(LocalOps, concat_puts_operands_one_after_the_other) {
  EXPECT_PROPERTY([] {
    Shape shape = arbitrary_shape(1, 3);
    const auto dimension = *rc::gen::inRange<std::size_t>(0, shape.size());
    const auto lengths = *rc::gen::nonEmpty(rc::gen::container<Shape>(rc::gen::inRange<std::int64_t>(1, 4)));
    std::vector<LocalArray<TypeParam>> operands;
    shape[dimension] = 0;
    for (const std::int64_t length : lengths) {
      Shape part = shape;
      part[dimension] = length;
      operands.push_back(arbitrary_array<TypeParam>(part));
    }
    for (const std::int64_t length : lengths) shape[dimension] += length;
    LocalInstruction instruction;
    instruction.op = LocalOp::concat;
    instruction.numbers = {static_cast<std::int64_t>(dimension)};
    const auto expected = array_of<TypeParam>(shape, [&](const Shape& index) {
      Shape source = index;
      std::size_t operand = 0;
      for (; source[dimension] >= lengths[operand]; ++operand) source[dimension] -= lengths[operand];
      return element_at(operands[operand], source);
    });
    RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, operands, shape) == expected));
  });
}

// --- Reductions.

TYPED_TEST(LocalOps, reductions_fold_in_row_major_order) {
  for (const LocalOp op : {LocalOp::reduce_sum, LocalOp::reduce_max}) {
    EXPECT_PROPERTY([&] {
      const auto a = arbitrary_array<TypeParam>(arbitrary_shape(1, 4));
      LocalInstruction instruction;
      instruction.op = op;
      Shape shape;
      for (std::size_t d = 0; d < a.shape.size(); ++d) {
        if (*rc::gen::arbitrary<bool>()) {
          instruction.numbers.push_back(static_cast<std::int64_t>(d));
        } else {
          shape.push_back(a.shape[d]);
        }
      }
      std::map<Shape, TypeParam> totals;
      for_each_index(a.shape, [&](const Shape& index) {
        Shape kept;
        for (std::size_t d = 0; d < index.size(); ++d) {
          const auto& gone = instruction.numbers;
          if (std::find(gone.begin(), gone.end(), static_cast<std::int64_t>(d)) == gone.end()) kept.push_back(index[d]);
        }
        const TypeParam element = element_at(a, index);
        const auto [total, is_first] = totals.try_emplace(kept, element);
        const LocalOp fold = op == LocalOp::reduce_sum ? LocalOp::add : LocalOp::max;
        if (!is_first) total->second = naive(fold, total->second, element);
      });
      const auto expected = array_of<TypeParam>(shape, [&](const Shape& index) { return totals.at(index); });
      RC_ASSERT((evaluate_one<TypeParam, TypeParam>(instruction, {a}, shape) == expected));
    });
  }
}

TEST(Local, sums_keep_the_sign_of_zero_and_the_order) {
  LocalInstruction instruction;
  instruction.op = LocalOp::reduce_sum;
  instruction.numbers = {0};
  const auto sum = [&](std::vector<float> elements) {
    const LocalArray<float> a{{static_cast<std::int64_t>(elements.size())}, std::move(elements)};
    return evaluate_one<float, float>(instruction, {a}, {}).elements[0];
  };
  EXPECT_TRUE(std::signbit(sum({-0.0F, -0.0F})));
  EXPECT_EQ(sum({1e30F, 1, -1e30F}), 0);
  EXPECT_EQ(sum({1e30F, -1e30F, 1}), 1);
}

// --- Functions of several instructions.

TEST(Local, intermediate_results_are_freed_after_their_last_use) {
  const LocalArray<double> a{{100}, std::vector<double>(100, 1.0)};
  LocalFunction function;
  int last = add_parameter(function, a.type());
  for (int i = 0; i < 10; ++i) {
    LocalInstruction instruction;
    instruction.op = LocalOp::add;
    instruction.operands = {last, last};
    instruction.type = a.type();
    last = add_instruction(function, instruction);
  }
  function.results = {last};
  const runtime::LocalResults results = evaluate(function, {reinterpret_cast<const std::byte*>(a.elements.data())});
  EXPECT_EQ(results.peak_bytes, 2 * 800);
  EXPECT_EQ(language::local_peak_bytes(function), 2 * 800);
  EXPECT_TRUE(
      (array_of<double>(a.type(), results.arrays[0]) == LocalArray<double>{{100}, std::vector<double>(100, 1024)}));
}

TEST(Local, results_that_nobody_uses_are_freed_at_once) {
  LocalFunction function;
  for (int i = 0; i < 5; ++i) {
    LocalInstruction instruction;
    instruction.op = LocalOp::literal;
    instruction.type = {ElementType::f64, {100}};
    add_instruction(function, instruction);
  }
  function.results = {4};
  EXPECT_EQ(evaluate(function, {}).peak_bytes, 800);
  EXPECT_EQ(language::local_peak_bytes(function), 800);
}

// A chain of negations and reshapes: two arrays at once, however many look at them.
TEST(Local, reshapes_look_at_their_operand) {
  const LocalArray<double> a{{100}, std::vector<double>(100, 1.0)};
  LocalFunction function;
  int last = add_parameter(function, a.type());
  for (int i = 0; i < 6; ++i) {
    LocalInstruction instruction;
    instruction.op = i % 3 == 0 ? LocalOp::negate : LocalOp::reshape;
    instruction.operands = {last};
    instruction.type = {ElementType::f64, i % 3 == 1 ? Shape{10, 10} : Shape{100}};
    last = add_instruction(function, instruction);
  }
  function.results = {last};
  const runtime::LocalResults results = evaluate(function, {reinterpret_cast<const std::byte*>(a.elements.data())});
  EXPECT_EQ(results.peak_bytes, 2 * 800);
  EXPECT_EQ(language::local_peak_bytes(function), 2 * 800);
  EXPECT_TRUE((array_of<double>(a.type(), results.arrays[0]) == a));
}

TEST(Local, results_may_be_parameters_and_may_repeat) {
  const LocalArray<float> a{{2}, {1, 2}};
  LocalFunction function;
  add_parameter(function, a.type());
  LocalInstruction negate;
  negate.op = LocalOp::negate;
  negate.operands = {0};
  negate.type = a.type();
  add_instruction(function, negate);
  LocalInstruction reshape;
  reshape.op = LocalOp::reshape;
  reshape.operands = {1};
  reshape.type = {ElementType::f32, {2, 1}};
  add_instruction(function, reshape);
  function.results = {0, 1, 1, 2, 0};
  const runtime::LocalResults results = evaluate(function, {reinterpret_cast<const std::byte*>(a.elements.data())});
  EXPECT_EQ(results.peak_bytes, 5 * 8);
  EXPECT_EQ(language::local_peak_bytes(function), 5 * 8);
  ASSERT_EQ(results.arrays.size(), 5U);
  for (const std::size_t i : {0U, 4U}) EXPECT_TRUE((array_of<float>(a.type(), results.arrays[i]) == a));
  for (const std::size_t i : {1U, 2U, 3U}) {
    EXPECT_THAT(array_of<float>(a.type(), results.arrays[i]).elements, ::testing::ElementsAre(-1, -2));
  }
}

TEST(Local, counts_operations) {
  LocalFunction function;
  add_parameter(function, {ElementType::f32, {4, 5}});
  add_parameter(function, {ElementType::f32, {5, 6}});
  LocalInstruction product;
  product.op = LocalOp::matmul;
  product.operands = {0, 1};
  product.type = {ElementType::f32, {4, 6}};
  add_instruction(function, product);
  EXPECT_EQ(runtime::count_operations(function), 120);
}

}  // namespace
}  // namespace retile::test
