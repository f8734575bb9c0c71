#include "tests/support/low_level.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"
#include "tests/support/step_replay.h"

namespace retile::test {
namespace {

using Parts = std::vector<AxisPart>;
using Groups = std::vector<std::vector<Device>>;

// The identity, a rotation, a reversal and a riffle: maps that mix every axis.
std::vector<DeviceMap> some_maps(std::int64_t devices) {
  std::vector<Device> rotated;
  std::vector<Device> riffled;
  for (Device device = 0; device < devices; ++device) {
    rotated.push_back((device + 1) % devices);
    riffled.push_back(device % 2 == 0 ? device / 2 : devices - 1 - device / 2);
  }
  const std::vector<Device> reversed(rotated.rbegin(), rotated.rend());
  return {DeviceMap::identity(devices), DeviceMap(rotated), DeviceMap(reversed), DeviceMap(riffled)};
}

// --- Device maps.

TEST(DeviceMap, goes_both_ways) {
  const DeviceMap map({2, 0, 3, 1});
  EXPECT_EQ(map.device_count(), 4);
  EXPECT_EQ(map.device(0), 2);
  EXPECT_EQ(map.logical(2), 0);
  for (Device logical = 0; logical < 4; ++logical) EXPECT_EQ(map.logical(map.device(logical)), logical);
  EXPECT_EQ(DeviceMap::identity(3), DeviceMap({0, 1, 2}));
  EXPECT_FALSE(map == DeviceMap::identity(4));
}

TEST(DeviceMap, is_a_bijection) {
  const auto fault = [](std::vector<Device> devices) { return diagnostic_of([&] { return DeviceMap(devices); }); };
  EXPECT_EQ(fault({0, 1, 1}), "error: device 1 is out of range or stands twice in a device map\n");
  EXPECT_EQ(fault({0, 3, 1}), "error: device 3 is out of range or stands twice in a device map\n");
  EXPECT_EQ(fault({-1, 0}), "error: device -1 is out of range or stands twice in a device map\n");
}

// --- Assignments.

TEST(DeviceAssignment, places_the_tile_of_its_logical_coordinates) {
  const DeviceAssignment assignment{DeviceMap({2, 0, 3, 1}), parse_type("[2{x,y}8]", parse_mesh("x=2,y=2"))};
  const Placement placement = placement_of(assignment);
  for (Device logical = 0; logical < 4; ++logical) {
    EXPECT_EQ(placement.offset(assignment.map.device(logical)), assignment.type.base_offset(logical));
  }
}

TEST(DeviceAssignment, of_rank_0_places_the_one_element) {
  const Placement placement = placement_of(plain("x=2", "[]"));
  EXPECT_EQ(placement.device_count(), 2);
  EXPECT_EQ(placement.local_size(), 1);
}

TEST(DeviceAssignment, equivalence_looks_at_placements_alone) {
  const DeviceAssignment rows = plain("x=2,y=2", "[2{y,x}8]");
  const DeviceAssignment swapped{DeviceMap({0, 2, 1, 3}), parse_type("[2{x,y}8]", parse_mesh("x=2,y=2"))};
  const DeviceAssignment one_axis = plain("m=4", "[2{m}8]");
  EXPECT_TRUE(are_equivalent(rows, swapped));
  EXPECT_TRUE(are_equivalent(rows, one_axis));
  EXPECT_FALSE(are_equivalent(rows, plain("x=2,y=2", "[2{x,y}8]")));
  EXPECT_FALSE(are_equivalent(rows, plain("m=8", "[1{m}8]")));
}

// --- Relabelling: β′ ∘ φ′⁻¹ = β ∘ φ⁻¹.

TEST(Relabel, keeps_every_box_where_it_is) {
  std::int64_t relabelled = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    for (const DistributedType& from : types) {
      for (const DistributedType& to : types) {
        if (weaken(from) != weaken(to)) continue;
        for (const DeviceMap& map : some_maps(mesh.device_count())) {
          const DeviceAssignment before{map, from};
          const DeviceAssignment after = relabel(before, to);
          ASSERT_EQ(after.type, to);
          ASSERT_TRUE(same_boxes(placement_of(before), placement_of(after))) << to_string(from) << to_string(to);
          ++relabelled;
        }
      }
    }
  }
  EXPECT_GT(relabelled, 4000);
}

TEST(Relabel, to_the_same_type_changes_nothing) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      for (const DeviceMap& map : some_maps(mesh.device_count())) {
        ASSERT_EQ(relabel({map, type}, type).map, map) << to_string(type);
        ++count;
      }
    }
  }
  EXPECT_GT(count, 1000);
}

