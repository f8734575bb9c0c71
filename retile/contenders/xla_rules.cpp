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
#include "retile/plan/lists.h"
#include "retile/planner/frame.h"

namespace retile::contenders {
namespace {

constexpr std::int64_t most_devices = std::int64_t{1} << 20U;

// A step between tile assignments.
struct AssignmentStep {
  StepOperation operation;
  TileAssignment after;
};

using Steps = std::vector<AssignmentStep>;

// Whether everything may be gathered if no rule matches.
enum class LastResort { allowed, refused };

// Thrown where a check inside the compiler would fail.
struct FailedCheck {};

std::optional<Steps> try_reshard(const TileAssignment& source, const TileAssignment& target, LastResort last_resort);

Steps reshard(const TileAssignment& source, const TileAssignment& target) {
  return try_reshard(source, target, LastResort::allowed).value();
}

void append(Steps& steps, Steps more) {
  steps.insert(steps.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// --- Single collectives.

AssignmentStep permute(const TileAssignment& source, const TileAssignment& target) {
  std::vector<DevicePair> pairs;
  for (std::size_t i = 0; i < source.devices.size(); ++i) pairs.push_back({source.devices[i], target.devices[i]});
  return {PermuteStep{std::move(pairs)}, target};
}

Steps permute_if_needed(const TileAssignment& source, const TileAssignment& target) {
  return source == target ? Steps{} : Steps{permute(source, target)};
}

AssignmentStep slice(const TileAssignment& source, const TileAssignment& target) {
  SliceStep step;
  for (std::size_t i = 0; i < source.rank(); ++i) {
    const std::int64_t factor = target.counts[i] / source.counts[i];
    if (factor > 1) step.slices.push_back({static_cast<int>(i), factor});
  }
  return {std::move(step), target};
}

// One gather per dimension, from the last to the first.
Steps gather(const TileAssignment& source, const Shape& counts) {
  Steps steps;
  TileAssignment now = source;
  for (std::size_t i = source.rank(); i-- > 0;) {
    const std::int64_t factor = source.counts[i] / counts[i];
    if (factor == 1) continue;
    const std::vector<Move> moves{{static_cast<int>(i), replicas, factor}};
    steps.push_back({GatherStep{{{static_cast<int>(i), factor}}, groups_along(now, moves)}, after_moves(now, moves)});
    now = steps.back().after;
  }
  return steps;
}

Steps gather_all(const TileAssignment& source) { return gather(source, Shape(source.rank(), 1)); }

Steps gather_all_and_slice(const TileAssignment& source, const TileAssignment& target) {
  Steps steps = gather_all(source);
  steps.push_back(slice(steps.back().after, target));
  return steps;
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

// The first candidate that meets the condition; the last candidate where none does.
template <typename Condition>
std::size_t prefer(const std::vector<std::size_t>& candidates, Condition condition) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), condition);
  return found == candidates.end() ? candidates.back() : *found;
}

// The swaps that lead to the target's counts; nothing where swaps cannot.
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
  // A swap that gives away a count of 1 prefers a dimension that does not want it, so that others can take it. Any
  // other count goes where it is wanted.
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

AssignmentStep alltoall(const TileAssignment& source, const std::vector<DimensionPair>& swaps) {
  std::vector<Move> moves;
  for (const DimensionPair& swap : swaps) {
    if (source.counts[swap.from] % source.counts[swap.to] != 0) throw FailedCheck{};
    const std::int64_t factor = source.counts[swap.from] / source.counts[swap.to];
    moves.push_back({static_cast<int>(swap.from), static_cast<int>(swap.to), factor});
  }
  return {AllToAllStep{moves, groups_along(source, moves)}, after_moves(source, moves)};
}

// Swaps that share no dimension, in order of the dimension they lead to, and the others.
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

// Does the swaps. Two or more go into one collective where they can. After it, the next swap has a collective of its
// own, before the rest is combined again.
Steps do_swaps(const TileAssignment& source, const TileAssignment& target, std::vector<DimensionPair> swaps) {
  Steps steps;
  TileAssignment now = source;
  bool alone = false;
  while (!swaps.empty()) {
    SwapsAtOnce next = find_swaps_at_once(swaps);
    alone = alone || next.together.size() < 2;
    if (alone) next = {{swaps.front()}, {swaps.begin() + 1, swaps.end()}};
    steps.push_back(alltoall(now, next.together));
    now = steps.back().after;
    swaps = std::move(next.later);
    alone = !alone;
  }
  if (now.counts != target.counts) throw FailedCheck{};
  append(steps, permute_if_needed(now, target));
  return steps;
}

// --- Replicas on one side.

bool divides(const Shape& coarse, const Shape& fine) {
  return std::equal(coarse.begin(), coarse.end(), fine.begin(), [](auto a, auto b) { return b % a == 0; });
}

// An assignment with the fine one's counts, whose tiles lie inside the coarse one's on every device: the fine one if it
// does, otherwise replicas are cut in order.
TileAssignment nested_in(const TileAssignment& coarse, const TileAssignment& fine) {
  std::vector<Move> moves;
  std::vector<Move> back;
  for (std::size_t i = 0; i < coarse.rank(); ++i) {
    const std::int64_t factor = fine.counts[i] / coarse.counts[i];
    if (factor == 1) continue;
    moves.push_back({replicas, static_cast<int>(i), factor});
    back.push_back({static_cast<int>(i), replicas, factor});
  }
  return after_moves(fine, back) == coarse ? fine : after_moves(coarse, moves);
}

std::optional<Steps> try_slice(const TileAssignment& source, const TileAssignment& target) {
  if (!divides(source.counts, target.counts)) return std::nullopt;
  const TileAssignment sliced = nested_in(source, target);
  Steps steps{slice(source, sliced)};
  append(steps, permute_if_needed(sliced, target));
  return steps;
}

std::optional<Steps> try_gather(const TileAssignment& source, const TileAssignment& target) {
  if (!divides(target.counts, source.counts)) return std::nullopt;
  const TileAssignment permuted = nested_in(target, source);
  Steps steps = permute_if_needed(source, permuted);
  append(steps, gather(permuted, target.counts));
  return steps;
}

// Whether `tiled` is `partial` shifted by one dimension, replicas included, with the devices in the same order.
bool is_shifted(const TileAssignment& partial, const TileAssignment& tiled) {
  Shape counts = partial.counts;
  counts.push_back(partial.replicas);
  const bool has_shifted_counts =
      counts.front() == 1 && std::equal(counts.begin() + 1, counts.end(), tiled.counts.begin());
  return has_shifted_counts && partial.devices == tiled.devices;
}

// From [1, a; b], with b replicas, to [a, b] by way of [a, 1; b]: an all-to-all, then a slice. Or the reverse.
std::optional<Steps> try_shift(const TileAssignment& source, const TileAssignment& target) {
  if (source.is_partial() == target.is_partial()) return std::nullopt;
  const TileAssignment& partial = source.is_partial() ? source : target;
  const TileAssignment& tiled = source.is_partial() ? target : source;
  if (!is_shifted(partial, tiled)) return std::nullopt;
  const std::vector<Move> last{{static_cast<int>(tiled.rank()) - 1, replicas, partial.replicas}};
  const TileAssignment between = after_moves(tiled, last);
  const TileAssignment& swapped_from = source.is_partial() ? source : between;
  const TileAssignment& swapped_to = source.is_partial() ? between : target;
  const auto swaps = find_swaps(swapped_from, swapped_to);
  if (!swaps) return std::nullopt;
  Steps steps = reshard(source, swapped_from);
  append(steps, do_swaps(swapped_from, swapped_to, *swaps));
  append(steps, reshard(swapped_to, target));
  return steps;
}

// --- By way of another assignment, or of another shape.

std::optional<Steps> try_by_way_of(const TileAssignment& source, const TileAssignment& between,
                                   const TileAssignment& target) {
  std::optional<Steps> rest = try_reshard(between, target, LastResort::refused);
  if (!rest) return std::nullopt;
  Steps steps = reshard(source, between);
  append(steps, std::move(*rest));
  return steps;
}

struct Split {
  std::size_t dimension = 0;
  std::int64_t major = 1;  // tiles of the major part
};

// A dimension that is cut on both sides, where one count divides the other. Prefers one whose cuts go to, or come from,
// a dimension that is uncut on one side; otherwise the first that loses cuts.
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

// A step for the array with a split dimension, as a step for the original array. Nothing moves in the major part.
AssignmentStep with_merged(AssignmentStep step, std::size_t dimension) {
  step.after = with_merged(step.after, dimension);
  const auto merge = [&](int& number) {
    if (number > static_cast<int>(dimension)) --number;
  };
  if (auto* slice = std::get_if<SliceStep>(&step.operation)) {
    for (DimensionFactor& change : slice->slices) merge(change.dimension);
  } else if (auto* gather = std::get_if<GatherStep>(&step.operation)) {
    for (DimensionFactor& change : gather->gathers) merge(change.dimension);
  } else if (auto* alltoall = std::get_if<AllToAllStep>(&step.operation)) {
    for (Move& move : alltoall->moves) {
      merge(move.from);
      merge(move.to);
    }
  }
  return step;
}

std::optional<Steps> try_split(const TileAssignment& source, const TileAssignment& target, const Split& split) {
  std::optional<Steps> steps = try_reshard(with_split(source, split.dimension, split.major),
                                           with_split(target, split.dimension, split.major), LastResort::refused);
  if (!steps) return std::nullopt;
  for (AssignmentStep& step : *steps) step = with_merged(std::move(step), split.dimension);
  return steps;
}

// A dimension whose tiles can be gathered to give the target's number of replicas.
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

// The steps by the first pattern that matches, which decides even if it leads nowhere.
std::optional<Steps> try_patterns(const TileAssignment& source, const TileAssignment& target) {
  if (source.replicas == target.replicas) {
    if (const auto split = find_split(source, target)) return try_split(source, target, *split);
  }
  std::vector<Move> moves;
  if (const auto i = find_dimension_to_gather(source, target)) {
    moves = {{static_cast<int>(*i), replicas, source.counts[*i]}};
  } else if (const auto j = find_dimension_to_slice(source, target)) {
    moves = {{replicas, static_cast<int>(*j), source.replicas}};
  }
  if (moves.empty()) return std::nullopt;
  return try_by_way_of(source, after_moves(source, moves), target);
}

// --- Within groups of devices.

// The target's assignment inside groups, in terms of the positions that its devices have in the source's groups. Where
// the groups differ, it is taken as it is, and a permutation corrects the devices in the end.
TileAssignment aligned_inside(const GroupedAssignment& target, const GroupedAssignment& source) {
  for (std::size_t i = 0; i < source.groups.size(); ++i) {
    const std::set<Device> members(source.groups[i].begin(), source.groups[i].end());
    const auto is_member = [&](Device device) { return members.contains(device); };
    if (!std::all_of(target.groups[i].begin(), target.groups[i].end(), is_member)) return target.inside;
  }
  std::map<Device, Device> position;  // in the source's first group
  for (std::size_t i = 0; i < source.groups.front().size(); ++i) {
    position[source.groups.front()[i]] = static_cast<Device>(i);
  }
  std::vector<Device> renamed;
  for (const Device device : target.groups.front()) renamed.push_back(position.at(device));
  return with_renamed_devices(target.inside, renamed);
}

// The groups of positions as groups of devices, for every group of devices.
Groups named(const Groups& positions, const GroupedAssignment& grouped) {
  Groups groups;
  for (const std::vector<Device>& names : grouped.groups) {
    for (const std::vector<Device>& group : positions) {
      std::transform(group.begin(), group.end(), std::back_inserter(groups.emplace_back()),
                     [&](Device position) { return names[static_cast<std::size_t>(position)]; });
    }
  }
  return groups;
}

// The step as all groups do it together.
AssignmentStep in_groups(const AssignmentStep& step, const GroupedAssignment& grouped) {
  AssignmentStep result{step.operation, ungroup(grouped, step.after)};
  if (auto* gather = std::get_if<GatherStep>(&result.operation)) gather->groups = named(*gather->groups, grouped);
  if (auto* alltoall = std::get_if<AllToAllStep>(&result.operation)) {
    alltoall->groups = named(*alltoall->groups, grouped);
  }
  if (auto* permute = std::get_if<PermuteStep>(&result.operation)) {
    std::vector<DevicePair> pairs;
    for (const std::vector<Device>& names : grouped.groups) {
      const auto name = [&](Device position) { return names[static_cast<std::size_t>(position)]; };
      for (const DevicePair& pair : *permute->pairs) pairs.push_back({name(pair.source), name(pair.target)});
    }
    permute->pairs = std::move(pairs);
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

Steps reshard_in_groups(const TileAssignment& source, const TileAssignment& target,
                        const std::vector<std::size_t>& dimensions) {
  const GroupedAssignment grouped = group_by(source, dimensions);
  const TileAssignment inside = aligned_inside(group_by(target, dimensions), grouped);
  Steps steps;
  for (const AssignmentStep& step : reshard(grouped.inside, inside)) steps.push_back(in_groups(step, grouped));
  append(steps, permute_if_needed(ungroup(grouped, inside), target));
  return steps;
}

// --- All rules, first match wins.

std::optional<Steps> try_reshard(const TileAssignment& source, const TileAssignment& target, LastResort last_resort) {
  if (source.counts == target.counts) return permute_if_needed(source, target);
  if (source.is_replicated()) return Steps{slice(source, target)};
  if (target.is_replicated()) return gather_all(source);
  if (const auto swaps = find_swaps(source, target)) return do_swaps(source, target, *swaps);
  if (source.is_partial()) {
    if (auto steps = try_slice(source, target)) return steps;
    if (auto steps = try_shift(source, target)) return steps;
  }
  if (target.is_partial()) {
    if (auto steps = try_gather(source, target)) return steps;
    if (auto steps = try_shift(source, target)) return steps;
  }
  if (auto steps = try_patterns(source, target)) return steps;
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

// The steps by the rules; nothing where a check inside the compiler would fail.
std::optional<Steps> steps_by_rules(const TileAssignment& source, const TileAssignment& target) {
  try {
    return reshard(source, target);
  } catch (const FailedCheck&) {
    return std::nullopt;
  }
}

Step step_of(AssignmentStep step, const Placement& before) {
  const auto order = [&](std::optional<Groups>& groups) { groups = order_groups(std::move(*groups), before); };
  if (auto* gather = std::get_if<GatherStep>(&step.operation)) order(gather->groups);
  if (auto* alltoall = std::get_if<AllToAllStep>(&step.operation)) order(alltoall->groups);
  return {std::move(step.operation), placement_of(step.after, before.global_shape())};
}

std::vector<Step> plan_steps(const TypedProblem& problem) {
  const TileAssignment source = assignment_of(problem.source());
  const TileAssignment target = assignment_of(problem.target());
  std::optional<Steps> steps = steps_by_rules(source, target);
  if (!steps) steps = gather_all_and_slice(source, target);
  std::vector<Step> planned;
  for (AssignmentStep& step : *steps) {
    planned.push_back(step_of(std::move(step), planned.empty() ? Placement(problem.source()) : planned.back().after));
  }
  return planned;
}

// The types that the partitioner sees: it pads arrays whose sizes do not divide.
Frame compiled_frame(const Problem& problem) {
  if (const auto ends = typed(problem)) return {ends->source(), ends->target(), ends->source().global_shape(), {}};
  if (problem.source().is_partial()) throw InputError("XLA's rules for sums are not in the model", {});
  auto frame = find_frame(problem);
  if (frame && frame->view.empty()) return std::move(*frame);
  throw InputError("XLA's rules are modelled for one mesh and for sizes that have a common padding",
                   "dimensions are cut as a whole, and rounded up to tiles of one size they are as long on both sides");
}

}  // namespace

Plan plan_by_xla_rules(const Problem& problem, const CostModel& model) {
  const auto start = std::chrono::steady_clock::now();
  const Frame frame = compiled_frame(problem);
  const TypedProblem ends(frame.source, frame.target);
  check_device_count(ends.mesh());
  Movement movement{ends.mesh(), Placement(frame.shape, ends.source()), plan_steps(ends)};
  for (Step& step : movement.steps) step.after = clip(step.after, frame.shape);
  Plan plan{problem.id(), problem.source(), problem.target(), std::move(movement), {}, "xla", {}, {}, 0};
  const std::int64_t peak = height(plan.movement);
  plan.memory = {problem.source().local_size(), problem.target().local_size(), peak, peak};
  plan.cost = price(model, plan.movement);
  plan.cost.floor = typed(problem) ? received_floor(ends.source(), ends.target())
                                   : received_floor(plan.movement.source, Placement(frame.shape, ends.target()));
  plan.cost.lower_bound = plan.cost.floor;
  plan.cost.optimal = plan.cost.total == plan.cost.lower_bound;
  plan.planning_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

Problem padded_for_xla(const Problem& problem) {
  const Frame frame = compiled_frame(problem);
  return {problem.id(), frame.source, frame.target, problem.element_type()};
}

bool xla_fails(const Problem& problem) {
  const Frame frame = compiled_frame(problem);
  const TypedProblem ends(frame.source, frame.target);
  check_device_count(ends.mesh());
  return !steps_by_rules(assignment_of(ends.source()), assignment_of(ends.target()));
}

}  // namespace retile::contenders
