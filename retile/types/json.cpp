#include "retile/types/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/nearest_name.h"
#include "retile/types/scanning.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// The text from the member's key to the end of its value.
SourceRange member_range(const JsonReader& object, int index) {
  const JsonMember& member = at(*object.value().as<JsonObject>(), index);
  return {member.key_range.begin, member.value.range().end};
}

JsonReader element_of(const JsonReader& array, int index) {
  const std::vector<JsonReader> elements = array.elements();
  return at(elements, index);
}

// An axis is named as in a type's text: by its name alone, or as a part x:(p)k.
AxisPart read_axis_part(const JsonReader& reader, const Mesh& mesh) {
  if (const auto axis = mesh.find_axis(reader.string())) return mesh.whole(*axis);
  if (reader.string().find(':') == std::string::npos) {
    reader.fail(unknown_axis(mesh, reader.string()));
  }
  return reader.parse_text([&](const SourceText& text) {
    Scanner scanner(text);
    const AxisPart part = scan_axis_part(scanner, mesh);
    scanner.expect_end("the axis");
    return part;
  });
}

// The entry for this dimension in a member of the layout, where a fault is shown; null where there is none.
const JsonReader* member_of_dimension(const JsonReader* member, int dimension, std::optional<JsonReader>& room) {
  if (member == nullptr || dimension < 0) return nullptr;
  room = element_of(*member, dimension);
  return &*room;
}

// Reads the halo, [[1, 2], [0, 0]], and whether it wraps, [true, false]: one entry for each dimension.
std::vector<Halo> read_halo(const LayoutMembers& members, std::size_t rank) {
  std::vector<Halo> halo;
  if (members.halo == nullptr) {
    if (members.wrap != nullptr) members.wrap->fail("nothing wraps without a halo");
    return halo;
  }
  for (const JsonReader& widths : read_tuple(*members.halo, rank)) {
    const std::vector<JsonReader> sides = read_tuple(widths, 2);
    halo.push_back({sides[0].count(), sides[1].count(), false});
  }
  if (members.wrap == nullptr) return halo;
  const std::vector<JsonReader> wraps = read_tuple(*members.wrap, rank);
  for (std::size_t i = 0; i < rank; ++i) halo[i].wraps = wraps[i].boolean();
  return halo;
}

std::vector<int> read_order(const LayoutMembers& members, std::size_t rank) {
  std::vector<int> order;
  if (members.order == nullptr) return order;
  for (const JsonReader& dimension : read_tuple(*members.order, rank)) {
    const std::int64_t number = dimension.count();
    if (number >= static_cast<std::int64_t>(rank)) dimension.fail(fmt::format("there is no dimension {}", number));
    order.push_back(static_cast<int>(number));
  }
  return order;
}

class MeshLayoutReader {
 public:
  MeshLayoutReader(const LayoutMembers& members, const Mesh* mesh, UnevenRule rule, Reduction reduction,
                   InputFaults& faults)
      : members_(members),
        mesh_(mesh),
        layout_{mesh == nullptr ? Mesh({}) : *mesh, {}, rule, {}, reduction, {}},
        faults_(faults),
        is_right_(mesh != nullptr && members.shape != nullptr && members.axes != nullptr) {}

  std::optional<Layout> read() {
    if (members_.shape != nullptr) attempt([&] { read_sizes(); });
    if (members_.axes != nullptr) attempt([&] { read_axes(); });
    if (members_.partial != nullptr) {
      attempt([&] {
        partial_ = members_.partial->elements();
        layout_.partial = read_parts(partial_);
      });
    }
    if (members_.devices != nullptr) attempt([&] { layout_.devices = members_.devices->integers(); });
    if (members_.shape != nullptr) {
      attempt([&] { read_lists(); });
      attempt([&] { layout_.halo = read_halo(members_, layout_.view.size()); });
      attempt([&] { layout_.order = read_order(members_, layout_.view.size()); });
    }
    if (!is_right_) return std::nullopt;
    attempt([&] {
      if (const auto found = Layout::find_fault(layout_)) report(*found);
    });
    return is_right_ ? std::optional(Layout(std::move(layout_))) : std::nullopt;
  }