// The footnote of ssec:merging: only the combined maps are physically there, so that the mesh may vary.
TEST(Relabel, may_go_to_another_mesh) {
  const std::vector<Mesh> meshes = all_meshes(12);
  std::int64_t relabelled = 0;
  for (const Mesh& from : meshes) {
    const Shape shape{from.device_count(), from.device_count()};
    for (const Mesh& to : meshes) {
      if (from.device_count() != to.device_count()) continue;
      for (const DistributedType& before : all_types(from, shape)) {
        for (const DistributedType& after : all_types(to, shape)) {
          if (weaken(before) != weaken(after)) continue;
          const DeviceAssignment assignment{some_maps(from.device_count()).back(), before};
          ASSERT_TRUE(are_equivalent(assignment, relabel(assignment, after)));
          ++relabelled;
        }
      }
    }
  }
  EXPECT_GT(relabelled, 2000);
}

TEST(Relabel, faults_word_for_word) {
  const DeviceAssignment before = plain("x=2,y=2", "[4{x}8, 4{y}8]");
  const auto fault = [&](const char* mesh, const char* type) {
    return diagnostic_of([&] { return relabel(before, parse_type(type, parse_mesh(mesh))); });
  };
  const std::string hint = "hint: local shape, global shape and number of devices must agree\n";
  EXPECT_EQ(fault("x=2,y=2", "[2{x,y}8, 8]"), "error: [4{x}8, 4{y}8] cannot be relabelled as [2{x,y}8, 8]\n" + hint);
  EXPECT_EQ(fault("x=2,y=2", "[4{x,y}16, 4]"), "error: [4{x}8, 4{y}8] cannot be relabelled as [4{x,y}16, 4]\n" + hint);
  EXPECT_EQ(fault("x=2,y=2,z=2", "[4{x}8, 4{y}8]"),
            "error: [4{x}8, 4{y}8] cannot be relabelled as [4{x}8, 4{y}8]\n" + hint);
}

// --- The rules of fig:low-level-semantics.

constexpr AxisPart x{0, 1, 2};
constexpr AxisPart y{1, 1, 2};
constexpr AxisPart z{2, 1, 2};

TEST(LowLevel, allgather_takes_an_axis_from_the_middle) {
  const DeviceAssignment before = plain("x=2,y=2,z=2", "[1{x,y,z}8]");
  const LowLevelStep step = allgather(before, {y});
  EXPECT_EQ(to_string(step.relabelled.type), "[1{y,x,z}8]");
  EXPECT_EQ(to_string(step.after.type), "[2{x,z}8]");
  EXPECT_TRUE(are_equivalent(before, step.relabelled));
  EXPECT_EQ(step.after.map, step.relabelled.map);
  EXPECT_FALSE(step.relabelled.map == before.map);
  EXPECT_EQ(find_replay_fault(physical_step(step)), "");
}

TEST(LowLevel, alltoall_takes_an_axis_from_the_middle) {
  const DeviceAssignment before = plain("x=2,y=2,z=2", "[1{x,y}4, 4{z}8]");
  const LowLevelStep step = alltoall(before, {y}, 1);
  EXPECT_EQ(to_string(step.relabelled.type), "[1{y,x}4, 4{z}8]");
  EXPECT_EQ(to_string(step.after.type), "[2{x}4, 2{y,z}8]");
  EXPECT_TRUE(are_equivalent(before, step.relabelled));
  EXPECT_EQ(find_replay_fault(physical_step(step)), "");
}

TEST(LowLevel, dynslice_keeps_the_device_map) {
  const DeviceAssignment before{DeviceMap({3, 1, 2, 0}), parse_type("[4{x}8]", parse_mesh("x=2,y=2"))};
  const LowLevelStep step = dynslice(before, 0, {y});
  EXPECT_EQ(step.relabelled.map, before.map);
  EXPECT_EQ(step.after.map, before.map);
  EXPECT_EQ(to_string(step.after.type), "[2{y,x}8]");
  EXPECT_TRUE(groups_of(step).empty());
}

