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

DistributedType read_type_text(const JsonReader& reader, const Mesh& mesh) {
  return reader.parse_text([&](const SourceText& text) { return parse_type(text, mesh); });
}

DistributedType read_type_by_axes(const JsonReader& shape, const JsonReader& axes, const Mesh& mesh) {
  const std::vector<JsonReader> sizes = shape.elements();
  const std::vector<JsonReader> lists = axes.elements();
  if (sizes.size() != lists.size()) {
    axes.fail(fmt::format("{} is of rank {}, and the shape of rank {}", axes.name(), lists.size(), sizes.size()),
              "give one list of axes per dimension, [] where it is not cut");
  }
  std::vector<Dimension> dimensions;
  std::vector<std::vector<JsonReader>> names;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Dimension dimension{sizes[i].size(), {}, sizes[i].size()};
    names.push_back(lists[i].elements());
    std::int64_t tiles = 1;
    for (const JsonReader& name : names.back()) {
      dimension.axes.push_back(read_axis_part(name, mesh));
      tiles = checked_multiply(tiles, dimension.axes.back().size).value_or(tiles);
    }
    if (dimension.global % tiles == 0) dimension.tile = dimension.global / tiles;
    dimensions.push_back(std::move(dimension));
  }
  if (auto found = DistributedType::find_fault(mesh, dimensions)) {
    const std::size_t i = static_cast<std::size_t>(std::max(found->dimension, 0));
    Fault& fault = found->fault;
    if (found->dimension < 0) shape.fail(std::move(fault.message), std::move(fault.hint));
    if (found->axis >= 0)
      names[i][static_cast<std::size_t>(found->axis)].fail(std::move(fault.message), std::move(fault.hint));
    lists[i].fail(fmt::format("{} elements do not divide evenly over these axes", dimensions[i].global),
                  std::move(fault.hint));
  }
  return {mesh, std::move(dimensions)};
}

}  // namespace retile
