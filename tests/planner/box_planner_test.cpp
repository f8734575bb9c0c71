// One exchange between any boxes, and what holds of every planner's plans between any layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "retile/plan/json.h"
#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/planner/bound_check.h"
#include "retile/planner/frame.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/layouts.h"
#include "tests/support/plan_replay.h"

namespace retile {
namespace {

using test::RandomProblems;

// --- Every plan is right, and says so truly.

void expect_right(const Problem& problem, const Plan& plan) {
  EXPECT_EQ(find_faults(plan), std::vector<std::string>());
  const std::string text = to_json(plan);
  const StatedPlan again = parse_plan({"plan", text});
  EXPECT_EQ(to_json(again.plan), text);
  EXPECT_EQ(find_faults(again.plan, again.statements), std::vector<std::string>());
  EXPECT_EQ(test::replay_plan(nlohmann::json::parse(text)), std::nullopt);
  EXPECT_TRUE(plan.source == problem.source());
  EXPECT_TRUE(plan.target == problem.target());
  EXPECT_LE(plan.cost.floor, plan.cost.lower_bound);
  EXPECT_LE(plan.cost.lower_bound, plan.cost.total);
  EXPECT_EQ(plan.cost.optimal, plan.cost.lower_bound == plan.cost.total);
  EXPECT_LE(plan.memory.peak, std::max(plan.memory.source, plan.memory.target));
  EXPECT_EQ(name_of(check_bound(plan).verdict), std::string("confirmed")) << check_bound(plan).reason;
  for (std::size_t i = 0; i < plan.steps().size(); ++i) EXPECT_FALSE(plan.steps()[i].after == plan.movement.before(i));
}

// By every planner, under every model.
void expect_right_plans(const Problem& problem) {
  for (const CostModel* model : {&paper_model(), &volume_model()}) {
    SCOPED_TRACE(test::describe(problem) + " under " + model->name());
    const Plan wide = make_plan(problem, test::wide_planning(*model).options);
    expect_right(problem, wide);
    for (const test::Planning& planning : {test::paper_planning(*model), test::direct_planning(*model)}) {
      SCOPED_TRACE(planning.name);
      const Plan plan = make_plan(problem, planning.options);
      expect_right(problem, plan);
      if (plan.planner == "paper") {
        EXPECT_LE(wide.cost.lower_bound, plan.cost.total);
      }
    }
    PlanOptions options;
    options.cost_model = model;
    const Plan best = make_plan(problem, options);
    expect_right(problem, best);
    EXPECT_LE(best.cost.total, wide.cost.total);
    if (model == &volume_model()) {
      EXPECT_EQ(best.cost.total, best.cost.floor);
      EXPECT_TRUE(best.cost.optimal);
    }
  }
}

TEST(LayoutPlans, between_uneven_tiles_are_right) {
  RandomProblems random(31);
  const std::vector<const char*> meshes{"a=2", "a=3", "a=5", "a=2,b=2", "a=2,b=3", "a=2,b=2,c=2", "a=4,b=2"};
  for (int i = 0; i < 150 && !HasFailure(); ++i) {
    const Mesh mesh = parse_mesh(random.pick(meshes));
    const Shape shape = random.shape(static_cast<int>(1 + random.number(3)), {1, 2, 3, 4, 5, 7, 8});
    expect_right_plans({"", test::uneven_layout(random, mesh, shape), test::uneven_layout(random, mesh, shape)});
  }
}

TEST(LayoutPlans, between_any_two_are_right) {
  RandomProblems random(32);
  for (int i = 0; i < 300 && !HasFailure(); ++i) expect_right_plans(test::any_problem(random));
}

TEST(LayoutPlans, between_all_uneven_types_of_small_meshes_are_right) {
  // Every pair of layouts of 5 x 3 that ceilings cut along two axes.
  const Mesh mesh = parse_mesh("a=2,b=2");
  std::vector<Layout> layouts;
  for (const char* text : {"[5, 3]", "[3{a}5, 3]", "[3{b}5, 3]", "[5, 2{a}3]", "[5, 2{b}3]", "[2{a,b}5, 3]",
                           "[2{b,a}5, 3]", "[5, 1{a,b}3]", "[5, 1{b,a}3]", "[3{a}5, 2{b}3]", "[3{b}5, 2{a}3]"}) {
    layouts.push_back(parse_layout(text, mesh));
  }
  for (const Layout& source : layouts) {
    for (const Layout& target : layouts) {
      expect_right_plans({"", source, target});
      if (HasFailure()) return;
    }
  }
}

TEST(LayoutPlans, between_the_same_boxes_have_no_steps) {
  const auto steps = [](const test::ProblemText& text) { return test::kinds(make_plan(test::problem_of(text))); };
  EXPECT_EQ(steps({"a=2", "[3{a}5]", "b=2", "[3{b}5] balanced"}), "");
  EXPECT_EQ(steps({"a=2", "[2{a}4] on [1, 0]", "a=2", "[4] boxes {[2:4]; [0:2]}"}), "");
  EXPECT_EQ(steps({"a=2", "[1{a}2*3]", "a=2", "[3{a}6]"}), "");
}

TEST(LayoutPlans, to_less_of_the_same_are_slices) {
  EXPECT_EQ(test::kinds(make_plan(test::problem_of({"a=2", "[5]", "a=2", "[3{a}5] balanced on [1, 0]"}))), "s");
  // Two meshes that number the same devices by other digits.
  const Problem problem = test::problem_of({"a=12", "[100]", "a=2,b=3,c=2", "[50{c}100]"});
  EXPECT_EQ(test::steps_of(make_plan(problem)), "dynslice(0; 2)");
  expect_right_plans(problem);
}

// --- Senders.

struct Loads {
  std::int64_t most_sent = 0;
  std::int64_t least = 0;  // what the most loaded device sends where all share as well as they can
};

// Loads of a plan of one exchange, from devices that hold one box each.
Loads loads_of(const Plan& plan) {
  const Placement& source = plan.movement.source;
  const Placement& target = plan.movement.target();
  Loads loads;
  std::map<Device, std::int64_t> sent;
  for (const Piece& transfer : *std::get<ExchangeStep>(plan.steps().front().operation).pieces) {
    sent[transfer.from] += volume(transfer.box);
  }
  for (const auto& [device, elements] : sent) loads.most_sent = std::max(loads.most_sent, elements);
  std::map<std::pair<Shape, Shape>, std::vector<Device>> holders;
  for (Device device = 0; device < source.device_count(); ++device) {
    for (const Part& part : source.parts(device)) holders[{part.box.lo, part.box.hi}].push_back(device);
  }
  for (const auto& [corners, devices] : holders) {
    std::int64_t demand = 0;
    for (Device device = 0; device < target.device_count(); ++device) {
      if (std::find(devices.begin(), devices.end(), device) != devices.end()) continue;
      for (const Part& part : target.parts(device)) {
        const auto shared = intersect(part.box, Box{corners.first, corners.second});
        demand += shared ? volume(*shared) : 0;
      }
    }
    const auto count = static_cast<std::int64_t>(devices.size());
    loads.least = std::max(loads.least, (demand + count - 1) / count);
  }
  return loads;
}

TEST(BoxPlanner, balances_senders_between_meshes) {
  RandomProblems random(33);
  const std::vector<const char*> meshes{"a=2,b=2", "a=8",  "a=4,b=2", "a=2,b=3",
                                        "a=3",     "a=12", "a=4,b=4", "a=2,b=2,c=2"};
  int exchanges = 0;
  for (int i = 0; i < 400; ++i) {
    const Shape shape = random.shape(2 + i % 2, {64, 96, 60, 100});
    const auto layout = [&] {
      MeshLayout cuts = *test::uneven_layout(random, parse_mesh(random.pick(meshes)), shape).cuts();
      cuts.devices = random.permutation(20);
      cuts.devices.resize(static_cast<std::size_t>(cuts.mesh.device_count()));
      return Layout(std::move(cuts));
    };
    const Problem problem("", layout(), layout());
    const Plan plan = make_plan(problem, test::direct_planning().options);
    if (test::kinds(plan) != "e") continue;
    ++exchanges;
    const Loads loads = loads_of(plan);
    EXPECT_LE(static_cast<double>(loads.most_sent), 1.05 * static_cast<double>(loads.least)) << test::describe(problem);
  }
  EXPECT_GT(exchanges, 300);
}

// What holders must be able to send at most for all demands to be met: the least level at which a flow from boxes to
// their holders meets all of them, found by halving.
class SharingBound {
 public:
  SharingBound(std::vector<std::int64_t> demands, std::vector<std::vector<std::size_t>> holders, std::size_t devices)
      : demands_(std::move(demands)), holders_(std::move(holders)), devices_(devices) {}

