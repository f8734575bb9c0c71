// Tests that write files: each has a folder of its own, which goes with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "retile/files/rechunk.h"

namespace retile::test {

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() : folder_((std::filesystem::temp_directory_path() / "retile.XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("cannot make a folder");
  }
  ~FolderTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

// Tests that rechunk stores in their folder.
class RechunkTest : public FolderTest {
 protected:
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
