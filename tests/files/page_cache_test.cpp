// What runs leave in the page cache, and in which order bytes and names reach the disk.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "retile/files/checkpoint.h"
#include "retile/files/file.h"
#include "retile/files/pending_files.h"
#include "retile/files/rechunk.h"
#include "retile/files/reshard.h"
#include "retile/files/safetensors.h"
#include "retile/types/npy_header.h"
#include "tests/files/folder_test.h"
#include "tests/files/zarr_writer.h"
#include "tests/support/error_of.h"

namespace retile::files {
namespace {

namespace fs = std::filesystem;

std::size_t cached_bytes(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const std::size_t bytes = fs::file_size(path);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  EXPECT_EQ(::mincore(map, bytes, pages.data()), 0);
  ::munmap(map, bytes);
  ::close(file);
  return page *
         static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(), [](auto flags) { return flags & 1; }));
}

std::size_t cached_bytes_in(const std::string& folder) {
  std::size_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.file_size() > 0) bytes += cached_bytes(entry.path().string());
  }
  return bytes;
}

class PageCache : public test::RechunkTest {
 protected:
  static constexpr std::size_t mebibyte = 1 << 20;
  static constexpr std::size_t little = 8 * mebibyte;  // pages that others look at stay for a while

  PageCache() : RechunkTest(fs::temp_directory_path()) {}

  // On file systems that live in memory there is nothing to drop.
  void SetUp() override {
    test::write_text(path("probe"), std::string(mebibyte, 'x'));
    drop("probe");
    if (cached_bytes(path("probe")) > 0) GTEST_SKIP() << "this file system keeps its files in memory";
  }

  void drop(const std::string& name) const { File(path(name), File::Mode::update).sync(); }

  // 48 MiB that cannot be compressed.
  void write_npy(const std::string& name) const {
    std::string text = npy_header_text("<f4", {4096, 3072});
    std::mt19937_64 random(5);
    for (std::size_t i = 0; i < 6 * mebibyte; ++i) {
      const std::uint64_t word = random();
      text.append(reinterpret_cast<const char*>(&word), sizeof word);
    }
    test::write_text(path(name), text);
  }
};

TEST_F(PageCache, keeps_little_of_what_is_read_and_written) {
  write_npy("a.npy");
  drop("a.npy");
  ASSERT_LT(cached_bytes(path("a.npy")), little);
  run_rechunk(prepare_rechunk(request("a.npy", "b.zarr", "256,3072")), {});
  EXPECT_LT(cached_bytes(path("a.npy")), little);
  EXPECT_LT(cached_bytes_in(path("b.zarr")), little);
  run_rechunk(prepare_rechunk(request("b.zarr", "c.npy", "256,3072")), {Existing::refuse, true});
  EXPECT_LT(cached_bytes_in(path("b.zarr")), little);
  EXPECT_LT(cached_bytes(path("c.npy")), little);
}

TEST_F(PageCache, keeps_what_was_there_before) {
  write_npy("a.npy");
  File(path("a.npy"), File::Mode::update).sync();
  test::read_bytes(path("a.npy"));
  ASSERT_GT(cached_bytes(path("a.npy")), 47 * mebibyte);
  run_rechunk(prepare_rechunk(request("a.npy", "b.zarr", "256,3072")), {});
  EXPECT_GT(cached_bytes(path("a.npy")), 47 * mebibyte);
  for (const auto& entry : fs::recursive_directory_iterator(path("b.zarr"))) {
    if (entry.is_regular_file()) test::read_bytes(entry.path().string());
  }
  run_rechunk(prepare_rechunk(request("b.zarr", "c.zarr", "512,3072")), {});
  EXPECT_GT(cached_bytes_in(path("b.zarr")), 47 * mebibyte);
}

TEST_F(PageCache, keeps_little_of_checkpoints) {
  std::map<std::string, Tensor> tensors{{"w", {"U8", 1, {48, 1 << 20}, 0, 0}}};
  test::write_text(path("m.safetensors"), safetensors_header(tensors, "") + std::string(48 * mebibyte, 'w'));
  drop("m.safetensors");
  const char* layout = R"({"name": "w", "mesh": {"x": 2}, "layout": "[24{x}48, 1048576]"})";
  run_reshard(prepare_reshard(reshard_request("m.safetensors", "ranks", layout)), {});
  EXPECT_LT(cached_bytes(path("m.safetensors")), little);
  EXPECT_LT(cached_bytes_in(path("ranks")), little);
}

// Ranks of a host read the same files: what one has read is there for the others.
TEST_F(PageCache, keeps_what_readers_of_checkpoints_read) {
  std::map<std::string, Tensor> tensors{{"w", {"U8", 1, {80, 1 << 20}, 0, 0}}};
  test::write_text(path("m.safetensors"), safetensors_header(tensors, "") + std::string(80 * mebibyte, 'w'));
  drop("m.safetensors");
  ASSERT_LT(cached_bytes(path("m.safetensors")), little);
  const Checkpoint checkpoint = open_checkpoint(path("m.safetensors"));
  const CheckpointReader reader(checkpoint);
  std::vector<std::byte> rows(8 * mebibyte);
  for (std::int64_t row = 0; row < 80; row += 8) {
    reader.read(checkpoint.tensors[0], {packed_part({{row, 0}, {row + 8, 1 << 20}})}, rows.data());
  }
  EXPECT_GT(cached_bytes(path("m.safetensors")), 79 * mebibyte);
}

// --- Names.

using Pending = test::RechunkTest;

// Names are given by a thread of its own: soon, or never where too few files are complete.
TEST_F(Pending, files_are_named_in_batches_and_at_the_end) {
  PendingFiles pending(folder_);
  std::vector<std::string> names;
  // Each name is looked up: a listing may show a file twice, or not at all, that gets its name meanwhile.
  const auto named = [&] { return std::ranges::count_if(names, [](const auto& name) { return fs::exists(name); }); };
  const auto create = [&](const std::string& name, std::string_view bytes) {
    names.push_back(path(name));
    const File file(names.back() + ".part", File::Mode::create);
    file.write(0, std::as_bytes(std::span(bytes)));
    pending.add(file, names.back());
  };
  const auto named_soon = [&](int wanted) {
    for (int i = 0; i < 2000 && named() < wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return named();
  };
  for (int i = 0; i < 1500; ++i) create(fmt::format("f{}", i), "bytes");
  EXPECT_GE(named_soon(1024), 1024);
  create("large", std::string(1 << 26, 'x'));
  EXPECT_EQ(named_soon(1501), 1501);
  create("last", "");
  EXPECT_EQ(named(), 1501);
  pending.finish();
  EXPECT_EQ(named(), 1502);
  EXPECT_EQ(test::read_bytes(path("f137")), "bytes");
}

TEST_F(Pending, a_name_that_cannot_be_given_is_an_error) {
  PendingFiles pending(folder_);
  const File file(path("f.part"), File::Mode::create);
  pending.add(file, path("none/f"));
  EXPECT_EQ(test::error_of([&] { pending.finish(); }),
            fmt::format("cannot write '{}': No such file or directory", path("none/f")));
}

// What is complete when a run fails is kept.
TEST_F(Pending, files_are_named_where_a_run_ends_early) {
  {
    PendingFiles pending(folder_);
    const File file(path("f.part"), File::Mode::create);
    pending.add(file, path("f"));
  }
  EXPECT_TRUE(fs::exists(path("f")));
}

}  // namespace
}  // namespace retile::files
