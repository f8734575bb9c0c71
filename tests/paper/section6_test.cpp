// Section 6, low-level collectives: lowering, lifting, cost, and how near the optimum a normal form is.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "retile/collectives/rewriting.h"
#include "retile/types/text.h"
#include "tests/support/assignment_search.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/low_level.h"
#include "tests/support/placement_search.h"
#include "tests/support/step_replay.h"

namespace retile::test {
namespace {

// The identity, a riffle and its reversal.
std::vector<DeviceMap> riffled_maps(std::int64_t devices) {
  std::vector<Device> riffled;
  for (Device device = 0; device < devices; ++device) {
    riffled.push_back(device % 2 == 0 ? device / 2 : devices - 1 - device / 2);
  }
  return {DeviceMap::identity(devices), DeviceMap(riffled),
          DeviceMap(std::vector<Device>(riffled.rbegin(), riffled.rend()))};
}

std::vector<CollectiveKind> kinds_of(const LowLevelSequence& sequence) {
  std::vector<CollectiveKind> kinds;
  for (const LowLevelStep& step : sequence.steps) kinds.push_back(kind_of(step.collective));
  return kinds;
}

std::int64_t count_permutations(const LowLevelSequence& sequence) {
  const std::vector<CollectiveKind> kinds = kinds_of(sequence);
  return std::count(kinds.begin(), kinds.end(), CollectiveKind::allpermute);
}

// Every step starts where the one before it ended, and takes its data from its groups.
void expect_sound(const LowLevelSequence& sequence) {
  const DeviceAssignment* before = &sequence.source;
  for (const LowLevelStep& step : sequence.steps) {
    ASSERT_TRUE(same_boxes(placement_of(*before), placement_of(step.relabelled)));
    ASSERT_EQ(find_replay_fault(physical_step(step)), "");
    before = &step.after;
  }
}

// --- lem:lowering and thm:lowering.

// β may be any semantic type of the class, and φ any device map.
TEST(Section6, lem_lowering) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    for (const DistributedType& beta : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      for (const WeakStep& weak : weak_steps(mesh, weaken(beta), Factors::any)) {
        for (const DeviceMap& map : riffled_maps(mesh.device_count())) {
          const LowLevelStep step = lower({map, beta}, weak);
          ASSERT_EQ(kind_of(step.collective), weak.kind);
          ASSERT_EQ(weaken(step.after.type), type_after(mesh, weaken(beta), weak)) << to_string(beta);
          ASSERT_TRUE(same_boxes(placement_of({map, beta}), placement_of(step.relabelled)));
          ASSERT_EQ(find_replay_fault(physical_step(step)), "");
          ++count;
        }
      }
    }
  }
  EXPECT_GT(count, 10000);
}

TEST(Section6, thm_lowering) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    for (const DistributedType& beta : all_prime_types(mesh, {mesh.device_count(), 4})) {
      const DeviceAssignment start{riffled_maps(mesh.device_count()).back(), beta};
      const WeakSequence empty(mesh, weaken(beta));
      count += for_each_weak_sequence(empty, 3, Factors::prime, [&](const WeakSequence& weak) {
        const LowLevelSequence lowered = lower(start, weak);
        ASSERT_EQ(count_permutations(lowered), 0);
        ASSERT_EQ(weaken(lowered.target().type), weak.target());
        ASSERT_EQ(cost(lowered), cost(weak));
        expect_sound(lowered);
      });
    }
  }
  EXPECT_GT(count, 5000);
}

// ⟨φ, T⟦τ1⟧⟩ ⇒* ⟨φ′, β′⟩ ⇒ ⟨φ, T⟦τ2⟧⟩ with one permutation at the end, where one is needed at all.
TEST(Section6, eq_final_allpermutate) {
  std::int64_t with = 0;
  std::int64_t without = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, {mesh.device_count(), 4});
    for (const DistributedType& source : types) {
      for_each_sequence(Sequence(source), 2, single_axis_collectives, [&](const Sequence& sequence) {
        for (const DeviceMap& map : riffled_maps(mesh.device_count())) {
          const DeviceAssignment target{map, sequence.target()};
          const LowLevelSequence lowered = lower({map, source}, weaken(sequence));
          const LowLevelSequence permuted = permute_to(lowered, target);
          ASSERT_TRUE(are_equivalent(permuted.target(), target));
          const auto added = permuted.steps.size() - lowered.steps.size();
          ASSERT_EQ(static_cast<std::int64_t>(added), are_equivalent(lowered.target(), target) ? 0 : 1);
          ASSERT_EQ(count_permutations(permuted), static_cast<std::int64_t>(added));
          ASSERT_LE(cost(permuted), cost(lowered) + sequence.target().local_size());
          expect_sound(permuted);
          ++(added == 1 ? with : without);
        }
      });
    }
  }
  EXPECT_GT(with, 500);
  EXPECT_GT(without, 500);
}

