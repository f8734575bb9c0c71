#include "retile/types/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/names.h"
#include "retile/types/text.h"

namespace retile {
namespace {

constexpr Names<UnevenRule, 4> rule_names{{"ceil", "nested", "balanced", "last"}};
constexpr Names<Reduction, 3> reductions{{"sum", "max", "min"}};

using MeshFault = Layout::MeshFault;
using BoxFault = Layout::BoxFault;

// The most tiles that are compared one by one. Comparing so many takes negligible time.
constexpr std::int64_t most_compared_tiles = std::int64_t{1} << 20U;

// The most blocks of a layout: each takes memory for a moment.
constexpr std::int64_t most_blocks = std::int64_t{1} << 22U;

std::int64_t size_of(const std::vector<Factor>& factors) {
  std::int64_t size = 1;
  for (const Factor& factor : factors) size *= factor.size;
  return size;
}

bool is_plain(const MeshLayout& layout) {
  return layout.halo.empty() && layout.order.empty() &&
         std::all_of(layout.view.begin(), layout.view.end(), [](const std::vector<Factor>& factors) {
           return std::all_of(factors.begin(), factors.end(),
                              [](const Factor& factor) { return factor.block == 0 && factor.tiles.empty(); });
         });
}

// --- Types.

// The layout as a type; nothing where no type describes it.
std::optional<DistributedType> find_type(const MeshLayout& layout) {
  if (!layout.partial.empty() || !layout.devices.empty() || !is_plain(layout)) return std::nullopt;
  std::vector<Dimension> dimensions;
  for (const std::vector<Factor>& factors : layout.view) {
    const Factor& whole = factors.front();
    const std::int64_t count = tile_count(whole.axes);
    if (factors.size() != 1 || whole.size == 0 || whole.size % count != 0) return std::nullopt;
    dimensions.push_back({whole.size / count, whole.axes, whole.size});
  }
  return DistributedType(layout.mesh, std::move(dimensions));
}

MeshLayout mesh_layout_of(const DistributedType& type) {
  MeshLayout layout{type.mesh(), {}, UnevenRule::ceiling, {}, Reduction::sum, {}};
  for (const Dimension& dimension : type.dimensions()) layout.view.push_back({{dimension.global, dimension.axes}});
  return layout;
}

// The layout with neighbouring parts of an axis merged, so that it is written in one way. The nested rule treats parts
// separately, so it is left as it is.
MeshLayout with_merged_axes(MeshLayout layout) {
  if (layout.rule == UnevenRule::nested) return layout;
  for (std::vector<Factor>& factors : layout.view) {
    for (Factor& factor : factors) factor.axes = merge_neighbours(factor.axes);
  }
  return layout;
}

// The factors of a dimension whose blocks make up whole rounds: rounds, devices, elements of a block.
std::vector<Factor> factors_of(const Factor& dealt) {
  const std::int64_t count = tile_count(dealt.axes);
  if (dealt.size == 0 || count == 1) return {{dealt.size, dealt.axes}};
  const std::optional<std::int64_t> round = checked_multiply(dealt.block, count);
  if (dealt.first != 0 || !round || dealt.size % *round != 0) return {dealt};
  if (dealt.size == *round) return {{dealt.size, dealt.axes}};
  std::vector<Factor> factors{{dealt.size / *round, {}}, {count, dealt.axes}};
  if (dealt.block > 1) factors.push_back({dealt.block, {}});
  return factors;
}

bool are_listed_by_rule(const Factor& factor, UnevenRule rule) {
  const std::int64_t count = tile_count(factor.axes);
  for (std::int64_t i = 0; i < count; ++i) {
    if (cut_interval(factor.size, factor.axes, rule, i).size() != factor.tiles[static_cast<std::size_t>(i)])
      return false;
  }
  return true;
}

void drop_empty_halo(std::vector<Halo>& halo) {
  bool has_some = false;
  for (Halo& one : halo) {
    if (one.before == 0 && one.after == 0) one.wraps = false;
    has_some = has_some || one.before != 0 || one.after != 0;
  }
  if (!has_some) halo.clear();
}

void drop_own_order(std::vector<int>& order) {
  if (std::is_sorted(order.begin(), order.end())) order.clear();
}

// The layout written in one way: without blocks, lists, halos and orders that have no effect.
MeshLayout simplest(MeshLayout layout) {
  for (std::vector<Factor>& factors : layout.view) {
    if (factors.size() == 1 && factors[0].block > 0) factors = factors_of(Factor(factors[0]));
    if (!factors[0].tiles.empty() && are_listed_by_rule(factors[0], layout.rule)) factors[0].tiles.clear();
  }
  drop_empty_halo(layout.halo);
  drop_own_order(layout.order);
  return layout;
}

// --- Faults.

std::optional<Fault> find_axis_fault(const Mesh& mesh, const AxisPart& part, std::vector<AxisPart>& used) {
  // A one-dimensional type that is long enough finds what is wrong with the axes.
  std::vector<AxisPart> axes = used;
  axes.push_back(part);
  std::int64_t size = 1;
  for (const AxisPart& axis : axes) size = checked_multiply(size, std::max<std::int64_t>(1, axis.size)).value_or(1);
  const std::vector<Dimension> dimension{{1, axes, size}};
  auto found = DistributedType::find_fault(mesh, dimension);
  used.push_back(part);
  if (found && found->axis == static_cast<int>(axes.size()) - 1) return std::move(found->fault);
  return std::nullopt;
}

std::optional<MeshFault> find_device_fault(const MeshLayout& layout) {
  const auto at = [](int device, Fault fault) { return MeshFault{-1, -1, -1, device, std::move(fault)}; };
  if (layout.devices.empty()) return std::nullopt;
  if (static_cast<std::int64_t>(layout.devices.size()) != layout.mesh.device_count()) {
    return at(-1, {fmt::format("{} devices for a mesh of {}", layout.devices.size(), layout.mesh.device_count()),
                   "list the devices of the world in row-major order of the mesh"});
  }
  std::set<Device> seen;
  for (std::size_t i = 0; i < layout.devices.size(); ++i) {
    const Device device = layout.devices[i];
    if (device < 0 || device >= Mesh::most_devices) {
      return at(static_cast<int>(i), {fmt::format("{} is no device", device),
                                      fmt::format("the largest world has devices 0 to {}", Mesh::most_devices - 1)});
    }
    if (!seen.insert(device).second) {
      return at(static_cast<int>(i),
                {fmt::format("device {} is listed twice", device), "each place of the mesh has a device of its own"});
    }
  }
  return std::nullopt;
}

// Checks the blocks or listed tiles of a factor whose axes are right. A factor cut by the layout's rule has no fault.
std::optional<Fault> find_list_fault(const Factor& factor, bool is_alone) {
  const std::int64_t count = tile_count(factor.axes);
  if (factor.block == 0 && factor.tiles.empty()) return std::nullopt;
  if (!is_alone) {
    return Fault{"a dimension in factors is cut by the rule",
                 "blocks and listed tiles are of dimensions that are whole"};
  }
  if (factor.block < 0) return Fault{"a size is below 0", {}};
  if (factor.block > 0 && !factor.tiles.empty()) return Fault{"tiles are either listed or dealt out in blocks", {}};
  if (factor.block > 0 && factor.size / factor.block > most_blocks) {
    return Fault{fmt::format("{} blocks are too many to be listed", factor.size / factor.block),
                 fmt::format("a dimension has up to {}", most_blocks)};
  }
  if (factor.block > 0 && (factor.first < 0 || factor.first >= count)) {
    return Fault{fmt::format("the first block is on device {} of {}", factor.first, count),
                 fmt::format("devices along the axes count from 0 to {}", count - 1)};
  }
  if (factor.tiles.empty()) return std::nullopt;
  std::optional<std::int64_t> sum = 0;
  for (const std::int64_t tile : factor.tiles) sum = sum && tile >= 0 ? checked_add(*sum, tile) : std::nullopt;
  if (static_cast<std::int64_t>(factor.tiles.size()) == count && sum == factor.size) return std::nullopt;
  return Fault{fmt::format("the list has {} tiles with {} elements, not {} with {}", factor.tiles.size(),
                           sum.value_or(-1), count, factor.size),
               "list the size of every tile along the axes"};
}

// Checks ghost zones against the shape of the whole array, which bounds what is moved.
std::optional<Fault> find_halo_fault(const std::vector<Halo>& halo, Shape shape) {
  if (halo.size() != shape.size()) {
    return Fault{fmt::format("halos of {} dimensions for {}", halo.size(), shape.size()), {}};
  }
  bool fits = true;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (halo[i].before < 0 || halo[i].after < 0) return Fault{"a size is below 0", {}};
    const std::optional<std::int64_t> ghosts = checked_add(halo[i].before, halo[i].after);
    const std::optional<std::int64_t> grown = ghosts ? checked_add(shape[i], *ghosts) : std::nullopt;
    fits = fits && grown;
    shape[i] = grown.value_or(0);
  }
  if (fits && checked_product(shape)) return std::nullopt;
  return Fault{"the number of elements of the global array and its halo does not fit in 63 bits", {}};
}

// Checks ghost zones that wrap. `tile` is the dimension's largest.
std::optional<Fault> find_halo_fault(const Halo& halo, std::int64_t size, std::int64_t tile) {
  const std::int64_t ghosts = halo.before + halo.after;
  if (!halo.wraps || ghosts == 0) return std::nullopt;
  const bool fits = tile == size ? std::max(halo.before, halo.after) <= size : ghosts <= size - tile;
  if (fits) return std::nullopt;
  return Fault{fmt::format("a halo of {} and {} around a tile of {} wraps round {} elements more than once",
                           halo.before, halo.after, tile, size),
               "a tile and its ghost zones hold each element once"};
}

std::optional<Fault> find_order_fault(const std::vector<int>& order, std::size_t rank) {
  std::set<int> seen(order.begin(), order.end());
  const bool is_right = order.empty() || (order.size() == rank && seen.size() == rank && *seen.begin() == 0 &&
                                          *seen.rbegin() == static_cast<int>(rank) - 1);
  if (is_right) return std::nullopt;
  return Fault{fmt::format("[{}] is no order of {} dimensions", fmt::join(order, ", "), rank),
               "list each dimension once, the outermost in memory first"};
}

std::optional<MeshFault> find_halo_fault(const MeshLayout& layout) {
  if (layout.halo.empty()) return std::nullopt;
  if (auto fault = find_halo_fault(layout.halo, global_shape(layout.view)))
    return MeshFault{-1, -1, -1, -1, std::move(*fault)};
  for (std::size_t i = 0; i < layout.view.size(); ++i) {
    const auto at = [&](Fault fault) { return MeshFault{static_cast<int>(i), 0, -1, -1, std::move(fault)}; };
    if (layout.halo[i].before == 0 && layout.halo[i].after == 0) continue;
    const std::vector<Factor>& factors = layout.view[i];
    if (factors.size() != 1 || factors[0].block > 0) {
      return at({"a halo is around one tile", "dimensions in blocks or factors have none"});
    }
    auto fault = find_halo_fault(layout.halo[i], factors[0].size, most_held(factors[0], layout.rule));
    if (fault) return at(std::move(*fault));
  }
  return std::nullopt;
}

std::optional<BoxFault> find_halo_fault(const BoxLayout& layout) {
  if (layout.halo.empty()) return std::nullopt;
  if (auto fault = find_halo_fault(layout.halo, layout.shape)) return BoxFault{-1, -1, std::move(*fault)};
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    if (layout.halo[i].before == 0 && layout.halo[i].after == 0) continue;
    std::set<bool> are_whole;
    for (std::size_t device = 0; device < layout.boxes.size(); ++device) {
      if (layout.boxes[device].size() > 1) {
        return BoxFault{static_cast<int>(device), 1, {"a halo is around one box", "list one for each device"}};
      }
      if (layout.boxes[device].empty()) continue;
      const Box& box = layout.boxes[device][0];
      auto fault = find_halo_fault(layout.halo[i], layout.shape[i], box.hi[i] - box.lo[i]);
      if (fault) return BoxFault{-1, -1, std::move(*fault), static_cast<int>(i)};
      are_whole.insert(box.hi[i] - box.lo[i] == layout.shape[i]);
    }
    if (layout.halo[i].wraps && are_whole.size() == 2) {
      return BoxFault{-1,
                      -1,
                      {fmt::format("a halo wraps round boxes that are whole along dimension {} and others", i), {}},
                      static_cast<int>(i)};
    }
  }
  return std::nullopt;
}

