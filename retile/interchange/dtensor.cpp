// PyTorch's DTensor: a placement for each dimension of a mesh.
//
//   (Shard(dim=0), Replicate(), Partial(sum))     cut along the mesh's first dimension first: major to minor
//   _StridedShard(dim=0, sf=2)                    each of 2 parts of what is held is cut
//   DeviceMesh([[0, 1], [2, 3]], mesh_dim_names=('dp', 'tp'))    DeviceMesh((dp=2, tp=2), 'cuda', stride=(2, 1))
//
// A dimension that is cut in strides is seen as a product of factors. Sizes that do not divide are cut by nested
// ceilings; there, strides are read as another order of the mesh's dimensions, as FSDP over TP means them.
#include "retile/interchange/dtensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "retile/base/scanner.h"
#include "retile/interchange/readers.h"
#include "retile/types/text.h"

namespace retile::interchange {
namespace {

constexpr std::string_view dtensor_mesh_example =
    "\"DeviceMesh([[0, 1], [2, 3]], mesh_dim_names=('dp', 'tp'))\" or --mesh dp=2,tp=2";

// --- Cutting a dimension, axis by axis.

std::int64_t uncut(const Factor& factor) { return factor.size / tile_count(factor.axes); }

// Cuts, along the axis, what lies below the first `parts` parts of the factors (major to minor) that a device still
// holds. False where that is no cut of a factor.
bool cut_below(std::vector<Factor>& factors, std::int64_t parts, const AxisPart& axis) {
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const std::int64_t left = uncut(factors[i]);
    if (parts > 1 && left % parts == 0 && left > parts) {  // splits the factor where the parts end
      const std::int64_t rest = left / parts;
      factors[i].size /= rest;
      factors.insert(factors.begin() + static_cast<std::ptrdiff_t>(i) + 1, {rest, {}});
      parts = 1;
      continue;
    }
    if (parts > 1) {
      if (left == 0 || parts % left != 0) return false;
      parts /= left;
      continue;
    }
    const bool is_last = i + 1 == factors.size();
    if (left == 1 && !is_last) continue;
    if (left % axis.size != 0 && factors.size() > 1) return false;
    factors[i].axes.insert(factors[i].axes.begin(), axis);
    return true;
  }
  return false;
}

bool is_in_elements(const Factor& factor) { return factor.size == tile_count(factor.axes); }

// Joins factors that are in effect one: if the major one is cut into single elements, or the minor one not at all.
std::vector<Factor> joined(const std::vector<Factor>& factors) {
  std::vector<Factor> result;
  for (const Factor& factor : factors) {
    const bool joins = !result.empty() && (is_in_elements(result.back()) || factor.axes.empty());
    if (!joins) {
      result.push_back(factor);
      continue;
    }
    result.back().size *= factor.size;
    result.back().axes.insert(result.back().axes.begin(), factor.axes.begin(), factor.axes.end());
  }
  return result;
}

// An equal layout in the simplest form: factors and axes joined, and the rule of ceilings where it cuts alike.
MeshLayout simplest(MeshLayout layout) {
  bool has_ceilings = true;
  for (std::vector<Factor>& factors : layout.view) {
    factors = joined(factors);
    for (const Factor& factor : factors) {
      has_ceilings = has_ceilings && same_tiles(factor, layout.rule, UnevenRule::ceiling);
    }
  }
  if (has_ceilings) layout.rule = UnevenRule::ceiling;
  for (std::vector<Factor>& factors : layout.view) {
    for (Factor& factor : factors) {
      if (has_ceilings) factor.axes = merge_neighbours(factor.axes);
    }
  }
  return layout;
}

// --- From placements.

// A fault, and the mesh's dimension whose placement has it.
struct PlacementFault {
  int axis = 0;
  Fault fault;
};

// Reads placements one by one, and reports the fault of each.
class PlacementReader {
 public:
  PlacementReader(const Shape& shape, const PlacedMesh& mesh)
      : shape_(shape),
        layout_{mesh.mesh, {}, UnevenRule::nested, {}, Reduction::sum, mesh.devices},
        cuts_(shape.size()),
        stride_faults_(shape.size()) {
    for (const std::int64_t size : shape) layout_.view.push_back({{size, {}}});
  }

  std::optional<Fault> find_dimension_fault(std::int64_t dimension) const {
    const auto rank = static_cast<std::int64_t>(shape_.size());
    if (dimension >= -rank && dimension < rank) return std::nullopt;
    return Fault{fmt::format("there is no dimension {}: the array has rank {}", dimension, rank),
                 fmt::format("its shape is {}", to_string(shape_))};
  }

