#include "retile/engines/reference/reference.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"
#include "tests/support/whole_arrays.h"

namespace retile {
namespace {

RunStatistics run_reference(const Plan& plan, Tiles& tiles, std::int64_t element_size) {
  return make_reference_engine()->prepare(plan.movement, element_size)->execute(tiles);
}

// Runs the plan on made-up data; what is wrong with the result, if anything.
std::optional<std::string> run_and_compare(const Plan& plan, std::int64_t element_size, std::uint64_t seed = 1) {
  const Tile array = make_array(plan.source.global_shape(), element_size, seed);
  Tiles tiles = slice_array(array, plan.movement.source, element_size);
  const RunStatistics statistics = run_reference(plan, tiles, element_size);
  if (statistics.peak_measured > statistics.peak_predicted) return "the peak is above the prediction";
  return find_difference(array, tiles, plan.target.placement(), element_size);
}

RunStatistics statistics_of(const Plan& plan, std::int64_t element_size) {
  const Tile array = make_array(plan.source.global_shape(), element_size, 1);
  Tiles tiles = slice_array(array, plan.movement.source, element_size);
  return run_reference(plan, tiles, element_size);
}

TEST(Reference, runs_every_sample_with_elements_of_any_size) {
  int covered = 0;
  for (const test::SamplePlan& sample : test::sample_plans()) {
    for (const std::int64_t element_size : {1, 2, 3, 4, 8, 16}) {
      EXPECT_EQ(run_and_compare(sample.plan, element_size), std::nullopt) << sample.name;
      ++covered;
    }
  }
  EXPECT_EQ(covered, 78);
}

int count_right_runs(const Mesh& mesh, const Shape& shape, std::int64_t element_size) {
  int covered = 0;
  const std::vector<DistributedType> types = test::all_types(mesh, shape);
  for (const DistributedType& source : types) {
    for (const DistributedType& target : types) {
      EXPECT_EQ(run_and_compare(test::gather_slice_plan(source, target), element_size), std::nullopt)
          << to_string(source) << " to " << to_string(target);
      ++covered;
    }
  }
  return covered;
}

TEST(Reference, runs_gather_slice_between_all_types_of_rank_up_to_two) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(8)) {
    for (int rank = 0; rank <= 2; ++rank) covered += count_right_runs(mesh, test::divisible_shape(mesh, rank), 3);
  }
  EXPECT_EQ(covered, 3505);
}

// Shapes of 1 and 2: tiles of one element.
TEST(Reference, runs_gather_slice_between_all_types_of_rank_three_and_four) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(4)) {
    for (const Shape& shape : {Shape{2, 1, 4}, Shape{2, 3, 4}, Shape{2, 2, 1, 2}, Shape{4, 1, 3, 2}}) {
      covered += count_right_runs(mesh, shape, 2);
    }
  }
  EXPECT_EQ(covered, 560);
}

TEST(Reference, exchanges_between_all_types) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(6)) {
    const std::vector<DistributedType> types = test::all_prime_types(mesh, test::divisible_shape(mesh, 2));
    for (const DistributedType& source : types) {
      for (const DistributedType& target : types) {
        const Plan plan =
            test::finish_plan(source, target, {test::exchange_step(Placement(source), Placement(target))});
        EXPECT_EQ(run_and_compare(plan, 4), std::nullopt) << to_string(source) << " to " << to_string(target);
        EXPECT_EQ(statistics_of(plan, 4).received_max, 4 * plan.cost.floor) << "an exchange reaches the floor";
        ++covered;
      }
    }
  }
  EXPECT_EQ(covered, 633);
}

RC_GTEST_PROP(Reference, runs_random_plans, ()) {
  for (int i = 0; i < 10; ++i) {
    const Plan plan = *test::arbitrary_plan();
    const std::int64_t element_size = *rc::gen::element(1, 2, 3, 4, 8, 16);
    RC_ASSERT(run_and_compare(plan, element_size, *rc::gen::arbitrary<std::uint64_t>()) == std::nullopt);
  }
}

// The volume model is what the engine measures, where one device receives most in every step.
RC_GTEST_PROP(Reference, receives_no_more_than_the_volume_model_says, ()) {
  for (int i = 0; i < 10; ++i) {
    const Plan plan = *test::arbitrary_plan();
    const std::int64_t volume = price(volume_model(), plan.movement).total;
    RC_ASSERT(statistics_of(plan, 4).received_max <= 4 * volume);
    RC_ASSERT(statistics_of(plan, 4).received_max >= 4 * plan.cost.floor);
    if (plan.steps().size() == 1) RC_ASSERT(statistics_of(plan, 4).received_max == 4 * volume);
  }
}

