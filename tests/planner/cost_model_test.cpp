#include "retile/costs/cost_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

struct Costs {
  const char* sample;
  std::int64_t paper;
  std::int64_t volume;
};

// By hand: fig:cost-model, and the most elements that a device receives.
const std::vector<Costs> sample_costs{
    {"dynslice", 0, 0},
    {"wide dynslice", 0, 0},
    {"allgather", 8, 4},                 // to 2 rows of 4, with one of them there
    {"wide allgather", 16, 12},          // to 4 x 4, with 2 x 2 there
    {"alltoall", 8, 4},                  // of 2 x 4, with half of it kept
    {"wide alltoall", 16, 12},           // of 2 x 2 x 4, with a quarter kept
    {"free alltoall", 4, 3},             // of 4 x 1, with a quarter kept
    {"allpermute", 8, 8},                // of 2 x 4
    {"exchange", 4, 4},                  // to 2 x 2; device 2 held row 1 and needs rows 2 and 3
    {"exchange of other sizes", 12, 8},  // to 6 x 2, with 2 x 2 there
    {"exchange of a scalar", 1, 0},      // nobody lacks anything
    {"allpermute of a scalar", 1, 0},
};

TEST(CostModel, HasItsNameInThePlanFormat) {
  EXPECT_STREQ(name_of(CostModel::paper), "paper");
  EXPECT_STREQ(name_of(CostModel::volume), "volume");
  EXPECT_EQ(find_cost_model("paper"), CostModel::paper);
  EXPECT_EQ(find_cost_model("volume"), CostModel::volume);
  EXPECT_EQ(find_cost_model("Paper"), std::nullopt);
  EXPECT_EQ(find_cost_model(""), std::nullopt);
  EXPECT_EQ(cost_model_names, "paper, volume");
}

TEST(CostModel, PricesEachKindOfStep) {
  const auto samples = test::sample_plans();
  for (const Costs& costs : sample_costs) {
    const Step& step = test::sample_plan(samples, costs.sample).steps.front();
    EXPECT_EQ(step_cost(CostModel::paper, step), costs.paper) << costs.sample;
    EXPECT_EQ(step_cost(CostModel::volume, step), costs.volume) << costs.sample;
  }
}

TEST(CostModel, CountsNothingForAPermutationThatStays) {
  const Placement placement(parse_type("[2{a}4]", parse_mesh("a=2")));
  const Step step = test::permute_step(placement, placement);
  EXPECT_EQ(step_cost(CostModel::paper, step), 2);
  EXPECT_EQ(step_cost(CostModel::volume, step), 0);
}

TEST(Price, SumsUpTheSteps) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  Plan plan = test::gather_slice_plan(parse_type("[2{a}4, 2{b}4]", mesh), parse_type("[4, 1{a,b}4]", mesh));
  ASSERT_EQ(plan.steps.size(), 3U);
  price(plan, CostModel::volume);
  EXPECT_EQ(plan.cost.model, "volume");
  EXPECT_EQ(plan.steps[0].cost, 4);
  EXPECT_EQ(plan.steps[1].cost, 8);
  EXPECT_EQ(plan.steps[2].cost, 0);
  EXPECT_EQ(plan.cost.total, 12);
  price(plan, CostModel::paper);
  EXPECT_EQ(plan.cost.model, "paper");
  EXPECT_EQ(plan.cost.total, 8 + 16);
}

TEST(Price, RefusesATotalBeyond63Bits) {
  const DistributedType type = parse_type("[4611686018427387904]", parse_mesh("a=2"));
  const Step step = test::permute_step(Placement(type), Placement(type));
  Plan plan = test::finish_plan(type, type, {step});
  EXPECT_EQ(plan.cost.total, 4611686018427387904);
  plan.steps.push_back(step);
  EXPECT_EQ(test::diagnostic_of([&] { price(plan, CostModel::paper); }),
            "error: the cost of the plan does not fit in 63 bits\n");
}

bool holds(const Box& box, const Shape& element) {
  for (std::size_t i = 0; i < element.size(); ++i) {
    if (element[i] < box.lo[i] || element[i] >= box.hi[i]) return false;
  }
  return true;
}

// What a device lacks, element by element.
std::int64_t floor_by_brute_force(const DistributedType& source, const DistributedType& target) {
  const Shape global = source.global_shape();
  std::int64_t most = 0;
  for (Device device = 0; device < source.mesh().device_count(); ++device) {
    const Box held = Placement(source).box(device);
    const Box wanted = Placement(target).box(device);
    std::int64_t lacking = 0;
    Shape element(global.size());
    for (std::int64_t number = 0; number < source.global_size(); ++number) {
      std::int64_t rest = number;
      for (std::size_t i = element.size(); i-- > 0; rest /= global[i]) element[i] = rest % global[i];
      lacking += holds(wanted, element) && !holds(held, element) ? 1 : 0;
    }
    most = std::max(most, lacking);
  }
  return most;
}

TEST(ReceivedFloor, IsWhatSomeDeviceLacksElementByElement) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(8)) {
    for (int rank = 0; rank <= 2; ++rank) {
      const std::vector<DistributedType> types = test::all_prime_types(mesh, test::divisible_shape(mesh, rank));
      for (const DistributedType& source : types) {
        for (const DistributedType& target : types) {
          EXPECT_EQ(received_floor(source, target), floor_by_brute_force(source, target))
              << to_string(source) << " to " << to_string(target);
          ++covered;
        }
      }
    }
  }
  EXPECT_EQ(covered, 11426);
}

TEST(ReceivedFloor, OfHugeArrays) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType halves = parse_type("[2305843009213693952{a}4611686018427387904]", mesh);
  const DistributedType others = parse_type("[2305843009213693952{b}4611686018427387904]", mesh);
  EXPECT_EQ(received_floor(halves, others), 2305843009213693952);
  const DistributedType all = parse_type("[9223372036854775807]", mesh);
  EXPECT_EQ(received_floor(all, all), 0);
}

RC_GTEST_PROP(ReceivedFloor, IsNoMoreThanAnyPlanCosts, ()) {
  for (int i = 0; i < 20; ++i) {
    Plan plan = *test::arbitrary_plan();
    for (const CostModel model : {CostModel::paper, CostModel::volume}) {
      price(plan, model);
      RC_ASSERT(received_floor(plan.source, plan.target) <= plan.cost.total);
    }
  }
}

RC_GTEST_PROP(CostModel, VolumeIsNeverAbovePaper, ()) {
  for (int i = 0; i < 20; ++i) {
    const Plan plan = *test::arbitrary_plan();
    for (const Step& step : plan.steps) {
      RC_ASSERT(step_cost(CostModel::volume, step) <= step_cost(CostModel::paper, step));
    }
  }
}

}  // namespace
}  // namespace retile
