// Stores and models that somebody damaged, or made to do harm: they are refused in words, and nobody's files are lost.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "retile/base/error.h"
#include "retile/files/chunk_reader.h"
#include "retile/files/codec_option.h"
#include "retile/files/rechunk.h"
#include "retile/files/reshard.h"
#include "retile/files/safetensors.h"
#include "tests/files/folder_test.h"
#include "tests/files/zarr_writer.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/error_of.h"
#include "tests/support/problems.h"

namespace retile::files {
namespace {

namespace fs = std::filesystem;
using test::diagnostic_of;
using test::error_of;
using test::read_bytes;
using test::write_text;
using test::write_zarr3;

class Hostile : public test::RechunkTest {
 protected:
  void rechunk(const std::string& source, const std::string& target, const std::string& chunks) const {
    run_rechunk(prepare_rechunk(request(source, target, chunks)), {Existing::refuse, true});
  }

  // What is said of a store with this metadata, without the place.
  std::string fault_of_zarr2(const std::string& members) const {
    fs::create_directories(path("a.zarr"));
    write_text(path("a.zarr/.zarray"), fmt::format(R"({{"zarr_format": 2, "order": "C", {}}})", members));
    return first_sentence(diagnostic_of([&] { return open_array(path("a.zarr")); }));
  }
  std::string fault_of_zarr3(const std::string& members) const {
    fs::create_directories(path("b.zarr"));
    write_text(path("b.zarr/zarr.json"), fmt::format(R"({{"zarr_format": 3, "node_type": "array",
 "chunk_key_encoding": "default", "fill_value": 0, {}}})",
                                                     members));
    return first_sentence(diagnostic_of([&] { return open_array(path("b.zarr")); }));
  }
  static std::string first_sentence(const std::string& diagnostic) {
    const std::size_t begin = diagnostic.find("error: ");
    return begin == std::string::npos ? diagnostic
                                      : diagnostic.substr(begin + 7, diagnostic.find('\n', begin) - begin - 7);
  }
};

// --- Metadata.

TEST_F(Hostile, codecs_are_refused_with_what_is_wrong) {
  const auto compressed_by = [&](const std::string& compressor, const std::string& filters = "null") {
    return fault_of_zarr2(fmt::format(R"("shape": [8], "chunks": [4], "dtype": "<f4", "fill_value": 0,
 "filters": {}, "compressor": {})",
                                      filters, compressor));
  };
  EXPECT_EQ(compressed_by(R"({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 77})"), "blosc has no shuffle 77");
  EXPECT_EQ(compressed_by(R"({"id": "blosc", "cname": "lz4", "clevel": 4294967301, "shuffle": 1})"),
            "blosc has no level 1073741824: they are 0 to 9");
  EXPECT_EQ(compressed_by(R"({"id": "blosc", "cname": "lz5", "clevel": 5, "shuffle": 1})"),
            "blosc has no compressor 'lz5'");
  EXPECT_EQ(compressed_by(R"({"id": "blosc", "cname": "lz4", "blocksize": -1})"), "blosc has no blocks of -1 bytes");
  EXPECT_EQ(compressed_by(R"({"id": "zlib", "level": 10})"), "zlib has no level 10: they are -1 to 9");
  const std::string twice = R"([{"id": "shuffle", "elementsize": 4}, {"id": "shuffle", "elementsize": 2}])";
  EXPECT_EQ(compressed_by("null", twice), "a second shuffle is not supported");
  EXPECT_EQ(fault_of_zarr3(R"("shape": [8], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
 "data_type": "int32", "codecs": ["bytes", "crc32c", "zstd"])"),
            "a checksum before other codecs is not supported");
  EXPECT_EQ(first_sentence(diagnostic_of([] {
              return parse_codec({"argument --codec", "gzip:42"});
            })),
            "gzip has no level 42: they are -1 to 9");
}