// --- lem:cost-weak-nf.

void check_cost_of_normal_form(const WeakSequence& sequence) {
  const WeakSequence result = normalize(sequence);
  ASSERT_TRUE(is_normal_form(result)) << to_string(sequence);
  ASSERT_EQ(result.source(), sequence.source());
  ASSERT_EQ(result.target(), sequence.target());
  ASSERT_LE(cost(result), cost(sequence)) << to_string(sequence) << " | " << to_string(result);
}

TEST(Section6, lem_cost_weak_nf) {
  std::int64_t count = 0;
  for (const Mesh& mesh : prime_meshes(12)) {
    for (const WeakType& type : all_weak_types(mesh, {mesh.device_count(), 4})) {
      count += for_each_weak_sequence(WeakSequence(mesh, type), 5, Factors::prime, check_cost_of_normal_form);
    }
  }
  EXPECT_GT(count, 20000);
}

// ssec:merging: the results carry over to collectives that act on several axes.
TEST(Section6, lem_cost_weak_nf_for_multi_axes_collectives) {
  std::int64_t count = 0;
  for (const Mesh& mesh : prime_meshes(12)) {
    for (const Shape& shape : {Shape{mesh.device_count(), mesh.device_count()}, Shape{mesh.device_count(), 4, 2}}) {
      for (const WeakType& type : all_weak_types(mesh, shape)) {
        count += for_each_weak_sequence(WeakSequence(mesh, type), 3, Factors::any, check_cost_of_normal_form);
      }
    }
  }
  EXPECT_GT(count, 20000);
}

// --- lem:lifting.

TEST(Section6, lem_lifting) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(6)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    const StepsOfType steps = [&](const DistributedType& type) {
      std::vector<Collective> all = single_axis_collectives(type);
      for (const Collective& permutation : permutations(type, types)) all.push_back(permutation);
      return all;
    };
    for (const DistributedType& source : types) {
      count += for_each_sequence(Sequence(source), 3, steps, [&](const Sequence& sequence) {
        LowLevelSequence low_level{plain(source), {}};
        for (std::size_t i = 0; i < sequence.size(); ++i) {
          const DeviceAssignment before = low_level.target();
          const Collective& step = sequence.steps()[i];
          if (const auto* permute = std::get_if<AllPermute>(&step)) {
            low_level.steps.push_back(allpermute(before, {riffled_maps(mesh.device_count()).back(), permute->result}));
          } else {
            low_level.steps.push_back({before, step, {before.map, sequence.types()[i + 1]}});
          }
        }
        const WeakSequence lifted = lift(low_level);
        ASSERT_EQ(lifted.steps(), weaken(sequence).steps());
        ASSERT_EQ(lifted.target(), weaken(sequence.target()));
        ASSERT_LE(cost(lifted), cost(low_level));
        ASSERT_EQ(cost(low_level), cost(sequence));
      });
    }
  }
  EXPECT_GT(count, 5000);
}

// --- thm:near-optimal-nf.

// s′ as the proof constructs it from the lifted s.
LowLevelSequence near_optimal(const WeakSequence& lifted, const DistributedType& source,
                              const DistributedType& target) {
  return permute_to(lower(plain(source), normalize(lifted)), plain(target));
}

