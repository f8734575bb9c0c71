#include "retile/collectives/sequence.h"

#include <gtest/gtest.h>

#include <regex>

#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/diagnostic_of.h"

namespace retile::test {
namespace {

TEST(Sequence, holds_the_types_between_its_steps) {
  const Sequence sequence = sequence_of(R"(mesh {"x": 4, "y": 4}
    [32{x}128, 512, 32{y}128]
    -> allgather(0)
    -> alltoall(2 -> 1)
  )");
  EXPECT_EQ(sequence.size(), 2U);
  ASSERT_EQ(sequence.types().size(), 3U);
  EXPECT_EQ(to_string(sequence.source()), "[32{x}128, 512, 32{y}128]");
  EXPECT_EQ(to_string(sequence.types()[1]), "[128, 512, 32{y}128]");
  EXPECT_EQ(to_string(sequence.target()), "[128, 128{y}512, 128]");
  EXPECT_EQ(sequence.mesh(), parse_mesh("x=4,y=4"));
}

TEST(Sequence, refuses_a_step_that_does_not_apply) {
  const Mesh mesh = parse_mesh("x=4");
  const std::vector<Collective> steps{AllGather{0, {mesh.whole(0)}}, AllGather{0, {mesh.whole(0)}}};
  EXPECT_EQ(diagnostic_of([&] { Sequence(parse_type("[2{x}8]", mesh), steps); }),
            "error: x is not the most minor cut of dimension 0\nhint: the dimension is not cut\n");
}

TEST(Sequence, refused_step_leaves_the_sequence_as_it_was) {
  const Mesh mesh = parse_mesh("x=4");
  Sequence sequence(parse_type("[2{x}8]", mesh));
  EXPECT_THROW(sequence.append(DynSlice{0, {mesh.whole(0)}}), InputError);
  EXPECT_EQ(sequence.size(), 0U);
  EXPECT_EQ(sequence.types().size(), 1U);
}

// --- Height and cost.

TEST(Sequence, height_is_the_largest_local_size) {
  EXPECT_EQ(height(sequence_of("mesh {x: 4} [2{x}8]")), 2);
  EXPECT_EQ(height(sequence_of("mesh {x: 4} [2{x}8, 3] -> allgather(0) -> dynslice(0; x)")), 24);
  EXPECT_EQ(height(sequence_of("mesh {x: 4} [8] -> dynslice(0; x)")), 8);
  EXPECT_EQ(height(sequence_of("mesh {x: 4} [2{x}8] -> allgather(0)")), 8);
  EXPECT_EQ(height(sequence_of("mesh {x: 4} []")), 1);
}

TEST(Sequence, cost_adds_up_its_steps) {
  EXPECT_EQ(cost(sequence_of("mesh {x: 4} [2{x}8]")), 0);
  EXPECT_EQ(cost(sequence_of("mesh {x: 4, y: 2} [2{x}8, 12]"
                             "-> dynslice(1; y)"              // 0
                             "-> alltoall(0 -> 1; x:(2)2)"    // 12
                             "-> allpermute [4{y}8, 3{x}12]"  // 12
                             "-> allgather(1; x)"             // 48
                             "-> allgather(0)")),             // 96
            168);
}

TEST(Sequence, cost_that_does_not_fit_is_a_fault) {
  const Sequence sequence = sequence_of(
      "mesh {x: 2} [4611686018427387904] -> allpermute [4611686018427387904] -> allpermute [4611686018427387904]");
  EXPECT_EQ(diagnostic_of([&] { cost(sequence); }), "error: the cost of the sequence does not fit in 63 bits\n");
}

// --- def:normal-form.

void extend_kinds(std::vector<CollectiveKind>& kinds, std::string& labels, std::size_t longest, std::int64_t& count) {
  static const std::regex normal_form("s*[ap]*g*");
  ASSERT_EQ(is_normal_form(kinds), std::regex_match(labels, normal_form)) << labels;
  ++count;
  if (kinds.size() == longest) return;
  for (int kind = 0; kind < 4; ++kind) {
    kinds.push_back(static_cast<CollectiveKind>(kind));
    labels.push_back("sagp"[kind]);
    extend_kinds(kinds, labels, longest, count);
    kinds.pop_back();
    labels.pop_back();
  }
}

TEST(Sequence, normal_form_is_the_regular_expression_of_def_normal_form) {
  std::vector<CollectiveKind> kinds;
  std::string labels;
  std::int64_t count = 0;
  extend_kinds(kinds, labels, 6, count);
  EXPECT_EQ(count, 1 + 4 + 16 + 64 + 256 + 1024 + 4096);
}

TEST(Sequence, normal_form_of_a_sequence_is_that_of_its_labels) {
  EXPECT_TRUE(is_normal_form(sequence_of("mesh {x: 2} [4]")));
  EXPECT_TRUE(is_normal_form(sequence_of("mesh {x: 2} [4, 4] -> dynslice(0; x) -> alltoall(0 -> 1) -> allgather(1)")));
  EXPECT_FALSE(is_normal_form(sequence_of("mesh {x: 2} [2{x}4, 4] -> allgather(0) -> dynslice(1; x)")));
}

}  // namespace
}  // namespace retile::test
