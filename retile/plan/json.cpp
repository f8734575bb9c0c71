#include "retile/plan/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/plan/lists.h"
#include "retile/plan/text.h"
#include "retile/types/json.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// Writes compact JSON piece by piece: a plan's lists may be much larger than the plan.
class PlanWriter {
 public:
  explicit PlanWriter(const WriteText& write) : write_(write) {}

  void write_plan(const Plan& plan, bool lists) {
    put("{{\"format\":{},\"id\":{},", json_format, quoted(plan.id));
    write_meshes(plan);
    put("\"source\":{},\"target\":{},", quoted(to_string(plan.source)), quoted(to_string(plan.target)));
    const auto target = plan.target.cuts();
    if (target && !target->devices.empty()) put("\"dst_devices\":[{}],", fmt::join(target->devices, ","));
    if (!plan.view.empty()) put_list("view", plan.view, [&](const Shape& factors) { put_numbers(factors); });
    put("\"planner\":{},", quoted(plan.planner));
    const PlanCost& cost = plan.cost;
    put("\"cost\":{{\"model\":{},\"total\":{},\"lower_bound\":{},\"floor\":{},\"optimal\":{}", quoted(cost.model),
        cost.total, cost.lower_bound, cost.floor, cost.optimal);
    if (!cost.over.empty()) put(",\"over\":{}", quoted(cost.over));
    put("}},");
    if (plan.time) write_time(*plan.time);
    put("\"memory\":{{\"source\":{},\"target\":{},\"bound\":{},\"peak\":{}}},\"planning_ns\":{},\"steps\":[",
        plan.memory.source, plan.memory.target, plan.memory.bound, plan.memory.peak, plan.planning_ns);
    for (std::size_t i = 0; i < plan.steps().size(); ++i) {
      if (i > 0) put(",");
      write_step(plan, i, lists);
    }
    put("]}}");
    flush();
  }

 private:
  static double seconds(std::int64_t picoseconds) { return static_cast<double>(picoseconds) / 1e12; }

  void write_time(const PlanTime& time) {
    put("\"seconds\":{{\"machine\":{},\"total\":{},\"lower_bound\":{},\"waits_for\":{},\"bound_by\":{}}},",
        quoted(time.machine), seconds(time.total), seconds(time.lower_bound.picoseconds),
        quoted(to_string(longest_wait(time))), quoted(to_string(time.lower_bound.wait)));
  }

  // Writes the source's mesh, and the target's where it differs.
  void write_meshes(const Plan& plan) {
    const auto source = plan.source.cuts();
    const auto target = plan.target.cuts();
    if (source) write_mesh("mesh", source->mesh);
    if (target && !(source && source->mesh == target->mesh)) write_mesh(source ? "dst_mesh" : "mesh", target->mesh);
  }

