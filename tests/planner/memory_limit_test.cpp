#include "retile/planner/memory_limit.h"

#include <gtest/gtest.h>

#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

Problem problem_of_16_elements() {
  const Mesh mesh = parse_mesh("x=4");
  return {"p", parse_type("[2{x}8, 8]", mesh), parse_type("[8, 2{x}8]", mesh), ElementType::f64};
}

std::int64_t bytes(const std::string& text) {
  return bytes_of(parse_memory_limit({"limit", text}), problem_of_16_elements());
}

TEST(MemoryLimit, counts_bytes) {
  EXPECT_EQ(bytes("0"), 0);
  EXPECT_EQ(bytes("4096"), 4096);
  EXPECT_EQ(bytes("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(bytes("80B"), 80);
  EXPECT_EQ(bytes("8KB"), 8000);
  EXPECT_EQ(bytes("8KiB"), 8192);
  EXPECT_EQ(bytes("1.5MiB"), 3 * 524288);
  EXPECT_EQ(bytes("2GB"), 2'000'000'000);
  EXPECT_EQ(bytes("1GiB"), std::int64_t{1} << 30U);
  EXPECT_EQ(bytes("1TB"), 1'000'000'000'000);
  EXPECT_EQ(bytes("1TiB"), std::int64_t{1} << 40U);
}

TEST(MemoryLimit, multiplies_the_larger_tile) {
  EXPECT_EQ(bytes("1x"), 16 * 8);
  EXPECT_EQ(bytes("2.5x"), 40 * 8);
  EXPECT_EQ(bytes("0.99x"), 126);
  EXPECT_EQ(bytes("99999999999999999999x"), INT64_MAX);
}

TEST(MemoryLimit, refuses_what_it_cannot_read) {
  const auto message = [](const std::string& text) {
    return diagnostic_of([&] { parse_memory_limit({"limit", text}); });
  };
  EXPECT_EQ(message("3kib"),
            "limit:1:1: error: unknown unit of memory 'kib'\n"
            "    1 | 3kib\n"
            "      | ^~~~\n"
            "hint: did you mean KiB? write bytes (4096, 512MiB, 1.5GB) or a factor of the larger tile (2.5x)\n");
  EXPECT_NE(message("").find("error: a size of memory is missing\n"), std::string::npos);
  EXPECT_NE(message("-1").find("error: a size of memory cannot be negative\n"), std::string::npos);
  EXPECT_NE(message("much").find("error: a size of memory begins with a number\n"), std::string::npos);
  for (const char* text : {".", "9223372036854775808"}) {
    EXPECT_NE(message(text).find("must be a number below 2^63"), std::string::npos) << text;
  }
  EXPECT_NE(message("x").find("must be a number before the x"), std::string::npos);
  EXPECT_NE(message("1.2.3x").find("must be a number before the x"), std::string::npos);
  EXPECT_NE(message("9999999999TiB").find("must be a number below 2^63"), std::string::npos);
}

TEST(ByteCount, is_no_factor) {
  const auto message = [](const std::string& text) { return diagnostic_of([&] { parse_byte_count({"cap", text}); }); };
  EXPECT_EQ(parse_byte_count({"cap", "1.5KiB"}), 1536);
  EXPECT_EQ(message("10x"),
            "cap:1:1: error: a number of bytes is needed here, not a factor\n"
            "    1 | 10x\n"
            "      | ^~~\n"
            "hint: write 4096, 512MiB, 1.5GB\n");
  EXPECT_EQ(message("1e6"),
            "cap:1:1: error: unknown unit of memory 'e6'\n"
            "    1 | 1e6\n"
            "      | ^~~\n"
            "hint: write bytes (4096, 512MiB, 1.5GB)\n");
}

// --- Plans that fit.

std::int64_t run_bytes(const Plan& plan, const Problem& problem, const PlanOptions& options) {
  return predict_peak_bytes(plan.movement, bytes_of(problem.element_type()), options.tiles, options.executor.memory);
}

std::string refusal(const Problem& problem, const PlanOptions& options) {
  return diagnostic_of([&] { (void)make_plan(problem, options); });
}

// The smallest limit that a refusal names works, and one byte less does not.
void expect_named_limit_is_smallest(const Problem& problem, PlanOptions options) {
  options.memory_limit = 0;
  const std::string said = refusal(problem, options);
  const std::string mark = "hint: the smallest limit that works is ";
  ASSERT_NE(said.find(mark), std::string::npos) << said;
  const std::int64_t smallest = std::stoll(said.substr(said.find(mark) + mark.size()));
  options.memory_limit = smallest;
  EXPECT_LE(run_bytes(make_plan(problem, options), problem, options), smallest) << describe(problem);
  options.memory_limit = smallest - 1;
  EXPECT_NE(refusal(problem, options), "no error") << name_of(options.planner) << ": " << describe(problem);
}

TEST(MemoryLimit, is_kept_by_every_planner_or_refused_with_the_smallest_that_works) {
  RandomProblems random(51);
  for (const char* text : {"a=2,b=2,c=2", "a=4,b=6"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 40; ++i) {
      const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
      for (const char* name : {"auto", "wide", "paper", "direct", "lean", "gather-slice"}) {
        PlanOptions options;
        options.planner = *find_planner(name);
        options.tiles = i % 2 == 0 ? TileUse::kept : TileUse::donated;
        options.executor.memory = {i % 4 < 2 ? EngineMemory::Between::in_target : EngineMemory::Between::in_scratch, i};
        expect_named_limit_is_smallest(problem, options);
      }
    }
  }
}

TEST(MemoryLimit, that_is_the_smallest_counts_plans_without_exchanges) {
  // Where slices are copies, too, the least is needed by collectives alone.
  const Problem problem = parse_problem(
      {"line", R"({"mesh": {"x": 2, "y": 6}, "shape": [8, 12], "src": [[], ["x"], ["y"], []], )"
               R"("src_view": [[2, 2, 2], [12]], "dst": [["x"], [], []], "dst_view": [[8], [4, 3]], "dtype": "i32"})"});
  using enum EngineMemory::Between;
  for (const auto between : {in_target, in_scratch, every_step}) {
    PlanOptions options;
    options.executor.memory = {between, 0};
    expect_named_limit_is_smallest(problem, options);
  }
}

TEST(MemoryLimit, lets_auto_take_a_plan_that_needs_less_than_the_wide_one) {
  // wide slices, exchanges and gathers through a tile between; direct needs none.
  const Problem problem = problem_of("a=2,b=2,c=2", "[2{a,b}8, 8]", "[8, 4{a}8]");
  PlanOptions options;
  options.executor.exchange_weight = 1.5;  // so that wide is the better one where both fit
  const Plan wide = make_plan(problem, options);
  EXPECT_EQ(wide.planner, "wide");
  const std::int64_t wide_bytes = run_bytes(wide, problem, options);
  options.memory_limit = wide_bytes;
  EXPECT_EQ(make_plan(problem, options).planner, "wide");
  options.memory_limit = wide_bytes - 1;
  const Plan lean = make_plan(problem, options);
  EXPECT_EQ(lean.planner, "direct");
  EXPECT_LT(run_bytes(lean, problem, options), wide_bytes);
  options.planner = PlannerKind::wide;
  EXPECT_NE(refusal(problem, options), "no error");
}

}  // namespace
}  // namespace retile::test