  std::int64_t least() const {
    std::int64_t low = 0;
    std::int64_t high = std::accumulate(demands_.begin(), demands_.end(), std::int64_t{0});
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      (fits(middle) ? high : low) = fits(middle) ? middle : middle + 1;
    }
    return low;
  }

 private:
  // Augmenting paths from boxes that lack senders, through boxes whose senders could be others.
  bool fits(std::int64_t level) const {
    std::vector<std::vector<std::int64_t>> flow(demands_.size(), std::vector<std::int64_t>(devices_));
    std::vector<std::int64_t> sent(devices_);
    for (std::size_t box = 0; box < demands_.size(); ++box) {
      for (std::int64_t left = demands_[box]; left > 0;) {
        std::vector<bool> seen(devices_);
        const std::int64_t moved = push(box, left, level, flow, sent, seen);
        if (moved == 0) return false;
        left -= moved;
      }
    }
    return true;
  }

  std::int64_t push(std::size_t box, std::int64_t amount, std::int64_t level,
                    std::vector<std::vector<std::int64_t>>& flow, std::vector<std::int64_t>& sent,
                    std::vector<bool>& seen) const {
    for (const std::size_t device : holders_[box]) {
      if (seen[device]) continue;
      seen[device] = true;
      std::int64_t moved = std::min(amount, level - sent[device]);
      if (moved > 0) {
        sent[device] += moved;
        flow[box][device] += moved;
        return moved;
      }
      for (std::size_t other = 0; other < flow.size(); ++other) {
        if (other == box || flow[other][device] == 0) continue;
        moved = push(other, std::min(amount, flow[other][device]), level, flow, sent, seen);
        if (moved == 0) continue;
        flow[other][device] -= moved;
        flow[box][device] += moved;
        return moved;
      }
    }
    return 0;
  }

