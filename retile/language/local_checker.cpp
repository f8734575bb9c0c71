#include "retile/language/local_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/language/type_text.h"
#include "retile/types/text.h"

namespace retile::language {
namespace {

// The value of an expression: nothing after a fault, a number without a type, or an instruction's result.
class Operand {
 public:
  Operand() = default;
  Operand(double number) : kind_(Kind::number), number_(number) {}
  Operand(int instruction) : kind_(Kind::instruction), instruction_(instruction) {}

  bool is_fault() const { return kind_ == Kind::fault; }
  // Null where the operand is of another kind.
  const double* number() const { return kind_ == Kind::number ? &number_ : nullptr; }
  const int* instruction() const { return kind_ == Kind::instruction ? &instruction_ : nullptr; }

 private:
  enum class Kind { fault, number, instruction } kind_ = Kind::fault;
  double number_ = 0;
  int instruction_ = -1;
};

LocalOp infix_op(const std::string& word) {
  if (word == "+") return LocalOp::add;
  if (word == "-") return LocalOp::subtract;
  if (word == "*") return LocalOp::multiply;
  return LocalOp::divide;
}

double fold(LocalOp op, double left, double right) {
  switch (op) {
    case LocalOp::add:
      return left + right;
    case LocalOp::subtract:
      return left - right;
    case LocalOp::multiply:
      return left * right;
    case LocalOp::divide:
      return left / right;
    default:
      return std::max(left, right);
  }
}

// The reason why the number is not of the element type, if it is not.
std::optional<Fault> number_fault(double number, ElementType element) {
  if (!std::isfinite(number)) return Fault{"this number is not finite", {}};
  if (element == ElementType::i32) {
    const bool fits = std::trunc(number) == number && number >= -2147483648.0 && number <= 2147483647.0;
    if (!fits) return Fault{fmt::format("{} is no i32", number), "whole numbers from -2147483648 to 2147483647 are"};
  }
  if (element == ElementType::f32 && std::abs(number) > std::numeric_limits<float>::max()) {
    return Fault{fmt::format("{} is beyond the largest f32", number), {}};
  }
  return std::nullopt;
}

class LocalChecker {
 public:
  LocalChecker(const LocalScope& scope, DiagnosticList& diagnostics) : scope_(scope), diagnostics_(diagnostics) {}

  LocalCheckResult check(const SpmdOpSyntax& op, const std::vector<std::optional<ElementType>>& wanted) {
    function_.cuts = scope_.cuts;
    for (const LocalParameter& parameter : op.parameters) {
      const int index = static_cast<int>(function_.instructions.size());
      const LocalType& type = at(scope_.faulty, index) ? parameter.type.type : at(scope_.tiles, index);
      LocalInstruction instruction = make(LocalOp::parameter, {}, type, parameter.name.place);
      instruction.index = index;
      function_.instructions.push_back(std::move(instruction));
      declare(parameter.name, at(scope_.faulty, index) ? Operand() : Operand(index));
    }
    for (const LocalStatement& statement : op.statements) check_statement(statement);
    LocalCheckResult result;
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      const Operand operand = check_result(op.results[i], i < wanted.size() ? wanted[i] : std::nullopt);
      const int* index = operand.instruction();
      result.result_types.push_back(index == nullptr ? std::nullopt : std::optional(type_of(*index)));
      function_.results.push_back(index == nullptr ? -1 : *index);
    }
    result.function = std::move(function_);
    return result;
  }

 private:
  // --- Names.

  void declare(const Name& name, Operand operand) {
    const auto [entry, is_new] = names_.try_emplace(name.text, Declared{operand, name.place});
    if (is_new) return;
    diagnostics_.add(name.place, fmt::format("{} is declared twice", name.text), "a name is assigned once");
    diagnostics_.note(entry->second.place, fmt::format("{} is declared here", name.text));
  }