bool is_box_of(const Box& box, const Shape& shape) {
  if (box.lo.size() != shape.size() || box.hi.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (box.lo[i] < 0 || box.lo[i] > box.hi[i] || box.hi[i] > shape[i]) return false;
  }
  return true;
}

// An element of the array that no box holds.
std::optional<Shape> find_missing(const Shape& shape, const std::set<std::pair<Shape, Shape>>& boxes) {
  std::vector<Box> missing{{Shape(shape.size()), shape}};
  for (const auto& [lo, hi] : boxes) {
    std::vector<Box> rest;
    for (const Box& box : missing) {
      for (Box& left : subtract(box, {lo, hi})) rest.push_back(std::move(left));
    }
    missing = std::move(rest);
  }
  if (missing.empty()) return std::nullopt;
  return missing.front().lo;
}

}  // namespace

const char* name_of(UnevenRule rule) { return rule_names.of(rule); }

std::optional<UnevenRule> find_uneven_rule(std::string_view name) { return rule_names.find(name); }

const char* name_of(Reduction reduction) { return reductions.of(reduction); }

std::optional<Reduction> find_reduction(std::string_view name) { return reductions.find(name); }

std::int64_t tile_count(const std::vector<AxisPart>& axes) {
  std::int64_t count = 1;
  for (const AxisPart& part : axes) count *= part.size;
  return count;
}

