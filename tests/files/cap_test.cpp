// The cap on memory is kept by the whole process, as the system counts it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "retile/files/safetensors.h"
#include "retile/types/npy_header.h"
#include "tests/files/folder_test.h"
#include "tests/support/heap.h"
#include "tests/support/process.h"

namespace retile::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t mebibyte = 1 << 20;

struct CappedRun {
  ProcessResult result;
  nlohmann::json report;
};

class Cap : public FolderTest {
 protected:
  void SetUp() override {
    if (!heap_can_be_measured) GTEST_SKIP() << "sanitizers take memory of their own";
  }

  // The command, where the system gives no more data than the cap. It counts stacks of threads as a whole, of which
  // little is touched: 1 MiB each instead of 8.
  CappedRun rechunk(const std::string& arguments, std::int64_t cap) const {
    const std::string script = fmt::format("ulimit -s 1024; ulimit -d {}; exec {} rechunk {} --max-bytes {} --json",
                                           cap / 1024, RETILE_COMMAND, arguments, cap);
    CappedRun run{run_process({"/bin/bash", "-c", script}, {"", folder_}), {}};
    if (run.result.status == 0) run.report = nlohmann::json::parse(run.result.output);
    return run;
  }

  // An array of zeros that takes no room on the disk.
  void write_npy(const Shape& shape) const {
    const std::string header = npy_header_text("<f4", shape);
    std::ofstream(folder_ + "/a.npy", std::ios::binary) << header;
    std::int64_t bytes = 4;
    for (const std::int64_t size : shape) bytes *= size;
    fs::resize_file(folder_ + "/a.npy", header.size() + static_cast<std::size_t>(bytes));
  }
};

TEST_F(Cap, holds_for_the_whole_process) {
  write_npy({2000, 8000});  // 61 MiB
  for (const char* codec : {"none", "blosc:lz4", "zstd"}) {
    fs::remove_all(folder_ + "/b.zarr");
    fs::remove_all(folder_ + "/c.zarr");
    const std::string options = fmt::format("--codec {} --threads 2", codec);
    const CappedRun there = rechunk(fmt::format("a.npy b.zarr --chunks 2000,100 {}", options), 48 * mebibyte);
    ASSERT_EQ(there.result.status, 0) << there.result.errors;
    EXPECT_LE(there.report["peak_bytes"], 48 * mebibyte);
    const CappedRun back = rechunk(fmt::format("b.zarr c.zarr --chunks 100,8000 {}", options), 48 * mebibyte);
    ASSERT_EQ(back.result.status, 0) << back.result.errors;
    EXPECT_LE(back.report["peak_bytes"], 48 * mebibyte);
  }
}

// Both sides are read again on as many threads as there is room for.
TEST_F(Cap, holds_while_both_sides_are_compared) {
  const Shape shape{2000, 8000};
  std::ofstream file(folder_ + "/a.npy", std::ios::binary);
  file << npy_header_text("<f4", shape);
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000 * 8000 / 2; ++i) {  // which cannot be compressed
    const std::uint64_t word = random();
    file.write(reinterpret_cast<const char*>(&word), sizeof word);
  }
  file.close();
  const std::string arguments = "a.npy b.zarr --chunks 2000,2000 --codec zstd:1 --threads 4";
  const std::int64_t cap = 110 * mebibyte;
  const CappedRun run = rechunk(arguments + " --verify", cap);
  ASSERT_EQ(run.result.status, 0) << run.result.errors;
  EXPECT_LE(run.report["peak_bytes"], cap);
  EXPECT_TRUE(run.report["verified"]);
}

// Headers are read before anything is planned, and what that took counts.
TEST_F(Cap, holds_for_headers_of_checkpoints) {
  std::map<std::string, files::Tensor> tensors;
  for (int i = 0; i < 30000; ++i) tensors[fmt::format("model.layers.{}.mlp.weight", i)] = {"U8", 1, {2, 2}, 0, 0};
  std::ofstream(folder_ + "/m.safetensors", std::ios::binary)
      << files::safetensors_header(tensors, "") << std::string(120000, 'x');
  std::string cap = "1";
  ProcessResult run;
  for (int i = 0; i < 4; ++i) {  // how much a process has differs a little from run to run
    run = run_process({RETILE_COMMAND, "reshard", "m.safetensors", "--out", "one", "--json", "--max-bytes", cap},
                      {"", folder_});
    if (run.status == 0) break;
    const std::string words = "the smallest cap that works is ";
    const std::size_t place = run.errors.find(words);
    ASSERT_NE(place, std::string::npos) << run.errors;
    cap = std::to_string(std::stoll(run.errors.substr(place + words.size())));
  }
  EXPECT_EQ(run.status, 0) << run.errors;
  EXPECT_NE(cap, "1");
}

// Random shapes and caps: done within the cap, or refused with one that works.
TEST_F(Cap, is_kept_or_refused_beforehand) {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  int refused = 0;
  for (int i = 0; i < 12; ++i) {
    const Shape shape{draw(100, 2000), draw(1, 40), draw(1, 400)};
    write_npy(shape);
    fs::remove_all(folder_ + "/b.zarr");
    const std::string arguments =
        fmt::format("a.npy b.zarr --chunks {},{},{} --codec {} --threads {}", draw(1, shape[0]), draw(1, shape[1]),
                    draw(1, shape[2]), draw(0, 1) == 0 ? "none" : "zstd", draw(1, 4));
    const std::int64_t cap = draw(20, 60) * mebibyte;
    CappedRun run = rechunk(arguments, cap);
    if (run.result.status == 1) {
      ++refused;
      ASSERT_FALSE(fs::exists(folder_ + "/b.zarr.unfinished"));
      const std::string words = "the smallest cap that works is ";
      const std::size_t place = run.result.errors.find(words);
      ASSERT_NE(place, std::string::npos) << run.result.errors;
      run = rechunk(arguments, std::stoll(run.result.errors.substr(place + words.size())));
    }
    ASSERT_EQ(run.result.status, 0) << arguments << " " << cap << "\n" << run.result.errors;
    EXPECT_LE(run.report["peak_bytes"], run.report["max_bytes"]);
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 12);
}

}  // namespace
}  // namespace retile::test
