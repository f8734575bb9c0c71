// JAX's shardings as printed.
//
//   PartitionSpec('x', ('y', 'z'), None)    or P(…): the axes of each dimension; the last dimensions may be omitted
//   PartitionSpec('x', unreduced={'y'})     parts of a sum along y
//   NamedSharding(mesh=Mesh('x': 2, 'y': 4), spec=PartitionSpec('x', None), memory_kind=device)
//   SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)    the whole array on one device
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "retile/base/scanner.h"
#include "retile/interchange/readers.h"

namespace retile::interchange {
namespace {

constexpr std::string_view jax_mesh_example = "\"Mesh('x': 2, 'y': 4)\" or --mesh x=2,y=4";

// tuple ::= '(' [ item { ',' item } [ ',' ] ] ')', and sets in braces
template <typename ScanItem>
void scan_items(Scanner& scanner, const char* opening, const char* closing, ScanItem scan_item) {
  scanner.expect(opening, "at the start of a list");
  while (!scanner.accept(closing)) {
    scan_item();
    if (scanner.accept(",")) continue;
    scanner.expect(closing, "or ',' in a list");
    return;
  }
}

// Skips a value that does not matter for who holds what: a word, a string, or a tuple of these.
void skip_value(Scanner& scanner) {
  if (scanner.looking_at("(")) return skip_brackets(scanner);
  if (scanner.looking_at("'") || scanner.looking_at("\"")) {
    scanner.quoted("a value");
  } else {
    scanner.name("a value");
  }
}

// Scans { ',' name '=' value } ')': known fields, after the first ones.
void skip_fields(Scanner& scanner, std::string_view what, const std::vector<std::string>& known) {
  while (scanner.accept(",")) {
    const std::string field = scanner.name("a field");
    if (field != "memory_kind" && field != "logical_device_ids") fail_at_field(scanner, what, field, known);
    scanner.expect("=", "after a field");
    skip_value(scanner);
  }
  scanner.expect(")", fmt::format("at the end of {}", what));
}

class SpecScanner {
 public:
  SpecScanner(Scanner& scanner, const PlacedMesh& mesh, const Shape& shape)
      : scanner_(scanner), mesh_(mesh), shape_(shape) {}

  Layout scan() {
    scanner_.name("PartitionSpec");
    scan_items(scanner_, "(", ")", [&] { scan_entry(); });
    return make_layout(scanner_, mesh_, shape_, cuts_);
  }

 private:
  // entry ::= 'None' | string | '(' strings ')' | 'unreduced' '=' '{' strings '}'
  void scan_entry() {
    const std::size_t begin = scanner_.next_position();
    if (scanner_.accept_word("unreduced")) {
      scanner_.expect("=", "after 'unreduced'");
      scan_items(scanner_, "{", "}", [&] { cuts_.partial.push_back(scan_axis()); });
      return;
    }
    std::vector<AxisText>& axes = cuts_.dimensions.emplace_back();
    if (scanner_.looking_at("(")) {
      scan_items(scanner_, "(", ")", [&] { axes.push_back(scan_axis()); });
    } else if (!scanner_.looking_at_name() || scanner_.looking_at("\"")) {
      axes.push_back(scan_axis());
    } else if (const std::string word = scanner_.name("an entry"); word == "UNCONSTRAINED") {
      scanner_.fail(scanner_.last(), "an unconstrained dimension does not say how it is cut", "name its axes, or None");
    } else if (mesh_.mesh.find_axis(word)) {
      scanner_.fail(scanner_.last(), fmt::format("axis {} stands without quotes", word),
                    "in a shell, double quotes go around single ones: \"P('x', None)\"");
    } else if (word != "None") {
      fail_at_field(scanner_, "a PartitionSpec", word, {"None", "unreduced", "'AXIS'"});
    }
    require_rank(scanner_, {begin, scanner_.last().end}, cuts_.dimensions.size(), shape_);
  }

  AxisText scan_axis() {
    const std::string name = scanner_.quoted("an axis");
    return find_axis(scanner_, mesh_.mesh, name);
  }

