// The text of MLIR: values, each in a line of its own, and types.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"

namespace retile::emission {

class MlirText {
 public:
  // `margin` is in front of every line.
  MlirText(ElementType element, std::string margin) : element_(element), margin_(std::move(margin)) {}

  ElementType element() const { return element_; }
  bool is_half() const { return element_ == ElementType::f16 || element_ == ElementType::bf16; }
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

}  // namespace retile::emission