void check_near_optimal(const LowLevelSequence& sequence, std::int64_t optimum, const DistributedType& target) {
  const std::string problem = to_string(sequence.source.type) + " to " + to_string(target);
  ASSERT_TRUE(same_boxes(placement_of(sequence.target()), Placement(target))) << problem;
  ASSERT_LE(cost(sequence), optimum + target.local_size()) << problem;
  std::vector<CollectiveKind> kinds = kinds_of(sequence);
  const bool permutes = !kinds.empty() && kinds.back() == CollectiveKind::allpermute;
  if (permutes) kinds.pop_back();
  ASSERT_TRUE(is_normal_form(kinds)) << problem;
  ASSERT_EQ(count_permutations(sequence), permutes ? 1 : 0) << problem;
  for (const LowLevelStep& step : sequence.steps) {
    ASSERT_LE(step.after.type.local_size(), std::max(sequence.source.type.local_size(), target.local_size()));
  }
  expect_sound(sequence);
}

// The optimum over the rules as they are, by a search over device assignments.
std::int64_t check_against_rules(const DistributedType& source, AxesPerStep axes) {
  std::int64_t count = 0;
  const AssignmentSearch search(source, axes);
  for (const DistributedType& target : all_prime_types(source.mesh(), source.global_shape())) {
    const LowLevelSequence optimum = search.cheapest(target);
    expect_sound(optimum);
    EXPECT_TRUE(same_boxes(placement_of(optimum.target()), Placement(target)));
    check_near_optimal(near_optimal(lift(optimum), source, target), cost(optimum), target);
    ++count;
  }
  return count;
}

std::int64_t check_against_rules_up_to_5_devices(AxesPerStep axes) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(5)) {
    for (const DistributedType& source : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      count += check_against_rules(source, axes);
    }
  }
  return count;
}

TEST(Section6, thm_near_optimal_nf_up_to_5_devices) {
  EXPECT_GT(check_against_rules_up_to_5_devices(AxesPerStep::one), 250);
}

TEST(Section6, thm_near_optimal_nf_for_multi_axes_collectives) {
  EXPECT_GT(check_against_rules_up_to_5_devices(AxesPerStep::any), 250);
}

TEST(Section6, thm_near_optimal_nf_on_6_devices) {
  std::int64_t count = 0;
  for (const char* source : {"[1{a,b}6, 6]", "[3{a}6, 2{b}6]", "[6, 2{b}6]"}) {
    count += check_against_rules(parse_type(source, parse_mesh("a=2,b=3")), AxesPerStep::any);
  }
  EXPECT_EQ(count, 3 * 11);
}

// The optimum over placements, where every step may choose its groups freely: no sequence of the rules is cheaper.
std::int64_t check_against_placements(const Mesh& mesh, const Shape& shape, Factors factors) {
  std::int64_t count = 0;
  std::map<Shape, PlacementSearch> searches;
  const std::vector<DistributedType> types = all_prime_types(mesh, shape);
  for (const DistributedType& source : types) {
    const auto search = searches.try_emplace(source.local_shape(), weaken(source), mesh.device_count(), factors).first;
    for (const DistributedType& target : types) {
      const PlacementSearch::Path path = search->second.cheapest(Placement(source), Placement(target));
      const WeakSequence lifted(mesh, weaken(source), path.steps);
      EXPECT_LE(cost(lifted), path.cost);
      check_near_optimal(near_optimal(lifted, source, target), path.cost, target);
      ++count;
    }
  }
  return count;
}

TEST(Section6, thm_near_optimal_nf_over_placements_up_to_6_devices) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(6)) {
    for (const Factors factors : {Factors::prime, Factors::any}) {
      count += check_against_placements(mesh, divisible_shape(mesh, 2), factors);
      count += check_against_placements(mesh, {mesh.device_count(), 2, 3}, factors);
    }
  }
  EXPECT_GT(count, 2000);
}

TEST(Section6, thm_near_optimal_nf_over_placements_of_8_devices) {
  const Mesh mesh = parse_mesh("a=2,b=2,c=2");
  EXPECT_GT(check_against_placements(mesh, {8, 4}, Factors::any), 1000);
}

// The two searches agree where both are possible: freely chosen groups are never dearer.
TEST(Section6, searches_agree_on_4_devices) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const std::vector<DistributedType> types = all_prime_types(mesh, {4, 4});
  for (const DistributedType& source : types) {
    const AssignmentSearch rules(source, AxesPerStep::any);
    const PlacementSearch placements(weaken(source), 4, Factors::any);
    for (const DistributedType& target : types) {
      const std::int64_t free = placements.cheapest(Placement(source), Placement(target)).cost;
      EXPECT_LE(free, cost(rules.cheapest(target))) << to_string(source) << to_string(target);
    }
  }
}

