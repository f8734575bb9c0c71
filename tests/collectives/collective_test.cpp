#include "retile/collectives/collective.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <optional>

#include "retile/collectives/sequence.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"
#include "tests/support/step_replay.h"
#include "tests/support/typed_steps.h"

namespace retile::test {
namespace {

using Parts = std::vector<AxisPart>;
using Cuts = std::vector<Parts>;

// fig:collective-typing once more, on lists of prime parts: the cuts after the step, or nothing where the rule does
// not apply.
class TypingRules {
 public:
  explicit TypingRules(const DistributedType& type) : type_(type) {
    for (const Dimension& dimension : type.dimensions()) {
      cuts_.push_back(split_into_primes(type.mesh(), dimension.axes));
    }
  }

  std::optional<Cuts> after(const Collective& step) {
    if (const auto* slice = std::get_if<DynSlice>(&step)) {
      return is_free(slice->axes) && add(slice->dimension, slice->axes) ? std::optional(cuts_) : std::nullopt;
    }
    if (const auto* gather = std::get_if<AllGather>(&step)) {
      return remove(gather->dimension, gather->axes) ? std::optional(cuts_) : std::nullopt;
    }
    const auto& move = std::get<AllToAll>(step);
    const bool applies = remove(move.from, move.axes) && add(move.to, move.axes);
    return applies ? std::optional(cuts_) : std::nullopt;
  }

 private:
  Parts& cut(int dimension) { return cuts_[static_cast<std::size_t>(dimension)]; }

  bool is_free(const Parts& axes) const {
    return std::none_of(axes.begin(), axes.end(), [&](const AxisPart& axis) {
      return std::any_of(cuts_.begin(), cuts_.end(),
                         [&](const Parts& held) { return std::find(held.begin(), held.end(), axis) != held.end(); });
    });
  }

  bool remove(int dimension, const Parts& axes) {
    Parts& held = cut(dimension);
    const bool minor_most = axes.size() <= held.size() && std::equal(axes.begin(), axes.end(), held.begin());
    if (minor_most) held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(axes.size()));
    return minor_most;
  }

  bool add(int dimension, const Parts& axes) {
    std::int64_t factor = 1;
    for (const AxisPart& axis : axes) factor *= axis.size;
    cut(dimension).insert(cut(dimension).begin(), axes.begin(), axes.end());
    return type_.dimension(dimension).tile % factor == 0;
  }

