// What XLA does beside what could be done. The command's texts are in tests/command/explain_test.cpp.
#include "retile/explanation/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "retile/explanation/log.h"
#include "retile/types/text.h"
#include "tests/support/problems.h"

namespace retile::explanation {
namespace {

using test::problem_of;
using ::testing::ElementsAre;

std::string warning(const std::string& array) {
  return "[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {devices=[2,1]<=[2]} to "
         "{devices=[1,2]<=[2]} efficiently for HLO operation %copy = " +
         array + "{1,0} copy(%x)\n";
}

TEST(Explanation, says_where_neither_end_has_what_xla_makes) {
  const Explanation found = explain(problem_of("a=4,b=2", "[8{b}16, 16, 4{a}16]", "[16, 2{b,a}16, 16]"));
  EXPECT_TRUE(found.xla.rematerializes);
  EXPECT_EQ(found.xla.account->peak_bytes, 8 * found.ours.peak_bytes);
  // What devices keep does not count: an eighth of a tile, and a quarter and a half of what is gathered.
  EXPECT_EQ(found.ours.moved_bytes, found.floor_bytes);
  EXPECT_EQ(found.xla.account->moved_bytes, 4 * (16 * 16 * 16 - 8 * 16 * 4));
  const Explanation gathered = explain(problem_of("a=2", "[4{a}8]", "[8]"));
  EXPECT_FALSE(gathered.xla.rematerializes);
  EXPECT_EQ(gathered.xla.account->steps, gathered.ours.steps);
}

TEST(Explanation, has_no_account_where_the_model_does_not_say) {
  const Mesh mesh = parse_mesh("a=2");
  const Problem sum("", parse_layout("[8] sum {a}", mesh), parse_layout("[8]", mesh));
  EXPECT_FALSE(explain(sum).xla.account);
  EXPECT_EQ(explain(sum).sentences.front(), "XLA's rules for sums are not in the model");
}

TEST(LogQuestions, are_the_largest_arrays_first_and_doubles_once) {
  const LogQuestions found = read_log(
      {"log", warning("f32[2,8]") + "no warning\n" + warning("f64[4,16]") + warning("f32[2,8]") + warning("f32[2,1")});
  ASSERT_EQ(found.questions.size(), 2U);
  EXPECT_EQ(found.questions[0].heading, "log:3: %copy, 1 time, f64[4,16] taken as per device: [8, 16] in all");
  EXPECT_EQ(found.questions[1].heading, "log:1: %copy, 2 times, f32[2,8] taken as per device: [4, 8] in all");
  EXPECT_EQ(found.questions[1].count, 2);
  EXPECT_EQ(found.faults.size(), 1U);
}

TEST(LogQuestions, take_shapes_as_they_are_told) {
  const LogQuestions found = read_log({"log", warning("f32[2,8]")}, {.has_global_shapes = true});
  EXPECT_THAT(found.questions.at(0).problem.source().global_shape(), ElementsAre(2, 8));
}

TEST(LogQuestions, are_none_where_nothing_is_warned_of) {
  const LogQuestions found = read_log({"log", "all is well\n"});
  EXPECT_TRUE(found.questions.empty() && found.faults.empty());
}

}  // namespace
}  // namespace retile::explanation
