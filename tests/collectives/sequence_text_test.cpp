// The text form of sequences: what is printed parses back, and what is wrong is told in words.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "retile/collectives/sequence.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"

namespace retile::test {
namespace {

// Both sequences have equal types, kinds, dimensions and prime axes.
void expect_same(const Sequence& a, const Sequence& b) {
  ASSERT_EQ(a.types(), b.types());
  ASSERT_EQ(kinds(a), kinds(b));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto primes = [&](const Sequence& s) { return split_into_primes(s.mesh(), axes_of(s.steps()[i])); };
    ASSERT_EQ(primes(a), primes(b));
  }
}

void expect_round_trip(const Sequence& sequence) {
  const std::string text = to_string(sequence);
  const Sequence again = sequence_of(text);
  ASSERT_EQ(to_string(again), text);
  expect_same(again, sequence);
}

TEST(SequenceText, small_sequences_parse_back) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    const StepsOfType steps = [&](const DistributedType& type) {
      std::vector<Collective> all = multi_axis_collectives(type);
      for (const Collective& permutation : permutations(type, types)) all.push_back(permutation);
      return all;
    };
    for (const DistributedType& type : types) {
      count += for_each_sequence(Sequence(type), 2, steps, [](const Sequence& s) { expect_round_trip(s); });
    }
  }
  EXPECT_GT(count, 4000);
}

TEST(SequenceText, long_random_sequences_parse_back) {
  EXPECT_TRUE(rc::check("parse(print(s)) = s", [] {
    const Mesh mesh = *arbitrary_mesh();
    const DistributedType source = *arbitrary_type(mesh, divisible_shape(mesh, *rc::gen::inRange(0, 4) + 1));
    const Sequence sequence = *arbitrary_sequence(source, 12);
    const std::string text = to_string(sequence);
    RC_LOG() << text;
    const Sequence again = sequence_of(text);
    RC_ASSERT(to_string(again) == text);
    RC_ASSERT(again.types() == sequence.types());
    RC_ASSERT(kinds(again) == kinds(sequence));
  }));
}

TEST(SequenceText, odd_axis_names_parse_back) {
  const Mesh mesh({{"a \"b\"\\", 2}, {"größe", 3}, {"mesh", 2}});
  const DistributedType source = DistributedType::cut(mesh, {6, 12}, {{mesh.whole(0), mesh.whole(1)}, {}});
  const Sequence sequence(source, {AllToAll{0, 1, {mesh.whole(0), mesh.whole(1)}}, DynSlice{1, {mesh.whole(2)}}});
  expect_round_trip(sequence);
}

TEST(SequenceText, prints_a_mesh_a_type_and_a_line_per_step) {
  const Sequence sequence = sequence_of(R"(mesh {"x": 4, "y": 4} [32{"x","y"}512, 128]
    -> allpermute [32{y,x}512, 128] -> alltoall(0 -> 1))");
  EXPECT_EQ(to_string(sequence),
            "mesh {x: 4, y: 4}\n"
            "[32{x,y}512, 128]\n"
            "-> allpermute [32{y,x}512, 128]\n"
            "-> alltoall(0 -> 1; y) [128{x}512, 32{y}128]\n");
}

TEST(SequenceText, example_with_types_and_comments) {
  const Sequence sequence = sequence_of(R"(
mesh {"x": 4, "y": 4}       // the devices
[32{x,y}512, 128]
-> allpermute [32{y,x}512, 128]
-> alltoall(0 -> 1; y) [128{x}512, 32{y}128]         /* also: allgather(0; x), dynslice(1; x,y) */
)");
  EXPECT_EQ(kinds(sequence), "pa");
  EXPECT_EQ(to_string(sequence.target()), "[128{x}512, 32{y}128]");
}

TEST(SequenceText, reads_older_spellings) {
  expect_same(
      sequence_of("mesh {x: 4, y: 2} [2{x,y}16, 8] -> alltoall(0, 1; x) -> allgather(0: y) -> alltoall(1, 0)"),
      sequence_of("mesh {x: 4, y: 2} [2{x,y}16, 8] -> alltoall(0 -> 1; x) -> allgather(0; y) -> alltoall(1 -> 0)"));
}

