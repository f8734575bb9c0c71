#include "retile/costs/cost_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <sstream>

#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/planner/bound_check.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"
#include "tests/support/problems.h"

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

std::vector<const CostModel*> all_models() {
  std::vector<const CostModel*> models;
  std::istringstream names(cost_model_names());
  for (std::string name; std::getline(names >> std::ws, name, ',');) models.push_back(find_cost_model(name));
  return models;
}

TEST(CostModel, has_its_name_in_the_plan_format) {
  EXPECT_STREQ(paper_model().name(), "paper");
  EXPECT_STREQ(volume_model().name(), "volume");
  EXPECT_EQ(find_cost_model("paper"), &paper_model());
  EXPECT_EQ(find_cost_model("volume"), &volume_model());
  EXPECT_EQ(find_cost_model("Paper"), nullptr);
  EXPECT_EQ(find_cost_model(""), nullptr);
  EXPECT_EQ(cost_model_names(), "paper, volume");
  EXPECT_EQ(all_models(), (std::vector<const CostModel*>{&paper_model(), &volume_model()}));
}

TEST(CostModel, prices_each_kind_of_step) {
  const auto samples = test::sample_plans();
  for (const Costs& costs : sample_costs) {
    const Movement& movement = test::sample_plan(samples, costs.sample).movement;
    for (const Movement& either : {movement, test::without_lists(movement)}) {
      EXPECT_EQ(step_cost(paper_model(), either.steps.front(), either.source), costs.paper) << costs.sample;
      EXPECT_EQ(step_cost(volume_model(), either.steps.front(), either.source), costs.volume) << costs.sample;
    }
  }
}

TEST(CostModel, counts_nothing_for_a_permutation_that_stays) {
  const Placement placement(parse_type("[2{a}4]", parse_mesh("a=2")));
  for (const Step& step : {test::permute_step(placement, placement), Step{PermuteStep{}, placement}}) {
    EXPECT_EQ(step_cost(paper_model(), step, placement), 2);
    EXPECT_EQ(step_cost(volume_model(), step, placement), 0);
  }
}

// --- What searches rely on, of every model.

// Sizes that a step can have: after a slice no larger, after an alltoall or a permutation as large, after a gather
// larger by what is received.
struct Sizes {
  StepOp op = StepOp::dynslice;
  std::int64_t before = 1;
  std::int64_t after = 1;
  std::int64_t received = 0;
};

Sizes arbitrary_work(StepOp op) {
  Sizes work{op, *rc::gen::inRange<std::int64_t>(1, 1000), 1, 0};
  const std::int64_t factor = *rc::gen::inRange<std::int64_t>(1, 20);
  work.after = work.before;
  if (op == StepOp::dynslice) {
    work.before *= factor;
  } else if (op == StepOp::allgather) {
    work.after *= factor;
    work.received = work.after - work.before;
  } else {
    if (op == StepOp::exchange) work.after = *rc::gen::inRange<std::int64_t>(1, 1000);
    work.received = *rc::gen::inRange<std::int64_t>(0, work.after + 1);
  }
  return work;
}

std::int64_t cost(const CostModel& model, const Sizes& work) {
  return model.cost({work.op, work.before, work.after, work.received, 4});
}

const std::vector<StepOp> all_ops{StepOp::dynslice, StepOp::alltoall, StepOp::allgather, StepOp::allpermute,
                                  StepOp::exchange};

RC_GTEST_PROP(CostModelContract, slices_cost_nothing_and_nothing_costs_less, ()) {
  for (const CostModel* model : all_models()) {
    RC_ASSERT(cost(*model, arbitrary_work(StepOp::dynslice)) == 0);
    for (const StepOp op : all_ops) RC_ASSERT(cost(*model, arbitrary_work(op)) >= 0);
  }
}

RC_GTEST_PROP(CostModelContract, no_cost_falls_when_anything_grows, ()) {
  for (const CostModel* model : all_models()) {
    for (const StepOp op : all_ops) {
      const Sizes work = arbitrary_work(op);
      Sizes more = work;
      more.before += *rc::gen::inRange(0, 100);
      more.after += *rc::gen::inRange(0, 100);
      more.received += *rc::gen::inRange(0, 100);
      RC_ASSERT(cost(*model, more) >= cost(*model, work));
    }
  }
}

RC_GTEST_PROP(CostModelContract, gathers_in_series_cost_no_less_than_one, ()) {
  for (const CostModel* model : all_models()) {
    const Sizes first = arbitrary_work(StepOp::allgather);
    const std::int64_t factor = *rc::gen::inRange<std::int64_t>(1, 20);
    const Sizes second{StepOp::allgather, first.after, first.after * factor, first.after * (factor - 1)};
    const Sizes both{StepOp::allgather, first.before, second.after, second.after - first.before};
    RC_ASSERT(cost(*model, first) + cost(*model, second) >= cost(*model, both));
  }
}

RC_GTEST_PROP(CostModelContract, no_step_costs_less_than_what_it_brings, ()) {
  for (const CostModel* model : all_models()) {
    for (const StepOp op : all_ops) {
      const Sizes work = arbitrary_work(op);
      RC_ASSERT(cost(*model, work) >= model->least_cost(work.received, work.after));
    }
    RC_ASSERT(model->least_cost(0, 100) == 0);
  }
}

// --- What a model sees.

