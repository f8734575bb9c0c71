#include "retile/checking/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/base/error.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/types/text.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

TEST(RunPlan, reports_what_happened) {
  const auto samples = test::sample_plans();
  RunOptions options;
  options.element_size = 8;
  options.repetitions = 3;
  const RunReport report = run_plan(test::sample_plan(samples, "wide allgather"), *make_threads_engine(), options);
  EXPECT_EQ(report.id, "test");
  EXPECT_EQ(report.engine, "threads");
  EXPECT_EQ(report.devices, 4);
  EXPECT_EQ(report.difference, std::nullopt);
  EXPECT_EQ(report.seconds.size(), 3U);
  EXPECT_THAT(report.seconds, ::testing::Each(::testing::Ge(0.0)));
  EXPECT_EQ(report.received_bytes_max, 12 * 8);
  EXPECT_EQ(report.peak_bytes_predicted, (4 + 16) * 8);
  EXPECT_EQ(report.peak_bytes_measured, (4 + 16) * 8);
}

TEST(RunPlan, verifies_every_sample_on_every_engine) {
  const std::unique_ptr<Engine> engines[] = {make_reference_engine(), make_threads_engine()};
  for (const std::unique_ptr<Engine>& engine : engines) {
    for (const test::SamplePlan& sample : test::sample_plans()) {
      for (const TileUse use : {TileUse::kept, TileUse::donated}) {
        RunOptions options;
        options.tiles = use;
        options.repetitions = 2;
        const RunReport report = run_plan(sample.plan, *engine, options);
        EXPECT_EQ(report.difference, std::nullopt) << engine->name() << ": " << sample.name;
        EXPECT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted) << engine->name() << ": " << sample.name;
      }
    }
  }
}

TEST(RunPlan, stops_at_a_difference) {
  const auto samples = test::sample_plans();
  Plan plan = test::sample_plan(samples, "allpermute");
  std::get<PermuteStep>(plan.movement.steps[0].operation).pairs = {{{0, 0}, {1, 1}, {2, 2}, {3, 3}}};
  RunOptions options;
  options.repetitions = 3;
  const RunReport report = run_plan(plan, *make_reference_engine(), options);
  EXPECT_TRUE(report.difference.has_value());
  EXPECT_EQ(report.seconds.size(), 1U);
}

TEST(RunPlan, refuses_what_does_not_fit_in_memory) {
  const DistributedType type = parse_type("[281474976710656]", parse_mesh("a=2"));
  const Plan plan = test::finish_plan(type, type, {test::permute_step(Placement(type), Placement(type))});
  try {
    run_plan(plan, *make_threads_engine());
    FAIL() << "petabytes";
  } catch (const RuntimeError& error) {
    EXPECT_THAT(error.what(),
                ::testing::MatchesRegex(
                    "the run needs 4503599627372544 bytes for the tiles of 2 devices, and [0-9]+ are free"));
  }
}

TEST(RunPlan, refuses_what_does_not_fit_in63_bits) {
  const DistributedType type = parse_type("[4611686018427387904]", parse_mesh("a=2"));
  const Plan plan = test::finish_plan(type, type, {});
  try {
    run_plan(plan, *make_threads_engine());
    FAIL();
  } catch (const RuntimeError& error) {
    EXPECT_STREQ(error.what(), "9223372036854775807 elements of 4 bytes do not fit in 63 bits");
  }
}

TEST(RunJson, is_the_public_format) {
  RunReport report;
  report.id = "p1";
  report.engine = "reference";
  report.devices = 8;
  report.seconds = {0.5, 0.25};
  report.received_bytes_max = 96;
  report.peak_bytes_predicted = 160;
  report.peak_bytes_measured = 128;
  EXPECT_EQ(to_json(report),
            R"({"format":1,"id":"p1","engine":"reference","devices":8,"verified":true,"seconds":[0.5,0.25],)"
            R"("received_bytes_max":96,"peak_bytes":{"predicted":160,"measured":128}})");
  report.difference = "device 0, element [0]: byte 0 is 0x00 instead of 0x01";
  EXPECT_THAT(to_json(report), ::testing::HasSubstr(R"("verified":false)"));
}

TEST(RunJson, replaces_what_is_not_utf8_in_an_id) {
  RunReport report;
  report.id = "caf\xe9";
  EXPECT_THAT(to_json(report), ::testing::HasSubstr(",\"id\":\"caf\xef\xbf\xbd\","));
}

}  // namespace
}  // namespace retile
