#include "retile/contenders/xla_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/contenders/tile_assignment.h"

namespace retile::contenders {
namespace {

constexpr std::int64_t most_devices = std::int64_t{1} << 20U;

// A step between tile assignments.
struct Stage {
  StepOp op = StepOp::dynslice;
  std::vector<Move> moves;
  std::vector<std::vector<Device>> groups;
  std::vector<DevicePair> pairs;
  TileAssignment after;
};

using Stages = std::vector<Stage>;

// Whether everything may be gathered where no rule matches.
enum class LastResort { allowed, refused };

// Thrown where the compiler would end.
struct FailedCheck {};

std::optional<Stages> try_reshard(const TileAssignment& source, const TileAssignment& target, LastResort last_resort);

Stages reshard(const TileAssignment& source, const TileAssignment& target) {
  return try_reshard(source, target, LastResort::allowed).value();
}

void append(Stages& stages, Stages more) {
  stages.insert(stages.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// --- Single collectives.

Stage permute(const TileAssignment& source, const TileAssignment& target) {
  Stage stage{StepOp::allpermute, {}, {}, {}, target};
  for (std::size_t i = 0; i < source.devices.size(); ++i) {
    stage.pairs.push_back({source.devices[i], target.devices[i]});
  }
  return stage;
}

Stages permute_if_needed(const TileAssignment& source, const TileAssignment& target) {
  return source == target ? Stages{} : Stages{permute(source, target)};
}

Stage slice(const TileAssignment& source, const TileAssignment& target) {
  Stage stage{StepOp::dynslice, {}, {}, {}, target};
  for (std::size_t i = 0; i < source.rank(); ++i) {
    const std::int64_t factor = target.counts[i] / source.counts[i];
    if (factor > 1) stage.moves.push_back({-1, static_cast<int>(i), factor});
  }
  return stage;
}

// One gather per dimension, last to first.
Stages gather(const TileAssignment& source, const Shape& counts) {
  Stages stages;
  TileAssignment now = source;
  for (std::size_t i = source.rank(); i-- > 0;) {
    const std::int64_t factor = source.counts[i] / counts[i];
    if (factor == 1) continue;
    const std::vector<Move> moves{{static_cast<int>(i), -1, factor}};
    stages.push_back({StepOp::allgather, moves, groups_along(now, moves), {}, after_moves(now, moves)});
    now = stages.back().after;
  }
  return stages;
}

Stages gather_all(const TileAssignment& source) { return gather(source, Shape(source.rank(), 1)); }

Stages gather_all_and_slice(const TileAssignment& source, const TileAssignment& target) {
  Stages stages = gather_all(source);
  stages.push_back(slice(stages.back().after, target));
  return stages;
}

// --- All-to-alls: dimensions swap their tile counts, pair by pair.

struct DimensionPair {
  std::size_t from = 0;
  std::size_t to = 0;
};

using DimensionsByCount = std::map<std::int64_t, std::vector<std::size_t>>;

void remove(DimensionsByCount& by_count, std::int64_t count, std::size_t dimension) {
  std::erase(by_count[count], dimension);
  if (by_count[count].empty()) by_count.erase(count);
}

bool have_equal_counts(const DimensionsByCount& a, const DimensionsByCount& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.size() == y.second.size();
  });
}

// The first candidate that meets the condition, else the last of all.
template <typename Condition>
std::size_t prefer(const std::vector<std::size_t>& candidates, Condition condition) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), condition);
  return found == candidates.end() ? candidates.back() : *found;
}

// Nothing where swaps cannot do it.
std::optional<std::vector<DimensionPair>> find_swaps(const TileAssignment& source, const TileAssignment& target) {
  if (source.replicas != target.replicas) return std::nullopt;
  DimensionsByCount sources;
  DimensionsByCount targets;
  for (std::size_t i = 0; i < source.rank(); ++i) {
    if (source.counts[i] == target.counts[i]) continue;
    sources[source.counts[i]].push_back(i);
    targets[target.counts[i]].push_back(i);
  }
  if (!have_equal_counts(sources, targets)) return std::nullopt;
  std::vector<DimensionPair> swaps;
  // With 1 tile to give, a swap had better leave it where it is not wanted, for others to take; else where it is.
  while (!sources.empty()) {
    const std::int64_t smallest = sources.begin()->first;
    const std::size_t to = sources.begin()->second.back();
    const std::int64_t wanted = target.counts[to];
    if (wanted == smallest) {
      remove(sources, smallest, to);
      continue;
    }
    if (wanted % smallest != 0) return std::nullopt;
    const std::size_t from = prefer(sources[wanted], [&](std::size_t i) {
      return smallest == 1 ? target.counts[i] != 1 : target.counts[i] == smallest;
    });
    swaps.push_back({from, to});
    sources[smallest].back() = from;
    remove(sources, wanted, from);
  }
  return swaps;
}