  // The fault of a placement for which the mesh has no dimension.
  std::optional<Fault> find_excess() const {
    if (axis_ < layout_.mesh.axis_count()) return std::nullopt;
    return Fault{fmt::format("there is no dimension {} of the mesh for this placement", axis_),
                 fmt::format("the mesh is {}", to_string(layout_.mesh))};
  }

  std::optional<Fault> take(const DTensorPlacement& placement) {
    if (auto fault = find_excess()) return fault;
    const AxisPart axis = layout_.mesh.whole(axis_++);
    if (placement.kind == DTensorPlacement::Kind::shard) return cut(placement, axis);
    if (placement.kind == DTensorPlacement::Kind::partial) return add(placement.reduction, axis);
    return std::nullopt;
  }

  std::optional<Fault> find_count_fault() const {
    if (axis_ == layout_.mesh.axis_count()) return std::nullopt;
    return Fault{fmt::format("{} placements for a mesh of {} dimensions", axis_, layout_.mesh.axis_count()),
                 "there is one for each dimension of the mesh"};
  }

  // Called after the last placement. Turns strides that do not divide into an order of axes; returns a fault where
  // there is none.
  std::optional<PlacementFault> find_order_fault() {
    for (std::size_t dimension = 0; dimension < shape_.size(); ++dimension) {
      if (!stride_faults_[dimension]) continue;
      const auto axes = find_order(cuts_[dimension]);
      if (!axes) return stride_faults_[dimension];
      layout_.view[dimension] = {{shape_[dimension], *axes}};
    }
    return std::nullopt;
  }

  // The layout, once no placement has a fault.
  Layout layout() const { return Layout(simplest(layout_)); }

 private:
  struct Cut {
    AxisPart axis;
    std::int64_t parts;  // that exist before this cut, if the mesh's dimensions cut from the last to the first
  };

  // The axes, minor to major, in the order in which each has as many parts before it as it says; nothing where there is
  // no such order.
  static std::optional<std::vector<AxisPart>> find_order(const std::vector<Cut>& cuts) {
    std::vector<AxisPart> axes;
    for (std::size_t i = cuts.size(); i-- > 0;) {
      std::int64_t parts = 1;
      std::size_t place = axes.size();
      while (place > 0 && parts < cuts[i].parts) parts *= axes[--place].size;
      if (parts != cuts[i].parts) return std::nullopt;
      axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(place), cuts[i].axis);
    }
    return axes;
  }

  std::optional<Fault> cut(const DTensorPlacement& placement, const AxisPart& axis) {
    if (auto fault = find_dimension_fault(placement.dimension)) return fault;
    const std::int64_t from_front = placement.dimension < 0 ? static_cast<std::int64_t>(shape_.size()) : 0;
    const auto dimension = static_cast<std::size_t>(placement.dimension + from_front);
    const std::int64_t parts = placement.split_factor;
    cuts_[dimension].push_back({axis, parts});
    if (stride_faults_[dimension]) return std::nullopt;
    std::vector<Factor>& factors = layout_.view[dimension];
    // Strides need parts of equal size.
    const bool is_even = parts == 1 || uncut_evenly(factors);
    if (is_even && cut_below(factors, parts, axis)) return std::nullopt;
    stride_faults_[dimension] = {
        axis.axis,
        {fmt::format("dimension {} of {} does not divide into these strides", dimension, shape_[dimension]),
         fmt::format("{} parts of what is left of it are each cut into {} tiles", parts, axis.size)}};
    return std::nullopt;
  }

  static bool uncut_evenly(const std::vector<Factor>& factors) {
    return std::all_of(factors.begin(), factors.end(),
                       [](const Factor& factor) { return factor.size % tile_count(factor.axes) == 0; });
  }

  std::optional<Fault> add(Reduction reduction, const AxisPart& axis) {
    if (!layout_.partial.empty() && layout_.reduction != reduction) {
      return Fault{
          fmt::format("this is a {} of parts that make up a {}", name_of(reduction), name_of(layout_.reduction)),
          "a value is reduced in one way"};
    }
    layout_.reduction = reduction;
    layout_.partial.push_back(axis);
    return std::nullopt;
  }

  const Shape& shape_;
  MeshLayout layout_;
  std::vector<std::vector<Cut>> cuts_;                        // by dimension, in the mesh's order
  std::vector<std::optional<PlacementFault>> stride_faults_;  // by dimension
  int axis_ = 0;
};

// --- From text.

