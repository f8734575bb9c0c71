// Transfers from files and to files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "retile/files/safetensors.h"
#include "tests/command/retile.h"

namespace retile::test {
namespace {

using ::testing::HasSubstr;

class TransferFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  // Two tensors of 120 and 84 bytes.
  void write_model() const {
    std::map<std::string, files::Tensor> tensors{{"a", {"U8", 1, {10, 12}, 0, 0}}, {"b", {"BF16", 2, {7, 6}, 0, 0}}};
    std::string text = files::safetensors_header(tensors, "");
    for (int i = 0; i < 204; ++i) text += static_cast<char>(i);
    write("model.safetensors", text);
  }

  // Rows to columns on four devices, which do not divide all sizes; "c" is made up.
  std::string manifest(const std::string& more = "") const {
    return R"({"name": "a", "mesh": {"x": 4}, "shape": [10, 12], "src": [["x"], []], "dst": [[], ["x"]], "dtype": "u8", "src_file": "model.safetensors", "dst_file": "out.safetensors"}
{"name": "b", "mesh": {"x": 4}, "shape": [7, 6], "src": [[], ["x"]], "dst": [[], []], "dtype": "bf16", "src_file": "model.safetensors", "dst_file": "out.safetensors"}
{"name": "c", "mesh": {"x": 4}, "shape": [8], "src": [["x"]], "dst": [[]]}
)" + more;
  }

  TemporaryFolder folder_;
};

TEST_F(TransferFiles, hold_what_was_read) {
  write_model();
  write("m.jsonl", manifest());
  const ProcessResult result = folder_.run_retile({"transfer", "m.jsonl"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("verified"));
  EXPECT_EQ(read("out.safetensors"), read("model.safetensors"));  // both have the same tensors
  // What is there is left alone.
  write("m.jsonl", manifest());
  const ProcessResult again = folder_.run_retile({"transfer", "m.jsonl"});
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.errors, HasSubstr("'out.safetensors' exists: it is not replaced"));
}

TEST_F(TransferFiles, are_read_again_in_place) {
  write_model();
  write("m.jsonl", manifest());
  const ProcessResult result = folder_.run_retile({"transfer", "m.jsonl", "--in-place", "--repeat", "2"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(read("out.safetensors"), read("model.safetensors"));
}

TEST_F(TransferFiles, that_lack_an_array_are_refused) {
  write_model();
  write(
      "m.jsonl",
      manifest(
          R"({"name": "d", "mesh": {"x": 4}, "shape": [8], "src": [["x"]], "dst": [[]], "src_file": "model.safetensors"})"));
  const ProcessResult result = folder_.run_retile({"transfer", "m.jsonl"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("'model.safetensors' lacks 'd' as F32 (8)"));
  EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
  EXPECT_EQ(folder_.run_retile({"transfer", "m.jsonl", "--dry-run"}).status, 0);  // plans need no files
}

// Lines that differ in their names alone are read once, and have the same files.
TEST_F(TransferFiles, are_those_of_each_line) {
  std::map<std::string, files::Tensor> tensors{{"l0", {"F32", 4, {8}, 0, 0}}, {"l1", {"F32", 4, {8}, 0, 0}}};
  std::string text = files::safetensors_header(tensors, "");
  for (int i = 0; i < 64; ++i) text += static_cast<char>(100 + i);
  write("model.safetensors", text);
  std::string lines;
  for (const char* name : {"l0", "l1"}) {
    lines +=
        std::string(R"({"name": ")") + name +
        R"(", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]], "src_file": "model.safetensors", "dst_file": "out.safetensors"})" +
        "\n";
  }
  write("m.jsonl", lines);
  const ProcessResult result = folder_.run_retile({"transfer", "m.jsonl"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(read("out.safetensors"), text);
}

}  // namespace
}  // namespace retile::test
