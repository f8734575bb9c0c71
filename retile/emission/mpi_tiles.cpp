#include "retile/emission/mpi_tiles.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <utility>

#include "retile/base/list.h"
#include "retile/emission/mpi_code.h"
#include "retile/emission/targets.h"

namespace retile::emission {

std::string braced(const Shape& numbers) { return listed("{", numbers, "}"); }
std::string braced(const std::vector<std::string>& texts) { return listed("{", texts, "}"); }
std::string text_of(const Box& box) { return fmt::format("{{{}, {}}}", braced(box.lo), braced(box.hi)); }

std::string filled(std::string_view code, const std::vector<std::string>& texts) {
  std::string result;
  std::size_t next = 0;
  for (const char c : code) {
    if (c == '@') {
      result += texts[next++];
    } else {
      result += c;
    }
  }
  return result;
}

namespace {

// The most changes of slope for which arithmetic reads better than a table.
constexpr std::size_t most_bends = 3;

// The longest line that is not broken.
constexpr std::size_t longest_line = 120;

// The numbers as an expression of their index, "i * 2 + std::min(i, 3)": straight lines that meet; nothing where there
// are too many.
std::optional<std::string> lines_text(const std::vector<std::int64_t>& numbers, const std::string& place) {
  std::vector<std::pair<std::size_t, std::int64_t>> bends;  // index, and by how much the slope falls there
  for (std::size_t i = 2; i < numbers.size(); ++i) {
    const std::int64_t change = 2 * numbers[i - 1] - numbers[i - 2] - numbers[i];
    if (change != 0) bends.emplace_back(i - 1, change);
  }
  if (bends.size() > most_bends) return std::nullopt;
  std::string text;
  const auto add = [&](std::int64_t factor, const std::string& what) {
    if (factor == 0) return;
    text += text.empty() ? factor < 0 ? "-" : "" : factor < 0 ? " - " : " + ";
    const std::int64_t times = std::abs(factor);
    text += what.empty() ? fmt::format("{}", times) : times == 1 ? what : fmt::format("{} * {}", what, times);
  };
  const bool has_slope = numbers.size() > 1;
  add(has_slope ? numbers.back() - numbers[numbers.size() - 2] : 0, place);
  for (const auto& [bend, change] : bends) add(change, fmt::format("std::min({}, {})", place, bend));
  add(numbers.front(), "");
  return text.empty() ? "0" : text;
}

// A bound by the number of the tile: arithmetic, or a table that is declared in `lines`.
std::string bound_text(const std::vector<std::int64_t>& bounds, const std::string& number, const std::string& table,
                       std::string& lines) {
  if (auto text = lines_text(bounds, number)) return *std::move(text);
  std::vector<std::string> entries;
  for (const std::int64_t bound : bounds) entries.push_back(fmt::format("{}", bound));
  lines += fmt::format("  static const int {}[] = {{\n{}}};\n", table, wrapped(entries, "      "));
  return fmt::format("{}[{}]", table, number);
}

std::vector<HeldRun> ascending(std::vector<HeldRun> runs) {
  std::sort(runs.begin(), runs.end(), [](const HeldRun& a, const HeldRun& b) { return a.interval.lo < b.interval.lo; });
  return runs;
}

bool are_disjoint(const std::vector<HeldRun>& runs) {
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].interval.lo < runs[i - 1].interval.hi) return false;
  }
  return true;
}

bool is_same(const std::vector<HeldRun>& a, const std::vector<HeldRun>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const HeldRun& one, const HeldRun& other) {
    return one.interval == other.interval && one.start == other.start;
  });
}

// A dimension as blocks that are dealt out, if it is, from its factors: its size, and the axes that cut any of them.
Factor dealt_out(const std::vector<Factor>& factors) {
  if (factors.size() == 1) return factors.front();
  Factor dealt;
  for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
    if (!factor->axes.empty()) dealt.block = dealt.size * factor->size / tile_count(factor->axes);
    dealt.axes.insert(dealt.axes.end(), factor->axes.begin(), factor->axes.end());
    dealt.size *= factor->size;
  }
  return dealt;
}

