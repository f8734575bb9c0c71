// A builder of tensor programs, which adds statements one after the other.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "retile/tensors/tensor_program.h"

namespace retile::tensors {

class ProgramBuilder {
 public:
  // Builds a program with arguments of these shapes. `element_size` and `long_run_bytes` are in bytes.
  ProgramBuilder(std::vector<Shape> arguments, std::int64_t element_size, std::int64_t long_run_bytes)
      : shapes_(std::move(arguments)), element_size_(element_size), long_run_bytes_(long_run_bytes) {}

  const Shape& shape_of(Value value) const { return shapes_[value]; }
  std::vector<Statement> take_statements() { return std::exchange(statements_, {}); }
  // A builder for a branch of the program, whose arguments are these values.
  ProgramBuilder branch(const std::vector<Value>& arguments) const;

  Value add(Operation operation, std::vector<Value> operands, Shape shape);

  // These add no statement where the value would not change.
  Value reshape(Value value, const Shape& shape);
  Value transpose(Value value, const std::vector<int>& order);
  Value slice(Value value, const Corners& corners, const Shape& shape, std::optional<Value> after = {});
  Value update(Value value, Value box, const Corners& corners);

  Value stack(const std::vector<Value>& boxes);
  // Joins equal boxes, stacked along the first dimension, into one tile. `counts` says how many lie side by side in
  // each dimension; boxes are in row-major order.
  Value join_stacked(Value boxes, const Shape& counts);
  // Joins boxes that are separate values.
  Value join(const std::vector<Value>& boxes, const Shape& counts);
  // Joins stacked boxes, after separating them where they have long runs.
  Value join_entries(Value boxes, const Shape& counts);

 private:
  // The only dimension in which boxes lie side by side, if their runs are long enough to be copied one by one.
  std::optional<int> long_run_dimension(const Shape& box, const Shape& counts) const;

  std::vector<Shape> shapes_;  // of all values
  std::vector<Statement> statements_;
  std::int64_t element_size_;
  std::int64_t long_run_bytes_;
};

}  // namespace retile::tensors
