// Files that the ranks of a job write together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "retile/files/safetensors.h"
#include "retile/types/npy_header.h"
#include "tests/files/folder_test.h"
#include "tests/mpi/launch.h"
#include "tests/support/heap.h"

namespace retile::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FilesOnRanks : public FolderTest {
 protected:
  ProcessResult run(int ranks, const std::string& arguments) const {
    std::vector<std::string> command{RETILE_COMMAND};
    std::string word;
    for (const char character : arguments + " ") {
      if (character != ' ') {
        word += character;
      } else if (!word.empty()) {
        command.push_back(std::exchange(word, ""));
      }
    }
    return ranks == 1 ? run_process(command, {"", folder_}) : run_job(ranks, command, {"", folder_});
  }

  void run_well(int ranks, const std::string& arguments) const {
    const ProcessResult result = run(ranks, arguments);
    ASSERT_EQ(result.status, 0) << arguments << "\n" << result.errors;
  }

  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  // Random numbers of four bytes.
  void write_npy(const Shape& shape) const {
    std::string text = npy_header_text("<i4", shape);
    std::mt19937 random(3);
    for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      const auto number = static_cast<std::int32_t>(random() % 1000);
      text.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    write("a.npy", text);
  }

  // All files below a folder, by their names.
  std::map<std::string, std::string> files_in(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(path(name))) {
      const std::string inside = fs::relative(entry.path(), folder_).string();
      if (entry.is_regular_file()) files[inside.substr(name.size())] = read(inside);
    }
    return files;
  }
};

TEST_F(FilesOnRanks, are_those_of_one_process) {
  write_npy({600, 500});
  const std::string chunks = " --chunks 70,90 --codec zstd";
  run_well(1, "rechunk a.npy one.zarr" + chunks);
  run_well(3, "rechunk a.npy three.zarr --verify" + chunks);
  EXPECT_EQ(files_in("three.zarr"), files_in("one.zarr"));
  run_well(4, "rechunk three.zarr back.npy --chunks 1,1 --verify");
  EXPECT_EQ(read("back.npy"), read("a.npy"));
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }
}

// Chunks of a shard lie in the order in which they were written: their elements are compared.
TEST_F(FilesOnRanks, have_shards_that_one_rank_writes) {
  write_npy({600, 500});
  run_well(3, "rechunk a.npy shards.zarr --chunks 20,50 --shards 100,100 --format zarr3 --verify");
  run_well(1, "rechunk shards.zarr back.npy --chunks 1,1");
  EXPECT_EQ(read("back.npy"), read("a.npy"));
}

TEST_F(FilesOnRanks, go_through_an_intermediate_array) {
  if (!heap_can_be_measured) GTEST_SKIP() << "a sanitizer's own memory grows, and counts against the cap";
  write_npy({2000, 2000});  // 16 MB
  run_well(1, "rechunk a.npy rows.zarr --chunks 20,2000 --codec zstd");
  const std::string command = "rechunk rows.zarr columns.zarr --chunks 2000,20 --threads 1";
  const ProcessResult refused = run(3, command + " --max-bytes 1");
  const std::string words = "the smallest cap that works is ";
  const std::size_t place = refused.errors.find(words);
  ASSERT_NE(place, std::string::npos) << refused.errors;
  const std::int64_t cap = std::stoll(refused.errors.substr(place + words.size())) + (1 << 22);
  const std::string within = command + " --max-bytes " + std::to_string(cap);
  EXPECT_THAT(run(3, within + " --dry-run").output, HasSubstr("pass 2 "));
  run_well(3, within + " --verify");
  run_well(1, "rechunk columns.zarr back.npy --chunks 1,1");
  EXPECT_EQ(read("back.npy"), read("a.npy"));
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }
}

// One rank finds the damage, and the job ends; any number of ranks goes on from there.
TEST_F(FilesOnRanks, are_gone_on_with_by_other_ranks) {
  write_npy({600, 500});
  run_well(1, "rechunk a.npy rows.zarr --chunks 10,500 --codec none --format zarr3");
  const std::string whole = read("rows.zarr/c/59/0");
  write("rows.zarr/c/59/0", whole.substr(0, 100));
  const std::string command = "rechunk rows.zarr b.zarr --chunks 10,50";
  const ProcessResult failed = run(3, command);
  EXPECT_EQ(failed.status, 3);
  EXPECT_EQ(count_of("rows.zarr/c/59/0' is damaged: it has 100 bytes instead of 20000", failed.errors), 1)
      << failed.errors;
  EXPECT_FALSE(fs::exists(path("b.zarr")));
  EXPECT_TRUE(fs::exists(path("b.zarr.unfinished")));
  write("rows.zarr/c/59/0", whole);
  run_well(2, command + " --resume --verify");
  run_well(1, "rechunk b.zarr back.npy --chunks 1,1");
  EXPECT_EQ(read("back.npy"), read("a.npy"));
}

// Each rank reads and writes what its devices hold.
TEST_F(FilesOnRanks, are_moved_by_a_transfer) {
  std::map<std::string, files::Tensor> tensors{{"w", {"U8", 1, {30, 70}, 0, 0}}};
  std::string text = files::safetensors_header(tensors, "");
  for (int i = 0; i < 2100; ++i) text += static_cast<char>(i * 7);
  write("m.safetensors", text);
  write(
      "m.jsonl",
      R"({"name": "w", "mesh": {"x": 4}, "shape": [30, 70], "src": [["x"], []], "dst": [[], ["x"]], "dtype": "u8", "src_file": "m.safetensors", "dst_file": "out.safetensors"})");
  run_well(4, "transfer m.jsonl");
  EXPECT_EQ(read("out.safetensors"), text);
}

TEST_F(FilesOnRanks, are_refused_once) {
  write_npy({60, 50});
  write("b.zarr", "");
  const ProcessResult result = run(3, "rechunk a.npy b.zarr --chunks 10,50");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(count_of("'b.zarr' exists", result.errors), 1) << result.errors;
}

TEST_F(FilesOnRanks, are_checkpoints) {
  std::map<std::string, files::Tensor> tensors{{"v", {"F32", 4, {1000}, 0, 0}}, {"w", {"U8", 1, {3000, 700}, 0, 0}}};
  const std::string header = files::safetensors_header(tensors, "");
  std::string data(4000 + 2100000, ' ');
  std::mt19937 random(4);
  std::generate(data.begin(), data.end(), [&] { return static_cast<char>(random()); });
  write("m.safetensors", header + data);
  write("layouts.jsonl", R"({"name": "v", "mesh": {"x": 4}, "layout": "[250{x}1000]"}
{"name": "w", "mesh": {"x": 4}, "layout": "[750{x}3000, 700]"}
)");
  run_well(1, "reshard m.safetensors --to layouts.jsonl --out one");
  run_well(3, "reshard m.safetensors --to layouts.jsonl --out three --verify");
  EXPECT_EQ(files_in("three"), files_in("one"));
  run_well(2, "reshard three --from layouts.jsonl --out back");
  EXPECT_EQ(read("back/model.safetensors"), read("m.safetensors"));
}

}  // namespace
}  // namespace retile::test
