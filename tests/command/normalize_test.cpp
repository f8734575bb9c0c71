#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "retile/collectives/sequence.h"
#include "retile/types/text.h"
#include "tests/command/retile.h"

namespace retile::test {
namespace {

// The lines that are no comments.
std::string sequence_in(const std::string& output) {
  std::string sequence;
  for (const std::string& line : lines_of(output)) {
    if (!line.starts_with("//")) sequence += line + "\n";
  }
  return sequence;
}

TEST(Normalize, takes_the_examples_peak_down) {
  const ProcessResult result = run_retile({"normalize", RETILE_SOURCE_DIR "/examples/peak.txt"});
  EXPECT_EQ(result, done(read_source_file("tests/command/golden/normalized_peak.txt")));
}

TEST(Normalize, output_is_a_sequence_file_in_normal_form) {
  const std::string output = run_retile({"normalize", RETILE_SOURCE_DIR "/examples/peak.txt"}).output;
  EXPECT_TRUE(is_normal_form(parse_sequence({"output", output})));
  const std::string expected =
      "// input: 4 steps, height 6, cost 24\n"
      "// normal form: 4 steps, height 6, cost 24\n" +
      sequence_in(output);
  EXPECT_EQ(run_retile({"normalize", "-"}, output), done(expected));
  EXPECT_EQ(run_retile({"normalize", "-"}, expected), done(expected));
}

TEST(Normalize, reads_types_after_steps_and_leaves_a_permutation_in_place) {
  const std::string sequence = R"(mesh {"x": 4, "y": 4}
[32{x,y}512, 128]
-> allpermute [32{y,x}512, 128]
-> alltoall(0 -> 1; y) [128{x}512, 32{y}128]
-> allgather(0; x)
-> dynslice(0; x)
)";
  EXPECT_EQ(sequence_in(run_retile({"normalize", "-"}, sequence).output), R"(mesh {x: 4, y: 4}
[32{x,y}512, 128]
-> allpermute [32{y,x}512, 128]
-> alltoall(0 -> 1; y) [128{x}512, 32{y}128]
)");
}

TEST(Normalize, no_steps_are_in_normal_form) {
  EXPECT_EQ(run_retile({"normalize", "-"}, "mesh {x: 4} [2{x}8]"), done(R"(// input: 0 steps, height 2, cost 0
// normal form: 0 steps, height 2, cost 0
mesh {x: 4}
[2{x}8]
)"));
}

TEST(Normalize, one_step_is_counted_as_one) {
  EXPECT_EQ(run_retile({"normalize", "-"}, "mesh {x: 3} [8{x}24] -> allgather(0)"),
            done(R"(// input: 1 step, height 24, cost 24
// normal form: 1 step, height 24, cost 24
mesh {x: 3}
[8{x}24]
-> allgather(0; x) [24]
)"));
}

TEST(Normalize, huge_meshes_cost_nothing) {
  EXPECT_EQ(run_retile({"normalize", "-"}, "mesh {x: 2147483647} [1{x}2147483647] -> allgather(0) -> dynslice(0; x)"),
            done(R"(// input: 2 steps, height 2147483647, cost 2147483647
// 1. lem:peak, case 1 (i = j, x = y): height 2147483647 -> 1
//      [1{x}2147483647]
// normal form: 0 steps, height 1, cost 0
mesh {x: 2147483647}
[1{x}2147483647]
)"));
}

// A plan is a sequence file.
TEST(Normalize, reads_plans) {
  for (const char* planner : {"paper", "wide", "gather-slice"}) {
    const std::string plan = run_retile({"plan", "--planner", planner, "--mesh", "x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]",
                                         "[8, 4{y}8, 2{x}8, 4]"})
                                 .output;
    const ProcessResult result = run_retile({"normalize", "-"}, plan);
    EXPECT_EQ(result.status, 0) << plan << result.errors;
    const Sequence normal = parse_sequence({"output", result.output});
    EXPECT_TRUE(is_normal_form(normal));
    EXPECT_EQ(to_string(normal.target()), "[8, 4{y}8, 2{x}8, 4]");
  }
}

// --- Faults.

struct FaultCase {
  std::string sequence;
  std::string diagnostic;  // after "standard input:"
};

void expect_faults(const std::vector<FaultCase>& cases) {
  for (const FaultCase& fault : cases) {
    EXPECT_EQ(run_retile({"normalize", "-"}, fault.sequence), input_fault("standard input:" + fault.diagnostic));
  }
}

// A case is read best as it is printed.
// clang-format off
TEST(NormalizeFault, start) {
  expect_faults({
{"", R"(1:1: error: a sequence starts with its mesh
    1 | 
      | ^
hint: as in mesh {"x": 4, "y": 4}
)"},
{"[2{x}8]\n", R"(1:1: error: a sequence starts with its mesh
    1 | [2{x}8]
      | ^
hint: as in mesh {"x": 4, "y": 4}
)"},
{"mesh x=4\n", R"(1:6: error: expected '{' after mesh
    1 | mesh x=4
      |      ^
hint: as in mesh {"x": 4, "y": 4}
)"},
{"mesh {x: 4}\n", R"(2:1: error: expected '[' at the start of a type, found the end
    2 | 
      | ^
)"},
  });
}

TEST(NormalizeFault, steps) {
  expect_faults({
{"mesh {x: 4}\n[2{x}8]\nallgather(0)\n", R"(3:1: error: expected '->' before a step, found 'allgather'
    3 | allgather(0)
      | ^~~~~~~~~
)"},
{"mesh {x: 4}\n[8]\n\nmesh {x: 4}\n[8]\n", R"(4:1: error: another sequence starts here
    4 | mesh {x: 4}
      | ^~~~
hint: a file holds one
)"},
{"{\"mesh\": {}}\n", R"(1:1: error: a sequence starts with its mesh
    1 | {"mesh": {}}
      | ^
hint: a plan is read as text: retile plan without --json
)"},
{"mesh {x: 4}\n[2{x}8]\n-> allgater(0)\n", R"(3:4: error: unknown collective allgater
    3 | -> allgater(0)
      |    ^~~~~~~~
hint: the collectives are dynslice, alltoall, allgather and allpermute
)"},
{"mesh {x: 4}\n[2{x}8]\n-> allgather(1)\n", R"(3:14: error: there is no dimension 1
    3 | -> allgather(1)
      |              ^
hint: [2{x}8] has rank 1; dimensions count from 0
)"},
{"mesh {x: 4}\n[2{x}8]\n-> allgather(0; y)\n", R"(3:17: error: unknown axis y
    3 | -> allgather(0; y)
      |                 ^
hint: the mesh has x
)"},
{"mesh {x: 4}\n[2{x}8]\n-> dynslice(0; x)\n", R"(3:4: error: axis x already cuts a dimension
    3 | -> dynslice(0; x)
      |    ^~~~~~~~~~~~~~
hint: dynslice takes axes along which the array is replicated
)"},
{"mesh {x: 4}\n[2{x}8, 3]\n-> alltoall(0 -> 1)\n", R"(3:4: error: the local size 3 of dimension 1 does not divide by 4
    3 | -> alltoall(0 -> 1)
      |    ^~~~~~~~~~~~~~~~
)"},
{"mesh {x: 4}\n[2{x}8, 4]\n-> alltoall(0 -> 1) [8, 4]\n", R"(3:21: error: this is not the type after alltoall(0 -> 1; x)
    3 | -> alltoall(0 -> 1) [8, 4]
      |                     ^~~~~~
hint: that type is [8, 1{x}4]
)"},
{"mesh {x: 4}\n[2{x}8, 4]\n-> allpermute\n", R"(3:4: error: allpermute needs the type that it leads to
    3 | -> allpermute
      |    ^~~~~~~~~~
hint: as in -> allpermute [32{y,x}512, 128]
)"},
{"mesh {x: 4}\n/* [2{x}8]\n-> allgather(0)\n", R"(2:1: error: this comment is never closed
    2 | /* [2{x}8]
      | ^~
hint: close it with */
)"},
  });
}
// clang-format on

TEST(NormalizeFiles, that_cannot_be_read) {
  const TemporaryFolder folder;
  EXPECT_EQ(folder.run_retile({"normalize", "missing.txt"}),
            input_fault("error: cannot read 'missing.txt': No such file or directory\n"));
  EXPECT_EQ(folder.run_retile({"normalize", "."}), input_fault("error: cannot read '.': Is a directory\n"));
  folder.write("binary", std::string("mesh {x: 4}\n\x01\0\x02", 15));
  EXPECT_EQ(folder.run_retile({"normalize", "binary"}),
            input_fault(R"(binary:2:2: error: this is not text: it has a zero byte
    2 |    
      |  ^
)"));
}

}  // namespace
}  // namespace retile::test
