// Tests that write files: each has a folder of its own, which goes with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "retile/files/rechunk.h"
#include "retile/files/reshard.h"

namespace retile::test {

// A folder in memory where there is one with room: runs wait for the disk, and the disk for others.
inline std::filesystem::path fast_folder() {
  std::error_code error;
  const std::filesystem::path memory = "/dev/shm";
  const auto space = std::filesystem::space(memory, error);
  return error || space.available < (1U << 30U) ? std::filesystem::temp_directory_path() : memory;
}

class FolderTest : public ::testing::Test {
 protected:
  explicit FolderTest(const std::filesystem::path& parent = fast_folder())
      : folder_((parent / "retile.XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("cannot make a folder");
  }
  ~FolderTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // Paths are names in the folder; `layout` is that of the target's tensors, one model where it is empty. The cap is
  // ample.
  files::ReshardRequest reshard_request(const std::string& source, const std::string& target,
                                        const std::string& layout = "") const {
    files::ReshardRequest request;
    request.source = path(source);
    request.target = path(target);
    if (!layout.empty()) request.to = std::vector{SourceText{"layouts.jsonl", layout}};
    request.max_bytes = std::int64_t{1} << 30;
    request.threads = 2;
    return request;
  }

  std::string folder_;
};

// Tests that rechunk stores in their folder.
class RechunkTest : public FolderTest {
 protected:
  using FolderTest::FolderTest;

  // Paths are names in the folder. The cap is ample.
  files::RechunkRequest request(const std::string& source, const std::string& target, const std::string& chunks) const {
    files::RechunkRequest request;
    request.source = path(source);
    request.target = path(target);
    request.chunks = files::parse_chunk_sizes({"argument --chunks", chunks});
    request.max_bytes = std::int64_t{1} << 30;
    request.threads = 2;
    return request;
  }
};

}  // namespace retile::test
