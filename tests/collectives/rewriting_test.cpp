#include "retile/collectives/rewriting.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/step_replay.h"

namespace retile::test {
namespace {

std::vector<std::string> rules(const Trace& normalization) {
  std::vector<std::string> names;
  for (const TracedRewriting& traced : normalization.rewritings) names.push_back(traced.rewriting.rule);
  return names;
}

// --- The trace.

TEST(Rewriting, leaves_a_normal_form_of_prime_axes_alone) {
  const Sequence sequence =
      sequence_of("mesh {x: 2, y: 3} [12, 12{y}36] -> dynslice(0; x) -> alltoall(1 -> 0) -> allgather(0; y)");
  const Trace normalization = trace_normalization(sequence);
  EXPECT_TRUE(normalization.rewritings.empty());
  EXPECT_EQ(to_string(normalization.result()), to_string(sequence));
  EXPECT_EQ(to_string(normalization.source), to_string(sequence));
}

TEST(Rewriting, empty_sequence_stays_empty) {
  EXPECT_TRUE(trace_normalization(sequence_of("mesh {x: 4} [2{x}8]")).rewritings.empty());
  EXPECT_TRUE(trace_normalization(sequence_of("mesh {x: 4} []")).rewritings.empty());
}

TEST(Rewriting, says_what_it_does_step_by_step) {
  const Trace normalization = trace_normalization(sequence_of(R"(mesh {x: 4, y: 4}
    [32{x}128, 128]
    -> allgather(0)
    -> dynslice(1; x))"));
  ASSERT_FALSE(normalization.rewritings.empty());
  const Rewriting& first = normalization.rewritings.front().rewriting;
  EXPECT_EQ(first.rule, "split into single prime axes");
  EXPECT_EQ(first.first, 0U);
  EXPECT_EQ(first.replaced, 2U);
  EXPECT_EQ(first.added.size(), 4U);
  EXPECT_EQ(to_string(first.added),
            "mesh {x: 4, y: 4}\n"
            "[32{x}128, 128]\n"
            "-> allgather(0; x:(2)2) [64{x:(1)2}128, 128]\n"
            "-> allgather(0; x:(1)2) [128, 128]\n"
            "-> dynslice(1; x:(1)2) [128, 64{x:(1)2}128]\n"
            "-> dynslice(1; x:(2)2) [128, 32{x}128]\n");
  EXPECT_EQ(rules(normalization),
            (std::vector<std::string>{"split into single prime axes", "lem:peak, case 3 (i != j, x = y)",
                                      "lem:edges, rising, case 1 (i = k)", "lem:peak, case 3 (i != j, x = y)"}));
  EXPECT_EQ(to_string(normalization.result()),
            "mesh {x: 4, y: 4}\n"
            "[32{x}128, 128]\n"
            "-> allpermute [32{x:(1)2,x:(2)2}128, 128]\n"
            "-> alltoall(0 -> 1; x:(1)2) [64{x:(2)2}128, 64{x:(1)2}128]\n"
            "-> alltoall(0 -> 1; x:(2)2) [128, 32{x}128]\n");
}

// Each rewriting replaces what it says and nothing else.
void expect_local_changes(const Trace& normalization) {
  const Sequence* before = &normalization.source;
  for (const auto& [rewriting, after] : normalization.rewritings) {
    const std::size_t added = rewriting.added.size();
    ASSERT_EQ(after.size(), before->size() - rewriting.replaced + added);
    const auto text = [](const Sequence& sequence, std::size_t i) {
      return to_string(sequence.mesh(), sequence.steps()[i]) + to_string(sequence.types()[i + 1]);
    };
    for (std::size_t i = 0; i < rewriting.first; ++i) ASSERT_EQ(text(after, i), text(*before, i));
    for (std::size_t i = rewriting.first + added; i < after.size(); ++i) {
      ASSERT_EQ(text(after, i), text(*before, i - added + rewriting.replaced));
    }
    before = &after;
  }
}

TEST(Rewriting, replaces_what_it_says_and_nothing_else) {
  std::int64_t count = 0;
  const Mesh mesh = parse_mesh("x=2,y=3,z=2");
  const std::vector<DistributedType> types = all_prime_types(mesh, {12, 12});
  for (std::size_t i = 0; i < types.size(); i += 1) {
    count += for_each_sequence(Sequence(types[i]), 3, single_axis_collectives,
                               [](const Sequence& sequence) { expect_local_changes(trace_normalization(sequence)); });
  }
  EXPECT_GT(count, 5000);
}

// --- Splitting and merging.

TEST(Rewriting, splits_axes_of_mixed_primes) {
  const Sequence sequence = sequence_of("mesh {x: 12} [1{x}12, 12] -> allgather(0; x) -> dynslice(1; x)");
  const Trace normalization = trace_normalization(sequence);
  EXPECT_EQ(kinds(normalization.rewritings.front().result), "gggsss");
  EXPECT_EQ(to_string(normalization.rewritings.front().result),
            "mesh {x: 12}\n"
            "[1{x}12, 12]\n"
            "-> allgather(0; x:(4)3) [3{x:(1)4}12, 12]\n"
            "-> allgather(0; x:(2)2) [6{x:(1)2}12, 12]\n"
            "-> allgather(0; x:(1)2) [12, 12]\n"
            "-> dynslice(1; x:(1)2) [12, 6{x:(1)2}12]\n"
            "-> dynslice(1; x:(2)2) [12, 3{x:(1)4}12]\n"
            "-> dynslice(1; x:(4)3) [12, 1{x}12]\n");
  EXPECT_TRUE(is_normal_form(normalization.result()));
  EXPECT_EQ(height(normalization.result()), 12);
}

TEST(Rewriting, splits_an_alltoall_with_the_permutation_that_its_order_needs) {
  const Sequence sequence = sequence_of("mesh {x: 4, y: 2} [2{x}8, 8] -> alltoall(0 -> 1) -> dynslice(0; y)");
  const Trace normalization = trace_normalization(sequence);
  EXPECT_EQ(kinds(normalization.rewritings.front().result), "aaps");
  EXPECT_EQ(kinds(normalization.result()), "sap");
  EXPECT_TRUE(is_normal_form(normalization.result()));
  EXPECT_TRUE(same_boxes(Placement(normalization.result().target()), Placement(sequence.target())));
}

TEST(Rewriting, merges_neighbours_of_a_kind) {
  const Sequence slices =
      sequence_of("mesh {x: 2, y: 2, z: 2} [8, 8] -> dynslice(1; x) -> dynslice(0; y) -> dynslice(1; z)");
  EXPECT_EQ(to_string(normalize(slices)),
            "mesh {x: 2, y: 2, z: 2}\n"
            "[8, 8]\n"
            "-> dynslice(0; y) [4{y}8, 8]\n"
            "-> dynslice(1; z,x) [4{y}8, 2{z,x}8]\n");
  const Sequence gathers =
      sequence_of("mesh {x: 2, y: 2, z: 2} [4{y}8, 2{z,x}8] -> allgather(1) -> allgather(0) -> allgather(1)");
  EXPECT_EQ(to_string(normalize(gathers)),
            "mesh {x: 2, y: 2, z: 2}\n"
            "[4{y}8, 2{z,x}8]\n"
            "-> allgather(0; y) [8, 2{z,x}8]\n"
            "-> allgather(1; z,x) [8, 8]\n");
}

// One alltoall keeps the order of its axes, two turn it around.
TEST(Rewriting, merges_alltoalls_before_a_permutation) {
  const Sequence sequence = sequence_of(R"(mesh {x: 2, y: 2, z: 2}
    [1{x,y,z}8, 8] -> alltoall(0 -> 1) -> alltoall(0 -> 1) -> alltoall(0 -> 1) -> allpermute [8, 1{x,y,z}8])");
  const Trace normalization = trace_normalization(sequence);
  EXPECT_EQ(rules(normalization),
            (std::vector<std::string>{"merge neighbouring alltoalls", "merge neighbouring alltoalls",
                                      "drop an allpermute that does nothing"}));
  EXPECT_EQ(to_string(normalization.result()),
            "mesh {x: 2, y: 2, z: 2}\n"
            "[1{x,y,z}8, 8]\n"
            "-> alltoall(0 -> 1; x,y,z) [8, 1{x,y,z}8]\n");
  const Sequence turned(sequence.source(), {sequence.steps()[0], sequence.steps()[1]});
  EXPECT_TRUE(trace_normalization(turned).rewritings.empty());
}

TEST(Rewriting, merges_permutations_and_drops_those_that_do_nothing) {
  const Sequence sequence = sequence_of(R"(mesh {x: 2, y: 2}
    [2{x,y}8] -> allpermute [2{y,x}8] -> allpermute [2{x,y}8])");
  EXPECT_EQ(rules(trace_normalization(sequence)),
            (std::vector<std::string>{"merge neighbouring allpermutes", "drop an allpermute that does nothing"}));
  EXPECT_EQ(trace_normalization(sequence).result().size(), 0U);
}

// As many as would not fit in memory, were every sequence on the way kept.
TEST(Rewriting, takes_time_and_memory_for_what_changes) {
  const DistributedType type = sequence_of("mesh {x: 2, y: 2} [4{x}8, 8]").source();
  const AxisPart x = type.dimension(0).axes.front();
  Sequence sequence(type);
  for (int i = 0; i < 30000; ++i) {
    sequence.append(AllGather{0, {x}});
    sequence.append(DynSlice{0, {x}});
  }
  std::int64_t rewritings = 0;
  const Sequence result = normalize(sequence, [&](const Rewriting& rewriting) {
    ++rewritings;
    EXPECT_LE(rewriting.added.size(), 3U);
  });
  EXPECT_EQ(rewritings, 30000);
  EXPECT_EQ(result.size(), 0U);
}

TEST(Rewriting, leaves_axes_of_size_1_out) {
  const Sequence sequence = sequence_of(R"(mesh {u: 1, x: 2}
    [4{u,x}8, 8] -> alltoall(0 -> 1; u) -> allgather(0; x) -> dynslice(1; x) -> allpermute [8{u}8, 4{x}8])");
  const Trace normalization = trace_normalization(sequence);
  EXPECT_EQ(to_string(normalization.result()),
            "mesh {u: 1, x: 2}\n"
            "[4{x}8, 8]\n"
            "-> alltoall(0 -> 1; x) [8, 4{x}8]\n");
  EXPECT_TRUE(same_boxes(Placement(normalization.result().source()), Placement(sequence.source())));
  EXPECT_TRUE(same_boxes(Placement(normalization.result().target()), Placement(sequence.target())));
}

// --- Larger meshes. Exhaustive checks of small ones are with the statements of the paper.

TEST(Rewriting, long_sequences_on_mixed_meshes_reach_normal_form) {
  EXPECT_TRUE(rc::check("normalize() keeps the ends and reaches normal form", [] {
    const Mesh mesh = *arbitrary_mesh();
    const DistributedType source = *arbitrary_type(mesh, divisible_shape(mesh, *rc::gen::inRange(1, 4)));
    const Sequence sequence = *arbitrary_sequence(source, 12);
    RC_LOG() << to_string(sequence);
    const Trace normalization = trace_normalization(sequence);
    for (const TracedRewriting& traced : normalization.rewritings) {
      RC_ASSERT(same_placement(traced.result.source(), sequence.source()));
      RC_ASSERT(same_placement(traced.result.target(), sequence.target()));
    }
    const Sequence& result = normalization.result();
    RC_ASSERT(is_normal_form(result));
    RC_ASSERT(height(result) <= std::max(source.local_size(), sequence.target().local_size()));
    RC_ASSERT(same_boxes(Placement(result.source()), Placement(sequence.source())));
    RC_ASSERT(same_boxes(Placement(result.target()), Placement(sequence.target())));
    RC_ASSERT(to_string(normalize(result)) == to_string(result));
  }));
}

}  // namespace
}  // namespace retile::test
