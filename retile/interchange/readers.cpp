#include "retile/interchange/readers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "retile/base/nearest_name.h"
#include "retile/base/scanner.h"
#include "retile/types/text.h"

namespace retile::interchange {
namespace {

SourceRange place_of(const Layout::MeshFault& found, const CutsText& cuts) {
  const auto axis = static_cast<std::size_t>(std::max(found.axis, 0));
  if (found.dimension < 0) return found.axis < 0 ? SourceRange{} : cuts.partial[axis].place;
  const std::vector<AxisText>& axes = at(cuts.dimensions, found.dimension);
  return axes[axes.size() - 1 - axis].place;
}

[[noreturn]] void refuse(std::string_view notation, const std::string& what, const std::string& why) {
  throw InputError(fmt::format("{} cannot say {}", notation, what), why);
}

}  // namespace

Layout make_layout(const Scanner& scanner, const PlacedMesh& mesh, const Shape& shape, const CutsText& cuts) {
  MeshLayout layout{mesh.mesh, {}, UnevenRule::ceiling, {}, cuts.reduction, mesh.devices};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    Factor& factor = layout.view.emplace_back().emplace_back();
    factor.size = shape[i];
    if (i >= cuts.dimensions.size()) continue;
    for (const AxisText& axis : cuts.dimensions[i]) factor.axes.insert(factor.axes.begin(), axis.part);
  }
  for (const AxisText& axis : cuts.partial) layout.partial.push_back(axis.part);
  if (const auto found = Layout::find_fault(layout)) scanner.fail(place_of(*found, cuts), found->fault);
  return Layout(std::move(layout));
}

Layout layout_on_one(Device device, const Shape& shape) {
  MeshLayout layout{Mesh({}), {}, UnevenRule::ceiling, {}, Reduction::sum, {}};
  for (const std::int64_t size : shape) layout.view.push_back({{size, {}}});
  if (device != 0) layout.devices = {device};
  return Layout(std::move(layout));
}

void require_rank(const Scanner& scanner, SourceRange entry, std::size_t entries, const Shape& shape) {
  if (entries <= shape.size()) return;
  scanner.fail(entry, fmt::format("there is no dimension {}: the array has rank {}", entries - 1, shape.size()),
               fmt::format("its shape is {}", to_string(shape)));
}

AxisText find_axis(const Scanner& scanner, const Mesh& mesh, const std::string& name) {
  const std::optional<int> axis = mesh.find_axis(name);
  if (axis) return {mesh.whole(*axis), scanner.last()};
  const Fault fault = unknown_axis(mesh, name);
  scanner.fail(scanner.last(), fault);
}

const PlacedMesh& require_mesh(const std::optional<PlacedMesh>& mesh, const Scanner& scanner, SourceRange place,
                               std::string_view example) {
  if (mesh) return *mesh;
  scanner.fail(place, "nothing says which mesh this is of", fmt::format("give one, as in --mesh {}", example));
}

const PlacedMesh& require_mesh(const std::optional<PlacedMesh>& mesh, const Scanner& scanner, SourceRange place,
                               const std::string& symbol, std::string_view example) {
  const PlacedMesh& found = require_mesh(mesh, scanner, place, example);
  if (!found.symbol.empty() && found.symbol != symbol) {
    scanner.fail(place, fmt::format("there is no mesh @{}", symbol),
                 fmt::format("the one that is given is @{}", found.symbol));
  }
  return found;
}

void fail_at_field(const Scanner& scanner, std::string_view what, const std::string& field,
                   std::vector<std::string> known) {
  const auto nearest = nearest_name(field, known);
  scanner.fail(
      scanner.last(), fmt::format("unknown field '{}' of {}", field, what),
      fmt::format("{}known are {}", nearest ? fmt::format("did you mean {}? ", *nearest) : "", fmt::join(known, ", ")));
}

Reduction scan_reduction(Scanner& scanner) {
  const std::string name = scanner.name("a reduction");
  const auto reduction = find_reduction(name);
  if (!reduction) {
    scanner.fail(scanner.last(), fmt::format("unknown reduction '{}'", name),
                 fmt::format("use one of {}", reduction_names));
  }
  return *reduction;
}

void skip_brackets(Scanner& scanner) {
  const std::size_t begin = scanner.next_position();
  int depth = 0;
  do {
    if (scanner.at_end()) scanner.fail({begin, begin + 1}, "this bracket is never closed");
    if (scanner.looking_at("\"") || scanner.looking_at("'")) {
      scanner.quoted("a text");
      continue;
    }
    const bool opens = scanner.looking_at("{") || scanner.looking_at("[") || scanner.looking_at("(");
    const bool closes = scanner.looking_at("}") || scanner.looking_at("]") || scanner.looking_at(")");
    depth += opens ? 1 : closes ? -1 : 0;
    scanner.go_to(scanner.next_position() + 1);
  } while (depth > 0);
}

void require_plain(const Layout& layout, std::string_view notation) {
  if (layout.is_plain()) return;
  refuse(notation, "blocks in turn, listed tiles, halos or orders in memory", "its tiles are cut by a rule, row-major");
}

PlainCuts plain_cuts(const Layout& layout, std::string_view notation) {
  const auto cuts = layout.cuts();
  if (!cuts) refuse(notation, "boxes that are listed device by device", "it cuts arrays along axes of devices");
  require_plain(layout, notation);
  PlainCuts plain{cuts->mesh, cuts->devices, {}, cuts->partial, cuts->reduction};
  for (const std::vector<Factor>& factors : cuts->view) {
    if (factors.size() != 1) refuse(notation, "a dimension in factors", "it cuts dimensions as a whole");
    if (!same_tiles(factors[0], cuts->rule, UnevenRule::ceiling)) {
      refuse(notation, fmt::format("the {} rule for sizes that do not divide", name_of(cuts->rule)),
             fmt::format("its tiles of {} would be those of ceilings", factors[0].size));
    }
    std::vector<AxisPart> axes = merge_neighbours(factors[0].axes);
    plain.dimensions.emplace_back(axes.rbegin(), axes.rend());
  }
  return plain;
}

void require_sum(const PlainCuts& cuts, std::string_view notation) {
  if (!cuts.is_partial() || cuts.reduction == Reduction::sum) return;
  refuse(notation, fmt::format("a {} over axes", name_of(cuts.reduction)), "what it leaves to be reduced is a sum");
}

void require_whole_axes(const PlainCuts& cuts, std::string_view notation) {
  const auto require = [&](const std::vector<AxisPart>& parts) {
    for (const AxisPart& part : parts) {
      if (part == cuts.mesh.whole(part.axis)) continue;
      refuse(notation, fmt::format("the part {} of an axis", to_string(cuts.mesh, part)), "it cuts along whole axes");
    }
  };
  for (const std::vector<AxisPart>& axes : cuts.dimensions) require(axes);
  require(cuts.partial);
}

}  // namespace retile::interchange
