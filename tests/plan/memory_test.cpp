#include "retile/plan/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/base/error.h"
#include "retile/types/text.h"
#include "tests/support/plans.h"
#include "tests/support/problems.h"

namespace retile {
namespace {

using ::testing::ElementsAre;
using Between = EngineMemory::Between;
using Place = KeptPlaces::Place;

// Elements by stop and device.
StageSizes sizes_by_device(const std::vector<Shape>& sizes) {
  std::vector<Placement> placements;
  for (const Shape& held : sizes) {
    std::vector<std::vector<Part>> parts;
    for (const std::int64_t size : held) parts.push_back({packed_part({{0}, {size}})});
    placements.emplace_back(Shape{100}, std::move(parts));
  }
  std::vector<const Placement*> stops;
  for (const Placement& placement : placements) stops.push_back(&placement);
  return StageSizes(stops);
}

// By stop, of one device.
StageSizes sizes_of(const Shape& sizes) {
  std::vector<Shape> stops;
  for (const std::int64_t size : sizes) stops.push_back({size});
  return sizes_by_device(stops);
}

std::vector<std::int64_t> scratch_of(const KeptPlaces& places, const StageSizes& sizes, Device device = 0) {
  return {places.scratch(Place::even_scratch, sizes, device), places.scratch(Place::odd_scratch, sizes, device)};
}

TEST(KeptPlaces, of_one_stage_need_no_scratch) {
  const StageSizes sizes = sizes_of({10, 20});
  const KeptPlaces places = kept_places(sizes, TileUse::kept, Between::in_target);
  EXPECT_THAT(places.places, ElementsAre(Place::owner, Place::target));
  EXPECT_THAT(scratch_of(places, sizes), ElementsAre(0, 0));
}

TEST(KeptPlaces, of_nothing_are_the_owners) {
  EXPECT_THAT(kept_places(sizes_of({10}), TileUse::kept, Between::in_target).places, ElementsAre(Place::owner));
}

TEST(KeptPlaces, alternate_between_target_and_scratch) {
  const StageSizes sizes = sizes_of({10, 4, 5, 6, 7});
  const KeptPlaces places = kept_places(sizes, TileUse::kept, Between::in_target);
  EXPECT_THAT(places.places,
              ElementsAre(Place::owner, Place::odd_scratch, Place::target, Place::odd_scratch, Place::target));
  EXPECT_THAT(scratch_of(places, sizes), ElementsAre(0, 6));
}

TEST(KeptPlaces, leave_the_target_where_tiles_are_too_large_for_it) {
  const KeptPlaces places = kept_places(sizes_of({10, 8, 4, 3, 7}), TileUse::kept, Between::in_target);
  EXPECT_THAT(places.places,
              ElementsAre(Place::owner, Place::odd_scratch, Place::target, Place::odd_scratch, Place::target));
  const StageSizes sizes = sizes_of({10, 4, 8, 3, 7});
  const KeptPlaces large = kept_places(sizes, TileUse::kept, Between::in_target);
  EXPECT_THAT(large.places,
              ElementsAre(Place::owner, Place::odd_scratch, Place::even_scratch, Place::odd_scratch, Place::target));
  EXPECT_THAT(scratch_of(large, sizes), ElementsAre(8, 4));
}

TEST(KeptPlaces, leave_the_target_on_all_devices_where_some_lack_room) {
  const StageSizes sizes = sizes_by_device({{10, 10}, {4, 2}, {5, 6}, {3, 8}, {7, 5}});
  const KeptPlaces places = kept_places(sizes, TileUse::kept, Between::in_target);
  EXPECT_THAT(places.places,
              ElementsAre(Place::owner, Place::odd_scratch, Place::even_scratch, Place::odd_scratch, Place::target));
  EXPECT_THAT(scratch_of(places, sizes, 0), ElementsAre(5, 4));
  EXPECT_THAT(scratch_of(places, sizes, 1), ElementsAre(6, 8));
}

TEST(KeptPlaces, never_share_a_target_that_is_strided_or_not_seen_by_others) {
  const StageSizes sizes = sizes_of({10, 4, 5, 6, 7});
  for (const KeptPlaces& places : {kept_places(sizes, TileUse::kept_strided, Between::in_target),
                                   kept_places(sizes, TileUse::kept, Between::in_scratch)}) {
    EXPECT_THAT(places.places,
                ElementsAre(Place::owner, Place::odd_scratch, Place::even_scratch, Place::odd_scratch, Place::target));
    EXPECT_THAT(scratch_of(places, sizes), ElementsAre(5, 6));
  }
}

Movement movement_for(const Problem& problem) { return make_plan(problem, test::paper_planning().options).movement; }

TEST(StageSizes, leave_out_slices) {
  const Problem problem = test::problem_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]");
  EXPECT_THAT(stage_sizes(movement_for(problem)).of(0), ElementsAre(256, 64, 64, 256));
  EXPECT_EQ(predict_peak_bytes(movement_for(problem), 4, TileUse::donated), 320 * 4);
  EXPECT_EQ(predict_peak_bytes(movement_for(problem), 4, TileUse::kept), (256 + 256 + 64) * 4);
}

TEST(StageSizes, end_with_the_slice_that_a_plan_ends_with) {
  const Problem problem = test::problem_of("a=2", "[8]", "[4{a}8]");
  EXPECT_THAT(stage_sizes(movement_for(problem)).of(0), ElementsAre(8, 4));
  EXPECT_EQ(predict_peak_bytes(movement_for(problem), 1, TileUse::donated), 12);
  EXPECT_EQ(predict_peak_bytes(movement_for(problem), 1, TileUse::kept), 12);
}

TEST(StageSizes, of_nothing) {
  const Problem problem = test::problem_of("a=2", "[8]", "[8]");
  EXPECT_THAT(stage_sizes(movement_for(problem)).of(0), ElementsAre(8));
  EXPECT_EQ(predict_peak_bytes(movement_for(problem), 1, TileUse::donated), 8);
  EXPECT_EQ(predict_peak_bytes(movement_for(problem), 1, TileUse::kept), 16);
}

TEST(StageSizes, tell_devices_apart_that_hold_more_than_others) {
  const Movement movement = movement_for(test::problem_of("a=2", "[3{a}5, 3]", "[5, 2{a}3]"));
  const StageSizes sizes = stage_sizes(movement);
  EXPECT_EQ(sizes.distinct_devices(), 2);
  EXPECT_THAT(sizes.of(0), ElementsAre(9, 10));
  EXPECT_THAT(sizes.of(1), ElementsAre(6, 5));
  EXPECT_EQ(predict_peak_bytes(movement, 1, TileUse::kept), 19);
}

TEST(PredictPeakBytes, is_of_the_device_that_holds_the_most_at_once) {
  // One holds all of it before, the other after: neither as much as both.
  const Mesh one({{"a", 1}});
  const Problem problem("", parse_layout("[8] on [0]", one), parse_layout("[8] on [1]", one));
  EXPECT_EQ(predict_peak_bytes(movement_for(problem), 1, TileUse::kept), 8);
}

TEST(StageSizes, beyond_sixty_three_bits_are_refused) {
  const Problem problem = test::problem_of("a=2", "[4611686018427387904]", "[4611686018427387904]");
  EXPECT_EQ(predict_peak_bytes(movement_for(problem), 1, TileUse::kept), INT64_MAX);
  EXPECT_THROW((void)predict_peak_bytes(movement_for(problem), 2, TileUse::kept), RuntimeError);
}

TEST(PredictPeakBytes, counts_what_an_engine_adds) {
  const Movement movement = movement_for(test::problem_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]"));
  // 256 and 64 after a slice, 64 after each alltoall, 256 at the end.
  EXPECT_EQ(predict_peak_bytes(movement, 1, TileUse::kept, {Between::in_scratch, 0}), 256 + 256 + 64 + 64);
  EXPECT_EQ(predict_peak_bytes(movement, 1, TileUse::kept, {Between::in_scratch, 100}), 256 + 256 + 64 + 64 + 100);
  EXPECT_EQ(predict_peak_bytes(movement, 1, TileUse::kept, {Between::every_step, 0}), 256 + 256 + 256 + 64);
  EXPECT_EQ(predict_peak_bytes(movement, 1, TileUse::donated, {Between::every_step, 0}), 256 + 64);
}

}  // namespace
}  // namespace retile
