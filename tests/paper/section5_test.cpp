// Section 5, the weak interpretation: types up to permutation.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "retile/collectives/rewriting.h"
#include "retile/plan/lists.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/weak.h"

namespace retile::test {
namespace {

// π with T⟦τ2⟧ = T⟦τ1⟧ ∘ π: the device whose tile each device gets.
std::vector<Device> permutation_between(const DistributedType& first, const DistributedType& second) {
  std::vector<Device> permutation(static_cast<std::size_t>(first.mesh().device_count()));
  for (const DevicePair& pair : match_tiles(tile_table(first), tile_table(second))) {
    permutation[static_cast<std::size_t>(pair.target)] = pair.source;
  }
  return permutation;
}

bool is_bijection(const std::vector<Device>& permutation) {
  return std::set<Device>(permutation.begin(), permutation.end()).size() == permutation.size();
}

TEST(Section5, lem_exists_permutation) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    for (const DistributedType& first : types) {
      for (const DistributedType& second : types) {
        if (first.local_shape() != second.local_shape()) continue;
        const std::vector<Device> permutation = permutation_between(first, second);
        ASSERT_TRUE(is_bijection(permutation));
        for (Device device = 0; device < mesh.device_count(); ++device) {
          const Device source = permutation[static_cast<std::size_t>(device)];
          ASSERT_EQ(second.base_offset(device), first.base_offset(source)) << to_string(first) << to_string(second);
        }
        ++count;
      }
    }
  }
  EXPECT_GT(count, 2000);
}

// Equivalence of base-offset maps is equality of the multisets of tiles that the devices hold.
std::multiset<Shape> tiles_of(const DistributedType& type) {
  std::multiset<Shape> tiles;
  for (Device device = 0; device < type.mesh().device_count(); ++device) tiles.insert(type.base_offset(device));
  return tiles;
}

// With the global shape fixed, the local shape alone tells equivalence classes apart (sec:shortest-paths).
TEST(Section5, weak_semantic_types_are_local_shapes) {
  std::int64_t equivalent = 0;
  std::int64_t different = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    for (const DistributedType& first : types) {
      for (const DistributedType& second : types) {
        const bool related = tiles_of(first) == tiles_of(second);
        ASSERT_EQ(weaken(first) == weaken(second), related);
        ++(related ? equivalent : different);
      }
    }
  }
  EXPECT_GT(equivalent, 500);
  EXPECT_GT(different, 500);
}

// eq:weak-semantics: weak steps are the steps between representatives, and no permutation is among them.
TEST(Section5, weak_collective_operations_relate_the_classes_of_typed_ones) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    for (const DistributedType& type : types) {
      std::vector<Collective> steps = single_axis_collectives(type);
      for (const Collective& permutation : permutations(type, types)) steps.push_back(permutation);
      for (const Collective& step : steps) {
        const WeakSequence weak = weaken(Sequence(type, {step}));
        const bool permutes = kind_of(step) == CollectiveKind::allpermute;
        ASSERT_EQ(weak.size(), permutes ? 0U : 1U);
        ASSERT_EQ(weak.target(), weaken(type_after(type, step)));
        ++count;
      }
    }
  }
  EXPECT_GT(count, 1000);
}

// --- The lemmas of section 4 hold for weak sequences, with fewer cases.

std::string weak_kinds(const WeakSequence& sequence) {
  std::string labels;
  for (const WeakStep& step : sequence.steps()) labels += "sagp"[static_cast<std::size_t>(step.kind)];
  return labels;
}

struct WeakPairs {
  const char* pair;      // labels before
  const char* promised;  // labels after, as a regular expression
};

std::int64_t check_weak_pairs(const WeakPairs& expected) {
  std::int64_t count = 0;
  for (const Mesh& mesh : prime_meshes(12)) {
    for (const Shape& shape : {Shape{mesh.device_count(), mesh.device_count()}, Shape{12, 2}, Shape{4, 6, 2}}) {
      for (const WeakType& type : all_weak_types(mesh, shape)) {
        for_each_weak_sequence(WeakSequence(mesh, type), 2, Factors::prime, [&](const WeakSequence& sequence) {
          if (weak_kinds(sequence) != expected.pair) return;
          const WeakSequence result = normalize(sequence);
          ASSERT_TRUE(std::regex_match(weak_kinds(result), std::regex(expected.promised)))
              << to_string(sequence) << " | " << to_string(result);
          ASSERT_EQ(result.source(), sequence.source());
          ASSERT_EQ(result.target(), sequence.target());
          ASSERT_LE(height(result), std::max(local_size(sequence.source()), local_size(sequence.target())));
          ASSERT_LE(cost(result), cost(sequence));
          ++count;
        });
      }
    }
  }
  return count;
}

TEST(Section5, lem_peak_for_weak_collectives) { EXPECT_GT(check_weak_pairs({"gs", "|a|sg"}), 300); }

TEST(Section5, lem_edges_rising_for_weak_collectives) { EXPECT_GT(check_weak_pairs({"ga", "a?g"}), 200); }

TEST(Section5, lem_edges_falling_for_weak_collectives) { EXPECT_GT(check_weak_pairs({"as", "sa?"}), 200); }

TEST(Section5, thm_normal_form_for_weak_collectives) {
  std::int64_t count = 0;
  for (const Mesh& mesh : prime_meshes(12)) {
    const Shape shape{mesh.device_count(), 6};
    for (const WeakType& type : all_weak_types(mesh, shape)) {
      count += for_each_weak_sequence(WeakSequence(mesh, type), 5, Factors::prime, [](const WeakSequence& sequence) {
        const WeakSequence result = normalize(sequence);
        ASSERT_TRUE(is_normal_form(result)) << to_string(sequence);
        ASSERT_EQ(result.source(), sequence.source());
        ASSERT_EQ(result.target(), sequence.target());
        ASSERT_LE(height(result), std::max(local_size(sequence.source()), local_size(sequence.target())));
      });
    }
  }
  EXPECT_GT(count, 20000);
}

}  // namespace
}  // namespace retile::test
