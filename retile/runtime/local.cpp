#include "retile/runtime/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/language/liveness.h"
#include "retile/plan/memory_meter.h"
#include "retile/runtime/elements.h"
#include "retile/runtime/matmul.h"
#include "retile/runtime/numbers.h"
#include "retile/runtime/strided.h"
#include "retile/types/text.h"

namespace retile::runtime {
namespace {

using language::LocalFunction;
using language::LocalInstruction;
using language::LocalOp;
using language::LocalType;

std::int64_t elements_of(const LocalType& type) { return product(type.shape); }

// --- Operations on whole arrays.

template <typename Number, typename Operation>
void map(std::int64_t count, const Number* a, Number* out, Operation operation) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = operation(a[i]);
}

template <typename Number, typename Operation>
void map(std::int64_t count, const Number* a, const Number* b, Number* out, Operation operation) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = operation(a[i], b[i]);
}

// Folds every element into the place that it has in the result.
template <typename Number, typename Operation>
void reduce(const StridedView& places, const Number* array, Number* out, Operation operation) {
  const std::int64_t length = row_length(places);
  const bool within_row = row_stride(places) == 0;
  for_each_row(places, [&](std::int64_t start) {
    Number* target = out + start;
    if (within_row) {
      Number total = *target;
      for (std::int64_t i = 0; i < length; ++i) total = operation(total, array[i]);
      *target = total;
    } else {
      for (std::int64_t i = 0; i < length; ++i) target[i] = operation(target[i], array[i]);
    }
    array += length;
  });
}

// Where the elements of the operand go when the dimensions are reduced away: those have stride 0.
StridedView places_in_result(const Shape& operand, std::span<const std::int64_t> reduced) {
  Shape kept = operand;
  for (const std::int64_t d : reduced) at(kept, d) = 1;
  StridedView view{operand, row_major_strides(kept)};
  for (const std::int64_t d : reduced) at(view.strides, d) = 0;
  return view;
}

template <typename Number>
void count_along(const Shape& shape, std::size_t dimension, Number* out) {
  const std::int64_t stride = row_major_strides(shape)[dimension];
  const std::int64_t count = product(shape);
  for (std::int64_t i = 0; i < count; ++i) out[i] = convert<Number>(i / stride % shape[dimension]);
}

MatmulSizes matmul_sizes(const Shape& left, const Shape& right) {
  MatmulSizes sizes;
  const std::size_t batch_dimensions = left.size() - 2;
  for (std::size_t d = 0; d < batch_dimensions; ++d) sizes.batches *= left[d];
  sizes.rows = left[batch_dimensions];
  sizes.inner = left[batch_dimensions + 1];
  sizes.columns = right.back();
  return sizes;
}

// --- One evaluation on one device.

class Evaluation {
 public:
  Evaluation(const LocalFunction& function, std::span<const std::byte* const> tiles, const LocalContext& context)
      : function_(function),
        liveness_(language::local_liveness(function)),
        tiles_(tiles),
        context_(context),
        arrays_(function.instructions.size()),
        buffers_(function.instructions.size()) {}