Stage alltoall(const TileAssignment& source, const std::vector<DimensionPair>& swaps) {
  std::vector<Move> moves;
  for (const DimensionPair& swap : swaps) {
    if (source.counts[swap.from] % source.counts[swap.to] != 0) throw FailedCheck{};
    const std::int64_t factor = source.counts[swap.from] / source.counts[swap.to];
    moves.push_back({static_cast<int>(swap.from), static_cast<int>(swap.to), factor});
  }
  return {StepOp::alltoall, moves, groups_along(source, moves), {}, after_moves(source, moves)};
}

// Swaps that share no dimension, by the dimension they lead to; and the others.
struct SwapsAtOnce {
  std::vector<DimensionPair> together;
  std::vector<DimensionPair> later;
};

SwapsAtOnce find_swaps_at_once(std::vector<DimensionPair> swaps) {
  std::stable_sort(swaps.begin(), swaps.end(), [](const auto& a, const auto& b) { return a.to < b.to; });
  SwapsAtOnce result;
  std::set<std::size_t> seen;
  for (const DimensionPair& swap : swaps) {
    const bool is_free = !seen.contains(swap.from) && !seen.contains(swap.to);
    (is_free ? result.together : result.later).push_back(swap);
    if (is_free) seen.insert({swap.from, swap.to});
  }
  return result;
}

// Two swaps or more go into one collective where they can. The next swap then has one of its own, before the rest is
// put together again.
Stages do_swaps(const TileAssignment& source, const TileAssignment& target, std::vector<DimensionPair> swaps) {
  Stages stages;
  TileAssignment now = source;
  bool alone = false;
  while (!swaps.empty()) {
    SwapsAtOnce next = find_swaps_at_once(swaps);
    alone = alone || next.together.size() < 2;
    if (alone) next = {{swaps.front()}, {swaps.begin() + 1, swaps.end()}};
    stages.push_back(alltoall(now, next.together));
    now = stages.back().after;
    swaps = std::move(next.later);
    alone = !alone;
  }
  if (now.counts != target.counts) throw FailedCheck{};
  append(stages, permute_if_needed(now, target));
  return stages;
}

// --- Replicas on one side.

bool divides(const Shape& coarse, const Shape& fine) {
  return std::equal(coarse.begin(), coarse.end(), fine.begin(), [](auto a, auto b) { return b % a == 0; });
}

// An assignment with the fine one's counts whose tiles lie in the coarse one's on every device: the fine one if it
// does, else replicas are cut in order.
TileAssignment nested_in(const TileAssignment& coarse, const TileAssignment& fine) {
  const std::vector<Move> moves = slice(coarse, fine).moves;
  std::vector<Move> back = moves;
  for (Move& move : back) std::swap(move.from, move.to);
  return after_moves(fine, back) == coarse ? fine : after_moves(coarse, moves);
}

std::optional<Stages> try_slice(const TileAssignment& source, const TileAssignment& target) {
  if (!divides(source.counts, target.counts)) return std::nullopt;
  const TileAssignment sliced = nested_in(source, target);
  Stages stages{slice(source, sliced)};
  append(stages, permute_if_needed(sliced, target));
  return stages;
}

std::optional<Stages> try_gather(const TileAssignment& source, const TileAssignment& target) {
  if (!divides(target.counts, source.counts)) return std::nullopt;
  const TileAssignment permuted = nested_in(target, source);
  Stages stages = permute_if_needed(source, permuted);
  append(stages, gather(permuted, target.counts));
  return stages;
}

