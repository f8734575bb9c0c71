#include "retile/language/all_reduce.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace retile::language {
namespace {

bool contains(const std::vector<int>& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// One row for each combination of coordinates along the parts, given minor to major.
Dimension rows_along(const std::vector<AxisPart>& parts) {
  std::int64_t count = 1;  // at most the number of devices
  for (const AxisPart& part : parts) count *= part.size;
  return {1, parts, count};
}

Dimension uncut(std::int64_t size) { return {size, {}, size}; }

}  // namespace

AllReduceTypes all_reduce_types(const Mesh& mesh, const ArrayType& operand, const ArrayType& result) {
  std::vector<AxisPart> summed;
  std::vector<AxisPart> others;
  for (int axis = mesh.axis_count() - 1; axis >= 0; --axis) {  // minor to major is the last axis first
    const bool is_summed = contains(operand.sums, axis) && !contains(result.sums, axis);
    (is_summed ? summed : others).push_back(mesh.whole(axis));
  }
  const Dimension rows = rows_along(others);
  const Dimension partial_rows = rows_along(summed);
  const std::int64_t count = partial_rows.global;
  const std::int64_t size = operand.placement.local_size();
  const Dimension shares = size % count == 0 ? Dimension{size / count, summed, size} : uncut(size);
  return {DistributedType(mesh, {rows, partial_rows, uncut(size)}), DistributedType(mesh, {rows, uncut(count), shares}),
          DistributedType(mesh, {rows, shares}), DistributedType(mesh, {rows, uncut(size)})};
}

}  // namespace retile::language