Interval cut_interval(std::int64_t size, const std::vector<AxisPart>& axes, UnevenRule rule, std::int64_t coordinate) {
  const std::int64_t count = tile_count(axes);
  if (rule == UnevenRule::last) {
    const std::int64_t shorter = count - size % count;
    const auto start = [&](std::int64_t tile) {
      return tile * (size / count) + std::max<std::int64_t>(0, tile - shorter);
    };
    return {start(coordinate), start(coordinate + 1)};
  }
  if (rule == UnevenRule::balanced) {
    const std::int64_t longer = size % count;
    const auto start = [&](std::int64_t tile) { return tile * (size / count) + std::min(tile, longer); };
    return {start(coordinate), start(coordinate + 1)};
  }
  if (rule == UnevenRule::ceiling) {
    const std::int64_t tile = divide_up(size, count);
    return {std::min(tile * coordinate, size), std::min(tile * (coordinate + 1), size)};
  }
  std::int64_t lo = 0;
  std::int64_t left = size;
  std::int64_t below = count;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {  // major to minor
    below /= axis->size;
    const std::int64_t tile = divide_up(left, axis->size);
    const std::int64_t index = coordinate / below % axis->size;
    const std::int64_t begin = std::min(tile * index, left);
    const std::int64_t end = std::min(tile * (index + 1), left);
    lo += begin;
    left = end - begin;
  }
  return {lo, lo + left};
}

