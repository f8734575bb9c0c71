#include "tests/support/plans.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "retile/base/error.h"
#include "retile/collectives/sequence.h"
#include "retile/plan/typed_steps.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"

namespace retile::test {
namespace {

// The sets of devices that the transfers connect.
std::vector<std::vector<Device>> connected_devices(const std::vector<Transfer>& transfers, std::int64_t device_count) {
  std::vector<std::vector<Device>> groups;
  for (Device device = 0; device < device_count; ++device) groups.push_back({device});
  const auto group_of = [&](Device device) {
    return std::find_if(groups.begin(), groups.end(), [&](const std::vector<Device>& group) {
      return std::find(group.begin(), group.end(), device) != group.end();
    });
  };
  for (const Transfer& transfer : transfers) {
    const auto from = group_of(transfer.from);
    const auto to = group_of(transfer.to);
    if (from == to) continue;
    to->insert(to->end(), from->begin(), from->end());
    groups.erase(from);
  }
  return groups;
}

// One of the plain collectives that the type allows, of one prime axis.
std::vector<Collective> possible_collectives(const DistributedType& type, CollectiveKind kind) {
  std::vector<Collective> all;
  for (int i = 0; i < type.rank(); ++i) {
    const std::vector<AxisPart> held = split_into_primes(type.mesh(), type.dimension(i).axes);
    if (kind == CollectiveKind::allgather && !held.empty()) all.emplace_back(AllGather{i, {held.front()}});
    for (int j = 0; kind == CollectiveKind::alltoall && !held.empty() && j < type.rank(); ++j) {
      all.emplace_back(AllToAll{i, j, {held.front()}});
    }
    if (kind != CollectiveKind::dynslice) continue;
    for (const AxisPart& part : type.free_primes()) all.emplace_back(DynSlice{i, {part}});
  }
  std::erase_if(all, [&](const Collective& step) { return find_fault(type, step).has_value(); });
  return all;
}

// Moves chain where one makes longer what another makes shorter: no single alltoall does that.
bool chains(const std::vector<Move>& moves) {
  return std::any_of(moves.begin(), moves.end(), [&](const Move& a) {
    return std::any_of(moves.begin(), moves.end(), [&](const Move& b) { return a.from >= 0 && a.from == b.to; });
  });
}

// Several collectives of a kind as one wide step; nothing is added where the type allows none.
void append_wide(std::vector<Step>& steps, DistributedType& type, CollectiveKind kind, int width) {
  std::vector<Move> moves;
  std::vector<AxisPart> along;
  StepOp op = StepOp::dynslice;
  const DistributedType before = type;
  for (int i = 0; i < width; ++i) {
    const std::vector<Collective> possible = possible_collectives(type, kind);
    if (possible.empty()) break;
    const Collective chosen = *rc::gen::elementOf(possible);
    Sequence sequence(type);
    sequence.append(chosen);
    const Step step = typed_steps(sequence).front();
    std::vector<Move> wider = moves;
    wider.push_back(step.moves.front());
    if (kind == CollectiveKind::alltoall && chains(wider)) break;
    moves = std::move(wider);
    op = step.op;
    along.insert(along.end(), axes_of(chosen).begin(), axes_of(chosen).end());
    type = sequence.target();
  }
  if (!moves.empty()) steps.push_back(collective_step(op, moves, along, before, type));
}

DistributedType arbitrary_type_of_shape(const DistributedType& type) {
  std::vector<DistributedType> same = all_prime_types(type.mesh(), type.global_shape());
  std::erase_if(same, [&](const DistributedType& other) { return other.local_shape() != type.local_shape(); });
  return *rc::gen::elementOf(same);
}

// Up to 4 steps from the type, which becomes the one after them.
std::vector<Step> arbitrary_steps(DistributedType& type) {
  std::vector<Step> steps;
  const int count = *rc::gen::inRange(0, 5);
  for (int i = 0; i < count; ++i) {
    const int choice = *rc::gen::inRange(0, 5);
    if (choice <= 2) {
      append_wide(steps, type, static_cast<CollectiveKind>(choice), *rc::gen::inRange(1, 4));
      continue;
    }
    const DistributedType before = type;
    if (choice == 3) {
      type = arbitrary_type_of_shape(before);
      steps.push_back(permute_step(Placement(before), Placement(type)));
    } else {
      type = *arbitrary_type(before.mesh(), before.global_shape());
      steps.push_back(exchange_step(Placement(before), Placement(type)));
    }
  }
  return steps;
}

Placement renamed_placement(const Placement& placement, const std::vector<Device>& names) {
  const auto rank = static_cast<std::size_t>(placement.rank());
  std::vector<std::int64_t> corners(names.size() * rank);
  for (std::size_t device = 0; device < names.size(); ++device) {
    const Shape corner = placement.offset(static_cast<Device>(device));
    std::copy(corner.begin(), corner.end(), corners.begin() + names[device] * placement.rank());
  }
  return {placement.global_shape(), placement.local_shape(), std::move(corners)};
}

// The steps under other names of devices, with exchanges that lead there and back.
Plan renamed_plan(const DistributedType& source, const DistributedType& first, const std::vector<Step>& steps,
                  CostModel model) {
  const Mesh& mesh = source.mesh();
  std::vector<Device> names(static_cast<std::size_t>(mesh.device_count()));
  std::iota(names.begin(), names.end(), Device{0});
  for (std::size_t i = names.size(); i > 1; --i) {
    std::swap(names[i - 1], names[static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(i)))]);
  }
  std::vector<Step> all{exchange_step(Placement(source), renamed_placement(Placement(first), names))};
  for (const Step& step : steps) all.push_back(rename_devices(step, mesh, names));
  const DistributedType target = *arbitrary_type(mesh, source.global_shape());
  all.push_back(exchange_step(all.back().after, Placement(target)));
  return finish_plan(source, target, std::move(all), model);
}

}  // namespace

