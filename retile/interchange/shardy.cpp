// Shardy's shardings, and XLA's shardings with named axes, which are the same in other brackets.
//
//   #sdy.sharding<@mesh, [{"x", "y"}, {"z":(1)2}]>    the axes of each dimension, or parts of them
//   … , replicated={"w"}, unreduced={"v"}>            {"x", ?} and {"x"}p1 are read as {"x"}
//   sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[…]>
//   {mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{'x', 'y':(1)2}, {}], unreduced=max{'z'}}    XLA; or, for all axes,
//   {mesh['x'=2,'y'=4], replicated}    {mesh['x'=2,'y'=4], unreduced}    {single_device[device_id=0]}
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "retile/base/scanner.h"
#include "retile/interchange/readers.h"
#include "retile/interchange/xla_sharding.h"
#include "retile/types/text.h"

namespace retile::interchange {
namespace {

constexpr std::string_view shardy_mesh_example = "'sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>' or --mesh x=2,y=4";

// '[' [ string '=' size { ',' string '=' size } ] ']' [ ',' 'device_ids' '=' '[' devices ']' ]
PlacedMesh scan_mesh_body(Scanner& scanner) {
  const std::size_t begin = scanner.next_position();
  std::vector<Axis> axes;
  std::vector<Device> devices;
  scanner.expect("[", "before the axes of a mesh");
  while (!scanner.accept("]")) {
    if (!axes.empty()) scanner.expect(",", "or ']' after an axis");
    axes.push_back({scanner.quoted("an axis"), 1});
    scanner.expect("=", "between an axis and its size");
    axes.back().size = scanner.size("the size of an axis");
  }
  if (scanner.accept(",")) {
    scanner.expect_word("device_ids", "after the axes of a mesh");
    scanner.expect("=", "after 'device_ids'");
    scanner.expect("[", "before the devices of a mesh");
    do {
      devices.push_back(scanner.index("a device"));
    } while (scanner.accept(","));
    scanner.expect("]", "or ',' after a device");
  }
  return place_mesh(scanner, {begin, scanner.last().end}, std::move(axes), std::move(devices));
}

class ShardyScanner {
 public:
  ShardyScanner(Scanner& scanner, const Shape& shape, const std::optional<PlacedMesh>& mesh)
      : scanner_(scanner), shape_(shape), given_(mesh) {}

  Layout scan_xla() {
    scanner_.expect("{", "at the start of a sharding");
    for (const char* single : {"single_device[", "maximal_mesh["}) {
      if (scanner_.accept(single)) return scan_single_device();
    }
    const PlacedMesh mesh = scan_xla_mesh();
    scanner_.expect(",", "after the mesh of a sharding");
    if (scanner_.looking_at("[")) {
      scan_dimensions(mesh.mesh);
    } else {
      scan_kind(mesh.mesh);
    }
    while (scanner_.accept(",")) scan_field(mesh.mesh);
    scanner_.expect("}", "or ',' after the dimensions of a sharding");
    scanner_.expect_end("the sharding");
    require_free(mesh.mesh);
    return make_layout(scanner_, mesh, shape_, cuts_);
  }

  Layout scan() {
    if (scanner_.accept("#sdy.")) scanner_.expect_word("sharding", "after '#sdy.'");
    scanner_.expect("<", "at the start of a sharding");
    const PlacedMesh mesh = scan_mesh();
    scanner_.expect(",", "after the mesh of a sharding");
    scan_dimensions(mesh.mesh);
    while (scanner_.accept(",")) scan_field(mesh.mesh);
    scanner_.expect(">", "or ',' after the dimensions of a sharding");
    scanner_.expect_end("the sharding");
    require_free(mesh.mesh);
    return make_layout(scanner_, mesh, shape_, cuts_);
  }

 private:
  Layout scan_single_device() {
    scanner_.expect_word("device_id", "of a single device");
    scanner_.expect("=", "before the device");
    const Device device = scanner_.index("a device");
    if (device >= Mesh::most_devices) scanner_.fail(scanner_.last(), "there are not so many devices");
    scanner_.expect("]", "after the device");
    scanner_.expect("}", "at the end of a sharding");
    scanner_.expect_end("the sharding");
    return layout_on_one(device, shape_);
  }

  // 'mesh' '[' [ axis '=' size { ',' axis '=' size } ] ']' [ ',' 'device_ids' '=' '(' order ')' ]
  PlacedMesh scan_xla_mesh() {
    const std::size_t begin = scanner_.next_position();
    scanner_.expect_word("mesh", "at the start of a sharding");
    scanner_.expect("[", "before the axes of a mesh");
    std::vector<Axis> axes;
    while (!scanner_.accept("]")) {
      if (!axes.empty()) scanner_.expect(",", "or ']' after an axis");
      axes.push_back({scan_name(), 1});
      scanner_.expect("=", "between an axis and its size");
      axes.back().size = scanner_.size("the size of an axis");
    }
    if (axes.empty()) return require_mesh(given_, scanner_, {begin, scanner_.last().end}, shardy_mesh_example);
    const SourceRange place{begin, scanner_.last().end};
    const std::size_t next = scanner_.next_position();
    std::vector<Device> devices;
    if (scanner_.accept(",") && scanner_.accept_word("device_ids")) {
      devices = scan_device_ids();
    } else {
      scanner_.go_to(next);
    }
    return place_mesh(scanner_, place, std::move(axes), std::move(devices));
  }

