// The text of MLIR: values, each on a line of its own, and types; tensor programs in any of its dialects.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <concepts>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/emission/targets.h"
#include "retile/tensors/lowering.h"
#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"
#include "retile/types/text.h"

namespace retile::emission {

// Where a dialect says that integers are unsigned: in their types, or in its operations.
enum class UnsignedIntegers { in_types, in_operations };

// The element type's name in MLIR, such as "f32", "ui8", "i1", "f8E4M3FN", "complex<f64>".
inline std::string mlir_name_of(ElementType element, UnsignedIntegers unsigned_integers) {
  const std::int64_t bits = 8 * bytes_of(element);
  switch (kind_of(element)) {
    case NumberKind::boolean:
      return "i1";
    case NumberKind::signed_integer:
      return fmt::format("i{}", bits);
    case NumberKind::unsigned_integer:
      return fmt::format("{}{}", unsigned_integers == UnsignedIntegers::in_types ? "ui" : "i", bits);
    case NumberKind::complex:
      return fmt::format("complex<f{}>", bits / 2);
    case NumberKind::floating:
      break;
  }
  if (element == ElementType::f8e4m3fn) return "f8E4M3FN";
  return element == ElementType::f8e5m2 ? "f8E5M2" : retile::name_of(element);
}

class MlirText {
 public:
  // `margin` is the indentation of every line.
  MlirText(ElementType element, UnsignedIntegers unsigned_integers, std::string margin)
      : element_(element), element_name_(mlir_name_of(element, unsigned_integers)), margin_(std::move(margin)) {}

  ElementType element() const { return element_; }
  bool is_half() const { return retile::is_half(element_); }

  // A tensor's type, such as "tensor<8x16xf32>".
  std::string tensor_of(const Shape& shape) const { return tensor_of(shape, element_name_); }
  static std::string tensor_of(const Shape& shape, const std::string& element) {
    std::string text = "tensor<";
    for (const std::int64_t size : shape) text += fmt::format("{}x", size);
    return text + element + ">";
  }

  template <typename... Values>
  void add_line(fmt::format_string<Values...> format, Values&&... values) {
    text_ += fmt::format("{}{}\n", margin_, fmt::format(format, std::forward<Values>(values)...));
  }
  void remark(const std::string& words) { add_line("// {}", words); }

  // Adds an operation, and returns the name of its value.
  template <typename... Values>
  std::string add_value(fmt::format_string<Values...> format, Values&&... values) {
    std::string name = fmt::format("%{}", count_++);
    add_line("{} = {}", name, fmt::format(format, std::forward<Values>(values)...));
    return name;
  }

  // Adds an operation whose value does not depend on its place, unless it was added before. Returns the name of its
  // value.
  std::string once(const std::string& operation) {
    const auto [found, is_new] = known_.try_emplace(operation);
    if (is_new) found->second = add_value("{}", operation);
    return found->second;
  }

  const std::string& text() const { return text_; }

 private:
  const ElementType element_;
  const std::string element_name_;
  const std::string margin_;
  int count_ = 0;
  std::map<std::string, std::string> known_;
  std::string text_;
};

// Options for dialects of MLIR: no branches, and no rule for the order in which a tile's boxes are cut.
inline tensors::LoweringOptions dialect_options(std::string_view language) {
  tensors::LoweringOptions options;
  options.language = language;
  options.most_cut_at_once = std::numeric_limits<std::size_t>::max();
  return options;
}

// Prints a tensor program in a dialect of MLIR. Dialect derives from this. It has add(operation, value, before, after)
// for every operation of one operand, which adds the operation on a value of shape `before`, with a result of shape
// `after`, and returns the result's name; and the functions named below.
template <typename Dialect>
class ProgramText : public MlirText {
 protected:
  ProgramText(const Plan& plan, ElementType element, UnsignedIntegers unsigned_integers,
              const tensors::LoweringOptions& options, std::string margin)
      : MlirText(element, unsigned_integers, std::move(margin)),
        plan_(plan),
        program_(tensors::lower(plan, bytes_of(element), options)) {}

  // Adds all statements, the last of them the return. Returns the type of the returned value.
  std::string add_program() {
    values_ = {{"%tile", program_.tile()}};
    if (program_.array() != plan_.movement.source.global_shape()) {
      remark(fmt::format("tiles are padded: they make up an array of {}", retile::to_string(program_.array())));
    }
    for (const tensors::ProgramStage& stage : program_.stages) {
      for (std::size_t i = stage.steps.first; i <= stage.steps.last; ++i) remark(step_text(plan_, i));
      for (const tensors::Statement& statement : stage.statements) {
        const auto add = [&](const auto& operation) { return add_statement(operation, statement); };
        values_.push_back({std::visit(add, statement.operation), statement.shape});
      }
    }
    std::string type = tensor_of(values_.back().shape);
    add_line("return {} : {}", values_.back().name, type);
    return type;
  }

  // Combines parts one after the other, halves in single precision. Uses the dialect's part(value, number, before,
  // row), converted(value, from, to) and combined(reduction, first, second, type).
  std::string add_combined(const tensors::CombineOp& op, const std::string& value, const Shape& before,
                           const Shape& after) {
    const std::string narrow = tensor_of(after);
    const std::string wide = is_half() ? tensor_of(after, "f32") : narrow;
    Shape row = before;
    row.front() = 1;
    std::string total;
    for (std::int64_t i = 0; i < before.front(); ++i) {
      std::string part = dialect().add(tensors::ReshapeOp{}, dialect().part(value, i, before, row), row, after);
      if (is_half()) part = dialect().converted(part, narrow, wide);
      total = i == 0 ? part : dialect().combined(op.reduction, total, part, wide);
    }
    return is_half() ? dialect().converted(total, wide, narrow) : total;
  }

  const Plan& plan_;
  const tensors::TensorProgram program_;

 private:
  Dialect& dialect() { return static_cast<Dialect&>(*this); }

  template <typename Operation>
  std::string add_statement(const Operation& operation, const tensors::Statement& statement) {
    const NamedValue& first = values_[statement.operands.front()];
    return dialect().add(operation, first.name, first.shape, statement.shape);
  }

  // Uses the dialect's concatenated(values, dimension, one, all), where `one` is the shape of each value and `all` that
  // of the result.
  std::string add_statement(const tensors::StackOp& /*op*/, const tensors::Statement& statement) {
    Shape row = statement.shape;
    row.front() = 1;
    std::vector<std::string> rows;
    for (const tensors::Value value : statement.operands) {
      rows.push_back(dialect().add(tensors::ReshapeOp{}, values_[value].name, values_[value].shape, row));
    }
    return dialect().concatenated(rows, 0, row, statement.shape);
  }

  std::string add_statement(const tensors::ConcatenateOp& op, const tensors::Statement& statement) {
    std::vector<std::string> boxes;
    for (const tensors::Value value : statement.operands) boxes.push_back(values_[value].name);
    return dialect().concatenated(boxes, op.dimension, values_[statement.operands.front()].shape, statement.shape);
  }

  // Operations that dialect_options() excludes.
  template <typename Operation>
  requires std::same_as<Operation, tensors::SelectOp> || std::same_as<Operation, tensors::SwitchOp> ||
      std::same_as<Operation, tensors::ZerosOp> || std::same_as<Operation, tensors::UpdateOp>
          std::string add_statement(const Operation& /*operation*/, const tensors::Statement& /*statement*/) {
    throw InternalError("a dialect of MLIR was given a branch or an update");
  }

  std::vector<NamedValue> values_;
};

}  // namespace retile::emission
