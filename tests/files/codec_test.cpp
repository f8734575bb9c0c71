#include "retile/files/codec.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "retile/base/error.h"
#include "retile/files/chunk_reader.h"
#include "retile/files/rechunk_run.h"
#include "tests/files/folder_test.h"
#include "tests/files/zarr_writer.h"
#include "tests/support/error_of.h"

namespace retile::files {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::read_bytes;
using test::write_text;
using test::write_zarr3;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encoded_by(CodecChain& chain, const std::string& chunk) {
  std::vector<std::byte> room(static_cast<std::size_t>(chain.most_encoded_bytes()));
  const auto encoded = chain.encode(bytes_of(chunk), room);
  return {encoded.begin(), encoded.end()};
}

TEST(Codec, shuffles_bytes_of_elements_and_back) {
  CodecChain chain({{CodecKind::shuffle, 0, 4}}, 8);
  EXPECT_EQ(encoded_by(chain, "abcdABCD"), bytes_of("aAbBcCdD"));
  std::vector<std::byte> chunk(8);
  chain.decode(bytes_of("aAbBcCdD"), chunk, "file");
  EXPECT_EQ(chunk, bytes_of("abcdABCD"));
}

TEST(Codec, finds_damage_by_checksums) {
  CodecChain chain({{CodecKind::crc32c}}, 8);
  std::vector<std::byte> encoded = encoded_by(chain, "abcdABCD");
  ASSERT_EQ(encoded.size(), 12U);
  std::vector<std::byte> chunk(8);
  chain.decode(encoded, chunk, "file");
  EXPECT_EQ(chunk, bytes_of("abcdABCD"));
  for (std::byte& byte : encoded) {
    byte ^= std::byte{4};
    EXPECT_THROW(chain.decode(encoded, chunk, "file"), RuntimeError);
    byte ^= std::byte{4};
  }
}

class Checks : public test::RechunkTest {};

TEST_F(Checks, of_shards_find_damaged_indices) {
  write_zarr3(path("a.zarr"), {{8, 8}, {4, 4}});
  RechunkRequest one = request("a.zarr", "b.zarr", "4,4");
  one.shards = parse_chunk_sizes({"argument --shards", "8,8"});
  run_rechunk(prepare_rechunk(one), {});
  const std::string file = path("b.zarr/c/0/0");
  std::string bytes = read_bytes(file);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);  // of the last length
  write_text(file, bytes);
  EXPECT_EQ(error_of([&] { run_rechunk(prepare_rechunk(request("b.zarr", "c.zarr", "8,8")), {}); }),
            "'" + file + "' is damaged: its index has another checksum");
}

TEST_F(Checks, shards_of_fill_values_are_not_stored) {
  write_zarr3(path("a.zarr"), {{8, 8}, {4, 4}}, {"c/0/0", "c/0/1"});
  RechunkRequest one = request("a.zarr", "b.zarr", "2,2");
  one.shards = parse_chunk_sizes({"argument --shards", "4,8"});
  run_rechunk(prepare_rechunk(one), {Existing::refuse, true});
  EXPECT_FALSE(fs::exists(path("b.zarr/c/0/0")));
  EXPECT_TRUE(fs::exists(path("b.zarr/c/1/0")));
}

// A checksum is of elements and their places, whatever their chunks.
TEST_F(Checks, of_both_sides_see_every_element) {
  const auto sum = [&](const std::string& name) {
    return checksum(open_source(open_array(path(name))), 2, 1 << 24, one_process());
  };
  write_zarr3(path("a.zarr"), {{6, 8}, {4, 4}});
  write_zarr3(path("b.zarr"), {{6, 8}, {3, 8}});
  const std::uint64_t before = sum("a.zarr");
  EXPECT_EQ(sum("b.zarr"), before);
  const std::string file = path("b.zarr/c/1/0");
  const std::string bytes = read_bytes(file);
  for (std::size_t i = 0; i < bytes.size(); i += 7) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write_text(file, changed);
    EXPECT_NE(sum("b.zarr"), before) << i;
  }
  write_text(file, bytes.substr(4) + bytes.substr(0, 4));  // the same elements in other places
  EXPECT_NE(sum("b.zarr"), before);
}

}  // namespace
}  // namespace retile::files
