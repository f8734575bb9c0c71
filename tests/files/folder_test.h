// Tests that write files: each has a folder of its own, which goes with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

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

}  // namespace retile::test
