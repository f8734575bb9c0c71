// retile explain, and shardings of other systems in plan and run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

const std::string from = "{devices=[2,1,4]<=[4,2]T(1,0)}";
const std::string to = "{devices=[1,8,1]<=[8]}";

std::string warning(const std::string& array) {
  return "W1015 18:20:08.668874 12979952 spmd_partitioner.cc:645] [SPMD] Involuntary full rematerialization. The "
         "compiler "
         "cannot go from sharding " +
         from + " to " + to + " efficiently for HLO operation %copy.1 = " + array +
         "{2,1,0} copy(%x), sharding=" + from + ". As the last resort, SPMD will replicate the tensor.\n";
}

TEST(ForeignShardings, are_echoed_above_the_plan) {
  EXPECT_EQ(
      run_retile({"plan", "--shape", "f32[16,16,16]", from, to, "--notation", "dtensor"}),
      done(
          R"(// {devices=[2,1,4]<=[4,2]T(1,0)} is [8{b}16, 16, 4{a}16] on mesh {a: 4, b: 2}, devices 0 to 7 with b fastest
// {devices=[1,8,1]<=[8]} is [16, 2{b,a}16, 16] on mesh {a: 4, b: 2}, devices 0 to 7 with b fastest
// dtensor mesh: DeviceMesh([[0, 1], [2, 3], [4, 5], [6, 7]], mesh_dim_names=('a', 'b'))
// dtensor source: (Shard(dim=2), Shard(dim=0))
// dtensor target: (Shard(dim=1), Shard(dim=1))
mesh {a: 4, b: 2}  // planner wide
  [8{b}16, 16, 4{a}16]  // 512 elements per device
    -> alltoall(0 -> 1; 2, 2 -> 1; 4)  // cost 512
  [16, 2{b,a}16, 16]    // 512
// cost 512 (paper, optimal over all plans), floor 448
// peak 512 elements per device, no more than the larger of source and target
)"));
}

TEST(ForeignShardings, are_run) {
  const ProcessResult result = run_retile({"run", "--shape", "f32[8,16,4]", "--local-shape", from, to});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors,
            R"(// f32[8,16,4] per device, [16, 16, 16] in all
// {devices=[2,1,4]<=[4,2]T(1,0)} is [8{b}16, 16, 4{a}16] on mesh {a: 4, b: 2}, devices 0 to 7 with b fastest
// {devices=[1,8,1]<=[8]} is [16, 2{b,a}16, 16] on mesh {a: 4, b: 2}, devices 0 to 7 with b fastest
)");
  EXPECT_TRUE(result.output.starts_with("8 devices, threads engine: verified"));
}

TEST(ForeignShardings, of_every_system_lead_to_one_plan) {
  const auto steps = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"plan", "--shape", "f32[8,8]", "--json"});
    const Json plan = Json::parse(run_retile(std::move(arguments)).output);
    return plan["steps"].dump();
  };
  const std::string expected = steps({"{devices=[8,1]<=[8]}", "{devices=[2,4]<=[8]}"});
  EXPECT_EQ(steps({"--mesh", "x=2,y=4", "P(('x','y'))", "P('x','y')"}), expected);
  EXPECT_EQ(steps({"--mesh", R"(sdy.mesh @mesh = <["x"=2, "y"=4]>)", R"(#sdy.sharding<@mesh, [{"x","y"}, {}]>)",
                   R"(#sdy.sharding<@mesh, [{"x"}, {"y"}]>)"}),
            expected);
  EXPECT_EQ(steps({"--mesh", "DeviceMesh([[0, 1, 2, 3], [4, 5, 6, 7]], mesh_dim_names=('x', 'y'))",
                   "(Shard(dim=0), Shard(dim=0))", "(Shard(dim=0), Shard(dim=1))"}),
            expected);
  EXPECT_EQ(steps({"--mesh", "mesh.mesh @mesh(shape = 2x4)", "mesh.sharding @mesh split_axes = [[0, 1]]",
                   "mesh.sharding @mesh split_axes = [[0], [1]]"}),
            expected);
  EXPECT_EQ(steps({"--mesh", "x=2,y=4", "{devices=[8,1]<=[8]}", "P('x','y')"}), expected) << "one of each";
}

