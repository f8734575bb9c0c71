#include "retile/collectives/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/collectives/notation.h"
#include "retile/types/text.h"

namespace retile {
namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

std::string join_axes(const Mesh& mesh, const std::vector<AxisPart>& axes) {
  std::string out;
  for (const AxisPart& part : merge_neighbours(axes)) out += (out.empty() ? "" : ",") + to_string(mesh, part);
  return out;
}

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

std::int64_t product_of_sizes(const std::vector<AxisPart>& axes) {
  std::int64_t factor = 1;
  for (const AxisPart& part : axes) factor *= part.size;
  return factor;
}

// The dimension must be cut along the axes, as its most minor ones.
std::optional<Fault> prefix_fault(const DistributedType& type, int dimension, const std::vector<AxisPart>& axes) {
  const std::vector<AxisPart> held = split_into_primes(type.mesh(), type.dimension(dimension).axes);
  const std::vector<AxisPart> wanted = split_into_primes(type.mesh(), axes);
  const bool fits = wanted.size() <= held.size() && std::equal(wanted.begin(), wanted.end(), held.begin());
  if (fits) return std::nullopt;
  const std::string have = join_axes(type.mesh(), type.dimension(dimension).axes);
  return Fault{fmt::format("{} is not the most minor cut of dimension {}", join_axes(type.mesh(), axes), dimension),
               have.empty() ? "the dimension is not cut" : fmt::format("from minor to major it is cut along {}", have)};
}

std::optional<Fault> divisor_fault(const DistributedType& type, int dimension, const std::vector<AxisPart>& axes) {
  const std::int64_t factor = product_of_sizes(axes);
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

// The first fault that is found, in order.
template <typename... Checks>
std::optional<Fault> first_fault(Checks... checks) {
  std::optional<Fault> found;
  (void)((found = checks(), found.has_value()) || ...);
  return found;
}

void remove_cut(const Mesh& mesh, Dimension& dimension, const std::vector<AxisPart>& axes) {
  std::vector<AxisPart> held = split_into_primes(mesh, dimension.axes);
  const auto removed = static_cast<std::ptrdiff_t>(split_into_primes(mesh, axes).size());
  held.erase(held.begin(), held.begin() + removed);
  dimension.axes = merge_neighbours(held);
  dimension.tile *= product_of_sizes(axes);
}

void add_cut(Dimension& dimension, const std::vector<AxisPart>& axes) {
  dimension.axes.insert(dimension.axes.begin(), axes.begin(), axes.end());
  dimension.axes = merge_neighbours(dimension.axes);
  dimension.tile /= product_of_sizes(axes);
}

}  // namespace

CollectiveKind kind_of(const Collective& collective) { return static_cast<CollectiveKind>(collective.index()); }

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::dynslice:
      return "dynslice";
    case CollectiveKind::alltoall:
      return "alltoall";
    case CollectiveKind::allgather:
      return "allgather";
    case CollectiveKind::allpermute:
      return "allpermute";
  }
  throw InternalError("unknown collective");
}

const std::vector<AxisPart>& axes_of(const Collective& collective) {
  static const std::vector<AxisPart> none;
  return std::visit(Overloaded{[](const AllPermute&) -> const std::vector<AxisPart>& { return none; },
                               [](const auto& step) -> const std::vector<AxisPart>& { return step.axes; }},
                    collective);
}

std::int64_t factor_of(const Collective& collective) { return product_of_sizes(axes_of(collective)); }

std::optional<Fault> find_fault(const DistributedType& type, const Collective& collective) {
  return std::visit(
      Overloaded{[&](const DynSlice& step) {  // t-dynslice
                   return first_fault([&] { return dimension_fault(type, step.dimension); },
                                      [&] { return axes_fault(type, step.axes); },
                                      [&] { return free_fault(type, step.axes); },
                                      [&] { return divisor_fault(type, step.dimension, step.axes); });
                 },
                 [&](const AllToAll& step) {  // t-alltoall
                   const auto same = [&]() -> std::optional<Fault> {
                     if (step.from != step.to) return std::nullopt;
                     return Fault{"alltoall needs two different dimensions", {}};
                   };
                   return first_fault([&] { return dimension_fault(type, step.from); },
                                      [&] { return dimension_fault(type, step.to); }, same,
                                      [&] { return axes_fault(type, step.axes); },
                                      [&] { return prefix_fault(type, step.from, step.axes); },
                                      [&] { return divisor_fault(type, step.to, step.axes); });
                 },
                 [&](const AllGather& step) {  // t-allgather
                   return first_fault([&] { return dimension_fault(type, step.dimension); },
                                      [&] { return axes_fault(type, step.axes); },
                                      [&] { return prefix_fault(type, step.dimension, step.axes); });
                 },
                 [&](const AllPermute& step) -> std::optional<Fault> {  // t-permute, with equal global types
                   if (step.result.mesh() != type.mesh()) return Fault{"allpermute stays on one mesh", {}};
                   if (step.result.global_shape() != type.global_shape()) {
                     return Fault{fmt::format("allpermute keeps the global shape {}, and this type has {}",
                                              to_string(type.global_shape()), to_string(step.result.global_shape())),
                                  {}};
                   }
                   if (step.result.local_shape() != type.local_shape()) {
                     return Fault{fmt::format("allpermute keeps the local shape {}, and this type has {}",
                                              to_string(type.local_shape()), to_string(step.result.local_shape())),
                                  {}};
                   }
                   return std::nullopt;
                 }},
      collective);
}

DistributedType type_after(const DistributedType& type, const Collective& collective) {
  if (auto fault = find_fault(type, collective)) throw InputError(std::move(fault->message), std::move(fault->hint));
  std::vector<Dimension> dimensions = type.dimensions();
  const auto at = [&](int dimension) -> Dimension& { return dimensions[static_cast<std::size_t>(dimension)]; };
  return std::visit(Overloaded{[&](const DynSlice& step) {
                                 add_cut(at(step.dimension), step.axes);
                                 return DistributedType(type.mesh(), std::move(dimensions));
                               },
                               [&](const AllToAll& step) {
                                 remove_cut(type.mesh(), at(step.from), step.axes);
                                 add_cut(at(step.to), step.axes);
                                 return DistributedType(type.mesh(), std::move(dimensions));
                               },
                               [&](const AllGather& step) {
                                 remove_cut(type.mesh(), at(step.dimension), step.axes);
                                 return DistributedType(type.mesh(), std::move(dimensions));
                               },
                               [&](const AllPermute& step) { return step.result; }},
                    collective);
}

std::int64_t cost(CollectiveKind kind, std::int64_t local_size_before, std::int64_t local_size_after) {
  switch (kind) {
    case CollectiveKind::dynslice:
      return 0;
    case CollectiveKind::allgather:
      return local_size_after;
    case CollectiveKind::alltoall:
    case CollectiveKind::allpermute:
      return local_size_before;
  }
  throw InternalError("unknown collective");
}

std::string to_string(const Mesh& mesh, const Collective& collective) {
  std::vector<StepChange> changes;
  std::visit(Overloaded{[](const AllPermute&) {},
                        [&](const AllToAll& step) {
                          changes = {{step.from, step.to, 0, step.axes}};
                        },
                        [&](const auto& step) {
                          changes = {{step.dimension, step.dimension, 0, step.axes}};
                        }},
             collective);
  return step_text(name_of(kind_of(collective)), changes, mesh);
}

}  // namespace retile
