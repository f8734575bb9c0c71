// Runs between layouts of every form: the memory before is what the source's layout says, the memory after what the
// target's does, bit by bit.
#include "tests/support/layouts.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/checking/made_array.h"
#include "retile/checking/run.h"
#include "retile/engines/engine.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/split_engine.h"

namespace retile {
namespace {

using test::RandomProblems;

const std::vector<std::unique_ptr<Engine>>& engines() {
  static const std::vector<std::unique_ptr<Engine>> all = [] {
    std::vector<std::unique_ptr<Engine>> made;
    made.push_back(make_reference_engine());
    made.push_back(make_threads_engine());
    return made;
  }();
  return all;
}

// A buffer for each of the engine's devices, as large as what it holds.
std::vector<std::vector<std::byte>> buffers_for(const Placement& placement, const std::vector<Device>& devices,
                                                std::int64_t element_size) {
  std::vector<std::vector<std::byte>> buffers;
  for (const Device device : devices) {
    buffers.emplace_back(static_cast<std::size_t>(placement.size(device) * element_size), std::byte{0xA5});
  }
  return buffers;
}

template <typename Byte, typename Buffers>
std::vector<Byte*> starts_of(Buffers& buffers) {
  std::vector<Byte*> starts;
  for (auto& buffer : buffers) starts.push_back(buffer.data());
  return starts;
}

// Between memory that lies as the problem's layouts say.
void run_kept(const Problem& problem, const Plan& plan, Engine& engine, std::int64_t element_size) {
  const Placement source = problem.source().inside(problem.device_count());
  const Placement target = problem.target().placement(problem.device_count());
  const MadeArray array{source.global_shape(), element_size, 7};
  const std::vector<Device> devices = engine.devices(problem.device_count());
  auto from = buffers_for(source, devices, element_size);
  auto to = buffers_for(target, devices, element_size);
  for (std::size_t i = 0; i < devices.size(); ++i) make_parts(array, source.parts(devices[i]), from[i].data());
  const auto before = from;
  const RunStatistics statistics =
      engine.prepare(plan.movement, element_size)->execute(starts_of<const std::byte>(from), starts_of<std::byte>(to));
  EXPECT_EQ(statistics.peak_measured, statistics.peak_predicted);
  EXPECT_EQ(from, before);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(find_difference(array, to[i].data(), devices[i], target.parts(devices[i])), std::nullopt);
  }
  // What the cost model "volume" counts is what arrives.
  std::int64_t received = 0;
  for (std::size_t i = 0; i < plan.steps().size(); ++i) received += plan.cost.steps[i];
  if (plan.cost.model == "volume") {
    EXPECT_LE(statistics.received_max, received * element_size);
  }
}

void run_donated(const Plan& plan, Engine& engine, std::int64_t element_size) {
  RunOptions options;
  options.element_size = element_size;
  options.tiles = TileUse::donated;
  const RunReport report = run_plan(plan, engine, options);
  EXPECT_EQ(report.difference, std::nullopt);
  EXPECT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted);
}

void run_everywhere(const Problem& problem, const Plan& plan, std::int64_t element_size) {
  ASSERT_EQ(find_faults(plan), std::vector<std::string>{});
  for (const std::unique_ptr<Engine>& engine : engines()) {
    SCOPED_TRACE(engine->name());
    run_kept(problem, plan, *engine, element_size);
    run_donated(plan, *engine, element_size);
  }
}

void run_by_every_planner(const Problem& problem, std::int64_t element_size) {
  for (const CostModel* model : {&paper_model(), &volume_model()}) {
    for (const PlannerKind kind : {PlannerKind::automatic, PlannerKind::wide, PlannerKind::paper, PlannerKind::direct,
                                   PlannerKind::lean, PlannerKind::gather_slice}) {
      PlanOptions options;
      options.planner = kind;
      options.cost_model = model;
      SCOPED_TRACE(test::describe(problem) + " by " + name_of(kind) + " under " + model->name());
      run_everywhere(problem, make_plan(problem, options), element_size);
    }
  }
}

