#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;

const std::string manifest =
    R"({"name": "w", "mesh": {"x": 4}, "shape": [8, 8], "src": [["x"], []], "dst": [[], ["x"]], "dtype": "bf16"}
{"name": "v", "mesh": {"x": 4}, "shape": [8, 8], "src": [["x"], []], "dst": [[], ["x"]], "dtype": "bf16"}
)";

ProcessResult refused(const std::string& message) {
  return usage_fault("retile: " + message + "\nTry 'retile transfer --help'.\n");
}

const std::string plan_text =
    "2 arrays of 1 kind on 4 devices, 192 bytes to move\n"
    "sent      48 bytes, 4 devices; at least 48 by the busiest, gap 0.000 %\n"
    "received  48 bytes, 4 devices; what each lacks, once\n"
    "rounds    1, 12 messages\n"
    "peak      320 bytes per device at most: 128 of tiles, 192 staged (cap 65,536)\n";

TEST(TransferText, of_a_dry_run_is_the_plan) {
  EXPECT_EQ(run_retile({"transfer", "-", "--max-bytes", "64KiB", "--dry-run"}, manifest), done(plan_text));
}

TEST(TransferText, of_a_run_is_the_plan_and_what_was_measured) {
  const ProcessResult result = run_retile({"transfer", "-", "--max-bytes", "64KiB", "--repeat", "2"}, manifest);
  EXPECT_EQ(result.errors, "");
  EXPECT_EQ(result.status, 0);
  ASSERT_TRUE(result.output.starts_with(plan_text)) << result.output;
  EXPECT_THAT(result.output.substr(plan_text.size()),
              MatchesRegex("threads engine: verified, [0-9]+\\.[0-9]{6} s, 48 bytes received at most, 0 staged, peak "
                           "128 of 320 bytes predicted\n"));
}

const std::string rows =
    R"({"name": "w", "mesh": {"x": 4}, "shape": [1024, 1024], "src": [["x"], []], "dst": [[], ["x"]]})";

// The plan is the one that is run.
TEST(TransferInPlace, is_predicted_and_measured_in_pages) {
  const std::string lines =
      "1 array of 1 kind on 4 devices, 3,145,728 bytes to move\n"
      "sent      786,432 bytes, 4 devices; at least 786,432 by the busiest, gap 0.000 %\n"
      "received  786,432 bytes, 4 devices; what each lacks, once\n"
      "rounds    16, 192 messages\n"
      "peak      1,114,112 bytes per device at most, in place: 65,536 beyond the larger of source and target (cap "
      "65,536)\n";
  const std::vector<std::string> in_place{"transfer", "-", "--max-bytes", "64KiB", "--in-place"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = in_place;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_retile(arguments, rows).output;
  };
  EXPECT_EQ(with({"--dry-run"}), lines);
  const Json json = Json::parse(with({"--dry-run", "--json"}));
  EXPECT_EQ(json["rounds"], 16);
  EXPECT_EQ(json["messages"], 192);
  EXPECT_EQ(json["staging_bytes"], Json::parse("[0, 0, 0, 0]"));
  EXPECT_EQ(json["peak_bytes"], 1114112);
  EXPECT_EQ(json["in_place"], Json::parse(R"({"beyond_bytes": 65536, "peak_bytes": [1114112, 1114112, 1114112, 1114112],
                                             "larger_bytes": [1048576, 1048576, 1048576, 1048576]})"));
  EXPECT_THAT(with({}), ::testing::StartsWith(lines));
  EXPECT_THAT(with({}), ::testing::HasSubstr("peak 1,114,112 of 1,114,112 bytes predicted\n"));
  const Json report = Json::parse(with({"--json"}));
  EXPECT_EQ(report["max_bytes"], 65536);
  EXPECT_EQ(report["in_place"], Json::parse(R"({"rounds": 16, "beyond_bytes": 65536})"));
}

