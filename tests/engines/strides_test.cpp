// Engines read and write buffers as they lie in the caller's memory, and touch nothing else.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/types/text.h"
#include "tests/support/plans.h"
#include "tests/support/problems.h"
#include "tests/support/strided_memory.h"
#include "tests/support/whole_arrays.h"

namespace retile {
namespace {

using test::StridedMemory;

// The buffers of all devices on one side.
class Buffers {
 public:
  Buffers(const Placement& placement, const std::vector<Strides>& strides, std::int64_t element_size) {
    for (Device device = 0; device < placement.device_count(); ++device) {
      const auto i = static_cast<std::size_t>(device);
      tiles.emplace_back(TileLayout(placement.box(device), strides.empty() ? Strides() : strides[i]), element_size, i);
    }
  }

  std::vector<const std::byte*> to_read() const {
    std::vector<const std::byte*> pointers;
    for (const StridedMemory& tile : tiles) pointers.push_back(tile.first());
    return pointers;
  }
  std::vector<std::byte*> to_write() {
    std::vector<std::byte*> pointers;
    for (StridedMemory& tile : tiles) pointers.push_back(tile.first());
    return pointers;
  }

  std::vector<StridedMemory> tiles;
};

std::vector<Strides> random_side(test::RandomProblems& random, const Placement& placement, std::int64_t element_size) {
  if (random.number(3) == 0) return {};
  const bool are_equal = random.number(2) == 0;
  std::vector<Strides> strides;
  for (Device device = 0; device < placement.device_count(); ++device) {
    const bool is_new = !are_equal || strides.empty();
    strides.push_back(is_new ? test::random_strides(random, placement.box(device), element_size) : strides.front());
  }
  return strides;
}

// "" where two runs put the right elements into the targets and changed nothing else.
std::string fault_of(Engine& engine, const Movement& movement, std::int64_t element_size,
                     const BufferStrides& strides) {
  const MadeArray array{movement.source.global_shape(), element_size, 5};
  Buffers sources(movement.source, strides.sources, element_size);
  for (StridedMemory& tile : sources.tiles) tile.put(make_tile(array, tile.layout().box));
  const std::unique_ptr<PreparedRun> run = engine.prepare(movement, element_size, strides);
  for (int i = 0; i < 2; ++i) {
    Buffers targets(movement.target(), strides.targets, element_size);
    const RunStatistics statistics = run->execute(sources.to_read(), targets.to_write());
    for (std::size_t device = 0; device < targets.tiles.size(); ++device) {
      const StridedMemory& target = targets.tiles[device];
      const auto difference = find_difference(array, target.take(), static_cast<Device>(device), target.layout().box);
      if (difference) return *difference;
      if (!target.is_unchanged_around_elements()) return "memory around a target is overwritten";
      if (!sources.tiles[device].is_unchanged()) return "a source is overwritten";
    }
    if (statistics.peak_measured > statistics.peak_predicted) return "the peak is above the prediction";
  }
  return "";
}

const std::vector<std::int64_t> element_sizes{1, 2, 3, 4, 8, 16};

TEST(StridedBuffers, are_moved_as_they_lie_by_every_plan) {
  test::RandomProblems random(51);
  const std::vector<std::unique_ptr<Engine>> engines = [] {
    std::vector<std::unique_ptr<Engine>> made;
    made.push_back(make_reference_engine());
    made.push_back(make_threads_engine({1, no_memory_limit}));
    made.push_back(make_threads_engine({3, no_memory_limit}));
    return made;
  }();
  const std::vector<std::string> meshes{"a=2", "a=6", "a=2,b=3", "a=2,b=2,c=3", "a=2,b=2,c=2", "a=1"};
  for (int i = 0; i < 300; ++i) {
    const Mesh mesh = parse_mesh(random.pick(meshes));
    const Problem problem =
        random.problem(mesh, random.shape(static_cast<int>(1 + random.number(3)), {mesh.device_count(), 1, 2, 6, 12}));
    std::vector<Plan> plans{test::gather_slice_plan(require_typed(problem).source(), require_typed(problem).target())};
    for (const test::Planning& planning : test::all_plannings()) plans.push_back(make_plan(problem, planning.options));
    const Plan& plan = random.pick(plans);
    const std::int64_t element_size = random.pick(element_sizes);
    const Movement movement = plan.movement;
    const BufferStrides strides{random_side(random, movement.source, element_size),
                                random_side(random, movement.target(), element_size)};
    for (const std::unique_ptr<Engine>& engine : engines) {
      ASSERT_EQ(fault_of(*engine, movement, element_size, strides), "")
          << engine->name() << ", " << plan.planner << ": " << test::describe(problem) << ", " << i;
    }
  }
}

TEST(StridedBuffers, are_moved_by_every_sample) {
  test::RandomProblems random(53);
  const std::unique_ptr<Engine> reference = make_reference_engine();
  const std::unique_ptr<Engine> threads = make_threads_engine({2, no_memory_limit});
  for (const test::SamplePlan& sample : test::sample_plans()) {
    const Movement movement = sample.plan.movement;
    for (int i = 0; i < 5; ++i) {
      const std::int64_t element_size = random.pick(element_sizes);
      const BufferStrides strides{random_side(random, movement.source, element_size),
                                  random_side(random, movement.target(), element_size)};
      EXPECT_EQ(fault_of(*threads, movement, element_size, strides), "") << sample.name;
      EXPECT_EQ(fault_of(*reference, movement, element_size, strides), "") << sample.name;
    }
  }
}

// Large enough for many tasks and for stores around the caches.
TEST(StridedBuffers, are_transposed_in_parts) {
  const std::unique_ptr<Engine> threads = make_threads_engine({3, no_memory_limit});
  const Problem problem = test::problem_of("a=2", "[1100{a}2200, 2300]", "[2200, 1150{a}2300]");
  const Movement movement = make_plan(problem).movement;
  const std::vector<Strides> columns(2, {4, 1100 * 4});
  const std::vector<Strides> padded(2, {1160 * 4, 4});
  EXPECT_EQ(fault_of(*threads, movement, 4, {columns, {}}), "");
  EXPECT_EQ(fault_of(*threads, movement, 4, {columns, padded}), "");
  EXPECT_EQ(fault_of(*threads, movement, 4, {{}, {{4, 2200 * 4}, {4, 2208 * 4}}}), "");
}

TEST(StridedBuffers, are_no_room_for_tiles_on_the_way) {
  const Problem problem = test::problem_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]");
  const Plan plan = make_plan(problem, test::paper_planning().options);
  ASSERT_EQ(test::kinds(plan), "saag");
  const Movement movement = plan.movement;
  const std::unique_ptr<Engine> threads = make_threads_engine({2, no_memory_limit});
  const auto peak_of = [&](const BufferStrides& strides) {
    const Buffers sources(movement.source, strides.sources, 4);
    Buffers targets(movement.target(), strides.targets, 4);
    return threads->prepare(movement, 4, strides)->execute(sources.to_read(), targets.to_write());
  };
  const std::vector<Strides> columns(32, {4, 32, 128, 256});
  EXPECT_EQ(peak_of({}).peak_measured, (256 + 256 + 64) * 4);
  EXPECT_EQ(peak_of({std::vector<Strides>(32, {4, 4, 32, 256}), {}}).peak_measured, (256 + 256 + 64) * 4);
  const RunStatistics strided = peak_of({{}, columns});
  EXPECT_EQ(strided.peak_measured, (256 + 256 + 64 + 64) * 4) << "the target has room only for its own elements";
  EXPECT_EQ(strided.peak_predicted, strided.peak_measured);
  EXPECT_EQ(threads->predict_peak_bytes(movement, 4, TileUse::kept_strided), strided.peak_predicted);
  const std::unique_ptr<Engine> tight = make_threads_engine({2, strided.peak_predicted - 1});
  const Buffers sources(movement.source, {}, 4);
  Buffers targets(movement.target(), columns, 4);
  EXPECT_THROW(tight->prepare(movement, 4, {{}, columns})->execute(sources.to_read(), targets.to_write()),
               RuntimeError);
}

TEST(StridedBuffers, are_not_donated) {
  const auto samples = test::sample_plans();
  const Movement movement = test::sample_plan(samples, "alltoall").movement;
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(make_reference_engine());
  engines.push_back(make_threads_engine());
  for (const std::unique_ptr<Engine>& engine : engines) {
    const std::unique_ptr<PreparedRun> run = engine->prepare(movement, 4, {std::vector<Strides>(4, {4, 8}), {}});
    Tiles tiles = slice_array(make_array(movement.source.global_shape(), 4, 1), movement.source, 4);
    try {
      run->execute(tiles);
      FAIL();
    } catch (const RuntimeError& error) {
      EXPECT_STREQ(error.what(), "donated tiles are packed, and the run was prepared for buffers that are not");
    }
    EXPECT_FALSE(tiles.front().bytes.empty()) << "nothing was taken";
    EXPECT_THROW(engine->prepare(movement, 4, {{}, std::vector<Strides>(4, {4, 4})}), RuntimeError);
  }
}

}  // namespace
}  // namespace retile
