#include "retile/language/program.h"

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"

namespace retile::language {
namespace {

std::int64_t largest_size(const std::vector<Factor>& factors, UnevenRule rule) {
  std::int64_t size = 1;
  for (const Factor& factor : factors) size *= most_held(factor, rule);
  return size;
}

bool divides(const Factor& factor) { return factor.size % tile_count(factor.axes) == 0; }

}  // namespace

bool ArrayType::operator==(const ArrayType& other) const {
  return element == other.element && placement == other.placement && partial == other.partial &&
         (partial.empty() || reduction == other.reduction);
}

ArrayType array_type_of(ElementType element, MeshLayout cuts) {
  std::vector<AxisPart> partial = std::exchange(cuts.partial, {});
  std::sort(partial.begin(), partial.end(), [](const AxisPart& a, const AxisPart& b) {
    return std::pair(a.axis, a.major) < std::pair(b.axis, b.major);
  });
  const Reduction reduction = cuts.reduction;
  Layout layout(std::move(cuts));
  ArrayType type{element, layout.placement(), std::move(partial), reduction, std::nullopt};
  if (layout.type() == nullptr) type.layout = std::move(layout);
  return type;
}

std::optional<Layout> layout_of(const ArrayType& type) {
  if (!type.layout && type.placement.type() == nullptr) return std::nullopt;
  Layout layout = type.layout ? *type.layout : Layout(*type.placement.type());
  if (type.partial.empty()) return layout;
  MeshLayout cuts = *layout.cuts();
  cuts.partial = type.partial;
  cuts.reduction = type.reduction;
  return Layout(std::move(cuts));
}

bool LocalType::operator==(const LocalType& other) const {
  if (element != other.element || shape != other.shape) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (cut(i) != other.cut(i)) return false;
  }
  return true;
}

std::int64_t UnevenCut::size_on(const Mesh& mesh, Device device) const {
  std::int64_t size = 1;
  for (const Factor& factor : factors) {
    size *= cut_interval(factor.size, factor.axes, rule, coordinate_along(mesh, factor.axes, device)).size();
  }
  return size;
}

std::vector<std::optional<UnevenCut>> uneven_cuts(const ArrayType& type) {
  std::vector<std::optional<UnevenCut>> cuts(static_cast<std::size_t>(type.placement.rank()));
  if (!type.layout) return cuts;
  const MeshLayout layout = *type.layout->cuts();
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::vector<Factor>& factors = layout.view[i];
    if (std::all_of(factors.begin(), factors.end(), divides)) continue;
    UnevenCut& cut = cuts[i].emplace();  // in one form, so that equal cuts compare equal
    const bool is_ceiling = std::all_of(factors.begin(), factors.end(), [&](const Factor& factor) {
      return same_tiles(factor, layout.rule, UnevenRule::ceiling);
    });
    cut.rule = is_ceiling ? UnevenRule::ceiling : layout.rule;
    for (const Factor& factor : factors) {
      if (factor.size == 1 && factor.axes.empty()) continue;
      cut.factors.push_back({factor.size, factor.axes});
    }
  }
  return cuts;
}

Shape tile_shape(const ArrayType& type) {
  if (!type.layout) return type.placement.local_shape();
  const MeshLayout layout = *type.layout->cuts();
  Shape shape;
  for (const std::vector<Factor>& factors : layout.view) shape.push_back(largest_size(factors, layout.rule));
  return shape;
}

LocalFunction on_device(LocalFunction function, const Mesh& mesh, Device device) {
  if (function.cuts.empty()) return function;
  std::vector<std::int64_t> sizes;
  for (const UnevenCut& cut : function.cuts) sizes.push_back(cut.size_on(mesh, device));
  for (LocalInstruction& instruction : function.instructions) {
    const std::size_t rank = instruction.type.shape.size();
    for (std::size_t i = 0; i < rank; ++i) {
      const int cut = instruction.type.cut(i);
      if (cut < 0) continue;
      instruction.type.shape[i] = at(sizes, cut);
      // A slice keeps the whole of an uneven dimension.
      if (instruction.op == LocalOp::slice) instruction.numbers[rank + i] = at(sizes, cut);
    }
  }
  return function;
}

std::int64_t bytes_of(const ArrayType& type) { return type.placement.local_size() * retile::bytes_of(type.element); }
std::int64_t bytes_of(const LocalType& type) { return product(type.shape) * retile::bytes_of(type.element); }

const Function& main_of(const Program& program) { return at(program.functions, program.main); }

std::vector<int> operands_of(const Statement& statement) {
  return std::visit(
      [](const auto& operation) -> std::vector<int> {
        if constexpr (requires { operation.operands; }) {
          return operation.operands;
        } else {
          return {operation.operand};
        }
      },
      statement.operation);
}

bool moves_data(const Statement& statement) {
  return !std::holds_alternative<SpmdOp>(statement.operation) && !std::holds_alternative<Call>(statement.operation);
}

const Value& operand_of(const Function& function, const Statement& statement) {
  return at(function.values, operands_of(statement).front());
}

const Value& result_of(const Function& function, const Statement& statement) {
  return at(function.values, statement.results.front());
}

}  // namespace retile::language
