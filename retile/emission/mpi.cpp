// The printer for MPI: C++ functions for any boxes, with derived datatypes and plain calls. One function plans, one
// executes, one frees.
//
// A stage of the plan is one copy (plan/memory.h): slices only narrow what the next step reads.
#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "retile/emission/device_form.h"
#include "retile/emission/mpi_code.h"
#include "retile/emission/targets.h"
#include "retile/schedule/stage.h"

namespace retile::emission {
namespace {

struct ElementNames {
  std::string cpp;
  std::string mpi;
};

// The element's type in C++ and in MPI. Booleans, of which std::vector stores no elements, and numbers that C++ lacks
// are moved as bits.
ElementNames names_of(ElementType element) {
  const std::int64_t bytes = bytes_of(element);
  const bool is_single = bytes == (is_complex(element) ? 8 : 4);
  const NumberKind kind = kind_of(element);
  if (kind == NumberKind::floating && bytes >= 4) {
    return is_single ? ElementNames{"float", "MPI_FLOAT"} : ElementNames{"double", "MPI_DOUBLE"};
  }
  if (kind == NumberKind::complex) {
    return is_single ? ElementNames{"std::complex<float>", "MPI_C_FLOAT_COMPLEX"}
                     : ElementNames{"std::complex<double>", "MPI_C_DOUBLE_COMPLEX"};
  }
  const bool has_sign = kind == NumberKind::signed_integer;
  return {fmt::format("std::{}int{}_t", has_sign ? "" : "u", 8 * bytes),
          fmt::format("MPI_{}INT{}_T", has_sign ? "" : "U", 8 * bytes)};
}

std::string braced(const Shape& numbers) { return listed("{", numbers, "}"); }
std::string braced(const std::vector<std::string>& texts) { return listed("{", texts, "}"); }
std::string text_of(const Box& box) { return fmt::format("{{{}, {}}}", braced(box.lo), braced(box.hi)); }

// The code with each '@' replaced by the next of the texts.
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

// The most changes of slope for which arithmetic reads better than a table.
constexpr std::size_t most_bends = 3;

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

// Pieces regardless of their order.
using PieceSet = std::set<std::tuple<Device, Device, Shape, Shape>>;

void add_piece(PieceSet& pieces, Device from, Device to, const Box& box) { pieces.emplace(from, to, box.lo, box.hi); }

PieceSet pieces_of(const Stage& stage) {
  PieceSet pieces;
  for (Device device = 0; device < stage.after().device_count(); ++device) {
    stage.visit_received(device, [&](const Piece& piece) {
      if (volume(piece.box) > 0) add_piece(pieces, piece.from, piece.to, piece.box);
    });
  }
  return pieces;
}

// The pieces that the emitted asked_in_turn() computes.
PieceSet pieces_asked_in_turn(const Placement& held, const Placement& after) {
  const std::int64_t devices = held.device_count();
  std::vector<std::pair<Box, Device>> wanted;
  std::map<std::pair<Shape, Shape>, std::vector<Device>> holders;
  for (Device device = 0; device < devices; ++device) {
    wanted.emplace_back(after.box(device), device);
    const Box tile = held.box(device);
    holders[{tile.lo, tile.hi}].push_back(device);
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.first.lo < b.first.lo; });
  PieceSet pieces;
  for (const auto& [corners, ranks] : holders) {
    const Box tile{corners.first, corners.second};
    std::size_t turn = 0;
    for (const auto& [box, receiver] : wanted) {
      const auto shared = intersect(tile, box);
      if (!shared) continue;
      const bool has_it = std::binary_search(ranks.begin(), ranks.end(), receiver);
      add_piece(pieces, has_it ? receiver : ranks[turn++ % ranks.size()], receiver, *shared);
    }
  }
  return pieces;
}

class MpiPrinter {
 public:
  // Dimensions that a reduction removes are kept with one element, so that all boxes have equally many.
  MpiPrinter(const Plan& plan, ElementType element)
      : plan_(plan), element_(element), shape_(plan.movement.source.global_shape()) {
    for (const Step& step : plan.steps()) {
      if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) reduce_ = reduce;
    }
    if (shape_.empty()) shape_ = {1};
    for (const std::int64_t size : shape_) {
      if (size > INT_MAX) refuse(Target::mpi, "dimensions of more than 2^31 - 1 elements", "MPI counts them as int");
    }
    if (reduce_ != nullptr && is_half(element)) {
      refuse(Target::mpi, "sums of 16-bit numbers", "C++ has no type for them; --as jax and --as stablehlo add them");
    }
    has_strides_ = plan.movement.source.has_single_boxes() && plan.movement.target().has_single_boxes();
  }