TEST(LowLevel, allpermute_leads_to_any_assignment_of_the_shapes) {
  const DeviceAssignment before = plain("x=2,y=2", "[2{x,y}8]");
  const DeviceAssignment after{DeviceMap({3, 1, 2, 0}), parse_type("[2{m}8]", parse_mesh("m=4"))};
  const LowLevelStep step = allpermute(before, after);
  EXPECT_EQ(kind_of(step.collective), CollectiveKind::allpermute);
  EXPECT_TRUE(are_equivalent(step.relabelled, before));
  EXPECT_TRUE(are_equivalent(step.after, after));
  EXPECT_TRUE(groups_of(step).empty());
  EXPECT_EQ(find_replay_fault(physical_step(step)), "");
}

TEST(LowLevel, several_axes_move_in_the_order_given) {
  const DeviceAssignment before = plain("x=2,y=2,z=2", "[1{x,y,z}8, 8]");
  const LowLevelStep step = alltoall(before, {z, x}, 1);
  EXPECT_EQ(to_string(step.relabelled.type), "[1{z,x,y}8, 8]");
  EXPECT_EQ(to_string(step.after.type), "[4{y}8, 2{z,x}8]");
  EXPECT_EQ(find_replay_fault(physical_step(step)), "");
}

TEST(LowLevel, parts_of_axes_move_too) {
  const DeviceAssignment before = plain("x=4,y=6", "[1{x,y}24, 24]");
  const LowLevelStep step = alltoall(before, {{1, 2, 3}, {0, 1, 2}}, 1);
  EXPECT_EQ(to_string(step.relabelled.type), "[1{y:(2)3,x:(1)2,x:(2)2,y:(1)2}24, 24]");
  EXPECT_EQ(to_string(step.after.type), "[6{x:(2)2,y:(1)2}24, 4{y:(2)3,x:(1)2}24]");
  EXPECT_EQ(find_replay_fault(physical_step(step)), "");
}

TEST(LowLevel, faults_word_for_word) {
  const DeviceAssignment before = plain("x=2,y=2,z=2", "[2{x}4, 3{y}6]");
  const std::string none = "error: no dimension is cut along all of these axes\nhint: the type is [2{x}4, 3{y}6]\n";
  EXPECT_EQ(diagnostic_of([&] { return allgather(before, {z}); }), none);
  EXPECT_EQ(diagnostic_of([&] { return allgather(before, {}); }), none);
  EXPECT_EQ(diagnostic_of([&] { return allgather(before, {x, y}); }), none);
  EXPECT_EQ(diagnostic_of([&] { return alltoall(before, {z}, 0); }), none);
  EXPECT_EQ(diagnostic_of([&] { return alltoall(before, {x}, 1); }),
            "error: the local size 3 of dimension 1 does not divide by 2\n");
  EXPECT_EQ(diagnostic_of([&] { return alltoall(before, {x}, 0); }),
            "error: alltoall needs two different dimensions\n");
  EXPECT_EQ(diagnostic_of([&] { return alltoall(before, {x}, 2); }),
            "error: there is no dimension 2\nhint: [2{x}4, 3{y}6] has rank 2; dimensions count from 0\n");
  EXPECT_EQ(diagnostic_of([&] { return dynslice(before, 0, {y}); }),
            "error: axis y already cuts a dimension\nhint: dynslice takes axes along which the array is replicated\n");
  EXPECT_EQ(diagnostic_of([&] { return dynslice(before, 1, {z}); }),
            "error: the local size 3 of dimension 1 does not divide by 2\n");
  EXPECT_EQ(diagnostic_of([&] { return allpermute(before, plain("x=2,y=2,z=2", "[4, 3{y}6]")); }),
            "error: [2{x}4, 3{y}6] cannot be relabelled as [4, 3{y}6]\n"
            "hint: local shape, global shape and number of devices must agree\n");
}