  void write_mesh(const char* key, const Mesh& mesh) {
    put("\"{}\":{{", key);
    for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
      put("{}{}:{}", i == 0 ? "" : ",", quoted(mesh.axes()[i].name), mesh.axes()[i].size);
    }
    put("}},");
  }

  template <typename... Arguments>
  void put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    constexpr std::size_t most_buffered = 1U << 16U;
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Arguments>(arguments)...);
    if (buffer_.size() >= most_buffered) flush();
  }

  void flush() {
    write_(buffer_);
    buffer_.clear();
  }

  // Text as a JSON string. An id may come from anywhere: what is not UTF-8 in it is replaced.
  static std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  // Writes "key":[...], each entry by `write_entry`.
  template <typename List, typename WriteEntry>
  void put_list(const char* key, const List& list, WriteEntry write_entry) {
    put("\"{}\":[", key);
    bool is_first = true;
    for (const auto& entry : list) {
      if (!std::exchange(is_first, false)) put(",");
      write_entry(entry);
    }
    put("],");
  }

  void put_numbers(const std::vector<std::int64_t>& numbers) { put("[{}]", fmt::join(numbers, ",")); }

  void write_step(const Plan& plan, std::size_t index, bool lists) {
    const Placement& before = plan.movement.before(index);
    Step step = plan.steps()[index];
    if (lists) list_devices(step, before);
    put("{{\"op\":\"{}\",", name_of(op_of(step)));
    std::visit([&](const auto& operation) { write(operation, before, lists); }, step.operation);
    put("\"local_in\":[{}],\"local_out\":[{}],\"cost\":{}", fmt::join(before.local_shape(), ","),
        fmt::join(step.local_out(), ","),
        index < plan.cost.steps.size() ? plan.cost.steps[index] : 0);  // a plan from elsewhere may have none
    if (plan.time) {
      const StepTime& time = plan.time->steps[index];
      put(",\"seconds\":{},\"waits_for\":{}", seconds(time.picoseconds), quoted(to_string(time.wait)));
    }
    if (lists) write_boxes(step.after);
    put("}}");
  }

  // Writes the corners of tiles if all are equally large, and boxes otherwise.
  void write_boxes(const Placement& placement) {
    // Corners from elsewhere are written as they were read, right or wrong.
    const bool has_corners = !placement.is_listed() && placement.grid_extent() == placement.global_shape();
    put(",\"{}\":[", has_corners ? "offsets" : "boxes");
    for (Device device = 0; device < placement.device_count(); ++device) {
      if (device > 0) put(",");
      if (has_corners) {
        put_numbers(placement.offset(device));
        continue;
      }
      put("[");
      bool is_first = true;
      for (const Part& part : placement.parts(device)) {
        put("{}[[{}],[{}]]", std::exchange(is_first, false) ? "" : ",", fmt::join(part.box.lo, ","),
            fmt::join(part.box.hi, ","));
      }
      put("]");
    }
    put("]");
  }

  void write(const SliceStep& step, const Placement& /*before*/, bool /*lists*/) { write_changes(step.slices); }
  void write(const AllToAllStep& step, const Placement& before, bool lists) {
    put_list("moves", step.moves, [&](const Move& move) {
      put("{{\"from\":{},\"to\":{},\"factor\":{}}}", move.from, move.to, move.factor);
    });
    if (lists) write_groups(order_groups(*step.groups, before));
  }
  void write(const GatherStep& step, const Placement& before, bool lists) {
    write_changes(step.gathers);
    if (lists) write_groups(order_groups(*step.groups, before));
  }
  void write(const PermuteStep& step, const Placement& /*before*/, bool lists) {
    if (!lists) return;
    put_list("pairs", *step.pairs, [&](const DevicePair& pair) { put("[{},{}]", pair.source, pair.target); });
  }
  void write(const ExchangeStep& step, const Placement& before, bool lists) {
    if (!lists) return;
    write_groups(exchange_groups(*step.pieces, before));
    put_list("transfers", *step.pieces, [&](const Piece& piece) {
      put("[{},{},[{}],[{}]]", piece.from, piece.to, fmt::join(piece.box.lo, ","), fmt::join(piece.box.hi, ","));
    });
  }

  void write(const ReduceStep& step, const Placement& /*before*/, bool /*lists*/) {
    put("\"dims\":[{}],\"reduce\":\"{}\",\"dtype\":\"{}\",", fmt::join(step.dimensions, ","), name_of(step.reduction),
        name_of(step.element));
  }

  void write_changes(const std::vector<DimensionFactor>& changes) {
    put_list("moves", changes, [&](const DimensionFactor& change) {
      put("{{\"dim\":{},\"factor\":{}}}", change.dimension, change.factor);
    });
  }
  void write_groups(const Groups& groups) {
    put_list("groups", groups, [&](const std::vector<Device>& group) { put_numbers(group); });
  }

  const WriteText& write_;
  std::string buffer_;
};

StepOp read_op(const JsonReader& reader) {
  if (const auto op = find_step_op(reader.string())) return *op;
  reader.fail(fmt::format("unknown step \"{}\"", reader.string()),
              "steps are dynslice, alltoall, allgather, allpermute, exchange and reduce");
}

