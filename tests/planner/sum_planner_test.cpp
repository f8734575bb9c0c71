// Plans that combine the parts of a sum: right by the verifier, right in a run, and bounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "retile/checking/run.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"

namespace retile {
namespace {

Problem sum_problem(const std::string& mesh, const std::string& source, const std::string& target,
                    ElementType element = ElementType::f32) {
  const Mesh axes = parse_mesh(mesh);
  return {"", parse_layout(source, axes), parse_layout(target, axes), element};
}

void expect_right(const Problem& problem, const PlanOptions& options) {
  const Plan plan = make_plan(problem, options);
  SCOPED_TRACE(to_string(problem));
  EXPECT_EQ(find_faults(plan), std::vector<std::string>());
  EXPECT_LE(plan.cost.lower_bound, plan.cost.total);
  const StatedPlan read = parse_plan({"plan", to_json(plan)});
  EXPECT_EQ(find_faults(read.plan, read.statements), std::vector<std::string>());
  for (const TileUse tiles : {TileUse::kept, TileUse::donated}) {
    RunOptions running;
    running.element_size = bytes_of(problem.element_type());
    running.tiles = tiles;
    const auto reference = make_reference_engine();
    const auto threads = make_threads_engine({});
    for (Engine* engine : {reference.get(), threads.get()}) {
      const RunReport report = run_plan(plan, *engine, running);
      EXPECT_EQ(report.difference.value_or(""), "") << engine->name();
      EXPECT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted) << engine->name();
    }
  }
}

TEST(SumPlanner, a_reduce_scatter_is_an_alltoall_and_a_reduction) {
  const Plan plan = make_plan(sum_problem("x=4", "[8, 16] sum {x}", "[2{x}8, 16]"));
  ASSERT_EQ(plan.steps().size(), 2U);
  EXPECT_EQ(to_string(plan.steps()[0]), "alltoall(0 -> 1; 4)");
  EXPECT_EQ(to_string(plan.steps()[1]), "reduce(0; sum)");
  EXPECT_EQ(plan.memory.peak, 128);
}

TEST(SumPlanner, under_volume_reduce_scatter_and_allreduce_are_proved_optimal) {
  PlanOptions options;
  options.cost_model = &volume_model();
  const Plan scattered = make_plan(sum_problem("x=4", "[8, 16] sum {x}", "[2{x}8, 16]"), options);
  EXPECT_EQ(scattered.cost.total, 128 * 3 / 4);
  EXPECT_TRUE(scattered.cost.optimal);
  const Plan whole = make_plan(sum_problem("x=4", "[8, 16] sum {x}", "[8, 16]"), options);
  EXPECT_EQ(whole.cost.total, 2 * 128 * 3 / 4);
  EXPECT_TRUE(whole.cost.optimal);
  const Plan replicated = make_plan(sum_problem("x=4,y=2", "[8, 16] sum {x}", "[8, 16]"), options);
  EXPECT_TRUE(replicated.cost.optimal);
}

TEST(SumPlanner, under_the_papers_model_too) {
  for (const char* target :
       {"[8, 16]", "[2{x}8, 16]", "[8, 4{x}16]", "[4{y}8, 4{x}16]", "[8, 2{y,x}16]", "[8, 8{y}16]"}) {
    const Plan plan = make_plan(sum_problem("x=4,y=2", "[8, 16] sum {x}", target));
    EXPECT_TRUE(plan.cost.optimal) << target << ": " << plan.cost.total << " of " << plan.cost.lower_bound;
  }
}

// The parts of an array on an axis as one more dimension in front: each on its devices, or all on every device.
Layout stacked(const DistributedType& type, int axis, bool is_apart) {
  const std::int64_t parts = type.mesh().axis(axis).size;
  std::vector<Dimension> dimensions{{parts, {}, parts}};
  if (is_apart) dimensions.front() = {1, {type.mesh().whole(axis)}, parts};
  dimensions.insert(dimensions.end(), type.dimensions().begin(), type.dimensions().end());
  return Layout(DistributedType(type.mesh(), std::move(dimensions)));
}

bool uses(const DistributedType& type, int axis) {
  return std::any_of(type.dimensions().begin(), type.dimensions().end(), [&](const Dimension& dimension) {
    return std::any_of(dimension.axes.begin(), dimension.axes.end(),
                       [&](const AxisPart& part) { return part.axis == axis; });
  });
}

// By all pieces that there are.
TEST(SumPlanner, no_pieces_are_cheaper_than_the_bound) {
  int proved = 0;
  int problems = 0;
  for (const char* text : {"x=2,y=2", "x=2,y=3", "x=4"}) {
    const Mesh mesh = parse_mesh(text);
    const std::vector<DistributedType> types = test::all_types(mesh, {12, 6 * mesh.device_count()});
    const auto cost = [](const Layout& from, const Layout& to) { return make_plan(Problem("", from, to)).cost.total; };
    for (const DistributedType& source : types) {
      if (uses(source, 0)) continue;
      std::vector<std::int64_t> first;  // by pieces
      for (const DistributedType& pieces : types)
        first.push_back(cost(stacked(source, 0, true), stacked(pieces, 0, false)));
      for (const DistributedType& target : types) {
        std::int64_t least = INT64_MAX;
        for (std::size_t i = 0; i < types.size(); ++i) {
          least = std::min(least, first[i] + cost(Layout(types[i]), Layout(target)));
        }
        MeshLayout parts = *Layout(source).cuts();
        parts.partial = {mesh.whole(0)};
        const Plan plan = make_plan(Problem("", Layout(std::move(parts)), Layout(target)));
        EXPECT_GE(least, plan.cost.lower_bound) << to_string(source) << " to " << to_string(target);
        proved += plan.cost.optimal ? 1 : 0;
        ++problems;
      }
    }
  }
  EXPECT_EQ(proved, problems);
}

TEST(SumPlanner, memory_stays_within_source_and_target_where_everything_divides) {
  for (const char* target : {"[8, 16]", "[2{x}8, 16]", "[8, 4{x}16]", "[4{y}8, 4{x}16]", "[8, 2{y,x}16]"}) {
    const Problem problem = sum_problem("x=4,y=2", "[8, 16] sum {x}", target);
    const Plan plan = make_plan(problem);
    EXPECT_LE(plan.memory.peak, std::max(plan.memory.source, plan.memory.target)) << target;
  }
}

TEST(SumPlanner, every_element_type_is_combined) {
  int count = 0;
  for (int i = 0; i <= static_cast<int>(ElementType::c128); ++i) {
    const auto element = static_cast<ElementType>(i);
    if (!can_be_combined(element)) continue;
    expect_right(sum_problem("x=4,y=2", "[4{y}8, 7] sum {x}", "[8, 4{y}7]", element), {});
    ++count;
  }
  EXPECT_EQ(count, 14);
}

TEST(SumPlanner, the_same_sum_elsewhere_is_only_moved) {
  const Plan plan = make_plan(sum_problem("x=2,y=2", "[4{y}8, 6] sum {x}", "[8, 3{y}6] sum {x}"));
  for (const Step& step : plan.steps()) EXPECT_NE(op_of(step), StepOp::reduce);
  EXPECT_EQ(find_faults(plan), std::vector<std::string>());
}

TEST(SumPlanner, random_sums_are_right) {
  std::mt19937 random(7);
  const auto pick = [&](int most) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(most)); };
  const Mesh mesh = parse_mesh("x=2,y=3,z=2");
  for (int round = 0; round < 60; ++round) {
    const Shape shape{1 + pick(9), 1 + pick(9)};
    MeshLayout source{mesh, {{{shape[0], {}}}, {{shape[1], {}}}}, UnevenRule::ceiling, {}, Reduction::sum, {}};
    MeshLayout target = source;
    source.reduction = target.reduction = static_cast<Reduction>(pick(3));
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t use = pick(4);  // a part, a cut of a dimension, or nothing
      if (use == 0) source.partial.push_back(mesh.whole(axis));
      if (use == 1 || use == 2) source.view[static_cast<std::size_t>(use - 1)].front().axes.push_back(mesh.whole(axis));
      const std::int64_t target_use = pick(3);
      if (target_use < 2) target.view[static_cast<std::size_t>(target_use)].front().axes.push_back(mesh.whole(axis));
      if (target_use == 2 && use == 0 && pick(2) == 0) target.partial.push_back(mesh.whole(axis));
    }
    PlanOptions options;
    options.cost_model = round % 2 == 0 ? &paper_model() : &volume_model();
    options.planner = round % 3 == 0 ? PlannerKind::paper : PlannerKind::automatic;
    expect_right(Problem("", Layout(source), Layout(target)), options);
  }
}

