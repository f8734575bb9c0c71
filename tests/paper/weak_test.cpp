#include "tests/support/weak.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "retile/base/error.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"

namespace retile::test {
namespace {

// Every shape that fits into the global one.
std::vector<Shape> shapes_within(const Shape& global) {
  std::vector<Shape> shapes{Shape()};
  for (const std::int64_t size : global) {
    std::vector<Shape> longer;
    for (const Shape& shape : shapes) {
      for (std::int64_t local = 1; local <= size; ++local) {
        longer.push_back(shape);
        longer.back().push_back(local);
      }
    }
    shapes = std::move(longer);
  }
  return shapes;
}

TEST(WeakType, is_the_local_shape_of_an_array) {
  const WeakType weak = weaken(parse_type("[8{x,y}32, 128]", parse_mesh("x=2,y=2")));
  EXPECT_EQ(weak, (WeakType{{32, 128}, {8, 128}}));
  EXPECT_EQ(local_size(weak), 1024);
}

TEST(WeakType, is_supplied_exactly_where_some_type_has_it) {
  std::int64_t supplied = 0;
  std::int64_t not_supplied = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    for (const Shape& global : {Shape{12, 8}, Shape{6, 5}, Shape{mesh.device_count(), 4}, Shape{24}}) {
      const std::vector<DistributedType> types = all_prime_types(mesh, global);
      for (const Shape& local : shapes_within(global)) {
        const bool exists = std::any_of(types.begin(), types.end(),
                                        [&](const DistributedType& type) { return type.local_shape() == local; });
        ASSERT_EQ(is_supplied(mesh, {global, local}), exists) << to_string(mesh) << to_string(local);
        ++(exists ? supplied : not_supplied);
      }
    }
  }
  EXPECT_GT(supplied, 500);
  EXPECT_GT(not_supplied, 4000);
}

TEST(WeakType, is_not_supplied_with_sizes_below_1) {
  const Mesh mesh = parse_mesh("x=2");
  EXPECT_FALSE(is_supplied(mesh, {{4}, {0}}));
  EXPECT_FALSE(is_supplied(mesh, {{4}, {-2}}));
}

// eq:weak-semantics: a weak step from E⟦τ1⟧ exists where the collective leads from some type of that weak type.
WeakStep weak_step_of(const DistributedType& type, const Collective& step) {
  return weaken(Sequence(type, {step})).steps().front();
}

TEST(WeakStep, applies_exactly_where_a_typed_collective_does) {
  std::int64_t applying = 0;
  std::int64_t refused = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    for (const Shape& global : {Shape{mesh.device_count(), 8}, Shape{6, 4}, Shape{4, 2, 3}}) {
      const std::vector<DistributedType> types = all_prime_types(mesh, global);
      for (const WeakType& weak : all_weak_types(mesh, global)) {
        std::vector<WeakStep> typed;
        for (const DistributedType& type : types) {
          if (weaken(type) != weak) continue;
          for (const Collective& step : multi_axis_collectives(type)) typed.push_back(weak_step_of(type, step));
        }
        const int rank = static_cast<int>(global.size());
        for (std::int64_t factor = 2; factor <= 9; ++factor) {
          for (int i = 0; i < rank; ++i) {
            for (int j = 0; j < rank; ++j) {
              for (const WeakStep& step :
                   {weak_slice(i, factor), weak_gather(i, factor), weak_alltoall(i, j, factor)}) {
                const bool exists = std::find(typed.begin(), typed.end(), step) != typed.end();
                ASSERT_EQ(!find_fault(mesh, weak, step).has_value(), exists)
                    << to_string(mesh) << to_string(weak.local) << name_of(step.kind) << i << j << " " << factor;
                ++(exists ? applying : refused);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(applying, 1000);
  EXPECT_GT(refused, 10000);
}

// The typed collective and the weak one lead to the same weak type.
TEST(WeakStep, leads_where_the_typed_collective_leads) {
  std::int64_t compared = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      for (const Collective& step : multi_axis_collectives(type)) {
        ASSERT_EQ(type_after(mesh, weaken(type), weak_step_of(type, step)), weaken(type_after(type, step)));
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 4000);
}

TEST(WeakStep, faults_word_for_word) {
  const Mesh mesh = parse_mesh("x=2,y=3");
  const WeakType type{{12, 8}, {6, 8}};
  const auto fault = [&](const WeakStep& step) { return find_fault(mesh, type, step)->message; };
  EXPECT_EQ(fault(weak_slice(2, 3)), "a weak step outside the type");
  EXPECT_EQ(fault(weak_slice(-1, 3)), "a weak step outside the type");
  EXPECT_EQ(fault(weak_alltoall(0, 2, 2)), "a weak step outside the type");
  EXPECT_EQ(fault(weak_slice(0, 0)), "a weak step outside the type");
  EXPECT_EQ(fault(weak_alltoall(0, 0, 2)), "alltoall needs two different dimensions");
  EXPECT_EQ(fault(weak_gather(0, 3)), "dimension 0 is not cut by 3");
  EXPECT_EQ(fault(weak_alltoall(1, 0, 2)), "dimension 1 is not cut by 2");
  EXPECT_EQ(fault(weak_slice(1, 3)), "the local size 8 of dimension 1 does not divide by 3");
  EXPECT_EQ(find_fault(mesh, {{12, 9}, {6, 9}}, weak_alltoall(0, 1, 2))->message,
            "the local size 9 of dimension 1 does not divide by 2");
  EXPECT_EQ(fault(weak_slice(1, 2)), "the mesh has no axes left for this cut");
  EXPECT_EQ(diagnostic_of([&] { return type_after(mesh, type, weak_slice(1, 2)); }),
            "error: the mesh has no axes left for this cut\n");
}

TEST(WeakSequence, holds_the_types_between_its_steps) {
  const Mesh mesh = parse_mesh("x=4,y=3");
  const WeakSequence sequence(mesh, {{8, 6}, {2, 6}},
                              {weak_slice(1, 3), weak_alltoall(0, 1, 2), weak_gather(0, 2), weak_gather(1, 6)});
  EXPECT_EQ(
      to_string(sequence),
      "[2, 6] -> dynslice(1; 3) [2, 2] -> alltoall(0 -> 1; 2) [4, 1] -> allgather(0; 2) [8, 1] -> allgather(1; 6) "
      "[8, 6]");
  EXPECT_EQ(sequence.size(), 4U);
  EXPECT_EQ(sequence.source().local, (Shape{2, 6}));
  EXPECT_EQ(sequence.target().local, (Shape{8, 6}));
  EXPECT_EQ(height(sequence), 48);
  EXPECT_EQ(cost(sequence), 0 + 4 + 8 + 48);
  EXPECT_TRUE(is_normal_form(sequence));
}

TEST(WeakSequence, peak_is_no_normal_form) {
  const Mesh mesh = parse_mesh("x=4");
  EXPECT_FALSE(is_normal_form(WeakSequence(mesh, {{8}, {2}}, {weak_gather(0, 2), weak_slice(0, 2)})));
  EXPECT_TRUE(is_normal_form(WeakSequence(mesh, {{8}, {2}})));
}

TEST(WeakSequence, starts_at_a_weak_type_of_its_mesh) {
  EXPECT_THROW(WeakSequence(parse_mesh("x=4"), {{9}, {3}}), InternalError);
}

TEST(WeakSequence, refuses_a_step_that_does_not_apply) {
  WeakSequence sequence(parse_mesh("x=4"), {{8}, {2}});
  EXPECT_EQ(diagnostic_of([&] {
              sequence.append(weak_gather(0, 8));
              return 0;
            }),
            "error: dimension 0 is not cut by 8\n");
  EXPECT_EQ(sequence.size(), 0U);
  EXPECT_EQ(sequence.types().size(), 1U);
}

TEST(WeakSequence, leaves_permutations_out) {
  const Sequence typed = sequence_of(R"(mesh {x: 4, y: 4}
    [32{x,y}512, 128]
    -> allpermute [32{y,x}512, 128]
    -> alltoall(0 -> 1; y)
    -> allpermute [128{y}512, 32{x}128]
    -> allgather(1))");
  const WeakSequence weak = weaken(typed);
  EXPECT_EQ(to_string(weak), "[32, 128] -> alltoall(0 -> 1; 4) [128, 32] -> allgather(1; 4) [128, 128]");
  EXPECT_EQ(height(weak), height(typed));
  EXPECT_EQ(cost(weak), cost(typed) - 2 * 4096);
}

TEST(WeakSequence, cost_that_does_not_fit_is_a_fault) {
  const std::int64_t large = std::int64_t{1} << 61;
  const WeakSequence sequence(
      parse_mesh("x=2"), {{large, 2}, {large / 2, 2}},
      {weak_alltoall(0, 1, 2), weak_alltoall(1, 0, 2), weak_alltoall(0, 1, 2), weak_alltoall(1, 0, 2)});
  EXPECT_EQ(diagnostic_of([&] { return cost(sequence); }), "error: the cost of the sequence does not fit in 63 bits\n");
}

TEST(WeakRewriting, merges_what_it_split) {
  const Mesh mesh = parse_mesh("x=8,y=3");
  const WeakSequence sequence(mesh, {{24, 24}, {3, 24}}, {weak_alltoall(0, 1, 4), weak_slice(1, 3), weak_gather(0, 2)});
  EXPECT_EQ(to_string(normalize(sequence)),
            "[3, 24] -> dynslice(1; 3) [3, 8] -> alltoall(0 -> 1; 4) [12, 2] -> allgather(0; 2) [24, 2]");
}

TEST(WeakRewriting, long_sequences_never_grow_in_cost) {
  EXPECT_TRUE(rc::check("cost(normalize(s)) <= cost(s)", [] {
    const Mesh mesh = *arbitrary_mesh();
    const DistributedType source = *arbitrary_type(mesh, divisible_shape(mesh, *rc::gen::inRange(1, 4)));
    const WeakSequence weak = weaken(*arbitrary_sequence(source, 12));
    RC_LOG() << to_string(weak);
    const WeakSequence result = normalize(weak);
    RC_ASSERT(is_normal_form(result));
    RC_ASSERT(result.source() == weak.source());
    RC_ASSERT(result.target() == weak.target());
    RC_ASSERT(height(result) <= std::max(local_size(weak.source()), local_size(weak.target())));
    RC_ASSERT(cost(result) <= cost(weak));
  }));
}

}  // namespace
}  // namespace retile::test
