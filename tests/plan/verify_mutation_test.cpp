// Right plans with one change. What the verifier lets pass must be physically right, by a replay on the elements
// themselves that shares no code with it.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/planner/frame.h"
#include "tests/support/layouts.h"
#include "tests/support/plan_replay.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

using Json = nlohmann::ordered_json;
using Pointer = Json::json_pointer;

const std::vector<std::string> mutated_lists{"offsets", "boxes", "groups", "pairs", "transfers", "local_in", "dims"};

// Every value at and below `pointer`.
void collect(const Json& json, const Pointer& pointer, std::vector<Pointer>& all) {
  all.push_back(pointer);
  const Json& value = json.at(pointer);
  if (!value.is_array()) return;
  for (std::size_t i = 0; i < value.size(); ++i) collect(json, pointer / i, all);
}

// Every list, sublist and number that says which device does what.
std::vector<Pointer> collect_places(const Json& plan) {
  std::vector<Pointer> places;
  for (std::size_t i = 0; i < plan.at("steps").size(); ++i) {
    for (const std::string& list : mutated_lists) {
      const Pointer pointer = Pointer("/steps") / i / list;
      if (plan.contains(pointer)) collect(plan, pointer, places);
    }
  }
  return places;
}

// The plan with each number replaced by neighbours, by other numbers that occur in plans, and by the largest there are;
// not where that gives no plan.
void replace_number(const Json& plan, const Pointer& place, std::vector<Json>& mutants) {
  const auto number = plan.at(place).get<std::int64_t>();
  std::set<std::int64_t> others{0, 1, 2, 3, 4, number - 1, number + 1, 2 * number, -number, INT64_MAX, INT64_MIN};
  others.erase(number);
  if (place.parent_pointer().back() == "local_in") std::erase_if(others, [](std::int64_t size) { return size < 1; });
  for (const std::int64_t other : others) {
    mutants.push_back(plan);
    mutants.back().at(place) = other;
  }
}

// The plan with two entries of a list swapped, one left out, or one there twice; not where that gives no plan.
void rearrange_list(const Json& plan, const Pointer& place, std::vector<Json>& mutants) {
  const Json& list = plan.at(place);
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (list.at(i).type() != list.at(j).type()) continue;
      mutants.push_back(plan);
      std::swap(mutants.back().at(place).at(i), mutants.back().at(place).at(j));
    }
    const bool any_length = place.to_string().find("offsets") == std::string::npos &&
                            (place.back() == "groups" || place.back() == "pairs" || place.back() == "transfers" ||
                             place.parent_pointer().back() == "groups" || place.parent_pointer().back() == "boxes");
    if (!any_length) continue;
    mutants.push_back(plan);
    mutants.back().at(place).erase(i);
    mutants.push_back(plan);
    mutants.back().at(place).push_back(list.at(i));
  }
}

std::vector<Json> mutants_at(const Json& plan, const Pointer& place) {
  std::vector<Json> mutants;
  if (plan.at(place).is_number()) {
    replace_number(plan, place, mutants);
  } else {
    rearrange_list(plan, place, mutants);
  }
  std::erase(mutants, plan);
  return mutants;
}

struct Verdict {
  bool passed;  // by the verifier
  bool right;   // by the replay
};

// What cannot be read as a plan is refused too.
bool passes(const Json& mutant) {
  try {
    const auto [plan, statements] = parse_plan({"plan", mutant.dump()});
    return find_faults(plan, statements).empty();
  } catch (const InputError&) {
    return false;
  }
}

Verdict judge(const Json& mutant) { return {passes(mutant), !test::replay_plan(mutant)}; }

struct Counts {
  int wrong = 0;
  int refused_though_right = 0;
  int passed = 0;
};

// All mutants of a plan.
void judge_all(const std::string& name, const Plan& right, Counts& counts) {
  const Json plan = Json::parse(to_json(right));
  ASSERT_TRUE(judge(plan).passed && judge(plan).right) << name;
  for (const Pointer& place : collect_places(plan)) {
    for (const Json& mutant : mutants_at(plan, place)) {
      const Verdict verdict = judge(mutant);
      EXPECT_TRUE(verdict.right || !verdict.passed) << name << ": " << mutant.dump();
      counts.wrong += verdict.right ? 0 : 1;
      counts.refused_though_right += verdict.right && !verdict.passed ? 1 : 0;
      counts.passed += verdict.passed ? 1 : 0;
    }
  }
}