TEST(ForeignShardings, faults_are_in_their_text) {
  EXPECT_EQ(run_retile({"plan", "--shape", "f32[16,16]", "--mesh", "x=2", "P('x', None, None)", "P('x')"}),
            input_fault(R"(argument SRC:1:14: error: there is no dimension 2: the array has rank 2
    1 | P('x', None, None)
      |              ^~~~
hint: its shape is [16, 16]
)"));
  EXPECT_EQ(run_retile({"plan", "--shape", "f32[16,16", from, to}),
            input_fault(R"(argument --shape:1:10: error: expected ']' or ',' after a size, found the end
    1 | f32[16,16
      |          ^
)"));
  EXPECT_EQ(run_retile({"plan", "--shape", "f32[8,8]", "--mesh", "x=2,y=2", "[2{x,y}8, 8]", "P('x')", "--notation",
                        "mlir", "--planner", "direct"})
                .status,
            0);
  EXPECT_EQ(
      run_retile({"plan", "--shape", "f32[7,8]", "--mesh", "x=2", "P('x')", "P(None, 'x')", "--notation", "mlir"}),
      input_fault("error: MLIR cannot say tiles of different sizes\nhint: without offsets, sizes must divide\n"));
}

TEST(ForeignShardings, of_elements_known_by_size_alone_are_moved_but_not_combined) {
  const auto plan = [](const char* shape, const char* first) {
    return run_retile({"plan", "--shape", shape, "--mesh", "x=2,y=2", std::string("(") + first + ", Shard(dim=0))",
                       "(Shard(dim=0), Shard(dim=1))"});
  };
  EXPECT_EQ(plan("s64[8,8]", "Replicate()").status, 0);
  EXPECT_EQ(plan("int32[8,8]", "Partial(sum)").status, 0);
  EXPECT_EQ(plan("s64[8,8]", "Partial(sum)").status, 0);
  EXPECT_EQ(plan("f8e4m3b11fnuz[8,8]", "Replicate()").status, 0);
  for (const std::string name : {"f8e4m3b11fnuz", "f8e4m3fn", "pred"}) {
    EXPECT_EQ(plan((name + "[8,8]").c_str(), "Partial(sum)"),
              input_fault("argument --shape:1:1: error: parts of " + name + " cannot be combined\n    1 | " + name +
                          "[8,8]\n      | ^" + std::string(name.size() - 1, '~') +
                          "\nhint: retile combines i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128\n"));
  }
}

TEST(Explain, tells_what_the_compiler_does_and_what_could_be_done) {
  EXPECT_EQ(run_retile({"explain", "-"}, "starting\n" + warning("f32[8,16,4]") + warning("f32[8,16,4]")),
            done(R"(standard input:2: %copy.1, 2 times, f32[8,16,4] taken as per device: [16, 16, 16] in all
  {devices=[2,1,4]<=[4,2]T(1,0)} is [8{b}16, 16, 4{a}16] on mesh {a: 4, b: 2}, devices 0 to 7 with b fastest
  {devices=[1,8,1]<=[8]} is [16, 2{b,a}16, 16] on mesh {a: 4, b: 2}, devices 0 to 7 with b fastest
                bytes moved   bytes in a tile  steps
  XLA                14,336            16,384  allgather(2; 4), allgather(0; 2), dynslice(1; 8)
  retile              1,792             2,048  alltoall(0 -> 1; 2, 2 -> 1; 4)
  floor               1,792
  None of XLA's rules leads there, so it makes the whole array on every device, 8.0 times the larger tile, and keeps a part of it.
  retile sends every device what it lacks, and never holds a tile larger than the larger of source and target.
  Beside XLA, it moves 8.0 times less and holds 8.0 times less. No plan of such steps costs less.
)"));
}

TEST(Explain, reads_over_zero_bytes_in_a_log) {
  const std::string zeros(70000, '\0');
  const ProcessResult result = run_retile({"explain", "-"}, "crash" + zeros + "\n" + warning("f32[8,16,4]"));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, ::testing::HasSubstr("standard input:2: %copy.1"));
}

TEST(Explain, takes_a_pasted_line_and_either_shape) {
  const auto shape = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"explain", "--json", warning("f32[16,16,16]")});
    const Json answer = Json::parse(run_retile(std::move(arguments)).output);
    return answer["shape"].dump() + " " + answer["shape_taken"].get<std::string>();
  };
  EXPECT_EQ(shape({}), "[32,16,64] local");
  EXPECT_EQ(shape({"--local-shape"}), "[32,16,64] local");
  EXPECT_EQ(shape({"--global-shape"}), "[16,16,16] global");
}