// As plans write them. Which axes an alltoall or a gather takes follows from the type before it, those of a slice from
// the type after it.
TEST(SequenceText, reads_factors_for_axes) {
  EXPECT_EQ(to_string(sequence_of(R"(mesh {x: 4, y: 6}  // planner paper
    [8{x}32, 24]              // 192 elements per device
    -> dynslice(1; 6)         // cost 0
    [8{x}32, 4{y}24]
    -> alltoall(0 -> 1; 2)    // cost 32
    [16{x:(1)2}32, 2{x:(2)2,y}24]
    -> allgather(0; 2, 1; 2))")),
            "mesh {x: 4, y: 6}\n"
            "[8{x}32, 24]\n"
            "-> dynslice(1; y) [8{x}32, 4{y}24]\n"
            "-> alltoall(0 -> 1; x:(2)2) [16{x:(1)2}32, 2{x:(2)2,y}24]\n"
            "-> allgather(0; x:(1)2) [32, 2{x:(2)2,y}24]\n"
            "-> allgather(1; x:(2)2) [32, 4{y}24]\n");
}

TEST(SequenceText, changes_of_one_step_are_as_many_steps) {
  expect_same(sequence_of("mesh {x: 2, y: 2, z: 2} [8, 8, 8] -> dynslice(0; x,y, 1; z) [2{x,y}8, 4{z}8, 8] "
                          "-> alltoall(0 -> 2; x, 1 -> 2; z) [4{y}8, 8, 2{z,x}8] -> allgather(0, 2)"),
              sequence_of("mesh {x: 2, y: 2, z: 2} [8, 8, 8] -> dynslice(0; x,y) -> dynslice(1; z) "
                          "-> alltoall(0 -> 2; x) -> alltoall(1 -> 2; z) -> allgather(0) -> allgather(2; z)"));
}

TEST(SequenceText, reads_every_form_of_a_step) {
  const Sequence sequence = sequence_of(R"(
mesh {x: 4, "y": 4}
[2{x:(2)2}4, 64, 8]
-> allgather(0; x:(2)2)
-> dynslice(1; x,"y")
-> alltoall(1 -> 0)
-> alltoall(1 -> 2; y:(2)2) [1{x}4, 32{y:(1)2}64, 4{y:(2)2}8]
-> allgather(2)
-> allpermute [1{x}4, 32{y:(2)2}64, 8]
-> allgather(1; y:(2)2) [1{x:4}4, 64, 8]
)");
  EXPECT_EQ(to_string(sequence),
            "mesh {x: 4, y: 4}\n"
            "[2{x:(2)2}4, 64, 8]\n"
            "-> allgather(0; x:(2)2) [4, 64, 8]\n"
            "-> dynslice(1; x,y) [4, 4{x,y}64, 8]\n"
            "-> alltoall(1 -> 0; x) [1{x}4, 16{y}64, 8]\n"
            "-> alltoall(1 -> 2; y:(2)2) [1{x}4, 32{y:(1)2}64, 4{y:(2)2}8]\n"
            "-> allgather(2; y:(2)2) [1{x}4, 32{y:(1)2}64, 8]\n"
            "-> allpermute [1{x}4, 32{y:(2)2}64, 8]\n"
            "-> allgather(1; y:(2)2) [1{x}4, 64, 8]\n");
}

TEST(SequenceText, a_step_without_axes_takes_the_most_minor_axis_as_it_prints) {
  const Sequence sequence = sequence_of("mesh {x: 4, y: 2} [1{x:(2)2,x:(1)2,y}8, 8] -> alltoall(0 -> 1)");
  EXPECT_EQ(to_string(sequence.target()), "[4{y}8, 2{x}8]");
}

TEST(SequenceText, a_type_after_a_step_may_split_neighbouring_parts) {
  const Sequence sequence = sequence_of("mesh {x: 4} [8] -> dynslice(0; x) [2{x:(2)2,x:(1)2}8]");
  EXPECT_EQ(to_string(sequence.target()), "[2{x}8]");
}

TEST(SequenceText, needs_no_line_breaks) {
  EXPECT_EQ(kinds(sequence_of("mesh{x:2}[4]->dynslice(0;x)->allgather(0)")), "sg");
}

// --- What the user reads.

std::string diagnostic_for(const std::string& text) {
  return diagnostic_of([&] { parse_sequence({"moves.seq", text}); });
}

TEST(SequenceDiagnostics, missing_mesh) {
  const char* expected =
      "moves.seq:1:1: error: a sequence starts with its mesh\n"
      "    1 | [4]\n"
      "      | ^\n"
      "hint: as in mesh {\"x\": 4, \"y\": 4}\n";
  EXPECT_EQ(diagnostic_for("[4]"), expected);
}

TEST(SequenceDiagnostics, empty_file) {
  EXPECT_EQ(diagnostic_for("// nothing here\n"),
            "moves.seq:2:1: error: a sequence starts with its mesh\n"
            "    2 | \n"
            "      | ^\n"
            "hint: as in mesh {\"x\": 4, \"y\": 4}\n");
}

TEST(SequenceDiagnostics, mesh_without_braces) {
  EXPECT_EQ(diagnostic_for("mesh x=4\n[4]"),
            "moves.seq:1:6: error: expected '{' after mesh\n"
            "    1 | mesh x=4\n"
            "      |      ^\n"
            "hint: as in mesh {\"x\": 4, \"y\": 4}\n");
}

TEST(SequenceDiagnostics, mesh_at_fault) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4, x: 2}\n[4]"),
            "moves.seq:1:13: error: the mesh has two axes named x\n"
            "    1 | mesh {x: 4, x: 2}\n"
            "      |             ^~~~\n");
}