TEST_F(Hostile, sizes_that_nothing_holds_are_refused) {
  const auto array_of = [&](const std::string& type, const std::string& shape, const std::string& chunk,
                            const std::string& codecs) {
    return fault_of_zarr3(fmt::format(R"("shape": [{}], "data_type": {}, "codecs": [{}],
 "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{}]}}}})",
                                      shape, type, codecs, chunk));
  };
  EXPECT_EQ(array_of(R"({"name": "null_terminated_bytes", "configuration": {"length_bytes": 20000000000}})", "8", "4",
                     R"("bytes")"),
            "elements of more than 524288 bytes are not supported");
  EXPECT_EQ(array_of(R"("int8")", "8", "4611686018427387904", R"({"name": "sharding_indexed", "configuration":
 {"chunk_shape": [1], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}})"),
            "the index of a shard does not fit in 63 bits");
  EXPECT_EQ(array_of(R"("int8")", "8", "2147483647", R"("bytes", "blosc")"),
            "chunks of 2147483647 bytes are more than blosc encodes");
  EXPECT_EQ(array_of(R"("int8")", "8", "9223372036854775807", R"("bytes")"), "no error");
  EXPECT_EQ(array_of(R"("int16")", "8", "9223372036854775807", R"("bytes")"),
            "the array's bytes do not fit in 63 bits");
  // Every element is half a page of text: ranges that are read hold whole ones.
  EXPECT_EQ(fault_of_zarr2(R"("shape": [8], "chunks": [4], "dtype": "<U500000", "fill_value": "", "filters": null,
 "compressor": null)"),
            "elements of this type are not known");
  EXPECT_EQ(array_of(R"("int8")", "1000000000000", "1000000", R"("bytes")"), "no error");
  EXPECT_EQ(diagnostic_of([&] { return prepare_rechunk(request("b.zarr", "c.zarr", "1")); }),
            "error: dimension 0 would have more than 67,108,864 chunks\nhint: larger chunks are fewer\n");
}

TEST_F(Hostile, large_chunks_are_refused_by_codecs_that_count_in_32_bits) {
  EXPECT_EQ(fault_of_zarr2(R"("shape": [5000000000], "chunks": [1000], "dtype": "|u1", "fill_value": 0, "filters": null,
 "compressor": {"id": "zlib", "level": 1})"),
            "no error");
  EXPECT_EQ(diagnostic_of([&] { return prepare_rechunk(request("a.zarr", "c.zarr", "4294967396")); }),
            "error: zlib encodes chunks of at most 2,147,483,631 bytes\n"
            "hint: smaller chunks fit, and --codec none has no such limit\n");
}

TEST_F(Hostile, attributes_that_are_no_object_are_refused) {
  EXPECT_EQ(fault_of_zarr3(R"("shape": [8], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
 "data_type": "int32", "codecs": ["bytes"], "attributes": [1])"),
            "\"attributes\" must be an object, not an array");
}

// No damaged byte of a store's metadata leads to a crash, an endless loop or a message that speaks of a bug.
TEST_F(Hostile, every_damaged_byte_of_metadata_is_answered) {
  const auto try_damaged = [&](const std::string& file, const auto& action) {
    const std::string text = read_bytes(file);
    for (std::size_t i = 0; i < text.size(); ++i) {
      for (const char damage : {'\xff', '"', '9'}) {
        std::string damaged = text;
        damaged[i] = damage;
        write_text(file, damaged);
        try {
          action();
        } catch (const InputError&) {
        } catch (const RuntimeError&) {
        }
      }
    }
    write_text(file, text);
  };
  write_zarr3(path("a.zarr"), {{6, 5}, {4, 3}});
  test::write_zarr2(path("b.zarr"), {{6, 5}, {4, 3}}, 'F');
  rechunk("a.zarr", "c.npy", "1,1");
  const auto prepared = [&](const std::string& source) {
    return [this, source] { (void)prepare_rechunk(request(source, "never.zarr", "2,5")); };
  };
  try_damaged(path("a.zarr/zarr.json"), prepared("a.zarr"));
  try_damaged(path("b.zarr/.zarray"), prepared("b.zarr"));
  try_damaged(path("b.zarr/.zattrs"), prepared("b.zarr"));
  try_damaged(path("c.npy"), prepared("c.npy"));
  std::map<std::string, Tensor> tensors{{"w", {"U8", 1, {4}, 0, 0}}};
  write_text(path("w.safetensors"), safetensors_header(tensors, R"({"format": "pt"})") + "abcd");
  const ReshardRequest model = reshard_request("w.safetensors", "never");
  try_damaged(path("w.safetensors"), [&] { (void)prepare_reshard(model); });
}

// --- Chunks.

