#include "retile/interchange/compiler_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "retile/plan/verify.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/problems.h"

namespace retile::interchange {
namespace {

std::string join(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

std::string warning(const std::string& from, const std::string& to, const std::string& array) {
  return "W1015 18:20:08.668874 12979952 spmd_partitioner.cc:645] [SPMD] Involuntary full rematerialization. The "
         "compiler "
         "cannot go from sharding " +
         from + " to " + to + " efficiently for HLO operation %param.1 = " + array +
         "{1,0} parameter(0), sharding=" + from +
         ", metadata={op_name=\"x\"}. As the last resort, SPMD will replicate the tensor and then partition it.\n";
}

// The reports were collected from public issues and notes; each names its source.
TEST(CompilerLog, every_public_report_leads_to_a_plan_that_is_proved_cheapest) {
  int count = 0;
  for (const SourceText& line : test::data_lines("xla_reports.jsonl")) {
    const auto report = nlohmann::json::parse(line.text);
    const Shape shape = report["shape"].get<Shape>();
    const std::string array = report["dtype"].get<std::string>() + "[" + join(shape) + "]";
    const SourceText log{"log", "compiling\n" + warning(report["from"], report["to"], array) + "done\n"};
    const CompilerLog read = read_compiler_log(log);
    ASSERT_EQ(read.reshards.size(), 1U);
    ASSERT_TRUE(read.faults.empty());
    const ReportedReshard& reshard = read.reshards[0];
    ASSERT_TRUE(reshard.array);
    EXPECT_EQ(reshard.array->shape, shape);
    EXPECT_EQ(reshard.operation, "%param.1");
    for (const bool is_local : {false, true}) {
      LocalEnds parsed = parse_reshard(log, reshard, shape, is_local, {});
      const Problem problem("", parsed.ends.source, parsed.ends.target, reshard.array->element_type);
      EXPECT_EQ(problem.device_count(), report["devices"].get<std::int64_t>());
      const Plan plan = make_plan(problem);
      EXPECT_TRUE(plan.cost.optimal) << line.text;
      EXPECT_EQ(find_faults(plan, {}), std::vector<std::string>{}) << line.text;
    }
    ++count;
  }
  EXPECT_EQ(count, 14);
}

TEST(CompilerLog, merges_doubles_and_reads_broken_lines_and_old_words) {
  const std::string twice = warning("{devices=[2,1]<=[2]}", "{devices=[1,2]<=[2]}", "f32[4,8]");
  const SourceText log{
      "log",
      twice + R"(
[spmd] Involuntary full
rematerialization. The compiler was not able to go from
sharding {devices=[4]<=[4] metadata={op_name="}"}} to
{replicated} without doing a full rematerialization of the
tensor for HLO operation: %copy = c128[36,10]{1,0} copy(...)
)" + twice +
          "Involuntary full rematerialization. The compiler was not able to go from sharding {devices=[2]<=[2]} to "
          "{replicated} without doing a full rematerialization of the tensor.\n"};
  const CompilerLog read = read_compiler_log(log);
  ASSERT_EQ(read.reshards.size(), 3U);
  EXPECT_EQ(read.reshards[0].count, 2);
  EXPECT_EQ(read.reshards[1].from, R"({devices=[4]<=[4] metadata={op_name="}"}})");
  EXPECT_EQ(read.reshards[1].operation, "%copy");
  EXPECT_EQ(read.reshards[1].array->shape, (Shape{36, 10}));
  EXPECT_FALSE(read.reshards[2].array);
}

TEST(CompilerLog, faults_are_placed_in_the_log) {
  const SourceText log{"log",
                       "one\nInvoluntary full rematerialization. from sharding {devices=[2,2]<=[8]} to {replicated} "
                       "for %x = f32[8,8] add\n"
                       "Involuntary full rematerialization of something\n"};
  const CompilerLog read = read_compiler_log(log);
  ASSERT_EQ(read.reshards.size(), 1U);
  EXPECT_EQ(test::diagnostic_of([&] {
              return parse_reshard(log, read.reshards[0], {8, 8}, true, {});
            }),
            R"(log:2:60: error: [2,2] are 4 tiles, for 8 devices
    2 | ... full rematerialization. from sharding {devices=[2,2]<=[8]} to {replicated} for %x = f32[8,8] ad...
      |                                                    ^~~~~
hint: where 2 devices hold each tile: [2,2,2], and last_tile_dim_replicate
)");
  ASSERT_EQ(read.faults.size(), 1U);
  EXPECT_EQ(to_string(read.faults[0]), R"(log:3:2: error: this warning names no shardings
    3 | Involuntary full rematerialization of something
      |  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)");
}

TEST(CompilerLog, comments_of_plans_in_the_same_stream_are_no_warnings) {
  const std::string comment = "// XLA makes the whole array on every device (involuntary full rematerialization)\n";
  const CompilerLog read = read_compiler_log(
      {"log", comment + warning("{devices=[2,1]<=[2]}", "{devices=[1,2]<=[2]}", "f32[4,8]") + comment});
  EXPECT_EQ(read.reshards.size(), 1U);
  EXPECT_TRUE(read.faults.empty());
  EXPECT_FALSE(has_warning(comment));
}

}  // namespace
}  // namespace retile::interchange
