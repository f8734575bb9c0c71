#include "tests/support/plans.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <variant>

#include "retile/base/error.h"
#include "retile/collectives/sequence.h"
#include "retile/plan/lists.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"

namespace retile::test {
namespace {

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
    return std::any_of(moves.begin(), moves.end(), [&](const Move& b) { return a.from == b.to; });
  });
}

// Several collectives of a kind as one wide step; nothing is added where the type allows none.
void append_wide(std::vector<Step>& steps, DistributedType& type, CollectiveKind kind, int width) {
  std::vector<DimensionFactor> factors;
  std::vector<Move> moves;
  std::vector<AxisPart> along;
  for (int i = 0; i < width; ++i) {
    const std::vector<Collective> possible = possible_collectives(type, kind);
    if (possible.empty()) break;
    const Collective chosen = *rc::gen::elementOf(possible);
    if (const auto* alltoall = std::get_if<AllToAll>(&chosen)) {
      moves.push_back({alltoall->from, alltoall->to, factor_of(chosen)});
      if (chains(moves)) {
        moves.pop_back();
        break;
      }
    }
    if (const auto* slice = std::get_if<DynSlice>(&chosen)) factors.push_back({slice->dimension, factor_of(chosen)});
    if (const auto* gather = std::get_if<AllGather>(&chosen)) factors.push_back({gather->dimension, factor_of(chosen)});
    along.insert(along.end(), axes_of(chosen).begin(), axes_of(chosen).end());
    type = type_after(type, chosen);
  }
  if (along.empty()) return;
  if (kind == CollectiveKind::dynslice) steps.push_back(slice_step(factors, type));
  if (kind == CollectiveKind::allgather) steps.push_back(gather_step(factors, along, type));
  if (kind == CollectiveKind::alltoall) steps.push_back(alltoall_step(moves, along, type));
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
                  const CostModel& model) {
  const Mesh& mesh = source.mesh();
  std::vector<Device> names(static_cast<std::size_t>(mesh.device_count()));
  std::iota(names.begin(), names.end(), Device{0});
  for (std::size_t i = names.size(); i > 1; --i) {
    std::swap(names[i - 1], names[static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(i)))]);
  }
  std::vector<Step> all{exchange_step(Placement(source), renamed_placement(Placement(first), names))};
  for (const Step& step : steps) all.push_back(rename_devices(step, names));
  const DistributedType target = *arbitrary_type(mesh, source.global_shape());
  all.push_back(exchange_step(all.back().after, Placement(target)));
  return finish_plan(source, target, std::move(all), model);
}

}  // namespace

Plan gather_slice_plan(const DistributedType& source, const DistributedType& target, const CostModel& model) {
  PlanOptions options;
  options.planner = PlannerKind::gather_slice;
  options.cost_model = &model;
  return make_plan(Problem("test", source, target), options);
}

Plan finish_plan(const DistributedType& source, const DistributedType& target, std::vector<Step> steps,
                 const CostModel& model) {
  Movement movement{source.mesh(), Placement(source), std::move(steps)};
  PlanCost cost = price(model, movement);
  cost.floor = received_floor(source, target);
  cost.lower_bound = std::min(cost.floor, cost.total);
  cost.optimal = cost.lower_bound == cost.total;
  const std::int64_t peak = height(movement);
  const PlanMemory memory{source.local_size(), target.local_size(), std::max(peak, target.local_size()), peak};
  return {"test", source, target, std::move(movement), {}, "test", std::move(cost), memory, 0};
}

Groups groups_along(const Mesh& mesh, const std::vector<AxisPart>& parts) {
  // A group's members have one base: the device with the coordinates along the parts set to 0.
  std::map<Device, std::vector<Device>> by_base;
  for (Device device = 0; device < mesh.device_count(); ++device) {
    Device base = device;
    for (const AxisPart& part : parts) base -= mesh.coordinate(device, part) * mesh.stride(part);
    by_base[base].push_back(device);
  }
  Groups groups;
  for (auto& [base, members] : by_base) groups.push_back(std::move(members));
  return groups;
}

Step slice_step(std::vector<DimensionFactor> slices, const DistributedType& after) {
  return {SliceStep{std::move(slices)}, Placement(after)};
}

Step alltoall_step(std::vector<Move> moves, const std::vector<AxisPart>& along, const DistributedType& after) {
  return {AllToAllStep{std::move(moves), groups_along(after.mesh(), along)}, Placement(after)};
}