Plan gather_slice_plan(const DistributedType& source, const DistributedType& target, CostModel model) {
  PlanOptions options;
  options.planner = PlannerKind::gather_slice;
  options.cost_model = model;
  return make_plan(Problem("test", source, target), options);
}

Plan finish_plan(const DistributedType& source, const DistributedType& target, std::vector<Step> steps,
                 CostModel model) {
  Plan plan{"test", source, target, "test", {}, {}, 0, std::move(steps)};
  price(plan, model);
  plan.cost.floor = received_floor(source, target);
  plan.cost.lower_bound = std::min(plan.cost.floor, plan.cost.total);
  plan.cost.optimal = plan.cost.lower_bound == plan.cost.total;
  plan.memory.source = source.local_size();
  plan.memory.target = target.local_size();
  plan.memory.bound = std::max(plan.memory.source, plan.memory.target);
  plan.memory.peak = plan.memory.source;
  for (const Step& step : plan.steps) plan.memory.peak = std::max(plan.memory.peak, step.after.local_size());
  return plan;
}

Step collective_step(StepOp op, std::vector<Move> moves, std::vector<AxisPart> along, const DistributedType& before,
                     const DistributedType& after) {
  DeviceGroups groups = op == StepOp::dynslice ? DeviceGroups() : DeviceGroups::along(std::move(along));
  return {op, std::move(moves), std::move(groups), {}, {}, before.local_shape(), Placement(after), 0};
}

Step permute_step(const Placement& before, const Placement& after) {
  return {StepOp::allpermute, {}, {}, match_tiles(before, after), {}, before.local_shape(), after, 0};
}

Step exchange_step(const Placement& before, const Placement& after) {
  std::vector<Transfer> transfers;
  for (Device device = 0; device < after.device_count(); ++device) {
    std::vector<Box> missing = subtract(after.box(device), before.box(device));
    for (Device holder = 0; holder < before.device_count() && !missing.empty(); ++holder) {
      std::vector<Box> rest;
      for (const Box& part : missing) {
        if (const auto shared = intersect(part, before.box(holder))) transfers.push_back({holder, device, *shared});
        for (Box& left : subtract(part, before.box(holder))) rest.push_back(std::move(left));
      }
      missing = std::move(rest);
    }
    ensure(missing.empty(), "some device holds each part of the array");
  }
  DeviceGroups groups(order_groups(connected_devices(transfers, after.device_count()), before));
  return {StepOp::exchange, {}, std::move(groups), {}, std::move(transfers), before.local_shape(), after, 0};
}

Step rename_devices(const Step& step, const Mesh& mesh, const std::vector<Device>& names) {
  const auto name = [&](Device device) { return names[static_cast<std::size_t>(device)]; };
  Step renamed{
      step.op,  step.moves, {}, step.pairs, step.transfers, step.local_in, renamed_placement(step.after, names),
      step.cost};
  std::vector<std::vector<Device>> groups = step.groups.list(mesh);
  for (std::vector<Device>& group : groups) std::transform(group.begin(), group.end(), group.begin(), name);
  renamed.groups = DeviceGroups(std::move(groups));
  for (DevicePair& pair : renamed.pairs) pair = {name(pair.source), name(pair.target)};
  for (Transfer& transfer : renamed.transfers) {
    transfer.from = name(transfer.from);
    transfer.to = name(transfer.to);
  }
  return renamed;
}