TEST(SequenceDiagnostics, mesh_without_a_type) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}"),
            "moves.seq:1:12: error: expected '[' at the start of a type, found the end\n"
            "    1 | mesh {x: 4}\n"
            "      |            ^\n");
}

TEST(SequenceDiagnostics, type_at_fault) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[4{x}8]"),
            "moves.seq:2:2: error: tile and axes do not make the global size: 4 x 4 (x) = 16, not 8\n"
            "    2 | [4{x}8]\n"
            "      |  ^~~~~\n"
            "hint: for 8 in all, the tile is 2\n");
}

TEST(SequenceDiagnostics, something_else_than_a_step) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\ndynslice(0; x)"),
            "moves.seq:3:1: error: expected '->' before a step, found 'dynslice'\n"
            "    3 | dynslice(0; x)\n"
            "      | ^~~~~~~~\n");
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n[8]"),
            "moves.seq:3:1: error: expected '->' before a step, found '['\n"
            "    3 | [8]\n"
            "      | ^\n");
}

TEST(SequenceDiagnostics, arrow_without_a_collective) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n->"),
            "moves.seq:3:3: error: expected a collective, found the end\n"
            "    3 | ->\n"
            "      |   ^\n"
            "hint: names are letters, digits and _, or any text in double quotes\n");
}

TEST(SequenceDiagnostics, unknown_collective) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> allreduce(0; x)"),
            "moves.seq:3:4: error: unknown collective allreduce\n"
            "    3 | -> allreduce(0; x)\n"
            "      |    ^~~~~~~~~\n"
            "hint: the collectives are dynslice, alltoall, allgather and allpermute\n");
}

TEST(SequenceDiagnostics, unknown_collective_without_parentheses) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> permute [8]"),
            "moves.seq:3:4: error: unknown collective permute\n"
            "    3 | -> permute [8]\n"
            "      |    ^~~~~~~\n"
            "hint: the collectives are dynslice, alltoall, allgather and allpermute\n");
}

TEST(SequenceDiagnostics, collective_without_parentheses) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> dynslice 0"),
            "moves.seq:3:13: error: expected '(' after dynslice, found '0'\n"
            "    3 | -> dynslice 0\n"
            "      |             ^\n");
}

TEST(SequenceDiagnostics, parenthesis_that_is_not_closed) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> dynslice(0; x [2{x}8]"),
            "moves.seq:3:18: error: expected ')' at the end of dynslice, found '['\n"
            "    3 | -> dynslice(0; x [2{x}8]\n"
            "      |                  ^\n");
}

