#include "evaluation/xla_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/problems.h"

namespace retile::evaluation {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

XlaPlan plan_of(const std::string& ops) {
  return parse_xla_plan({"plans.jsonl", R"({"id": "p", "ops": )" + ops + "}"});
}

XlaPlan one_step(const std::string& op, const std::string& out) {
  return plan_of(R"([{"op": ")" + op + R"(", "out": ")" + out + R"("}])");
}

Problem problem_of(const std::string& source, const std::string& target) {
  const Mesh mesh = parse_mesh("a=2,b=2,c=2");
  return {"p", parse_type(source, mesh), parse_type(target, mesh)};
}

double two_decimals(double value) { return std::round(100 * value) / 100; }

// --- Reading.

TEST(XlaPlan, reads_id_and_steps_and_leaves_the_rest) {
  const XlaPlan plan = parse_xla_plan(
      {"plans.jsonl",
       R"({"id": "p7", "ops": [{"op": "all-gather", "out": "f32[8,4]{1,0}", "attrs": "dimensions={0}"}], "temp_bytes": 3})"});
  EXPECT_EQ(plan.id, "p7");
  ASSERT_EQ(plan.steps.size(), 1U);
  EXPECT_EQ(plan.steps[0].op, XlaOp::all_gather);
  EXPECT_THAT(plan.steps[0].out, ElementsAre(Shape{8, 4}));
}

TEST(XlaPlan, without_an_id_is_called_by_its_line) {
  EXPECT_EQ(parse_xla_plan({"plans.jsonl", R"({"ops": []})", 12}).id, "line-12");
}

TEST(XlaPlan, reads_tuples_scalars_and_layouts) {
  EXPECT_THAT(one_step("all-to-all", "(f32[2,3]{1,0}, f32[2,3]{0,1})").steps[0].out,
              ElementsAre(Shape{2, 3}, Shape{2, 3}));
  EXPECT_THAT(one_step("collective-permute", "f32[]").steps[0].out, ElementsAre(IsEmpty()));
  EXPECT_THAT(one_step("collective-permute", "bf16[8,128]{1,0:T(8,128)(2,1)}").steps[0].out,
              ElementsAre(Shape{8, 128}));
}

TEST(XlaPlan, knows_its_collectives) {
  EXPECT_EQ(find_xla_op("all-gather"), XlaOp::all_gather);
  EXPECT_EQ(find_xla_op("all-to-all"), XlaOp::all_to_all);
  EXPECT_EQ(find_xla_op("collective-permute"), XlaOp::collective_permute);
  EXPECT_EQ(find_xla_op("all_gather"), std::nullopt);
}

// --- Cost and peak.

TEST(XlaPlan, costs_what_its_collectives_give) {
  EXPECT_EQ(cost_of(one_step("all-gather", "f32[8,4]{1,0}")), 32);
  EXPECT_EQ(cost_of(one_step("collective-permute", "f32[8,4]{1,0}")), 32);
  EXPECT_EQ(cost_of(one_step("all-to-all", "(f32[4,4]{1,0}, f32[4,4]{1,0})")), 32);
  EXPECT_EQ(cost_of(plan_of("[]")), 0);
  EXPECT_EQ(
      cost_of(plan_of(R"([{"op": "all-gather", "out": "f32[8]"}, {"op": "collective-permute", "out": "f32[4]"}])")),
      12);
}

TEST(XlaPlan, peaks_at_its_largest_tensor_or_an_end) {
  const Problem problem = problem_of("[4{a}8]", "[2{a,b}8]");
  EXPECT_EQ(peak_of(plan_of("[]"), problem), 4);
  EXPECT_EQ(peak_of(one_step("collective-permute", "f32[2]"), problem), 4);
  EXPECT_EQ(peak_of(one_step("all-to-all", "(f32[3], f32[3])"), problem), 6);
}

TEST(XlaPlan, compares_with_both_planners) {
  const Problem problem = problem_of("[4{a}8, 8]", "[8, 4{b}8]");
  const XlaComparison comparison = compare_with_xla(problem, one_step("all-gather", "f32[8,8]{1,0}"));
  EXPECT_EQ(comparison.id, "p");
  EXPECT_EQ(comparison.xla_cost, 64);
  EXPECT_EQ(comparison.xla_peak, 64);
  EXPECT_EQ(comparison.bound, 32);
  EXPECT_EQ(comparison.our_peak, 32);
  EXPECT_GT(comparison.paper_cost, 0);
  EXPECT_LE(comparison.wide_cost, comparison.paper_cost);
}

TEST(XlaSummary, is_neutral_without_problems) {
  const XlaSummary summary = summarize({});
  EXPECT_EQ(summary.problems, 0);
  EXPECT_EQ(summary.moving, 0);
  EXPECT_EQ(summary.paper.geometric_mean, 1);
}

TEST(XlaSummary, counts_and_averages) {
  const std::vector<XlaComparison> comparisons{
      {"dearer", 16, 16, 4, 4, 8, 8},   // four times the cost, twice the bound
      {"cheaper", 4, 8, 4, 8, 8, 8},    // half of the wide cost
      {"still", 0, 8, 0, 0, 8, 8},      // no cost at all
      {"one-sided", 8, 8, 0, 0, 8, 8},  // only XLA moves data
  };
  const XlaSummary summary = summarize(comparisons);
  EXPECT_EQ(summary.problems, 4);
  EXPECT_EQ(summary.moving, 2);
  EXPECT_EQ(summary.one_sided, 1);
  EXPECT_EQ(summary.xla_above_bound, 1);
  EXPECT_EQ(summary.ours_above_bound, 0);
  EXPECT_DOUBLE_EQ(summary.largest_peak, 2);
  EXPECT_DOUBLE_EQ(summary.paper.geometric_mean, 2);
  EXPECT_DOUBLE_EQ(summary.paper.largest, 4);
  EXPECT_DOUBLE_EQ(summary.paper.smallest, 1);
  EXPECT_EQ(summary.paper.xla_dearer, 1);
  EXPECT_EQ(summary.paper.xla_cheaper, 0);
  EXPECT_DOUBLE_EQ(summary.wide.geometric_mean, std::sqrt(2));
  EXPECT_EQ(summary.wide.xla_cheaper, 1);
}

// --- The figures that we state.

TEST(XlaSummary, holds_on_the_papers_family) {
  const std::vector<SourceText> problems = test::data_lines("problems.jsonl");
  const std::vector<SourceText> plans = test::data_lines("xla_plans.jsonl");
  ASSERT_EQ(problems.size(), plans.size());
  std::vector<XlaComparison> comparisons;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Problem problem = parse_problem(problems[i]);
    const XlaPlan plan = parse_xla_plan(plans[i]);
    ASSERT_EQ(problem.id(), plan.id);
    comparisons.push_back(compare_with_xla(problem, plan));
  }
  const XlaSummary summary = summarize(comparisons);
  EXPECT_EQ(summary.problems, 500);
  EXPECT_EQ(summary.moving, 470);
  EXPECT_EQ(summary.one_sided, 0);
  EXPECT_DOUBLE_EQ(two_decimals(summary.paper.geometric_mean), 1.26);
  EXPECT_DOUBLE_EQ(two_decimals(summary.paper.largest), 12);
  EXPECT_DOUBLE_EQ(two_decimals(summary.paper.smallest), 0.5);
  EXPECT_EQ(summary.paper.xla_dearer, 195);
  EXPECT_EQ(summary.paper.xla_cheaper, 23);
  EXPECT_DOUBLE_EQ(two_decimals(summary.wide.geometric_mean), 1.61);
  EXPECT_DOUBLE_EQ(two_decimals(summary.wide.largest), 14);
  EXPECT_EQ(summary.wide.xla_dearer, 278);
  EXPECT_EQ(summary.wide.xla_cheaper, 0);
  EXPECT_EQ(summary.xla_above_bound, 69);
  EXPECT_EQ(summary.ours_above_bound, 0);
  EXPECT_DOUBLE_EQ(two_decimals(summary.largest_peak), 8);
}

