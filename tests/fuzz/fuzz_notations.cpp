// An array on the first line, a mesh on the second, and a sharding, or a compiler's log, on the others.
#include <algorithm>

#include "retile/interchange/compiler_log.h"
#include "retile/interchange/notation.h"
#include "retile/types/layout.h"
#include "tests/fuzz/require.h"

namespace retile::fuzz {
namespace {

using namespace interchange;

std::string take_line(std::string& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string line = text.substr(0, end);
  text.erase(0, std::min(end + 1, text.size()));
  return line;
}

Layout parse(const std::string& text, const Shape& shape, const std::optional<PlacedMesh>& mesh) {
  return parse_ends({"sharding", text}, {"sharding", text}, shape, mesh).source;
}

// Whatever prints it, and is read again, places the same boxes.
void check_layout(const Layout& layout) {
  const auto cuts = layout.cuts();
  if (!cuts || layout.device_count() > 256 || layout.rank() > 6) return;
  for (const Notation notation : {Notation::xla, Notation::jax, Notation::shardy, Notation::dtensor, Notation::mlir}) {
    const auto text = try_parse([&] { return to_notation(layout, notation); });
    if (!text) continue;
    std::optional<PlacedMesh> mesh;
    if (!text->mesh.empty()) mesh = parse_placed_mesh({"mesh", text->mesh});
    if (text->layout == "{replicated}" || text->layout == "{unreduced}") mesh = PlacedMesh{cuts->mesh, {}};
    const Layout again = parse(text->layout, layout.global_shape(), mesh);
    const std::int64_t world = std::max(layout.device_count(), again.device_count());
    require(layout.is_partial() == again.is_partial(), "a sum is printed as one: " + text->layout);
    if (layout.is_partial() || layout.local_size() > 4096) continue;  // parts are told apart by axes, in any order
    require(again.placement(world) == layout.placement(world), "a layout parses back: " + text->layout);
  }
}

void check_log(const SourceText& log) {
  for (const ReportedReshard& reshard : read_compiler_log(log).reshards) {
    const Shape shape = reshard.array ? reshard.array->shape : Shape{8, 8};
    try_parse([&] { return parse_reshard(log, reshard, shape, true, {}).shape; });
  }
}

}  // namespace
}  // namespace retile::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace retile;
  std::string text = fuzz::text_of(data, size);
  fuzz::check_log({"log", text});
  const SourceText shape{"array", fuzz::take_line(text)};
  const SourceText mesh_text{"mesh", fuzz::take_line(text)};
  const auto array = fuzz::try_parse([&] { return interchange::parse_array(shape); });
  if (!array) return 0;
  std::optional<interchange::PlacedMesh> mesh;
  if (!mesh_text.text.empty()) mesh = fuzz::try_parse([&] { return interchange::parse_placed_mesh(mesh_text); });
  const auto layout = fuzz::try_parse([&] { return fuzz::parse(text, array->shape, mesh); });
  if (layout) fuzz::check_layout(*layout);
  return 0;
}