TEST(Layouts, run_between_uneven_tiles) {
  RandomProblems random(1);
  const std::vector<const char*> meshes{"a=2", "a=3", "a=2,b=2", "a=2,b=3", "a=2,b=2,c=2", "a=4,b=2"};
  for (int i = 0; i < 60; ++i) {
    const Mesh mesh = parse_mesh(random.pick(meshes));
    const Shape shape = random.shape(static_cast<int>(1 + random.number(3)), {1, 2, 3, 5, 7, 8, 11, 16});
    const Problem problem("", test::uneven_layout(random, mesh, shape), test::uneven_layout(random, mesh, shape));
    run_by_every_planner(problem, i % 3 == 0 ? 16 : 4);
    if (HasFatalFailure()) return;
  }
}

TEST(Layouts, run_between_any_two) {
  RandomProblems random(2);
  for (int i = 0; i < 150; ++i) {
    run_by_every_planner(test::any_problem(random), i % 2 == 0 ? 3 : 8);
    if (HasFatalFailure()) return;
  }
}

TEST(Layouts, run_to_halos_that_wrap) {
  RandomProblems random(5);
  int wrapped = 0;
  for (int i = 0; i < 200 && wrapped < 60; ++i) {
    const Problem any = test::any_problem(random);
    const Layout target = test::with_halo(random, any.target(), test::GhostZones::wrap);
    if (target == any.target()) continue;
    ++wrapped;
    run_by_every_planner({"", any.source(), target}, i % 2 == 0 ? 3 : 8);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(wrapped, 60);
}

TEST(Layouts, run_between_views) {
  RandomProblems random(3);
  const std::vector<const char*> meshes{"a=2", "a=3", "a=2,b=2", "a=2,b=3", "a=2,b=2,c=2"};
  for (int i = 0; i < 60; ++i) {
    const Mesh mesh = parse_mesh(random.pick(meshes));
    const Shape shape = random.shape(static_cast<int>(1 + random.number(2)), {4, 6, 8, 12, 24});
    run_by_every_planner({"", test::viewed_layout(random, mesh, shape), test::viewed_layout(random, mesh, shape)}, 2);
    if (HasFatalFailure()) return;
  }
}

TEST(Layouts, run_split_over_processes) {
  RandomProblems random(4);
  for (int i = 0; i < 40; ++i) {
    const Shape shape = random.shape(2, {3, 5, 8});
    const Problem problem("", test::scattered_layout(random, shape, 7), test::scattered_layout(random, shape, 7));
    SCOPED_TRACE(test::describe(problem));
    const Plan plan = make_plan(problem);
    test::run_split(3, [&](int /*process*/, Engine& engine) {
      run_kept(problem, plan, engine, 4);
      run_donated(plan, engine, 4);
    });
  }
}

TEST(Layouts, of_empty_arrays_move_nothing) {
  for (const test::ProblemText& text : std::vector<test::ProblemText>{
           {"a=2", "[0]", "a=2", "[0{a}0]"},
           {"a=2,b=2", "[0{a}0, 3{b}5]", "a=2,b=2", "[0, 2{b,a}5]"},
           {"a=2", "[3, 0] on [1, 0]", "a=3", "[1{a}3, 0]"},
           {"a=2", "[4, 0] boxes {;}", "a=2", "[2{a}4, 0]"},
       }) {
    const Problem problem = test::problem_of(text);
    run_by_every_planner(problem, 4);
    const Plan plan = make_plan(problem);
    EXPECT_EQ(plan.cost.total, 0) << test::describe(problem);
    EXPECT_TRUE(plan.cost.optimal) << test::describe(problem);
    EXPECT_EQ(plan.memory.peak, 0) << test::describe(problem);
    EXPECT_EQ(run_plan(plan, *engines()[1]).received_bytes_max, 0);
  }
}

TEST(Layouts, take_no_memory_of_devices_that_hold_nothing) {
  // Four devices have the array, two others are to get it.
  const Problem problem = test::problem_of({"a=4", "[4{a}16, 8]", "a=2", "[8{a}16, 8] on [4, 5]"});
  const Plan plan = make_plan(problem);
  EXPECT_EQ(plan.device_count(), 6);
  EXPECT_EQ(run_plan(plan, *engines()[1]).peak_bytes_measured, 8 * 8 * 4);
}

}  // namespace
}  // namespace retile