  const std::vector<std::int64_t> demands_;
  const std::vector<std::vector<std::size_t>> holders_;
  const std::size_t devices_;
};

// Devices hold several boxes, each with some others: what one sends of one box it need not send of another.
TEST(BoxPlanner, balances_senders_of_boxes_that_are_shared_in_any_way) {
  RandomProblems random(34);
  constexpr std::size_t devices = 8;
  for (int i = 0; i < 60; ++i) {
    BoxLayout source{{240, 240}, std::vector<std::vector<Box>>(devices + 4)};
    std::vector<std::vector<std::size_t>> holders;
    std::vector<Box> boxes;
    for (const std::int64_t row : {0, 80, 160}) {
      for (const std::int64_t column : {0, 60, 120, 180}) {
        boxes.push_back({{row, column}, {row + 80, column + 60}});
        std::vector<std::size_t>& some = holders.emplace_back();
        const std::int64_t wanted = 1 + static_cast<std::int64_t>(random.number(3));
        for (const Device device : random.permutation(devices)) {
          if (static_cast<std::int64_t>(some.size()) < wanted) some.push_back(static_cast<std::size_t>(device));
        }
        for (const std::size_t device : some) source.boxes[device].push_back(boxes.back());
      }
    }
    const Layout target = parse_layout("[60{a}240, 240] on [8, 9, 10, 11]", parse_mesh("a=4"));
    const Problem problem("", Layout(source), target);
    const Plan plan = make_plan(problem);
    EXPECT_EQ(find_faults(plan), std::vector<std::string>());
    const std::int64_t least = SharingBound(std::vector<std::int64_t>(boxes.size(), 80 * 60), holders, devices).least();
    EXPECT_LE(static_cast<double>(loads_of(plan).most_sent), 1.05 * static_cast<double>(least)) << i;
  }
}

TEST(BoxPlanner, shares_a_box_among_its_holders) {
  // Four replicas, one new device: a quarter from each.
  const Plan plan = make_plan(test::problem_of({"a=4", "[16, 4]", "a=1", "[16, 4] on [4]"}));
  ASSERT_EQ(test::kinds(plan), "e");
  EXPECT_EQ(loads_of(plan).most_sent, 16);
  EXPECT_EQ(std::get<ExchangeStep>(plan.steps()[0].operation).pieces->size(), 4U);
}

// A piece for each pair of devices: who sends what is worked out when somebody asks, and is as good.
TEST(BoxPlanner, leaves_many_pieces_to_be_listed) {
  for (const char* target : {"[48, 1{a}48]",
                             "[48, 1{a}48] on [63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, "
                             "35, 33, 31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 0, 2, "
                             "4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]"}) {
    const Problem problem = test::problem_of({"a=64", "[1{a}48, 48]", "a=48", target});
    Plan plan = make_plan(problem);
    ASSERT_EQ(test::kinds(plan), "e");
    EXPECT_FALSE(is_listed(plan.steps()[0].operation));
    expect_right(problem, plan);
    const PlanCost cost = plan.cost;
    plan.movement = with_lists(plan.movement);
    EXPECT_GT(std::get<ExchangeStep>(plan.steps()[0].operation).pieces->size(), 2048U);
    expect_right(problem, plan);
    EXPECT_EQ(price(volume_model(), plan.movement).total, cost.floor);
    const Loads loads = loads_of(plan);
    EXPECT_LE(static_cast<double>(loads.most_sent), 1.05 * static_cast<double>(loads.least));
  }
}

TEST(BoxPlanner, sends_nothing_to_devices_that_have_it) {
  const Plan plan = make_plan(test::problem_of({"a=2", "[8]", "a=4", "[8]"}));
  for (const Piece& transfer : *std::get<ExchangeStep>(plan.steps().at(0).operation).pieces) {
    EXPECT_GE(transfer.to, 2);
  }
}

// --- What cannot be.

TEST(BoxPlanner, cannot_do_without_an_exchange) {
  try {
    (void)make_plan(test::problem_of({"a=2", "[4{a}7]", "a=3", "[3{a}7]"}), test::portable_planning().options);
    FAIL() << "there is a plan";
  } catch (const InputError& error) {
    EXPECT_EQ(to_string(error.diagnostic()),
              "error: there is no plan without an exchange\n"
              "hint: no common grid has both layouts' boxes as tiles\n");
  }
}

// The world is as large as the largest device's number says, however few there are.
TEST(BoxPlanner, takes_devices_with_large_numbers) {
  const Plan plan = make_plan(test::problem_of({"a=2", "[2{a}4]", "a=2", "[2{a}4] on [1000000, 999999]"}));
  EXPECT_EQ(plan.device_count(), 1000001);
  EXPECT_EQ(plan.cost.total, 2);
}

TEST(BoxPlanner, refuses_worlds_that_are_too_large_to_list) {
  try {
    (void)make_plan(test::problem_of({"a=2", "[2{a}4]", "a=2", "[2{a}4] on [0, 2147483646]"}));
    FAIL() << "there is a plan";
  } catch (const InputError& error) {
    EXPECT_EQ(to_string(error.diagnostic()),
              "error: 2147483647 devices are too many to list what they hold\n"
              "hint: beyond types of one mesh, worlds have up to 1048576 devices\n");
  }
}

}  // namespace
}  // namespace retile
