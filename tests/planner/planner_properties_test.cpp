// What holds of every planner's plans on every problem.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "retile/checking/run.h"
#include "retile/engines/reference/reference.h"
#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/plan_replay.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

Problem arbitrary_problem(int most_rank) {
  const Mesh mesh = *arbitrary_mesh();
  const Shape global = divisible_shape(mesh, *rc::gen::inRange(1, most_rank + 1));
  const DistributedType source = *arbitrary_type(mesh, global);
  return {"", source, *arbitrary_type(mesh, global)};
}

// --- Every plan is right, and says so truly.

RC_GTEST_PROP(PlannerProperties, every_plan_verifies, ()) {
  const Problem problem = arbitrary_problem(3);
  for (const CostModel* model : {&paper_model(), &volume_model()}) {
    for (const Planning& planning : all_plannings(*model)) {
      const Plan plan = make_plan(problem, planning.options);
      RC_ASSERT(find_faults(plan) == std::vector<std::string>());
      RC_ASSERT(plan.cost.floor <= plan.cost.lower_bound);
      RC_ASSERT(plan.cost.lower_bound <= plan.cost.total);
      RC_ASSERT(plan.cost.optimal == (plan.cost.lower_bound == plan.cost.total));
      RC_ASSERT(plan.memory.peak <= std::max(plan.memory.source, plan.memory.target));
      for (std::size_t i = 0; i < plan.steps().size(); ++i) {
        RC_ASSERT(!(plan.steps()[i].after == plan.movement.before(i)));
      }
    }
  }
}

// A wide plan does what a narrow one does in fewer steps: with exchanges, never at a higher price.
RC_GTEST_PROP(PlannerProperties, wider_is_never_dearer, ()) {
  const Problem problem = arbitrary_problem(3);
  const std::int64_t wide = make_plan(problem, wide_planning().options).cost.total;
  RC_ASSERT(wide <= make_plan(problem, portable_planning().options).cost.total);
  RC_ASSERT(wide <= make_plan(problem, paper_planning().options).cost.total);
}

// The paper's plans have no exchanges either. Nor is a bound above what is found with more effort.
void expect_no_dearer_without_exchange(const Problem& problem) {
  for (const CostModel* model : {&paper_model(), &volume_model()}) {
    Planning planning = portable_planning(*model);
    const PlanCost portable = make_plan(problem, planning.options).cost;
    const std::int64_t paper = make_plan(problem, paper_planning(*model).options).cost.total;
    planning.options.effort = 10;
    const std::int64_t with_effort = make_plan(problem, planning.options).cost.total;
    EXPECT_LE(portable.total, paper) << model->name() << ": " << describe(problem);
    EXPECT_LE(portable.lower_bound, std::min(paper, with_effort)) << model->name() << ": " << describe(problem);
  }
}

TEST(PlannerProperties, plans_without_exchanges_cost_no_more_than_the_papers) {
  // Two primes that go one way, and between them one that goes the other.
  expect_no_dearer_without_exchange(problem_of("a=2,b=5,c=3", "[40{c}120, 15{b,a}150]", "[12{b,a}120, 50{c}150]"));
  // Three moves that none of the grids between prime and prime has.
  expect_no_dearer_without_exchange(
      problem_of("a=12,b=10", "[6{b}60, 5{a:(1)4}20, 4, 3{a:(4)3}9]", "[20{a:(4)3}60, 2{b}20, 1{a:(1)4}4, 9]"));
  RandomProblems random(83);
  for (const char* text : {"a=2,b=5,c=3", "a=6,b=10", "a=12,b=10", "a=3,b=2,c=2,d=5", "a=30,b=2", "a=2,b=3,c=7"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 80; ++i)
      expect_no_dearer_without_exchange(random.problem(mesh, divisible_shape(mesh, 2 + i % 3)));
  }
}

// --- Running the plans.

void expect_moves_the_data(const Problem& problem) {
  const std::unique_ptr<Engine> engine = make_reference_engine();
  for (const Planning& planning : all_plannings()) {
    const Plan plan = make_plan(problem, planning.options);
    RunOptions options;
    options.seed = 5;
    options.element_size = 3;
    const RunReport report = run_plan(plan, *engine, options);
    EXPECT_EQ(report.difference, std::nullopt) << planning.name << ": " << describe(problem);
    EXPECT_LE(report.peak_bytes_measured, report.peak_bytes_predicted) << planning.name << ": " << describe(problem);
  }
}

TEST(PlannerProperties, plans_move_the_right_data) {
  RandomProblems random(81);
  for (const char* text : {"a=2", "a=6", "a=2,b=2,c=2", "a=3,b=2", "a=12", "a=4,b=4", "a=2,b=3,c=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 30; ++i) {
      const Shape global = random.shape(1 + i % 3, {mesh.device_count(), 1, 2, 3, 6, 12});
      expect_moves_the_data(random.problem(mesh, global));
    }
  }
}

