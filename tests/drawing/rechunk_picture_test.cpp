#include "retile/drawing/rechunk_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/diagnostic_of.h"

namespace retile::drawing {
namespace {

using test::diagnostic_of;
using ::testing::HasSubstr;
using ::testing::Not;

// Maps to series by way of an array between.
const std::string plan =
    R"({"format": 1, "source": "maps<1>.zarr", "target": "series.zarr", "formats": ["zarr3", "zarr3"], "dtype": "<f4", "shape": [100, 8, 60],)"
    R"( "source_chunks": [10, 8, 60], "target_chunks": [100, 8, 2], "passes": [)"
    R"({"reads": "units", "unit": [10, 8, 60], "swept": null, "region": [25, 8, 60], "regions": 4, "chunks": [25, 8, 6], "read_bytes": 192000, "written_bytes": 192000},)"
    R"({"reads": "ranges", "unit": [25, 8, 6], "swept": null, "region": [100, 8, 20], "regions": 3, "chunks": [100, 8, 2], "read_bytes": 192000, "written_bytes": 192000}],)"
    R"( "read_bytes": 384000, "least_read_bytes": 192000, "written_bytes": 384000, "least_written_bytes": 192000})";

TEST(RechunkPicture, has_the_array_before_between_and_after) {
  const SourceText line{"plan", plan};
  ASSERT_TRUE(is_rechunk_plan(line));
  const RechunkScene scene = make_rechunk_scene(line);
  ASSERT_EQ(scene.stages.size(), 3U);
  EXPECT_EQ(scene.dimensions, (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(scene.stages[0].chunk, (Shape{10, 8, 60}));
  EXPECT_TRUE(scene.stages[0].region.empty());
  EXPECT_EQ(scene.stages[0].read, (Shape{30, 8, 60}));  // three units of ten for a region of 25
  EXPECT_EQ(scene.stages[1].name, "between");
  EXPECT_EQ(scene.stages[1].region, (Shape{25, 8, 60}));
  EXPECT_EQ(scene.stages[1].read, (Shape{100, 8, 20}));  // byte ranges: no more than is wanted
  EXPECT_EQ(scene.stages[1].reading, "pass 2: 3 regions, in byte ranges; 192,000 bytes read, 192,000 written");
  EXPECT_EQ(scene.stages[2].chunk, (Shape{100, 8, 2}));
  EXPECT_TRUE(scene.stages[2].read.empty());
}

TEST(RechunkPicture, is_drawn_with_chunks_and_regions) {
  const std::string svg = to_svg(make_rechunk_scene({"plan", plan}));
  EXPECT_THAT(svg, HasSubstr("maps&lt;1&gt;.zarr"));
  EXPECT_THAT(svg, Not(HasSubstr("maps<1>")));
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (std::size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("fill=\"#"), 4 + 3);                                  // regions of both passes
  EXPECT_EQ(count("class=\"chunk\""), (10 + 1) + (4 + 10) + (1 + 30));  // ends of chunks along rows and columns
  EXPECT_EQ(count("class=\"read\""), 2);
  EXPECT_THAT(svg, HasSubstr("height=\"72\" class=\"read\""));  // 30 of 100 rows
  const std::string page = to_html({make_rechunk_scene({"plan", plan}), make_rechunk_scene({"plan", plan})});
  EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr(svg));
}

// An array of one dimension has one row, and of thousands of chunks some lines are drawn.
TEST(RechunkPicture, of_long_arrays_stays_small) {
  const std::string line =
      R"({"source": "a", "target": "b", "dtype": "<f4", "shape": [1000000], "source_chunks": [10], "target_chunks": [7], "passes": [)"
      R"({"reads": "units", "unit": [10], "region": [70], "regions": 14286, "chunks": [7], "read_bytes": 1, "written_bytes": 1}],)"
      R"( "read_bytes": 1, "least_read_bytes": 1, "written_bytes": 1, "least_written_bytes": 1})";
  const std::string svg = to_svg(make_rechunk_scene({"plan", line}));
  EXPECT_LT(svg.size(), 30000U);
  EXPECT_THAT(svg, HasSubstr("drawn: columns of dimension 0;"));
}

TEST(RechunkPicture, is_as_wide_as_its_longest_line) {
  const RechunkScene scene = make_rechunk_scene({"plan", plan});
  RechunkScene wordy = scene;
  wordy.summary = std::string(200, 'x');
  EXPECT_THAT(to_svg(scene), HasSubstr("viewBox=\"0 0 852 "));
  EXPECT_THAT(to_svg(wordy), HasSubstr("viewBox=\"0 0 1440 "));
}

TEST(RechunkPicture, of_other_lines_is_refused) {
  EXPECT_FALSE(is_rechunk_plan({"plan", R"({"mesh": {"x": 2}})"}));
  EXPECT_FALSE(is_rechunk_plan({"plan", "[1]"}));
  const SourceText empty{"plan", R"({"source_chunks": [1], "shape": [0]})"};
  EXPECT_THAT(diagnostic_of([&] { return make_rechunk_scene(empty); }),
              HasSubstr("there is nothing to draw: the array has no elements"));
  std::string wrong = plan;
  wrong.replace(wrong.find("[25, 8, 60]"), 11, "[25, 8]");
  EXPECT_THAT(diagnostic_of([&] {
                return make_rechunk_scene({"plan", wrong});
              }),
              HasSubstr("2 sizes for an array of rank 3"));
}

}  // namespace
}  // namespace retile::drawing
