#include "retile/files/rechunk.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/files/chunk_reader.h"
#include "retile/files/codec_option.h"
#include "retile/files/file.h"
#include "retile/types/npy_header.h"
#include "tests/files/folder_test.h"
#include "tests/files/zarr_writer.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/error_of.h"

namespace retile::files {
namespace {

namespace fs = std::filesystem;
using test::chunk_bytes;
using test::CountedArray;
using test::diagnostic_of;
using test::error_of;
using test::read_bytes;
using test::write_zarr2;
using test::write_zarr3;

class Rechunk : public test::RechunkTest {
 protected:
  // All chunks of a target without compression are those of the array.
  void expect_chunks(const std::string& store, const CountedArray& array) const {
    for (std::int64_t i = 0; i < divide_up(array.shape[0], array.chunk[0]); ++i) {
      for (std::int64_t j = 0; j < divide_up(array.shape[1], array.chunk[1]); ++j) {
        const std::string key = "/c/" + std::to_string(i) + "/" + std::to_string(j);
        EXPECT_TRUE(read_bytes(path(store) + key) == chunk_bytes(array, {i, j})) << key;
      }
    }
  }
};

TEST_F(Rechunk, writes_every_chunk) {
  write_zarr3(path("a.zarr"), {{50, 37}, {7, 11}});
  const RechunkJob job = prepare_rechunk(request("a.zarr", "b.zarr", "13,5"));
  const RechunkReport report = run_rechunk(job, {Existing::refuse, true});
  expect_chunks("b.zarr", {{50, 37}, {13, 5}});
  EXPECT_EQ(report.read_bytes, job.read_bytes());
  EXPECT_EQ(report.written_bytes, job.arrays[0].plan->written_bytes());
  EXPECT_TRUE(report.verified);
  EXPECT_FALSE(fs::exists(path("b.zarr.unfinished")));
  const StoredArray written = open_array(path("b.zarr"));
  EXPECT_EQ(written.dimension_names, (std::vector<std::string>{"y", "x"}));
  EXPECT_NE(written.metadata.find("\"unit\": \"m\""), std::string::npos);
}

// Random problems, with caps down to the smallest that works, on one and two threads.
TEST_F(Rechunk, moves_random_arrays_within_random_caps) {
  std::mt19937 random(1);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 150; ++i) {
    const CountedArray source{{draw(1, 40), draw(1, 40)}, {draw(1, 40), draw(1, 40)}};
    CountedArray target{source.shape, {draw(1, source.shape[0]), draw(1, source.shape[1])}};
    fs::remove_all(path("a"));
    fs::remove_all(path("b"));
    write_zarr3(path("a"), source);
    RechunkRequest one = request("a", "b", std::to_string(target.chunk[0]) + "," + std::to_string(target.chunk[1]));
    one.threads = static_cast<int>(draw(1, 3));
    one.costs.request_seconds = draw(0, 1) == 0 ? 1e-12 : 1e-5;
    RechunkJob job = prepare_rechunk(one);
    const PassProblem problem = job.arrays[0].plan->passes[0].problem;
    const std::int64_t least = job.arrays[0].plan->bounds.least_memory_bytes;
    const RechunkOptions options{least + draw(0, 1) * draw(0, 10000), one.threads, one.costs};
    job.arrays[0].plan = plan_rechunk(problem, options);
    ASSERT_LE(job.arrays[0].plan->memory_bytes(), options.max_bytes);
    job.request.max_bytes = job.program_bytes + options.max_bytes;
    run_rechunk(job, {Existing::refuse, true});
    expect_chunks("b", target);
    ASSERT_FALSE(HasFailure()) << i;
  }
}

TEST_F(Rechunk, goes_through_an_intermediate_array) {
  const CountedArray array{{400, 300}, {400, 3}};
  write_zarr3(path("a.zarr"), array);
  RechunkJob job = prepare_rechunk(request("a.zarr", "b.zarr", "2,300"));
  PassProblem first = job.arrays[0].plan->passes[0].problem;
  first.target = {{100, 30}, 0};
  PassProblem second = job.arrays[0].plan->passes[0].problem;
  second.source = {{100, 30}, {100, 30}, {0, 1}, true, 12000};
  job.arrays[0].plan->passes = {*plan_pass(first, {1 << 22, 2}), *plan_pass(second, {1 << 22, 2})};
  run_rechunk(job, {Existing::refuse, true});
  expect_chunks("b.zarr", {{400, 300}, {2, 300}});
}

TEST_F(Rechunk, goes_through_several_intermediate_arrays) {
  write_zarr3(path("a.zarr"), {{400, 300}, {400, 3}}, {"c/0/7"});
  RechunkJob job = prepare_rechunk(request("a.zarr", "b.zarr", "2,300"));
  const PassProblem whole = job.arrays[0].plan->passes[0].problem;
  const std::vector<Shape> stops{{200, 10}, {100, 30}, {7, 100}};
  std::vector<PassPlan> passes;
  for (std::size_t i = 0; i <= stops.size(); ++i) {
    PassProblem leg = whole;
    if (i > 0) leg.source = {stops[i - 1], stops[i - 1], {0, 1}, true, 12000};
    if (i < stops.size()) leg.target = {stops[i], 0};
    passes.push_back(*plan_pass(leg, {1 << 22, 2}));
  }
  job.arrays[0].plan->passes = passes;
  const RechunkReport report = run_rechunk(job, {Existing::refuse, true});
  EXPECT_EQ(report.read_bytes, job.read_bytes());
  run_rechunk(prepare_rechunk(request("a.zarr", "c.zarr", "2,300")), {});
  for (int i = 0; i < 200; ++i) {
    const std::string key = "/c/" + std::to_string(i) + "/0";
    EXPECT_TRUE(read_bytes(path("b.zarr") + key) == read_bytes(path("c.zarr") + key)) << key;
  }
}

TEST_F(Rechunk, keeps_chunks_missing_that_are) {
  write_zarr3(path("a.zarr"), {{8, 8}, {2, 4}}, {"c/0/0", "c/1/0", "c/2/1"});
  run_rechunk(prepare_rechunk(request("a.zarr", "b.zarr", "4,4")), {Existing::refuse, true});
  EXPECT_FALSE(fs::exists(path("b.zarr/c/0/0")));  // nothing but fill values
  std::string expected = chunk_bytes({{8, 8}, {4, 4}}, {1, 1});
  for (int i = 0; i < 8; ++i) {
    const std::int32_t fill = -7;
    expected.replace(static_cast<std::size_t>(i) * 4, 4, reinterpret_cast<const char*>(&fill), 4);
  }
  EXPECT_TRUE(read_bytes(path("b.zarr/c/1/1")) == expected);
}

TEST_F(Rechunk, reads_column_major_chunks_and_writes_npy) {
  write_zarr2(path("a.zarr"), {{9, 10}, {4, 3}}, 'F');
  run_rechunk(prepare_rechunk(request("a.zarr", "b.npy", "1,1")), {Existing::refuse, true});
  const std::string npy = read_bytes(path("b.npy"));
  EXPECT_TRUE(npy.substr(npy.size() - 360) == chunk_bytes({{9, 10}, {9, 10}}, {0, 0}));
  run_rechunk(prepare_rechunk(request("b.npy", "c.zarr", "5,4")), {Existing::refuse, true});
  EXPECT_TRUE(read_bytes(path("c.zarr/c/0/1")) == chunk_bytes({{9, 10}, {5, 4}}, {0, 1}));
}

TEST_F(Rechunk, writes_shards_and_reads_them) {
  write_zarr3(path("a.zarr"), {{20, 18}, {6, 5}}, {"c/0/0"});
  RechunkRequest one = request("a.zarr", "b.zarr", "3,4");
  one.shards = parse_chunk_sizes({"argument --shards", "9,-1"});
  run_rechunk(prepare_rechunk(one), {Existing::refuse, true});
  const StoredArray sharded = open_array(path("b.zarr"));
  EXPECT_EQ(sharded.chunk, (Shape{3, 4}));
  EXPECT_EQ(sharded.shards->shape, (Shape{9, 20}));
  EXPECT_TRUE(fs::exists(path("b.zarr/c/2/0")));
  run_rechunk(prepare_rechunk(request("b.zarr", "c.zarr", "20,18")), {Existing::refuse, true});
  run_rechunk(prepare_rechunk(request("a.zarr", "d.zarr", "20,18")), {Existing::refuse, true});
  EXPECT_TRUE(read_bytes(path("c.zarr/c/0/0")) == read_bytes(path("d.zarr/c/0/0")));
}

TEST_F(Rechunk, encodes_and_decodes) {
  write_zarr3(path("a.zarr"), {{200, 300}, {200, 30}});
  for (const char* name : {"none", "zstd", "zstd:7", "blosc", "blosc:zstd:3", "gzip:1"}) {
    fs::remove_all(path("b.zarr"));
    fs::remove_all(path("c.zarr"));
    RechunkRequest there = request("a.zarr", "b.zarr", "150,70");
    there.codecs = parse_codec({"argument --codec", name});
    run_rechunk(prepare_rechunk(there), {Existing::refuse, true});
    RechunkRequest back = request("b.zarr", "c.zarr", "20,300");
    back.codecs = std::vector<Codec>();
    run_rechunk(prepare_rechunk(back), {Existing::refuse, true});
    expect_chunks("c.zarr", {{200, 300}, {20, 300}});
  }
  for (const char* name : {"lz4", "zlib"}) {
    fs::remove_all(path("b.zarr"));
    fs::remove_all(path("c.zarr"));
    RechunkRequest there = request("a.zarr", "b.zarr", "150,70");
    there.codecs = parse_codec({"argument --codec", name});
    there.format = Format::zarr2;
    run_rechunk(prepare_rechunk(there), {Existing::refuse, true});
    RechunkRequest back = request("b.zarr", "c.zarr", "20,300");
    back.codecs = std::vector<Codec>();
    back.format = Format::zarr3;
    run_rechunk(prepare_rechunk(back), {Existing::refuse, true});
    expect_chunks("c.zarr", {{200, 300}, {20, 300}});
  }
}

// Parts of chunks are decoded block by block.
TEST_F(Rechunk, reads_blocks_of_blosc) {
  const CountedArray array{{6000, 50}, {6000, 50}};
  write_zarr3(path("a.zarr"), array);
  RechunkRequest there = request("a.zarr", "b.zarr", "6000,50");
  Codec blosc{CodecKind::blosc, 5, 0, "lz4", 1};
  blosc.block = 1 << 16;
  there.codecs = std::vector{blosc};
  run_rechunk(prepare_rechunk(there), {Existing::refuse, true});
  RechunkRequest back = request("b.zarr", "c.zarr", "100,50");
  back.codecs = std::vector<Codec>();
  RechunkJob job = prepare_rechunk(back);
  PassProblem problem = job.arrays[0].plan->passes[0].problem;
  problem.source.unit = {300, 50};
  job.arrays[0].source_unit = problem.source.unit;
  const RechunkOptions options{problem.source.thread_bytes + 3 * 100 * 50 * 4, 1};
  job.arrays[0].plan->passes = {*plan_pass(problem, options)};
  EXPECT_EQ(job.arrays[0].plan->passes[0].read_bytes, 6000 * 50 * 4);
  run_rechunk(job, {Existing::refuse, true});
  expect_chunks("c.zarr", {{6000, 50}, {100, 50}});
}

// Texts and times have no names in Zarr v3, and are what .npy files and Zarr v2 have in common.
TEST_F(Rechunk, carries_texts_from_npy_to_zarr2_and_back) {
  const std::string data = std::string("one\0two\0foursix\0", 16);
  test::write_text(path("a.npy"), npy_header_text("|S4", {4}) + data);
  RechunkRequest there = request("a.npy", "b.zarr", "3");
  there.format = Format::zarr2;
  run_rechunk(prepare_rechunk(there), {Existing::refuse, true});
  EXPECT_EQ(read_bytes(path("b.zarr/0")), data.substr(0, 12));
  run_rechunk(prepare_rechunk(request("b.zarr", "c.npy", "1")), {Existing::refuse, true});
  EXPECT_EQ(read_bytes(path("c.npy")), read_bytes(path("a.npy")));
  EXPECT_EQ(diagnostic_of([&] { return prepare_rechunk(request("a.npy", "d.zarr", "3")); }),
            "error: " + path("a.npy") + ": Zarr v3 has no type 'S4'\n");
}

TEST_F(Rechunk, knows_the_order_of_bytes) {
  for (const bool is_big : {false, true}) {
    fs::create_directories(path("a.zarr"));
    test::write_text(path("a.zarr/zarr.json"),
                     std::string(R"({"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int32",
 "fill_value": 1, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
 "chunk_key_encoding": "default", "codecs": [{"name": "bytes", "configuration": {"endian": ")") +
                         (is_big ? "big" : "little") + "\"}}]}");
    const StoredArray array = open_array(path("a.zarr"));
    EXPECT_EQ(array.element.big_endian, is_big);
    EXPECT_EQ(array.fill->at(is_big ? 3 : 0), std::byte{1});
  }
}

TEST_F(Rechunk, has_no_chunks_that_are_larger_than_the_array) {
  write_zarr3(path("a.zarr"), {{8, 6}, {4, 4}});
  EXPECT_EQ(prepare_rechunk(request("a.zarr", "b.zarr", "100,3")).arrays[0].target.chunk, (Shape{8, 3}));
}

TEST_F(Rechunk, knows_the_fill_value_of_times) {
  fs::create_directories(path("a.zarr"));
  test::write_text(path("a.zarr/zarr.json"), R"({"zarr_format": 3, "node_type": "array", "shape": [4],
 "data_type": {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, "fill_value": "NaT",
 "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "chunk_key_encoding": "default",
 "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]})");
  const auto fill = open_array(path("a.zarr")).fill;
  ASSERT_TRUE(fill.has_value());
  EXPECT_EQ(*fill, (std::vector<std::byte>{{}, {}, {}, {}, {}, {}, {}, std::byte{0x80}}));
}

TEST_F(Rechunk, writes_npy_files_as_they_are) {
  write_zarr3(path("a.zarr"), {{8, 8}, {4, 4}});
  RechunkRequest one = request("a.zarr", "b.npy", "1,1");
  one.format = Format::zarr3;
  EXPECT_EQ(diagnostic_of([&] { return prepare_rechunk(one); }),
            "error: '" + path("b.npy") +
                "' is a .npy file, which has no format of Zarr, no codecs and no shards\n"
                "hint: a store has another ending\n");
}

// --- Memory beside chunks.

// A chunk of one byte has sixteen in the index, and all shards may be open at once.
TEST_F(Rechunk, counts_the_indices_of_shards) {
  fs::create_directories(path("a.zarr"));
  test::write_text(path("a.zarr/.zarray"), R"({"zarr_format": 2, "shape": [2097152], "chunks": [65536], "dtype": "|u1",
 "order": "C", "filters": null, "compressor": null, "fill_value": 0})");
  RechunkRequest one = request("a.zarr", "b.zarr", "1");
  one.format = Format::zarr3;
  one.shards = parse_chunk_sizes({"argument --shards", "1048576"});
  const RechunkJob job = prepare_rechunk(one);
  EXPECT_EQ(job.arrays[0].index_bytes, 2 * ((1 << 20) * 16 + 256));
  one.max_bytes = job.program_bytes + job.arrays[0].index_bytes;
  EXPECT_THROW(prepare_rechunk(one), MemoryLimitError);
  // Whoever reads byte ranges has the index, too.
  StoredArray sharded = job.arrays[0].target;
  EXPECT_EQ(range_reading_bytes(sharded), range_bytes + 3 * (1 << 20) * 16);
}

TEST_F(Rechunk, counts_what_zstd_takes) {
  constexpr std::int64_t mebibyte = 1 << 20;
  const auto encoding_bytes = [&](int level, const char* inner) {
    const Codec codec{*inner == '\0' ? CodecKind::zstd : CodecKind::blosc, level, 4, inner, 1};
    return CodecChain({codec}, 64 * mebibyte).encoding_bytes();
  };
  EXPECT_LT(encoding_bytes(3, ""), 2 * mebibyte);
  EXPECT_GT(encoding_bytes(9, ""), 12 * mebibyte);
  EXPECT_GT(encoding_bytes(22, ""), 600 * mebibyte);
  EXPECT_GT(encoding_bytes(9, "zstd"), 60 * mebibyte);  // the highest level inside, on blocks
}

// --- Groups.

TEST_F(Rechunk, carries_groups_over) {
  fs::create_directories(path("g.zarr/inner"));
  test::write_text(path("g.zarr/.zgroup"), "{\"zarr_format\": 2}");
  test::write_text(path("g.zarr/inner/.zgroup"), "{\"zarr_format\": 2}");
  test::write_text(path("g.zarr/.zattrs"), "{\"title\": \"t\"}");
  write_zarr2(path("g.zarr/a"), {{9, 10}, {4, 3}});
  write_zarr2(path("g.zarr/inner/b"), {{12, 10}, {4, 3}});
  test::write_text(
      path("g.zarr/.zmetadata"),
      R"({"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}, "a/.zattrs": {"_FillValue": NaN}, "a/.zarray": {"chunks": [4, 3]}}})");
  run_rechunk(prepare_rechunk(request("g.zarr", "h.zarr", "y=2")), {Existing::refuse, true});
  EXPECT_EQ(open_array(path("h.zarr/a")).chunk, (Shape{2, 3}));
  EXPECT_EQ(open_array(path("h.zarr/inner/b")).chunk, (Shape{2, 3}));
  EXPECT_EQ(read_bytes(path("h.zarr/.zattrs")), "{\"title\": \"t\"}");
  EXPECT_EQ(read_bytes(path("h.zarr/a/.zattrs")), read_bytes(path("g.zarr/a/.zattrs")));
  EXPECT_NE(read_bytes(path("h.zarr/.zmetadata")).find("\"_FillValue\": NaN"), std::string::npos);
  const std::string consolidated = read_bytes(path("h.zarr/.zmetadata"));
  EXPECT_NE(consolidated.find("\"chunks\": [\n        2,\n        3\n      ]"), std::string::npos) << consolidated;
  EXPECT_TRUE(is_group(path("h.zarr/inner")));
}

// --- What is there already.

TEST_F(Rechunk, goes_on_with_what_was_stopped) {
  const CountedArray array{{40, 40}, {10, 40}};
  write_zarr3(path("a.zarr"), array);
  const std::string damaged = path("a.zarr/c/3/0");
  const std::string bytes = read_bytes(damaged);
  test::write_text(damaged, bytes.substr(0, 100));
  RechunkRequest one = request("a.zarr", "b.zarr", "10,10");
  one.threads = 1;
  const RechunkJob job = prepare_rechunk(one);
  EXPECT_EQ(error_of([&] { run_rechunk(job, {}); }), "'" + damaged + "' is damaged: it has 100 bytes instead of 1600");
  EXPECT_FALSE(fs::exists(path("b.zarr")));
  EXPECT_EQ(diagnostic_of([&] { return run_rechunk(job, {}); }),
            "error: '" + path("b.zarr.unfinished") +
                "' is there: an earlier run did not finish\n"
                "hint: --resume goes on with it, --overwrite starts anew\n");
  test::write_text(damaged, bytes);
  const RechunkReport report = run_rechunk(job, {Existing::resume, true});
  EXPECT_LT(report.written_bytes, 40 * 40 * 4);
  EXPECT_GT(report.written_bytes, 0);
  expect_chunks("b.zarr", {{40, 40}, {10, 10}});
}

// A run may be stopped before it has said what it is for.
TEST_F(Rechunk, goes_on_with_what_has_hardly_begun) {
  write_zarr3(path("a.zarr"), {{40, 40}, {10, 40}});
  fs::create_directories(path("b.zarr.unfinished"));
  test::write_text(path("b.zarr.unfinished/.retile-17-0"), "{\"sour");
  run_rechunk(prepare_rechunk(request("a.zarr", "b.zarr", "10,10")), {Existing::resume, true});
  expect_chunks("b.zarr", {{40, 40}, {10, 10}});
  EXPECT_FALSE(fs::exists(path("b.zarr/.retile-17-0")));
}

TEST_F(Rechunk, goes_on_only_with_the_same) {
  write_zarr3(path("a.zarr"), {{40, 40}, {10, 40}});
  fs::create_directories(path("b.zarr.unfinished"));
  test::write_text(path("b.zarr.unfinished/.retile-rechunk"), "{}\n");
  const RechunkJob job = prepare_rechunk(request("a.zarr", "b.zarr", "10,10"));
  EXPECT_EQ(diagnostic_of([&] { return run_rechunk(job, {Existing::resume}); }),
            "error: '" + path("b.zarr.unfinished") +
                "' was made from another source, or with other options\n"
                "hint: --overwrite starts anew\n");
  run_rechunk(job, {Existing::overwrite});
  expect_chunks("b.zarr", {{40, 40}, {10, 10}});
}

TEST_F(Rechunk, replaces_a_target_only_when_told) {
  write_zarr3(path("a.zarr"), {{40, 40}, {10, 40}});
  run_rechunk(prepare_rechunk(request("a.zarr", "b.zarr", "10,10")), {});
  const RechunkJob job = prepare_rechunk(request("a.zarr", "b.zarr", "40,2"));
  EXPECT_EQ(diagnostic_of([&] { return run_rechunk(job, {}); }),
            "error: '" + path("b.zarr") + "' exists\nhint: --overwrite replaces it\n");
  expect_chunks("b.zarr", {{40, 40}, {10, 10}});
  run_rechunk(job, {Existing::overwrite});
  expect_chunks("b.zarr", {{40, 40}, {40, 2}});
  EXPECT_FALSE(fs::exists(path("b.zarr.old")));
}

TEST_F(Rechunk, replaces_nothing_but_stores) {
  write_zarr3(path("a.zarr"), {{4, 4}, {4, 4}});
  fs::create_directories(path("home/letters"));
  const RechunkJob job = prepare_rechunk(request("a.zarr", "home", "2,2"));
  EXPECT_EQ(diagnostic_of([&] { return run_rechunk(job, {Existing::overwrite}); }),
            "error: '" + path("home") + "' is no store of Zarr: it is not replaced\n");
  EXPECT_TRUE(fs::exists(path("home/letters")));
}

// --- Bad input.

TEST_F(Rechunk, refuses_what_it_does_not_know) {
  write_zarr3(path("a.zarr"), {{40, 40}, {10, 40}});
  const auto prepared = [&](const std::string& source, const std::string& chunks) {
    return diagnostic_of([&] { return prepare_rechunk(request(source, "b.zarr", chunks)); });
  };
  EXPECT_EQ(prepared("none.zarr", "1,1"), "error: cannot read '" + path("none.zarr") + "': it does not exist\n");
  fs::create_directories(path("empty.zarr"));
  EXPECT_EQ(prepared("empty.zarr", "1,1"), "error: '" + path("empty.zarr") +
                                               "' is no array: it has no .zarray and no zarr.json\n"
                                               "hint: a store of Zarr is a folder with one of them\n");
  EXPECT_EQ(prepared("a.zarr", "1,1,1"),
            "argument --chunks:1:1: error: 3 sizes for 2 dimensions\n    1 | 1,1,1\n      | ^~~~~\n"
            "hint: '" +
                path("a.zarr") + "' has shape (40, 40)\n");
  EXPECT_EQ(prepared("a.zarr", "y=1,z=1"), "argument --chunks:1:5: error: '" + path("a.zarr") +
                                               "' has no dimension 'z'\n    1 | y=1,z=1\n      |     ^~~\n"
                                               "hint: dimensions are y, x\n");
  EXPECT_EQ(
      prepared("a.zarr", "0,1"),
      "argument --chunks:1:1: error: '0' is no size of a chunk\n    1 | 0,1\n      | ^\n"
      "hint: write sizes by position (8760,10,10) or by dimension (time=8760,lat=10); -1 is the whole dimension\n");
  EXPECT_EQ(diagnostic_of([&] { return prepare_rechunk(request("a.zarr", "a.zarr", "1,1")); }),
            "error: source and target are the same: '" + path("a.zarr") + "'\n");
  std::string metadata = read_bytes(path("a.zarr/zarr.json"));
  test::write_text(path("a.zarr/zarr.json"), metadata.replace(metadata.find("\"bytes\""), 7, "\"zfpy!\""));
  const std::string unknown = prepared("a.zarr", "1,1");
  EXPECT_NE(unknown.find("zarr.json:4:"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("error: codec 'zfpy!' is not known\n"), std::string::npos) << unknown;
  EXPECT_FALSE(fs::exists(path("b.zarr")));
  EXPECT_FALSE(fs::exists(path("b.zarr.unfinished")));
}

TEST_F(Rechunk, refuses_a_small_cap_before_anything_is_written) {
  write_zarr3(path("a.zarr"), {{40, 40}, {10, 40}});
  RechunkRequest one = request("a.zarr", "b.zarr", "10,10");
  one.max_bytes = 1 << 20;
  EXPECT_THROW(prepare_rechunk(one), MemoryLimitError);
  EXPECT_FALSE(fs::exists(path("b.zarr.unfinished")));
}

TEST_F(Rechunk, never_touches_its_source) {
  write_zarr3(path("a.zarr"), {{40, 40}, {10, 40}});
  fs::permissions(path("a.zarr/zarr.json"), fs::perms::owner_read);
  const auto before = fs::last_write_time(path("a.zarr"));
  run_rechunk(prepare_rechunk(request("a.zarr", "b.zarr", "10,10")), {Existing::refuse, true});
  EXPECT_EQ(fs::last_write_time(path("a.zarr")), before);
}

}  // namespace
}  // namespace retile::files