TEST(Mutations, of_the_samples_pass_only_where_the_elements_still_arrive) {
  Counts counts;
  for (const test::SamplePlan& sample : test::sample_plans()) judge_all(sample.name, sample.plan, counts);
  EXPECT_EQ(counts.wrong, 1958);
  // A group or pair too many or too few, an element sent twice, another local_in: the elements arrive, and the plan
  // is wrong all the same.
  EXPECT_EQ(counts.refused_though_right, 370);
  // Another order of groups, members, pairs, transfers or of equal corners.
  EXPECT_EQ(counts.passed, 159);
}

TEST(Mutations, of_plans_with_boxes_pass_only_where_the_elements_still_arrive) {
  Counts counts;
  for (const test::ProblemText& text : std::vector<test::ProblemText>{
           {"a=2", "[3{a}5, 3]", "a=2", "[5, 2{a}3]"},
           {"a=2,b=2", "[2{a,b}5]", "a=2,b=2", "[3{a}5] balanced"},
           {"a=3", "[2{a}5] balanced", "a=2", "[3{a}5] on [3, 1]"},
           {"a=2", "[2*1{a}2*2]", "a=2", "[4{a}8]"},
           {"a=2", "[2*2{a}3]", "a=2", "[3*1{a}2]"},
           {"a=2", "[4, 2] boxes {[0:1, 0:2] [3:4, 0:2]; [1:3, 0:2]; [1:3, 0:2]}", "a=2", "[2{a}4, 2]"},
           {"a=2", "[4] sum {a}", "a=2", "[2{a}4]"},
           {"a=2,b=2", "[3, 2] max {a,b}", "a=2,b=2", "[2{a}3, 2] max {b}"},
           {"a=2", "[2*2{a}3] balanced", "a=2", "[2*2{a}3]"},
           {"a=2,b=2", "[2*1{b}2] sum {a}", "a=2,b=2", "[1{a,b}4]"},
       }) {
    const Problem problem = test::problem_of(text);
    for (const test::Planning& planning : test::all_plannings()) {
      const bool is_viewed = problem.source().is_partial() && std::string(text.source).find('*') != std::string::npos;
      const bool has_no_plan = planning.options.executor.transport == Executor::Transport::collectives &&
                               (is_viewed || !find_frame(problem));
      if (!has_no_plan) judge_all(test::describe(problem), make_plan(problem, planning.options), counts);
    }
  }
  EXPECT_GT(counts.wrong, 1000);
  EXPECT_GT(counts.refused_though_right, 100);
  EXPECT_GT(counts.passed, 10);
}

TEST(Mutations, of_random_plans_between_any_layouts_pass_only_where_the_elements_still_arrive) {
  test::RandomProblems random(41);
  const std::vector<test::Planning> plannings{test::paper_planning(), test::wide_planning(), test::direct_planning()};
  int mutated = 0;
  for (int i = 0; i < 150; ++i) {
    const Problem problem = test::any_problem(random);
    const Json plan = Json::parse(to_json(make_plan(problem, random.pick(plannings).options)));
    const std::vector<Pointer> places = collect_places(plan);
    for (int j = 0; j < 20 && !places.empty(); ++j) {
      const std::vector<Json> mutants = mutants_at(plan, random.pick(places));
      if (mutants.empty()) continue;
      const Json& mutant = random.pick(mutants);
      const Verdict verdict = judge(mutant);
      EXPECT_TRUE(verdict.right || !verdict.passed) << test::describe(problem) << ": " << mutant.dump();
      ++mutated;
    }
  }
  EXPECT_GT(mutated, 1000);
}

RC_GTEST_PROP(Mutations, of_random_plans_pass_only_where_the_elements_still_arrive, ()) {
  const Json plan = Json::parse(to_json(*test::arbitrary_plan()));
  const std::vector<Pointer> places = collect_places(plan);
  RC_PRE(!places.empty());
  for (int i = 0; i < 20; ++i) {
    const std::vector<Json> mutants = mutants_at(plan, places[*rc::gen::inRange<std::size_t>(0, places.size())]);
    if (mutants.empty()) continue;
    const Json& mutant = mutants[*rc::gen::inRange<std::size_t>(0, mutants.size())];
    const Verdict verdict = judge(mutant);
    RC_LOG(mutant.dump());
    RC_ASSERT(verdict.right || !verdict.passed);
  }
}

}  // namespace
}  // namespace retile
