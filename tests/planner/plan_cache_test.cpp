#include "retile/planner/plan_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "retile/plan/json.h"
#include "retile/types/text.h"

namespace retile::test {
namespace {

Problem problem(const std::string& source, const std::string& target, const std::string& id = "p") {
  const Mesh mesh = parse_mesh("a=2,b=2");
  return {id, parse_type(source, mesh), parse_type(target, mesh)};
}

TEST(PlanCache, gives_the_same_plan_again) {
  PlanCache cache;
  const auto first = cache.plan(problem("[4{a}8, 8]", "[8, 4{a}8]", "one"));
  const auto second = cache.plan(problem("[4{a}8, 8]", "[8, 4{a}8]", "two"));
  EXPECT_EQ(first, second);
  EXPECT_EQ(second->id, "one");
  EXPECT_EQ(cache.statistics().hits, 1);
  EXPECT_EQ(cache.statistics().misses, 1);
}

TEST(PlanCache, tells_problems_and_options_apart) {
  PlanCache cache;
  PlanOptions paper;
  paper.planner = PlannerKind::paper;
  PlanOptions roomy;
  roomy.memory_limit = 1000;
  const Problem there = problem("[4{a}8, 8]", "[8, 4{a}8]");
  const auto plans = {cache.plan(there), cache.plan(problem("[8, 4{a}8]", "[4{a}8, 8]")),
                      cache.plan(problem("[4{a}8, 8]", "[8, 4{b}8]")), cache.plan(there, paper),
                      cache.plan(there, roomy)};
  EXPECT_EQ(cache.statistics().hits, 0);
  EXPECT_EQ(cache.statistics().plans, plans.size());
}

TEST(PlanCache, sees_through_the_splitting_of_axes) {
  PlanCache cache;
  const Mesh mesh = parse_mesh("x=4");
  const DistributedType whole = parse_type("[2{x}8]", mesh);
  const DistributedType replicated = parse_type("[8]", mesh);
  cache.plan({"p", whole, replicated});
  cache.plan({"p", split_into_primes(whole), replicated});
  EXPECT_EQ(cache.statistics().hits, 1);
}

TEST(PlanCache, drops_the_least_recently_used) {
  PlanCache cache(2);
  const Problem first = problem("[4{a}8, 8]", "[8, 4{a}8]");
  const Problem second = problem("[4{b}8, 8]", "[8, 4{b}8]");
  const Problem third = problem("[4{a}8, 8]", "[8, 4{b}8]");
  cache.plan(first);
  const auto held = cache.plan(second);
  cache.plan(first);
  cache.plan(third);  // drops the second
  EXPECT_EQ(cache.statistics().plans, 2U);
  cache.plan(first);
  EXPECT_EQ(cache.statistics().hits, 2);
  EXPECT_NE(cache.plan(second), held);
  EXPECT_FALSE(to_json(*held).empty());  // lives on for who holds it
}

TEST(PlanCache, is_shared_by_threads) {
  PlanCache cache(4);
  const std::vector<Problem> problems{problem("[4{a}8, 8]", "[8, 4{a}8]"), problem("[4{b}8, 8]", "[8, 4{b}8]"),
                                      problem("[2{a,b}8, 8]", "[8, 2{b,a}8]"), problem("[8, 8]", "[2{a,b}8, 8]"),
                                      problem("[2{a,b}8, 8]", "[8, 8]")};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 400; ++i) {
        const Problem& asked = problems[(i * (t + 1)) % problems.size()];
        EXPECT_EQ(cache.plan(asked)->target, asked.target());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.statistics().hits + cache.statistics().misses, 1600);
  EXPECT_LE(cache.statistics().plans, 4U);
}

}  // namespace
}  // namespace retile::test