std::int64_t held_size(const Factor& factor, UnevenRule rule, std::int64_t coordinate) {
  if (!factor.tiles.empty()) return factor.tiles[static_cast<std::size_t>(coordinate)];
  if (factor.block == 0) return cut_interval(factor.size, factor.axes, rule, coordinate).size();
  const std::int64_t count = tile_count(factor.axes);
  const std::int64_t turn = (coordinate - factor.first + count) % count;
  const std::int64_t whole = factor.size / factor.block;  // the number of whole blocks; a shorter one may follow
  const std::int64_t blocks = whole / count + (turn < whole % count ? 1 : 0);
  return blocks * factor.block + (turn == whole % count ? factor.size % factor.block : 0);
}

std::int64_t most_held(const Factor& factor, UnevenRule rule) {
  if (!factor.tiles.empty()) return *std::max_element(factor.tiles.begin(), factor.tiles.end());
  return held_size(factor, rule,
                   factor.block > 0           ? factor.first
                   : rule == UnevenRule::last ? tile_count(factor.axes) - 1
                                              : 0);
}

std::int64_t coordinate_along(const Mesh& mesh, const std::vector<AxisPart>& axes, Device device) {
  std::int64_t coordinate = 0;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    coordinate = coordinate * axis->size + mesh.coordinate(device, *axis);
  }
  return coordinate;
}

bool same_tiles(const Factor& factor, UnevenRule a, UnevenRule b) {
  const std::int64_t count = tile_count(factor.axes);
  if (factor.block > 0 || !factor.tiles.empty()) return false;
  if (a == b || factor.size % count == 0) return true;
  if (count > most_compared_tiles) return false;  // not compared, so not known to be equal
  for (std::int64_t i = 0; i < count; ++i) {
    if (cut_interval(factor.size, factor.axes, a, i) != cut_interval(factor.size, factor.axes, b, i)) return false;
  }
  return true;
}

