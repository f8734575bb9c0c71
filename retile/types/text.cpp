#include "retile/types/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "retile/types/scanning.h"

namespace retile {
namespace {

// axis ::= name ('=' | ':') size
Axis scan_axis(Scanner& scanner, SourceRange& place) {
  Axis axis;
  axis.name = scanner.name("an axis name");
  place = scanner.last();
  if (!scanner.accept(":")) scanner.expect("=", "or ':' between an axis and its size");
  axis.size = scanner.size("the size of axis " + quote_name(axis.name));
  place.end = scanner.last().end;
  return axis;
}

}  // namespace

// mesh ::= '{' [ axis { ',' axis } ] '}' | [ axis { ',' axis } ]
Mesh scan_mesh(Scanner& scanner) {
  const bool braces = scanner.accept("{");
  std::vector<Axis> axes;
  std::vector<SourceRange> places;
  const bool empty = braces ? scanner.looking_at("}") : scanner.at_end();
  if (!empty) {
    do {
      axes.push_back(scan_axis(scanner, places.emplace_back()));
    } while (scanner.accept(","));
  }
  if (braces) scanner.expect("}", "or ',' after an axis of a mesh");
  if (const auto found = Mesh::find_fault(axes)) {
    scanner.fail(at(places, found->axis), found->fault);
  }
  return Mesh(std::move(axes));
}

// part ::= name [ ':' size ] | name ':' '(' size ')' size
AxisPart scan_axis_part(Scanner& scanner, const Mesh& mesh) {
  const std::string name = scanner.name("an axis name");
  SourceRange place = scanner.last();
  const std::optional<int> axis = mesh.find_axis(name);
  if (!axis) scanner.fail(place, unknown_axis(mesh, name));
  AxisPart part = mesh.whole(*axis);
  if (!scanner.accept(":")) return part;
  if (scanner.accept("(")) {
    part.major = scanner.size("the size of the more major parts");
    scanner.expect(")", "after the size of the more major parts");
    part.size = scanner.size("the size of a part");
    return part;
  }
  const std::int64_t size = scanner.size("the size of axis " + quote_name(name));
  if (size != part.size) {
    place.end = scanner.last().end;
    scanner.fail(place, fmt::format("axis {} has size {}, not {}", quote_name(name), part.size, size));
  }
  return part;
}

Mesh parse_mesh(const SourceText& source) {
  Scanner scanner(source);
  const bool braces = scanner.looking_at("{");
  Mesh mesh = scan_mesh(scanner);
  scanner.expect_end(braces ? "the mesh" : "the mesh, or ',' and another axis");
  return mesh;
}

Mesh parse_mesh(std::string_view text) { return parse_mesh(SourceText{"mesh", std::string(text)}); }

DistributedType parse_type(const SourceText& source, const Mesh& mesh) {
  Scanner scanner(source);
  DistributedType type = scan_type(scanner, mesh);
  scanner.expect_end("the type");
  return type;
}

DistributedType parse_type(std::string_view text, const Mesh& mesh) {
  return parse_type(SourceText{"type", std::string(text)}, mesh);
}

std::string to_string(const Mesh& mesh) {
  std::string out = "{";
  for (const Axis& axis : mesh.axes()) {
    out += fmt::format("{}{}: {}", out.size() == 1 ? "" : ", ", quote_name(axis.name), axis.size);
  }
  return out + "}";
}

std::string to_string(const Mesh& mesh, const AxisPart& part) {
  const std::string name = quote_name(mesh.axis(part.axis).name);
  return part == mesh.whole(part.axis) ? name : fmt::format("{}:({}){}", name, part.major, part.size);
}

std::string to_string(const Mesh& mesh, std::span<const AxisPart> parts) {
  std::string out;
  for (const AxisPart& part : merge_neighbours(parts)) out += (out.empty() ? "" : ",") + to_string(mesh, part);
  return out;
}

std::string to_string(const DistributedType& type) {
  std::string out = "[";
  for (const Dimension& dimension : type.dimensions()) {
    if (out.size() > 1) out += ", ";
    out += fmt::format("{}", dimension.tile);
    if (dimension.axes.empty()) continue;
    out += fmt::format("{{{}}}{}", to_string(type.mesh(), dimension.axes), dimension.global);
  }
  return out + "]";
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace retile