  Scanner& scanner_;
  const PlacedMesh& mesh_;
  const Shape& shape_;
  CutsText cuts_;
};

// named ::= 'NamedSharding' '(' 'mesh' '=' mesh ',' 'spec' '=' spec { ',' name '=' value } ')'
Layout scan_named_sharding(Scanner& scanner, const Shape& shape) {
  scanner.expect("(", "after 'NamedSharding'");
  scanner.expect_word("mesh", "at the start of a NamedSharding");
  scanner.expect("=", "after 'mesh'");
  const PlacedMesh mesh = scan_jax_mesh(scanner);
  scanner.expect(",", "after the mesh");
  scanner.expect_word("spec", "after the mesh");
  scanner.expect("=", "after 'spec'");
  Layout layout = SpecScanner(scanner, mesh, shape).scan();
  skip_fields(scanner, "a NamedSharding", {"mesh", "spec", "memory_kind", "logical_device_ids"});
  return layout;
}

// single ::= 'SingleDeviceSharding' '(' 'device' '=' name '(' 'id' '=' index { … } ')' { ',' name '=' value } ')'
Layout scan_single_device(Scanner& scanner, const Shape& shape) {
  scanner.expect("(", "after 'SingleDeviceSharding'");
  scanner.expect_word("device", "at the start of a SingleDeviceSharding");
  scanner.expect("=", "after 'device'");
  scanner.name("a device, as in CpuDevice(id=0)");
  const std::size_t begin = scanner.next_position();
  scanner.expect("(", "after the kind of a device");
  scanner.expect_word("id", "of a device");
  scanner.expect("=", "after 'id'");
  const std::int64_t device = scanner.index("a device");
  if (device >= Mesh::most_devices) scanner.fail(scanner.last(), "there are not so many devices");
  scanner.go_to(begin);
  skip_brackets(scanner);  // other attributes of the device, such as its coordinates
  skip_fields(scanner, "a SingleDeviceSharding", {"device", "memory_kind"});
  return layout_on_one(device, shape);
}

std::string jax_axes_text(const Mesh& mesh, const std::vector<AxisPart>& axes) {
  std::string text;
  for (const AxisPart& part : axes) {
    text += (text.empty() ? "" : ", ") + python_string(mesh.axis(part.axis).name);
  }
  return text;
}

std::string mesh_text(const Mesh& mesh, const std::vector<Device>& devices) {
  std::vector<std::string> axes;
  Shape sizes;
  for (const Axis& axis : mesh.axes()) {
    sizes.push_back(axis.size);
    axes.push_back(python_string(axis.name));
    if (devices.empty()) axes.back() += fmt::format(": {}", axis.size);
  }
  if (devices.empty()) return fmt::format("Mesh({})", fmt::join(axes, ", "));
  return fmt::format("Mesh(device_ids=array({}), axis_names=({}{}))", nested_list_text(sizes, devices),
                     fmt::join(axes, ", "), axes.size() == 1 ? "," : "");
}

}  // namespace

// mesh ::= 'Mesh' '(' [ string ':' size { ',' string ':' size } ] ')'
//        | 'Mesh' '(' 'device_ids' '=' 'array' '(' list ')' ',' 'axis_names' '=' '(' strings ')' ')'
// each perhaps followed by ', axis_types=(…)'
PlacedMesh scan_jax_mesh(Scanner& scanner) {
  const std::size_t begin = scanner.next_position();
  if (!scanner.accept_word("AbstractMesh")) scanner.expect_word("Mesh", "at the start of a mesh");
  std::vector<Axis> axes;
  NestedList ids;
  bool has_ids = false;
  scan_items(scanner, "(", ")", [&] {
    if (!scanner.looking_at_name() || scanner.looking_at("\"")) {
      axes.push_back({scanner.quoted("an axis"), 0});
      scanner.expect(":", "between an axis and its size");
      axes.back().size = scanner.size("the size of an axis");
      return;
    }
    const std::string field = scanner.name("a field");
    if (field != "device_ids" && field != "axis_names" && field != "axis_types") {
      fail_at_field(scanner, "a Mesh", field, {"device_ids", "axis_names", "axis_types"});
    }
    scanner.expect("=", "after a field");
    if (field == "axis_types") return skip_value(scanner);
    if (field == "axis_names") {
      scan_items(scanner, "(", ")", [&] { axes.push_back({scanner.quoted("an axis"), 0}); });
      return;
    }
    scanner.expect_word("array", "before the devices");
    scanner.expect("(", "before the devices");
    has_ids = true;
    if (scanner.looking_at_digit()) {
      ids.numbers = {scanner.index("a device")};
    } else {
      ids = scan_nested_list(scanner);
    }
    scanner.expect(")", "after the devices");
  });
  const SourceRange place{begin, scanner.last().end};
  if (has_ids && ids.shape.size() != axes.size()) {
    scanner.fail(place, fmt::format("{} axes for devices in {} dimensions", axes.size(), ids.shape.size()));
  }
  for (std::size_t i = 0; i < ids.shape.size(); ++i) axes[i].size = ids.shape[i];
  return place_mesh(scanner, place, std::move(axes), std::move(ids.numbers));
}

Layout parse_jax(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh) {
  Scanner scanner(text);
  const auto scan = [&] {
    if (scanner.accept_word("NamedSharding")) return scan_named_sharding(scanner, shape);
    if (scanner.accept_word("SingleDeviceSharding")) return scan_single_device(scanner, shape);
    const PlacedMesh& given = require_mesh(mesh, scanner, {0, text.text.size()}, jax_mesh_example);
    return SpecScanner(scanner, given, shape).scan();
  };
  Layout layout = scan();
  scanner.expect_end("the sharding");
  return layout;
}

NotationText to_jax(const Layout& layout) {
  const PlainCuts cuts = plain_cuts(layout, "JAX");
  require_sum(cuts, "JAX");
  require_whole_axes(cuts, "JAX");
  std::vector<std::string> entries;
  for (const std::vector<AxisPart>& axes : cuts.dimensions) {
    const std::string text = jax_axes_text(cuts.mesh, axes);
    entries.push_back(axes.empty() ? "None" : axes.size() == 1 ? text : fmt::format("({})", text));
  }
  if (cuts.is_partial()) entries.push_back(fmt::format("unreduced={{{}}}", jax_axes_text(cuts.mesh, cuts.partial)));
  const bool is_single = entries.size() == 1 && !cuts.is_partial();
  return {mesh_text(cuts.mesh, cuts.devices),
          fmt::format("PartitionSpec({}{})", fmt::join(entries, ", "), is_single ? "," : "")};
}

}  // namespace retile::interchange
