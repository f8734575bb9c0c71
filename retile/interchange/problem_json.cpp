#include "retile/interchange/problem_json.h"

#include <fmt/format.h>

#include <string>

#include "retile/base/arithmetic.h"
#include "retile/interchange/notation.h"
#include "retile/planner/problem_json.h"
#include "retile/types/json.h"

namespace retile::interchange {
namespace {

Shape read_shape(const JsonReader& reader) {
  Shape shape;
  for (const JsonReader& size : reader.elements()) shape.push_back(size.count());
  if (!checked_product(shape)) reader.fail("the number of elements does not fit in 63 bits");
  return shape;
}

// Refuses keys that go with lists of axes. A text describes its side completely, so that they would be ignored.
void refuse_keys_of_lists(const JsonReader& problem, const std::string& side) {
  const auto refuse = [&](const std::string& key, const JsonReader& value) {
    value.fail(fmt::format("\"{}\" goes with lists of axes, and \"{}\" is a text", key, side),
               "the text says it all: devices stand in a mesh's text, as in DeviceMesh([4, 5], mesh_dim_names=('x',))");
  };
  for (const auto& [key, value] : problem.members()) {
    if (key.starts_with(side + "_") && key != "dst_mesh") refuse(key, value);
    if (key == "uneven" && (value.value().as<JsonObject>() == nullptr || value.has(side))) refuse(key, value);
  }
}

Layout read_side(const JsonReader& problem, const std::string& side, const std::string& mesh_key) {
  refuse_keys_of_lists(problem, side);
  const JsonReader text = problem.member(side);
  std::optional<PlacedMesh> mesh;
  // A sharding of XLA defines its own mesh; the line's mesh is the other side's.
  const bool says_mesh = recognise_notation(text.string()) == Notation::xla;
  if (!says_mesh && problem.has(mesh_key)) mesh = read_placed_mesh(problem.member(mesh_key));
  const Shape shape = read_shape(problem.member("shape"));
  Layout layout = read_layout(text, shape, mesh);
  if (layout.global_shape() != shape) {
    text.fail(fmt::format("\"{}\" is of shape [{}], and \"shape\" is another one", side,
                          fmt::join(layout.global_shape(), ", ")));
  }
  return layout;
}

}  // namespace

PlacedMesh read_placed_mesh(const JsonReader& reader) {
  if (reader.value().as<std::string>() == nullptr) return {read_mesh(reader), {}};
  return reader.parse_text([](const SourceText& text) { return parse_placed_mesh(text); });
}

Layout read_layout(const JsonReader& text, const Shape& shape, const std::optional<PlacedMesh>& mesh) {
  return text.parse_text([&](const SourceText& one) { return parse_ends(one, one, shape, mesh).source; });
}

Problem read_problem(const JsonReader& reader) { return retile::read_problem(reader, read_side); }

Problem parse_problem(const SourceText& line) {
  const JsonValue root = parse_json(line);
  return read_problem(JsonReader(line, root, "the problem"));
}

}  // namespace retile::interchange