std::optional<MeshFault> Layout::find_fault(const MeshLayout& layout) {
  std::vector<AxisPart> used;
  std::optional<std::int64_t> elements = 1;
  for (std::size_t i = 0; i < layout.view.size(); ++i) {
    for (std::size_t j = 0; j < layout.view[i].size(); ++j) {
      const Factor& factor = layout.view[i][j];
      const auto at = [&](int axis, Fault fault) {
        return MeshFault{static_cast<int>(i), static_cast<int>(j), axis, -1, std::move(fault)};
      };
      if (factor.size < 0) return at(-1, {"a size is below 0", {}});
      for (std::size_t k = 0; k < factor.axes.size(); ++k) {
        if (auto fault = find_axis_fault(layout.mesh, factor.axes[k], used)) {
          return at(static_cast<int>(k), std::move(*fault));
        }
      }
      if (auto fault = find_list_fault(factor, layout.view[i].size() == 1)) return at(-1, std::move(*fault));
      if (factor.size > 0 && elements) elements = checked_multiply(*elements, factor.size);
    }
  }
  if (elements) {
    if (auto found = find_halo_fault(layout)) return found;
  }
  if (auto fault = find_order_fault(layout.order, layout.view.size())) {
    return MeshFault{-1, -1, -1, -1, std::move(*fault), true};
  }
  if (!layout.partial.empty() && !retile::is_plain(simplest(layout))) {
    return MeshFault{
        -1,
        -1,
        0,
        -1,
        {fmt::format("a {} has tiles that are cut by a rule, row-major and without halo", name_of(layout.reduction)),
         "redistribute it to the other layout afterwards"}};
  }
  for (std::size_t k = 0; k < layout.partial.size(); ++k) {
    auto fault = find_axis_fault(layout.mesh, layout.partial[k], used);
    if (!fault) continue;
    if (k < 1 || fault->message.find("twice") == std::string::npos) {
      fault->hint =
          fmt::format("the devices along an axis hold either tiles or parts of a {}", name_of(layout.reduction));
    }
    return MeshFault{-1, -1, static_cast<int>(k), -1, std::move(*fault)};
  }
  if (!elements) {
    return MeshFault{-1, -1, -1, -1, {"the number of elements of the global array does not fit in 63 bits", {}}};
  }
  return find_device_fault(layout);
}

std::optional<BoxFault> Layout::find_fault(const BoxLayout& layout) {
  if (!checked_product(layout.shape)) {
    return BoxFault{-1, -1, {"the number of elements of the global array does not fit in 63 bits", {}}};
  }
  if (auto fault = find_order_fault(layout.order, layout.shape.size())) {
    return BoxFault{-1, -1, std::move(*fault), -1, true};
  }
  struct Place {
    int device;
    int box;
  };
  std::map<std::pair<Shape, Shape>, Place> distinct;  // by corner
  for (std::size_t device = 0; device < layout.boxes.size(); ++device) {
    std::set<std::pair<Shape, Shape>> own;
    for (std::size_t i = 0; i < layout.boxes[device].size(); ++i) {
      const Box& box = layout.boxes[device][i];
      const Place place{static_cast<int>(device), static_cast<int>(i)};
      if (!is_box_of(box, layout.shape)) {
        return BoxFault{place.device,
                        place.box,
                        {fmt::format("{} is no box of an array of {}", to_string(box), to_string(layout.shape)),
                         "a box goes from its first elements up to but not including its last, inside the array"}};
      }
      if (volume(box) == 0) continue;
      if (!own.emplace(box.lo, box.hi).second) {
        return BoxFault{
            place.device,
            place.box,
            {fmt::format("device {} holds {} twice", device, to_string(box)), "list each of its boxes once"}};
      }
      distinct.emplace(std::pair(box.lo, box.hi), place);
    }
  }
  std::int64_t held = 0;
  std::set<std::pair<Shape, Shape>> boxes;
  for (auto one = distinct.begin(); one != distinct.end(); ++one) {
    const Box box{one->first.first, one->first.second};
    held = checked_add(held, volume(box)).value_or(INT64_MAX);
    boxes.insert(one->first);
    for (auto other = std::next(one); other != distinct.end(); ++other) {
      if (!box.lo.empty() && other->first.first[0] >= box.hi[0]) break;  // boxes ascend by their corners
      const Box second{other->first.first, other->first.second};
      if (!intersect(box, second)) continue;
      const auto later = [](const Place& a, const Place& b) {
        return std::pair(a.device, a.box) < std::pair(b.device, b.box);
      };
      const bool is_later = later(one->second, other->second);
      const Place& place = is_later ? other->second : one->second;
      return BoxFault{place.device,
                      place.box,
                      {fmt::format("{} of device {} and {} of device {} overlap, and are not the same",
                                   to_string(is_later ? second : box), place.device, to_string(is_later ? box : second),
                                   (is_later ? one : other)->second.device),
                       "replicas hold equal boxes; all others are disjoint"}};
    }
  }
  if (held < product(layout.shape)) {
    return BoxFault{-1,
                    -1,
                    {fmt::format("no device holds element {}", to_string(*find_missing(layout.shape, boxes))),
                     "together the boxes make up the array"}};
  }
  return find_halo_fault(layout);
}