std::vector<SamplePlan> sample_plans() {
  const Mesh square = parse_mesh("a=2,b=2");
  const Mesh cube = parse_mesh("a=2,b=2,c=2");
  const Mesh uneven = parse_mesh("a=2,b=3");
  const AxisPart a = square.whole(0);
  const AxisPart b = square.whole(1);
  std::vector<SamplePlan> samples;
  const auto add = [&](const char* name, const Mesh& mesh, const char* source, const char* target, auto make_step) {
    const DistributedType from = parse_type(source, mesh);
    const DistributedType to = parse_type(target, mesh);
    samples.push_back({name, finish_plan(from, to, {make_step(from, to)})});
  };
  const auto collective = [](StepOp op, std::vector<Move> moves, std::vector<AxisPart> along) {
    return [=](const DistributedType& from, const DistributedType& to) {
      return collective_step(op, moves, along, from, to);
    };
  };
  const auto permute = [](const DistributedType& from, const DistributedType& to) {
    return permute_step(Placement(from), Placement(to));
  };
  const auto exchange = [](const DistributedType& from, const DistributedType& to) {
    return exchange_step(Placement(from), Placement(to));
  };
  add("dynslice", square, "[4, 4]", "[2{a}4, 4]", collective(StepOp::dynslice, {{-1, 0, 2}}, {}));
  add("wide dynslice", square, "[4, 4]", "[2{a}4, 2{b}4]", collective(StepOp::dynslice, {{-1, 0, 2}, {-1, 1, 2}}, {}));
  add("allgather", square, "[1{a,b}4, 4]", "[2{b}4, 4]", collective(StepOp::allgather, {{0, -1, 2}}, {a}));
  add("wide allgather", square, "[2{a}4, 2{b}4]", "[4, 4]",
      collective(StepOp::allgather, {{0, -1, 2}, {1, -1, 2}}, {a, b}));
  add("alltoall", square, "[2{a}4, 4]", "[4, 2{a}4]", collective(StepOp::alltoall, {{0, 1, 2}}, {a}));
  add("wide alltoall", square, "[2{a}4, 2{b}4, 4]", "[4, 4, 1{a,b}4]",
      collective(StepOp::alltoall, {{0, 2, 2}, {1, 2, 2}}, {a, b}));
  // Groups that follow no axis: the alltoall deals its pieces by a mixture of b and c.
  add("free alltoall", cube, "[4, 1{a,b}4]", "[1{a,c}4, 4]",
      [](const DistributedType& from, const DistributedType& to) {
        return Step{StepOp::alltoall,
                    {{1, 0, 4}},
                    DeviceGroups({{0, 4, 3, 7}, {1, 5, 2, 6}}),
                    {},
                    {},
                    from.local_shape(),
                    Placement(to),
                    0};
      });
  add("allpermute", square, "[2{a}4, 4]", "[2{b}4, 4]", permute);
  add("exchange", square, "[1{a,b}4, 4]", "[2{a}4, 2{b}4]", exchange);
  add("exchange of other sizes", uneven, "[2{b}6, 4]", "[6, 2{a}4]", exchange);
  add("exchange of a scalar", square, "[]", "[]", exchange);
  add("allpermute of a scalar", square, "[]", "[]", permute);
  samples.push_back({"nothing", finish_plan(parse_type("[2{a}4]", square), parse_type("[2{a}4]", square), {})});
  return samples;
}

const Plan& sample_plan(const std::vector<SamplePlan>& samples, const std::string& name) {
  const auto found =
      std::find_if(samples.begin(), samples.end(), [&](const SamplePlan& sample) { return sample.name == name; });
  ensure(found != samples.end(), "there is a sample of this name");
  return found->plan;
}

rc::Gen<Plan> arbitrary_plan() {
  return rc::gen::exec([] {
    const Mesh mesh = *rc::gen::elementOf(all_meshes(12));
    const Shape shape = divisible_shape(mesh, *rc::gen::inRange(1, 4));
    const CostModel model = *rc::gen::element(CostModel::paper, CostModel::volume);
    const DistributedType source = *arbitrary_type(mesh, shape);
    if (*rc::gen::arbitrary<bool>()) {
      DistributedType type = *arbitrary_type(mesh, shape);
      const DistributedType first = type;
      return renamed_plan(source, first, arbitrary_steps(type), model);
    }
    DistributedType type = source;
    std::vector<Step> steps = arbitrary_steps(type);
    return finish_plan(source, type, std::move(steps), model);
  });
}

}  // namespace retile::test
