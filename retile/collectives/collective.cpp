#include "retile/collectives/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/names.h"
#include "retile/collectives/notation.h"
#include "retile/types/layout.h"
#include "retile/types/text.h"

namespace retile {
namespace {

constexpr Names<CollectiveKind, 4> names{{"dynslice", "alltoall", "allgather", "allpermute"}};

std::optional<Fault> dimension_fault(const DistributedType& type, int dimension) {
  if (dimension >= 0 && dimension < type.rank()) return std::nullopt;
  return Fault{fmt::format("there is no dimension {}", dimension),
               fmt::format("{} has rank {}; dimensions count from 0", to_string(type), type.rank())};
}

std::optional<Fault> axes_fault(const DistributedType& type, const std::vector<AxisPart>& axes) {
  if (axes.empty()) return Fault{"a collective needs at least one axis", {}};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Mesh& mesh = type.mesh();
    const bool in_mesh = axes[i].axis >= 0 && axes[i].axis < mesh.axis_count();
    if (!in_mesh) return Fault{"an axis that the mesh does not have", {}};
    if (!is_part_of_axis(mesh, axes[i]))
      return Fault{fmt::format("{} is no part of its axis", to_string(mesh, axes[i])), {}};
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(axes[i], axes[j])) return Fault{fmt::format("axis {} is used twice", to_string(mesh, axes[i])), {}};
    }
  }
  return std::nullopt;
}

// The dimension must be cut along the axes, as its most minor ones.
std::optional<Fault> prefix_fault(const DistributedType& type, int dimension, const std::vector<AxisPart>& axes) {
  const std::vector<AxisPart> held = split_into_primes(type.mesh(), type.dimension(dimension).axes);
  const std::vector<AxisPart> wanted = split_into_primes(type.mesh(), axes);
  const bool fits = wanted.size() <= held.size() && std::equal(wanted.begin(), wanted.end(), held.begin());
  if (fits) return std::nullopt;
  const std::string have = to_string(type.mesh(), type.dimension(dimension).axes);
  return Fault{fmt::format("{} is not the most minor cut of dimension {}", to_string(type.mesh(), axes), dimension),
               have.empty() ? "the dimension is not cut" : fmt::format("from minor to major it is cut along {}", have)};
}

std::optional<Fault> divisor_fault(const DistributedType& type, int dimension, const std::vector<AxisPart>& axes) {
  const std::int64_t factor = tile_count(axes);
  const std::int64_t tile = type.dimension(dimension).tile;
  if (tile % factor == 0) return std::nullopt;
  return Fault{fmt::format("the local size {} of dimension {} does not divide by {}", tile, dimension, factor), {}};
}

std::optional<Fault> free_fault(const DistributedType& type, const std::vector<AxisPart>& axes) {
  for (const AxisPart& part : axes) {
    if (type.uses(part)) {
      return Fault{fmt::format("axis {} already cuts a dimension", to_string(type.mesh(), part)),
                   "dynslice takes axes along which the array is replicated"};
    }
  }
  return std::nullopt;
}

std::optional<Fault> shape_fault(const char* which, const Shape& kept, const Shape& other) {
  if (kept == other) return std::nullopt;
  return Fault{
      fmt::format("allpermute keeps the {} shape {}, and this type has {}", which, to_string(kept), to_string(other)),
      {}};
}

// The typing rules of fig:collective-typing.

std::optional<Fault> fault_of(const DistributedType& type, const DynSlice& step) {  // t-dynslice
  if (auto fault = dimension_fault(type, step.dimension)) return fault;
  if (auto fault = axes_fault(type, step.axes)) return fault;
  if (auto fault = free_fault(type, step.axes)) return fault;
  return divisor_fault(type, step.dimension, step.axes);
}

std::optional<Fault> fault_of(const DistributedType& type, const AllToAll& step) {  // t-alltoall
  if (auto fault = dimension_fault(type, step.from)) return fault;
  if (auto fault = dimension_fault(type, step.to)) return fault;
  if (step.from == step.to) return Fault{"alltoall needs two different dimensions", {}};
  if (auto fault = axes_fault(type, step.axes)) return fault;
  if (auto fault = prefix_fault(type, step.from, step.axes)) return fault;
  return divisor_fault(type, step.to, step.axes);
}