// --- Diagnostics.

std::string diagnostic(const std::string& line) {
  return test::diagnostic_of([&] { return parse_xla_plan({"plans.jsonl", line, 3}); });
}

// Without the line and its caret: the column says where it stands.
std::string message(const std::string& line) {
  const std::string text = diagnostic(line);
  return text.substr(0, text.find('\n'));
}

std::string message_of_out(const std::string& out) {
  return message(R"({"ops": [{"op": "all-to-all", "out": ")" + out + R"("}]})");
}

TEST(XlaPlanDiagnostics, unknown_collective) {
  EXPECT_EQ(diagnostic(R"({"ops": [{"op": "all-reduce", "out": "f32[8]"}]})"),
            R"(plans.jsonl:3:17: error: unknown collective "all-reduce"
    3 | {"ops": [{"op": "all-reduce", "out": "f32[8]"}]}
      |                 ^~~~~~~~~~~~
hint: use one of all-gather, all-to-all, collective-permute
)");
}

TEST(XlaPlanDiagnostics, shapes) {
  EXPECT_EQ(message_of_out("f32[8,"), "plans.jsonl:3:45: error: expected a size, found the end");
  EXPECT_EQ(message_of_out("f32(8)"), "plans.jsonl:3:42: error: expected '[' after the element type, found '('");
  EXPECT_EQ(message_of_out("f32[8]{1,0"),
            "plans.jsonl:3:49: error: expected '}' at the end of a layout, found the end");
  EXPECT_EQ(message_of_out("(f32[8], f32[8]"),
            "plans.jsonl:3:54: error: expected ')' or ',' after a part of the tuple, found the end");
  EXPECT_EQ(message_of_out("f32[8] f32[8]"),
            "plans.jsonl:3:46: error: expected the end of the output of a collective, found 'f32'");
  EXPECT_EQ(message_of_out("f32[8,0]"), "plans.jsonl:3:45: error: a size is 0");
}

TEST(XlaPlanDiagnostics, sizes) {
  EXPECT_EQ(message_of_out("f32[4294967296,4294967296]"),
            "plans.jsonl:3:39: error: the number of elements does not fit in 63 bits");
  EXPECT_EQ(message_of_out("(f32[9223372036854775807], f32[1])"),
            "plans.jsonl:3:38: error: the number of elements does not fit in 63 bits");
}

TEST(XlaPlanDiagnostics, cost_that_does_not_fit) {
  const XlaPlan plan =
      plan_of(R"([{"op": "all-gather", "out": "f32[9223372036854775807]"}, {"op": "all-gather", "out": "f32[1]"}])");
  EXPECT_EQ(test::diagnostic_of([&] { return cost_of(plan); }),
            "error: the cost of the plan does not fit in 63 bits\n");
}

TEST(XlaPlanDiagnostics, members) {
  EXPECT_EQ(message(R"({"id": "p"})"), R"(plans.jsonl:3:1: error: the plan has no "ops")");
  EXPECT_EQ(message(R"({"ops": [{"op": "all-gather"}]})"), R"(plans.jsonl:3:10: error: "ops"[0] has no "out")");
  EXPECT_EQ(message(R"({"ops": 3})"), R"(plans.jsonl:3:9: error: "ops" must be an array, not an integer)");
}

}  // namespace
}  // namespace retile::evaluation