 private:
  template <typename Action>
  void attempt(const Action& action) {
    is_right_ = faults_.attempt(action) && is_right_;
  }

  std::optional<std::int64_t> read_count(const JsonReader& reader) {
    std::optional<std::int64_t> count;
    attempt([&] { count = reader.count(); });
    return count;
  }

  // Reads the shape: one factor for each dimension, or the factors of the view.
  void read_sizes() {
    const std::vector<JsonReader> sizes = members_.shape->elements();
    if (members_.view == nullptr) {
      for (const JsonReader& size : sizes) layout_.view.push_back({{read_count(size).value_or(0), {}}});
      factor_count_ = sizes.size();
      return;
    }
    std::size_t factor_count = 0;
    const std::vector<JsonReader> dimensions = read_tuple(*members_.view, sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      layout_.view.push_back(read_factors(dimensions[i], i, read_count(sizes[i])));
      factor_count += layout_.view.back().size();
    }
    factor_count_ = factor_count;
  }

  // `size` is that of the dimension; nothing where it is at fault.
  std::vector<Factor> read_factors(const JsonReader& reader, std::size_t dimension, std::optional<std::int64_t> size) {
    std::vector<Factor> factors;
    std::optional<std::int64_t> product = 1;
    bool is_known = size.has_value();
    for (const JsonReader& factor : reader.elements()) {
      const std::optional<std::int64_t> count = read_count(factor);
      is_known = is_known && count.has_value();
      factors.push_back({count.value_or(0), {}});
      if (product) product = checked_multiply(*product, factors.back().size);
    }
    const std::int64_t expected = size.value_or(0);
    if (is_known && (product != expected || factors.empty())) {
      attempt([&] {
        reader.fail(fmt::format("these factors do not make up dimension {}, which has {}", dimension, expected),
                    "list the factors of each dimension from major to minor; [n] where it is whole");
      });
    }
    return factors;
  }

