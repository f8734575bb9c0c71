// XLA's HloSharding by tiles, as layouts and back; those with named axes are in shardy.cpp.
//
//   {devices=[2,1,4]<=[4,2]T(1,0)}      tiles along each dimension; their devices, row-major over the tiles, are
//                                       0, 1, 2, … in the shape [4,2], transposed
//   {devices=[2,2]0,2,1,3}              the devices one by one
//   … last_tile_dim_replicate}          the last count is of devices that hold the same
//   … last_tile_dims={…}}               the last counts are of devices that hold the same, or parts of a sum
//   {replicated}  {maximal device=0}    everything on all devices, on one
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "retile/base/list.h"
#include "retile/interchange/readers.h"
#include "retile/interchange/xla_sharding.h"
#include "retile/types/text.h"

namespace retile::interchange {
namespace {

// --- To layouts.

// The digits of a sharding's devices, by what they do.
struct Cuts {
  std::vector<std::vector<Digit>> dimensions;  // each major to minor
  std::vector<Digit> replicas;
  std::vector<Digit> partial;
};

// The digits by falling strides: among devices that do the same, the order has no meaning.
std::vector<Digit> in_order(std::vector<Digit> digits) {
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  return joined(digits);
}

// The cuts of a sharding; nothing where its tiles do not follow digits.
std::optional<Cuts> find_cuts(const Sharding& sharding, std::size_t rank) {
  Cuts cuts;
  cuts.dimensions.resize(rank);
  const std::vector<Digit> all{{sharding.order.count, 1}};
  if (sharding.kind == Sharding::Kind::replicated) cuts.replicas = joined(all);
  if (sharding.kind == Sharding::Kind::unreduced) cuts.partial = joined(all);
  if (sharding.kind != Sharding::Kind::tiled) return cuts;
  if (!sharding.order.devices.empty()) return std::nullopt;
  std::vector<Digit> left = sharding.order.digits;
  for (std::size_t i = 0; i < sharding.counts.size(); ++i) {
    auto taken = take(left, sharding.counts[i]);
    if (!taken) return std::nullopt;
    if (i < rank) {
      cuts.dimensions[i] = std::move(*taken);
    } else {
      auto& others = sharding.subgroups[i - rank] == Subgroup::replicated ? cuts.replicas : cuts.partial;
      others.insert(others.end(), taken->begin(), taken->end());
    }
  }
  cuts.replicas = in_order(std::move(cuts.replicas));
  cuts.partial = in_order(std::move(cuts.partial));
  return cuts;
}

std::string axis_name(std::size_t index) {
  const std::string letter(1, static_cast<char>('a' + index % 26));
  return index < 26 ? letter : fmt::format("{}{}", letter, index / 26);
}

// A mesh whose axes make up all digits; nothing where digits overlap in part.
std::optional<Mesh> find_mesh(const std::vector<Cuts>& cuts, std::int64_t device_count) {
  std::set<std::int64_t> bounds{1, device_count};
  const auto add = [&](const std::vector<Digit>& digits) {
    for (const Digit& digit : digits) bounds.insert({digit.stride, digit.stride * digit.size});
  };
  for (const Cuts& one : cuts) {
    for (const std::vector<Digit>& digits : one.dimensions) add(digits);
    add(one.replicas);
    add(one.partial);
  }
  std::vector<Axis> axes;
  for (auto bound = bounds.rbegin(); std::next(bound) != bounds.rend(); ++bound) {
    if (*bound % *std::next(bound) != 0) return std::nullopt;
    axes.push_back({axis_name(axes.size()), *bound / *std::next(bound)});
  }
  return Mesh(std::move(axes));
}

// A digit as parts of the mesh's axes, minor to major; nothing where it is not made of such parts.
std::optional<std::vector<AxisPart>> parts_of(const Mesh& mesh, const Digit& digit) {
  std::vector<AxisPart> parts;
  std::int64_t stride = digit.stride;
  const std::vector<AxisPart>& primes = mesh.prime_parts();
  for (auto prime = primes.rbegin(); prime != primes.rend(); ++prime) {
    if (mesh.stride(*prime) != stride || stride == digit.stride * digit.size) continue;
    parts.push_back(*prime);
    stride *= prime->size;
  }
  if (stride != digit.stride * digit.size) return std::nullopt;
  return merge_neighbours(parts);
}

// The layout of these cuts on the mesh; nothing where the mesh has no axes for them.
std::optional<Layout> layout_on(const Mesh& mesh, const Cuts& cuts, const Shape& shape) {
  MeshLayout layout{mesh, {}, UnevenRule::ceiling, {}, Reduction::sum, {}};
  const auto append = [&](std::vector<AxisPart>& axes, const Digit& digit) {
    const auto parts = parts_of(mesh, digit);
    if (parts) axes.insert(axes.begin(), parts->begin(), parts->end());
    return parts.has_value();
  };
  for (std::size_t i = 0; i < shape.size(); ++i) {
    Factor& factor = layout.view.emplace_back().emplace_back();
    factor.size = shape[i];
    for (const Digit& digit : cuts.dimensions[i]) {
      if (!append(factor.axes, digit)) return std::nullopt;
    }
  }
  for (const Digit& digit : cuts.partial) {
    if (!append(layout.partial, digit)) return std::nullopt;
  }
  std::reverse(layout.partial.begin(), layout.partial.end());
  return Layout(std::move(layout));
}

// The layout on a mesh with an axis for each dimension of tiles, and the devices in their order.
Layout layout_by_list(const Sharding& sharding, const Shape& shape) {
  std::vector<Axis> axes;
  for (const std::int64_t count : sharding.counts) {
    if (count > 1) axes.push_back({axis_name(axes.size()), count});
  }
  MeshLayout layout{Mesh(std::move(axes)), {}, UnevenRule::ceiling, {}, Reduction::sum, sharding.order.devices};
  if (layout.devices.empty()) layout.devices = listed(sharding.order.digits);
  int axis = 0;
  for (std::size_t i = 0; i < sharding.counts.size(); ++i) {
    std::vector<AxisPart> axes_here;
    if (sharding.counts[i] > 1) axes_here.push_back(layout.mesh.whole(axis++));
    if (i < shape.size()) {
      layout.view.push_back({{shape[i], axes_here}});
    } else if (sharding.subgroups[i - shape.size()] == Subgroup::unreduced) {
      layout.partial.insert(layout.partial.end(), axes_here.begin(), axes_here.end());
    }
  }
  return Layout(std::move(layout));
}

class ShardingReader {
 public:
  ShardingReader(std::span<const SourceText> texts, const Shape& shape, const std::optional<PlacedMesh>& mesh)
      : texts_(texts), shape_(shape), given_(mesh) {}