// Whether the emitted in_turn() computes these runs, which are by the number of a tile.
bool is_in_turn(const std::vector<std::vector<HeldRun>>& tiles, const Factor& dealt) {
  const std::int64_t count = std::ssize(tiles);
  for (std::int64_t tile = 0; tile < count && dealt.block > 0; ++tile) {
    std::vector<Interval> blocks;
    const std::int64_t first = (tile - dealt.first + count) % count;
    for (std::int64_t lo = first * dealt.block; lo < dealt.size; lo += count * dealt.block) {
      blocks.push_back({lo, std::min(lo + dealt.block, dealt.size)});
    }
    if (!is_same(at(tiles, tile), joined_runs(blocks))) return false;
  }
  return dealt.block > 0;
}

// One interval for each tile. An empty one lies where the tile before it ends.
struct Bounds {
  std::vector<std::int64_t> lo, hi, start;
};

std::optional<Bounds> bounds_of(const std::vector<std::vector<HeldRun>>& tiles) {
  Bounds bounds;
  std::int64_t end = 0;
  for (const std::vector<HeldRun>& runs : tiles) {
    if (runs.size() > 1) return std::nullopt;
    bounds.lo.push_back(runs.empty() ? end : runs[0].interval.lo);
    bounds.hi.push_back(end = runs.empty() ? end : runs[0].interval.hi);
    bounds.start.push_back(runs.empty() ? 0 : runs[0].start);
  }
  return bounds;
}

bool is_zero(const std::vector<std::int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](std::int64_t number) { return number == 0; });
}

std::vector<std::int64_t> extents_of(const Bounds& bounds) {
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < bounds.lo.size(); ++i) extents.push_back(bounds.hi[i] - bounds.lo[i]);
  return extents;
}

LocalArray array_of(const Box& box) {
  LocalArray array;
  for (std::size_t i = 0; i < box.lo.size(); ++i) {
    array.runs.push_back(joined_runs({{box.lo[i], box.hi[i]}}));
    array.shape.push_back(box.hi[i] - box.lo[i]);
  }
  return array;
}

// The layout's own arrays, if they are what the placement's devices hold.
std::optional<std::vector<LocalArray>> arrays_of_layout(const MeshLayout& layout, const std::vector<Halo>& margins,
                                                        const std::vector<Shape>& view, const Placement& placement,
                                                        bool has_ghosts) {
  std::vector<LocalArray> arrays;
  for (Device device = 0; device < placement.device_count(); ++device) {
    arrays.push_back(local_array(layout, device, margins, has_ghosts));
    if (parts_of(arrays.back(), layout.order, view) != placement.parts(device)) return std::nullopt;
    for (std::vector<HeldRun>& runs : arrays.back().runs) {
      runs = ascending(std::move(runs));
      if (!are_disjoint(runs)) return std::nullopt;
    }
  }
  return arrays;
}

}  // namespace

TilePrinter::TilePrinter(const Plan& plan, Shape shape, TileForm form)
    : plan_(plan), shape_(std::move(shape)), form_(form) {
  for (const Step& step : plan.steps()) {
    if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) removed_ = reduce->dimensions;
  }
}

std::string TilePrinter::name_of(const Placement& placement, const std::string& words) {
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].rank() == placement.rank() && known_[i] == placement) return fmt::format("tiles_{}", i);
  }
  std::string name = fmt::format("tiles_{}", known_.size());
  known_.push_back(placement);
  const std::string body = body_of(placement);
  const char* parameter = body.find("rank") == std::string::npos ? "int" : "int rank";
  functions_ += fmt::format("\n// {}\nstd::vector<Tile> {}({}) {{\n{}}}\n", words, name, parameter, body);
  return name;
}

std::string TilePrinter::helpers() const {
  std::string text;
  if (uses_packed_) text += form_ == TileForm::boxes ? MpiCode::packed_tile : MpiCode::packed_runs;
  if (uses_grid_) text += filled(MpiCode::grid_tile, {box_name()});
  if (uses_between_) text += MpiCode::between;
  if (uses_in_turn_) text += MpiCode::in_turn;
  return text;
}