// An alltoall may deal its pieces by a replicated axis, or by a mixture of axes: 4 instead of 6.
TEST(Section6, freely_chosen_groups_are_cheaper_than_groups_along_axes) {
  const Mesh mesh = parse_mesh("a=2,b=2,c=2");
  const DistributedType source = parse_type("[4, 1{a,b}4]", mesh);
  const DistributedType target = parse_type("[1{a,c}4, 4]", mesh);
  const PlacementSearch search(weaken(source), 8, Factors::any);
  EXPECT_EQ(search.cheapest(Placement(source), Placement(target)).cost, 4);
}

// --- ex:single-extra-permutation.

class Section6ExSingleExtraPermutation : public testing::Test {
 protected:
  // One alltoall(0 -> 1) for each list of axes.
  LowLevelSequence run(const std::vector<std::vector<const char*>>& alltoalls) {
    LowLevelSequence sequence{plain(source), {}};
    for (const std::vector<const char*>& names : alltoalls) {
      std::vector<AxisPart> axes;
      for (const char* name : names) axes.push_back(mesh.whole(*mesh.find_axis(name)));
      sequence.steps.push_back(alltoall(sequence.target(), axes, 1));
    }
    return sequence;
  }

  std::vector<std::string> types(const LowLevelSequence& sequence) {
    std::vector<std::string> texts;
    for (const LowLevelStep& step : sequence.steps) texts.push_back(to_string(step.after.type));
    return texts;
  }

  Mesh mesh = parse_mesh("a0=2,a1=2,a2=2");
  DistributedType source = parse_type("[1{a0,a1,a2}8, 8]", mesh);
  DistributedType target = parse_type("[8, 1{a0,a1,a2}8]", mesh);
};

TEST_F(Section6ExSingleExtraPermutation, eq_permutation_at_end) {
  const LowLevelSequence three = run({{"a0"}, {"a1"}, {"a2"}});
  EXPECT_EQ(types(three),
            (std::vector<std::string>{"[2{a1,a2}8, 4{a0}8]", "[4{a2}8, 2{a1,a0}8]", "[8, 1{a2,a1,a0}8]"}));
  const LowLevelSequence whole = permute_to(three, plain(target));
  EXPECT_EQ(count_permutations(whole), 1);
  EXPECT_EQ(cost(whole), 3 * 8 + 8);
  expect_sound(whole);
}

// The type is the target's, and yet φ3 is not φ: the permutation is needed here too.
TEST_F(Section6ExSingleExtraPermutation, eq_maybe_permutation_at_end) {
  const LowLevelSequence three = run({{"a2"}, {"a1"}, {"a0"}});
  EXPECT_EQ(types(three),
            (std::vector<std::string>{"[2{a0,a1}8, 4{a2}8]", "[4{a0}8, 2{a1,a2}8]", "[8, 1{a0,a1,a2}8]"}));
  EXPECT_EQ(three.target().type, target);
  EXPECT_FALSE(three.target().map == DeviceMap::identity(8));
  const LowLevelSequence whole = permute_to(three, plain(target));
  EXPECT_EQ(cost(whole), 3 * 8 + 8);
  expect_sound(whole);
}

// One alltoall on all three axes, in the order in which they stand, has φ3 = φ.
TEST_F(Section6ExSingleExtraPermutation, a_merged_alltoall_needs_no_permutation) {
  const LowLevelSequence one = run({{"a0", "a1", "a2"}});
  EXPECT_EQ(one.target().map, DeviceMap::identity(8));
  EXPECT_TRUE(same_boxes(placement_of(one.target()), Placement(target)));
  EXPECT_EQ(permute_to(one, plain(target)).steps.size(), 1U);
}

// --- fig:cost-model applies to typed, weak and low-level sequences alike.

TEST(Section6, fig_cost_model_is_one_for_all_three_relations) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    for (const DistributedType& source : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      count += for_each_sequence(Sequence(source), 2, single_axis_collectives, [&](const Sequence& sequence) {
        ASSERT_EQ(cost(sequence), cost(weaken(sequence)));
        ASSERT_EQ(cost(sequence), cost(lower(plain(source), weaken(sequence))));
      });
    }
  }
  EXPECT_GT(count, 2000);
}

}  // namespace
}  // namespace retile::test
