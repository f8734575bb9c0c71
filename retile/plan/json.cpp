#include "retile/plan/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "retile/base/json.h"
#include "retile/plan/groups.h"
#include "retile/types/json.h"
#include "retile/types/text.h"

namespace retile {
namespace {

using Json = nlohmann::ordered_json;

Json write_moves(const Step& step) {
  Json moves = Json::array();
  for (const Move& move : step.moves) {
    if (step.op == StepOp::alltoall) {
      moves.push_back({{"from", move.from}, {"to", move.to}, {"factor", move.factor}});
    } else {
      moves.push_back({{"dim", std::max(move.from, move.to)}, {"factor", move.factor}});
    }
  }
  return moves;
}

Json write_offsets(const Placement& placement) {
  Json offsets = Json::array();
  for (Device device = 0; device < placement.device_count(); ++device) offsets.push_back(placement.offset(device));
  return offsets;
}

bool has_groups(StepOp op) { return op == StepOp::alltoall || op == StepOp::allgather || op == StepOp::exchange; }
bool has_moves(StepOp op) { return op == StepOp::dynslice || op == StepOp::alltoall || op == StepOp::allgather; }

Json write_step(const Step& step, const Mesh& mesh, const Placement& before, bool lists) {
  Json json;
  json["op"] = name_of(step.op);
  if (has_moves(step.op)) json["moves"] = write_moves(step);
  if (lists && has_groups(step.op)) json["groups"] = order_groups(step.groups.list(mesh), before);
  if (lists && step.op == StepOp::allpermute) {
    Json& pairs = json["pairs"] = Json::array();
    for (const DevicePair& pair : step.pairs) pairs.push_back({pair.source, pair.target});
  }
  if (lists && step.op == StepOp::exchange) {
    Json& transfers = json["transfers"] = Json::array();
    for (const Transfer& transfer : step.transfers) {
      transfers.push_back(Json::array({transfer.from, transfer.to, transfer.box.lo, transfer.box.hi}));
    }
  }
  json["local_in"] = step.local_in;
  json["local_out"] = step.local_out();
  json["cost"] = step.cost;
  if (lists) json["offsets"] = write_offsets(step.after);
  return json;
}

std::optional<StepOp> find_op(const std::string& name) {
  for (const StepOp op :
       {StepOp::dynslice, StepOp::alltoall, StepOp::allgather, StepOp::allpermute, StepOp::exchange}) {
    if (name == name_of(op)) return op;
  }
  return std::nullopt;
}

StepOp read_op(const JsonReader& reader) {
  if (const auto op = find_op(reader.string())) return *op;
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

std::vector<Move> read_moves(const JsonReader& reader, StepOp op, int rank) {
  std::vector<Move> moves;
  for (const JsonReader& entry : reader.elements()) {
    Move move;
    move.factor = entry.member("factor").size();
    if (op == StepOp::alltoall) {
      move.from = read_dimension(entry.member("from"), rank);
      move.to = read_dimension(entry.member("to"), rank);
    } else {
      (op == StepOp::dynslice ? move.to : move.from) = read_dimension(entry.member("dim"), rank);
    }
    moves.push_back(move);
  }
  return moves;
}

std::vector<std::vector<Device>> read_groups(const JsonReader& reader) {
  std::vector<std::vector<Device>> groups;
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

Step read_step(const JsonReader& reader, const DistributedType& source) {
  const StepOp op = read_op(reader.member("op"));
  const auto rank = static_cast<std::size_t>(source.rank());
  Step step{op,
            {},
            {},
            {},
            {},
            read_shape(reader.member("local_in"), rank),
            read_placement(reader, source),
            reader.member("cost").count()};
  if (has_moves(op)) step.moves = read_moves(reader.member("moves"), op, source.rank());
  if (has_groups(op)) step.groups = DeviceGroups(read_groups(reader.member("groups")));
  if (op == StepOp::allpermute) step.pairs = read_pairs(reader.member("pairs"));
  if (op == StepOp::exchange) step.transfers = read_transfers(reader.member("transfers"), rank);
  return step;
}

PlanCost read_cost(const JsonReader& reader) {
  return {reader.member("model").string(), reader.member("total").count(), reader.member("lower_bound").count(),
          reader.member("floor").count(), reader.member("optimal").boolean()};
}

PlanMemory read_memory(const JsonReader& reader) {
  return {reader.member("source").count(), reader.member("target").count(), reader.member("bound").count(),
          reader.member("peak").count()};
}

}  // namespace

std::string to_json(const Plan& plan, PlanLists lists) {
  const bool listed = lists == PlanLists::always || plan.mesh().device_count() <= most_listed_devices;
  if (listed && has_symbolic_steps(plan.steps)) return to_json(with_lists(plan), lists);
  Json json;
  json["id"] = plan.id;
  json["mesh"] = Json::object();
  for (const Axis& axis : plan.mesh().axes()) json["mesh"][axis.name] = axis.size;
  json["source"] = to_string(plan.source);
  json["target"] = to_string(plan.target);
  json["planner"] = plan.planner;
  json["cost"] = {{"model", plan.cost.model},
                  {"total", plan.cost.total},
                  {"lower_bound", plan.cost.lower_bound},
                  {"floor", plan.cost.floor},
                  {"optimal", plan.cost.optimal}};
  json["memory"] = {{"source", plan.memory.source},
                    {"target", plan.memory.target},
                    {"bound", plan.memory.bound},
                    {"peak", plan.memory.peak}};
  json["planning_ns"] = plan.planning_ns;
  Json& steps = json["steps"] = Json::array();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    steps.push_back(write_step(plan.steps[i], plan.mesh(), plan.before(i), listed));
  }
  // An id may come from anywhere: what is not UTF-8 in it is replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Plan parse_plan(const SourceText& source) {
  const JsonValue root = parse_json(source);
  const JsonReader reader(source, root, "the plan");
  const Mesh mesh = read_mesh(reader.member("mesh"));
  Plan plan{reader.has("id") ? reader.member("id").string() : std::string(),
            read_type_text(reader.member("source"), mesh),
            read_type_text(reader.member("target"), mesh),
            reader.member("planner").string(),
            read_cost(reader.member("cost")),
            read_memory(reader.member("memory")),
            reader.has("planning_ns") ? reader.member("planning_ns").count() : 0,
            {}};
  for (const JsonReader& step : reader.member("steps").elements()) plan.steps.push_back(read_step(step, plan.source));
  return plan;
}

}  // namespace retile