class PlacementScanner {
 public:
  PlacementScanner(Scanner& scanner, const Shape& shape, const PlacedMesh& mesh)
      : scanner_(scanner), reader_(shape, mesh) {}

  // '(' placements ')' | '[' placements ']' | placement
  Layout scan() {
    const std::size_t begin = scanner_.next_position();
    const bool is_tuple = scanner_.accept("(");
    const bool is_list = !is_tuple && scanner_.accept("[");
    const char* closing = is_tuple ? ")" : "]";
    if (is_tuple || is_list) {
      while (!scanner_.accept(closing)) {
        scan_placement();
        if (scanner_.accept(",")) continue;
        scanner_.expect(closing, "or ',' after a placement");
        break;
      }
    } else {
      scan_placement();
    }
    scanner_.expect_end("the placements");
    require_none({begin, scanner_.last().end}, reader_.find_count_fault());
    if (const auto found = reader_.find_order_fault()) {
      require_none(places_[static_cast<std::size_t>(found->axis)], found->fault);
    }
    return reader_.layout();
  }

 private:
  using Kind = DTensorPlacement::Kind;

  void require_none(SourceRange place, const std::optional<Fault>& fault) const {
    if (fault) scanner_.fail(place, fault->message, fault->hint);
  }

  void scan_placement() {
    const std::size_t begin = scanner_.next_position();
    if (const auto fault = reader_.find_excess()) scanner_.fail_here(fault->message, fault->hint);
    const auto take = [&](const DTensorPlacement& placement) {
      places_.push_back({begin, scanner_.last().end});
      require_none(places_.back(), reader_.take(placement));
    };
    const std::string kind = scanner_.name("a placement");
    if (kind == "Shard" || kind == "S") {
      scanner_.expect("(", "after a placement");
      take({Kind::shard, scan_dimension()});
      scanner_.expect(")", "after the dimension of a placement");
    } else if (kind == "_StridedShard" || kind == "_S") {
      scanner_.expect("(", "after a placement");
      const std::int64_t dimension = scan_dimension();
      scanner_.expect(",", "after the dimension of a placement");
      if (!scanner_.accept_word("split_factor")) scanner_.accept_word("sf");
      scanner_.accept("=");
      take({Kind::shard, dimension, scanner_.size("the split factor")});
      scanner_.expect(")", "after the split factor");
    } else if (kind == "Replicate" || kind == "R") {
      if (scanner_.accept("(")) scanner_.expect(")", "after '('");
      take({});
    } else if (kind == "Partial" || kind == "P") {
      scan_partial();
    } else {
      fail_at_field(scanner_, "a list of placements", kind, {"Shard", "Replicate", "Partial", "_StridedShard"});
    }
  }

  // [ 'dim' '=' ] [ '-' ] index
  std::int64_t scan_dimension() {
    const std::size_t begin = scanner_.next_position();
    if (scanner_.accept_word("dim")) scanner_.expect("=", "after 'dim'");
    const bool is_from_end = scanner_.accept("-");
    const std::int64_t index = scanner_.index("a dimension of the array");
    const std::int64_t dimension = is_from_end ? -index : index;
    require_none({begin, scanner_.last().end}, reader_.find_dimension_fault(dimension));
    return dimension;
  }

  // '(' [ [ 'reduce_op' '=' ] name ] ')'
  void scan_partial() {
    std::string name = "sum";
    const bool has_brackets = scanner_.accept("(");
    if (has_brackets) {
      if (scanner_.accept_word("reduce_op")) scanner_.expect("=", "after 'reduce_op'");
      if (scanner_.looking_at("'") || scanner_.looking_at("\"")) {
        name = scanner_.quoted("a reduction");
      } else if (scanner_.looking_at_name()) {
        name = scanner_.name("a reduction");
      }
    }
    const SourceRange place = scanner_.last();
    if (has_brackets) scanner_.expect(")", "after a reduction");
    const auto reduction = find_reduction(name);
    if (!reduction) {
      scanner_.fail(place, fmt::format("parts that make up a '{}' are not known", name),
                    fmt::format("use one of {}", reduction_names));
    }
    places_.push_back(place);
    require_none(place, reader_.take({Kind::partial, 0, 1, *reduction}));
  }

  Scanner& scanner_;
  PlacementReader reader_;
  std::vector<SourceRange> places_;  // of the placements
};