// Every way to apply the rules: any axes of a dimension, in any order.
std::vector<LowLevelStep> all_steps(const DeviceAssignment& before) {
  const Mesh& mesh = before.type.mesh();
  std::vector<LowLevelStep> steps;
  const auto try_to = [&](auto rule) {
    try {
      steps.push_back(rule());
    } catch (const InputError&) {
    }
  };
  for (const Collective& choice : multi_axis_collectives(DistributedType::replicated(mesh, {4096 * 243}))) {
    const Parts axes = axes_of(choice);
    try_to([&] { return allgather(before, axes); });
    for (int i = 0; i < before.type.rank(); ++i) {
      try_to([&] { return alltoall(before, axes, i); });
      try_to([&] { return dynslice(before, i, axes); });
    }
  }
  return steps;
}

TEST(LowLevel, every_step_finds_its_data_in_its_group) {
  std::int64_t count = 0;
  std::int64_t moved_axes = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      for (const DeviceMap& map : some_maps(mesh.device_count())) {
        const DeviceAssignment before{map, type};
        for (const LowLevelStep& step : all_steps(before)) {
          ASSERT_EQ(find_replay_fault(physical_step(step)), "") << to_string(type) << to_string(mesh, step.collective);
          ASSERT_TRUE(same_boxes(placement_of(before), placement_of(step.relabelled)));
          ASSERT_EQ(type_after(step.relabelled.type, step.collective), step.after.type);
          ASSERT_EQ(step.relabelled.map, step.after.map);
          moved_axes += step.relabelled.type == type ? 0 : 1;
          ++count;
        }
      }
    }
  }
  EXPECT_GT(count, 5000);
  EXPECT_GT(moved_axes, 1000);
}

// β′ = β entails φ′ = φ: on axes that are most minor the rules are those of fig:collective-typing.
TEST(LowLevel, typed_collectives_are_steps_that_keep_the_map) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      for (const Collective& typed : multi_axis_collectives(type)) {
        const DeviceAssignment before{some_maps(mesh.device_count()).back(), type};
        const LowLevelStep step = [&] {
          if (const auto* slice = std::get_if<DynSlice>(&typed)) return dynslice(before, slice->dimension, slice->axes);
          if (const auto* move = std::get_if<AllToAll>(&typed)) return alltoall(before, move->axes, move->to);
          return allgather(before, axes_of(typed));
        }();
        ASSERT_EQ(step.relabelled.map, before.map);
        ASSERT_EQ(step.after.map, before.map);
        ASSERT_EQ(step.after.type, type_after(type, typed));
        ++count;
      }
    }
  }
  EXPECT_GT(count, 500);
}

// --- Groups.

