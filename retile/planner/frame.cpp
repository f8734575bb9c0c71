#include "retile/planner/frame.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "retile/base/arithmetic.h"

namespace retile {
namespace {

// --- One mesh for both ends: digits of the numbers of devices.

// A prime part of a mesh, and the distance in the world between devices that differ by one along it.
struct WorldDigit {
  AxisPart part;
  std::int64_t stride = 1;
};

// The prime parts of the layout's mesh by rising strides, which number all of the world's devices; nothing where digits
// do not number the devices.
std::optional<std::vector<WorldDigit>> world_digits(const MeshLayout& layout, std::int64_t world) {
  const Mesh& mesh = layout.mesh;
  if (mesh.device_count() != world) return std::nullopt;
  const auto device_at = [&](std::int64_t index) { return layout.devices.empty() ? index : at(layout.devices, index); };
  std::vector<WorldDigit> digits;
  for (const AxisPart& part : mesh.prime_parts()) digits.push_back({part, device_at(mesh.stride(part)) - device_at(0)});
  if (!layout.devices.empty()) {
    for (Device index = 0; index < world; ++index) {
      std::int64_t sum = 0;
      for (const WorldDigit& digit : digits) sum += mesh.coordinate(index, digit.part) * digit.stride;
      if (device_at(index) != sum) return std::nullopt;
    }
  }
  std::sort(digits.begin(), digits.end(), [](const WorldDigit& a, const WorldDigit& b) { return a.stride < b.stride; });
  return digits;
}

// A mesh that numbers the world's devices row-major, and the prime parts on it that correspond to those of the ends'
// meshes.
struct CommonMesh {
  Mesh mesh;
  std::vector<WorldDigit> source;  // by rising strides
  std::vector<WorldDigit> target;  // the same strides
  std::vector<AxisPart> parts;     // of `mesh`, in the order of `source` and `target`
};

std::optional<CommonMesh> find_common_mesh(const MeshLayout& source, const MeshLayout& target, std::int64_t world) {
  auto from = world_digits(source, world);
  auto to = world_digits(target, world);
  if (!from || !to || from->size() != to->size()) return std::nullopt;
  for (std::size_t i = 0; i < from->size(); ++i) {
    const WorldDigit& a = (*from)[i];
    const WorldDigit& b = (*to)[i];
    if (a.stride != b.stride || a.part.size != b.part.size) return std::nullopt;
  }
  CommonMesh common{source.mesh, std::move(*from), std::move(*to), {}};
  const std::vector<WorldDigit>* named = &common.source;
  if (!source.devices.empty() && target.devices.empty()) {
    common.mesh = target.mesh;
    named = &common.target;
  } else if (!source.devices.empty()) {
    std::vector<Axis> axes;
    for (std::size_t i = common.source.size(); i-- > 0;) {
      axes.push_back({"digit" + std::to_string(i), common.source[i].part.size});
    }
    common.mesh = Mesh(std::move(axes));
    for (std::size_t i = 0; i < common.source.size(); ++i) {
      common.parts.push_back(common.mesh.whole(static_cast<int>(common.source.size() - 1 - i)));
    }
    return common;
  }
  for (const WorldDigit& digit : *named) common.parts.push_back(digit.part);
  return common;
}

// Parts of an end's mesh, minor to major, as prime parts of the common one.
std::vector<AxisPart> common_parts(const CommonMesh& common, const Mesh& mesh, const std::vector<WorldDigit>& digits,
                                   const std::vector<AxisPart>& parts) {
  std::vector<AxisPart> result;
  for (const AxisPart& prime : prime_digits(mesh, parts)) {
    const auto found =
        std::find_if(digits.begin(), digits.end(), [&](const WorldDigit& digit) { return digit.part == prime; });
    result.push_back(at(common.parts, found - digits.begin()));
  }
  return result;
}

// --- One list of factors for both ends.

// Adds the strides at which cut factors begin and end.
void add_bounds(const std::vector<Factor>& factors, std::set<std::int64_t>& bounds) {
  std::int64_t stride = 1;
  for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
    if (!factor->axes.empty()) bounds.insert({stride, stride * factor->size});
    stride *= factor->size;
  }
}

// The sizes of the factors of a common refinement, minor to major.
std::optional<Shape> common_factors(const std::vector<Factor>& source, const std::vector<Factor>& target,
                                    std::int64_t size) {
  std::set<std::int64_t> bounds{1, size};
  add_bounds(source, bounds);
  add_bounds(target, bounds);
  Shape factors;
  for (auto bound = bounds.begin(); std::next(bound) != bounds.end(); ++bound) {
    if (*std::next(bound) % *bound != 0) return std::nullopt;
    factors.push_back(*std::next(bound) / *bound);
  }
  if (factors.empty()) factors.push_back(1);
  return factors;
}

// Deals a factor's prime parts (minor to major) to the finer factors that make it up (minor to major). A finer factor
// is cut only if all factors major to it are cut into single elements.
std::optional<std::vector<std::vector<AxisPart>>> refine_cuts(std::span<const std::int64_t> finer,
                                                              std::vector<AxisPart> parts) {
  std::vector<std::vector<AxisPart>> cuts(finer.size());
  for (std::size_t i = finer.size(); i-- > 0 && !parts.empty();) {
    std::int64_t left = finer[i];
    if (i == 0) {
      cuts[0] = parts;
      return cuts;
    }
    while (left > 1 && !parts.empty()) {
      if (left % parts.back().size != 0) return std::nullopt;
      left /= parts.back().size;
      cuts[i].insert(cuts[i].begin(), parts.back());
      parts.pop_back();
    }
  }
  return cuts;
}

// The cuts of an end's factors, in the common factors, minor to major.
std::optional<std::vector<std::vector<AxisPart>>> refined_axes(const std::vector<Factor>& factors,
                                                               const Shape& common) {
  std::vector<std::vector<AxisPart>> axes(common.size());
  std::int64_t stride = 1;
  for (auto factor = factors.rbegin(); factor != factors.rend(); stride *= (factor++)->size) {
    if (factor->axes.empty()) continue;
    std::size_t first = 0;
    for (std::int64_t before = 1; before < stride; ++first) before *= common[first];
    std::size_t end = first;
    for (std::int64_t size = 1; size < factor->size; ++end) size *= common[end];
    if (factor->size == 1 && common.size() == 1 && common[0] == 1) end = 1;  // a dimension of one element
    const bool is_even = factor->size % tile_count(factor->axes) == 0;
    if (end == first || (end > first + 1 && !is_even)) return std::nullopt;
    auto cuts = refine_cuts(std::span(common).subspan(first, end - first), factor->axes);
    if (!cuts) return std::nullopt;
    std::move(cuts->begin(), cuts->end(), axes.begin() + static_cast<std::ptrdiff_t>(first));
  }
  return axes;
}

// The size that a dimension is padded to, so that both ends cut it evenly into tiles as long as their own; nothing
// where there is none.
std::optional<std::int64_t> padded_size(std::int64_t size, std::int64_t source_tiles, std::int64_t target_tiles) {
  const auto padded = [&](std::int64_t tiles) { return divide_up(size, tiles) * tiles; };
  const std::int64_t result = std::max(padded(source_tiles), padded(target_tiles));
  for (const std::int64_t tiles : {source_tiles, target_tiles}) {
    if (tiles > 1 && padded(tiles) != result) return std::nullopt;
  }
  return result;
}

// A factor of the common refinement, and the axes along which each end cuts it.
struct CommonFactor {
  std::int64_t size = 1;
  std::vector<AxisPart> from;
  std::vector<AxisPart> to;