  std::vector<Device> scan_device_ids() {
    scanner_.expect("=", "after 'device_ids'");
    scanner_.expect("(", "before the devices of a mesh");
    const std::size_t begin = scanner_.next_position();
    DeviceOrder order = scanner_.looking_at("[") ? scan_shaped_order(scanner_) : scan_listed_order(scanner_);
    if (order.count > most_listed) {
      scanner_.fail({begin, scanner_.last().end}, fmt::format("{} devices are too many to be listed", order.count));
    }
    scanner_.expect(")", "after the devices of a mesh");
    return order.devices.empty() ? listed(order.digits) : std::move(order.devices);
  }

  // Scans what all axes of the mesh do.
  void scan_kind(const Mesh& mesh) {
    const std::string kind = scanner_.name("the dimensions of a sharding, 'replicated' or 'unreduced'");
    if (kind == "manual") fail_at_manual();
    if (kind != "replicated" && kind != "unreduced") {
      fail_at_field(scanner_, "a sharding", kind, {"replicated", "unreduced", "manual"});
    }
    for (int axis = 0; kind == "unreduced" && axis < mesh.axis_count(); ++axis) {
      cuts_.partial.push_back({mesh.whole(axis), scanner_.last()});
    }
  }

  [[noreturn]] void fail_at_manual() const {
    scanner_.fail(scanner_.last(), "devices along manual axes hold arrays of their own",
                  "redistribute the array of one of them: leave the axes out of the mesh");
  }

  // Scans a name, which is quoted except in older versions of XLA.
  std::string scan_name() {
    const bool is_quoted = !scanner_.looking_at_name() || scanner_.looking_at("\"");
    return is_quoted ? scanner_.quoted("an axis") : scanner_.name("an axis");
  }

  // '@' name | 'mesh' '<' mesh '>'
  PlacedMesh scan_mesh() {
    const std::size_t begin = scanner_.next_position();
    if (scanner_.accept("@")) {
      const std::string symbol = scanner_.name("the name of a mesh");
      return require_mesh(given_, scanner_, {begin, scanner_.last().end}, symbol, shardy_mesh_example);
    }
    scanner_.expect_word("mesh", "or '@' and the name of a mesh");
    scanner_.expect("<", "before a mesh");
    PlacedMesh mesh = scan_mesh_body(scanner_);
    scanner_.expect(">", "after a mesh");
    return mesh;
  }

  void scan_dimensions(const Mesh& mesh) {
    scanner_.expect("[", "before the dimensions of a sharding");
    const std::size_t begin = scanner_.last().begin;
    while (!scanner_.accept("]")) {
      if (!cuts_.dimensions.empty()) scanner_.expect(",", "or ']' after a dimension");
      const std::size_t entry = scanner_.next_position();
      cuts_.dimensions.push_back(scan_axes(mesh));
      require_rank(scanner_, {entry, scanner_.last().end}, cuts_.dimensions.size(), shape_);
      skip_priority();
    }
    if (cuts_.dimensions.size() == shape_.size()) return;
    scanner_.fail({begin, scanner_.last().end},
                  fmt::format("{} dimensions for an array of rank {}", cuts_.dimensions.size(), shape_.size()),
                  fmt::format("its shape is {}; a dimension that is not cut is {{}}", to_string(shape_)));
  }

  void skip_priority() {
    const std::string_view word = scanner_.peek_word();
    if (word.size() < 2 || word.front() != 'p') return;
    if (word.substr(1).find_first_not_of("0123456789") != std::string_view::npos) return;
    scanner_.accept(word);
  }

  // '{' [ axis { ',' axis } ] [ ',' '?' ] '}'
  std::vector<AxisText> scan_axes(const Mesh& mesh) {
    std::vector<AxisText> axes;
    scanner_.expect("{", "before the axes of a dimension");
    bool is_first = true;
    while (!scanner_.accept("}")) {
      if (!std::exchange(is_first, false)) scanner_.expect(",", "or '}' after an axis");
      if (!scanner_.accept("?")) axes.push_back(scan_axis(mesh));
    }
    return axes;
  }

  // string [ ':' '(' size ')' size ]
  AxisText scan_axis(const Mesh& mesh) {
    const std::string name = scan_name();
    AxisText axis = find_axis(scanner_, mesh, name);
    if (!scanner_.accept(":")) return axis;
    scanner_.expect("(", "before the size of the more major parts");
    axis.part.major = scanner_.size("the size of the more major parts");
    scanner_.expect(")", "after the size of the more major parts");
    axis.part.size = scanner_.size("the size of a part");
    axis.place.end = scanner_.last().end;
    return axis;
  }