// Tiles of a page each, of which few bytes are used.
TEST(TransferInPlace, says_where_keeping_needs_less) {
  EXPECT_THAT(
      run_retile({"transfer", "-", "--in-place", "--dry-run"}, manifest).output,
      ::testing::EndsWith("peak      16,384 bytes per device at most, in place: 8,192 beyond the larger of source "
                          "and target (cap 268,435,456)\n"
                          "hint      where sources stay, 320 bytes per device are enough\n"));
}

TEST(TransferInPlace, refuses_a_cap_that_the_shapes_do_not_allow_and_names_the_smallest) {
  const std::string shapes =
      R"({"name": "w", "mesh": {"a": 2, "b": 2, "c": 2}, "shape": [1000000], "src": [["a", "b"]], "dst": [["b", "c"]]})";
  const auto at = [&](const std::string& cap, bool is_dry) {
    std::vector<std::string> arguments{"transfer", "-", "--in-place", "--max-bytes", cap};
    if (is_dry) arguments.emplace_back("--dry-run");
    return run_retile(arguments, shapes);
  };
  for (const bool is_dry : {false, true}) {
    EXPECT_EQ(
        at("4KiB", is_dry),
        input_fault("argument --max-bytes:1:1: error: in place, 4,096 bytes beyond the larger of source and target "
                    "are too few for these shapes\n"
                    "    1 | 4KiB\n"
                    "      | ^~~~\n"
                    "hint: the smallest cap that works in place is 262,144 bytes\n"));
    EXPECT_THAT(at("1", is_dry).errors, ::testing::EndsWith("in place is 262,144 bytes\n"));
    EXPECT_EQ(at("262143", is_dry).status, 1);
    EXPECT_EQ(at("262144", is_dry).status, 0);
  }
}

TEST(TransferOfHosts, lets_an_element_cross_once) {
  const std::string gathered = R"({"name": "w", "mesh": {"x": 4}, "shape": [64], "src": [["x"]], "dst": [[]]})";
  const ProcessResult dry = run_retile({"transfer", "-", "--hosts", "2", "--dry-run"}, gathered);
  EXPECT_THAT(dry.output, ::testing::HasSubstr("hosts     2, 128 bytes into each, once; 1 round to pass on\n"));
  const Json json = Json::parse(run_retile({"transfer", "-", "--hosts", "2", "--dry-run", "--json"}, gathered).output);
  EXPECT_EQ(json["crossing_bytes"], Json::parse("[128, 128]"));
  EXPECT_EQ(json["relay_rounds"], 1);
  EXPECT_THAT(run_retile({"transfer", "-", "--hosts", "2"}, gathered).output, ::testing::HasSubstr("verified"));
  EXPECT_THAT(run_retile({"transfer", "-", "--hosts", "2", "--in-place"}, gathered).output,
              ::testing::HasSubstr("verified"));
}

TEST(TransferOfHosts, is_refused_where_they_would_differ) {
  for (const char* hosts : {"3", "5"}) {
    EXPECT_EQ(run_retile({"transfer", "-", "--hosts", hosts, "--dry-run"}, manifest),
              refused(std::string("--hosts ") + hosts + " does not divide 4 devices: use one of 1, 2, 4"));
  }
}

// The device with the largest tiles is not the one that stages the most.
TEST(TransferText, of_the_peak_is_of_one_device) {
  const std::string uneven =
      R"({"name": "kept", "shape": [1000], "src_boxes": [[[[0], [1000]]], [], []], "dst_boxes": [[[[0], [1000]]], [], []]}
{"name": "moved", "shape": [100], "src_boxes": [[], [[[0], [100]]], []], "dst_boxes": [[], [], [[[0], [100]]]]}
)";
  EXPECT_THAT(
      run_retile({"transfer", "-", "--dry-run"}, uneven).output,
      ::testing::EndsWith("peak      8,000 bytes per device at most: 8,000 of tiles, 0 staged (cap 268,435,456)\n"));
}

