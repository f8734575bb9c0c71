// The text of MLIR: values, each in a line of its own, and types; tensor programs in any of its dialects.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "retile/emission/targets.h"
#include "retile/emission/tensor_program.h"
#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"
#include "retile/types/text.h"

namespace retile::emission {

class MlirText {
 public:
  // `margin` is in front of every line.
  MlirText(ElementType element, std::string margin) : element_(element), margin_(std::move(margin)) {}

  ElementType element() const { return element_; }
  bool is_half() const { return retile::is_half(element_); }
  bool is_complex() const { return element_ == ElementType::c64 || element_ == ElementType::c128; }
  bool is_integer() const { return element_ == ElementType::i8 || element_ == ElementType::i32; }

  // "tensor<8x16xf32>".
  std::string tensor_of(const Shape& shape) const {
    return tensor_of(shape, is_complex() ? element_ == ElementType::c64 ? "complex<f32>" : "complex<f64>"
                                         : retile::name_of(element_));
  }
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

  // The name of the value that this operation gives.
  template <typename... Values>
  std::string add_value(fmt::format_string<Values...> format, Values&&... values) {
    std::string name = fmt::format("%{}", count_++);
    add_line("{} = {}", name, fmt::format(format, std::forward<Values>(values)...));
    return name;
  }

  // The same, of an operation that is the same wherever it stands: the value that was there is taken again.
  std::string once(const std::string& operation) {
    const auto [found, is_new] = known_.try_emplace(operation);
    if (is_new) found->second = add_value("{}", operation);
    return found->second;
  }

  const std::string& text() const { return text_; }

 private:
  const ElementType element_;
  const std::string margin_;
  int count_ = 0;
  std::map<std::string, std::string> known_;
  std::string text_;
};

// A tensor program in the words of a Dialect, which derives from this. It has add(operation, value, before, after) for
// every operation: that adds what makes the value, of the shape before, one of the shape after, and returns its name;
// and what is named below.
template <typename Dialect>
class ProgramText : public MlirText {
 protected:
  ProgramText(const Plan& plan, ElementType element, Target target, std::string margin)
      : MlirText(element, std::move(margin)), plan_(plan), program_(lower(plan, target)) {}

  // All statements, the last of them the return. Returns the type of what is returned.
  std::string add_program() {
    std::string value = "%tile";
    Shape shape = program_.tile;
    if (program_.shape != plan_.movement.source.global_shape()) {
      remark(fmt::format("tiles are padded: they make up an array of {}", retile::to_string(program_.shape)));
    }
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      remark(step_text(plan_, i));
      for (const TensorStatement& statement : program_.steps[i]) {
        value =
            std::visit([&](const auto& operation) { return dialect().add(operation, value, shape, statement.shape); },
                       statement.operation);
        shape = statement.shape;
      }
    }
    add_line("return {} : {}", value, tensor_of(shape));
    return tensor_of(shape);
  }

  // The cells, each with a dimension of one in front. The dialect has slice(corners, value, before, after).
  std::vector<std::string> add_cells(const CellsOp& op, const std::string& value, const Shape& before,
                                     const Shape& row) {
    std::vector<std::string> rows;
    for (const Cell& cell : op.cells) {
      std::string one = dialect().slice(cell.corners, value, before, op.shape);
      if (cell.sent) one = dialect().add(*cell.sent, one, op.shape, op.shape);
      rows.push_back(dialect().add(ReshapeOp{row}, one, op.shape, row));
    }
    return rows;
  }

  // One part after the other, halves as numbers of single precision. The dialect has part(value, number, before, row),
  // converted(value, from, to) and combined(reduction, first, second, type).
  std::string add_combined(const CombineOp& op, const std::string& value, const Shape& before, const Shape& after) {
    const std::string narrow = tensor_of(after);
    const std::string wide = is_half() ? tensor_of(after, "f32") : narrow;
    Shape row = before;
    row.front() = 1;
    std::string total;
    for (std::int64_t i = 0; i < before.front(); ++i) {
      std::string part = dialect().add(ReshapeOp{after}, dialect().part(value, i, before, row), row, after);
      if (is_half()) part = dialect().converted(part, narrow, wide);
      total = i == 0 ? part : dialect().combined(op.reduction, total, part, wide);
    }
    return is_half() ? dialect().converted(total, wide, narrow) : total;
  }

  const Plan& plan_;
  const TensorProgram program_;

 private:
  Dialect& dialect() { return static_cast<Dialect&>(*this); }
};

}  // namespace retile::emission