  Operand find(const Expression& expression) {
    const auto entry = names_.find(expression.word);
    if (entry != names_.end()) return entry->second.operand;
    const std::optional<SourceRange> outside = scope_.find_outside(expression.word);
    diagnostics_.add(expression.place, fmt::format("{} is not known in this spmd_op", expression.word),
                     outside ? "pass it as an operand; inside, its tile has the name of the parameter" : "");
    if (outside) diagnostics_.note(*outside, fmt::format("{} is declared here", expression.word));
    names_.emplace(expression.word, Declared{{}, expression.place});  // so that the fault is reported once
    return {};
  }

  // --- Instructions.

  const LocalType& type_of(int index) const { return at(function_.instructions, index).type; }

  static LocalInstruction make(LocalOp op, std::vector<int> operands, LocalType type, SourceRange range) {
    LocalInstruction instruction;
    instruction.op = op;
    instruction.operands = std::move(operands);
    instruction.type = std::move(type);
    instruction.range = range;
    return instruction;
  }

  Operand emit(LocalInstruction instruction) {
    const LocalType& type = instruction.type;
    const std::optional<std::int64_t> size = checked_product(type.shape);
    if (!size || !checked_multiply(*size, bytes_of(type.element))) {
      return fail(Place(instruction.range), {fmt::format("an array of {} is too large", retile::to_string(type.shape)),
                                             "its bytes must fit in 63 bits"});
    }
    function_.instructions.push_back(std::move(instruction));
    return static_cast<int>(function_.instructions.size()) - 1;
  }

  Operand emit(LocalOp op, std::vector<int> operands, LocalType type, SourceRange range,
               std::vector<std::int64_t> numbers = {}) {
    LocalInstruction instruction = make(op, std::move(operands), std::move(type), range);
    instruction.numbers = std::move(numbers);
    return emit(std::move(instruction));
  }

  Operand emit_literal(double number, const LocalType& type, SourceRange range) {
    if (const auto fault = number_fault(number, type.element)) return fail(Place(range), *fault);
    LocalInstruction instruction = make(LocalOp::literal, {}, type, range);
    instruction.number = number;
    return emit(std::move(instruction));
  }

  Operand fail(const Place& place, const Fault& fault) {
    diagnostics_.add(place, fault);
    return {};
  }

  // --- Statements.

  void check_statement(const LocalStatement& statement) {
    if (!statement.expression) return declare(statement.result, {});
    const auto& ascription = statement.ascription;
    Operand operand =
        check_result(*statement.expression, ascription ? std::optional(ascription->type.element) : std::nullopt);
    if (const int* index = operand.instruction(); index != nullptr && ascription) {
      const LocalType& type = type_of(*index);
      if (type.element != ascription->type.element || type.shape != ascription->type.shape)
        operand = fail_ascription(type, *ascription);
    }
    declare(statement.result, operand);
  }

  Operand fail_ascription(const LocalType& type, const LocalTypeSyntax& ascription) {
    return fail(ascription.place, {fmt::format("this is {}, not {}", to_string(type), to_string(ascription.type)), {}});
  }

  // Checks an expression that stands alone: a number becomes a scalar.
  Operand check_result(const Expression& expression, std::optional<ElementType> wanted) {
    const Operand operand = check(expression, wanted);
    return as_array(operand, expression, wanted.value_or(ElementType::f32));
  }

  Operand as_array(const Operand& operand, const Expression& expression, ElementType element = ElementType::f32) {
    const double* number = operand.number();
    return number == nullptr ? operand : emit_literal(*number, {element, {}}, expression.place);
  }

  // --- Expressions.

  // Checks an expression. `wanted` is the element type of constants; f32 where it is not given.
  Operand check(const Expression& expression, std::optional<ElementType> wanted = std::nullopt) {
    switch (expression.kind) {
      case Expression::Kind::name:
        return find(expression);
      case Expression::Kind::number:
        return check_number(expression.word, expression.place);
      case Expression::Kind::infix:
        return check_binary(infix_op(expression.word), expression);
      case Expression::Kind::negation:
        return check_negation(expression);
      case Expression::Kind::application:
        return check_application(find_operation(expression.word)->op, expression, wanted);
    }
    return {};
  }

