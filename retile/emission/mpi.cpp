// The printer for MPI: C++ functions for any boxes, with derived datatypes and plain calls. One function plans, one
// executes, one frees.
//
// A stage of the plan is one copy (plan/memory.h): slices only narrow what the next step reads.
#include <algorithm>
#include <array>
#include <climits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "retile/emission/device_form.h"
#include "retile/emission/mpi_check_code.h"
#include "retile/emission/mpi_code.h"
#include "retile/emission/mpi_sends.h"
#include "retile/emission/mpi_tiles.h"
#include "retile/emission/targets.h"
#include "retile/plan/lists.h"
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

bool has_single_ends(const Plan& plan) {
  return plan.movement.source.has_single_boxes() && plan.movement.target().has_single_boxes();
}

class MpiPrinter {
 public:
  // Dimensions that a reduction removes are kept with one element, so that all boxes have equally many.
  MpiPrinter(const Plan& plan, ElementType element, TileForm form)
      : plan_(plan), element_(element), form_(form), shape_(shape_of(plan, form)), tiles_(plan, shape_, form) {
    for (const Step& step : plan.steps()) {
      if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) reduce_ = reduce;
    }
    for (const std::int64_t size : shape_) {
      if (size > INT_MAX) refuse(Target::mpi, "dimensions of more than 2^31 - 1 elements", "MPI counts them as int");
    }
    if (reduce_ != nullptr && is_half(element)) {
      refuse(Target::mpi, "sums of 16-bit numbers", "C++ has no type for them; --as jax and --as stablehlo add them");
    }
    has_strides_ = form == TileForm::runs || has_single_ends(plan);
  }

  // The program; nothing where the form cannot say the plan.
  std::optional<std::string> print() {
    add_stages();
    if (has_runs() && (has_listed_transfers_ || !tiles_.fits())) return std::nullopt;
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
    text += has_runs() ? MpiCode::boxes_with_gaps : MpiCode::boxes;
    text += tiles_.helpers();
    if (has_strides_) text += strides_function();
    text += "\n// --- Who holds what, before and after each step.\n" + tiles_.functions();
    text += "\n// --- How it is moved.\n" + movements() + functions();
    return text + check();
  }

  // Whether ranks' tiles or messages are listed, rank by rank.
  bool has_lists() const { return has_listed_transfers_ || tiles_.has_lists(); }

 private:
  static Shape shape_of(const Plan& plan, TileForm form) {
    Shape shape = plan.movement.source.global_shape();
    if (shape.empty()) return {1};
    if (form == TileForm::boxes || plan.view.empty()) return shape;
    shape = plan.source.global_shape();
    const std::vector<Halo> margins = moved_array(plan.target).margins;
    for (std::size_t i = 0; i < margins.size(); ++i) {
      if (margins[i].wraps) shape[i] += margins[i].before + margins[i].after;
    }
    return shape;
  }

  const Mesh& mesh() const { return plan_.mesh(); }
  bool has_runs() const { return form_ == TileForm::runs; }
  Device devices() const { return plan_.device_count(); }

  std::string combined(const std::string& a, const std::string& b) const {
    if (reduce_->reduction == Reduction::sum) return fmt::format("{} + {}", a, b);
    return fmt::format("std::{}({}, {})", name_of(reduce_->reduction), a, b);
  }

  // The array's dimension that each dimension of `shape` is a factor of; empty where they are the same.
  Shape dimensions_of_factors() const {
    Shape dimensions;
    for (std::size_t i = 0; i < plan_.view.size(); ++i) {
      dimensions.insert(dimensions.end(), plan_.view[i].size(), static_cast<std::int64_t>(i));
    }
    const bool is_seen_in_factors =
        !has_runs() && dimensions.size() == shape_.size() && plan_.view.size() < shape_.size();
    return is_seen_in_factors ? dimensions : Shape{};
  }

  std::string strides_function() const {
    const Shape dimensions = dimensions_of_factors();
    if (dimensions.empty()) return MpiCode::own_strides;
    return filled(MpiCode::own_strides_of_factors, {fmt::format("{}", plan_.view.size()), braced(dimensions)});
  }

  // --- Stages: what each adds to the functions that plan and execute.

  void add_stages() {
    const Movement& movement = plan_.movement;
    tiles_.name_of(movement.source, fmt::format("{}, the source", to_string(plan_.source)));
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
    return tiles_.name_of(after,
                          is_last ? fmt::format("{}, the target", to_string(plan_.target)) : to_string(mesh(), after));
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
      const std::string receiver = tiles_.number(receivers, "receivers", tables);
      const std::string sender = tiles_.number(senders, "senders", tables);
      add_messages(fmt::format("permuted({}, {}, {}, rank)", after, receiver, sender), ends, before, after, tables);
    } else if (const auto rule = rule_of(stage)) {
      add_messages(fmt::format("{}({}, {}, rank)", *rule, held, after), ends, before, after, "");
    } else {
      has_listed_transfers_ = true;
      add_messages("transfers", ends, before, after, transfers_table(stage));
    }
  }

  // The emitted function that gives messages as good as the stage's; nothing where none does.
  std::optional<std::string> rule_of(const Stage& stage) {
    const auto held = tiles_.arrays_of(stage.held());
    const auto after = tiles_.arrays_of(stage.after());
    if (!held || !after) return std::nullopt;
    const Sends planned = sends_of(stage);
    const bool is_in_turn = is_as_good(sends_in_turn(*held, *after), planned);
    if (is_in_turn && most_holders(*held) == 1) {
      uses_asked_ = true;
      return "asked";
    }
    // The rule by which the plan chose its senders comes first: it may keep more inside hosts.
    const bool is_shared =
        (goes_by_boxes(stage.held(), stage.after()) || !is_in_turn) && is_as_good(shared_sends(*held, *after), planned);
    if (!is_shared && !is_in_turn) return std::nullopt;
    (is_shared ? uses_shared_ : uses_asked_in_turn_) = true;
    return is_shared ? "shared" : "asked_in_turn";
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
    const std::string group = tiles_.number(group_numbers, "groups", tables);
    const std::string position = tiles_.number(positions, "positions", tables);
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
        entries.push_back(fmt::format("{{{}, {}, {}}}", piece.from, piece.to, text_of(tiles_.padded(piece.box))));
      });
    }
    return fmt::format("  static const std::vector<Transfer> transfers = {{\n{}}};\n", wrapped(entries, "      "));
  }

  // --- Functions.

  std::string movements() const {
    std::string text;
    if (group_count_ > 0 || message_count_ > 0) {
      text += has_runs() ? MpiCode::datatypes_of_runs : MpiCode::datatypes;
    }
    if (group_count_ > 0) text += MpiCode::groups;
    if (message_count_ > 0) text += MpiCode::messages;
    if (uses_kept_) text += MpiCode::kept;
    if (uses_permuted_) text += MpiCode::permuted;
    if (uses_asked_) text += MpiCode::asked;
    if (uses_asked_in_turn_ || uses_shared_) {
      text += has_runs() ? MpiCode::is_same_of_runs : MpiCode::is_same;
      text += MpiCode::holders;
    }
    if (uses_asked_in_turn_) {
      text += has_runs() ? MpiCode::corner_of_runs : MpiCode::corner;
      text += MpiCode::asked_in_turn;
    }
    if (uses_shared_) {
      text += has_runs() ? MpiCode::cut_of_runs : MpiCode::cut;
      text += MpiCode::shared;
    }
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
          " Strides are distances in elements, for\n// each dimension of the rank's own array, leading "
          "dimensions among them; null: that array has no gaps.\nRedistribution plan_redistribution(MPI_Comm comm, "
          "const MPI_Aint* source_strides = nullptr,\n"
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
    std::string text = filled(MpiCheckCode::numbers, {reduce_ != nullptr ? "place % 7" : "place"});
    text += filled(has_runs() ? MpiCheckCode::places_of_runs : MpiCheckCode::places,
                   {has_periods ? declared : "", has_periods ? " % period[i]" : ""});
    if (has_strides_) text += padded_function();
    return text + filled(MpiCheckCode::main, {has_strides_ ? strided_check() : one_check("  ", "")});
  }

  std::string padded_function() const {
    const bool has_factors = !dimensions_of_factors().empty();
    const std::string count = has_factors ? "array_dimensions" : "dimensions";
    return filled(MpiCheckCode::padded_strides,
                  {count, count, has_factors ? "dimension_of[i]" : "i",
                   has_runs() ? "length_of(tile.box.runs[i])" : "tile.box.hi[i] - tile.box.lo[i]"});
  }

  // The check, once with arrays without gaps and once with strides.
  std::string strided_check() {
    return fmt::format(
        "  const std::vector<MPI_Aint> source_strides = padded(tiles_0(rank).front(), true);\n"
        "  const std::vector<MPI_Aint> target_strides = padded({}(rank).front(), false);\n"
        "  for (const bool is_padded : {{false, true}}) {{\n{}  }}\n",
        target_name(),
        one_check("    ",
                  ", is_padded ? source_strides.data() : nullptr,\n                                           "
                  "is_padded ? target_strides.data() : nullptr"));
  }

  // A check that plans once and executes twice. What lies between the elements of the target keeps its mark.
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
        "@const Element mark = number(-1);  // of what is not to be written\n"
        "@Redistribution r = plan_redistribution(MPI_COMM_WORLD{});\n"
        "@std::vector<Element> source(reach(r.source), mark), target(reach(r.target) + 1);\n"
        "@for_each_element(r.source, source.data(), [](Element& element, long long place) {{ element = number(place); "
        "}});\n"
        "@for (int run = 0; run < 2; ++run) {{\n"
        "@  std::fill(target.begin(), target.end(), mark);\n"
        "@  execute_redistribution(r, source.data(), target.data());\n"
        "@  for_each_element(r.target, target.data(), [&](const Element& element, long long place) {{\n"
        "@    {}\n@    if (element != expected) ++wrong;\n@  }});\n"
        "@  for_each_element(r.target, target.data(), [&](Element& element, long long) {{ element = mark; }});\n"
        "@  wrong += std::count_if(target.begin(), target.end(), [&](Element one) {{ return one != mark; }});\n"
        "@}}\n@free_redistribution(r);\n",
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
      first += plan_.view.empty() || has_runs() ? 1 : plan_.view[i].size();
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
  const TileForm form_;
  const Shape shape_;  // of the array before any step
  TilePrinter tiles_;
  const ReduceStep* reduce_ = nullptr;
  bool has_strides_ = false;  // every rank has one tile at each end, whose strides the caller may give
  bool has_listed_transfers_ = false;
  std::string plan_body_;
  std::string execute_body_;
  std::array<std::vector<std::string>, 2> buffers_;  // sizes of the tiles that each buffer holds
  int group_count_ = 0;
  int message_count_ = 0;
  bool uses_kept_ = false;
  bool uses_permuted_ = false;
  bool uses_asked_ = false;
  bool uses_asked_in_turn_ = false;
  bool uses_shared_ = false;
};

// Whether what devices hold may be boxes with gaps. A view has its own boxes between steps, and reductions combine rows
// of boxes.
bool may_have_runs(const Plan& plan) {
  return std::none_of(plan.steps().begin(), plan.steps().end(), [&](const Step& step) {
    const bool is_exchange = std::holds_alternative<ExchangeStep>(step.operation) && plan.steps().size() == 1;
    return std::holds_alternative<ReduceStep>(step.operation) || (!plan.view.empty() && !is_exchange);
  });
}

}  // namespace

std::string emit_mpi(const Plan& plan, ElementType element) {
  MpiPrinter boxes(plan, element, TileForm::boxes);
  std::string text = boxes.print().value();
  if (!boxes.has_lists() || !may_have_runs(plan)) return text;
  // Lists of boxes that are one box with gaps have strides of the caller's, too, so they are worth a longer program.
  auto with_runs = MpiPrinter(plan, element, TileForm::runs).print();
  const bool is_better = with_runs && (!has_single_ends(plan) || with_runs->size() < text.size());
  return is_better ? *std::move(with_runs) : text;
}

}  // namespace retile::emission
