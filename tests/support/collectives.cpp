#include "tests/support/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"

namespace retile::test {
namespace {

using Parts = std::vector<AxisPart>;

std::vector<Collective> applicable(const DistributedType& type, std::vector<Collective> candidates) {
  std::erase_if(candidates, [&](const Collective& step) { return find_fault(type, step).has_value(); });
  return candidates;
}

void add_steps_along(const DistributedType& type, const Parts& parts, std::vector<Collective>& steps) {
  for (int i = 0; i < type.rank(); ++i) {
    steps.emplace_back(DynSlice{i, parts});
    steps.emplace_back(AllGather{i, parts});
    for (int j = 0; j < type.rank(); ++j) {
      if (i != j) steps.emplace_back(AllToAll{i, j, parts});
    }
  }
}

// Every non-empty ordered choice of the parts.
void choose_ordered(const Parts& available, Parts& chosen, std::vector<Parts>& all) {
  if (!chosen.empty()) all.push_back(chosen);
  for (const AxisPart& part : available) {
    if (std::find(chosen.begin(), chosen.end(), part) != chosen.end()) continue;
    chosen.push_back(part);
    choose_ordered(available, chosen, all);
    chosen.pop_back();
  }
}

int draw_index(std::size_t count) { return *rc::gen::inRange(0, static_cast<int>(count)); }

Parts draw_order(Parts parts) {
  for (std::size_t i = parts.size(); i > 1; --i) {
    std::swap(parts[i - 1], parts[static_cast<std::size_t>(draw_index(i))]);
  }
  return parts;
}

// A type of the same shapes: for every prime that cuts a dimension, some axis of that size.
DistributedType draw_permutation(const DistributedType& type) {
  Parts unused = draw_order(type.mesh().prime_parts());
  std::vector<Parts> cuts;
  for (const Dimension& dimension : type.dimensions()) {
    Parts& cut = cuts.emplace_back();
    for (const std::int64_t prime : prime_factors(dimension.global / dimension.tile)) {
      const auto found =
          std::find_if(unused.begin(), unused.end(), [&](const AxisPart& part) { return part.size == prime; });
      cut.push_back(*found);
      unused.erase(found);
    }
    cut = draw_order(cut);
  }
  return DistributedType::cut(type.mesh(), type.global_shape(), cuts);
}

Parts take(Parts parts, int count) {
  parts.resize(std::min(parts.size(), static_cast<std::size_t>(count)));
  return parts;
}

Collective draw_collective(const DistributedType& type) {
  const auto rank = static_cast<std::size_t>(type.rank());
  const int dimension = draw_index(rank);
  const int other = draw_index(rank);
  const int count = draw_index(3) + 1;
  const Parts held = split_into_primes(type.mesh(), type.dimension(dimension).axes);
  // A permutation always applies, the others often do not.
  constexpr auto slice = CollectiveKind::dynslice;
  constexpr auto move = CollectiveKind::alltoall;
  constexpr auto gather = CollectiveKind::allgather;
  constexpr std::array kinds{slice, slice, move, move, move, gather, gather, CollectiveKind::allpermute};
  switch (kinds[static_cast<std::size_t>(draw_index(kinds.size()))]) {
    case CollectiveKind::dynslice:
      return DynSlice{dimension, take(draw_order(type.free_primes()), count)};
    case CollectiveKind::alltoall:
      return AllToAll{dimension, other, take(held, count)};
    case CollectiveKind::allgather:
      return AllGather{dimension, take(held, count)};
    case CollectiveKind::allpermute:
      break;
  }
  return AllPermute{draw_permutation(type)};
}

void visit_longer(Sequence& current, int most_added, const StepsOfType& steps,
                  const std::function<void(const Sequence&)>& visit, std::int64_t& count) {
  ++count;
  visit(current);
  if (most_added == 0) return;
  for (const Collective& step : steps(current.target())) {
    Sequence longer = current;
    longer.append(step);
    visit_longer(longer, most_added - 1, steps, visit, count);
  }
}

}  // namespace

std::vector<Mesh> prime_meshes(std::int64_t most_devices) {
  std::vector<Mesh> meshes = all_meshes(most_devices);
  std::erase_if(meshes, [](const Mesh& mesh) {
    return std::any_of(mesh.axes().begin(), mesh.axes().end(),
                       [](const Axis& axis) { return prime_factors(axis.size).size() != 1; });
  });
  return meshes;
}

Sequence sequence_of(std::string_view text) { return parse_sequence({"sequence", std::string(text)}); }

std::vector<Collective> candidate_collectives(const DistributedType& type) {
  std::vector<Collective> steps;
  for (const AxisPart& part : type.mesh().prime_parts()) add_steps_along(type, {part}, steps);
  return steps;
}

std::vector<Collective> single_axis_collectives(const DistributedType& type) {
  return applicable(type, candidate_collectives(type));
}

std::vector<Collective> multi_axis_collectives(const DistributedType& type) {
  std::vector<Parts> choices;
  Parts none;
  choose_ordered(type.mesh().prime_parts(), none, choices);
  std::vector<Collective> steps;
  for (const Parts& parts : choices) add_steps_along(type, parts, steps);
  return applicable(type, std::move(steps));
}

std::vector<Collective> permutations(const DistributedType& type, std::span<const DistributedType> candidates) {
  std::vector<Collective> steps;
  for (const DistributedType& candidate : candidates) {
    if (weaken(candidate) == weaken(type)) steps.emplace_back(AllPermute{candidate});
  }
  return steps;
}

std::int64_t for_each_sequence(const Sequence& start, int most_added, const StepsOfType& steps,
                               const std::function<void(const Sequence&)>& visit) {
  std::int64_t count = 0;
  Sequence current = start;
  visit_longer(current, most_added, steps, visit, count);
  return count;
}

std::vector<WeakType> all_weak_types(const Mesh& mesh, const Shape& global) {
  std::vector<WeakType> types{{global, {}}};
  for (const std::int64_t size : global) {
    std::vector<WeakType> longer;
    for (const WeakType& type : types) {
      for (std::int64_t local = 1; local <= size; ++local) {
        if (size % local != 0) continue;
        longer.push_back(type);
        longer.back().local.push_back(local);
      }
    }
    types = std::move(longer);
  }
  std::erase_if(types, [&](const WeakType& type) { return !is_supplied(mesh, type); });
  return types;
}

std::vector<WeakStep> weak_steps(const Mesh& mesh, const WeakType& type, Factors factors) {
  std::vector<WeakStep> steps;
  for (std::int64_t factor = 2; factor <= mesh.device_count(); ++factor) {
    if (factors == Factors::prime && prime_factors(factor).size() != 1) continue;
    for (int i = 0; i < static_cast<int>(type.local.size()); ++i) {
      steps.push_back(weak_slice(i, factor));
      steps.push_back(weak_gather(i, factor));
      for (int j = 0; j < static_cast<int>(type.local.size()); ++j) {
        if (i != j) steps.push_back(weak_alltoall(i, j, factor));
      }
    }
  }
  std::erase_if(steps, [&](const WeakStep& step) { return find_fault(mesh, type, step).has_value(); });
  return steps;
}

std::int64_t for_each_weak_sequence(const WeakSequence& start, int most_added, Factors factors,
                                    const std::function<void(const WeakSequence&)>& visit) {
  visit(start);
  std::int64_t count = 1;
  if (most_added == 0) return count;
  for (const WeakStep& step : weak_steps(start.mesh(), start.target(), factors)) {
    WeakSequence longer = start;
    longer.append(step);
    count += for_each_weak_sequence(longer, most_added - 1, factors, visit);
  }
  return count;
}

rc::Gen<Sequence> arbitrary_sequence(const DistributedType& source, int longest) {
  const auto draw = [source, longest] {
    Sequence sequence(source);
    const int length = *rc::gen::inRange(0, longest + 1);
    for (int i = 0; i < length; ++i) {
      Collective step = draw_collective(sequence.target());
      for (int again = 0; again < 8 && find_fault(sequence.target(), step); ++again) {
        step = draw_collective(sequence.target());
      }
      if (!find_fault(sequence.target(), step)) sequence.append(step);
    }
    return sequence;
  };
  // At full size from the start: RapidCheck scales ranges down with its size, to their first values.
  return rc::gen::resize(rc::kNominalSize, rc::gen::exec(draw));
}

Sequence gather_and_slice(const DistributedType& source, const DistributedType& target) {
  Sequence sequence(source);
  if (same_placement(source, target)) return sequence;
  const auto is_cut = [](const Dimension& dimension) { return dimension.tile < dimension.global; };
  for (int i = 0; i < source.rank(); ++i) {
    if (is_cut(source.dimension(i))) sequence.append(AllGather{i, source.dimension(i).axes});
  }
  for (int i = 0; i < target.rank(); ++i) {
    std::vector<AxisPart> axes = target.dimension(i).axes;  // one of size 1 may still cut, in name, another dimension
    std::erase_if(axes, [](const AxisPart& part) { return part.size == 1; });
    if (is_cut(target.dimension(i))) sequence.append(DynSlice{i, axes});
  }
  return sequence;
}

Trace trace_normalization(const Sequence& sequence) {
  Trace trace{sequence, {}};
  const Sequence result = normalize(sequence, [&](const Rewriting& rewriting) {
    std::vector<Collective> steps = trace.result().steps();
    const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(rewriting.first);
    const std::vector<Collective>& added = rewriting.added.steps();
    steps.insert(steps.erase(begin, begin + static_cast<std::ptrdiff_t>(rewriting.replaced)), added.begin(),
                 added.end());
    const DistributedType source = rewriting.first == 0 ? rewriting.added.source() : trace.result().source();
    EXPECT_EQ(rewriting.height_before, height(trace.result()));
    trace.rewritings.push_back({rewriting, Sequence(source, steps)});
    EXPECT_EQ(rewriting.height_after, height(trace.result()));
  });
  EXPECT_EQ(to_string(result), to_string(trace.result()));
  return trace;
}

std::string kinds(const Sequence& sequence) {
  std::string out;
  for (const Collective& step : sequence.steps()) out += "sagp"[static_cast<std::size_t>(kind_of(step))];
  return out;
}

}  // namespace retile::test