  Operand check_number(const std::string& text, const Place& place) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return fail(place, {"this number does not fit in an f64", {}});
    return number;
  }

  Operand check_negation(const Expression& expression) {
    const Operand operand = check(expression.operands[0]);
    if (const double* number = operand.number()) return -*number;
    const int* index = operand.instruction();
    return index == nullptr ? operand : emit(LocalOp::negate, {*index}, type_of(*index), expression.place);
  }

  // Checks arithmetic, whose operands have equal types; scalars and numbers are broadcast.
  Operand check_binary(LocalOp op, const Expression& expression) {
    const Operand left = check(expression.operands[0]);
    const Operand right = check(expression.operands[1]);
    if (left.is_fault() || right.is_fault()) return {};
    const double* left_number = left.number();
    const double* right_number = right.number();
    if (left_number != nullptr && right_number != nullptr) return fold(op, *left_number, *right_number);
    const Operand typed_left = left_number == nullptr ? left
                                                      : emit_literal(*left_number, type_of(*right.instruction()),
                                                                     expression.operands[0].place);
    const Operand typed_right = right_number == nullptr ? right
                                                        : emit_literal(*right_number, type_of(*left.instruction()),
                                                                       expression.operands[1].place);
    const int* a = typed_left.instruction();
    const int* b = typed_right.instruction();
    return a == nullptr || b == nullptr ? Operand() : emit_arithmetic(op, *a, *b, expression);
  }

  Operand emit_arithmetic(LocalOp op, int left, int right, const Expression& expression) {
    const LocalType a = type_of(left);
    const LocalType b = type_of(right);
    if (a.element != b.element) {
      return fail(expression.place, {fmt::format("{} and {} have different element types", to_string(a), to_string(b)),
                                     "convert one of them, as in convert x f32"});
    }
    if (a.shape != b.shape && !a.shape.empty() && !b.shape.empty()) {
      return fail(expression.place, {fmt::format("{} and {} have different shapes", to_string(a), to_string(b)),
                                     "only numbers and scalars [] combine with any shape; broadcast the rest"});
    }
    const LocalType type = a.shape.empty() ? b : a;
    if (!a.shape.empty() && !b.shape.empty() && a != b) return fail_unlike(expression, left, right);
    const int wide_left = widen(left, type, expression.operands[0].place);
    const int wide_right = widen(right, type, expression.operands[1].place);
    return emit(op, {wide_left, wide_right}, type, expression.place);
  }

  // Reports an operation that is impossible because some devices' tiles are shorter than the type says.
  Operand fail_uneven(const Expression& expression, const std::string& message) {
    return fail(expression.place, {message, "redistribute first to a type that divides the array"});
  }

  Operand fail_unlike(const Expression& expression, int a, int b) {
    return fail_uneven(expression, fmt::format("the dimensions of {} and {} are not equally long on every device",
                                               to_string(type_of(a)), to_string(type_of(b))));
  }

  static void append(LocalType& to, const LocalType& from, std::size_t dimension) {
    to.shape.push_back(from.shape[dimension]);
    to.cuts.push_back(from.cut(dimension));
  }

  // Broadcasts to the type, whose bytes are known to fit.
  int widen(int index, const LocalType& type, SourceRange range) {
    return type_of(index) == type ? index : *emit(LocalOp::broadcast, {index}, type, range).instruction();
  }

  // --- Applications.

