#include "retile/files/reshard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "retile/base/arithmetic.h"
#include "retile/files/runs.h"
#include "retile/files/safetensors.h"
#include "tests/files/folder_test.h"
#include "tests/files/zarr_writer.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/error_of.h"

namespace retile::files {
namespace {

namespace fs = std::filesystem;
using test::diagnostic_of;
using test::error_of;
using test::read_bytes;
using test::write_text;

class Reshard : public test::FolderTest {
 protected:
  // A file of tensors whose elements are numbers of two bytes, counted through all of them.
  void write_model(const std::string& name, const std::vector<std::pair<std::string, Shape>>& tensors) const {
    std::map<std::string, Tensor> described;
    for (const auto& [tensor, shape] : tensors) described[tensor] = {"BF16", 2, shape, 0, 0};
    std::string bytes = safetensors_header(described, R"({"format":"pt"})");
    std::int16_t number = 0;
    for (const auto& [tensor, description] : described) {
      for (std::int64_t i = 0; i < description.bytes() / 2; ++i, ++number) {
        bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
      }
    }
    write_text(path(name), bytes);
  }

  // The elements of a tensor in a file of one rank.
  std::vector<int> elements(const std::string& file, const std::string& name) const {
    const Model model = open_model(path(file));
    const Tensor& tensor = model.tensors.at(name);
    const std::string bytes = read_bytes(path(file));
    std::vector<int> numbers;
    for (std::int64_t i = 0; i < tensor.bytes(); i += 2) {
      std::int16_t number = 0;
      std::memcpy(&number, bytes.data() + tensor.offset + i, sizeof number);
      numbers.push_back(number);
    }
    return numbers;
  }
};

std::vector<SourceText> layouts(const std::vector<std::string>& lines) {
  std::vector<SourceText> texts;
  for (const std::string& line : lines) texts.push_back({"layouts.jsonl", line, static_cast<int>(texts.size()) + 1});
  return texts;
}

// A file says the shape of a tile, and nothing of another order of its elements.
TEST_F(Reshard, refuses_tiles_in_another_order) {
  write_model("model.safetensors", {{"w", {4, 6}}});
  ReshardRequest one = reshard_request("model.safetensors", "ranks");
  one.to = layouts({R"({"name": "w", "mesh": {"x": 2}, "layout": "[2{x}4, 6] order [1, 0]"})"});
  EXPECT_NE(diagnostic_of([&] { return prepare_reshard(one); }).find("error: files hold tiles in the order of their"),
            std::string::npos);
  one.to =
      layouts({R"({"name": "w", "mesh": {"x": 2}, "layout": "[4, 6] order [1, 0] boxes {[0:2, 0:6]; [2:4, 0:6]}"})"});
  EXPECT_NE(diagnostic_of([&] { return prepare_reshard(one); }).find("error: files hold tiles in the order of their"),
            std::string::npos);
  one.to = layouts({R"({"name": "w", "mesh": {"x": 2}, "layout": "[2{x}4, 6]"})"});
  EXPECT_EQ(diagnostic_of([&] { return prepare_reshard(one); }), "no error");
}

// Time is that of the tensors, not of their pairs: a minute and more if it were.
TEST_F(Reshard, has_headers_of_many_tensors) {
  std::map<std::string, Tensor> tensors;
  for (int i = 0; i < 100000; ++i) tensors[fmt::format("layers.{}.weight", i)] = {"U8", 1, {2, 2}, 0, 0};
  const std::string header = safetensors_header(tensors, "");
  write_text(path("many.safetensors"), header + std::string(400000, 'x'));
  const Model model = open_model(path("many.safetensors"));
  EXPECT_EQ(model.tensors.size(), 100000U);
  EXPECT_EQ(model.tensors.at("layers.99999.weight").offset, tensors.at("layers.99999.weight").offset);
}

TEST_F(Reshard, gives_every_rank_its_tiles) {
  write_model("model.safetensors", {{"a", {4, 6}}, {"b", {3}}});
  ReshardRequest one = reshard_request("model.safetensors", "ranks");
  one.to = layouts({R"({"name": "a", "mesh": {"x": 2}, "layout": "[4, 3{x}6]"})",
                    R"json({"name": "*", "mesh": {"x": 2}, "layout": "PartitionSpec(None,)"})json"});
  const ReshardJob job = prepare_reshard(one);
  EXPECT_EQ(job.read_bytes(), 54);
  EXPECT_EQ(job.written_bytes(), 48 + 12);
  run_reshard(job, {false, true, {}});
  EXPECT_EQ(elements("ranks/rank-00000.safetensors", "a"),
            (std::vector<int>{0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20}));
  EXPECT_EQ(elements("ranks/rank-00001.safetensors", "a"),
            (std::vector<int>{3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23}));
  EXPECT_EQ(elements("ranks/rank-00001.safetensors", "b"), (std::vector<int>{24, 25, 26}));
  EXPECT_EQ(open_model(path("ranks/rank-00001.safetensors")).metadata, R"({"format":"pt"})");
}

// There, from ranks to other ranks, and back: the bytes are those of the model.
TEST_F(Reshard, goes_to_other_ranks_and_back) {
  const std::string weights = R"json({"name": "w.*", "mesh": {"x": 2, "y": 2}, "shape": [24, 10],
      "layout": "PartitionSpec(('x', 'y'), None)"})json";
  const std::string others = R"({"name": "w.*", "mesh": {"x": 3}, "shape": [24, 10], "layout": "[24, 4{x}10]"})";
  const std::string bias = R"({"name": "b", "mesh": {"x": 3}, "shape": [7], "layout": "[3{x}7]"})";
  write_model("model.safetensors", {{"w.0", {24, 10}}, {"w.1", {24, 10}}, {"b", {7}}});
  ReshardRequest there = reshard_request("model.safetensors", "four");
  there.to = layouts({weights, bias});
  run_reshard(prepare_reshard(there), {false, true, {}});
  ReshardRequest across = reshard_request("four", "three");
  across.from = there.to;
  across.to = layouts({others, bias});
  run_reshard(prepare_reshard(across), {false, true, {}});
  EXPECT_FALSE(fs::exists(path("three/rank-00003.safetensors")));
  ReshardRequest back = reshard_request("three", "whole");
  back.from = across.to;
  run_reshard(prepare_reshard(back), {false, true, {}});
  EXPECT_TRUE(read_bytes(path("whole/model.safetensors")) == read_bytes(path("model.safetensors")));
}

