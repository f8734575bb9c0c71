// Section 2, background and motivation: the examples of types, redistributions and collectives.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "retile/collectives/sequence.h"
#include "retile/plan/verify.h"
#include "retile/planner/problem.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"
#include "tests/support/step_replay.h"
#include "tests/support/typed_steps.h"

namespace retile::test {
namespace {

// The number of each device's tile in the grid of tiles along one dimension.
std::vector<std::int64_t> tile_numbers(const DistributedType& type, int dimension) {
  std::vector<std::int64_t> numbers;
  for (Device device = 0; device < type.mesh().device_count(); ++device) {
    const auto at = static_cast<std::size_t>(dimension);
    numbers.push_back(type.base_offset(device)[at] / type.dimension(dimension).tile);
  }
  return numbers;
}

void expect_single_step(const DistributedType& from, const Collective& step, const DistributedType& to) {
  ASSERT_FALSE(find_fault(from, step)) << find_fault(from, step)->message;
  EXPECT_EQ(type_after(from, step), to);
  EXPECT_EQ(find_replay_fault(physical_step(from, step)), "");
  const Sequence sequence(from, {step});
  EXPECT_EQ(find_faults(finish_plan(from, to, typed_steps(sequence))), std::vector<std::string>());
}

TEST(Section2, lst_simple_tiles_rows_over_32_devices) {
  const Mesh mesh = parse_mesh("{\"devices\": 32}");
  const DistributedType rows = parse_type("[8{\"devices\"}256, 1024]", mesh);
  EXPECT_EQ(rows.local_shape(), (Shape{8, 1024}));
  EXPECT_EQ(rows.base_offset(31), (Shape{248, 0}));
  const DistributedType replicated = parse_type("[1024, 10]", mesh);
  EXPECT_EQ(replicated.base_offset(31), (Shape{0, 0}));
}

// "first partitioned into 2 tiles over y, and then each of these tiles further along x".
TEST(Section2, the_order_of_axes_changes_who_holds_what_and_not_the_tiles) {
  const Mesh mesh = parse_mesh("{\"x\": 2, \"y\": 2}");
  const DistributedType minor_x = parse_type("[8{\"x\", \"y\"}32]", mesh);
  const DistributedType minor_y = parse_type("[8{\"y\", \"x\"}32]", mesh);
  EXPECT_EQ(tile_numbers(minor_x, 0), (std::vector<std::int64_t>{0, 2, 1, 3}));
  EXPECT_EQ(tile_numbers(minor_y, 0), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(minor_x.local_shape(), minor_y.local_shape());
}

TEST(Section2, fig_multi_distributed_replicates_along_the_axis_that_is_not_named) {
  const Mesh mesh = parse_mesh("{\"xdev\": 4, \"ydev\": 8}");
  const DistributedType left = parse_type("[64{\"xdev\"}256, 1024]", mesh);
  const DistributedType right = parse_type("[1024, 128{\"ydev\"}1024]", mesh);
  for (Device device = 0; device < 32; ++device) {
    EXPECT_EQ(left.base_offset(device), (Shape{64 * (device / 8), 0}));
    EXPECT_EQ(right.base_offset(device), (Shape{0, 128 * (device % 8)}));
  }
}

TEST(Section2, fig_simple_redist_is_one_alltoall) {
  const Mesh mesh = parse_mesh("{\"devs\": 32}");
  const DistributedType columns = parse_type("[32, 64{\"devs\"}2048]", mesh);
  const DistributedType rows = parse_type("[1{\"devs\"}32, 2048]", mesh);
  EXPECT_FALSE(Problem::find_fault(columns, rows, ElementType::f32));
  expect_single_step(columns, AllToAll{1, 0, {mesh.whole(0)}}, rows);
}

// --- ssec:redistribution-semantics: valid iff the global types are the same.

TEST(Section2, redistribution_semantics_needs_equal_global_types) {
  const Mesh mesh = parse_mesh("{\"devs\": 32}");
  const DistributedType small = parse_type("[512, 32{\"devs\"}1024]", mesh);
  const DistributedType large = parse_type("[1024, 32{\"devs\"}1024]", mesh);
  const std::string from_small = "the source has global shape [512, 1024] and the target [1024, 1024]";
  const std::string from_large = "the source has global shape [1024, 1024] and the target [512, 1024]";
  ASSERT_TRUE(Problem::find_fault(small, large, ElementType::f32));
  EXPECT_EQ(Problem::find_fault(small, large, ElementType::f32)->message, from_small);
  EXPECT_EQ(Problem::find_fault(large, small, ElementType::f32)->message, from_large);
  EXPECT_TRUE(find_fault(small, AllPermute{large}));
}

TEST(Section2, redistribution_semantics_is_not_about_equal_tiles) {
  const Mesh mesh = parse_mesh("{\"xdevs\": 4, \"ydevs\": 8}");
  const DistributedType square = parse_type("[32{\"xdevs\"}128, 32{\"ydevs\"}256]", mesh);
  const DistributedType column = parse_type("[32{\"xdevs\", \"ydevs\"}1024, 32]", mesh);
  ASSERT_EQ(square.local_shape(), column.local_shape());
  ASSERT_EQ(square.global_size(), column.global_size());
  ASSERT_TRUE(Problem::find_fault(square, column, ElementType::f32));
  EXPECT_EQ(Problem::find_fault(square, column, ElementType::f32)->message,
            "the source has global shape [128, 256] and the target [1024, 32]");
  EXPECT_TRUE(find_fault(square, AllPermute{column}));
}

// --- The collectives, one by one.

TEST(Section2, allgather_removes_the_minor_most_axis) {
  const Mesh mesh = parse_mesh("x=2,y=4");
  expect_single_step(parse_type("[1{x,y}8, 3]", mesh), AllGather{0, {mesh.whole(0)}}, parse_type("[2{y}8, 3]", mesh));
}

TEST(Section2, dynslice_introduces_a_new_minor_most_axis) {
  const Mesh mesh = parse_mesh("x=2,y=4");
  expect_single_step(parse_type("[2{y}8, 3]", mesh), DynSlice{0, {mesh.whole(0)}}, parse_type("[1{x,y}8, 3]", mesh));
  EXPECT_TRUE(find_fault(parse_type("[2{y}8, 3]", mesh), DynSlice{1, {mesh.whole(0)}})) << "3 does not divide by 2";
  EXPECT_TRUE(find_fault(parse_type("[2{y}8, 4]", mesh), DynSlice{1, {mesh.whole(1)}})) << "y is in use";
}

TEST(Section2, alltoall_transfers_the_minor_most_axis) {
  const Mesh mesh = parse_mesh("x=2,y=4");
  expect_single_step(parse_type("[1{x,y}8, 6]", mesh), AllToAll{0, 1, {mesh.whole(0)}},
                     parse_type("[2{y}8, 3{x}6]", mesh));
  EXPECT_TRUE(find_fault(parse_type("[1{x,y}8, 3]", mesh), AllToAll{0, 1, {mesh.whole(0)}}))
      << "3 does not divide by 2";
}

// --- ex:permute.

struct Permutation {
  const char* from;
  const char* to;
};
constexpr Permutation fig_permutations[] = {
    {"[64{\"ydev\", \"xdev\"}1024, 128]", "[64{\"xdev\", \"ydev\"}1024, 128]"},  // swap within a dimension
    {"[32{\"xdev\"}128, 16{\"ydev\"}64]", "[32{\"ydev\"}128, 16{\"xdev\"}64]"},  // swap across dimensions
    {"[32{\"xdev\"}128]", "[32{\"ydev\"}128]"},                                  // swap for a replicated axis
};
constexpr const char* mesh44 = "{\"xdev\": 4, \"ydev\": 4}";

TEST(Section2, fig_permutations_are_single_allpermutes) {
  const Mesh mesh = parse_mesh(mesh44);
  for (const Permutation& permutation : fig_permutations) {
    const DistributedType from = parse_type(permutation.from, mesh);
    const DistributedType to = parse_type(permutation.to, mesh);
    EXPECT_FALSE(same_placement(from, to));
    expect_single_step(from, AllPermute{to}, to);
    expect_single_step(to, AllPermute{from}, from);
  }
}

// "it can additionally perform multiple of them at the same time".
TEST(Section2, ex_permute_does_several_swaps_at_once) {
  const Mesh mesh = parse_mesh("a=2,b=2,c=2,d=2,e=2");
  const DistributedType from = parse_type("[2{a,b}8, 4{c}8, 4{d}8]", mesh);
  const DistributedType to = parse_type("[2{b,a}8, 4{d}8, 4{e}8]", mesh);
  expect_single_step(from, AllPermute{to}, to);
}

// The types that one swap leads to: of two axes within a dimension, of two axes of equal size across dimensions, or of
// an axis for a replicated one of equal size.
std::vector<DistributedType> swaps_of(const DistributedType& type) {
  std::vector<std::vector<AxisPart>> lists;  // the dimensions' axes, then those that cut nothing
  for (const Dimension& dimension : type.dimensions()) {
    lists.push_back(split_into_primes(type.mesh(), dimension.axes));
  }
  lists.push_back(type.free_primes());
  std::vector<DistributedType> swaps;
  for (std::vector<AxisPart>& from : lists) {
    for (std::vector<AxisPart>& to : lists) {
      for (AxisPart& a : from) {
        for (AxisPart& b : to) {
          if (&from != &to && a.size != b.size) continue;
          std::swap(a, b);
          const std::vector<std::vector<AxisPart>> cuts(lists.begin(), lists.end() - 1);
          swaps.push_back(DistributedType::cut(type.mesh(), type.global_shape(), cuts));
          std::swap(a, b);
        }
      }
    }
  }
  return swaps;
}

// "Conversely, any permutation of tiles is a composition of the three."
TEST(Section2, ex_permute_every_permutation_is_a_composition_of_three_kinds_of_swaps) {
  std::int64_t reached_types = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    for (const DistributedType& source : types) {
      std::set<std::string> reached{to_string(source)};
      std::vector<DistributedType> open{source};
      while (!open.empty()) {
        const DistributedType type = open.back();
        open.pop_back();
        for (const DistributedType& next : swaps_of(type)) {
          if (reached.insert(to_string(next)).second) open.push_back(next);
        }
      }
      for (const DistributedType& target : types) {
        const bool permutes = !find_fault(source, AllPermute{target});
        ASSERT_EQ(reached.contains(to_string(target)), permutes) << to_string(source) << to_string(target);
        reached_types += permutes ? 1 : 0;
      }
    }
  }
  EXPECT_GT(reached_types, 2000);
}

// fig:rename, left: row i of the grid held tile i; now column i does.
TEST(Section2, fig_rename_exchanges_a_replicated_axis) {
  const Mesh mesh = parse_mesh(mesh44);
  const DistributedType before = parse_type("[32{\"xdev\"}128]", mesh);
  const DistributedType after = parse_type("[32{\"ydev\"}128]", mesh);
  for (Device device = 0; device < 16; ++device) {
    EXPECT_EQ(before.base_offset(device), Shape{32 * (device / 4)});
    EXPECT_EQ(after.base_offset(device), Shape{32 * (device % 4)});
  }
}

// fig:grouped_allgather: four groups of four, each along xdev.
TEST(Section2, fig_grouped_allgather_gathers_in_four_groups) {
  const Mesh mesh = parse_mesh(mesh44);
  const DistributedType before = parse_type("[32{\"xdev\",\"ydev\"}512, 512]", mesh);
  const DistributedType after = parse_type("[128{\"ydev\"}512, 512]", mesh);
  const Collective step = AllGather{0, {mesh.whole(0)}};
  expect_single_step(before, step, after);
  const PhysicalStep physical = physical_step(before, step);
  ASSERT_EQ(physical.groups.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto first = static_cast<Device>(i);
    EXPECT_EQ(physical.groups[i], (std::vector<Device>{first, first + 4, first + 8, first + 12}));
    EXPECT_EQ(physical.after.offset(first), (Shape{128 * first, 0}));
  }
}

}  // namespace
}  // namespace retile::test