  LocalResults run() {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const LocalInstruction& instruction = function_.instructions[i];
      arrays_[i] = evaluate(instruction, buffers_[i]);
      for (const int operand : instruction.operands) release_after(i, owner(operand));
      release_after(i, owner(static_cast<int>(i)));
    }
    return take_results();
  }

 private:
  std::size_t owner(int instruction) const { return static_cast<std::size_t>(at(liveness_.owners, instruction)); }
  const std::byte* array(int instruction) const { return at(arrays_, instruction); }
  const LocalType& type(int instruction) const { return at(function_.instructions, instruction).type; }
  template <typename Number>
  const Number* numbers(int instruction) const {
    return reinterpret_cast<const Number*>(array(instruction));
  }

  void release_after(std::size_t instruction, std::size_t owner) {
    if (liveness_.last_uses[owner] != static_cast<int>(instruction)) return;
    meter_.remove(static_cast<std::int64_t>(buffers_[owner].size()));
    buffers_[owner] = Buffer();
  }

  // Where its elements are: in the buffer, unless they are somebody else's.
  const std::byte* evaluate(const LocalInstruction& instruction, Buffer& buffer) {
    if (instruction.op == LocalOp::parameter) return at(tiles_, instruction.index);
    if (instruction.op == LocalOp::reshape) return array(instruction.operands[0]);
    buffer = allocate(instruction.type);
    if (!rearrange(instruction, buffer.data())) compute(instruction, buffer.data());
    return buffer.data();
  }

  Buffer allocate(const LocalType& type) {
    meter_.add(bytes_of(type));
    return Buffer(static_cast<std::size_t>(bytes_of(type)));
  }

  // The operations that move elements as they are. False for the others.
  bool rearrange(const LocalInstruction& instruction, std::byte* out) const {
    const std::int64_t element_size = bytes_of(instruction.type.element);
    const std::span<const std::int64_t> numbers(instruction.numbers);
    const auto copy = [&](const StridedView& view) {
      copy_from_view(view, array(instruction.operands[0]), out, element_size);
    };
    switch (instruction.op) {
      case LocalOp::transpose:
        copy(transposed(type(instruction.operands[0]).shape, numbers));
        return true;
      case LocalOp::broadcast:
        copy(repeated(type(instruction.operands[0]).shape, instruction.type.shape));
        return true;
      case LocalOp::slice:
        copy(sliced(type(instruction.operands[0]).shape, numbers.first(numbers.size() / 2),
                    numbers.last(numbers.size() / 2)));
        return true;
      case LocalOp::concat:
        concatenate(instruction, out);
        return true;
      default:
        return false;
    }
  }

  void concatenate(const LocalInstruction& instruction, std::byte* out) const {
    const std::int64_t size = bytes_of(instruction.type.element);
    const auto dimension = static_cast<std::size_t>(instruction.numbers[0]);
    Shape lo(instruction.type.shape.size(), 0);
    Shape hi = instruction.type.shape;
    hi[dimension] = 0;
    for (const int operand : instruction.operands) {
      lo[dimension] = hi[dimension];
      hi[dimension] += type(operand).shape[dimension];
      const StridedView rows = with_long_rows(sliced(instruction.type.shape, lo, hi));
      const std::byte* elements = array(operand);
      for_each_row(rows, [&](std::int64_t start) {
        std::copy_n(elements, row_length(rows) * size, out + start * size);
        elements += row_length(rows) * size;
      });
    }
  }

  void compute(const LocalInstruction& instruction, std::byte* out) const {
    if (instruction.op == LocalOp::matmul) {
      const int left = instruction.operands[0];
      const int right = instruction.operands[1];
      matmul(instruction.type.element, matmul_sizes(type(left).shape, type(right).shape), array(left), array(right),
             out);
      return;
    }
    with_number(instruction.type.element, [&]<typename Number>(Number) {
      auto* numbers = reinterpret_cast<Number*>(out);
      switch (instruction.operands.size()) {
        case 0:
          return make(instruction, numbers);
        case 1:
          return compute_unary(instruction, numbers);
        default:
          return compute_binary(instruction, numbers);
      }
    });
  }

  template <typename Number>
  void make(const LocalInstruction& instruction, Number* out) const {
    switch (instruction.op) {
      case LocalOp::literal:
        std::fill_n(out, elements_of(instruction.type), convert<Number>(instruction.number));
        return;
      case LocalOp::iota:
        return count_along(instruction.type.shape, static_cast<std::size_t>(instruction.numbers[0]), out);
      case LocalOp::coordinate:
        *out = convert<Number>(context_.mesh.coordinate(context_.device, context_.mesh.whole(instruction.index)));
        return;
      default:
        throw InternalError("an operation lacks its operands");
    }
  }

  template <typename Number>
  void compute_unary(const LocalInstruction& instruction, Number* out) const {
    const int operand = instruction.operands[0];
    const std::int64_t count = elements_of(instruction.type);
    switch (instruction.op) {
      case LocalOp::convert:
        return convert_elements(operand, out);
      case LocalOp::reduce_sum:
        std::fill_n(out, count, sum_identity<Number>);
        return reduce(places_in_result(type(operand).shape, instruction.numbers), numbers<Number>(operand), out, add);
      case LocalOp::reduce_max:
        std::fill_n(out, count, max_identity<Number>);
        return reduce(places_in_result(type(operand).shape, instruction.numbers), numbers<Number>(operand), out,
                      larger);
      case LocalOp::negate:
        return map(count, numbers<Number>(operand), out, negate);
      case LocalOp::relu:
        return map(count, numbers<Number>(operand), out, [](Number x) { return larger(x, Number{0}); });
      default:
        return compute_function(instruction.op, count, numbers<Number>(operand), out);
    }
  }

  template <typename Number>
  void convert_elements(int operand, Number* out) const {
    with_number(type(operand).element, [&]<typename Source>(Source) {
      const auto* values = numbers<Source>(operand);
      const std::int64_t count = elements_of(type(operand));
      for (std::int64_t i = 0; i < count; ++i) out[i] = convert<Number>(values[i]);
    });
  }

  template <typename Number>
  static void compute_function(LocalOp op, std::int64_t count, const Number* values, Number* out) {
    if constexpr (std::is_floating_point_v<Number>) {
      switch (op) {
        case LocalOp::exp:
          return map(count, values, out, [](Number x) { return std::exp(x); });
        case LocalOp::tanh:
          return map(count, values, out, [](Number x) { return std::tanh(x); });
        case LocalOp::sqrt:
          return map(count, values, out, [](Number x) { return std::sqrt(x); });
        default:
          break;
      }
    }
    throw InternalError("an operation has operands that the checker refuses");
  }

  template <typename Number>
  void compute_binary(const LocalInstruction& instruction, Number* out) const {
    const auto* a = numbers<Number>(instruction.operands[0]);
    const auto* b = numbers<Number>(instruction.operands[1]);
    const std::int64_t count = elements_of(instruction.type);
    switch (instruction.op) {
      case LocalOp::add:
        return map(count, a, b, out, add);
      case LocalOp::subtract:
        return map(count, a, b, out, subtract);
      case LocalOp::multiply:
        return map(count, a, b, out, multiply);
      case LocalOp::divide:
        if (std::is_integral_v<Number>) require_no_zero(instruction, b, count);
        return map(count, a, b, out, divide);
      case LocalOp::max:
        return map(count, a, b, out, larger);
      default:
        throw InternalError("an operation has operands that the checker refuses");
    }
  }

  template <typename Number>
  void require_no_zero(const LocalInstruction& instruction, const Number* divisors, std::int64_t count) const {
    const Number* zero = std::find(divisors, divisors + count, Number{0});
    if (zero == divisors + count) return;
    std::string place;
    if (!instruction.type.shape.empty()) {
      place = fmt::format(" at {} of its tile", to_string(element_index(instruction.type.shape, zero - divisors)));
    }
    throw ProgramFailure(diagnose(context_.source, instruction.range,
                                  fmt::format("device {} divides by zero{}", context_.device, place)));
  }

  LocalResults take_results() {
    LocalResults results;
    std::vector<int> left(arrays_.size());  // how often each buffer is still wanted
    for (const int result : function_.results) ++left[owner(result)];
    for (const int result : function_.results) {
      Buffer& buffer = buffers_[owner(result)];
      if (--left[owner(result)] == 0 && !buffer.empty()) {
        results.arrays.push_back(std::move(buffer));
        continue;
      }
      results.arrays.push_back(allocate(type(result)));
      std::copy_n(array(result), results.arrays.back().size(), results.arrays.back().data());
    }
    results.peak_bytes = meter_.peak();
    return results;
  }

  const LocalFunction& function_;
  const language::LocalLiveness liveness_;
  std::span<const std::byte* const> tiles_;
  const LocalContext& context_;
  std::vector<const std::byte*> arrays_;  // by instruction
  std::vector<Buffer> buffers_;           // by instruction that makes an array
  MemoryMeter meter_;
};

double operations_of(const LocalFunction& function, const LocalInstruction& instruction) {
  const auto elements = static_cast<double>(elements_of(instruction.type));
  switch (instruction.op) {
    case LocalOp::matmul: {
      const auto left = static_cast<std::size_t>(instruction.operands[0]);
      return elements * static_cast<double>(function.instructions[left].type.shape.back());
    }
    case LocalOp::reduce_sum:
    case LocalOp::reduce_max:
      return static_cast<double>(elements_of(at(function.instructions, instruction.operands[0]).type));
    case LocalOp::exp:
    case LocalOp::tanh:
      return 10 * elements;
    case LocalOp::parameter:
    case LocalOp::reshape:
      return 0;
    default:
      return elements;
  }
}

}  // namespace

LocalResults evaluate(const LocalFunction& function, std::span<const std::byte* const> tiles,
                      const LocalContext& context) {
  return Evaluation(function, tiles, context).run();
}

double count_operations(const LocalFunction& function) {
  double operations = 0;
  for (const LocalInstruction& instruction : function.instructions) operations += operations_of(function, instruction);
  return operations;
}

}  // namespace retile::runtime