Shape TilePrinter::padded(const Shape& given, std::int64_t fill) const {
  Shape result = given;
  if (result.size() < shape_.size()) {
    for (const int dimension : removed_) result.insert(result.begin() + dimension, fill);
  }
  if (result.empty()) result = {fill};
  return result;
}

Box TilePrinter::padded(const Box& box) const { return {padded(box.lo, 0), padded(box.hi, volume(box) > 0 ? 1 : 0)}; }

std::string TilePrinter::expression(const DeviceForm& form) const {
  return expression_of(form,
                       [&](const DigitTerm& term) { return digit_text(term, plan_.device_count(), "rank", "/"); });
}

std::string TilePrinter::number(const std::vector<std::int64_t>& numbers, const char* table,
                                std::string& tables) const {
  if (const auto form = find_form(plan_.mesh(), numbers)) return expression(*form);
  std::vector<std::string> entries;
  for (const std::int64_t one : numbers) entries.push_back(fmt::format("{}", one));
  tables += fmt::format("  static const int {}[rank_count] = {{\n{}}};\n", table, wrapped(entries, "      "));
  return fmt::format("{}[rank]", table);
}

std::optional<std::vector<LocalArray>> TilePrinter::arrays_of(const Placement& placement) const {
  std::vector<LocalArray> arrays;
  if (!placement.has_single_boxes() || is_viewed()) {
    return cuts_of_layout(placement, &arrays) ? std::optional(std::move(arrays)) : std::nullopt;
  }
  for (Device device = 0; device < placement.device_count(); ++device) {
    arrays.push_back(array_of(padded(placement.box(device))));
  }
  return arrays;
}

// --- How dimensions are cut.

// The arrays are those of all devices.
TilePrinter::DimensionCut TilePrinter::cut_of_dimension(const MeshLayout& layout, std::size_t dimension,
                                                        const std::vector<LocalArray>& arrays) {
  const Factor dealt = dealt_out(layout.view[dimension]);
  const auto count = static_cast<std::size_t>(tile_count(dealt.axes));
  DimensionCut cut{{}, std::vector<std::vector<HeldRun>>(count), std::vector<std::int64_t>(count)};
  std::vector<std::int64_t> numbers;
  for (std::size_t device = 0; device < arrays.size(); ++device) {
    numbers.push_back(coordinate_along(layout.mesh, dealt.axes, static_cast<Device>(device)));
    at(cut.runs, numbers.back()) = arrays[device].runs[dimension];
    at(cut.lengths, numbers.back()) = arrays[device].shape[dimension];
  }
  cut.number = find_form(layout.mesh, numbers).value();
  if (is_in_turn(cut.runs, dealt)) {
    cut.in_turn = fmt::format("{}, {}, {}, {}", dealt.size, dealt.block, count, dealt.first);
  }
  return cut;
}

// By the layout that the placement is of. Sets the arrays of all devices, unless they are null.
std::optional<TilePrinter::Cuts> TilePrinter::cuts_of_layout(const Placement& placement,
                                                             std::vector<LocalArray>* arrays) const {
  const std::vector<Halo> margins = moved_array(plan_.target).margins;
  for (const auto& [layout, has_ghosts] : {std::pair(&plan_.source, false), {&plan_.target, true}}) {
    const std::optional<MeshLayout> given = layout->stacked().cuts();
    if (!given || !given->devices.empty() || given->mesh.device_count() != placement.device_count()) continue;
    if (given->view.empty() || given->view.size() != own_rank(placement)) continue;
    if (!margins.empty() && margins.size() != given->view.size()) continue;
    auto found = arrays_of_layout(*given, margins, plan_.view, placement, has_ghosts);
    if (!found) continue;
    Cuts cuts{{}, given->order};
    for (std::size_t i = 0; i < given->view.size(); ++i) {
      cuts.dimensions.push_back(cut_of_dimension(*given, i, *found));
    }
    if (arrays != nullptr) *arrays = *std::move(found);
    return cuts;
  }
  return std::nullopt;
}

