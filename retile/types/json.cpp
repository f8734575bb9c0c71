#include "retile/types/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/scanner.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// From the key to the end of its value.
SourceRange member_range(const JsonReader& object, int index) {
  const JsonMember& member = (*object.value().as<JsonObject>())[static_cast<std::size_t>(index)];
  return {member.key_range.begin, member.value.range().end};
}

// An axis is named as in a type's text: by its name alone, or as a part x:(p)k.
AxisPart read_axis_part(const JsonReader& reader, const Mesh& mesh) {
  if (const auto axis = mesh.find_axis(reader.string())) return mesh.whole(*axis);
  if (reader.string().find(':') == std::string::npos) {
    Fault fault = unknown_axis(mesh, reader.string());
    reader.fail(std::move(fault.message), std::move(fault.hint));
  }
  return reader.parse_text([&](const SourceText& text) {
    Scanner scanner(text);
    const AxisPart part = scan_axis_part(scanner, mesh);
    scanner.expect_end("the axis");
    return part;
  });
}

[[noreturn]] void fail(const JsonReader& reader, const Fault& fault) { reader.fail(fault.message, fault.hint); }

class MeshLayoutReader {
 public:
  MeshLayoutReader(const LayoutMembers& members, MeshLayout layout) : members_(members), layout_(std::move(layout)) {}

  Layout read() {
    read_sizes();
    read_axes();
    if (members_.partial != nullptr) {
      partial_ = members_.partial->elements();
      for (const JsonReader& axis : partial_) layout_.partial.push_back(read_axis_part(axis, layout_.mesh));
    }
    if (members_.devices != nullptr) layout_.devices = members_.devices->integers();
    if (const auto found = Layout::find_fault(layout_)) report(*found);
    return Layout(std::move(layout_));
  }

 private:
  // One factor for each dimension, or those of the view.
  void read_sizes() {
    const std::vector<JsonReader> sizes = members_.shape->elements();
    if (members_.view == nullptr) {
      for (const JsonReader& size : sizes) layout_.view.push_back({{size.count(), {}}});
      return;
    }
    const std::vector<JsonReader> dimensions = read_tuple(*members_.view, sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<Factor>& factors = layout_.view.emplace_back();
      std::optional<std::int64_t> product = 1;
      for (const JsonReader& factor : dimensions[i].elements()) {
        factors.push_back({factor.count(), {}});
        if (product) product = checked_multiply(*product, factors.back().size);
      }
      if (product != sizes[i].count() || factors.empty()) {
        dimensions[i].fail(fmt::format("these factors do not make up dimension {}, which has {}", i, sizes[i].count()),
                           "list the factors of each dimension from major to minor; [n] where it is whole");
      }
    }
  }

  void read_axes() {
    std::size_t factor_count = 0;
    for (const std::vector<Factor>& factors : layout_.view) factor_count += factors.size();
    lists_ = members_.axes->elements();
    if (members_.view != nullptr && lists_.size() == layout_.view.size()) lists_ = flattened(lists_);
    if (lists_.size() != factor_count) {
      members_.axes->fail(fmt::format("{} is of rank {}, and the {} of rank {}", members_.axes->name(), lists_.size(),
                                      members_.view == nullptr ? "shape" : "view", factor_count),
                          fmt::format("give one list of axes per {}, [] where it is not cut",
                                      members_.view == nullptr ? "dimension" : "factor"));
    }
    auto list = lists_.begin();
    for (std::vector<Factor>& factors : layout_.view) {
      for (Factor& factor : factors) {
        std::vector<JsonReader>& names = names_.emplace_back((list++)->elements());
        for (const JsonReader& name : names) factor.axes.push_back(read_axis_part(name, layout_.mesh));
      }
    }
  }

  // Where the factors' lists are themselves in a list for each dimension.
  static std::vector<JsonReader> flattened(const std::vector<JsonReader>& dimensions) {
    std::vector<JsonReader> flat;
    for (const JsonReader& dimension : dimensions) {
      for (const JsonReader& list : dimension.elements()) {
        if (list.value().as<JsonArray>() == nullptr) return dimensions;
        flat.push_back(list);
      }
    }
    return flat;
  }

  [[noreturn]] void report(const Layout::MeshFault& found) const {
    if (found.dimension >= 0) {
      auto factor = static_cast<std::size_t>(found.factor);
      for (int i = 0; i < found.dimension; ++i) factor += layout_.view[static_cast<std::size_t>(i)].size();
      if (found.axis < 0) fail(lists_[factor], found.fault);
      fail(names_[factor][static_cast<std::size_t>(found.axis)], found.fault);
    }
    if (found.axis >= 0) fail(partial_[static_cast<std::size_t>(found.axis)], found.fault);
    if (found.device >= 0) fail(members_.devices->elements()[static_cast<std::size_t>(found.device)], found.fault);
    fail(members_.devices != nullptr ? *members_.devices : *members_.shape, found.fault);
  }

  const LayoutMembers& members_;
  MeshLayout layout_;
  std::vector<JsonReader> lists_;               // of axes, factor by factor
  std::vector<std::vector<JsonReader>> names_;  // in them
  std::vector<JsonReader> partial_;
};

Layout read_box_layout(const LayoutMembers& members) {
  BoxLayout layout;
  for (const JsonReader& size : members.shape->elements()) layout.shape.push_back(size.count());
  layout.boxes = read_boxes(*members.boxes, layout.shape.size());
  if (const auto found = Layout::find_fault(layout)) {
    if (found->device < 0) fail(*members.boxes, found->fault);
    const JsonReader device = members.boxes->elements()[static_cast<std::size_t>(found->device)];
    fail(device.elements()[static_cast<std::size_t>(found->box)], found->fault);
  }
  return Layout(std::move(layout));
}

template <typename Value>
Value read_name(const JsonReader& reader, std::optional<Value> found, const char* what, std::string_view names) {
  if (found) return *found;
  reader.fail(fmt::format("unknown {} \"{}\"", what, reader.string()), fmt::format("use one of {}", names));
}

}  // namespace

Mesh read_mesh(const JsonReader& reader) {
  std::vector<Axis> axes;
  for (const auto& [name, size] : reader.members()) axes.push_back({name, size.size()});
  if (auto found = Mesh::find_fault(axes)) {
    const SourceRange place = member_range(reader, found->axis);
    throw InputError(diagnose(reader.source(), place, std::move(found->fault.message), std::move(found->fault.hint)));
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

Layout read_layout(const LayoutMembers& members, const std::optional<Mesh>& mesh, UnevenRule rule,
                   Reduction reduction) {
  if (members.boxes != nullptr) return read_box_layout(members);
  return MeshLayoutReader(members, MeshLayout{*mesh, {}, rule, {}, reduction, {}}).read();
}

}  // namespace retile