// '(' [ name '=' size { ',' … } ] ')': the axes of a mesh that numbers its devices by strides
std::vector<Axis> scan_named_sizes(Scanner& scanner) {
  std::vector<Axis> axes;
  scanner.expect("(", "before the dimensions of a mesh");
  while (!scanner.accept(")")) {
    if (scanner.looking_at_digit()) {
      axes.push_back({fmt::format("dim_{}", axes.size()), scanner.size("a size")});
    } else {
      axes.push_back({scanner.name("a dimension of the mesh"), 1});
      scanner.expect("=", "between a dimension and its size");
      axes.back().size = scanner.size("a size");
    }
    if (!scanner.accept(",")) {
      scanner.expect(")", "or ',' after a dimension of the mesh");
      break;
    }
  }
  return axes;
}

class MeshScanner {
 public:
  explicit MeshScanner(Scanner& scanner) : scanner_(scanner) {}

  PlacedMesh scan() {
    const std::size_t begin = scanner_.next_position();
    scanner_.expect("DeviceMesh", "at the start of a mesh");
    scanner_.expect("(", "after 'DeviceMesh'");
    do {
      scan_argument();
    } while (scanner_.accept(",") && !scanner_.looking_at(")"));
    scanner_.expect(")", "or ',' in a DeviceMesh");
    const SourceRange place{begin, scanner_.last().end};
    if (!names_.empty()) name_axes(place);
    if (!strides_.empty()) list_devices(place);
    return place_mesh(scanner_, place, std::move(axes_), std::move(devices_));
  }

 private:
  void scan_argument() {
    if (scanner_.looking_at("'") || scanner_.looking_at("\"")) {
      scanner_.quoted("a kind of device");
    } else if (scanner_.looking_at("[")) {
      scan_devices();
    } else if (scanner_.looking_at("(")) {
      axes_ = scan_named_sizes(scanner_);
    } else {
      scan_field();
    }
  }

  void scan_devices() {
    NestedList list = scan_nested_list(scanner_);
    for (const std::int64_t size : list.shape) axes_.push_back({fmt::format("dim_{}", axes_.size()), size});
    devices_ = std::move(list.numbers);
  }

  void scan_field() {
    const std::string field = scanner_.name("a field of a DeviceMesh");
    if (field != "mesh_dim_names" && field != "stride" && field != "device") {
      fail_at_field(scanner_, "a DeviceMesh", field, {"mesh_dim_names", "stride", "device"});
    }
    if (!scanner_.accept(":")) scanner_.expect("=", "after a field");
    if (field == "device") {
      scanner_.quoted("a kind of device");
      return;
    }
    scanner_.expect("(", "before a list");
    while (!scanner_.accept(")")) {
      if (field == "stride") {
        strides_.push_back(scanner_.size("a stride"));
      } else {
        names_.push_back(scanner_.quoted("a name"));
      }
      if (scanner_.accept(",")) continue;
      scanner_.expect(")", "or ',' in a list");
      break;
    }
  }

  void name_axes(SourceRange place) {
    if (names_.size() != axes_.size()) {
      scanner_.fail(place, fmt::format("{} names for a mesh of {} dimensions", names_.size(), axes_.size()));
    }
    for (std::size_t i = 0; i < axes_.size(); ++i) axes_[i].name = names_[i];
  }

  // Lists the devices that the strides give, row-major over the axes.
  void list_devices(SourceRange place) {
    if (strides_.size() != axes_.size()) {
      scanner_.fail(place, fmt::format("{} strides for a mesh of {} dimensions", strides_.size(), axes_.size()));
    }
    if (const auto found = Mesh::find_fault(axes_)) scanner_.fail(place, found->fault.message, found->fault.hint);
    std::int64_t stride = 1;
    bool is_counted = true;
    for (std::size_t i = axes_.size(); i-- > 0; stride *= axes_[i].size) {
      is_counted = is_counted && (strides_[i] == stride || axes_[i].size == 1);
    }
    if (is_counted) return;
    if (stride > most_listed) scanner_.fail(place, fmt::format("{} devices are too many to be listed", stride));
    devices_ = {0};
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      std::vector<Device> longer;
      for (const Device device : devices_) {
        for (std::int64_t j = 0; j < axes_[i].size; ++j) {
          if (strides_[i] > Mesh::most_devices) scanner_.fail(place, "there are not so many devices");
          longer.push_back(device + j * strides_[i]);
        }
      }
      devices_ = std::move(longer);
    }
  }

  Scanner& scanner_;
  std::vector<Axis> axes_;
  std::vector<Device> devices_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> strides_;
};

// --- To text.

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw InputError(fmt::format("DTensor cannot say {}", what), why);
}