TEST(TransferJson, of_a_dry_run_counts_by_device) {
  const Json json = Json::parse(run_retile({"transfer", "-", "--dry-run", "--json"}, manifest).output);
  EXPECT_THAT(keys_of(json),
              ElementsAre("format", "arrays", "kinds", "devices", "max_bytes", "rounds", "messages", "sent_bound_bytes",
                          "sent_bytes", "received_bytes", "floor_bytes", "staging_bytes", "peak_bytes"));
  EXPECT_EQ(json["max_bytes"], 268435456);
  EXPECT_EQ(json["received_bytes"], Json::parse("[48, 48, 48, 48]"));
  EXPECT_EQ(json["staging_bytes"], Json::parse("[192, 192, 192, 192]"));
}

TEST(TransferJson, of_a_run_is_a_report) {
  const Json json = Json::parse(run_retile({"transfer", "-", "--json", "--repeat", "3"}, manifest).output);
  EXPECT_THAT(keys_of(json), ElementsAre("format", "arrays", "devices", "engine", "max_bytes", "verified", "seconds",
                                         "received_bytes_max", "staging_bytes_max", "peak_bytes"));
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(json["seconds"].size(), 3U);
}

// One array in five notations, each between the same devices.
TEST(TransferOfNotations, plans_the_same_as_lists_of_axes) {
  const std::string begin = R"({"name": "w", "shape": [16, 8], "dtype": "bf16", )";
  const std::string lists =
      begin + R"("mesh": {"x": 2, "y": 2}, "src": [["y", "x"], []], "dst": [[], ["x"]], "dst_devices": [3, 2, 1, 0]})";
  const std::string expected = run_retile({"transfer", "-", "--dry-run", "--json"}, lists).output;
  ASSERT_FALSE(expected.empty());
  for (const char* rest : {
           R"x("mesh": {"x": 2, "y": 2}, "src": "P(('x', 'y'))", "dst": "[16, 4{x}8] on [3, 2, 1, 0]"})x",
           R"x("mesh": "Mesh('x': 2, 'y': 2)", "src": "P(('x', 'y'))", )x"
           R"x("dst_mesh": "Mesh(device_ids=array([[3, 2], [1, 0]]), axis_names=('x', 'y'))", "dst": "P(None, 'x')"})x",
           R"x("mesh": {"x": 2, "y": 2}, "src": "(Shard(dim=0), Shard(dim=0))", )x"
           R"x("dst_mesh": "DeviceMesh([[3, 2], [1, 0]], mesh_dim_names=('x', 'y'))", )x"
           R"x("dst": "(Shard(dim=1), Replicate())"})x",
           R"x("src": "{devices=[4,1]<=[4]}", "dst": "{devices=[1,2,2]3,2,1,0 last_tile_dim_replicate}"})x",
           R"x("mesh": {"x": 2, "y": 2}, "src": [["y", "x"], []], )x"
           R"x("dst": "{devices=[1,2,2]3,2,1,0 last_tile_dim_replicate}"})x",
           R"x("mesh": "sdy.mesh @m = <[\"x\"=2, \"y\"=2]>", "src": "#sdy.sharding<@m, [{\"x\", \"y\"}, {}]>", )x"
           R"x("dst": "{devices=[1,2,2]3,2,1,0 last_tile_dim_replicate}"})x",
       }) {
    const ProcessResult result = run_retile({"transfer", "-", "--dry-run", "--json"}, begin + rest);
    EXPECT_EQ(result.output, expected) << rest << result.errors;
  }
  const ProcessResult planned =
      run_retile({"plan", "--problems", "-"}, R"x({"mesh": {"x": 2}, "shape": [8], "src": "P('x')", "dst": [[]]})x");
  EXPECT_THAT(planned.output, ::testing::HasSubstr("allgather(0; 2)")) << planned.errors;
}

TEST(TransferFault, cap_that_is_too_small_names_the_smallest) {
  EXPECT_EQ(
      run_retile({"transfer", "-", "--max-bytes", "11B"}, manifest),
      input_fault("argument --max-bytes:1:1: error: a cap of 11 bytes per device is too small for the messages of a "
                  "round: the smallest that works is 12 bytes\n"
                  "    1 | 11B\n"
                  "      | ^~~\n"));
}