// Counts the pairs of devices that talk to each other, times the bytes of an element.
class PairModel final : public CostModel {
 public:
  const char* name() const override { return "pairs"; }
  std::int64_t cost(const StepWork& work) const override {
    const std::optional<StepOperation> listed = work.listed();
    if (!listed) return 0;
    std::int64_t pairs = 0;
    if (const Groups* groups = groups_of(*listed)) {
      for (const std::vector<Device>& group : *groups) pairs += std::ssize(group) * (std::ssize(group) - 1);
    }
    if (const auto* exchange = std::get_if<ExchangeStep>(&*listed)) pairs += std::ssize(*exchange->pieces);
    return pairs * work.element_size() * work.placement_before()->device_count();
  }
  std::int64_t least_cost(std::int64_t /*received*/, std::int64_t /*target_size*/) const override { return 0; }
  bool has_proofs() const override { return false; }
};

TEST(StepWork, shows_groups_placements_and_bytes_to_a_model_of_somebody_elses) {
  const Problem problem = test::problem_of("a=2,b=2", "[2{a}4, 4]", "[4, 2{b}4]");
  const PairModel pairs;
  PlanOptions options;
  options.cost_model = &pairs;
  for (const PlannerKind planner : {PlannerKind::automatic, PlannerKind::paper, PlannerKind::direct}) {
    options.planner = planner;
    const Plan plan = make_plan(problem, options);
    EXPECT_EQ(plan.cost.model, "pairs");
    EXPECT_GT(plan.cost.total, 0);
    EXPECT_EQ(plan.cost.total % (4 * 4), 0) << "f32 on four devices";
    EXPECT_EQ(find_faults(plan), std::vector<std::string>()) << "costs are not judged, all else is";
    const BoundCheck bound = check_bound(plan);
    EXPECT_EQ(bound.verdict, BoundVerdict::not_checked);
    EXPECT_EQ(bound.reason, "costs by the model \"pairs\" are not judged: there are paper, volume");
  }
}

// What a search looks at has no placements yet.
TEST(StepWork, of_sizes_alone) {
  const StepWork work(StepOp::alltoall, 8, 8, 4, 2);
  EXPECT_EQ(work.received(), 4);
  EXPECT_EQ(work.step(), nullptr);
  EXPECT_EQ(work.placement_before(), nullptr);
  EXPECT_FALSE(work.listed());
}

// Exchanges whose transfers are not listed: what devices lack, without a list of pieces.
TEST(Price, of_unlisted_exchanges_is_that_of_listed_ones) {
  test::RandomProblems random(73);
  int unlisted = 0;
  for (const char* text : {"a=30,b=9", "a=16,b=18", "a=7,b=6,c=8"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 12; ++i) {
      const Problem problem = random.problem(mesh, test::divisible_shape(mesh, 2 + i % 2));
      for (const test::Planning& planning : {test::wide_planning(volume_model()), test::direct_planning()}) {
        const Movement movement = make_plan(problem, planning.options).movement;
        for (const Step& step : movement.steps) unlisted += is_listed(step.operation) ? 0 : 1;
        EXPECT_EQ(price(volume_model(), movement).steps, price(volume_model(), with_lists(movement)).steps)
            << test::describe(problem);
      }
    }
  }
  EXPECT_GT(unlisted, 40);
}

TEST(Price, sums_up_the_steps) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const Plan plan = test::gather_slice_plan(parse_type("[2{a}4, 2{b}4]", mesh), parse_type("[4, 1{a,b}4]", mesh));
  const PlanCost volume = price(volume_model(), plan.movement);
  EXPECT_EQ(volume.model, "volume");
  EXPECT_EQ(volume.steps, (std::vector<std::int64_t>{4, 8, 0}));
  EXPECT_EQ(volume.total, 12);
  const PlanCost paper = price(paper_model(), plan.movement);
  EXPECT_EQ(paper.model, "paper");
  EXPECT_EQ(paper.steps, (std::vector<std::int64_t>{8, 16, 0}));
  EXPECT_EQ(paper.total, 8 + 16);
}

TEST(Price, refuses_a_total_beyond63_bits) {
  const DistributedType type = parse_type("[4611686018427387904]", parse_mesh("a=2"));
  const Step step = test::permute_step(Placement(type), Placement(type));
  Plan plan = test::finish_plan(type, type, {step});
  EXPECT_EQ(plan.cost.total, 4611686018427387904);
  plan.movement.steps.push_back(step);
  EXPECT_EQ(test::diagnostic_of([&] { price(paper_model(), plan.movement); }),
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

TEST(ReceivedFloor, is_what_some_device_lacks_element_by_element) {
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

TEST(ReceivedFloor, of_huge_arrays) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType halves = parse_type("[2305843009213693952{a}4611686018427387904]", mesh);
  const DistributedType others = parse_type("[2305843009213693952{b}4611686018427387904]", mesh);
  EXPECT_EQ(received_floor(halves, others), 2305843009213693952);
  const DistributedType all = parse_type("[9223372036854775807]", mesh);
  EXPECT_EQ(received_floor(all, all), 0);
}

RC_GTEST_PROP(ReceivedFloor, is_no_more_than_any_plan_costs, ()) {
  for (int i = 0; i < 20; ++i) {
    const Plan plan = *test::arbitrary_plan();
    const std::int64_t floor = received_floor(plan.source.placement(), plan.target.placement());
    for (const CostModel* model : all_models()) {
      RC_ASSERT(model->least_cost(floor, plan.movement.target().local_size()) <= price(*model, plan.movement).total);
    }
  }
}

RC_GTEST_PROP(CostModel, volume_is_never_above_paper, ()) {
  for (int i = 0; i < 20; ++i) {
    const Plan plan = *test::arbitrary_plan();
    const std::vector<std::int64_t> by_paper = price(paper_model(), plan.movement).steps;
    const std::vector<std::int64_t> by_volume = price(volume_model(), plan.movement).steps;
    for (std::size_t step = 0; step < by_paper.size(); ++step) RC_ASSERT(by_volume[step] <= by_paper[step]);
  }
}

}  // namespace
}  // namespace retile