  Operand check_application(LocalOp op, const Expression& expression, std::optional<ElementType> wanted) {
    if (op == LocalOp::max) return check_binary(op, expression);
    if (op == LocalOp::literal) return check_constant(expression, wanted.value_or(ElementType::f32));
    if (op == LocalOp::iota) return check_iota(expression, wanted.value_or(ElementType::f32));
    if (op == LocalOp::coordinate) return check_coordinate(expression);
    std::vector<int> operands;
    for (const Expression& argument : expression.operands) {
      const Operand operand = as_array(check(argument), argument);
      if (const int* index = operand.instruction()) operands.push_back(*index);
    }
    if (operands.size() < expression.operands.size()) return {};
    switch (op) {
      case LocalOp::matmul:
        return check_matmul(operands, expression);
      case LocalOp::transpose:
        return check_transpose(operands[0], expression);
      case LocalOp::reshape:
        return check_reshape(operands[0], expression);
      case LocalOp::broadcast:
        return check_broadcast(operands[0], expression);
      case LocalOp::slice:
        return check_slice(operands[0], expression);
      case LocalOp::concat:
        return check_concat(operands, expression);
      case LocalOp::reduce_sum:
      case LocalOp::reduce_max:
        return check_reduction(op, operands[0], expression);
      case LocalOp::convert:
        return emit(op, operands,
                    {*find_element_type(expression.attribute), type_of(operands[0]).shape, type_of(operands[0]).cuts},
                    expression.place);
      default:
        return check_function(op, operands[0], expression);
    }
  }

  Operand check_constant(const Expression& expression, ElementType element) {
    const Operand number = check_number(expression.number, expression.place);
    const double* value = number.number();
    return value == nullptr ? number : emit_literal(*value, {element, expression.lists[0]}, expression.place);
  }

  Operand check_iota(const Expression& expression, ElementType element) {
    const Shape& shape = expression.lists[0];
    if (!has_dimension(expression.dimension, shape, expression.place)) return {};
    const std::int64_t size = at(shape, expression.dimension);
    if (element == ElementType::i32 && size - 1 > std::numeric_limits<std::int32_t>::max()) {
      return fail(expression.place, {fmt::format("an i32 does not count to {}", size - 1), {}});
    }
    return emit(LocalOp::iota, {}, {element, shape}, expression.place, {expression.dimension});
  }

  Operand check_coordinate(const Expression& expression) {
    const std::optional<int> axis = scope_.mesh.find_axis(expression.attribute);
    if (!axis) return fail(expression.attribute_place, unknown_axis(scope_.mesh, expression.attribute));
    LocalInstruction instruction = make(LocalOp::coordinate, {}, {ElementType::i32, {}}, expression.place);
    instruction.index = *axis;
    return emit(std::move(instruction));
  }

  Operand check_matmul(const std::vector<int>& operands, const Expression& expression) {
    const LocalType a = type_of(operands[0]);
    const LocalType b = type_of(operands[1]);
    const std::size_t rank = a.shape.size();
    const bool fits = a.element == b.element && rank >= 2 && b.shape.size() == rank &&
                      std::equal(a.shape.begin(), a.shape.end() - 2, b.shape.begin()) &&
                      a.shape[rank - 1] == b.shape[rank - 2];
    if (!fits) {
      return fail(expression.place, {fmt::format("matmul does not multiply {} by {}", to_string(a), to_string(b)),
                                     "[..., m, k] by [..., k, n] of one element type gives [..., m, n]"});
    }
    bool are_alike = a.cut(rank - 1) == b.cut(rank - 2);
    for (std::size_t i = 0; i + 2 < rank; ++i) are_alike = are_alike && a.cut(i) == b.cut(i);
    if (!are_alike) return fail_unlike(expression, operands[0], operands[1]);
    LocalType type{a.element, {}};
    for (std::size_t i = 0; i + 1 < rank; ++i) append(type, a, i);
    append(type, b, rank - 1);
    return emit(LocalOp::matmul, operands, std::move(type), expression.place);
  }

  Operand check_transpose(int operand, const Expression& expression) {
    const LocalType type = type_of(operand);
    const std::vector<std::int64_t>& order = expression.lists[0];
    LocalType result{type.element, {}};
    std::vector<bool> seen(type.shape.size());
    for (const std::int64_t dimension : order) {
      if (!has_dimension(dimension, type.shape, expression.place)) return {};
      at(seen, dimension) = true;
      append(result, type, static_cast<std::size_t>(dimension));
    }
    const bool all_seen = std::find(seen.begin(), seen.end(), false) == seen.end();
    if (!all_seen || order.size() != type.shape.size()) {
      return fail(expression.place, {fmt::format("{} is no order of the {} dimensions of {}", retile::to_string(order),
                                                 type.shape.size(), to_string(type)),
                                     "each dimension is listed once, as in transpose x [1, 0]"});
    }
    return emit(LocalOp::transpose, {operand}, std::move(result), expression.place, order);
  }