TEST(SequenceDiagnostics, allpermute_without_a_type) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8]\n-> allpermute\n-> allgather(0)"),
            "moves.seq:3:4: error: allpermute needs the type that it leads to\n"
            "    3 | -> allpermute\n"
            "      |    ^~~~~~~~~~\n"
            "hint: as in -> allpermute [32{y,x}512, 128]\n");
}

TEST(SequenceDiagnostics, allpermute_to_another_shape) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8]\n-> allpermute [2{x}8, 1]"),
            "moves.seq:3:4: error: allpermute keeps the global shape [8], and this type has [8, 1]\n"
            "    3 | -> allpermute [2{x}8, 1]\n"
            "      |    ^~~~~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8]\n-> allpermute [8]"),
            "moves.seq:3:4: error: allpermute keeps the local shape [2], and this type has [8]\n"
            "    3 | -> allpermute [8]\n"
            "      |    ^~~~~~~~~~~~~~\n");
}

TEST(SequenceDiagnostics, wrong_type_after_a_step) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4, y: 2}\n[8]\n-> dynslice(0; x) [4{y}8]"),
            "moves.seq:3:19: error: this is not the type after dynslice(0; x)\n"
            "    3 | -> dynslice(0; x) [4{y}8]\n"
            "      |                   ^~~~~~~\n"
            "hint: that type is [2{x}8]\n");
}

TEST(SequenceDiagnostics, step_that_does_not_apply) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4, y: 2}\n[1{x,y}8]\n-> allgather(0; y)"),
            "moves.seq:3:4: error: y is not the most minor cut of dimension 0\n"
            "    3 | -> allgather(0; y)\n"
            "      |    ^~~~~~~~~~~~~~~\n"
            "hint: from minor to major it is cut along x,y\n");
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8, 6]\n-> alltoall(0 -> 1)"),
            "moves.seq:3:4: error: the local size 6 of dimension 1 does not divide by 4\n"
            "    3 | -> alltoall(0 -> 1)\n"
            "      |    ^~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8, 6]\n-> alltoall(0 -> 0)"),
            "moves.seq:3:4: error: alltoall needs two different dimensions\n"
            "    3 | -> alltoall(0 -> 0)\n"
            "      |    ^~~~~~~~~~~~~~~~\n");
}

TEST(SequenceDiagnostics, dimension_out_of_range) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> dynslice(1; x)"),
            "moves.seq:3:13: error: there is no dimension 1\n"
            "    3 | -> dynslice(1; x)\n"
            "      |             ^\n"
            "hint: [8] has rank 1; dimensions count from 0\n");
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8]\n-> alltoall(0 -> 12; x)"),
            "moves.seq:3:18: error: there is no dimension 12\n"
            "    3 | -> alltoall(0 -> 12; x)\n"
            "      |                  ^~\n"
            "hint: [2{x}8] has rank 1; dimensions count from 0\n");
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8]\n-> allgather(99999999999999999999)"),
            "moves.seq:3:14: error: a dimension does not fit in 63 bits\n"
            "    3 | -> allgather(99999999999999999999)\n"
            "      |              ^~~~~~~~~~~~~~~~~~~~\n"
            "hint: the largest size is 9223372036854775807\n");
}

TEST(SequenceDiagnostics, dimension_that_is_no_number) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> dynslice(x; 0)"),
            "moves.seq:3:13: error: expected a dimension, found 'x'\n"
            "    3 | -> dynslice(x; 0)\n"
            "      |             ^\n");
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> dynslice(-1; x)"),
            "moves.seq:3:13: error: a dimension is negative\n"
            "    3 | -> dynslice(-1; x)\n"
            "      |             ^~\n");
}

TEST(SequenceDiagnostics, dynslice_by_a_factor_without_its_type) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> dynslice(0; 4)"),
            "moves.seq:3:4: error: a dynslice by a factor needs the type that it leads to\n"
            "    3 | -> dynslice(0; 4)\n"
            "      |    ^~~~~~~~~~~~~~\n"
            "hint: or name its axes, as in dynslice(0; x)\n");
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> dynslice(0; 8) [2{x}8]"),
            "moves.seq:3:19: error: dimension 0 is not cut into 8 here\n"
            "    3 | -> dynslice(0; 8) [2{x}8]\n"
            "      |                   ^~~~~~~\n");
}