// What ranks hold of others' elements may be out of date.
TEST_F(Reshard, does_not_read_ghost_zones) {
  fs::create_directory(path("ranks"));
  write_model("ranks/rank-00000.safetensors", {{"a", {3, 3}}});  // 0 to 8
  write_model("ranks/rank-00001.safetensors", {{"a", {3, 3}}});
  ReshardRequest one = reshard_request("ranks", "whole");
  one.from = layouts({R"({"name": "a", "mesh": {"x": 2}, "layout": "[2{x}4 halo 1, 3]"})"});
  run_reshard(prepare_reshard(one), {false, true, {}});
  EXPECT_EQ(elements("whole/model.safetensors", "a"), (std::vector<int>{0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8}));
}

// Fused matrices: each rank has its part of all three.
TEST_F(Reshard, cuts_fused_tensors_by_views) {
  write_model("model.safetensors", {{"qkv", {12, 2}}});
  ReshardRequest one = reshard_request("model.safetensors", "ranks");
  one.to = layouts({R"({"name": "qkv", "mesh": {"x": 2}, "layout": "[3*2{x}4, 2]"})"});
  run_reshard(prepare_reshard(one), {false, true, {}});
  EXPECT_EQ(open_model(path("ranks/rank-00000.safetensors")).tensors.at("qkv").shape, (Shape{6, 2}));
  EXPECT_EQ(elements("ranks/rank-00001.safetensors", "qkv"),
            (std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23}));
}

