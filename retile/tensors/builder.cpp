#include "retile/tensors/builder.h"

#include <algorithm>
#include <numeric>

#include "retile/base/arithmetic.h"

namespace retile::tensors {
namespace {

Shape with_front(std::int64_t length, const Shape& shape) {
  Shape result{length};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

Corners once_if_alike(const Corners& corners) {
  const auto is_first = [&](const Shape& corner) { return corner == corners.front(); };
  return std::all_of(corners.begin(), corners.end(), is_first) ? Corners{corners.front()} : corners;
}

}  // namespace

ProgramBuilder ProgramBuilder::branch(const std::vector<Value>& arguments) const {
  std::vector<Shape> shapes;
  for (const Value value : arguments) shapes.push_back(shapes_[value]);
  return {std::move(shapes), element_size_, long_run_bytes_};
}

Value ProgramBuilder::add(Operation operation, std::vector<Value> operands, Shape shape) {
  shapes_.push_back(shape);
  statements_.push_back({std::move(operation), std::move(operands), std::move(shape)});
  return shapes_.size() - 1;
}

Value ProgramBuilder::reshape(Value value, const Shape& shape) {
  return shape == shapes_[value] ? value : add(ReshapeOp{}, {value}, shape);
}

Value ProgramBuilder::transpose(Value value, const std::vector<int>& order) {
  std::vector<int> same(order.size());
  std::iota(same.begin(), same.end(), 0);
  if (order == same) return value;
  Shape shape;
  for (const int dimension : order) shape.push_back(shapes_[value][static_cast<std::size_t>(dimension)]);
  return add(TransposeOp{order}, {value}, std::move(shape));
}

Value ProgramBuilder::slice(Value value, const Corners& corners, const Shape& shape, std::optional<Value> after) {
  if (after) return add(SliceOp{once_if_alike(corners)}, {value, *after}, shape);
  return shape == shapes_[value] ? value : add(SliceOp{once_if_alike(corners)}, {value}, shape);
}

Value ProgramBuilder::update(Value value, Value box, const Corners& corners) {
  return add(UpdateOp{once_if_alike(corners)}, {value, box}, Shape(shapes_[value]));
}

Value ProgramBuilder::stack(const std::vector<Value>& boxes) {
  return add(StackOp{}, boxes, with_front(static_cast<std::int64_t>(boxes.size()), shapes_[boxes.front()]));
}

Value ProgramBuilder::join_stacked(Value boxes, const Shape& counts) {
  const Shape box(shapes_[boxes].begin() + 1, shapes_[boxes].end());
  Shape apart;
  for (const std::int64_t count : counts) {
    if (count > 1) apart.push_back(count);
  }
  const std::size_t outer = apart.size();
  std::vector<int> order;
  Shape whole;
  int next = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 1) order.push_back(next++);
    order.push_back(static_cast<int>(outer + i));
    whole.push_back(counts[i] * box[i]);
  }
  apart.insert(apart.end(), box.begin(), box.end());
  return reshape(transpose(reshape(boxes, apart), order), whole);
}

Value ProgramBuilder::join(const std::vector<Value>& boxes, const Shape& counts) {
  const auto dimension = long_run_dimension(shapes_[boxes.front()], counts);
  if (!dimension) return join_stacked(stack(boxes), counts);
  Shape shape = shapes_[boxes.front()];
  shape[static_cast<std::size_t>(*dimension)] *= static_cast<std::int64_t>(boxes.size());
  return add(ConcatenateOp{*dimension}, boxes, std::move(shape));
}

Value ProgramBuilder::join_entries(Value boxes, const Shape& counts) {
  const Shape box(shapes_[boxes].begin() + 1, shapes_[boxes].end());
  if (!long_run_dimension(box, counts)) return join_stacked(boxes, counts);
  std::vector<Value> entries;
  Shape corner(box.size() + 1);
  for (; corner.front() < shapes_[boxes].front(); ++corner.front()) {
    entries.push_back(reshape(slice(boxes, {corner}, with_front(1, box)), box));
  }
  return join(entries, counts);
}

std::optional<int> ProgramBuilder::long_run_dimension(const Shape& box, const Shape& counts) const {
  std::optional<int> found;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 1) continue;
    if (found) return std::nullopt;
    found = static_cast<int>(i);
  }
  if (!found || *found == 0) return std::nullopt;
  const std::int64_t run = product(Shape(box.begin() + *found, box.end()));
  return run * element_size_ >= long_run_bytes_ ? found : std::nullopt;
}

}  // namespace retile::tensors