  std::string print() {
    add_stages();
    const ElementNames names = names_of(element_);
    std::string text = fmt::format("// {}\n//\n{}//\n", summary_of(plan_, element_), plan_text(plan_, "//   "));
    text += fmt::format("// mpicxx -std=c++17 -O2 redistribute.cpp -o redistribute && mpirun -np {} ./redistribute\n",
                        plan_.device_count());
    text += "#include <mpi.h>\n\n#include <algorithm>\n";
    if (names.cpp.starts_with("std::complex")) text += "#include <complex>\n";
    if (names.cpp.ends_with("_t")) text += "#include <cstdint>\n";
    text += fmt::format(
        "#include <cstdio>\n#include <vector>\n\nusing Element = {};\nconst MPI_Datatype element_type = "
        "{};\nconstexpr int rank_count = {};\nconstexpr int dimensions = {};\nconstexpr int shape[dimensions] = {};\n",
        names.cpp, names.mpi, plan_.device_count(), shape_.size(), braced(shape_));
    text += MpiCode::boxes;
    if (uses_packed_) text += MpiCode::packed_tile;
    if (uses_grid_) text += MpiCode::grid_tile;
    if (has_strides_) text += MpiCode::own_strides;
    text += "\n// --- Who holds what, before and after each step.\n" + placements_;
    text += "\n// --- How it is moved.\n" + movements() + functions();
    return text + check();
  }

 private:
  const Mesh& mesh() const { return plan_.mesh(); }
  Device devices() const { return plan_.device_count(); }

  std::string combined(const std::string& a, const std::string& b) const {
    if (reduce_->reduction == Reduction::sum) return fmt::format("{} + {}", a, b);
    return fmt::format("std::{}({}, {})", name_of(reduce_->reduction), a, b);
  }

  // --- Placements. Each is a function of the rank.

  // The shape or corner with an entry for the dimensions that a reduction removed.
  Shape padded(const Shape& given, std::int64_t fill, int rank) const {
    Shape result = given;
    if (reduce_ != nullptr && rank < static_cast<int>(shape_.size())) {
      for (const int dimension : reduce_->dimensions) result.insert(result.begin() + dimension, fill);
    }
    if (result.empty()) result = {fill};
    return result;
  }

  Box padded(const Box& box) const {
    const int rank = static_cast<int>(box.lo.size());
    return {padded(box.lo, 0, rank), padded(box.hi, volume(box) > 0 ? 1 : 0, rank)};
  }

  Part padded(const Part& part) const {
    return {padded(part.box), part.offset, padded(part.strides, 0, static_cast<int>(part.strides.size()))};
  }