TEST_F(Reshard, reads_models_of_several_files) {
  fs::create_directories(path("model"));
  write_model("model/1.safetensors", {{"a", {4}}});
  write_model("model/2.safetensors", {{"b", {4}}});
  write_text(path("model/model.safetensors.index.json"),
             R"({"metadata": {}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  run_reshard(prepare_reshard(reshard_request("model", "one")), {false, true, {}});
  EXPECT_EQ(elements("one/model.safetensors", "b"), (std::vector<int>{0, 1, 2, 3}));
}

TEST_F(Reshard, moves_large_tensors_slab_by_slab) {
  write_model("model.safetensors", {{"a", {300, 700}}});
  ReshardRequest one = reshard_request("model.safetensors", "ranks");
  one.to = layouts({R"({"name": "a", "mesh": {"x": 7}, "layout": "[300, 100{x}700]"})"});
  ReshardJob job = prepare_reshard(one);
  for (const std::int64_t slab : {2, 1000, 1402, 70000}) {
    job.slab_bytes = slab;
    run_reshard(job, {true, true, {}});
    EXPECT_EQ(elements("ranks/rank-00006.safetensors", "a")[100], 1300);
  }
}

TEST_F(Reshard, refuses_what_is_wrong) {
  write_model("model.safetensors", {{"a", {4, 6}}});
  ReshardRequest one = reshard_request("model.safetensors", "ranks");
  const auto prepared = [&](const std::string& line) {
    one.to = layouts({line});
    return diagnostic_of([&] { return prepare_reshard(one); });
  };
  EXPECT_EQ(prepared(R"({"name": "b", "mesh": {"x": 2}, "layout": "[4, 3{x}6]"})"),
            "error: no line of 'layouts.jsonl' says the layout of 'a'\n"
            "hint: names may have wildcards: a last line with the name * is for all others\n");
  EXPECT_EQ(prepared(R"({"name": "a", "mesh": {"x": 2}, "layout": "[4, 4{x}8]"})"),
            "layouts.jsonl:1:43: error: 'a' has shape (4, 6)\n"
            "    1 | {\"name\": \"a\", \"mesh\": {\"x\": 2}, \"layout\": \"[4, 4{x}8]\"}\n"
            "      |                                           ^~~~~~~~~~~~\n");
  one.to.reset();
  one.max_bytes = 1000;
  EXPECT_THROW(prepare_reshard(one), MemoryLimitError);
  write_text(path("short.safetensors"), "abc");
  EXPECT_EQ(diagnostic_of([&] { return prepare_reshard(reshard_request("short.safetensors", "x")); }),
            "error: '" + path("short.safetensors") + "' is no file of safetensors\n");
  EXPECT_FALSE(fs::exists(path("ranks")));
}

// Each thread has a slab and a window that it reads through, and another of both that it writes or compares.
TEST_F(Reshard, has_slabs_and_windows_of_all_threads_within_the_cap) {
  write_model("model.safetensors", {{"a", {4, 6}}});
  ReshardRequest one = reshard_request("model.safetensors", "ranks");
  one.threads = 128;
  const ReshardJob job = prepare_reshard(one);
  const std::int64_t bytes = 2 * job.threads * (job.slab_bytes + window_bytes);
  EXPECT_EQ(job.memory_bytes, bytes);
  EXPECT_LE(job.program_bytes + bytes, one.max_bytes);
  EXPECT_GT(job.program_bytes + bytes, one.max_bytes - 4 * job.threads);  // all of it is used
}

TEST_F(Reshard, replaces_nothing_but_checkpoints) {
  write_model("model.safetensors", {{"a", {4, 6}}});
  fs::create_directories(path("home/letters"));
  const ReshardJob job = prepare_reshard(reshard_request("model.safetensors", "home"));
  EXPECT_EQ(diagnostic_of([&] { return run_reshard(job, {}); }),
            "error: '" + path("home") + "' exists\nhint: --overwrite replaces it\n");
  EXPECT_EQ(diagnostic_of([&] {
              return run_reshard(job, {true, false, {}});
            }),
            "error: '" + path("home") + "' holds more than files of safetensors: it is not replaced\n");
  EXPECT_TRUE(fs::exists(path("home/letters")));
}

// A model of tens of thousands of tensors for many ranks is a few kinds of tiles, and ranks alike share a header.
TEST_F(Reshard, shares_what_tensors_and_ranks_have_in_common) {
  std::map<std::string, Tensor> tensors;
  for (int i = 0; i < 200; ++i) tensors["layers." + std::to_string(i)] = {"U8", 1, {i % 2 == 0 ? 8 : 7, 4}, 0, 0};
  const std::string header = safetensors_header(tensors, "");
  write_text(path("m.safetensors"), header + std::string(200 * 30, 'x'));
  ReshardRequest there = reshard_request("m.safetensors", "ranks");
  there.to = layouts({R"json({"name": "*", "mesh": {"x": 4}, "layout": "PartitionSpec('x')"})json"});
  const ReshardJob job = prepare_reshard(there);
  std::set<const TensorTiles*> tiles;
  for (const auto& target : job.targets) tiles.insert(target.get());
  EXPECT_EQ(tiles.size(), 2U);
  ASSERT_EQ(job.target_files.size(), 4U);
  EXPECT_EQ(job.target_files[2].contents, job.target_files[0].contents);
  EXPECT_NE(job.target_files[3].contents, job.target_files[0].contents);  // which has one row of seven less
  run_reshard(job, {false, true, {}});
  ReshardRequest back = reshard_request("ranks", "back");
  back.from = layouts({R"({"name": "*[02468]", "mesh": {"x": 4}, "layout": "[2{x}8, 4]"})",
                       R"({"name": "*", "mesh": {"x": 4}, "layout": "[2{x}7, 4]"})"});
  run_reshard(prepare_reshard(back), {false, true, {}});
  EXPECT_TRUE(read_bytes(path("back/model.safetensors")) == read_bytes(path("m.safetensors")));
}

TEST_F(Reshard, finds_by_verifying_what_was_written_wrongly) {
  write_model("model.safetensors", {{"w", {4, 6}}});
  const ReshardJob job = prepare_reshard(reshard_request("model.safetensors", "one"));
  // Somebody else writes to the file when all is read.
  const auto interfere = [&](std::int64_t) {
    const std::string file = path("one.unfinished/model.safetensors");
    std::string bytes = read_bytes(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_text(file, bytes);
  };
  EXPECT_EQ(error_of([&] {
              run_reshard(job, {false, true, interfere});
            }),
            "'w' differs in the files that were written");
  EXPECT_FALSE(fs::exists(path("one")));
}

TEST_F(Reshard, reads_what_several_ranks_have_once) {
  write_model("model.safetensors", {{"w", {4, 6}}});
  ReshardRequest there = reshard_request("model.safetensors", "ranks");
  there.to = layouts({R"({"name": "w", "mesh": {"x": 3}, "layout": "[4, 6]"})"});
  const ReshardJob job = prepare_reshard(there);
  EXPECT_EQ(job.written_bytes(), 3 * job.read_bytes());
  run_reshard(job, {});
  ReshardRequest back = reshard_request("ranks", "back");
  back.from = there.to;
  EXPECT_EQ(prepare_reshard(back).read_bytes(), job.read_bytes());
}

TEST_F(Reshard, refuses_parts_of_sums) {
  write_model("model.safetensors", {{"w", {4, 6}}});
  ReshardRequest there = reshard_request("model.safetensors", "ranks");
  there.to = layouts({R"({"name": "w", "mesh": {"x": 2}, "layout": "[4, 6] sum {x}"})"});
  EXPECT_NE(diagnostic_of([&] { return prepare_reshard(there); }).find("error: files hold no parts of sums"),
            std::string::npos);
}

}  // namespace
}  // namespace retile::files
