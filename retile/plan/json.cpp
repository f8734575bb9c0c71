#include "retile/plan/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/plan/lists.h"
#include "retile/types/json.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// Writes compact JSON piece by piece: a plan's lists may be much larger than the plan.
class PlanWriter {
 public:
  explicit PlanWriter(const WriteText& write) : write_(write) {}

  void write_plan(const Plan& plan, bool lists) {
    put("{{\"format\":{},\"id\":{},\"mesh\":{{", json_format, quoted(plan.id));
    for (std::size_t i = 0; i < plan.mesh().axes().size(); ++i) {
      const Axis& axis = plan.mesh().axes()[i];
      put("{}{}:{}", i == 0 ? "" : ",", quoted(axis.name), axis.size);
    }
    put("}},\"source\":{},\"target\":{},\"planner\":{},", quoted(to_string(plan.source())),
        quoted(to_string(plan.target)), quoted(plan.planner));
    put("\"cost\":{{\"model\":{},\"total\":{},\"lower_bound\":{},\"floor\":{},\"optimal\":{}}},",
        quoted(plan.cost.model), plan.cost.total, plan.cost.lower_bound, plan.cost.floor, plan.cost.optimal);
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

  // An id may come from anywhere: what is not UTF-8 in it is replaced.
  static std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  // "key":[...], each entry written by `write_entry`.
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
        fmt::join(step.local_out(), ","), plan.cost.steps[index]);
    if (lists) {
      put(",\"offsets\":[");
      for (Device device = 0; device < before.device_count(); ++device) {
        if (device > 0) put(",");
        put_numbers(step.after.offset(device));
      }
      put("]");
    }
    put("}}");
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
    write_groups(exchange_groups(*step.transfers, before));
    put_list("transfers", *step.transfers, [&](const Transfer& transfer) {
      put("[{},{},[{}],[{}]]", transfer.from, transfer.to, fmt::join(transfer.box.lo, ","),
          fmt::join(transfer.box.hi, ","));
    });
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
              "steps are dynslice, alltoall, allgather, allpermute and exchange");
}

int read_dimension(const JsonReader& reader, int rank) {
  const std::int64_t dimension = reader.count();
  if (dimension >= rank)
    reader.fail(fmt::format("there is no dimension {}", dimension),
                fmt::format("the array has {}, counted from 0", rank));
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

// Elements of an array that must have a certain length.
std::vector<JsonReader> read_tuple(const JsonReader& reader, std::size_t length) {
  std::vector<JsonReader> elements = reader.elements();
  if (elements.size() != length) {
    reader.fail(fmt::format("{} has {} entries instead of {}", reader.name(), elements.size(), length));
  }
  return elements;
}

std::vector<std::int64_t> read_integers(const JsonReader& reader, std::size_t length) {
  std::vector<std::int64_t> values;
  for (const JsonReader& element : read_tuple(reader, length)) values.push_back(element.integer());
  return values;
}

Shape read_shape(const JsonReader& reader, std::size_t rank) {
  Shape shape;
  for (const JsonReader& element : read_tuple(reader, rank)) shape.push_back(element.size());
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

std::vector<Transfer> read_transfers(const JsonReader& reader, std::size_t rank) {
  std::vector<Transfer> transfers;
  for (const JsonReader& entry : reader.elements()) {
    const std::vector<JsonReader> fields = read_tuple(entry, 4);
    transfers.push_back(
        {fields[0].integer(), fields[1].integer(), {read_integers(fields[2], rank), read_integers(fields[3], rank)}});
  }
  return transfers;
}

Placement read_placement(const JsonReader& step, const DistributedType& source) {
  const Shape global = source.global_shape();
  const Shape local = read_shape(step.member("local_out"), global.size());
  if (!step.has("offsets")) {
    step.fail("a step without offsets cannot be checked",
              fmt::format("above {} devices they are left out; make the plan with --full", most_listed_devices));
  }
  std::vector<std::int64_t> corners;
  for (const JsonReader& corner :
       read_tuple(step.member("offsets"), static_cast<std::size_t>(source.mesh().device_count()))) {
    const std::vector<std::int64_t> offset = read_integers(corner, global.size());
    corners.insert(corners.end(), offset.begin(), offset.end());
  }
  if (global.empty()) return Placement(source);
  return {global, local, std::move(corners)};
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
      return ExchangeStep{read_transfers(reader.member("transfers"), static_cast<std::size_t>(rank))};
  }
  throw InternalError("unknown step");
}

void read_step(const JsonReader& reader, StatedPlan& stated) {
  const DistributedType& source = stated.plan.source();
  Placement after = read_placement(reader, source);  // first: where lists are left out, it says why
  StepOperation operation = read_operation(reader, source.rank());
  stated.plan.movement.steps.push_back({std::move(operation), std::move(after)});
  PlanStatements::OfStep& statements = stated.statements.steps.emplace_back();
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
  return cost;
}

PlanMemory read_memory(const JsonReader& reader) {
  return {reader.member("source").count(), reader.member("target").count(), reader.member("bound").count(),
          reader.member("peak").count()};
}

}  // namespace

void write_json(const Plan& plan, PlanLists lists, const WriteText& write) {
  PlanWriter(write).write_plan(plan, lists == PlanLists::always || plan.mesh().device_count() <= most_listed_devices);
}

std::string to_json(const Plan& plan, PlanLists lists) {
  std::string line;
  write_json(plan, lists, [&](std::string_view text) { line += text; });
  return line;
}

// What may throw stands before aggregates are made: gcc 12 destroys members of them that it has not made yet.
StatedPlan parse_plan(const SourceText& source) {
  const JsonValue root = parse_json(source);
  const JsonReader reader(source, root, "the plan");
  reader.require_format();
  const Mesh mesh = read_mesh(reader.member("mesh"));
  Placement from(read_type_text(reader.member("source"), mesh));
  DistributedType target = read_type_text(reader.member("target"), mesh);
  StatedPlan stated{{"", {mesh, std::move(from), {}}, std::move(target), "", {}, {}, 0},
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
