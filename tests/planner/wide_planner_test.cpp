// Wide plans: the three-step theorem, and that they are the cheapest under the paper's weights.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <tuple>

#include "retile/base/arithmetic.h"
#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"
#include "tests/support/step_search.h"

namespace retile::test {
namespace {

// --- Optimality.

class WideOptimality : public testing::Test {
 protected:
  // One search serves all meshes with as many devices.
  const StepSearch& search_from(const DistributedType& source, StepSet steps) {
    const std::int64_t devices = source.mesh().device_count();
    return searches_
        .try_emplace({steps, devices, source.global_shape(), source.local_shape()}, weaken(source), devices, steps)
        .first->second;
  }

  void check_all(const Mesh& mesh, const Shape& global, StepSet steps) {
    const Planning planning = steps == StepSet::wide ? wide_planning() : portable_planning();
    const std::vector<DistributedType> types = all_prime_types(mesh, global);
    for (const DistributedType& source : types) {
      const StepSearch& search = search_from(source, steps);
      for (const DistributedType& target : types) {
        const Problem problem("", source, target);
        const Plan plan = make_plan(problem, planning.options);
        const std::int64_t cheapest = search.cheapest(Placement(source), Placement(target));
        ++covered_;
        EXPECT_LE(plan.cost.lower_bound, cheapest) << planning.name << ": " << describe(problem);
        EXPECT_GE(plan.cost.total, cheapest) << planning.name << ": " << describe(problem) << ": " << steps_of(plan);
        unproved_ += plan.cost.optimal ? 0 : 1;
        dearer_ += plan.cost.total > cheapest ? 1 : 0;
        if (HasFailure()) return;
      }
    }
  }

  void check_up_to_seven(StepSet steps) {
    for (const char* text : {"a=2", "a=3", "a=4", "a=2,b=2", "a=5", "a=6", "a=2,b=3", "a=3,b=2", "a=7"}) {
      const Mesh mesh = parse_mesh(text);
      const std::int64_t n = mesh.device_count();
      for (const Shape& global : {Shape{2 * n}, Shape{12}, Shape{n, n}, Shape{2, 12}, Shape{6, 6}, Shape{3, 2},
                                  Shape{n, n, n}, Shape{2, 6, 12}, Shape{2, 2, 3}}) {
        check_all(mesh, global, steps);
      }
    }
  }

  void check_eight(StepSet steps) {
    for (const char* text : {"a=2,b=4", "a=2,b=2,c=2"}) {
      for (const Shape& global : {Shape{8}, Shape{4, 4}, Shape{2, 8}}) {
        check_all(parse_mesh(text), global, steps);
      }
    }
  }