  std::vector<Layout> read() {
    for (const SourceText& text : texts_) {
      shardings_.push_back(scan_sharding(text));
      require_rank_of(shardings_.size() - 1);
    }
    count_devices();
    std::vector<Cuts> cuts;
    for (const Sharding& sharding : shardings_) {
      if (auto found = find_cuts(sharding, shape_.size())) cuts.push_back(std::move(*found));
    }
    const bool is_shared = is_one_world_ && device_count_ > 0 && cuts.size() == shardings_.size();
    const auto common = given_      ? std::optional(given_->mesh)
                        : is_shared ? find_mesh(cuts, device_count_)
                                    : std::nullopt;
    std::vector<Layout> layouts;
    for (std::size_t i = 0; i < shardings_.size(); ++i) layouts.push_back(layout_of(i, common));
    return layouts;
  }

 private:
  [[noreturn]] void fail(std::size_t i, SourceRange place, const std::string& message, const std::string& hint) const {
    throw InputError(diagnose(texts_[i], place, message, hint));
  }

  void require_rank_of(std::size_t i) const {
    const Sharding& sharding = shardings_[i];
    if (sharding.kind != Sharding::Kind::tiled || sharding.rank() == shape_.size()) return;
    const std::string others = sharding.subgroups.empty() ? "" : " beside those that are no tiles";
    fail(i, sharding.counts_place,
         fmt::format("{} tile {}{} for an array of rank {}", sharding.rank(), sharding.rank() == 1 ? "count" : "counts",
                     others, shape_.size()),
         fmt::format("its shape is {}", to_string(shape_)));
  }

  // Counts the devices of the mesh, or those that the shardings name.
  void count_devices() {
    if (given_) device_count_ = given_->mesh.device_count();
    for (std::size_t i = 0; i < shardings_.size(); ++i) {
      const Sharding& sharding = shardings_[i];
      if (sharding.kind != Sharding::Kind::tiled) continue;
      if (given_ && sharding.order.count != device_count_) {
        fail(i, sharding.place, fmt::format("{} devices, where the mesh has {}", sharding.order.count, device_count_),
             {});
      }
      is_one_world_ = is_one_world_ && (device_count_ == 0 || device_count_ == sharding.order.count);
      device_count_ = std::max(device_count_, sharding.order.count);
    }
    for (std::size_t i = 0; i < shardings_.size(); ++i) {
      Sharding& sharding = shardings_[i];
      if (sharding.kind == Sharding::Kind::tiled || sharding.kind == Sharding::Kind::maximal) continue;
      if (device_count_ == 0) {
        fail(i, sharding.place, "nothing says how many devices there are", "give a mesh, as in --mesh a=8");
      }
      sharding.order.count = device_count_;
    }
  }

  Layout layout_of(std::size_t i, const std::optional<Mesh>& common) const {
    const Sharding& sharding = shardings_[i];
    if (sharding.kind == Sharding::Kind::maximal) return layout_on_one(sharding.device, shape_);
    const auto cuts = find_cuts(sharding, shape_.size());
    if (cuts && common) {
      if (auto layout = layout_on(*common, *cuts, shape_)) return std::move(*layout);
    }
    if (given_) {
      fail(i, sharding.place,
           fmt::format("these tiles do not lie along the axes of the mesh {}", to_string(given_->mesh)),
           "without --mesh, the mesh is the one that follows from the shardings");
    }
    const auto own = cuts ? find_mesh({*cuts}, sharding.order.count) : std::nullopt;
    if (own) return *layout_on(*own, *cuts, shape_);
    if (sharding.order.count > most_listed) {
      fail(i, sharding.place, fmt::format("{} devices are too many to be listed", sharding.order.count),
           "these tiles follow no axes of a mesh in the order of the devices");
    }
    return layout_by_list(sharding, shape_);
  }