  void read_axes() {
    if (members_.view != nullptr && !factor_count_) return;  // faulty view: unknown whether lists nest
    lists_ = members_.axes->elements();
    if (members_.view != nullptr && lists_.size() == layout_.view.size()) lists_ = flattened(lists_);
    if (factor_count_ && lists_.size() != *factor_count_) attempt([&] { fail_as_rank(); });
    std::vector<std::vector<AxisPart>> parts(lists_.size());
    names_.resize(lists_.size());
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      attempt([&] {
        names_[i] = lists_[i].elements();
        parts[i] = read_parts(names_[i]);
      });
    }
    if (!is_right_) return;
    auto list = parts.begin();
    for (std::vector<Factor>& factors : layout_.view) {
      for (Factor& factor : factors) factor.axes = std::move(*list++);
    }
  }

  // Reads the members that only dimensions of a single factor have: blocks and sizes of tiles.
  void read_lists() {
    const std::size_t rank = layout_.view.size();
    const std::vector<JsonReader> blocks =
        members_.cyclic == nullptr ? std::vector<JsonReader>() : read_tuple(*members_.cyclic, rank);
    for (std::size_t i = 0; i < blocks.size() && is_right_; ++i) {
      if (blocks[i].value().as<std::nullptr_t>() != nullptr) continue;
      Factor& factor = layout_.view[i].front();
      if (blocks[i].value().as<JsonArray>() == nullptr) {
        factor.block = blocks[i].size();
        continue;
      }
      const std::vector<JsonReader> pair = read_tuple(blocks[i], 2);
      factor.block = pair[0].size();
      factor.first = pair[1].count();
    }
    const std::vector<JsonReader> tiles =
        members_.tiles == nullptr ? std::vector<JsonReader>() : read_tuple(*members_.tiles, rank);
    for (std::size_t i = 0; i < tiles.size() && is_right_; ++i) {
      if (tiles[i].value().as<std::nullptr_t>() == nullptr) layout_.view[i].front().tiles = tiles[i].integers();
    }
  }

  [[noreturn]] void fail_as_rank() const {
    const bool is_viewed = members_.view != nullptr;
    members_.axes->fail(
        fmt::format("{} is of rank {}, and the {} of rank {}", members_.axes->name(), lists_.size(),
                    is_viewed ? "view" : "shape", *factor_count_),
        fmt::format("give one list of axes per {}, [] where it is not cut", is_viewed ? "factor" : "dimension"));
  }

  // Reads names of axes. Looks none up where the mesh itself is at fault.
  std::vector<AxisPart> read_parts(const std::vector<JsonReader>& names) {
    std::vector<AxisPart> parts;
    for (const JsonReader& name : names) {
      attempt([&] {
        if (mesh_ == nullptr) {
          name.string();
        } else {
          parts.push_back(read_axis_part(name, *mesh_));
        }
      });
    }
    return parts;
  }

  // The lists of axes of all factors: those inside each dimension's list, or the dimensions' lists themselves where
  // none contains a list.
  static std::vector<JsonReader> flattened(const std::vector<JsonReader>& dimensions) {
    std::vector<JsonReader> flat;
    for (const JsonReader& dimension : dimensions) {
      for (const JsonReader& list : dimension.elements()) {
        if (list.value().as<JsonArray>() == nullptr) return dimensions;
        flat.push_back(list);
      }
    }
    return flat.empty() ? dimensions : flat;
  }

  [[noreturn]] void report(const Layout::MeshFault& found) const {
    std::optional<JsonReader> room;
    if (found.is_of_order) members_.order->fail(found.fault);
    if (found.dimension >= 0 && found.axis < 0) {
      const Factor& factor = at(layout_.view, found.dimension).front();
      const bool has_halo = members_.halo != nullptr && at(layout_.halo, found.dimension) != Halo{};
      const JsonReader* said = factor.block != 0       ? members_.cyclic
                               : !factor.tiles.empty() ? members_.tiles
                               : has_halo              ? members_.halo
                                                       : nullptr;
      if (const JsonReader* place = member_of_dimension(said, found.dimension, room)) place->fail(found.fault);
    }
    if (found.dimension >= 0) {
      auto factor = static_cast<std::size_t>(found.factor);
      for (int i = 0; i < found.dimension; ++i) factor += at(layout_.view, i).size();
      if (found.axis < 0) lists_[factor].fail(found.fault);
      at(names_[factor], found.axis).fail(found.fault);
    }
    if (found.axis >= 0) at(partial_, found.axis).fail(found.fault);
    if (found.device >= 0) element_of(*members_.devices, found.device).fail(found.fault);
    (members_.devices != nullptr ? members_.devices : members_.shape)->fail(found.fault);
  }

  const LayoutMembers& members_;
  const Mesh* mesh_;
  MeshLayout layout_;
  InputFaults& faults_;
  bool is_right_;                               // no fault so far
  std::optional<std::size_t> factor_count_;     // nothing where shape or view is malformed
  std::vector<JsonReader> lists_;               // axes of each factor
  std::vector<std::vector<JsonReader>> names_;  // the names in each list
  std::vector<JsonReader> partial_;
};