std::optional<Fault> fault_of(const DistributedType& type, const AllGather& step) {  // t-allgather
  if (auto fault = dimension_fault(type, step.dimension)) return fault;
  if (auto fault = axes_fault(type, step.axes)) return fault;
  return prefix_fault(type, step.dimension, step.axes);
}

std::optional<Fault> fault_of(const DistributedType& type,
                              const AllPermute& step) {  // t-permute, with equal global types
  if (step.result.mesh() != type.mesh()) return Fault{"allpermute stays on one mesh", {}};
  if (auto fault = shape_fault("global", type.global_shape(), step.result.global_shape())) return fault;
  return shape_fault("local", type.local_shape(), step.result.local_shape());
}

void remove_cut(const Mesh& mesh, Dimension& dimension, const std::vector<AxisPart>& axes) {
  std::vector<AxisPart> held = split_into_primes(mesh, dimension.axes);
  const auto removed = static_cast<std::ptrdiff_t>(split_into_primes(mesh, axes).size());
  held.erase(held.begin(), held.begin() + removed);
  dimension.axes = merge_neighbours(held);
  dimension.tile *= tile_count(axes);
}

void add_cut(Dimension& dimension, const std::vector<AxisPart>& axes) {
  dimension.axes.insert(dimension.axes.begin(), axes.begin(), axes.end());
  dimension.axes = merge_neighbours(dimension.axes);
  dimension.tile /= tile_count(axes);
}

}  // namespace

CollectiveKind kind_of(const Collective& collective) { return static_cast<CollectiveKind>(collective.index()); }

const char* name_of(CollectiveKind kind) { return names.of(kind); }

const std::vector<AxisPart>& axes_of(const Collective& collective) {
  static const std::vector<AxisPart> none;
  if (const auto* slice = std::get_if<DynSlice>(&collective)) return slice->axes;
  if (const auto* move = std::get_if<AllToAll>(&collective)) return move->axes;
  if (const auto* gather = std::get_if<AllGather>(&collective)) return gather->axes;
  return none;
}

std::int64_t factor_of(const Collective& collective) { return tile_count(axes_of(collective)); }

std::optional<Fault> find_fault(const DistributedType& type, const Collective& collective) {
  return std::visit([&](const auto& step) { return fault_of(type, step); }, collective);
}

DistributedType type_after(const DistributedType& type, const Collective& collective) {
  if (const auto fault = find_fault(type, collective)) throw InputError(*fault);
  if (const auto* permute = std::get_if<AllPermute>(&collective)) return permute->result;
  std::vector<Dimension> dimensions = type.dimensions();
  const auto remove = [&](int dimension, const std::vector<AxisPart>& axes) {
    remove_cut(type.mesh(), at(dimensions, dimension), axes);
  };
  const auto add = [&](int dimension, const std::vector<AxisPart>& axes) { add_cut(at(dimensions, dimension), axes); };
  if (const auto* slice = std::get_if<DynSlice>(&collective)) add(slice->dimension, slice->axes);
  if (const auto* gather = std::get_if<AllGather>(&collective)) remove(gather->dimension, gather->axes);
  if (const auto* move = std::get_if<AllToAll>(&collective)) {
    remove(move->from, move->axes);
    add(move->to, move->axes);
  }
  return {type.mesh(), std::move(dimensions)};
}

std::string to_string(const Mesh& mesh, const Collective& collective) {
  const std::vector<AxisPart>& axes = axes_of(collective);
  std::vector<StepChange> changes;
  if (const auto* slice = std::get_if<DynSlice>(&collective)) changes = {{slice->dimension, slice->dimension, 0, axes}};
  if (const auto* move = std::get_if<AllToAll>(&collective)) changes = {{move->from, move->to, 0, axes}};
  if (const auto* gather = std::get_if<AllGather>(&collective))
    changes = {{gather->dimension, gather->dimension, 0, axes}};
  return step_text(name_of(kind_of(collective)), changes, mesh);
}

}  // namespace retile