  Operand check_reshape(int operand, const Expression& expression) {
    const LocalType type = type_of(operand);
    const Shape& shape = expression.lists[0];
    if (checked_product(shape) != checked_product(type.shape)) {
      return fail(
          expression.place,
          {fmt::format("{} and {} have different numbers of elements", to_string(type), retile::to_string(shape)), {}});
    }
    // An uneven dimension must exist after the reshape too, with as many elements before it.
    LocalType result{type.element, shape, std::vector<int>(shape.size(), -1)};
    for (std::size_t i = 0; i < type.shape.size(); ++i) {
      if (type.cut(i) < 0) continue;
      const std::int64_t before = product(std::span(type.shape).first(i));
      std::size_t j = 0;
      while (j < shape.size() && (shape[j] != type.shape[i] || product(std::span(shape).first(j)) != before)) ++j;
      if (j == shape.size()) {
        return fail_uneven(expression, fmt::format("dimension {} of {} is shorter on some devices, and a reshape keeps "
                                                   "such dimensions",
                                                   i, to_string(type)));
      }
      result.cuts[j] = type.cut(i);
    }
    return emit(LocalOp::reshape, {operand}, std::move(result), expression.place);
  }

  Operand check_broadcast(int operand, const Expression& expression) {
    const LocalType type = type_of(operand);
    const Shape& shape = expression.lists[0];
    bool fits = type.shape.size() <= shape.size();
    for (std::size_t i = 0; fits && i < type.shape.size(); ++i) {
      const std::int64_t size = type.shape[type.shape.size() - 1 - i];
      fits = size == 1 || size == shape[shape.size() - 1 - i];
    }
    if (!fits) {
      return fail(expression.place,
                  {fmt::format("{} does not broadcast to {}", to_string(type), retile::to_string(shape)),
                   "dimensions align at the end, and those of size 1 repeat"});
    }
    LocalType result{type.element, shape, std::vector<int>(shape.size(), -1)};
    const std::size_t added = shape.size() - type.shape.size();
    for (std::size_t i = 0; i < type.shape.size(); ++i) {
      if (type.cut(i) >= 0 && type.shape[i] != shape[added + i]) {
        return fail_uneven(expression, fmt::format("dimension {} of {} is empty on some devices, which have nothing to "
                                                   "repeat",
                                                   i, to_string(type)));
      }
      result.cuts[added + i] = type.cut(i);
    }
    return emit(LocalOp::broadcast, {operand}, std::move(result), expression.place);
  }

  Operand check_slice(int operand, const Expression& expression) {
    const LocalType type = type_of(operand);
    const std::vector<std::int64_t>& lo = expression.lists[0];
    const std::vector<std::int64_t>& hi = expression.lists[1];
    const std::size_t rank = type.shape.size();
    bool fits = lo.size() == rank && hi.size() == rank;
    LocalType result{type.element, {}};
    for (std::size_t i = 0; fits && i < rank; ++i) {
      fits = lo[i] < hi[i] && hi[i] <= type.shape[i];
      result.shape.push_back(hi[i] - lo[i]);
      result.cuts.push_back(type.cut(i));
    }
    if (!fits) {
      return fail(expression.place, {fmt::format("{} up to {} is no part of {}", retile::to_string(lo),
                                                 retile::to_string(hi), to_string(type)),
                                     "each dimension has lo < hi, and hi at most its size"});
    }
    for (std::size_t i = 0; i < rank; ++i) {
      if (type.cut(i) >= 0 && result.shape[i] != type.shape[i]) {
        return fail_uneven(expression, fmt::format("dimension {} of {} is shorter on some devices, which may lack what "
                                                   "is sliced",
                                                   i, to_string(type)));
      }
    }
    std::vector<std::int64_t> numbers = lo;
    numbers.insert(numbers.end(), hi.begin(), hi.end());
    return emit(LocalOp::slice, {operand}, std::move(result), expression.place, std::move(numbers));
  }