// The number of parts below which an axis cuts, among what is held after all axes before it in the mesh have cut.
std::int64_t split_factor(const std::vector<Factor>& factors, std::size_t factor, std::size_t position) {
  const int axis = factors[factor].axes[position].axis;
  std::int64_t parts = 1;
  for (std::size_t i = 0; i < factor; ++i) {
    parts *= factors[i].size;
    for (const AxisPart& part : factors[i].axes) {
      if (part.axis < axis) parts /= part.size;
    }
  }
  for (std::size_t i = position + 1; i < factors[factor].axes.size(); ++i) {
    if (factors[factor].axes[i].axis > axis) parts *= factors[factor].axes[i].size;
  }
  return parts;
}

std::vector<std::string> placements_of(const MeshLayout& layout) {
  std::vector<std::string> placements(static_cast<std::size_t>(layout.mesh.axis_count()), "Replicate()");
  const auto place = [&](const AxisPart& part) -> std::string& {
    if (part != layout.mesh.whole(part.axis)) {
      refuse(fmt::format("the part {} of an axis", to_string(layout.mesh, part)),
             "it cuts along whole dimensions of its mesh");
    }
    return placements[static_cast<std::size_t>(part.axis)];
  };
  for (std::size_t i = 0; i < layout.view.size(); ++i) {
    const std::vector<Factor>& factors = layout.view[i];
    for (std::size_t j = 0; j < factors.size(); ++j) {
      for (std::size_t k = 0; k < factors[j].axes.size(); ++k) {
        std::string& placement = place(factors[j].axes[k]);
        const std::int64_t parts = split_factor(factors, j, k);
        placement =
            parts == 1 ? fmt::format("Shard(dim={})", i) : fmt::format("_StridedShard(dim={}, sf={})", i, parts);
      }
    }
  }
  for (const AxisPart& part : layout.partial) place(part) = fmt::format("Partial({})", name_of(layout.reduction));
  return placements;
}

std::string mesh_text(const MeshLayout& layout) {
  Shape sizes;
  std::vector<std::string> names;
  for (const Axis& axis : layout.mesh.axes()) {
    sizes.push_back(axis.size);
    names.push_back(python_string(axis.name));
  }
  return fmt::format("DeviceMesh({}, mesh_dim_names=({}{}))",
                     nested_list_text(sizes, devices_of(layout.mesh, layout.devices)), fmt::join(names, ", "),
                     names.size() == 1 ? "," : "");
}

}  // namespace

Layout dtensor_layout(const PlacedMesh& mesh, const std::vector<DTensorPlacement>& placements, const Shape& shape) {
  PlacementReader reader(shape, mesh);
  const auto require_none = [](std::optional<Fault> fault) {
    if (fault) throw InputError(std::move(fault->message), std::move(fault->hint));
  };
  for (const DTensorPlacement& placement : placements) require_none(reader.take(placement));
  require_none(reader.find_count_fault());
  if (auto found = reader.find_order_fault()) require_none(std::move(found->fault));
  return reader.layout();
}

PlacedMesh scan_dtensor_mesh(Scanner& scanner) { return MeshScanner(scanner).scan(); }

Layout parse_dtensor(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh) {
  Scanner scanner(text);
  const PlacedMesh& given = require_mesh(mesh, scanner, {0, text.text.size()}, dtensor_mesh_example);
  return PlacementScanner(scanner, shape, given).scan();
}

NotationText to_dtensor(const Layout& layout) {
  const auto cuts = layout.cuts();
  if (!cuts) refuse("boxes that are listed device by device", "it cuts arrays along dimensions of a mesh");
  require_plain(layout, "DTensor");
  if (cuts->mesh.axis_count() == 0) refuse("a mesh without dimensions", "its meshes have one at least");
  const MeshLayout simple = simplest(*cuts);
  const std::vector<std::string> placements = placements_of(simple);
  NotationText text{mesh_text(*cuts),
                    fmt::format("({}{})", fmt::join(placements, ", "), placements.size() == 1 ? "," : "")};
  // Checks that the reader makes the same tiles of the text.
  const auto again = [&]() -> std::optional<Layout> {
    try {
      return parse_dtensor({"placements", text.layout}, layout.global_shape(), PlacedMesh{cuts->mesh, cuts->devices});
    } catch (const InputError&) {
      return std::nullopt;
    }
  }();
  if (!again || *again != Layout(simple)) {
    refuse("this layout", "its placements cut a dimension along the mesh's dimensions in order, by nested ceilings");
  }
  return text;
}

}  // namespace retile::interchange