// For tiles that form a product of intervals, which may overlap, whatever they come from.
std::optional<TilePrinter::Cuts> TilePrinter::cuts_of_boxes(const std::vector<Box>& boxes) const {
  Cuts cuts;
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    std::set<std::pair<std::int64_t, std::int64_t>> tiles;
    for (const Box& box : boxes) tiles.emplace(box.lo[i], box.hi[i]);
    std::vector<std::int64_t> numbers;
    for (const Box& box : boxes) {
      numbers.push_back(std::distance(tiles.begin(), tiles.find({box.lo[i], box.hi[i]})));
    }
    const auto form = find_form(plan_.mesh(), numbers);
    if (!form) return std::nullopt;
    DimensionCut cut{*form, {}, {}};
    for (const auto& [lo, hi] : tiles) {
      cut.runs.push_back({{{lo, hi}, 0, 1}});
      cut.lengths.push_back(hi - lo);
    }
    cuts.dimensions.push_back(std::move(cut));
  }
  return cuts;
}

// --- Functions.

std::string TilePrinter::body_of(const Placement& placement) {
  if (placement.has_single_boxes() && !is_viewed()) return body_of_boxes(placement);
  if (form_ == TileForm::boxes) return body_of_parts(placement);
  const std::optional<Cuts> cuts = cuts_of_layout(placement, nullptr);
  fits_ = fits_ && cuts.has_value();
  return cuts ? runs_text(*cuts) : "";
}

std::string TilePrinter::body_of_boxes(const Placement& placement) {
  uses_packed_ = true;
  if (auto grid = grid_text(placement)) return *std::move(grid);
  std::vector<Box> boxes;
  for (Device device = 0; device < placement.device_count(); ++device) boxes.push_back(padded(placement.box(device)));
  for (const auto& cuts : {cuts_of_layout(placement, nullptr), cuts_of_boxes(boxes)}) {
    if (!cuts || cuts->dimensions.size() != shape_.size()) continue;
    if (auto text = packed_text(*cuts)) return *std::move(text);
  }
  has_lists_ = true;
  std::vector<std::string> entries;
  for (const Box& box : boxes) entries.push_back(text_of(box));
  return fmt::format("  static const {} boxes[rank_count] = {{\n{}}};\n  return {{packed(boxes[rank])}};\n", box_name(),
                     wrapped(entries, "      "));
}

// The corners as arithmetic; nothing where there is no rule.
std::optional<std::string> TilePrinter::grid_text(const Placement& placement) {
  if (placement.is_listed()) return std::nullopt;
  std::vector<Shape> corners;
  for (Device device = 0; device < placement.device_count(); ++device) {
    const Shape corner = placement.rank() == 0 ? Shape{} : placement.offset(device);
    corners.push_back(padded(corner, 0));
    // The emitted code clips tiles where the array ends, so clipping must give the placement's box.
    const Box box = placement.box(device);
    for (std::size_t i = 0; i < corner.size(); ++i) {
      const std::int64_t end = placement.global_shape()[i];
      if (box.lo[i] != std::min(corner[i], end) && volume(box) > 0) return std::nullopt;
      if (box.hi[i] != std::min(corner[i] + placement.tile_shape()[i], end) && volume(box) > 0) return std::nullopt;
    }
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    const auto form = find_form(plan_.mesh(), along(corners, i));
    if (!form) return std::nullopt;
    texts.push_back(expression(*form));
  }
  uses_grid_ = true;
  return fmt::format("  return {{tile({}, {})}};\n", braced(texts), braced(padded(placement.tile_shape(), 1)));
}

