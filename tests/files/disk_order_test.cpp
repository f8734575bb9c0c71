// The order in which bytes and names reach the disk: calls of the system are listened to, and a name that is given to
// bytes which a power failure could still take away is a fault.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "retile/files/codec_option.h"
#include "retile/files/process_memory.h"
#include "retile/files/rechunk.h"
#include "retile/files/reshard.h"
#include "retile/files/safetensors.h"
#include "tests/files/folder_test.h"
#include "tests/files/zarr_writer.h"

namespace {

// What would be lost in a power failure, and what was wrong so far.
class Listener {
 public:
  void start(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    folder_ = folder;
    lost_.clear();
    names_.clear();
    dropped_.clear();
    faults_.clear();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    folder_.clear();
  }

  void write(int file) { add(file, lost_); }
  std::set<std::string> lost() {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  // What was written when waiting for the disk began is there when it ends.
  void sync(const std::set<std::string>& paths) {
    const std::lock_guard lock(mutex_);
    for (const std::string& path : paths) lost_.erase(path);
  }
  void sync(int file) { sync(std::set<std::string>{path_of(file)}); }

  void drop(int file) { add(file, dropped_); }
  std::set<std::string> dropped() {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

  // A file or a folder gets a name. Metadata may have theirs before they are on the disk: the folder has not.
  void rename(const std::string& from, const std::string& to) {
    const std::lock_guard lock(mutex_);
    if (folder_.empty() || !to.starts_with(folder_)) return;
    const bool is_inside = to.find(".unfinished/") != std::string::npos;
    const bool is_chunk = from.ends_with(".part");
    std::set<std::string> lost;
    for (const std::string& path : lost_) {
      const bool is_renamed = path == from || path.starts_with(from + "/");
      if (is_renamed && (is_chunk || !is_inside)) faults_.push_back(fmt::format("{} is named too early", path));
      lost.insert(is_renamed ? to + path.substr(from.size()) : path);
    }
    lost_ = lost;
    names_.push_back(to.substr(folder_.size() + 1));
  }

  std::vector<std::string> faults() {
    const std::lock_guard lock(mutex_);
    return faults_;
  }
  std::vector<std::string> names() {
    const std::lock_guard lock(mutex_);
    return names_;
  }

 private:
  void add(int file, std::set<std::string>& paths) {
    const std::string path = path_of(file);
    const std::lock_guard lock(mutex_);
    if (!folder_.empty() && path.starts_with(folder_)) paths.insert(path);
  }

  static std::string path_of(int file) {
    std::error_code ignored;
    return std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", file), ignored).string();
  }

  std::mutex mutex_;
  std::string folder_;              // that is listened to; empty: none
  std::set<std::string> lost_;      // files with bytes that are not on the disk
  std::vector<std::string> names_;  // as they were given
  std::set<std::string> dropped_;   // files that were to leave the page cache
  std::vector<std::string> faults_;
};

Listener& listener() {
  static Listener one;
  return one;
}

template <typename Function>
Function next_of(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// The program's own functions come before those of the system, for the libraries that it uses too.
extern "C" {

ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static const auto next = next_of<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  const ssize_t written = next(file, bytes, count, offset);
  listener().write(file);
  return written;
}

ssize_t write(int file, const void* bytes, size_t count) {
  static const auto next = next_of<ssize_t (*)(int, const void*, size_t)>("write");
  const ssize_t written = next(file, bytes, count);
  if (file > STDERR_FILENO) listener().write(file);
  return written;
}

int fdatasync(int file) {
  static const auto next = next_of<int (*)(int)>("fdatasync");
  const int result = next(file);
  if (result == 0) listener().sync(file);
  return result;
}

int posix_fadvise(int file, off_t offset, off_t count, int advice) noexcept {
  static const auto next = next_of<int (*)(int, off_t, off_t, int)>("posix_fadvise");
  if (advice == POSIX_FADV_DONTNEED) listener().drop(file);
  return next(file, offset, count, advice);
}

int syncfs(int file) noexcept {
  static const auto next = next_of<int (*)(int)>("syncfs");
  const std::set<std::string> lost = listener().lost();
  const int result = next(file);
  if (result == 0) listener().sync(lost);
  return result;
}

int rename(const char* from, const char* to) noexcept {
  static const auto next = next_of<int (*)(const char*, const char*)>("rename");
  listener().rename(from, to);
  return next(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static const auto next = next_of<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  listener().rename(from, to);
  return next(from_folder, from, to_folder, to, flags);
}

}  // extern "C"

namespace retile::files {
namespace {

using testing::IsEmpty;

class DiskOrder : public test::RechunkTest {
 protected:
  // On the disk, where there is one to wait for.
  DiskOrder() : RechunkTest(std::filesystem::temp_directory_path()) {}

  void SetUp() override {
    test::write_zarr3(path("a.zarr"), {{64, 48}, {8, 48}});
    listener().start(folder_);
  }
  void TearDown() override { listener().stop(); }

  // Names that were given, in their order. Nothing may be lost of what has its name.
  std::vector<std::string> names_of(const RechunkRequest& request, const RunOptions& options = {}) {
    run_rechunk(prepare_rechunk(request), options);
    EXPECT_THAT(listener().faults(), IsEmpty());
    return listener().names();
  }

  static bool is_metadata(const std::string& name) { return name.ends_with("/zarr.json"); }
};

// All chunks, then the metadata, then the store.
TEST_F(DiskOrder, bytes_come_before_names_and_metadata_last) {
  const std::vector<std::string> names = names_of(request("a.zarr", "b.zarr", "64,4"));
  ASSERT_EQ(names.size(), 15U);  // with a journal
  EXPECT_EQ(names.front(), "b.zarr.unfinished/.retile-rechunk");
  EXPECT_EQ(std::count_if(names.begin() + 1, names.begin() + 13, is_metadata), 0);
  EXPECT_EQ(names[13], "b.zarr.unfinished/zarr.json");
  EXPECT_EQ(names[14], "b.zarr");
}

// Files that are waited for one by one.
TEST_F(DiskOrder, bytes_of_large_chunks_come_before_names) {
  test::write_zarr3(path("large.zarr"), {{2048, 3072}, {512, 3072}});
  const std::vector<std::string> names = names_of(request("large.zarr", "b.zarr", "2048,128"));
  ASSERT_EQ(names.size(), 27U);
  EXPECT_EQ(names[25], "b.zarr.unfinished/zarr.json");
}

TEST_F(DiskOrder, bytes_come_before_names_of_shards) {
  RechunkRequest sharded = request("a.zarr", "b.zarr", "16,4");
  sharded.shards = parse_chunk_sizes({"argument --shards", "64,16"});
  const std::vector<std::string> names = names_of(sharded);
  ASSERT_EQ(names.size(), 6U);
  EXPECT_EQ(names.back(), "b.zarr");
}

TEST_F(DiskOrder, what_replaces_another_store_is_on_the_disk) {
  names_of(request("a.zarr", "b.zarr", "64,4"));
  RunOptions options;
  options.existing = Existing::overwrite;
  EXPECT_EQ(names_of(request("a.zarr", "b.zarr", "32,48"), options).back(), "b.zarr");
}

TEST_F(DiskOrder, bytes_come_before_the_name_of_a_file) {
  EXPECT_EQ(names_of(request("a.zarr", "b.npy", "-1,-1")).back(), "b.npy");
}

// Advice to drop a file makes the system write it first.
TEST_F(DiskOrder, an_intermediate_array_is_not_brought_to_the_disk) {
  test::write_zarr3(path("large.zarr"), {{2048, 2048}, {32, 2048}});
  RechunkRequest packed = request("large.zarr", "packed.zarr", "32,2048");
  packed.codecs = parse_codec({"argument --codec", "zstd"});
  run_rechunk(prepare_rechunk(packed), {});
  RechunkRequest small = request("packed.zarr", "b.zarr", "2048,32");
  small.max_bytes = program_memory() + (std::int64_t{8} << 20);
  const RechunkJob job = prepare_rechunk(small);
  ASSERT_EQ(job.arrays.at(0).plan->passes.size(), 2U);
  listener().start(folder_);
  run_rechunk(job, {});
  const std::set<std::string> dropped = listener().dropped();
  EXPECT_TRUE(std::any_of(dropped.begin(), dropped.end(), [](auto& path) { return path.find("/c/") != path.npos; }));
  EXPECT_FALSE(std::any_of(dropped.begin(), dropped.end(), [](auto& path) { return path.ends_with(" (deleted)"); }));
}

TEST_F(DiskOrder, bytes_of_checkpoints_come_before_names) {
  std::map<std::string, Tensor> tensors{{"w", {"U8", 1, {8, 1024}, 0, 0}}};
  test::write_text(path("m.safetensors"), safetensors_header(tensors, "") + std::string(8192, 'w'));
  const char* layout = R"({"name": "w", "mesh": {"x": 2}, "layout": "[4{x}8, 1024]"})";
  run_reshard(prepare_reshard(reshard_request("m.safetensors", "ranks", layout)), {});
  EXPECT_THAT(listener().faults(), IsEmpty());
  EXPECT_EQ(listener().names().back(), "ranks");
}

}  // namespace
}  // namespace retile::files