TEST(SequenceDiagnostics, factor_that_no_minor_axes_make_up) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4, y: 3}\n[1{x,y}12]\n-> allgather(0; 3)"),
            "moves.seq:3:14: error: no minor axes of dimension 0 of [1{x,y}12] make up 3\n"
            "    3 | -> allgather(0; 3)\n"
            "      |              ^\n");
}

TEST(SequenceDiagnostics, steps_of_plans_that_have_no_types) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8]\n-> exchange  // cost 2\n[8]"),
            "moves.seq:3:4: error: an exchange is none of the paper's collectives\n"
            "    3 | -> exchange  // cost 2\n"
            "      |    ^~~~~~~~\n"
            "hint: plans of --planner paper have the paper's collectives alone\n");
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8, 2]\n-> alltoall(0 -> 1; 2)\nlocal [4, 1], tiles [2, 2]"),
            "moves.seq:4:1: error: no type says who holds these tiles\n"
            "    4 | local [4, 1], tiles [2, 2]\n"
            "      | ^~~~~\n"
            "hint: plans of --planner paper have the paper's collectives alone\n");
}

TEST(SequenceDiagnostics, dynslice_without_axes) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[8]\n-> dynslice(0)"),
            "moves.seq:3:14: error: expected ';' after a dimension, found ')'\n"
            "    3 | -> dynslice(0)\n"
            "      |              ^\n");
}

TEST(SequenceDiagnostics, semicolon_without_axes) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8]\n-> allgather(0; )"),
            "moves.seq:3:17: error: expected an axis name, found ')'\n"
            "    3 | -> allgather(0; )\n"
            "      |                 ^\n"
            "hint: names are letters, digits and _, or any text in double quotes\n");
}

TEST(SequenceDiagnostics, alltoall_with_one_dimension) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8, 8]\n-> alltoall(0; x)"),
            "moves.seq:3:14: error: expected '->' between the dimensions of an alltoall, found ';'\n"
            "    3 | -> alltoall(0; x)\n"
            "      |              ^\n");
}

TEST(SequenceDiagnostics, no_axis_to_take) {
  EXPECT_EQ(diagnostic_for("mesh {x: 4}\n[2{x}8, 8]\n-> allgather(1)"),
            "moves.seq:3:14: error: dimension 1 of [2{x}8, 8] is not cut\n"
            "    3 | -> allgather(1)\n"
            "      |              ^\n");
}

TEST(SequenceDiagnostics, unknown_axis_in_a_step) {
  EXPECT_EQ(diagnostic_for("mesh {rows: 4, columns: 2}\n[8]\n-> dynslice(0; row)"),
            "moves.seq:3:16: error: unknown axis row\n"
            "    3 | -> dynslice(0; row)\n"
            "      |                ^~~\n"
            "hint: did you mean rows? the mesh has rows, columns\n");
}

TEST(SequenceDiagnostics, part_that_its_axis_does_not_have) {
  EXPECT_EQ(diagnostic_for("mesh {x: 6}\n[12]\n-> dynslice(0; x:(3)2)"),
            "moves.seq:3:4: error: x:(3)2 is no part of its axis\n"
            "    3 | -> dynslice(0; x:(3)2)\n"
            "      |    ^~~~~~~~~~~~~~~~~~~\n");
}

TEST(SequenceDiagnostics, axis_named_twice) {
  EXPECT_EQ(diagnostic_for("mesh {x: 6}\n[36]\n-> dynslice(0; x, x)"),
            "moves.seq:3:4: error: axis x is used twice\n"
            "    3 | -> dynslice(0; x, x)\n"
            "      |    ^~~~~~~~~~~~~~~~~\n");
}

TEST(SequenceDiagnostics, line_numbers_count_from_where_the_text_starts) {
  const SourceText source{"notes.md", "mesh {x: 4}\n[8]\n-> jump", 40};
  EXPECT_EQ(diagnostic_of([&] { parse_sequence(source); }),
            "notes.md:42:4: error: unknown collective jump\n"
            "   42 | -> jump\n"
            "      |    ^~~~\n"
            "hint: the collectives are dynslice, alltoall, allgather and allpermute\n");
}

}  // namespace
}  // namespace retile::test
