// Arrays on one device and functions of one instruction, for tests of what devices compute.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/language/program.h"
#include "retile/runtime/local.h"

namespace retile::test {

template <typename Number>
constexpr ElementType element_type_of = std::is_same_v<Number, float>    ? ElementType::f32
                                        : std::is_same_v<Number, double> ? ElementType::f64
                                                                         : ElementType::i32;

// Row-major.
template <typename Number>
struct LocalArray {
  Shape shape;
  std::vector<Number> elements;

  language::LocalType type() const { return {element_type_of<Number>, shape}; }
};

// Equal bits, or both NaN: which NaN comes out of an operation is nobody's business.
template <typename Number>
bool operator==(const LocalArray<Number>& a, const LocalArray<Number>& b) {
  if (a.shape != b.shape || a.elements.size() != b.elements.size()) return false;
  for (std::size_t i = 0; i < a.elements.size(); ++i) {
    const bool both_nan = a.elements[i] != a.elements[i] && b.elements[i] != b.elements[i];
    if (!both_nan && std::memcmp(&a.elements[i], &b.elements[i], sizeof(Number)) != 0) return false;
  }
  return true;
}

// Calls visit(index) for every element of the shape, in row-major order.
inline void for_each_index(const Shape& shape, const std::function<void(const Shape& index)>& visit) {
  Shape index(shape.size(), 0);
  const std::int64_t count = product(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    visit(index);
  }
}

template <typename Number>
const Number& element_at(const LocalArray<Number>& array, const Shape& index) {
  std::int64_t number = 0;
  for (std::size_t d = 0; d < index.size(); ++d) number = number * array.shape[d] + index[d];
  return array.elements[static_cast<std::size_t>(number)];
}

// The array of this shape with element(index) everywhere.
template <typename Number>
LocalArray<Number> array_of(const Shape& shape, const std::function<Number(const Shape& index)>& element) {
  LocalArray<Number> array{shape, {}};
  for_each_index(shape, [&](const Shape& index) { array.elements.push_back(element(index)); });
  return array;
}

// Adds a parameter; its number.
inline int add_parameter(language::LocalFunction& function, const language::LocalType& type) {
  language::LocalInstruction parameter;
  parameter.index = static_cast<int>(function.instructions.size());
  parameter.type = type;
  function.instructions.push_back(parameter);
  return parameter.index;
}

inline int add_instruction(language::LocalFunction& function, language::LocalInstruction instruction) {
  function.instructions.push_back(std::move(instruction));
  return static_cast<int>(function.instructions.size()) - 1;
}

// Where the functions of these tests run: device 5 of {x: 2, y: 3, z: 1}, at x = 1, y = 2, z = 0.
inline const Mesh& sample_mesh() {
  static const Mesh mesh({{"x", 2}, {"y", 3}, {"z", 1}});
  return mesh;
}

inline const SourceText& sample_source() {
  static const SourceText source{"sample.spmd", "q = a / b\n"};
  return source;
}

inline runtime::LocalResults evaluate(const language::LocalFunction& function,
                                      const std::vector<const std::byte*>& tiles) {
  return runtime::evaluate(function, tiles, {sample_mesh(), 5, sample_source()});
}

template <typename Number>
LocalArray<Number> array_of(const language::LocalType& type, const Buffer& bytes) {
  LocalArray<Number> array{type.shape, std::vector<Number>(bytes.size() / sizeof(Number))};
  std::memcpy(array.elements.data(), bytes.data(), bytes.size());
  return array;
}

// One instruction on operands of one element type; its operands are filled in here.
template <typename Result, typename Number>
LocalArray<Result> evaluate_one(language::LocalInstruction instruction, const std::vector<LocalArray<Number>>& operands,
                                const Shape& result_shape) {
  language::LocalFunction function;
  std::vector<const std::byte*> tiles;
  for (const LocalArray<Number>& operand : operands) {
    instruction.operands.push_back(add_parameter(function, operand.type()));
    tiles.push_back(reinterpret_cast<const std::byte*>(operand.elements.data()));
  }
  instruction.type = {element_type_of<Result>, result_shape};
  function.results.push_back(add_instruction(function, instruction));
  return array_of<Result>(instruction.type, evaluate(function, tiles).arrays[0]);
}

}  // namespace retile::test