Layout::Layout(MeshLayout layout) : form_(BoxLayout{}) {
  std::sort(layout.partial.begin(), layout.partial.end(), [](const AxisPart& a, const AxisPart& b) {
    return std::pair(a.axis, a.major) < std::pair(b.axis, b.major);
  });
  if (const auto found = find_fault(layout)) throw InputError(found->fault);
  std::erase_if(layout.partial, [](const AxisPart& part) { return part.size == 1; });  // a sum of one part
  layout = simplest(std::move(layout));
  if (auto type = find_type(layout)) {
    form_ = std::move(*type);
  } else {
    form_ = with_merged_axes(std::move(layout));
  }
}

Layout::Layout(BoxLayout layout) : form_(BoxLayout{}) {
  if (const auto found = find_fault(layout)) throw InputError(found->fault);
  drop_empty_halo(layout.halo);
  drop_own_order(layout.order);
  form_ = std::move(layout);
}

std::optional<MeshLayout> Layout::cuts() const {
  if (const DistributedType* even = type()) return mesh_layout_of(*even);
  if (const auto* layout = std::get_if<MeshLayout>(&form_)) return *layout;
  return std::nullopt;
}

const std::vector<AxisPart>& Layout::partial() const {
  static const std::vector<AxisPart> none;
  const auto* layout = std::get_if<MeshLayout>(&form_);
  return layout != nullptr ? layout->partial : none;
}

const std::vector<Halo>& Layout::halo() const {
  static const std::vector<Halo> none;
  if (const BoxLayout* boxes = listed()) return boxes->halo;
  const auto* layout = std::get_if<MeshLayout>(&form_);
  return layout != nullptr ? layout->halo : none;
}

const std::vector<int>& Layout::order() const {
  static const std::vector<int> none;
  if (const BoxLayout* boxes = listed()) return boxes->order;
  const auto* layout = std::get_if<MeshLayout>(&form_);
  return layout != nullptr ? layout->order : none;
}

bool Layout::is_plain() const {
  const auto* layout = std::get_if<MeshLayout>(&form_);
  return type() != nullptr || (layout != nullptr && retile::is_plain(*layout));
}

Layout Layout::stacked() const {
  if (!is_partial()) return *this;
  MeshLayout layout = std::get<MeshLayout>(form_);
  View view;
  for (const AxisPart& part : layout.partial) view.push_back({{part.size, {part}}});
  view.insert(view.end(), layout.view.begin(), layout.view.end());
  layout.view = std::move(view);
  layout.partial.clear();
  return Layout(std::move(layout));
}

Shape global_shape(const View& view) {
  Shape shape;
  for (const std::vector<Factor>& factors : view) shape.push_back(size_of(factors));
  return shape;
}

Shape Layout::global_shape() const {
  if (const DistributedType* even = type()) return even->global_shape();
  if (const BoxLayout* boxes = listed()) return boxes->shape;
  return retile::global_shape(std::get<MeshLayout>(form_).view);
}

std::int64_t Layout::device_count() const {
  if (const DistributedType* even = type()) return even->mesh().device_count();
  if (const BoxLayout* boxes = listed()) return static_cast<std::int64_t>(boxes->boxes.size());
  const auto& layout = std::get<MeshLayout>(form_);
  if (layout.devices.empty()) return layout.mesh.device_count();
  return 1 + *std::max_element(layout.devices.begin(), layout.devices.end());
}

}  // namespace retile
