#include "retile/files/tensor_layouts.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "retile/base/json.h"
#include "retile/interchange/notation.h"
#include "retile/interchange/problem_json.h"

namespace retile::files {
namespace {

constexpr const char* known_keys[] = {"name", "mesh", "layout", "shape", "format"};

}  // namespace

TensorLayouts::TensorLayouts(std::vector<SourceText> lines) : lines_(std::move(lines)) {
  for (const SourceText& text : lines_) {
    const JsonValue value = parse_json(text);
    const JsonReader line(text, value, "the line");
    line.require_format();
    for (const auto& [key, member] : line.members()) {
      if (std::find(std::begin(known_keys), std::end(known_keys), key) == std::end(known_keys)) {
        member.fail(fmt::format("unknown key \"{}\"", key), "known are name, mesh, layout, shape, format");
      }
    }
    patterns_.push_back(line.member("name").string());
    (void)line.member("layout").string();
  }
}

std::size_t TensorLayouts::find_line(const std::string& name) const {
  const auto fits = [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
  const auto found = std::find_if(patterns_.begin(), patterns_.end(), fits);
  if (found == patterns_.end()) {
    throw InputError(fmt::format("no line of '{}' says the layout of '{}'", lines_.empty() ? "" : lines_[0].name, name),
                     "names may have wildcards: a last line with the name * is for all others");
  }
  return static_cast<std::size_t>(found - patterns_.begin());
}

Layout TensorLayouts::layout_of(std::size_t number, const std::string& name, const Shape* shape) const {
  const SourceText& text = lines_[number];
  const JsonValue value = parse_json(text);
  const JsonReader line(text, value, "the line");
  Shape own;
  if (line.has("shape")) own = line.member("shape").integers();
  const JsonReader member = line.member("layout");
  const bool says_shape = !interchange::recognise_notation(member.string());  // retile's own types do
  if (shape == nullptr && !line.has("shape") && !says_shape) {
    member.fail(fmt::format("the shape of '{}' is needed", name), "add \"shape\" to the line");
  }
  std::optional<interchange::PlacedMesh> mesh;
  if (line.has("mesh")) mesh = interchange::read_placed_mesh(line.member("mesh"));
  const Shape& given = line.has("shape") ? own : shape != nullptr ? *shape : own;
  Layout layout = member.parse_text([&](const SourceText& one) {
    if (says_shape && mesh) return parse_layout(one, mesh->mesh);
    return interchange::parse_ends(one, one, given, mesh).source;
  });
  if (layout.is_partial()) member.fail("files hold no parts of sums");
  if (shape != nullptr && layout.placement().global_shape() != *shape) {
    member.fail(fmt::format("'{}' has shape ({})", name, fmt::join(*shape, ", ")));
  }
  const std::vector<int> order = layout.listed() != nullptr ? layout.listed()->order : layout.cuts()->order;
  if (!std::is_sorted(order.begin(), order.end())) member.fail("files hold tiles in the order of their dimensions");
  return layout;
}

Shape tile_shape(const std::string& name, const std::vector<Part>& parts, std::size_t rank, std::int64_t size) {
  Shape shape(rank);
  std::int64_t elements = parts.empty() ? 0 : 1;
  for (std::size_t i = 0; i < rank; ++i) {
    std::set<std::pair<std::int64_t, std::int64_t>> intervals;
    for (const Part& part : parts) intervals.emplace(part.box.lo[i], part.box.hi[i]);
    for (const auto& [lo, hi] : intervals) shape[i] += hi - lo;
    elements *= shape[i];
  }
  if (elements != size) throw InputError(fmt::format("what a rank has of '{}' is no array", name), {});
  return shape;
}

}  // namespace retile::files