// The first bytes of encoded chunks, where headers are, and some of the others, or all of them in a sweep: what is
// decoded is right, or refused.
TEST_F(Hostile, every_damaged_byte_of_chunks_is_answered) {
  for (const char* codec : {"blosc", "blosc:zstd:1", "zstd", "gzip"}) {
    fs::remove_all(path("a.zarr"));
    write_zarr3(path("plain.zarr"), {{16, 16}, {16, 16}});
    RechunkRequest there = request("plain.zarr", "a.zarr", "16,16");
    there.codecs = parse_codec({"argument --codec", codec});
    run_rechunk(prepare_rechunk(there), {});
    const std::string file = path("a.zarr/c/0/0");
    const std::string bytes = read_bytes(file);
    for (std::size_t i = 0; i < bytes.size(); i += i < 64 || test::is_sweep() ? 1U : 13U) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x5A);
      write_text(file, damaged);
      RechunkRequest back = request("a.zarr", "b.zarr", "4,16");
      back.threads = 1;
      (void)error_of([&] { run_rechunk(prepare_rechunk(back), {Existing::overwrite}); });
    }
  }
}

// Blocks are read by themselves: what their header says of others does not lead beyond them.
TEST_F(Hostile, every_damaged_byte_of_blocks_is_answered) {
  write_zarr3(path("plain.zarr"), {{6000, 50}, {6000, 50}});
  RechunkRequest there = request("plain.zarr", "a.zarr", "6000,50");
  Codec blosc{CodecKind::blosc, 5, 0, "lz4", 1};
  blosc.block = 1 << 16;
  there.codecs = std::vector{blosc};
  run_rechunk(prepare_rechunk(there), {});
  const auto unit = block_unit(open_array(path("a.zarr")));
  ASSERT_TRUE(unit.has_value());
  const ChunkSource source{open_array(path("a.zarr")), nullptr, *unit};
  const std::string file = path("a.zarr/c/0/0");
  const std::string bytes = read_bytes(file);
  for (std::size_t i = 0; i < bytes.size(); i += i < 200 ? 1 : 97) {  // the header, the starts of blocks, and some
    for (const char change : {'\x5A', '\x80', '\x01'}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      write_text(file, damaged);
      (void)error_of([&] { ChunkReader(source).read_unit(box_at({0, 0}, source.unit)); });
    }
  }
}

TEST_F(Hostile, pipes_and_folders_are_no_chunks) {
  write_zarr3(path("a.zarr"), {{8, 8}, {8, 8}}, {"c/0/0"});
  fs::create_directories(path("a.zarr/c/0"));
  ASSERT_EQ(mkfifo(path("a.zarr/c/0/0").c_str(), 0666), 0);
  EXPECT_EQ(error_of([&] { rechunk("a.zarr", "b.zarr", "4,4"); }),
            "cannot read '" + path("a.zarr/c/0/0") + "': it is no file");
  fs::create_directories(path("c.zarr/zarr.json"));
  EXPECT_EQ(diagnostic_of([&] { return prepare_rechunk(request("c.zarr", "d.zarr", "4,4")); }),
            "error: cannot read '" + path("c.zarr/zarr.json") + "': it is no file\n");
}

// --- Links and names.

TEST_F(Hostile, links_that_lead_round_are_refused) {
  fs::create_directories(path("g.zarr"));
  write_text(path("g.zarr/.zgroup"), "{\"zarr_format\": 2}");
  test::write_zarr2(path("g.zarr/a"), {{9, 10}, {4, 3}});
  fs::create_directory_symlink(".", path("g.zarr/loop"));
  EXPECT_EQ(diagnostic_of([&] { return prepare_rechunk(request("g.zarr", "h.zarr", "2,2")); }),
            "error: '" + path("g.zarr/loop") + "' leads back to a folder around it\n");
  fs::create_symlink("two", path("one"));
  fs::create_symlink("one", path("two"));
  EXPECT_EQ(error_of([&] { prepare_rechunk(request("one", "h.zarr", "2,2")); }),
            "cannot read '" + path("one") + "': Too many levels of symbolic links");
}

TEST_F(Hostile, names_may_be_no_utf8) {
  write_zarr3(path("a\xff.zarr"), {{8, 8}, {8, 8}});
  rechunk("a\xff.zarr", "b\xfe.zarr", "4,4");
  EXPECT_TRUE(fs::exists(path("b\xfe.zarr/c/1/1")));
  EXPECT_NE(to_json(prepare_rechunk(request("a\xff.zarr", "c.zarr", "4,4"))).find("\"source\""), std::string::npos);
}

// --- Other people's files.

TEST_F(Hostile, a_folder_with_the_unfinished_name_is_not_removed) {
  write_zarr3(path("a.zarr"), {{8, 8}, {8, 8}});
  fs::create_directories(path("b.zarr.unfinished"));
  write_text(path("b.zarr.unfinished/notes"), "precious");
  const RechunkJob job = prepare_rechunk(request("a.zarr", "b.zarr", "4,4"));
  EXPECT_EQ(diagnostic_of([&] { return run_rechunk(job, {Existing::overwrite}); }),
            "error: '" + path("b.zarr.unfinished") + "' is no unfinished store: it is not replaced\n");
  EXPECT_EQ(read_bytes(path("b.zarr.unfinished/notes")), "precious");
}