TEST(Explain, json_has_the_whole_table_largest_first) {
  const std::vector<std::string> lines =
      lines_of(run_retile({"explain", "-", "--json"}, warning("f32[8,16,4]") + warning("f32[80,16,4]")).output);
  ASSERT_EQ(lines.size(), 2U);
  const Json first = Json::parse(lines[0]);
  EXPECT_EQ(keys_of(first),
            (std::vector<std::string>{"format", "id", "line", "operation", "count", "from", "to", "shape_taken",
                                      "dtype", "shape", "source", "target", "xla", "retile", "floor_bytes", "why"}));
  EXPECT_EQ(first["shape"].dump(), "[160,16,16]");
  EXPECT_EQ(first["xla"]["rematerializes"], true);
  EXPECT_EQ(first["retile"]["optimal"], true);
  EXPECT_EQ(Json::parse(lines[1])["line"], 1);
}

TEST(Explain, bad_warnings_are_told_in_their_place_and_others_are_answered) {
  const std::string old =
      "Involuntary full rematerialization. The compiler was not able to go from sharding " + from + " to " + to + "\n";
  const ProcessResult result = run_retile({"explain", "-", "--json"}, old + warning("f32[8,16,4]"));
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(lines_of(result.output).size(), 1U);
  EXPECT_TRUE(result.errors.starts_with("standard input:1:83: error: this warning names no array\n")) << result.errors;
  EXPECT_EQ(lines_of(run_retile({"explain", "-", "--json", "--shape", "f32[16,16,16]"}, old).output).size(), 1U);
  EXPECT_EQ(run_retile({"explain", "-"}, "nothing here\n"),
            input_fault(R"(standard input:1:1: error: there is no 'Involuntary full rematerialization' in this log
    1 | nothing here
      | ^
hint: a redistribution is given by SRC and DST
)"));
}

TEST(Explain, one_device_and_uneven_sizes_have_an_account_too) {
  const auto explained = [](const char* array, const char* source, const char* target) {
    const Json answer = Json::parse(run_retile({"explain", "--json", "--shape", array, source, target}).output);
    return answer["xla"]["moved_bytes"].dump() + " " + answer["retile"]["moved_bytes"].dump() + " " +
           answer["why"][0].get<std::string>();
  };
  EXPECT_EQ(explained("f32[8,8]", "{maximal device=0}", "{devices=[4,1]<=[4]}"),
            "256 64 XLA knows no way from one device to several but to send everything to all of them.");
  EXPECT_EQ(explained("f32[7,8]", "{devices=[2,1]<=[2]}", "{replicated}"), "128 128 XLA's rules take 1 step.");
}

TEST(Explain, usage) {
  EXPECT_EQ(run_retile({"plan", from, to}),
            usage_fault(
                "retile: shardings of other systems need --shape, as in --shape 'f32[16,1024,4096]'; a type of retile "
                "begins with [\n"
                "Try 'retile plan --help'.\n"));
  EXPECT_EQ(run_retile({"plan", "--shape", "f32[8]", "--mesh", "x=2", "[4{x}8]", "[8]"}),
            usage_fault("retile: --shape goes with shardings of other systems; a type of retile has its own\n"
                        "Try 'retile plan --help'.\n"));
}

}  // namespace
}  // namespace retile::test