TEST(Reference, counts_received_bytes) {
  const auto samples = test::sample_plans();
  const auto received = [&](const char* name) {
    return statistics_of(test::sample_plan(samples, name), 4).received_max;
  };
  EXPECT_EQ(received("nothing"), 0);
  EXPECT_EQ(received("dynslice"), 0);
  EXPECT_EQ(received("allgather"), 4 * 4);        // a row of 4 from its neighbour
  EXPECT_EQ(received("wide allgather"), 12 * 4);  // all but its own quarter of 16
  EXPECT_EQ(received("alltoall"), 4 * 4);         // half of 8
  EXPECT_EQ(received("wide alltoall"), 12 * 4);   // three quarters of 16
  EXPECT_EQ(received("free alltoall"), 3 * 4);
  EXPECT_EQ(received("allpermute"), 8 * 4);
  EXPECT_EQ(received("exchange"), 4 * 4);
  EXPECT_EQ(received("exchange of a scalar"), 0);
}

TEST(Reference, predicts_and_measures_its_peak) {
  const auto samples = test::sample_plans();
  const auto expect_peaks = [&](const char* name, std::int64_t bytes) {
    const RunStatistics statistics = statistics_of(test::sample_plan(samples, name), 2);
    EXPECT_EQ(statistics.peak_predicted, bytes) << name;
    EXPECT_EQ(statistics.peak_measured, bytes) << name;
  };
  expect_peaks("nothing", 2 * 2);
  expect_peaks("dynslice", (16 + 8) * 2);
  expect_peaks("wide allgather", (4 + 16) * 2);
  expect_peaks("exchange of other sizes", (8 + 12) * 2);
}

// Its owner's tiles count, besides the copies of them.
TEST(Reference, copies_tiles_that_are_kept) {
  const auto samples = test::sample_plans();
  const Plan& plan = test::sample_plan(samples, "wide allgather");
  const Tiles sources = slice_array(make_array(plan.source.global_shape(), 2, 1), plan.movement.source, 2);
  const Tiles before = sources;
  Tiles targets;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (const Tile& tile : sources) {
    from.push_back(tile.bytes.data());
    targets.push_back(allocate_tile(plan.steps().back().after.box(static_cast<Device>(targets.size())), 2));
    to.push_back(targets.back().bytes.data());
  }
  const std::unique_ptr<PreparedRun> prepared = make_reference_engine()->prepare(plan.movement, 2);
  const RunStatistics statistics = prepared->execute(from, to);
  EXPECT_EQ(statistics.peak_predicted, 2 * (4 + 16) * 2);
  EXPECT_EQ(statistics.peak_measured, 2 * (4 + 16) * 2);
  EXPECT_EQ(find_difference(make_array({4, 4}, 2, 1), targets, plan.target.placement(), 2), std::nullopt);
  for (std::size_t i = 0; i < sources.size(); ++i) EXPECT_EQ(sources[i].bytes, before[i].bytes);
  from.pop_back();
  EXPECT_THROW(prepared->execute(from, to), RuntimeError);
}

TEST(Reference, predicts_no_peak_beyond63_bits) {
  const DistributedType type = parse_type("[4611686018427387904]", parse_mesh("a=2"));
  const Plan plan = test::finish_plan(type, type, {test::permute_step(Placement(type), Placement(type))});
  const std::unique_ptr<Engine> engine = make_reference_engine();
  EXPECT_EQ(engine->predict_peak_bytes(plan.movement, 1, TileUse::donated), INT64_MAX);
  EXPECT_EQ(engine->predict_peak_bytes(plan.movement, 1, TileUse::kept), INT64_MAX);
  try {
    engine->predict_peak_bytes(plan.movement, 4, TileUse::donated);
    FAIL();
  } catch (const RuntimeError& error) {
    EXPECT_STREQ(error.what(), "9223372036854775807 elements of 4 bytes do not fit in 63 bits");
  }
}

TEST(Reference, refuses_other_tiles_than_the_plan_starts_from) {
  const auto samples = test::sample_plans();
  const Plan& plan = test::sample_plan(samples, "alltoall");
  const Tiles right = slice_array(make_array({4, 4}, 2, 0), plan.movement.source, 2);
  const auto error_with = [&](Tiles tiles) -> std::string {
    try {
      run_reference(plan, tiles, 2);
    } catch (const RuntimeError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_with(right), "no error");
  EXPECT_EQ(error_with({}), "the run starts with 0 tiles for 4 devices");
  Tiles tiles = right;
  tiles[2].bytes = Buffer(15);
  EXPECT_EQ(error_with(tiles), "device 2 starts with [2:4, 0:4] in 15 bytes instead of [2:4, 0:4] in 16");
  std::swap(tiles[0].box, tiles[2].box);
  EXPECT_EQ(error_with(tiles), "device 0 starts with [2:4, 0:4] in 16 bytes instead of [0:2, 0:4] in 16");
}

// The engine has eyes of its own: a plan that is wrong gives data that differ.
TEST(Reference, shows_a_plan_that_is_wrong) {
  const auto samples = test::sample_plans();
  Plan plan = test::sample_plan(samples, "allpermute");
  std::get<PermuteStep>(plan.movement.steps[0].operation).pairs = {{{0, 0}, {1, 1}, {2, 2}, {3, 3}}};
  ASSERT_FALSE(find_faults(plan).empty());
  const std::optional<std::string> difference = run_and_compare(plan, 1);
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->substr(0, 38), "device 1, element [2, 0]: byte 0 is 0x");
}

}  // namespace
}  // namespace retile
