// Readers and printers of the notations, and what they share. Others use them through notation.h.
//
// All notations list axes major to minor; retile lists them minor to major.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/base/scanner.h"
#include "retile/interchange/notation.h"
#include "retile/interchange/placed_mesh.h"
#include "retile/types/layout.h"

namespace retile::interchange {

// --- Meshes with their devices.

// Numbers in nested lists, row-major: [[0, 1], [2, 3]].
struct NestedList {
  Shape shape;
  std::vector<std::int64_t> numbers;
};
NestedList scan_nested_list(Scanner& scanner);
std::string nested_list_text(const Shape& shape, const std::vector<std::int64_t>& numbers);

// A mesh with these devices; an empty list means 0, 1, 2, … Fails at `place` where they make no mesh.
PlacedMesh place_mesh(const Scanner& scanner, SourceRange place, std::vector<Axis> axes, std::vector<Device> devices);

// The numbers of all devices of a mesh, of which it may have at most `most_listed`. Throws InputError.
std::vector<Device> devices_of(const Mesh& mesh, const std::vector<Device>& devices);
constexpr std::int64_t most_listed = std::int64_t{1} << 20U;

// The text as Python prints a string: 'x'.
std::string python_string(const std::string& text);

// --- From text. All throw InputError with the place in the text.

// An axis as named in a text.
struct AxisText {
  AxisPart part;
  SourceRange place;
};

// A sharding along axes, as read from a text.
struct CutsText {
  std::vector<std::vector<AxisText>> dimensions = {};  // each major to minor; dimensions that are left out are not cut
  std::vector<AxisText> partial = {};
  Reduction reduction = Reduction::sum;
};

// The layout of these cuts, by the rule of ceilings.
Layout make_layout(const Scanner& scanner, const PlacedMesh& mesh, const Shape& shape, const CutsText& cuts);

// The layout of an array that is on one device as a whole.
Layout layout_on_one(Device device, const Shape& shape);

// Fails at the entry for which the array has no dimension.
void require_rank(const Scanner& scanner, SourceRange entry, std::size_t entries, const Shape& shape);
// The axis of this name. Fails at the last token where there is none.
AxisText find_axis(const Scanner& scanner, const Mesh& mesh, const std::string& name);
// The mesh. Fails at `place` where it is missing and the text does not define its own.
const PlacedMesh& require_mesh(const std::optional<PlacedMesh>& mesh, const Scanner& scanner, SourceRange place,
                               std::string_view example);
// The mesh that a text refers to by a symbol. Fails at `place` where it is missing.
const PlacedMesh& require_mesh(const std::optional<PlacedMesh>& mesh, const Scanner& scanner, SourceRange place,
                               const std::string& symbol, std::string_view example);
// Fails at the last token, an unknown field.
[[noreturn]] void fail_at_field(const Scanner& scanner, std::string_view what, const std::string& field,
                                std::vector<std::string> known);
// Scans the name of a reduction.
Reduction scan_reduction(Scanner& scanner);
// Skips what is in brackets, strings included. The next token opens them.
void skip_brackets(Scanner& scanner);

// Scans an array.
ArrayText scan_array(Scanner& scanner);

// Parses several shardings of one array. They share a mesh where they can, with axes a, b, c, … where none is given.
std::vector<Layout> parse_xla(std::span<const SourceText> texts, const Shape& shape,
                              const std::optional<PlacedMesh>& mesh);
// Whether the text is a sharding that names the axes of its own mesh: {mesh['x'=2,'y'=4], [{'x'}, {}]}.
bool is_named_xla(std::string_view text);
Layout parse_named_xla(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh);
Layout parse_jax(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh);
Layout parse_shardy(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh);
Layout parse_dtensor(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh);
Layout parse_mlir(const SourceText& text, const Shape& shape, const std::optional<PlacedMesh>& mesh);

PlacedMesh scan_jax_mesh(Scanner& scanner);
PlacedMesh scan_shardy_mesh(Scanner& scanner);
PlacedMesh scan_dtensor_mesh(Scanner& scanner);
PlacedMesh scan_mlir_mesh(Scanner& scanner);

// --- To text. All throw InputError with the reason where the notation cannot express the layout.

// A layout that cuts dimensions as a whole, evenly or by ceilings, along axes that are listed major to minor.
struct PlainCuts {
  Mesh mesh;
  std::vector<Device> devices;
  std::vector<std::vector<AxisPart>> dimensions;
  std::vector<AxisPart> partial;
  Reduction reduction;

  bool is_partial() const { return !partial.empty(); }
};

// Refuses layouts that are not plain. `notation` is the subject of the message: "XLA cannot say listed boxes".
void require_plain(const Layout& layout, std::string_view notation);
PlainCuts plain_cuts(const Layout& layout, std::string_view notation);
void require_sum(const PlainCuts& cuts, std::string_view notation);
void require_whole_axes(const PlainCuts& cuts, std::string_view notation);

std::string to_xla(const Layout& layout);
NotationText to_jax(const Layout& layout);
NotationText to_shardy(const Layout& layout);
NotationText to_dtensor(const Layout& layout);
NotationText to_mlir(const Layout& layout);

}  // namespace retile::interchange