TEST(TransferFault, cap_is_a_number_of_bytes) {
  const auto fault = [](const std::string& cap, const std::string& message, const std::string& hint) {
    return input_fault(fmt::format("argument --max-bytes:1:1: error: {}\n    1 | {}\n      | ^{:~>{}}\nhint: {}\n",
                                   message, cap, "", cap.empty() ? 0 : cap.size() - 1, hint));
  };
  const auto run = [](const std::string& cap) { return run_retile({"transfer", "-", "--max-bytes=" + cap}, manifest); };
  EXPECT_EQ(run("10x"), fault("10x", "a number of bytes is needed here, not a factor", "write 4096, 512MiB, 1.5GB"));
  EXPECT_EQ(run("64kb"),
            fault("64kb", "unknown unit of memory 'kb'", "did you mean KB? write bytes (4096, 512MiB, 1.5GB)"));
  EXPECT_EQ(run("1e6"), fault("1e6", "unknown unit of memory 'e6'", "write bytes (4096, 512MiB, 1.5GB)"));
  EXPECT_EQ(run("-1"), fault("-1", "a size of memory cannot be negative", "write bytes (4096, 512MiB, 1.5GB)"));
  EXPECT_EQ(run_retile({"transfer", "-", "--max-bytes", ""}, manifest),
            fault("", "a size of memory is missing", "write bytes (4096, 512MiB, 1.5GB)"));
}

TEST(TransferFault, all_that_is_wrong_with_a_manifest_is_said) {
  const std::string wrong = R"({"name": "w", "mesh": {"x": 2}, "shape": [8], "src": [["y"]], "dst": [[]]}
{"mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]}
)";
  EXPECT_EQ(run_retile({"transfer", "-"}, wrong),
            input_fault("standard input:1:56: error: unknown axis y\n"
                        R"(    1 | {"name": "w", "mesh": {"x": 2}, "shape": [8], "src": [["y"]], "dst": [[]]})"
                        "\n"
                        "      |                                                        ^~~\n"
                        "hint: the mesh has x\n"
                        "standard input:2:1: error: the array has no \"name\"\n"
                        R"(    2 | {"mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]})"
                        "\n"
                        "      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"));
}

TEST(TransferFault, engine_of_single_arrays_is_refused) {
  const ProcessResult expected = refused("--engine: 'reference' is unknown; use one of: threads, cuda, mpi");
  EXPECT_EQ(run_retile({"transfer", "-", "--engine", "reference"}, manifest), expected);
  EXPECT_EQ(run_retile({"transfer", "-", "--engine", "reference", "--dry-run"}, manifest), expected);
  EXPECT_THAT(run_retile({"transfer", "--help"}).output, ::testing::Not(::testing::HasSubstr("reference")));
}

TEST(TransferFault, options_of_another_engine_are_refused_in_a_dry_run_too) {
  EXPECT_EQ(run_retile({"transfer", "-", "--engine", "mpi", "--threads", "2", "--dry-run"}, manifest),
            refused("--threads goes with --engine threads, not mpi"));
}

TEST(TransferFault, every_line_may_be_wrong) {
  std::string wrong;
  for (int i = 0; i < 1000; ++i)
    wrong += R"({"mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]})"
             "\n";
  const ProcessResult result = run_retile({"transfer", "-"}, wrong);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(lines_of(result.errors).size(), 20 * 3 + 1U);
  EXPECT_THAT(result.errors, ::testing::EndsWith("\nerror: 980 more lines are at fault\n"));
}

std::string model(const std::string& arguments) {
  const ProcessResult result =
      run_process({"/bin/sh", "-c", "python3 examples/models/manifest.py " + arguments}, {"", RETILE_SOURCE_DIR});
  EXPECT_EQ(result.status, 0) << result.errors;
  return result.output;
}