  bool is_cut() const { return !from.empty() || !to.empty(); }
  bool divides() const { return size % tile_count(from) == 0 && size % tile_count(to) == 0; }
};

class FrameFinder {
 public:
  FrameFinder(MeshLayout source, MeshLayout target, CommonMesh common)
      : source_(std::move(source)), target_(std::move(target)), common_(std::move(common)) {}

  std::optional<Frame> find() {
    for (std::size_t i = 0; i < source_.view.size(); ++i) {
      if (!add_dimension(common_view(source_, i, common_.source), common_view(target_, i, common_.target))) {
        return std::nullopt;
      }
    }
    if (view_.size() == shape_.size()) view_.clear();
    return Frame{{common_.mesh, from_}, {common_.mesh, to_}, shape_, view_};
  }

 private:
  // A dimension's factors, with their axes as parts of the common mesh.
  std::optional<std::vector<Factor>> common_view(const MeshLayout& layout, std::size_t dimension,
                                                 const std::vector<WorldDigit>& digits) const {
    std::vector<Factor> factors = layout.view[dimension];
    for (Factor& factor : factors) {
      if (!same_tiles(factor, layout.rule, UnevenRule::ceiling)) return std::nullopt;
      factor.axes = common_parts(common_, layout.mesh, digits, factor.axes);
    }
    return factors;
  }

  bool add_dimension(const std::optional<std::vector<Factor>>& from, const std::optional<std::vector<Factor>>& to) {
    if (!from || !to) return false;
    std::int64_t size = 1;
    for (const Factor& factor : *from) size *= factor.size;
    const auto common = common_factors(*from, *to, size);
    const auto source_axes = common ? refined_axes(*from, *common) : std::nullopt;
    const auto target_axes = common ? refined_axes(*to, *common) : std::nullopt;
    if (!source_axes || !target_axes) return false;
    std::vector<CommonFactor> factors;  // minor to major
    for (std::size_t j = 0; j < common->size(); ++j) {
      CommonFactor factor{(*common)[j], (*source_axes)[j], (*target_axes)[j]};
      if (!factors.empty() && !factors.back().is_cut() && factor.divides()) {  // as one factor they have the same tiles
        factor.size *= factors.back().size;
        factors.pop_back();
      }
      factors.push_back(std::move(factor));
    }
    view_.emplace_back();
    for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
      if (!add_factor(*factor)) return false;
    }
    return true;
  }

  bool add_factor(const CommonFactor& factor) {
    const std::int64_t from_tiles = tile_count(factor.from);
    const std::int64_t to_tiles = tile_count(factor.to);
    const auto padded = padded_size(factor.size, from_tiles, to_tiles);
    if (!padded) return false;
    shape_.push_back(factor.size);
    view_.back().push_back(factor.size);
    from_.push_back({*padded / from_tiles, factor.from, *padded});
    to_.push_back({*padded / to_tiles, factor.to, *padded});
    return true;
  }

  const MeshLayout source_;
  const MeshLayout target_;
  const CommonMesh common_;
  std::vector<Dimension> from_;
  std::vector<Dimension> to_;
  Shape shape_;
  std::vector<Shape> view_;
};

}  // namespace

std::optional<Frame> find_frame(const Problem& problem) {
  const Shape shape = problem.source().global_shape();
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return std::nullopt;
  if (!problem.source().is_plain() || !problem.target().is_plain()) return std::nullopt;
  auto source = problem.source().cuts();
  auto target = problem.target().cuts();
  auto common = find_common_mesh(*source, *target, problem.device_count());
  if (!common) return std::nullopt;
  return FrameFinder(std::move(*source), std::move(*target), std::move(*common)).find();
}

}  // namespace retile