// Whether `tiled` is `partial` shifted by one dimension, replicas included, with the devices in the same order.
bool is_shifted(const TileAssignment& partial, const TileAssignment& tiled) {
  Shape counts = partial.counts;
  counts.push_back(partial.replicas);
  const bool has_shifted_counts =
      counts.front() == 1 && std::equal(counts.begin() + 1, counts.end(), tiled.counts.begin());
  return has_shifted_counts && partial.devices == tiled.devices;
}

// From [1, a; b], with b replicas, to [a, b] by way of [a, 1; b]: an all-to-all, then a slice. And the other way round.
std::optional<Stages> try_shift(const TileAssignment& source, const TileAssignment& target) {
  if (source.is_partial() == target.is_partial()) return std::nullopt;
  const TileAssignment& partial = source.is_partial() ? source : target;
  const TileAssignment& tiled = source.is_partial() ? target : source;
  if (!is_shifted(partial, tiled)) return std::nullopt;
  const std::vector<Move> last{{static_cast<int>(tiled.rank()) - 1, -1, partial.replicas}};
  const TileAssignment between = after_moves(tiled, last);
  const TileAssignment& swapped_from = source.is_partial() ? source : between;
  const TileAssignment& swapped_to = source.is_partial() ? between : target;
  const auto swaps = find_swaps(swapped_from, swapped_to);
  if (!swaps) return std::nullopt;
  Stages stages = reshard(source, swapped_from);
  append(stages, do_swaps(swapped_from, swapped_to, *swaps));
  append(stages, reshard(swapped_to, target));
  return stages;
}

// --- By way of another assignment, or of another shape.

std::optional<Stages> try_by_way_of(const TileAssignment& source, const TileAssignment& between,
                                    const TileAssignment& target) {
  std::optional<Stages> rest = try_reshard(between, target, LastResort::refused);
  if (!rest) return std::nullopt;
  Stages stages = reshard(source, between);
  append(stages, std::move(*rest));
  return stages;
}

struct Split {
  std::size_t dimension = 0;
  std::int64_t major = 1;  // tiles of the major part
};

// A dimension that is cut on both sides, one count dividing the other. Best is one whose cuts go to, or come from, a
// dimension that is uncut on one side; else the first that loses cuts.
std::optional<Split> find_split(const TileAssignment& source, const TileAssignment& target) {
  std::vector<std::size_t> uncut;  // on one side
  std::vector<std::size_t> cut;    // on both
  for (std::size_t i = 0; i < source.rank(); ++i) {
    const auto [least, most] = std::minmax(source.counts[i], target.counts[i]);
    if (least == most) continue;
    if (least == 1) uncut.push_back(i);
    if (least > 1 && most % least == 0) cut.push_back(i);
  }
  for (const std::size_t i : cut) {
    const auto pairs_with = [&](std::size_t j) {
      return source.counts[i] * source.counts[j] == target.counts[i] * target.counts[j];
    };
    if (std::any_of(uncut.begin(), uncut.end(), pairs_with)) {
      return Split{i, std::min(source.counts[i], target.counts[i])};
    }
  }
  for (const std::size_t i : cut) {
    if (source.counts[i] > target.counts[i]) return Split{i, target.counts[i]};
  }
  return std::nullopt;
}

// The stage of an array whose `dimension` is split, for the array as it was. Nothing moves in the major part.
Stage with_merged(Stage stage, std::size_t dimension) {
  stage.after = with_merged(stage.after, dimension);
  for (Move& move : stage.moves) {
    if (move.from > static_cast<int>(dimension)) --move.from;
    if (move.to > static_cast<int>(dimension)) --move.to;
  }
  return stage;
}

std::optional<Stages> try_split(const TileAssignment& source, const TileAssignment& target, const Split& split) {
  std::optional<Stages> stages = try_reshard(with_split(source, split.dimension, split.major),
                                             with_split(target, split.dimension, split.major), LastResort::refused);
  if (!stages) return std::nullopt;
  for (Stage& stage : *stages) stage = with_merged(std::move(stage), split.dimension);
  return stages;
}