std::optional<Layout> read_box_layout(const LayoutMembers& members, InputFaults& faults) {
  if (members.shape == nullptr) return std::nullopt;
  BoxLayout layout;
  bool is_right = true;
  const auto attempt = [&](const auto& action) { is_right = faults.attempt(action) && is_right; };
  attempt([&] {
    const std::vector<JsonReader> sizes = members.shape->elements();
    for (const JsonReader& size : sizes) attempt([&] { layout.shape.push_back(size.count()); });
    layout.boxes = read_boxes(*members.boxes, sizes.size());
    layout.halo = read_halo(members, sizes.size());
    layout.order = read_order(members, sizes.size());
  });
  if (!is_right) return std::nullopt;
  attempt([&] {
    const auto found = Layout::find_fault(layout);
    if (!found) return;
    std::optional<JsonReader> room;
    if (const JsonReader* halo = member_of_dimension(members.halo, found->dimension, room)) halo->fail(found->fault);
    if (found->is_of_order) members.order->fail(found->fault);
    if (found->device < 0) members.boxes->fail(found->fault);
    element_of(element_of(*members.boxes, found->device), found->box).fail(found->fault);
  });
  return is_right ? std::optional(Layout(std::move(layout))) : std::nullopt;
}

template <typename Value>
Value read_name(const JsonReader& reader, std::optional<Value> found, const char* what, std::string_view names) {
  if (found) return *found;
  const auto nearest = nearest_name(reader.string(), split_names(names));
  reader.fail(fmt::format("unknown {} \"{}\"", what, reader.string()),
              fmt::format("{}use one of {}", nearest ? fmt::format("did you mean {}? ", *nearest) : "", names));
}

}  // namespace

Mesh read_mesh(const JsonReader& reader) {
  std::vector<Axis> axes;
  InputFaults faults;
  for (const auto& [name, size] : reader.members()) {
    faults.attempt([&, &name = name, &size = size] { axes.push_back({name, size.size()}); });
  }
  faults.require_none();
  if (auto found = Mesh::find_fault(axes)) {
    const SourceRange place = member_range(reader, found->axis);
    throw InputError(diagnose(reader.source(), place, found->fault));
  }
  return Mesh(std::move(axes));
}

Layout read_layout_text(const JsonReader& reader, const Mesh& mesh) {
  return reader.parse_text([&](const SourceText& text) { return parse_layout(text, mesh); });
}

UnevenRule read_uneven_rule(const JsonReader& reader) {
  return read_name(reader, find_uneven_rule(reader.string()), "rule", uneven_rule_names);
}

Reduction read_reduction(const JsonReader& reader) {
  return read_name(reader, find_reduction(reader.string()), "reduction", reduction_names);
}

ElementType read_element_type(const JsonReader& reader) {
  return read_name(reader, find_element_type(reader.string()), "element type", element_type_names);
}

std::vector<JsonReader> read_tuple(const JsonReader& reader, std::size_t length) {
  std::vector<JsonReader> elements = reader.elements();
  if (elements.size() != length) {
    reader.fail(fmt::format("{} has {} entries instead of {}", reader.name(), elements.size(), length));
  }
  return elements;
}

std::vector<std::int64_t> read_integers(const JsonReader& reader, std::size_t length) {
  std::vector<std::int64_t> values;
  for (const JsonReader& element : read_tuple(reader, length)) values.push_back(element.integer());
  return values;
}

std::vector<std::vector<Box>> read_boxes(const JsonReader& reader, std::size_t rank) {
  std::vector<std::vector<Box>> boxes;
  for (const JsonReader& device : reader.elements()) {
    std::vector<Box>& list = boxes.emplace_back();
    for (const JsonReader& box : device.elements()) {
      const std::vector<JsonReader> ends = read_tuple(box, 2);
      list.push_back({read_integers(ends[0], rank), read_integers(ends[1], rank)});
    }
  }
  return boxes;
}

std::optional<Layout> read_layout(const LayoutMembers& members, const Mesh* mesh, UnevenRule rule, Reduction reduction,
                                  InputFaults& faults) {
  if (members.boxes != nullptr) return read_box_layout(members, faults);
  return MeshLayoutReader(members, mesh, rule, reduction, faults).read();
}

}  // namespace retile