TEST(PlannerProperties, plans_move_elements_as_a_second_opinion_has_it) {
  RandomProblems random(82);
  for (const char* text : {"a=6", "a=2,b=2,c=2", "a=3,b=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 20; ++i) {
      const Problem problem = random.problem(mesh, random.shape(1 + i % 2, {mesh.device_count(), 2, 6}));
      for (const Planning& planning : all_plannings()) {
        const Plan plan = make_plan(problem, planning.options);
        EXPECT_EQ(replay_plan(nlohmann::json::parse(to_json(plan))), std::nullopt)
            << planning.name << ": " << describe(problem);
      }
    }
  }
}

// --- Names and numbers of axes and devices change no cost.

// The mesh with its axes in another order and with other names, and a type on it that has the same parts.
struct Renaming {
  Mesh mesh;
  std::vector<int> axes;  // new index of each axis
};

Renaming random_renaming(RandomProblems& random, const Mesh& mesh) {
  const auto count = static_cast<std::size_t>(mesh.axis_count());
  const std::vector<std::int64_t> order = random.permutation(count);
  std::vector<Axis> axes(count);
  std::vector<int> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto to = static_cast<std::size_t>(order[i]);
    axes[to] = {"n" + std::to_string(order[i]), mesh.axis(static_cast<int>(i)).size};
    numbers[i] = static_cast<int>(to);
  }
  return {Mesh(axes), numbers};
}

DistributedType rename(const DistributedType& type, const Renaming& renaming) {
  std::vector<Dimension> dimensions = type.dimensions();
  for (Dimension& dimension : dimensions) {
    for (AxisPart& part : dimension.axes) part.axis = renaming.axes[static_cast<std::size_t>(part.axis)];
  }
  return {renaming.mesh, dimensions};
}

TEST(PlannerProperties, axes_may_be_renamed_and_reordered) {
  RandomProblems random(83);
  int covered = 0;
  for (const char* text : {"a=2,b=2,c=2", "a=2,b=4,c=3", "a=6,b=4", "a=2,b=3,c=5", "a=2,b=2,c=2,d=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 40; ++i) {
      const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
      const Renaming renaming = random_renaming(random, mesh);
      const Problem renamed("", rename(require_typed(problem).source(), renaming),
                            rename(require_typed(problem).target(), renaming));
      for (const Planning& planning : all_plannings()) {
        const Plan first = make_plan(problem, planning.options);
        const Plan second = make_plan(renamed, planning.options);
        EXPECT_EQ(first.cost.total, second.cost.total) << planning.name << ": " << describe(problem);
        EXPECT_EQ(first.cost.lower_bound, second.cost.lower_bound) << planning.name << ": " << describe(problem);
        EXPECT_EQ(first.memory.peak, second.memory.peak) << planning.name << ": " << describe(problem);
      }
      ++covered;
    }
  }
  EXPECT_EQ(covered, 200);
}

// Which prime part of the mesh stands where makes no difference: swapping two of one size calls devices other names.
TEST(PlannerProperties, devices_may_be_renamed) {
  RandomProblems random(84);
  for (const char* text : {"a=8", "a=2,b=4", "a=12", "a=6,b=2"}) {
    const Mesh mesh = parse_mesh(text);
    const std::vector<AxisPart>& parts = mesh.prime_parts();
    for (int i = 0; i < 40; ++i) {
      const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
      const AxisPart& a = random.pick(parts);
      const AxisPart& b = random.pick(parts);
      if (a.size != b.size) continue;
      const auto swapped = [&](const DistributedType& type) {
        std::vector<std::vector<AxisPart>> cuts;
        for (const Dimension& dimension : type.dimensions()) {
          cuts.push_back(split_into_primes(mesh, dimension.axes));
          for (AxisPart& part : cuts.back()) part = part == a ? b : part == b ? a : part;
        }
        return DistributedType::cut(mesh, type.global_shape(), cuts);
      };
      const Problem renamed("", swapped(require_typed(problem).source()), swapped(require_typed(problem).target()));
      for (const Planning& planning : all_plannings()) {
        EXPECT_EQ(make_plan(problem, planning.options).cost.total, make_plan(renamed, planning.options).cost.total)
            << planning.name << ": " << describe(problem);
      }
    }
  }
}

// Plans are the same in every run: nothing depends on addresses or time.
TEST(PlannerProperties, plans_are_reproducible) {
  RandomProblems random(85);
  const Mesh mesh = parse_mesh("a=4,b=6");
  for (int i = 0; i < 30; ++i) {
    const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
    for (const Planning& planning : all_plannings()) {
      Plan first = make_plan(problem, planning.options);
      Plan second = make_plan(problem, planning.options);
      first.planning_ns = second.planning_ns = 0;
      EXPECT_EQ(to_json(first), to_json(second));
    }
  }
}

}  // namespace
}  // namespace retile::test