// A dimension whose tiles, gathered, give the target's number of replicas.
std::optional<std::size_t> find_dimension_to_gather(const TileAssignment& source, const TileAssignment& target) {
  if (!target.is_partial()) return std::nullopt;
  for (std::size_t i = 0; i < source.rank(); ++i) {
    if (source.counts[i] > 1 && source.counts[i] * source.replicas == target.replicas) return i;
  }
  return std::nullopt;
}

// An uncut dimension that can be sliced by all replicas.
std::optional<std::size_t> find_dimension_to_slice(const TileAssignment& source, const TileAssignment& target) {
  if (!source.is_partial() || target.is_partial()) return std::nullopt;
  for (std::size_t i = 0; i < source.rank(); ++i) {
    const bool is_new = source.counts[i] == 1 && target.counts[i] != 1;
    if (is_new && target.counts[i] % source.replicas == 0) return i;
  }
  return std::nullopt;
}

// The first pattern that matches decides, even where it leads nowhere.
std::optional<Stages> try_patterns(const TileAssignment& source, const TileAssignment& target) {
  if (source.replicas == target.replicas) {
    if (const auto split = find_split(source, target)) return try_split(source, target, *split);
  }
  std::vector<Move> moves;
  if (const auto i = find_dimension_to_gather(source, target)) {
    moves = {{static_cast<int>(*i), -1, source.counts[*i]}};
  } else if (const auto j = find_dimension_to_slice(source, target)) {
    moves = {{-1, static_cast<int>(*j), source.replicas}};
  }
  if (moves.empty()) return std::nullopt;
  return try_by_way_of(source, after_moves(source, moves), target);
}

// --- Within groups of devices.

// The target's assignment inside groups, for the positions that its devices have in the source's groups. Where the
// groups differ, it is taken as it is, and devices are put right in the end.
TileAssignment aligned_inside(const GroupedAssignment& target, const GroupedAssignment& source) {
  for (std::size_t i = 0; i < source.groups.size(); ++i) {
    const std::set<Device> members(source.groups[i].begin(), source.groups[i].end());
    const auto is_member = [&](Device device) { return members.contains(device); };
    if (!std::all_of(target.groups[i].begin(), target.groups[i].end(), is_member)) return target.inside;
  }
  std::map<Device, Device> position;  // in the first of the source's groups
  for (std::size_t i = 0; i < source.groups.front().size(); ++i) {
    position[source.groups.front()[i]] = static_cast<Device>(i);
  }
  std::vector<Device> renamed;
  for (const Device device : target.groups.front()) renamed.push_back(position.at(device));
  return with_renamed_devices(target.inside, renamed);
}

// The stage as all groups do it together.
Stage in_groups(const Stage& stage, const GroupedAssignment& grouped) {
  Stage result{stage.op, stage.moves, {}, {}, ungroup(grouped, stage.after)};
  for (const std::vector<Device>& names : grouped.groups) {
    const auto name = [&](Device position) { return names[static_cast<std::size_t>(position)]; };
    for (const std::vector<Device>& group : stage.groups) {
      std::transform(group.begin(), group.end(), std::back_inserter(result.groups.emplace_back()), name);
    }
    for (const DevicePair& pair : stage.pairs) result.pairs.push_back({name(pair.source), name(pair.target)});
  }
  return result;
}

std::vector<std::size_t> equally_cut_dimensions(const TileAssignment& source, const TileAssignment& target) {
  std::vector<std::size_t> dimensions;
  for (std::size_t i = 0; i < source.rank(); ++i) {
    if (source.counts[i] > 1 && source.counts[i] == target.counts[i]) dimensions.push_back(i);
  }
  return dimensions;
}

Stages reshard_in_groups(const TileAssignment& source, const TileAssignment& target,
                         const std::vector<std::size_t>& dimensions) {
  const GroupedAssignment grouped = group_by(source, dimensions);
  const TileAssignment inside = aligned_inside(group_by(target, dimensions), grouped);
  Stages stages;
  for (const Stage& stage : reshard(grouped.inside, inside)) stages.push_back(in_groups(stage, grouped));
  append(stages, permute_if_needed(ungroup(grouped, inside), target));
  return stages;
}

// --- All rules, first match wins.