  std::map<std::tuple<StepSet, std::int64_t, Shape, Shape>, StepSearch> searches_;
  std::int64_t covered_ = 0;
  std::int64_t unproved_ = 0;
  std::int64_t dearer_ = 0;  // than the cheapest
};

TEST_F(WideOptimality, up_to_seven_devices) {
  check_up_to_seven(StepSet::wide);
  EXPECT_EQ(covered_, 4953);
  EXPECT_EQ(unproved_, 0);
  EXPECT_EQ(dearer_, 0);
}

TEST_F(WideOptimality, up_to_seven_devices_without_exchange) {
  check_up_to_seven(StepSet::wide_without_exchange);
  EXPECT_EQ(covered_, 4953);
  EXPECT_EQ(unproved_, 0);
  EXPECT_EQ(dearer_, 0);
}

TEST_F(WideOptimality, eight_devices) {
  check_eight(StepSet::wide);
  EXPECT_EQ(covered_, 5172);
  EXPECT_EQ(unproved_, 0);
  EXPECT_EQ(dearer_, 0);
}

TEST_F(WideOptimality, eight_devices_without_exchange) {
  check_eight(StepSet::wide_without_exchange);
  EXPECT_EQ(covered_, 5172);
  EXPECT_EQ(unproved_, 0);
  EXPECT_EQ(dearer_, 0);
}

TEST_F(WideOptimality, sweep) {
  if (!is_sweep()) GTEST_SKIP() << "make sweep runs it";
  for (const StepSet steps : {StepSet::wide, StepSet::wide_without_exchange}) {
    for (const char* text : {"a=8", "a=2,b=4", "a=4,b=2", "a=2,b=2,c=2"}) {
      for (const Shape& global : {Shape{8, 8, 8}, Shape{2, 4, 8}, Shape{2, 2, 2}}) {
        check_all(parse_mesh(text), global, steps);
      }
    }
    for (const char* text : {"a=4", "a=2,b=2", "a=6", "a=2,b=3"}) {
      for (const Shape& global : {Shape{6, 6, 6, 6}, Shape{2, 4, 3, 6}}) check_all(parse_mesh(text), global, steps);
    }
  }
  EXPECT_GT(covered_, 100000);
  EXPECT_EQ(unproved_, 0);
  EXPECT_EQ(dearer_, 0);
}

TEST(WidePlanner, refuses_meshes_that_are_too_large_to_list_without_exchanges) {
  const Mesh mesh = parse_mesh("x=32768,y=32768");
  const Problem problem("", parse_type("[1{x}32768, 32768]", mesh), parse_type("[32768, 1{x}32768]", mesh));
  try {
    make_plan(problem, portable_planning().options);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.diagnostic().message, "1073741824 devices are too many for wide plans without exchanges");
  }
  EXPECT_TRUE(make_plan(problem).cost.optimal);
}

// --- The three-step theorem.

void expect_three_steps(const Problem& problem) {
  const std::int64_t bound = std::max(problem.source().local_size(), problem.target().local_size());
  const std::vector<std::int64_t> factors = prime_factors(require_typed(problem).mesh().device_count());
  const auto primes = static_cast<std::ptrdiff_t>(std::set<std::int64_t>(factors.begin(), factors.end()).size());
  for (const Planning& planning : {wide_planning(), portable_planning()}) {
    const Plan plan = make_plan(problem, planning.options);
    const bool is_portable = planning.options.exchange == ExchangeUse::avoided;
    const std::string letters = kinds(plan);
    EXPECT_TRUE(std::regex_match(letters, std::regex(is_portable ? "s?a*p?g?" : "s?[ae]?g?")))
        << planning.name << ": " << describe(problem) << ": " << steps_of(plan);
    EXPECT_LE(std::count(letters.begin(), letters.end(), 'a'), std::max<std::ptrdiff_t>(primes, 1));
    EXPECT_LE(plan.memory.peak, bound) << planning.name << ": " << describe(problem);
    EXPECT_EQ(plan.memory.bound, bound);
    EXPECT_EQ(find_faults(plan), std::vector<std::string>()) << planning.name << ": " << describe(problem);
  }
}

TEST(WidePlanner, three_step_theorem_on_larger_meshes) {
  RandomProblems random(31);
  int covered = 0;
  for (const char* text : {"a=4,b=6", "a=2,b=3,c=5", "a=6,b=6", "a=8,b=8", "a=12", "a=2,b=2,c=2,d=2,e=2", "a=9,b=3"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 60; ++i) {
      const int rank = 1 + i % 4;
      const Shape global = i % 2 == 0 ? divisible_shape(mesh, rank) : random.shape(rank, {1, 2, 3, 4, 6, 12, 15, 36});
      expect_three_steps(random.problem(mesh, global));
      ++covered;
    }
  }
  EXPECT_EQ(covered, 420);
}

RC_GTEST_PROP(WidePlanner, three_step_theorem_on_random_meshes, ()) {
  const Mesh mesh = *arbitrary_mesh();
  const Shape global = divisible_shape(mesh, *rc::gen::inRange(1, 4));
  const DistributedType source = *arbitrary_type(mesh, global);
  expect_three_steps({"", source, *arbitrary_type(mesh, global)});
}

// Cuts by each prime decide what is sliced and gathered: 2-axes one way, 3-axes the other.
TEST(WidePlanner, slices_one_prime_and_gathers_another) {
  const Problem problem = problem_of("a=2,b=3", "[6, 2{b}6]", "[3{a}6, 6]");
  const Plan plan = make_plan(problem, wide_planning().options);
  EXPECT_EQ(steps_of(plan), "dynslice(0; 2) allgather(1; 3)");
  EXPECT_EQ(plan.cost.total, 18);
  EXPECT_EQ(plan.memory.peak, 18);
}

TEST(WidePlanner, moves_several_dimensions_at_once) {
  const Problem problem = problem_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]");
  const Plan wide = make_plan(problem, wide_planning().options);
  EXPECT_EQ(wide.cost.total, 256);
  EXPECT_EQ(kinds(wide), "a");
  EXPECT_EQ(std::get<AllToAllStep>(wide.steps()[0].operation).moves.size(), 2U);
}

// What is gathered anyway may be cut as deep as the mesh allows before it is exchanged.
TEST(WidePlanner, slices_deeper_where_a_gather_follows_anyway) {
  const Problem problem = problem_of("a=2,b=2,c=2,d=2", "[8{a}16, 8{b}16]", "[16, 8{a}16]");
  const Plan plan = make_plan(problem, wide_planning().options);
  EXPECT_EQ(plan.cost.total, 256 / 16 + 128);
  EXPECT_EQ(kinds(plan).back(), 'g');
  EXPECT_TRUE(plan.cost.optimal);
}

TEST(WidePlanner, takes_no_steps_between_equal_placements) {
  const Problem problem = problem_of("a=6,b=1", "[1{a}6]", "[1{a:(2)3,a:(1)2,b}6]");
  for (const Planning& planning : all_plannings()) {
    const Plan plan = make_plan(problem, planning.options);
    EXPECT_EQ(steps_of(plan), "") << planning.name;
    EXPECT_TRUE(plan.cost.optimal) << planning.name;
  }
}

// The bounds of wide plans are of the paper's weights; under others they would be above what the plans cost.
TEST(WidePlanner, claims_no_bound_of_the_paper_under_volume) {
  RandomProblems random(32);
  for (const char* text : {"a=2,b=2", "a=6", "a=2,b=2,c=2", "a=3,b=2,c=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 50; ++i) {
      const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
      for (const Planning& planning : all_plannings(volume_model())) {
        const Plan plan = make_plan(problem, planning.options);
        EXPECT_LE(plan.cost.floor, plan.cost.lower_bound) << planning.name << ": " << describe(problem);
        EXPECT_LE(plan.cost.lower_bound, plan.cost.total) << planning.name << ": " << describe(problem);
      }
    }
  }
}

}  // namespace
}  // namespace retile::test