TEST(TransferOfModels, is_planned_at_the_floor_and_the_bound) {
  for (const char* name : {"llama-70b", "qwen3-235b", "deepseek-v3"}) {
    for (const char* sizes : {" 8 8", " 64 32", " 256 128"}) {
      const Json json =
          Json::parse(run_retile({"transfer", "-", "--dry-run", "--json"}, model(name + std::string(sizes))).output);
      EXPECT_EQ(json["received_bytes"], json["floor_bytes"]);
      std::int64_t most = 0;
      for (const Json& sent : json["sent_bytes"]) most = std::max(most, sent.get<std::int64_t>());
      const auto bound = json["sent_bound_bytes"].get<std::int64_t>();
      EXPECT_LE(most, bound + bound / 100) << name << sizes;
      EXPECT_GE(most, bound) << name << sizes;
    }
  }
}

TEST(TransferOfModels, is_planned_in_place_within_the_cap) {
  for (const char* name : {"llama-70b", "qwen3-235b", "deepseek-v3"}) {
    for (const char* sizes : {" 8 8", " 64 32", " 256 128"}) {
      const std::string text = model(name + std::string(sizes));
      const Json json = Json::parse(run_retile({"transfer", "-", "--dry-run", "--in-place", "--json"}, text).output);
      const std::int64_t beyond = json["in_place"]["beyond_bytes"].get<std::int64_t>();
      EXPECT_LE(beyond, sizes == std::string(" 8 8") ? json["max_bytes"].get<std::int64_t>() : 0) << name << sizes;
    }
  }
}

TEST(TransferOfModels, is_planned_for_any_numbers_of_devices) {
  for (const char* name : {"llama-70b", "qwen3-30b-a3b", "kimi-k2"}) {
    for (const char* sizes : {" 1 1", " 6 6", " 7 3", " 12 10", " 9 20"}) {
      const std::string text = model(name + std::string(sizes) + " --layers 2");
      const ProcessResult result = run_retile({"transfer", "-", "--dry-run", "--json"}, text);
      ASSERT_EQ(result.status, 0) << name << sizes << result.errors;
      const Json json = Json::parse(result.output);
      EXPECT_EQ(json["received_bytes"], json["floor_bytes"]) << name << sizes;
    }
  }
}

// A trillion parameters from 256 devices to 128 others.
TEST(TransferOfModels, is_planned_at_the_size_of_kimi_k2) {
  const std::string text = model("kimi-k2 256 128");
  EXPECT_EQ(lines_of(text).size(), 60 * 384 * 3 + 61 * 9 + 3 + 60 * 4 + 3U);
  const ProcessResult result = run_retile({"transfer", "-", "--dry-run"}, text);
  EXPECT_THAT(result.output, ::testing::HasSubstr(", gap 0.000 %\n"));
}

TEST(TransferOfModels, has_the_arrays_of_the_public_configurations) {
  EXPECT_EQ(lines_of(model("qwen3-30b-a3b 8 8")).size(), 48 * 128 * 3 + 48 * 9 + 3U);
  EXPECT_EQ(lines_of(model("qwen3-235b 8 8")).size(), 36096 + 94 * 9 + 3U);
  EXPECT_EQ(lines_of(model("qwen3-30b-a3b 8 8")).size(), 18432 + 48 * 9 + 3U);
  EXPECT_EQ(lines_of(model("llama-70b 8 8")).size(), 80 * 6 + 3U);
  EXPECT_EQ(lines_of(model("deepseek-v3 8 8")).size(), 58 * 256 * 3 + 61 * 9 + 3 * 3 + 58 * 4 + 3U);
}

TEST(TransferOfModels, is_verified_on_models_scaled_down) {
  for (const char* name : {"llama-70b", "qwen3-235b", "deepseek-v3"}) {
    const ProcessResult result =
        run_retile({"transfer", "-", "--max-bytes", "64KiB"}, model(name + std::string(" 8 8 --layers 4 --divide 64")));
    EXPECT_THAT(result.output, ::testing::HasSubstr("verified")) << result.errors;
  }
}

}  // namespace
}  // namespace retile::test