std::optional<Stages> try_reshard(const TileAssignment& source, const TileAssignment& target, LastResort last_resort) {
  if (source.counts == target.counts) return permute_if_needed(source, target);
  if (source.is_replicated()) return Stages{slice(source, target)};
  if (target.is_replicated()) return gather_all(source);
  if (const auto swaps = find_swaps(source, target)) return do_swaps(source, target, *swaps);
  if (source.is_partial()) {
    if (auto stages = try_slice(source, target)) return stages;
    if (auto stages = try_shift(source, target)) return stages;
  }
  if (target.is_partial()) {
    if (auto stages = try_gather(source, target)) return stages;
    if (auto stages = try_shift(source, target)) return stages;
  }
  if (auto stages = try_patterns(source, target)) return stages;
  const std::vector<std::size_t> equal = equally_cut_dimensions(source, target);
  if (!equal.empty()) return reshard_in_groups(source, target, equal);
  if (last_resort == LastResort::refused) return std::nullopt;
  return gather_all_and_slice(source, target);
}

// --- Plans.

void check_device_count(const Mesh& mesh) {
  if (mesh.device_count() <= most_devices) return;
  throw InputError(fmt::format("{} devices are too many for XLA's rules", mesh.device_count()),
                   fmt::format("plans by these rules list their devices, up to {}", most_devices));
}

// Nothing where the compiler would end.
std::optional<Stages> stages_by_rules(const TileAssignment& source, const TileAssignment& target) {
  try {
    return reshard(source, target);
  } catch (const FailedCheck&) {
    return std::nullopt;
  }
}

Step step_of(Stage stage, const Placement& before) {
  Step step{stage.op,
            std::move(stage.moves),
            {},
            std::move(stage.pairs),
            {},
            before.local_shape(),
            placement_of(stage.after, before.global_shape())};
  if (!stage.groups.empty()) step.groups = DeviceGroups(order_groups(std::move(stage.groups), before));
  return step;
}

std::vector<Step> plan_steps(const Problem& problem) {
  const TileAssignment source = assignment_of(problem.source());
  const TileAssignment target = assignment_of(problem.target());
  std::optional<Stages> stages = stages_by_rules(source, target);
  if (!stages) stages = gather_all_and_slice(source, target);
  std::vector<Step> steps;
  for (Stage& stage : *stages) {
    steps.push_back(step_of(std::move(stage), steps.empty() ? Placement(problem.source()) : steps.back().after));
  }
  return steps;
}

std::optional<XlaOp> collective_of(StepOp op) {
  switch (op) {
    case StepOp::allgather:
      return XlaOp::all_gather;
    case StepOp::alltoall:
      return XlaOp::all_to_all;
    case StepOp::allpermute:
      return XlaOp::collective_permute;
    case StepOp::dynslice:
    case StepOp::exchange:
      return std::nullopt;
  }
  throw InternalError("unknown step");
}

}  // namespace

Plan plan_by_xla_rules(const Problem& problem, CostModel model) {
  const auto start = std::chrono::steady_clock::now();
  check_device_count(problem.mesh());
  Plan plan{problem.id(), problem.source(), problem.target(), "xla", {}, {}, 0, plan_steps(problem)};
  plan.memory = {problem.source().local_size(), problem.target().local_size(),
                 std::max(problem.source().local_size(), problem.target().local_size()), problem.source().local_size()};
  for (const Step& step : plan.steps) plan.memory.peak = std::max(plan.memory.peak, step.after.local_size());
  price(plan, model);
  plan.cost.floor = received_floor(problem.source(), problem.target());
  plan.cost.lower_bound = plan.cost.floor;
  plan.planning_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

bool xla_fails(const Problem& problem) {
  check_device_count(problem.mesh());
  return !stages_by_rules(assignment_of(problem.source()), assignment_of(problem.target()));
}

bool has_collectives_of(const Plan& plan, const XlaPlan& recorded) {
  std::vector<std::pair<XlaOp, std::int64_t>> planned;
  for (const Step& step : plan.steps) {
    if (const auto op = collective_of(step.op)) planned.emplace_back(*op, step.after.local_size());
  }
  const auto is_same = [](const auto& ours, const XlaStep& step) {
    return ours.first == step.op && ours.second == step.out_size();
  };
  return std::equal(planned.begin(), planned.end(), recorded.steps.begin(), recorded.steps.end(), is_same);
}

}  // namespace retile::contenders