  // The name of the function that returns a rank's tiles. Adds the function where it is new.
  std::string tiles_of(const Placement& placement, const std::string& words) {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (known_[i].rank() == placement.rank() && known_[i] == placement) return fmt::format("tiles_{}", i);
    }
    std::string name = fmt::format("tiles_{}", known_.size());
    known_.push_back(placement);
    placements_ += fmt::format("\n// {}\nstd::vector<Tile> {}(int rank) {{\n{}}}\n", words, name,
                               placement.has_single_boxes() ? body_of_tiles(placement) : body_of_parts(placement));
    return name;
  }

  std::string body_of_tiles(const Placement& placement) {
    uses_packed_ = true;
    if (auto grid = grid_text(placement)) return *std::move(grid);
    std::vector<Box> boxes;
    for (Device device = 0; device < devices(); ++device) boxes.push_back(padded(placement.box(device)));
    if (auto text = bounds_text(boxes)) return *std::move(text);
    std::vector<std::string> entries;
    for (const Box& box : boxes) entries.push_back(text_of(box));
    return fmt::format("  static const Box boxes[rank_count] = {{\n{}}};\n  return {{packed(boxes[rank])}};\n",
                       wrapped(entries, "      "));
  }

  // The corners as arithmetic; nothing where there is no rule.
  std::optional<std::string> grid_text(const Placement& placement) {
    if (placement.is_listed()) return std::nullopt;
    const int rank = placement.rank();
    std::vector<Shape> corners;
    for (Device device = 0; device < devices(); ++device) {
      const Shape corner = rank == 0 ? Shape{} : placement.offset(device);
      corners.push_back(padded(corner, 0, rank));
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
      const auto form = find_form(mesh(), along(corners, i));
      if (!form) return std::nullopt;
      texts.push_back(expression(*form));
    }
    uses_grid_ = true;
    return fmt::format("  return {{tile({}, {})}};\n", braced(texts), braced(padded(placement.tile_shape(), 1, rank)));
  }

  // For tiles that form a product of intervals, which may overlap: the number of a rank's tile as arithmetic, and its
  // bounds by that number. Nothing for other tiles.
  std::optional<std::string> bounds_text(const std::vector<Box>& boxes) const {
    std::string lines;
    std::vector<std::string> lo;
    std::vector<std::string> hi;
    for (std::size_t i = 0; i < shape_.size(); ++i) {
      std::set<std::pair<std::int64_t, std::int64_t>> tiles;
      for (const Box& box : boxes) tiles.emplace(box.lo[i], box.hi[i]);
      std::vector<std::int64_t> numbers;
      for (const Box& box : boxes) {
        numbers.push_back(std::distance(tiles.begin(), tiles.find({box.lo[i], box.hi[i]})));
      }
      const auto form = find_form(mesh(), numbers);
      if (!form) return std::nullopt;
      const std::string number = fmt::format("tile_{}", i);
      if (!form->is_constant()) lines += fmt::format("  const int {} = {};\n", number, expression(*form));
      std::vector<std::int64_t> first;
      std::vector<std::int64_t> end;
      for (const auto& [begin, past] : tiles) {
        first.push_back(begin);
        end.push_back(past);
      }
      lo.push_back(bound_text(first, number, fmt::format("first_{}", i), lines));
      hi.push_back(bound_text(end, number, fmt::format("end_{}", i), lines));
    }
    return fmt::format("{}  return {{packed({{{}, {}}})}};\n", lines, braced(lo), braced(hi));
  }

  // A bound by the number of the tile: arithmetic, or a table that is declared in `lines`.
  static std::string bound_text(const std::vector<std::int64_t>& bounds, const std::string& number,
                                const std::string& table, std::string& lines) {
    if (auto text = lines_text(bounds, number)) return *std::move(text);
    std::vector<std::string> entries;
    for (const std::int64_t bound : bounds) entries.push_back(fmt::format("{}", bound));
    lines += fmt::format("  static const int {}[] = {{\n{}}};\n", table, wrapped(entries, "      "));
    return fmt::format("{}[{}]", table, number);
  }

  std::string expression(const DeviceForm& form) const {
    return expression_of(form, [&](const DigitTerm& term) { return digit_text(term, devices(), "rank", "/"); });
  }

  std::string body_of_parts(const Placement& placement) const {
    std::string cases;
    for (Device device = 0; device < devices(); ++device) {
      std::vector<std::string> parts;
      for (const Part& given : placement.parts(device)) {
        const Part part = padded(given);
        parts.push_back(fmt::format("{{{}, {}, {}}}", text_of(part.box), part.offset, braced(part.strides)));
      }
      if (parts.empty()) continue;
      cases += fmt::format("    case {}:\n      return {{\n{}}};\n", device, wrapped(parts, "          "));
    }
    return fmt::format("  switch (rank) {{\n{}  }}\n  return {{}};\n", cases);
  }

  // --- Numbers by rank: an expression or a table.

  std::string number(const std::vector<std::int64_t>& numbers, const char* table, std::string& tables) const {
    if (const auto form = find_form(mesh(), numbers)) return expression(*form);
    std::vector<std::string> entries;
    for (const std::int64_t one : numbers) entries.push_back(fmt::format("{}", one));
    tables += fmt::format("  static const int {}[rank_count] = {{\n{}}};\n", table, wrapped(entries, "      "));
    return fmt::format("{}[rank]", table);
  }

  // --- Stages: what each adds to the functions that plan and execute.

  void add_stages() {
    const Movement& movement = plan_.movement;
    tiles_of(movement.source, fmt::format("{}, the source", to_string(plan_.source)));
    const std::vector<StageSteps> stages = stage_steps(movement.steps);
    const std::vector<Stage> schedule = make_schedule(movement);
    if (stages.empty()) {
      add_copy("nothing to move");
      return;
    }
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const bool is_last = i + 1 == stages.size();
      std::string words;
      for (std::size_t step = stages[i].first; step <= stages[i].last; ++step) {
        words += fmt::format("  // {}\n", step_text(plan_, step));
      }
      plan_body_ += words;
      execute_body_ += words;
      name_before(stages[i].last);
      const std::string after = name_after(stages[i].last);
      if (!is_last) buffers_[i % 2].push_back(fmt::format("reach({}(rank))", after));
      const std::string from = i == 0 ? "source" : fmt::format("r.buffers[{}].data()", (i - 1) % 2);
      const std::string to = is_last ? "target" : fmt::format("r.buffers[{}].data()", i % 2);
      add_stage(stages[i], schedule[i], {from, to, i == 0, is_last});
    }
  }

  struct StageEnds {
    std::string from;  // memory, as an expression
    std::string to;
    bool is_first = false;
    bool is_last = false;
  };

  void add_copy(const std::string& words) {
    uses_kept_ = true;
    plan_body_ += fmt::format("  // {}\n", words);
    add_messages("kept(tiles_0, tiles_0, rank)", {"source", "target", true, true}, "tiles_0", "tiles_0", "");
  }

  std::string name_before(std::size_t step) { return step == 0 ? "tiles_0" : name_after(step - 1); }

  std::string name_after(std::size_t step) {
    const Placement& after = plan_.steps()[step].after;
    const bool is_last = step + 1 == plan_.steps().size();
    return tiles_of(after, is_last ? fmt::format("{}, the target", to_string(plan_.target)) : to_string(mesh(), after));
  }

  // The tiles of this rank before and after a stage, as they lie in its memory, in the function that plans.
  static std::string memory_before(const StageEnds& ends, const std::string& tiles) {
    return ends.is_first ? "r.source" : fmt::format("{}(rank)", tiles);
  }
  static std::string memory_after(const StageEnds& ends, const std::string& tiles) {
    return ends.is_last ? "r.target" : fmt::format("{}(rank)", tiles);
  }

  void add_stage(const StageSteps& steps, const Stage& stage, const StageEnds& ends) {
    const StepOperation& operation = plan_.steps()[steps.last].operation;
    const std::string before = name_before(steps.first);
    const std::string held = name_before(steps.last);
    const std::string after = name_after(steps.last);
    const bool is_single = stage.held().has_single_boxes() && stage.after().has_single_boxes();
    std::string tables;
    if (const Groups* groups = groups_of(operation); groups != nullptr && is_single) {
      add_group(*groups, ends, before, held, after);
    } else if (std::holds_alternative<ReduceStep>(operation)) {
      execute_body_ += fmt::format("  combine({}, {}, {}, {});\n", ends.from, memory_in_execution(ends, before, true),
                                   ends.to, memory_in_execution(ends, after, false));
    } else if (std::holds_alternative<SliceStep>(operation)) {
      uses_kept_ = true;
      add_messages(fmt::format("kept({}, {}, rank)", before, after), ends, before, after, "");
    } else if (const auto* permute = std::get_if<PermuteStep>(&operation); permute != nullptr && is_single) {
      uses_permuted_ = true;
      std::vector<std::int64_t> senders(static_cast<std::size_t>(devices()));
      std::vector<std::int64_t> receivers(senders.size());
      for (const DevicePair& pair : *permute->pairs) {
        at(senders, pair.target) = pair.source;
        at(receivers, pair.source) = pair.target;
      }
      const std::string receiver = number(receivers, "receivers", tables);
      const std::string sender = number(senders, "senders", tables);
      add_messages(fmt::format("permuted({}, {}, {}, rank)", after, receiver, sender), ends, before, after, tables);
    } else if (is_single && pieces_asked_in_turn(stage.held(), stage.after()) == pieces_of(stage)) {
      uses_asked_ = true;
      add_messages(fmt::format("asked_in_turn({}, {}, rank)", held, after), ends, before, after, "");
    } else {
      add_messages("transfers", ends, before, after, transfers_table(stage));
    }
  }

  // The tiles before or after a stage in the function that executes.
  static std::string memory_in_execution(const StageEnds& ends, const std::string& tiles, bool is_before) {
    if (is_before ? ends.is_first : ends.is_last) return is_before ? "r.source" : "r.target";
    return fmt::format("{}(r.rank)", tiles);
  }

  void add_group(const Groups& groups, const StageEnds& ends, const std::string& before, const std::string& held,
                 const std::string& after) {
    std::vector<std::int64_t> group_numbers(static_cast<std::size_t>(devices()));
    std::vector<std::int64_t> positions = group_numbers;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      for (std::size_t position = 0; position < groups[group].size(); ++position) {
        const Device member = groups[group][position];
        at(group_numbers, member) = static_cast<std::int64_t>(group);
        at(positions, member) = static_cast<std::int64_t>(position);
      }
    }
    std::string tables;
    const std::string group = number(group_numbers, "groups", tables);
    const std::string position = number(positions, "positions", tables);
    add_planned(fmt::format("r.groups.push_back(plan_group({}, {}, {}, {}, {}, {}, comm));",
                            memory_before(ends, before), held, memory_after(ends, after), after, group, position),
                tables);
    execute_body_ += fmt::format("  exchange(r.groups[{}], {}, {});\n", group_count_++, ends.from, ends.to);
  }

  void add_messages(const std::string& transfers, const StageEnds& ends, const std::string& before,
                    const std::string& after, const std::string& tables) {
    add_planned(fmt::format("r.messages.push_back(plan_messages({}, {}, {}, rank));", memory_before(ends, before),
                            memory_after(ends, after), transfers),
                tables);
    execute_body_ += fmt::format("  exchange(r.messages[{}], {}, {}, r.comm);\n", message_count_++, ends.from, ends.to);
  }

  // Adds a statement to the function that plans. Its tables get a scope of their own, because steps use the same names.
  void add_planned(const std::string& statement, const std::string& tables) {
    if (tables.empty()) {
      plan_body_ += fmt::format("  {}\n", statement);
      return;
    }
    std::string block;
    for (std::size_t at = 0; at < tables.size();) {
      const std::size_t end = tables.find('\n', at);
      block += fmt::format("  {}\n", tables.substr(at, end - at));
      at = end + 1;
    }
    plan_body_ += fmt::format("  {{\n{}    {}\n  }}\n", block, statement);
  }

  std::string transfers_table(const Stage& stage) const {
    std::vector<std::string> entries;
    for (Device device = 0; device < devices(); ++device) {
      stage.visit_received(device, [&](const Piece& piece) {
        if (volume(piece.box) == 0) return;
        entries.push_back(fmt::format("{{{}, {}, {}}}", piece.from, piece.to, text_of(padded(piece.box))));
      });
    }
    return fmt::format("  static const std::vector<Transfer> transfers = {{\n{}}};\n", wrapped(entries, "      "));
  }

  // --- Functions.

  std::string movements() const {
    std::string text;
    if (group_count_ > 0 || message_count_ > 0) text += MpiCode::datatypes;
    if (group_count_ > 0) text += MpiCode::groups;
    if (message_count_ > 0) text += MpiCode::messages;
    if (uses_kept_) text += MpiCode::kept;
    if (uses_permuted_) text += MpiCode::permuted;
    if (uses_asked_) text += MpiCode::asked_in_turn;
    if (reduce_ != nullptr) {
      text += filled(MpiCode::combine, {combined("new_row[i * to_step]", "next[i * from_step]")});
    }
    return text;
  }

  std::string target_name() { return plan_.steps().empty() ? "tiles_0" : name_after(plan_.steps().size() - 1); }

  // The struct of a prepared redistribution, and the functions that plan, execute and free it.
  std::string functions() {
    return fmt::format(
               "\n// Everything that a rank needs to move its tile, prepared once.\nstruct Redistribution {{\n{}}};\n",
               members()) +
           plan_function() + execute_function() + free_function() + redistribute_function();
  }

  std::string members() const {
    std::string text = "  int rank;\n  std::vector<Tile> source, target;  // as they lie in the caller's memory\n";
    if (group_count_ > 0) text += "  std::vector<Group> groups;\n";
    if (message_count_ > 0) text += "  MPI_Comm comm;\n  std::vector<Messages> messages;\n";
    if (!buffers_[0].empty()) {
      text += fmt::format("  std::vector<Element> buffers[{}];  // tiles on the way\n", buffers_[1].empty() ? 1 : 2);
    }
    return text;
  }

  std::string plan_function() {
    const std::string target = target_name();
    std::string text = fmt::format("\n// Collective. Tiles have {} elements at most on the way.", plan_.memory.peak);
    if (has_strides_) {
      text +=
          " Strides are distances in elements, for\n// each dimension of `shape`; null: the tile is packed, "
          "row-major.\nRedistribution plan_redistribution(MPI_Comm comm, const MPI_Aint* source_strides = nullptr,\n"
          "                                   const MPI_Aint* target_strides = nullptr) {\n";
    } else {
      text += "\nRedistribution plan_redistribution(MPI_Comm comm) {\n";
    }
    text += "  Redistribution r;\n  MPI_Comm_rank(comm, &r.rank);\n  const int rank = r.rank;\n";
    const char* form = has_strides_ ? "  r.{0} = laid_out({1}(rank), {0}_strides);\n" : "  r.{0} = {1}(rank);\n";
    text += fmt::format(fmt::runtime(form), "source", "tiles_0") + fmt::format(fmt::runtime(form), "target", target);
    if (message_count_ > 0) text += "  MPI_Comm_dup(comm, &r.comm);\n";
    text += plan_body_;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::vector<std::string>& sizes = buffers_[i];
      if (sizes.size() == 1) text += fmt::format("  r.buffers[{}].resize({});\n", i, sizes.front());
      if (sizes.size() > 1) text += fmt::format("  r.buffers[{}].resize(std::max({}));\n", i, braced(sizes));
    }
    return text + "  return r;\n}\n";
  }

  std::string execute_function() const {
    return fmt::format(
        "\n// Moves the tile of the calling rank. Every rank of the communicator executes equally often.\n"
        "void execute_redistribution(Redistribution& r, const Element* source, Element* target) {{\n{}}}\n",
        execute_body_);
  }

  std::string free_function() const {
    std::string text = "\n// Collective.\nvoid free_redistribution(Redistribution& r) {\n";
    if (group_count_ > 0) text += "  for (Group& step : r.groups) free_step(step);\n";
    if (message_count_ > 0) {
      text += "  for (Messages& step : r.messages) free_step(step);\n  MPI_Comm_free(&r.comm);\n";
    }
    return text + "  r = {};\n}\n";
  }

  static std::string redistribute_function() {
    return R"(
// Plans, moves the calling rank's packed tile, and frees the plan. Collective.
void redistribute(const Element* source, Element* target, MPI_Comm comm) {
  Redistribution r = plan_redistribution(comm);
  execute_redistribution(r, source, target);
  free_redistribution(r);
}
)";
  }

  // --- The check.

  std::string check() {
    const Shape period = periods();
    const bool has_periods = period != shape_;
    const std::string declared = fmt::format(
        "\n  static const int period[dimensions] = {};  // elements at this distance are equal", braced(period));
    std::string text = filled(MpiCode::places, {reduce_ != nullptr ? "place % 7" : "place", has_periods ? declared : "",
                                                has_periods ? " % period[i]" : ""});
    if (has_strides_) text += MpiCode::padded_strides;
    return text + filled(MpiCode::main, {has_strides_ ? strided_check() : one_check("  ", "")});
  }

  // The check, once with packed tiles and once with strides.
  std::string strided_check() {
    return fmt::format(
        "  for (const int padding : {{0, 1}}) {{\n"
        "    const std::vector<MPI_Aint> source_strides = padded(tiles_0(rank).front(), padding);\n"
        "    const std::vector<MPI_Aint> target_strides = padded({}(rank).front(), padding);\n{}  }}\n",
        target_name(), one_check("    ", ", source_strides.data(), target_strides.data()"));
  }

  // A check that plans once and executes twice.
  std::string one_check(const std::string& margin, const char* strides) const {
    std::string expected = "const Element expected = number(place);";
    if (reduce_ != nullptr) {
      const std::vector<std::int64_t> places = part_places();
      expected = fmt::format(
          "static const long long parts[] = {};\n{}    Element expected = number(place);\n"
          "{}    for (std::size_t i = 1; i < {}; ++i) expected = {};",
          braced(places), margin + "  ", margin + "  ", places.size(),
          combined("expected", "number(place + parts[i])"));
    }
    std::string text = fmt::format(
        "@Redistribution r = plan_redistribution(MPI_COMM_WORLD{});\n"
        "@std::vector<Element> source(reach(r.source)), target(reach(r.target));\n"
        "@for_each_element(r.source, source.data(), [](Element& element, long long place) {{ element = number(place); "
        "}});\n"
        "@for (int run = 0; run < 2; ++run) {{\n"
        "@  std::fill(target.begin(), target.end(), Element());\n"
        "@  execute_redistribution(r, source.data(), target.data());\n"
        "@  for_each_element(r.target, target.data(), [&](const Element& element, long long place) {{\n"
        "@    {}\n@    if (element != expected) ++wrong;\n@  }});\n@}}\n@free_redistribution(r);\n",
        strides, expected);
    return filled(
        text, std::vector<std::string>(static_cast<std::size_t>(std::count(text.begin(), text.end(), '@')), margin));
  }

  // By dimension of the array before any step, the distance at which elements repeat: where a halo wraps, the moved
  // array is longer than the problem's.
  Shape periods() const {
    Shape period = shape_;
    const std::vector<Halo> margins = moved_array(plan_.target).margins;
    std::size_t first = 0;  // the first factor of the dimension
    for (std::size_t i = 0; i < margins.size(); ++i) {
      if (margins[i].wraps) period[first] = plan_.source.global_shape()[i];
      first += plan_.view.empty() ? 1 : plan_.view[i].size();
    }
    return period;
  }

  // The distances of the parts of an element from the first one, in the array before any step.
  Shape part_places() const {
    Shape places{0};
    std::int64_t step = 1;
    for (std::size_t i = shape_.size(); i-- > 0; step *= shape_[i]) {
      const std::vector<int>& gone = reduce_->dimensions;
      if (std::find(gone.begin(), gone.end(), static_cast<int>(i)) == gone.end()) continue;
      Shape more;
      for (std::int64_t part = 0; part < shape_[i]; ++part) {
        for (const std::int64_t place : places) more.push_back(place + part * step);
      }
      places = std::move(more);
    }
    std::sort(places.begin(), places.end());
    return places;
  }

  const Plan& plan_;
  const ElementType element_;
  Shape shape_;  // of the array before any step
  const ReduceStep* reduce_ = nullptr;
  bool has_strides_ = false;  // every rank has one tile at each end, whose strides the caller may give
  std::vector<Placement> known_;
  std::string placements_;
  std::string plan_body_;
  std::string execute_body_;
  std::array<std::vector<std::string>, 2> buffers_;  // sizes of the tiles that each buffer holds
  int group_count_ = 0;
  int message_count_ = 0;
  bool uses_packed_ = false;
  bool uses_grid_ = false;
  bool uses_kept_ = false;
  bool uses_permuted_ = false;
  bool uses_asked_ = false;
};

}  // namespace

std::string emit_mpi(const Plan& plan, ElementType element) { return MpiPrinter(plan, element).print(); }

}  // namespace retile::emission