TEST(LowLevel, groups_are_devices_that_differ_along_the_axes) {
  const DeviceAssignment before = plain("x=2,y=2,z=2", "[4{x}8, 4{z}8]");
  EXPECT_EQ(groups_of(allgather(before, {x})), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups_of(alltoall(before, {z}, 0)), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
}

TEST(LowLevel, groups_go_through_the_device_map) {
  const DeviceAssignment before{DeviceMap({3, 1, 2, 0}), parse_type("[4{x}8]", parse_mesh("x=2,y=2"))};
  EXPECT_EQ(groups_of(allgather(before, {x})), (Groups{{3, 2}, {1, 0}}));
}

TEST(LowLevel, groups_of_several_axes_and_parts) {
  const DeviceAssignment before = plain("x=4,y=3", "[1{y,x}12]");
  EXPECT_EQ(groups_of(allgather(before, {{1, 1, 3}, {0, 2, 2}})), (Groups{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}));
  EXPECT_EQ(groups_of(allgather(plain("x=4,y=3", "[3{x}12]"), {{0, 2, 2}})).size(), 6U);
}

// --- The footnote of ssec:merging: several axes are one axis of another mesh.

// The mesh with the axes (whole ones of a mesh of prime axes, minor to major) merged into the last one, m.
Mesh merged_mesh(const Mesh& mesh, const Parts& axes) {
  std::vector<Axis> merged;
  std::int64_t size = 1;
  for (int i = 0; i < mesh.axis_count(); ++i) {
    const bool kept = std::find(axes.begin(), axes.end(), mesh.whole(i)) == axes.end();
    if (kept) merged.push_back(mesh.axis(i));
    if (!kept) size *= mesh.axis(i).size;
  }
  merged.push_back({"m", size});
  return Mesh(merged);
}

// The type with m in the place of the axes; they are the most minor ones of a dimension, or cut nothing.
DistributedType merged_type(const DistributedType& type, const Mesh& merged, const Parts& axes) {
  std::vector<Parts> cuts;
  for (const Dimension& dimension : type.dimensions()) {
    Parts& cut = cuts.emplace_back();
    for (const AxisPart& part : split_into_primes(type.mesh(), dimension.axes)) {
      if (part == axes.front()) cut.push_back(merged.whole(merged.axis_count() - 1));
      const bool kept = std::find(axes.begin(), axes.end(), part) == axes.end();
      if (kept) cut.push_back(merged.whole(*merged.find_axis(type.mesh().axis(part.axis).name)));
    }
  }
  return DistributedType::cut(merged, type.global_shape(), cuts);
}

// `map`, with each device under its coordinates in the merged mesh: m counts the axes, the first fastest.
DeviceMap merged_map(const DeviceMap& map, const Mesh& mesh, const Mesh& merged, const Parts& axes) {
  std::vector<Device> devices(static_cast<std::size_t>(map.device_count()));
  for (Device logical = 0; logical < map.device_count(); ++logical) {
    Device number = 0;
    for (int i = 0; i + 1 < merged.axis_count(); ++i) {
      const AxisPart whole = mesh.whole(*mesh.find_axis(merged.axis(i).name));
      number += mesh.coordinate(logical, whole) * merged.stride(merged.whole(i));
    }
    std::int64_t unit = 1;
    for (const AxisPart& axis : axes) {
      number += mesh.coordinate(logical, axis) * unit;
      unit *= axis.size;
    }
    devices[static_cast<std::size_t>(number)] = map.device(logical);
  }
  return DeviceMap(devices);
}

LowLevelStep single_axis_step(const DeviceAssignment& before, const Collective& like) {
  const Mesh& mesh = before.type.mesh();
  const Parts axis{mesh.whole(mesh.axis_count() - 1)};
  if (const auto* slice = std::get_if<DynSlice>(&like)) return dynslice(before, slice->dimension, axis);
  if (const auto* move = std::get_if<AllToAll>(&like)) return alltoall(before, axis, move->to);
  return allgather(before, axis);
}

TEST(LowLevel, a_multi_axis_step_is_a_single_axis_step_on_a_merged_mesh) {
  std::int64_t count = 0;
  for (const Mesh& mesh : prime_meshes(12)) {
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      const DeviceAssignment before{some_maps(mesh.device_count()).back(), type};
      for (const LowLevelStep& step : all_steps(before)) {
        const Parts& axes = axes_of(step.collective);
        if (axes.size() < 2) continue;
        const Mesh merged = merged_mesh(mesh, axes);
        const DeviceAssignment start{merged_map(step.relabelled.map, mesh, merged, axes),
                                     merged_type(step.relabelled.type, merged, axes)};
        ASSERT_TRUE(are_equivalent(start, before));
        const LowLevelStep single = single_axis_step(start, step.collective);
        ASSERT_TRUE(are_equivalent(single.after, step.after)) << to_string(type) << to_string(mesh, step.collective);
        const auto sorted = [](Groups groups) {
          for (std::vector<Device>& group : groups) std::sort(group.begin(), group.end());
          std::sort(groups.begin(), groups.end());
          return groups;
        };
        ASSERT_EQ(sorted(groups_of(single)), sorted(groups_of(step)));
        ++count;
      }
    }
  }
  EXPECT_GT(count, 500);
}

// --- Lowering, lifting, the last permutation. The theorems about them are tested with the paper's statements.

TEST(LowLevel, lowering_takes_the_most_minor_axes_first) {
  const DeviceAssignment before = plain("x=2,y=3,z=2", "[1{z,y,x}12, 12]");
  const LowLevelStep step = lower(before, weak_alltoall(0, 1, 6));
  EXPECT_EQ(to_string(step.after.type), "[6{x}12, 2{z,y}12]");
  EXPECT_EQ(to_string(lower(before, weak_gather(0, 3)).after.type), "[3{z,x}12, 12]");
  EXPECT_EQ(to_string(lower(plain("x=2,y=3,z=2", "[12, 12]"), weak_slice(0, 4)).after.type), "[3{x,z}12, 12]");
}