int read_dimension(const JsonReader& reader, int rank) {
  const std::int64_t dimension = reader.count();
  if (dimension >= rank) {
    reader.fail(fmt::format("there is no dimension {}", dimension),
                fmt::format("the array has {}, counted from 0", rank));
  }
  return static_cast<int>(dimension);
}

std::vector<DimensionFactor> read_changes(const JsonReader& reader, int rank) {
  std::vector<DimensionFactor> changes;
  for (const JsonReader& entry : reader.elements()) {
    const std::int64_t factor = entry.member("factor").size();
    changes.push_back({read_dimension(entry.member("dim"), rank), factor});
  }
  return changes;
}

std::vector<Move> read_moves(const JsonReader& reader, int rank) {
  std::vector<Move> moves;
  for (const JsonReader& entry : reader.elements()) {
    const std::int64_t factor = entry.member("factor").size();
    moves.push_back({read_dimension(entry.member("from"), rank), read_dimension(entry.member("to"), rank), factor});
  }
  return moves;
}

Groups read_groups(const JsonReader& reader) {
  Groups groups;
  for (const JsonReader& group : reader.elements()) groups.push_back(group.integers());
  return groups;
}

Shape read_shape(const JsonReader& reader, std::size_t rank) {
  Shape shape;
  for (const JsonReader& element : read_tuple(reader, rank)) shape.push_back(element.count());
  return shape;
}

std::vector<DevicePair> read_pairs(const JsonReader& reader) {
  std::vector<DevicePair> pairs;
  for (const JsonReader& entry : reader.elements()) {
    const std::vector<JsonReader> pair = read_tuple(entry, 2);
    pairs.push_back({pair[0].integer(), pair[1].integer()});
  }
  return pairs;
}

std::vector<Piece> read_pieces(const JsonReader& reader, std::size_t rank) {
  std::vector<Piece> pieces;
  for (const JsonReader& entry : reader.elements()) {
    const std::vector<JsonReader> fields = read_tuple(entry, 4);
    pieces.push_back(
        {fields[0].integer(), fields[1].integer(), {read_integers(fields[2], rank), read_integers(fields[3], rank)}});
  }
  return pieces;
}

Placement read_listed(const JsonReader& reader, const Shape& global, std::int64_t devices) {
  std::vector<std::vector<Part>> parts;
  read_tuple(reader, static_cast<std::size_t>(devices));
  for (const std::vector<Box>& boxes : read_boxes(reader, global.size())) {
    std::vector<Part>& held = parts.emplace_back();
    std::int64_t offset = 0;
    for (const Box& box : boxes) {
      const Box array{Shape(global.size()), global};
      for (std::size_t i = 0; i < global.size(); ++i) {
        if (box.lo[i] > box.hi[i] || !contains(array, box)) {
          reader.fail(fmt::format("{} is no box of an array of {}", to_string(box), to_string(global)));
        }
      }
      if (volume(box) == 0) continue;
      held.push_back(packed_part(box));
      held.back().offset = offset;
      offset = checked_add(offset, volume(box)).value_or(0);  // beyond 63 bits boxes overlap, which is refused later
    }
  }
  return {global, std::move(parts)};
}

Placement read_placement(const JsonReader& step, const Placement& source, const Shape& global, const Shape& local) {
  if (step.has("boxes")) return read_listed(step.member("boxes"), global, source.device_count());
  const std::vector<JsonReader> sizes = step.member("local_out").elements();
  for (std::size_t i = 0; i < global.size(); ++i) {
    if (global[i] > 0) (void)sizes[i].size();  // tiles of a nonempty array have elements
  }
  if (!step.has("offsets")) {
    step.fail("a step without offsets or boxes cannot be checked",
              fmt::format("above {} devices they are left out; make the plan with --full", most_listed_devices));
  }
  std::vector<std::int64_t> corners;
  for (const JsonReader& corner : read_tuple(step.member("offsets"), static_cast<std::size_t>(source.device_count()))) {
    const std::vector<std::int64_t> offset = read_integers(corner, global.size());
    corners.insert(corners.end(), offset.begin(), offset.end());
  }
  if (global.empty()) return Placement(DistributedType::replicated(world_mesh(source.device_count()), {}));
  return {global, local, std::move(corners)};
}