  void scan_field(const Mesh& mesh) {
    const std::string field = scanner_.name("a field");
    if (field == "manual") fail_at_manual();
    if (field != "replicated" && field != "unreduced" && field != "metadata") {
      fail_at_field(scanner_, "a sharding", field, {"replicated", "unreduced", "manual"});
    }
    scanner_.expect("=", "after a field");
    if (field == "metadata") return skip_brackets(scanner_);
    if (field == "unreduced" && scanner_.looking_at_name()) cuts_.reduction = scan_reduction(scanner_);
    std::vector<AxisText> axes = scan_axes(mesh);
    if (field == "replicated") {
      replicated_ = std::move(axes);
    } else {
      cuts_.partial = std::move(axes);
    }
  }

  // Checks that axes said to be replicated cut nothing.
  void require_free(const Mesh& mesh) const {
    const auto require = [&](const AxisText& free, const std::vector<AxisText>& axes) {
      for (const AxisText& axis : axes) {
        if (!overlap(axis.part, free.part)) continue;
        scanner_.fail(free.place, fmt::format("{} is not replicated: it is used above", to_string(mesh, free.part)));
      }
    };
    for (const AxisText& free : replicated_) {
      if (!is_part_of_axis(mesh, free.part)) {
        scanner_.fail(free.place, fmt::format("{} is no part of an axis", to_string(mesh, free.part)));
      }
      for (const std::vector<AxisText>& axes : cuts_.dimensions) require(free, axes);
      require(free, cuts_.partial);
    }
  }

  Scanner& scanner_;
  const Shape& shape_;
  const std::optional<PlacedMesh>& given_;
  CutsText cuts_;
  std::vector<AxisText> replicated_;
};

// The name in double quotes, as Shardy always has it.
std::string quoted(const std::string& name) {
  const std::string text = quote_name(name);
  return text.starts_with('"') ? text : '"' + text + '"';
}

std::string shardy_axes_text(const Mesh& mesh, const std::vector<AxisPart>& axes) {
  std::vector<std::string> texts;
  for (const AxisPart& part : axes) {
    texts.push_back(quoted(mesh.axis(part.axis).name));
    if (part != mesh.whole(part.axis)) texts.back() += fmt::format(":({}){}", part.major, part.size);
  }
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

}  // namespace

// 'sdy.mesh' '@' name '=' '<' mesh '>'
PlacedMesh scan_shardy_mesh(Scanner& scanner) {
  scanner.expect("sdy.mesh", "at the start of a mesh");
  scanner.expect("@", "before the name of a mesh");
  std::string symbol = scanner.name("the name of a mesh");
  scanner.expect("=", "after the name of a mesh");
  scanner.expect("<", "before a mesh");
  PlacedMesh mesh = scan_mesh_body(scanner);
  scanner.expect(">", "after a mesh");
  mesh.symbol = std::move(symbol);
  return mesh;
}

bool is_named_xla(std::string_view text) {
  const std::size_t brace = text.find_first_not_of(" \t\r\n");
  if (brace == std::string_view::npos || text[brace] != '{') return false;
  const std::string_view inner = text.substr(std::min(text.find_first_not_of(" \t\r\n", brace + 1), text.size()));
  return inner.starts_with("mesh[") || inner.starts_with("single_device[") || inner.starts_with("maximal_mesh[");
}

Layout parse_named_xla(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh) {
  Scanner scanner(text);
  return ShardyScanner(scanner, shape, mesh).scan_xla();
}

Layout parse_shardy(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh) {
  Scanner scanner(text);
  return ShardyScanner(scanner, shape, mesh).scan();
}

NotationText to_shardy(const Layout& layout) {
  const PlainCuts cuts = plain_cuts(layout, "Shardy");
  require_sum(cuts, "Shardy");
  std::vector<std::string> axes;
  for (const Axis& axis : cuts.mesh.axes()) axes.push_back(fmt::format("{}={}", quoted(axis.name), axis.size));
  std::vector<std::string> dimensions;
  for (const std::vector<AxisPart>& parts : cuts.dimensions) dimensions.push_back(shardy_axes_text(cuts.mesh, parts));
  const std::string devices =
      cuts.devices.empty() ? "" : fmt::format(", device_ids=[{}]", fmt::join(cuts.devices, ", "));
  const std::string partial = cuts.is_partial() ? ", unreduced=" + shardy_axes_text(cuts.mesh, cuts.partial) : "";
  return {fmt::format("sdy.mesh @mesh = <[{}]{}>", fmt::join(axes, ", "), devices),
          fmt::format("#sdy.sharding<@mesh, [{}]{}>", fmt::join(dimensions, ", "), partial)};
}

}  // namespace retile::interchange