TEST(LowLevel, lowering_refuses_a_step_of_another_weak_type) {
  const DeviceAssignment before = plain("x=2,y=3", "[6{x}12, 12]");
  EXPECT_EQ(diagnostic_of([&] { return lower(before, weak_gather(0, 3)); }), "error: dimension 0 is not cut by 3\n");
  EXPECT_EQ(diagnostic_of([&] { return lower(before, weak_slice(1, 2)); }),
            "error: the mesh has no axes left for this cut\n");
  EXPECT_EQ(diagnostic_of([&] { return lower(before, weak_gather(2, 2)); }), "error: a weak step outside the type\n");
}

TEST(LowLevel, lowering_passes_over_steps_on_axes_of_size_1) {
  const Sequence typed = sequence_of("mesh {u: 1, x: 2} [8] -> dynslice(0; u) -> dynslice(0; x) -> allgather(0; x,u)");
  const LowLevelSequence lowered = lower(plain(typed.source()), weaken(typed));
  EXPECT_EQ(to_string(lift(lowered)), "[8] -> dynslice(0; 2) [4] -> allgather(0; 2) [8]");
}

TEST(LowLevel, permute_to_adds_nothing_where_nothing_is_needed) {
  const DeviceAssignment start = plain("x=2,y=2", "[2{y,x}8]");
  EXPECT_TRUE(permute_to({start, {}}, plain("m=4", "[2{m}8]")).steps.empty());
  const LowLevelSequence permuted = permute_to({start, {}}, plain("x=2,y=2", "[2{x,y}8]"));
  ASSERT_EQ(permuted.steps.size(), 1U);
  EXPECT_TRUE(are_equivalent(permuted.target(), plain("x=2,y=2", "[2{x,y}8]")));
  EXPECT_EQ(cost(permuted), 2);
}

TEST(LowLevel, lifting_passes_over_permutations_to_other_meshes) {
  const DeviceAssignment start = plain("x=2,y=2", "[2{x,y}8]");
  LowLevelSequence sequence =
      permute_to({start, {}}, {DeviceMap({3, 2, 1, 0}), parse_type("[2{m}8]", parse_mesh("m=4"))});
  sequence.steps.push_back(allgather(sequence.target(), {{0, 2, 2}}));
  EXPECT_EQ(to_string(lift(sequence)), "[2] -> allgather(0; 2) [4]");
  EXPECT_EQ(cost(sequence), 2 + 4);
}

TEST(LowLevel, cost_that_does_not_fit_is_a_fault) {
  const DeviceAssignment a = plain("x=2,y=2", "[2305843009213693952{x}4611686018427387904]");
  const DeviceAssignment b = plain("x=2,y=2", "[2305843009213693952{y}4611686018427387904]");
  LowLevelSequence sequence{a, {}};
  for (int i = 0; i < 2; ++i) sequence = permute_to(permute_to(sequence, b), a);
  EXPECT_EQ(diagnostic_of([&] { return cost(sequence); }), "error: the cost of the sequence does not fit in 63 bits\n");
}

// Random walks over assignments on larger meshes: every step is sound, and lifting gives the weak steps back.
TEST(LowLevel, long_lowered_sequences_are_sound) {
  EXPECT_TRUE(rc::check("lowering a weak sequence moves data only within groups", [] {
    const Mesh mesh = *arbitrary_mesh();
    RC_PRE(mesh.device_count() <= 48);
    const DistributedType source = *arbitrary_type(mesh, divisible_shape(mesh, *rc::gen::inRange(1, 4)));
    const Sequence typed = *arbitrary_sequence(source, 6);
    const WeakSequence weak = weaken(typed);
    RC_LOG() << to_string(weak);
    const LowLevelSequence lowered = lower(plain(source), weak);
    for (const LowLevelStep& step : lowered.steps) RC_ASSERT(find_replay_fault(physical_step(step)).empty());
    RC_ASSERT(lift(lowered).target() == weak.target());
    RC_ASSERT(cost(lowered) == cost(weak));
    const LowLevelSequence whole = permute_to(lowered, plain(typed.target()));
    RC_ASSERT(same_boxes(placement_of(whole.target()), Placement(typed.target())));
    RC_ASSERT(cost(whole) <= cost(weak) + typed.target().local_size());
  }));
}

}  // namespace
}  // namespace retile::test