ReduceStep read_reduce(const JsonReader& reader, int rank) {
  ReduceStep step;
  for (const JsonReader& dimension : reader.member("dims").elements()) {
    step.dimensions.push_back(read_dimension(dimension, rank));
  }
  std::sort(step.dimensions.begin(), step.dimensions.end());
  if (std::adjacent_find(step.dimensions.begin(), step.dimensions.end()) != step.dimensions.end()) {
    reader.member("dims").fail("a dimension is combined twice");
  }
  step.reduction = read_reduction(reader.member("reduce"));
  step.element = read_element_type(reader.member("dtype"));
  return step;
}

StepOperation read_operation(const JsonReader& reader, int rank) {
  switch (read_op(reader.member("op"))) {
    case StepOp::dynslice:
      return SliceStep{read_changes(reader.member("moves"), rank)};
    case StepOp::alltoall:
      return AllToAllStep{read_moves(reader.member("moves"), rank), read_groups(reader.member("groups"))};
    case StepOp::allgather:
      return GatherStep{read_changes(reader.member("moves"), rank), read_groups(reader.member("groups"))};
    case StepOp::allpermute:
      return PermuteStep{read_pairs(reader.member("pairs"))};
    case StepOp::exchange:
      return ExchangeStep{read_pieces(reader.member("transfers"), static_cast<std::size_t>(rank))};
    case StepOp::reduce:
      return read_reduce(reader, rank);
  }
  throw InternalError("unknown step");
}

void read_step(const JsonReader& reader, StatedPlan& stated) {
  const Placement source = stated.plan.movement.target();  // the boxes after the steps so far
  Shape global = source.global_shape();
  if (read_op(reader.member("op")) == StepOp::reduce) {
    global = without_dimensions(global, read_reduce(reader, source.rank()).dimensions);
  }
  Shape local_out = read_shape(reader.member("local_out"), global.size());
  // Before the lists: it explains why they are left out.
  Placement after = read_placement(reader, source, global, local_out);
  StepOperation operation = read_operation(reader, source.rank());
  stated.plan.movement.steps.push_back({std::move(operation), std::move(after)});
  PlanStatements::OfStep& statements = stated.statements.steps.emplace_back();
  statements.local_out = std::move(local_out);
  if (reader.has("local_in")) {
    statements.local_in = read_shape(reader.member("local_in"), static_cast<std::size_t>(source.rank()));
  }
  if (std::holds_alternative<ExchangeStep>(stated.plan.steps().back().operation) && reader.has("groups")) {
    statements.groups = read_groups(reader.member("groups"));
  }
  if (stated.statements.cost) stated.plan.cost.steps.push_back(reader.member("cost").count());
}

PlanCost read_cost(const JsonReader& reader) {
  PlanCost cost;
  cost.model = reader.member("model").string();
  cost.total = reader.member("total").count();
  cost.lower_bound = reader.member("lower_bound").count();
  cost.floor = reader.member("floor").count();
  cost.optimal = reader.member("optimal").boolean();
  if (reader.has("over")) cost.over = reader.member("over").string();
  return cost;
}

PlanMemory read_memory(const JsonReader& reader) {
  return {reader.member("source").count(), reader.member("target").count(), reader.member("bound").count(),
          reader.member("peak").count()};
}

// Whether the factors, major to minor, make up a dimension of this size. Where there are several, the outermost may
// reach beyond the dimension's end.
bool make_up(const Shape& factors, std::int64_t size) {
  const std::optional<std::int64_t> elements = checked_product(factors);
  if (!elements || factors.empty()) return false;
  return *elements == size || (factors.size() > 1 && *elements > size && *elements - *elements / factors[0] < size);
}