  std::span<const SourceText> texts_;
  const Shape& shape_;
  const std::optional<PlacedMesh>& given_;
  std::vector<Sharding> shardings_;
  std::int64_t device_count_ = 0;  // 0: not known
  bool is_one_world_ = true;
};

// --- Back to text.

// The digits of device numbers along these parts of a mesh, in order.
std::vector<Digit> digits_along(const Mesh& mesh, const std::vector<AxisPart>& parts) {
  std::vector<Digit> digits;
  for (const AxisPart& part : parts) digits.push_back({part.size, mesh.stride(part)});
  return digits;
}

// The prime parts, major to minor, that neither cut nor are summed over.
std::vector<AxisPart> free_parts(const PlainCuts& cuts) {
  std::vector<AxisPart> used = split_into_primes(cuts.mesh, cuts.partial);
  for (const std::vector<AxisPart>& axes : cuts.dimensions) {
    const std::vector<AxisPart> primes = split_into_primes(cuts.mesh, axes);
    used.insert(used.end(), primes.begin(), primes.end());
  }
  std::vector<AxisPart> free;
  for (const AxisPart& prime : cuts.mesh.prime_parts()) {
    if (std::find(used.begin(), used.end(), prime) == used.end()) free.push_back(prime);
  }
  return free;
}

std::string order_text(const std::vector<Digit>& order) {
  const std::vector<Digit> digits = joined(order);
  std::vector<Digit> sorted = digits;
  std::sort(sorted.begin(), sorted.end(), [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  if (digits.size() < 2) return fmt::format("<=[{}]", digits.empty() ? 1 : digits.front().size);
  std::vector<std::int64_t> sizes;
  std::vector<std::size_t> permutation;
  for (const Digit& digit : sorted) sizes.push_back(digit.size);
  for (const Digit& digit : digits) {
    permutation.push_back(static_cast<std::size_t>(std::find(sorted.begin(), sorted.end(), digit) - sorted.begin()));
  }
  return fmt::format("<=[{}]T({})", fmt::join(sizes, ","), fmt::join(permutation, ","));
}

std::string devices_text(const std::vector<Digit>& order, const std::vector<Device>& devices) {
  if (devices.empty()) return order_text(order);
  std::vector<Device> named;
  for (const Device index : listed(order)) named.push_back(at(devices, index));
  if (const auto digits = find_digits(named)) return order_text(*digits);
  return fmt::format("{}", fmt::join(named, ","));
}

std::string subgroups_text(std::int64_t replicas, std::int64_t parts) {
  if (parts == 1) return replicas == 1 ? "" : " last_tile_dim_replicate";
  return fmt::format(" last_tile_dims={{{}unreduced}}", replicas == 1 ? "" : "replicated, ");
}

bool is_whole_world(const std::vector<Device>& devices) {
  return devices.empty() ||
         *std::max_element(devices.begin(), devices.end()) + 1 == static_cast<Device>(devices.size());
}

}  // namespace

std::vector<Layout> parse_xla(std::span<const SourceText> texts, const Shape& shape,
                              const std::optional<PlacedMesh>& mesh) {
  if (mesh && !mesh->devices.empty()) {
    throw InputError("an XLA sharding says its devices itself", "give the mesh with its sizes alone");
  }
  return ShardingReader(texts, shape, mesh).read();
}

std::string to_xla(const Layout& layout) {
  const PlainCuts cuts = plain_cuts(layout, "XLA");
  require_sum(cuts, "XLA");
  if (cuts.mesh.device_count() == 1) {
    return fmt::format("{{maximal device={}}}", cuts.devices.empty() ? 0 : cuts.devices.front());
  }
  std::vector<Digit> order;
  std::vector<std::int64_t> counts;
  const auto append = [&](const std::vector<Digit>& digits) {
    order.insert(order.end(), digits.begin(), digits.end());
    counts.push_back(1);
    for (const Digit& digit : digits) counts.back() *= digit.size;
    return counts.back();
  };
  std::int64_t tiles = 1;
  for (const std::vector<AxisPart>& axes : cuts.dimensions) tiles *= append(digits_along(cuts.mesh, axes));
  const std::int64_t replicas = append(digits_along(cuts.mesh, free_parts(cuts)));
  if (replicas == 1) counts.pop_back();
  const std::int64_t parts = append(in_order(digits_along(cuts.mesh, cuts.partial)));
  if (parts == 1) counts.pop_back();
  if (tiles == 1 && (parts == 1 || replicas == 1) && is_whole_world(cuts.devices)) {
    return parts == 1 ? "{replicated}" : "{unreduced}";
  }
  return fmt::format("{{devices=[{}]{}{}}}", fmt::join(counts, ","), devices_text(order, cuts.devices),
                     subgroups_text(replicas, parts));
}

}  // namespace retile::interchange