Step gather_step(std::vector<DimensionFactor> gathers, const std::vector<AxisPart>& along,
                 const DistributedType& after) {
  return {GatherStep{std::move(gathers), groups_along(after.mesh(), along)}, Placement(after)};
}

Step permute_step(const Placement& before, const Placement& after) {
  Step step{PermuteStep{}, after};
  list_devices(step, before);
  return step;
}

Step exchange_step(const Placement& before, const Placement& after) {
  std::vector<Piece> transfers;
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
  return {ExchangeStep{std::move(transfers)}, after};
}

namespace {

void rename(Device& device, const std::vector<Device>& names) { device = names[static_cast<std::size_t>(device)]; }

void rename(Groups& groups, const std::vector<Device>& names) {
  for (std::vector<Device>& group : groups) {
    for (Device& device : group) rename(device, names);
  }
}

void rename(std::vector<DevicePair>& pairs, const std::vector<Device>& names) {
  for (DevicePair& pair : pairs) {
    rename(pair.source, names);
    rename(pair.target, names);
  }
}

void rename(std::vector<Piece>& transfers, const std::vector<Device>& names) {
  for (Piece& transfer : transfers) {
    rename(transfer.from, names);
    rename(transfer.to, names);
  }
}

}  // namespace

Step rename_devices(const Step& step, const std::vector<Device>& names) {
  Step renamed{step.operation, renamed_placement(step.after, names)};
  const auto rename_list = [&](auto& list) {
    if (list) rename(*list, names);
  };
  if (auto* alltoall = std::get_if<AllToAllStep>(&renamed.operation)) rename_list(alltoall->groups);
  if (auto* gather = std::get_if<GatherStep>(&renamed.operation)) rename_list(gather->groups);
  if (auto* permute = std::get_if<PermuteStep>(&renamed.operation)) rename_list(permute->pairs);
  if (auto* exchange = std::get_if<ExchangeStep>(&renamed.operation)) rename_list(exchange->pieces);
  return renamed;
}

Movement without_lists(Movement movement) {
  for (Step& step : movement.steps) step.operation = retile::without_lists(step.operation);
  return movement;
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
  const auto slice = [](std::vector<DimensionFactor> slices) {
    return [=](const DistributedType&, const DistributedType& to) { return slice_step(slices, to); };
  };
  const auto gather = [](std::vector<DimensionFactor> gathers, std::vector<AxisPart> along) {
    return [=](const DistributedType&, const DistributedType& to) { return gather_step(gathers, along, to); };
  };
  const auto alltoall = [](std::vector<Move> moves, std::vector<AxisPart> along) {
    return [=](const DistributedType&, const DistributedType& to) { return alltoall_step(moves, along, to); };
  };
  const auto permute = [](const DistributedType& from, const DistributedType& to) {
    return permute_step(Placement(from), Placement(to));
  };
  const auto exchange = [](const DistributedType& from, const DistributedType& to) {
    return exchange_step(Placement(from), Placement(to));
  };
  add("dynslice", square, "[4, 4]", "[2{a}4, 4]", slice({{0, 2}}));
  add("wide dynslice", square, "[4, 4]", "[2{a}4, 2{b}4]", slice({{0, 2}, {1, 2}}));
  add("allgather", square, "[1{a,b}4, 4]", "[2{b}4, 4]", gather({{0, 2}}, {a}));
  add("wide allgather", square, "[2{a}4, 2{b}4]", "[4, 4]", gather({{0, 2}, {1, 2}}, {a, b}));
  add("alltoall", square, "[2{a}4, 4]", "[4, 2{a}4]", alltoall({{0, 1, 2}}, {a}));
  add("wide alltoall", square, "[2{a}4, 2{b}4, 4]", "[4, 4, 1{a,b}4]", alltoall({{0, 2, 2}, {1, 2, 2}}, {a, b}));
  // Groups that follow no axis: the alltoall deals its pieces by a mixture of b and c.
  add("free alltoall", cube, "[4, 1{a,b}4]", "[1{a,c}4, 4]", [](const DistributedType&, const DistributedType& to) {
    return Step{AllToAllStep{{{1, 0, 4}}, Groups{{0, 4, 3, 7}, {1, 5, 2, 6}}}, Placement(to)};
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
    const CostModel& model = arbitrary_model();
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

const CostModel& arbitrary_model() { return *rc::gen::arbitrary<bool>() ? paper_model() : volume_model(); }

}  // namespace retile::test