// The number of a rank's tile as arithmetic, and its bounds by that number. Nothing where a tile has gaps.
std::optional<std::string> TilePrinter::packed_text(const Cuts& cuts) {
  std::string lines;
  std::vector<std::string> lo;
  std::vector<std::string> hi;
  for (std::size_t i = 0; i < cuts.dimensions.size(); ++i) {
    const DimensionCut& cut = cuts.dimensions[i];
    const std::optional<Bounds> bounds = bounds_of(cut.runs);
    if (!bounds) return std::nullopt;
    const std::string number = fmt::format("tile_{}", i);
    if (!cut.number.is_constant()) lines += fmt::format("  const int {} = {};\n", number, expression(cut.number));
    lo.push_back(bound_text(bounds->lo, number, fmt::format("first_{}", i), lines));
    hi.push_back(bound_text(bounds->hi, number, fmt::format("end_{}", i), lines));
  }
  const std::string first = fmt::format("  return {{packed({{{},", braced(lo));
  const std::string last = fmt::format("{}}})}};\n", braced(hi));
  const bool is_long = first.size() + last.size() > longest_line;
  return lines + first + (is_long ? "\n                  " : " ") + last;
}

std::string TilePrinter::runs_text(const Cuts& cuts) {
  std::string lines;
  std::vector<std::string> held;
  for (std::size_t i = 0; i < cuts.dimensions.size(); ++i) {
    held.push_back(dimension_text(cuts.dimensions[i], i, lines));
  }
  const std::string order = cuts.order.empty() ? "" : fmt::format(", {}", listed("{", cuts.order, "}"));
  std::size_t columns = order.size();
  for (const std::string& text : held) columns += text.size() + 2;
  const char* separator = columns + 26 > longest_line ? ",\n                     " : ", ";
  return fmt::format("{}  return {{own_array({{{}}}{})}};\n", lines, fmt::join(held, separator), order);
}

// What a rank has of a dimension: by arithmetic, or in a table with an entry for each tile of the dimension.
std::string TilePrinter::dimension_text(const DimensionCut& cut, std::size_t dimension, std::string& lines) {
  const std::string number = fmt::format("tile_{}", dimension);
  if (!cut.number.is_constant()) lines += fmt::format("  const int {} = {};\n", number, expression(cut.number));
  if (!cut.in_turn.empty()) {
    uses_in_turn_ = true;
    return fmt::format("in_turn({}, {})", cut.in_turn, cut.number.is_constant() ? "0" : number);
  }
  if (const std::optional<Bounds> bounds = bounds_of(cut.runs)) {
    const std::string lo = bound_text(bounds->lo, number, fmt::format("first_{}", dimension), lines);
    const std::string hi = bound_text(bounds->hi, number, fmt::format("end_{}", dimension), lines);
    if (is_zero(bounds->start) && cut.lengths == extents_of(*bounds)) {
      uses_between_ = true;
      return fmt::format("between({}, {})", lo, hi);
    }
    return fmt::format("{{{{{{{}, {}, {}}}}}, {}}}", lo, hi,
                       bound_text(bounds->start, number, fmt::format("start_{}", dimension), lines),
                       bound_text(cut.lengths, number, fmt::format("length_{}", dimension), lines));
  }
  std::vector<std::string> entries;
  for (std::size_t tile = 0; tile < cut.runs.size(); ++tile) {
    std::vector<std::string> runs;
    for (const HeldRun& run : cut.runs[tile]) {
      runs.push_back(fmt::format("{{{}, {}, {}}}", run.interval.lo, run.interval.hi, run.start));
    }
    entries.push_back(fmt::format("{{{}, {}}}", braced(runs), cut.lengths[tile]));
  }
  lines += fmt::format("  static const Held held_{}[] = {{\n{}}};\n", dimension, wrapped(entries, "      "));
  return fmt::format("held_{}[{}]", dimension, cut.number.is_constant() ? "0" : number);
}

std::string TilePrinter::body_of_parts(const Placement& placement) {
  has_lists_ = true;
  std::string cases;
  for (Device device = 0; device < placement.device_count(); ++device) {
    std::vector<std::string> parts;
    for (const Part& part : placement.parts(device)) {
      parts.push_back(
          fmt::format("{{{}, {}, {}}}", text_of(padded(part.box)), part.offset, braced(padded(part.strides, 0))));
    }
    if (parts.empty()) continue;
    cases += fmt::format("    case {}:\n      return {{\n{}}};\n", device, wrapped(parts, "          "));
  }
  return fmt::format("  switch (rank) {{\n{}  }}\n  return {{}};\n", cases);
}

}  // namespace retile::emission