// Reads the factors of each dimension, which make up the shape of the moved array.
std::vector<Shape> read_view(const JsonReader& reader, const Shape& shape) {
  std::vector<Shape> view;
  for (const JsonReader& factors : read_tuple(reader, shape.size())) {
    Shape& sizes = view.emplace_back();
    for (const JsonReader& factor : factors.elements()) sizes.push_back(factor.count());
    if (!make_up(sizes, shape[view.size() - 1])) {
      factors.fail(fmt::format("these factors do not make up dimension {}, which has {}", view.size() - 1,
                               shape[view.size() - 1]));
    }
  }
  return view;
}

// The layouts at a plan's ends, and the boxes that it starts from.
struct PlanEnds {
  Layout source;
  Layout target;
  Mesh mesh;  // of the world
  std::vector<Shape> view;
  Placement from;
};

// Checks the listed devices against those in the target's text.
void check_devices(const JsonReader& reader, const Layout& target) {
  const auto cuts = target.cuts();
  const std::vector<Device> devices = cuts ? cuts->devices : std::vector<Device>();
  if (reader.integers() != devices)
    reader.fail("these are not the devices of the target", "its text lists them: … on […]");
}

PlanEnds read_ends(const JsonReader& reader) {
  const Mesh none(std::vector<Axis>{});
  const Mesh mesh = reader.has("mesh") ? read_mesh(reader.member("mesh")) : none;
  const Mesh target_mesh = reader.has("dst_mesh") ? read_mesh(reader.member("dst_mesh")) : mesh;
  Layout source = read_layout_text(reader.member("source"), mesh);
  Layout target = read_layout_text(reader.member("target"), target_mesh);
  if (reader.has("dst_devices")) check_devices(reader.member("dst_devices"), target);
  const std::int64_t world = std::max(source.device_count(), target.device_count());
  Placement from = source.inside(world, moved_array(target));
  std::vector<Shape> view;
  if (reader.has("view")) {
    view = read_view(reader.member("view"), from.global_shape());
    from = source.inside(world, moved_array(target, view));
  }
  const bool is_plain = mesh.device_count() == world && source.listed() == nullptr;
  return {std::move(source), std::move(target), is_plain ? mesh : world_mesh(world), std::move(view), std::move(from)};
}

}  // namespace

void write_json(const Plan& plan, PlanLists lists, const WriteText& write) {
  PlanWriter(write).write_plan(plan, lists == PlanLists::always || plan.device_count() <= most_listed_devices);
}

std::string to_json(const Plan& plan, PlanLists lists) {
  std::string line;
  write_json(plan, lists, [&](std::string_view text) { line += text; });
  return line;
}

// Everything that may throw comes before aggregates are made: gcc 12 destroys members of them that it has not made yet.
StatedPlan parse_plan(const SourceText& source) {
  const JsonValue root = parse_json(source);
  const JsonReader reader(source, root, "the plan");
  reader.require_format();
  const PlanEnds ends = read_ends(reader);
  StatedPlan stated{{"", ends.source, ends.target, {ends.mesh, ends.from, {}}, ends.view, "", {}, {}, 0},
                    {reader.has("cost"), reader.has("memory"), {}}};
  if (reader.has("id")) stated.plan.id = reader.member("id").string();
  if (reader.has("planner")) stated.plan.planner = reader.member("planner").string();
  if (reader.has("planning_ns")) stated.plan.planning_ns = reader.member("planning_ns").count();
  if (stated.statements.cost) stated.plan.cost = read_cost(reader.member("cost"));
  if (stated.statements.memory) stated.plan.memory = read_memory(reader.member("memory"));
  for (const JsonReader& step : reader.member("steps").elements()) read_step(step, stated);
  return stated;
}

}  // namespace retile