TEST(SumPlanner, views_go_to_any_target_within_the_bound) {
  const std::vector<const char*> layouts{"[24, 8]",       "[6{y}24, 8]",        "[2*3{y}12, 8]", "[3*1{y}4*2, 8]",
                                         "[24, 2*1{y}4]", "[2*2{z}4*3, 2{y}8]", "[3{z,y}24, 8]"};
  for (const char* from : layouts) {
    for (const char* to : layouts) {
      for (const char* sums : {"", " sum {x}"}) {
        const Problem problem = sum_problem("x=4,y=4,z=2", std::string(from) + " sum {x}", std::string(to) + sums);
        expect_right(problem, {});
        const Plan plan = make_plan(problem);
        EXPECT_LE(plan.memory.peak, std::max(plan.memory.source, plan.memory.target)) << to_string(problem);
      }
    }
  }
}

TEST(SumPlanner, a_target_may_be_a_sum_over_a_part_of_an_axis) {
  expect_right(sum_problem("x=4,y=2", "[8] sum {x}", "[8] sum {x:(1)2}"), {});
  expect_right(sum_problem("x=4,y=2", "[8] sum {x}", "[4{y}8] sum {x:(2)2}"), {});
}

TEST(SumPlanner, sums_that_cannot_be_are_refused) {
  const auto fault = [](const char* source, const char* target, ElementType element = ElementType::f32) {
    return test::diagnostic_of([&] { return sum_problem("x=2,y=2", source, target, element); });
  };
  EXPECT_EQ(fault("[4{x}8] sum {x}", "[8]"),
            "layout:1:14: error: axis x is used twice\n"
            "    1 | [4{x}8] sum {x}\n"
            "      |              ^\n"
            "hint: the devices along an axis hold either tiles or parts of a sum\n");
  EXPECT_EQ(fault("[8]", "[8] sum {x}"),
            "error: the target is a sum that the source is not\n"
            "hint: a target may be the same sum over fewer axes of the source's mesh\n");
  EXPECT_EQ(fault("[8] sum {x}", "[8] sum {y}"),
            "error: the target is a sum over y, and the source is not\n"
            "hint: a target may be the same sum over fewer axes of the source's mesh\n");
  EXPECT_EQ(fault("[8] max {x}", "[8]", ElementType::c64), "error: complex numbers have no max\n");
  EXPECT_EQ(fault("[8] sum {x}", "[8]", ElementType::boolean),
            "error: parts of bool cannot be combined\n"
            "hint: retile combines i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128\n");
  EXPECT_EQ(fault("[9223372036854775807] sum {x}", "[9223372036854775807]"),
            "error: the parts of the sum together do not fit in 63 bits\n");
}

TEST(SumPlanner, the_verifier_sees_parts_that_cannot_be_combined) {
  Plan plan = make_plan(sum_problem("x=4", "[8, 16] sum {x}", "[2{x}8, 16]"));
  for (Step& step : plan.movement.steps) {
    if (auto* reduce = std::get_if<ReduceStep>(&step.operation)) reduce->element = ElementType::f8e5m2;
  }
  const std::vector<std::string> faults = find_faults(plan);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults.front(), "step 1 (reduce): parts of f8e5m2 cannot be combined");
}

TEST(SumPlanner, the_verifier_sees_parts_that_are_missing) {
  Plan plan = make_plan(sum_problem("x=4", "[8, 16] sum {x}", "[2{x}8, 16]"));
  plan.movement.steps.erase(plan.movement.steps.begin());
  plan.cost.steps.erase(plan.cost.steps.begin());
  const std::vector<std::string> faults = find_faults(plan);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults.front(), "step 0 (reduce): device 0 holds [0:1, 0:8, 0:16], not all parts along dimension 0");
}

}  // namespace
}  // namespace retile