TEST_F(Hostile, a_folder_called_old_is_left_alone) {
  write_zarr3(path("a.zarr"), {{8, 8}, {8, 8}});
  rechunk("a.zarr", "b.zarr", "4,4");
  fs::create_directories(path("b.zarr.old"));
  write_text(path("b.zarr.old/notes"), "precious");
  run_rechunk(prepare_rechunk(request("a.zarr", "b.zarr", "2,8")), {Existing::overwrite});
  EXPECT_EQ(open_array(path("b.zarr")).chunk, (Shape{2, 8}));
  EXPECT_EQ(read_bytes(path("b.zarr.old/notes")), "precious");
  EXPECT_FALSE(fs::exists(path("b.zarr.unfinished")));
  EXPECT_FALSE(fs::exists(path("b.zarr/.retile-rechunk")));
}

class HostileModel : public Hostile {
 protected:
  HostileModel() {
    std::map<std::string, Tensor> tensors{{"w", {"U8", 1, {4}, 0, 0}}};
    bytes_ = safetensors_header(tensors, "") + "abcd";
    write_text(path("w.safetensors"), bytes_);
  }

  ReshardRequest model(const std::string& source, const std::string& target) const {
    return reshard_request(source, target, R"({"name": "w", "mesh": {"x": 2}, "layout": "[2{x}4]"})");
  }

  std::string bytes_;
};

TEST_F(HostileModel, that_lies_in_its_target_is_not_removed) {
  fs::create_directories(path("m"));
  write_text(path("m/model.safetensors"), bytes_);
  EXPECT_EQ(diagnostic_of([&] { return prepare_reshard(model("m/model.safetensors", "m")); }),
            "error: '" + path("m/model.safetensors") + "' is inside '" + path("m") + "', which would be replaced\n");
}

TEST_F(HostileModel, leaves_other_files_alone) {
  fs::create_directories(path("m.unfinished"));
  write_text(path("m.unfinished/notes"), "precious");
  const ReshardJob job = prepare_reshard(model("w.safetensors", "m"));
  EXPECT_EQ(diagnostic_of([&] { return run_reshard(job, {}); }),
            "error: '" + path("m.unfinished") + "' holds more than files of safetensors: it is not replaced\n");
  EXPECT_EQ(read_bytes(path("m.unfinished/notes")), "precious");
}

TEST_F(HostileModel, may_have_a_target_that_ends_with_a_slash) {
  run_reshard(prepare_reshard(model("w.safetensors", "m/")), {false, true, {}});
  EXPECT_TRUE(fs::exists(path("m/rank-00001.safetensors")));
}

TEST_F(HostileModel, leaves_nothing_behind_where_it_fails) {
  const ReshardJob job = prepare_reshard(model("w.safetensors", "m"));
  write_text(path("w.safetensors"), bytes_.substr(0, bytes_.size() - 2));
  EXPECT_NE(error_of([&] { run_reshard(job, {}); }), "");
  EXPECT_FALSE(fs::exists(path("m")));
  EXPECT_FALSE(fs::exists(path("m.unfinished")));
}

TEST_F(HostileModel, has_an_index_that_leads_where_it_says) {
  fs::create_directories(path("i"));
  write_text(path("i/a.safetensors"), bytes_);
  const auto with_index = [&](const std::string& weights) {
    write_text(path("i/model.safetensors.index.json"), "{\"weight_map\": " + weights + "}");
    return first_sentence(diagnostic_of([&] { return prepare_reshard(model("i", "m")); }));
  };
  EXPECT_EQ(with_index(R"({"w": "a.safetensors"})"), "no error");
  EXPECT_EQ(with_index(R"({"w": "a.safetensors", "v": "a.safetensors"})"), "'v' is not in this file");
  EXPECT_EQ(with_index(R"({"w": "../w.safetensors"})"), "this file is not in the index's folder");
  EXPECT_EQ(with_index(R"({"w": "x/../../w.safetensors"})"), "this file is not in the index's folder");
  EXPECT_EQ(with_index("{\"w\": \"" + path("w.safetensors") + "\"}"), "this file is not in the index's folder");
}

}  // namespace
}  // namespace retile::files