  const DistributedType& type_;
  Cuts cuts_;
};

// Shapes that every cut divides, and shapes that some cuts do not.
std::vector<Shape> shapes_for(const Mesh& mesh) {
  const std::int64_t devices = mesh.device_count();
  return {{devices}, {devices, devices}, {6, 4}, {2, 3, 4}};
}

struct Agreement {
  std::int64_t applying = 0;
  std::int64_t refused = 0;
};

void expect_rule(const DistributedType& type, const Collective& step, Agreement& agreement) {
  const std::optional<Cuts> expected = TypingRules(type).after(step);
  const auto describe = [&] { return to_string(type) + " -> " + to_string(type.mesh(), step); };
  ASSERT_EQ(find_fault(type, step).has_value(), !expected.has_value()) << describe();
  if (!expected) {
    ++agreement.refused;
    ASSERT_THROW(type_after(type, step), InputError) << describe();
    return;
  }
  ++agreement.applying;
  const DistributedType after = type_after(type, step);
  ASSERT_EQ(after, DistributedType::cut(type.mesh(), type.global_shape(), *expected)) << describe();
}

TEST(Collective, single_axis_rules_agree_with_fig_collective_typing) {
  Agreement agreement;
  for (const Mesh& mesh : all_meshes(16)) {
    for (const Shape& shape : shapes_for(mesh)) {
      for (const DistributedType& type : all_prime_types(mesh, shape)) {
        for (const Collective& step : candidate_collectives(type)) expect_rule(type, step, agreement);
      }
    }
  }
  EXPECT_GT(agreement.applying, 15000);
  EXPECT_GT(agreement.refused, 80000);
}

TEST(Collective, multi_axis_rules_agree_with_fig_collective_typing) {
  Agreement agreement;
  for (const Mesh& mesh : all_meshes(12)) {
    for (const Shape& shape : shapes_for(mesh)) {
      for (const DistributedType& type : all_prime_types(mesh, shape)) {
        for (const Collective& longest : multi_axis_collectives(DistributedType::replicated(mesh, {64}))) {
          const Parts& axes = axes_of(longest);
          for (int i = 0; i < type.rank(); ++i) {
            expect_rule(type, DynSlice{i, axes}, agreement);
            expect_rule(type, AllGather{i, axes}, agreement);
            for (int j = 0; j < type.rank(); ++j) {
              if (i != j) expect_rule(type, AllToAll{i, j, axes}, agreement);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(agreement.applying, 2000);
  EXPECT_GT(agreement.refused, 20000);
}

TEST(Collective, t_permute_applies_exactly_where_local_and_global_shapes_agree) {
  std::int64_t applying = 0;
  std::int64_t refused = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    std::vector<DistributedType> types;
    for (const Shape& shape : {Shape{8, 12}, Shape{12, 8}, Shape{8}, Shape{24, 4}}) {
      for (const DistributedType& type : all_prime_types(mesh, shape)) types.push_back(type);
    }
    for (const DistributedType& before : types) {
      for (const DistributedType& after : types) {
        const bool equal = before.local_shape() == after.local_shape() && before.global_shape() == after.global_shape();
        ASSERT_EQ(!find_fault(before, AllPermute{after}).has_value(), equal);
        ASSERT_TRUE(!equal || type_after(before, AllPermute{after}) == after);
        ++(equal ? applying : refused);
      }
    }
  }
  EXPECT_GT(applying, 1000);
  EXPECT_GT(refused, 5000);
}

// Two local shapes that agree, of different arrays: fig:collective-typing as printed would let them pass.
TEST(Collective, t_permute_needs_equal_global_types) {
  const Mesh mesh = parse_mesh("x=2,y=2");
  const DistributedType before = parse_type("[4{x}8, 4{y}8]", mesh);
  const DistributedType after = parse_type("[4{x,y}16, 4]", mesh);
  ASSERT_EQ(before.local_shape(), after.local_shape());
  EXPECT_TRUE(find_fault(before, AllPermute{after}));
}

// --- What the user reads.

struct FaultCase {
  const char* mesh;
  const char* type;
  Collective step;
  const char* expected;
};

void expect_fault(const FaultCase& test) {
  const DistributedType before = parse_type(test.type, parse_mesh(test.mesh));
  const auto fault = find_fault(before, test.step);
  ASSERT_TRUE(fault) << test.expected;
  EXPECT_EQ(fault->message + (fault->hint.empty() ? "" : " | " + fault->hint), test.expected);
  const std::string thrown =
      "error: " + fault->message + "\n" + (fault->hint.empty() ? "" : "hint: " + fault->hint + "\n");
  EXPECT_EQ(diagnostic_of([&] { type_after(before, test.step); }), thrown);
}

constexpr AxisPart x4{0, 1, 4};
constexpr AxisPart x_major{0, 1, 2};
constexpr AxisPart x_minor{0, 2, 2};
constexpr AxisPart y6{1, 1, 6};
constexpr AxisPart y_minor{1, 2, 3};
constexpr const char* mesh46 = "x=4,y=6";

TEST(Collective, faults_of_dynslice_word_for_word) {
  const char* type = "[32{x}128, 10]";
  for (const FaultCase& test : {
           FaultCase{mesh46, type, DynSlice{2, {y6}},
                     "there is no dimension 2 | [32{x}128, 10] has rank 2; dimensions count from 0"},
           FaultCase{mesh46, type, DynSlice{-1, {y6}},
                     "there is no dimension -1 | [32{x}128, 10] has rank 2; dimensions count from 0"},
           FaultCase{mesh46, type, DynSlice{1, {}}, "a collective needs at least one axis"},
           FaultCase{mesh46, type, DynSlice{1, {{2, 1, 2}}}, "an axis that the mesh does not have"},
           FaultCase{mesh46, type, DynSlice{1, {{-1, 1, 2}}}, "an axis that the mesh does not have"},
           FaultCase{mesh46, type, DynSlice{1, {{1, 3, 2}}}, "y:(3)2 is no part of its axis"},
           FaultCase{mesh46, type, DynSlice{1, {y_minor, y6}}, "axis y is used twice"},
           FaultCase{mesh46, type, DynSlice{1, {x4}},
                     "axis x already cuts a dimension | dynslice takes axes along which the array is replicated"},
           FaultCase{mesh46, type, DynSlice{1, {y6, x_minor}},
                     "axis x:(2)2 already cuts a dimension | dynslice takes axes along which the array is replicated"},
           FaultCase{mesh46, type, DynSlice{1, {y6}}, "the local size 10 of dimension 1 does not divide by 6"},
           FaultCase{mesh46, type, DynSlice{0, {y_minor}}, "the local size 32 of dimension 0 does not divide by 3"},
       }) {
    expect_fault(test);
  }
}

TEST(Collective, faults_of_alltoall_word_for_word) {
  const char* type = "[2{x:(2)2,y,x:(1)2}48, 10, 8]";
  for (const FaultCase& test : {
           FaultCase{mesh46, type, AllToAll{3, 0, {x4}},
                     "there is no dimension 3 | [2{x:(2)2,y,x:(1)2}48, 10, 8] has rank 3; dimensions count from 0"},
           FaultCase{mesh46, type, AllToAll{0, 5, {x4}},
                     "there is no dimension 5 | [2{x:(2)2,y,x:(1)2}48, 10, 8] has rank 3; dimensions count from 0"},
           FaultCase{mesh46, type, AllToAll{0, 0, {x_minor}}, "alltoall needs two different dimensions"},
           FaultCase{mesh46, type, AllToAll{0, 1, {}}, "a collective needs at least one axis"},
           FaultCase{mesh46, type, AllToAll{0, 1, {{5, 1, 2}}}, "an axis that the mesh does not have"},
           FaultCase{mesh46, type, AllToAll{0, 1, {x_minor, x_minor}}, "axis x:(2)2 is used twice"},
           FaultCase{mesh46, type, AllToAll{0, 1, {x_major}},
                     "x:(1)2 is not the most minor cut of dimension 0 | from minor to major it is cut along "
                     "x:(2)2,y,x:(1)2"},
           FaultCase{mesh46, type, AllToAll{0, 1, {y6, x_minor}},
                     "y,x:(2)2 is not the most minor cut of dimension 0 | from minor to major it is cut along "
                     "x:(2)2,y,x:(1)2"},
           FaultCase{mesh46, type, AllToAll{1, 0, {x_minor}},
                     "x:(2)2 is not the most minor cut of dimension 1 | the dimension is not cut"},
           FaultCase{mesh46, type, AllToAll{0, 1, {x_minor, y6}},
                     "the local size 10 of dimension 1 does not divide by 12"},
       }) {
    expect_fault(test);
  }
}

TEST(Collective, faults_of_allgather_word_for_word) {
  const char* type = "[2{y,x}48, 10]";
  for (const FaultCase& test : {
           FaultCase{mesh46, type, AllGather{2, {y6}},
                     "there is no dimension 2 | [2{y,x}48, 10] has rank 2; dimensions count from 0"},
           FaultCase{mesh46, type, AllGather{0, {}}, "a collective needs at least one axis"},
           FaultCase{mesh46, type, AllGather{0, {{0, 1, 3}}}, "x:(1)3 is no part of its axis"},
           FaultCase{mesh46, type, AllGather{0, {x4}},
                     "x is not the most minor cut of dimension 0 | from minor to major it is cut along y,x"},
           FaultCase{mesh46, type, AllGather{0, {y6, x_major}},
                     "y,x:(1)2 is not the most minor cut of dimension 0 | from minor to major it is cut along y,x"},
           FaultCase{mesh46, type, AllGather{1, {y6}},
                     "y is not the most minor cut of dimension 1 | the dimension is not cut"},
       }) {
    expect_fault(test);
  }
}

TEST(Collective, faults_of_allpermute_word_for_word) {
  const Mesh mesh = parse_mesh("x=2,y=2");
  const Mesh other = parse_mesh("x=4");
  const auto to = [&](const char* text) { return AllPermute{parse_type(text, mesh)}; };
  const char* type = "[4{x}8, 4{y}8]";
  expect_fault({"x=2,y=2", type, AllPermute{parse_type("[2{x}8, 8]", other)}, "allpermute stays on one mesh"});
  expect_fault(
      {"x=2,y=2", type, to("[4{x,y}16, 4]"), "allpermute keeps the global shape [8, 8], and this type has [16, 4]"});
  expect_fault(
      {"x=2,y=2", type, to("[2{x,y}8, 8]"), "allpermute keeps the local shape [4, 4], and this type has [2, 8]"});
}

// The first fault in the order of the rule's premises is the one that is reported.
TEST(Collective, reports_the_dimension_before_the_axes) {
  expect_fault({mesh46, "[32]", DynSlice{1, {}}, "there is no dimension 1 | [32] has rank 1; dimensions count from 0"});
}

// --- Parts of axes.

TEST(Collective, takes_parts_of_axes_and_joins_them_again) {
  const Mesh mesh = parse_mesh(mesh46);
  const DistributedType whole = parse_type("[32, 24{x}96]", mesh);
  const DistributedType half = type_after(whole, AllToAll{1, 0, {x_minor}});
  EXPECT_EQ(to_string(half), "[16{x:(2)2}32, 48{x:(1)2}96]");
  const DistributedType turned = type_after(half, AllToAll{1, 0, {x_major}});
  EXPECT_EQ(to_string(turned), "[8{x:(1)2,x:(2)2}32, 96]");
  const DistributedType joined = type_after(type_after(half, AllGather{0, {x_minor}}), DynSlice{1, {x_minor}});
  EXPECT_EQ(joined, whole);
  EXPECT_EQ(to_string(joined), "[32, 24{x}96]");
}

TEST(Collective, acts_on_a_part_that_reaches_over_two_axes_in_order) {
  const Mesh mesh = parse_mesh(mesh46);
  const DistributedType before = parse_type("[1{y:(2)3,x,y:(1)2}24, 24]", mesh);
  const DistributedType after = type_after(before, AllToAll{0, 1, {y_minor, x4}});
  EXPECT_EQ(to_string(after), "[12{y:(1)2}24, 2{y:(2)3,x}24]");
  const DistributedType some = type_after(before, AllToAll{0, 1, {y_minor, x_minor}});
  EXPECT_EQ(to_string(some), "[6{x:(1)2,y:(1)2}24, 4{y:(2)3,x:(2)2}24]");
}

// def:collective-semantics: the meaning depends on the base-offset map alone, not on how parts are written.
TEST(Collective, does_not_care_how_neighbouring_parts_are_written) {
  std::int64_t compared = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    for (const DistributedType& type : all_types(mesh, divisible_shape(mesh, 2))) {
      const DistributedType split = split_into_primes(type);
      for (const Collective& step : single_axis_collectives(split)) {
        ASSERT_FALSE(find_fault(type, step)) << to_string(type) << " " << to_string(mesh, step);
        ASSERT_EQ(type_after(type, step), type_after(split, step));
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(Collective, axes_of_size_1_cut_nothing_but_are_kept_in_mind) {
  const Mesh mesh = parse_mesh("u=1,x=2");
  const AxisPart unit{0, 1, 1};
  const DistributedType before = parse_type("[4, 6]", mesh);
  const DistributedType named = type_after(before, DynSlice{0, {unit}});
  EXPECT_EQ(to_string(named), "[4{u}4, 6]");
  EXPECT_TRUE(find_fault(named, DynSlice{1, {unit}}));
  EXPECT_EQ(to_string(type_after(named, AllToAll{0, 1, {unit}})), "[4, 6{u}6]");
  EXPECT_EQ(type_after(named, AllGather{0, {unit}}), before);
}

// --- Meaning: what a device holds after a step was held by its group before.

void expect_sound(const DistributedType& before, const Collective& step) {
  const std::string fault = find_replay_fault(physical_step(before, step));
  ASSERT_EQ(fault, "") << to_string(before) << " -> " << to_string(before.mesh(), step);
  const Sequence sequence(before, {step});
  const Plan plan = finish_plan(before, sequence.target(), typed_steps(sequence));
  ASSERT_EQ(find_faults(plan), std::vector<std::string>()) << to_string(sequence);
}

TEST(Collective, every_collective_finds_its_data_in_its_group) {
  std::int64_t checked = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    for (int rank = 1; rank <= 2; ++rank) {
      const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, rank));
      for (const DistributedType& type : types) {
        std::vector<Collective> steps = multi_axis_collectives(type);
        const std::vector<Collective> permuted = permutations(type, types);
        steps.insert(steps.end(), permuted.begin(), permuted.end());
        for (const Collective& step : steps) expect_sound(type, step);
        checked += static_cast<std::int64_t>(steps.size());
      }
    }
  }
  EXPECT_GT(checked, 4000);
}

TEST(Collective, long_sequences_find_their_data_in_their_groups) {
  EXPECT_TRUE(rc::check("find_faults() accepts the plan of any typed sequence", [] {
    const Mesh mesh = *arbitrary_mesh();
    RC_PRE(mesh.device_count() <= 64);
    const DistributedType source = *arbitrary_type(mesh, divisible_shape(mesh, *rc::gen::inRange(1, 4)));
    const Sequence sequence = *arbitrary_sequence(source, 6);
    RC_LOG() << to_string(sequence);
    const Plan plan = finish_plan(sequence.source(), sequence.target(), typed_steps(sequence));
    RC_ASSERT(find_faults(plan).empty());
  }));
}

// --- Small things.

TEST(Collective, prints_as_in_sequence_files) {
  const Mesh mesh = parse_mesh("x=4,y=6,\"odd name\"=2");
  EXPECT_EQ(to_string(mesh, DynSlice{1, {x4, y6}}), "dynslice(1; x,y)");
  EXPECT_EQ(to_string(mesh, AllToAll{0, 2, {y_minor, x_minor}}), "alltoall(0 -> 2; y:(2)3,x:(2)2)");
  EXPECT_EQ(to_string(mesh, AllGather{0, {x_minor, x_major}}), "allgather(0; x)");
  EXPECT_EQ(to_string(mesh, AllGather{0, {x_major, x_minor}}), "allgather(0; x:(1)2,x:(2)2)");
  EXPECT_EQ(to_string(mesh, AllGather{0, {{2, 1, 2}}}), "allgather(0; \"odd name\")");
  EXPECT_EQ(to_string(mesh, AllPermute{parse_type("[4]", mesh)}), "allpermute");
}

TEST(Collective, knows_its_kind_axes_and_factor) {
  const Collective slice = DynSlice{0, {x4, y_minor}};
  EXPECT_EQ(kind_of(slice), CollectiveKind::dynslice);
  EXPECT_EQ(axes_of(slice), (Parts{x4, y_minor}));
  EXPECT_EQ(factor_of(slice), 12);
  const Collective move = AllToAll{0, 1, {y6}};
  EXPECT_EQ(kind_of(move), CollectiveKind::alltoall);
  EXPECT_EQ(factor_of(move), 6);
  const Collective gather = AllGather{0, {x_minor}};
  EXPECT_EQ(kind_of(gather), CollectiveKind::allgather);
  EXPECT_EQ(factor_of(gather), 2);
  const Collective permute = AllPermute{parse_type("[4]", parse_mesh("x=4"))};
  EXPECT_EQ(kind_of(permute), CollectiveKind::allpermute);
  EXPECT_TRUE(axes_of(permute).empty());
  EXPECT_EQ(factor_of(permute), 1);
}

TEST(Collective, names_of_kinds) {
  EXPECT_STREQ(name_of(CollectiveKind::dynslice), "dynslice");
  EXPECT_STREQ(name_of(CollectiveKind::alltoall), "alltoall");
  EXPECT_STREQ(name_of(CollectiveKind::allgather), "allgather");
  EXPECT_STREQ(name_of(CollectiveKind::allpermute), "allpermute");
}

TEST(Collective, costs_as_in_fig_cost_model) {
  EXPECT_EQ(cost(CollectiveKind::dynslice, 4), 0);
  EXPECT_EQ(cost(CollectiveKind::alltoall, 12), 12);
  EXPECT_EQ(cost(CollectiveKind::allgather, 12), 12);
  EXPECT_EQ(cost(CollectiveKind::allpermute, 12), 12);
}

}  // namespace
}  // namespace retile::test