  Operand check_concat(const std::vector<int>& operands, const Expression& expression) {
    LocalType result = type_of(operands[0]);
    if (!has_dimension(expression.dimension, result.shape, expression.place)) return {};
    const auto along = static_cast<std::size_t>(expression.dimension);
    if (result.cut(along) >= 0) {
      return fail_uneven(expression, fmt::format("dimension {} of {} is shorter on some devices, and what follows it "
                                                 "would begin elsewhere",
                                                 along, to_string(result)));
    }
    for (std::size_t i = 1; i < operands.size(); ++i) {
      LocalType next = type_of(operands[i]);
      const std::optional<std::int64_t> size =
          next.shape.size() > along ? checked_add(result.shape[along], next.shape[along]) : std::nullopt;
      if (size) next.shape[along] = result.shape[along];
      if (size && next.element == result.element && next.shape == result.shape && next != result) {
        return fail_unlike(expression, operands[0], operands[i]);
      }
      if (!size || next != result) {
        return fail(expression.operands[i].place,
                    {fmt::format("{} does not continue {} along dimension {}", to_string(type_of(operands[i])),
                                 to_string(type_of(operands[0])), along),
                     "element types and all other dimensions agree"});
      }
      result.shape[along] = *size;
    }
    return emit(LocalOp::concat, operands, std::move(result), expression.place, {expression.dimension});
  }

  Operand check_reduction(LocalOp op, int operand, const Expression& expression) {
    const LocalType type = type_of(operand);
    std::vector<std::int64_t> gone = expression.lists[0];
    for (const std::int64_t dimension : gone) {
      if (!has_dimension(dimension, type.shape, expression.place)) return {};
    }
    std::sort(gone.begin(), gone.end());
    if (std::adjacent_find(gone.begin(), gone.end()) != gone.end()) {
      return fail(expression.place, {"a dimension is listed twice", {}});
    }
    LocalType result{type.element, {}};
    for (std::size_t i = 0; i < type.shape.size(); ++i) {
      const bool goes = std::binary_search(gone.begin(), gone.end(), static_cast<std::int64_t>(i));
      if (!goes) append(result, type, i);
    }
    return emit(op, {operand}, std::move(result), expression.place, std::move(gone));
  }

  // Checks exp, tanh, sqrt and relu.
  Operand check_function(LocalOp op, int operand, const Expression& expression) {
    const LocalType type = type_of(operand);
    if (type.element == ElementType::i32 && op != LocalOp::relu) {
      return fail(expression.place,
                  {fmt::format("{} needs floating-point elements, and this is {}", expression.word, to_string(type)),
                   "convert it first, as in convert x f32"});
    }
    return emit(op, {operand}, type, expression.place);
  }

  bool has_dimension(std::int64_t dimension, const Shape& shape, const Place& place) {
    if (dimension < static_cast<std::int64_t>(shape.size())) return true;
    diagnostics_.add(place, fmt::format("there is no dimension {}", dimension),
                     fmt::format("{} has {} dimensions, counted from 0", retile::to_string(shape), shape.size()));
    return false;
  }

  struct Declared {
    Operand operand;
    Place place;
  };

  const LocalScope& scope_;
  DiagnosticList& diagnostics_;
  LocalFunction function_;
  std::unordered_map<std::string, Declared> names_;
};

}  // namespace

LocalCheckResult check_local_function(const SpmdOpSyntax& op, const std::vector<std::optional<ElementType>>& wanted,
                                      const LocalScope& scope, DiagnosticList& diagnostics) {
  return LocalChecker(scope, diagnostics).check(op, wanted);
}

}  // namespace retile::language
