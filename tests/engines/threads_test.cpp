#include "retile/engines/threads/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/engines/reference/reference.h"
#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/error_of.h"
#include "tests/support/heap.h"
#include "tests/support/layouts.h"
#include "tests/support/plans.h"
#include "tests/support/problems.h"
#include "tests/support/whole_arrays.h"

namespace retile {
namespace {

Engine& engine_with(int threads) {
  static std::array<std::unique_ptr<Engine>, 6> engines;
  std::unique_ptr<Engine>& engine = engines.at(static_cast<std::size_t>(threads));
  if (!engine) engine = make_threads_engine({threads, no_memory_limit});
  return *engine;
}

// Every execution works its copies out.
Engine& engine_without_lists() {
  static const std::unique_ptr<Engine> engine = make_threads_engine({3, no_memory_limit, 0});
  return *engine;
}

Tiles source_tiles(const Movement& movement, std::int64_t element_size) {
  Tiles tiles;
  for (Device device = 0; device < movement.mesh.device_count(); ++device) {
    tiles.push_back(make_tile({movement.source.global_shape(), element_size, 1}, movement.source.box(device)));
  }
  return tiles;
}

// Buffers of a size that start this many bytes after a multiple of 64.
class ShiftedBuffers {
 public:
  ShiftedBuffers(std::size_t count, std::int64_t bytes, std::size_t shift) {
    for (std::size_t i = 0; i < count; ++i) {
      buffers_.emplace_back(static_cast<std::size_t>(bytes) + shift);
      starts_.push_back(buffers_.back().data() + shift);
      std::fill_n(starts_.back(), bytes, std::byte{0xEE});
    }
  }
  ShiftedBuffers(const Tiles& tiles, std::size_t shift)
      : ShiftedBuffers(tiles.size(), static_cast<std::int64_t>(tiles[0].bytes.size()), shift) {
    for (std::size_t i = 0; i < tiles.size(); ++i) std::copy(tiles[i].bytes.begin(), tiles[i].bytes.end(), starts_[i]);
  }

  std::span<std::byte* const> starts() const { return starts_; }
  std::vector<const std::byte*> const_starts() const { return {starts_.begin(), starts_.end()}; }
  bool holds(const Tiles& tiles) const {
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      if (!std::equal(tiles[i].bytes.begin(), tiles[i].bytes.end(), starts_[i])) return false;
    }
    return tiles.size() == starts_.size();
  }

 private:
  std::vector<Buffer> buffers_;
  std::vector<std::byte*> starts_;
};

struct Setting {
  std::int64_t element_size = 4;
  int threads = 2;
  std::size_t shift = 0;  // of kept buffers
};

std::string fault_of(const RunStatistics& is, const RunStatistics& reference) {
  if (is.peak_measured > is.peak_predicted) return "the peak is above the prediction";
  if (is.received_max != reference.received_max) return "other bytes are received";
  return is.seconds >= 0 ? "" : "time runs backwards";
}

// What is wrong with the plan's runs, of kept and of donated tiles; "" where they are what the reference engine does.
std::string fault_of(const Plan& plan, const Setting& setting, Engine& engine) {
  const Movement movement = plan.movement;
  const Tiles sources = source_tiles(movement, setting.element_size);
  Tiles expected = sources;
  const RunStatistics reference = make_reference_engine()->prepare(movement, setting.element_size)->execute(expected);

  const std::unique_ptr<PreparedRun> prepared = engine.prepare(movement, setting.element_size);
  Tiles donated = sources;
  const RunStatistics of_donated = prepared->execute(donated);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (donated[i].box != expected[i].box || donated[i].bytes != expected[i].bytes) return "donated tiles differ";
  }
  if (std::string fault = fault_of(of_donated, reference); !fault.empty()) return "donated: " + fault;
  if (of_donated.peak_predicted > 2 * plan.memory.peak * setting.element_size) return "more than two tiles at once";

  const ShiftedBuffers from(sources, setting.shift);
  const ShiftedBuffers to(expected.size(), static_cast<std::int64_t>(expected[0].bytes.size()), setting.shift);
  for (int i = 0; i < 2; ++i) {
    const RunStatistics of_kept = prepared->execute(from.const_starts(), to.starts());
    if (!to.holds(expected)) return "kept tiles differ";
    if (!from.holds(sources)) return "a source is overwritten";
    if (std::string fault = fault_of(of_kept, reference); !fault.empty()) return "kept: " + fault;
    if (of_kept.peak_measured != of_kept.peak_predicted) return "kept: the peak is not as predicted";
  }
  return "";
}

std::string fault_of(const Plan& plan, const Setting& setting) {
  std::string fault = fault_of(plan, setting, engine_with(setting.threads));
  if (fault.empty()) fault = fault_of(plan, setting, engine_without_lists());
  return fault;
}

Setting arbitrary_setting() {
  Setting setting;
  setting.element_size = *rc::gen::element(1, 2, 3, 4, 8, 16);
  setting.threads = *rc::gen::element(1, 2, 3, 4, 5);
  setting.shift = *rc::gen::element<std::size_t>(0, 1, 4, 37);
  return setting;
}

TEST(Threads, run_every_sample) {
  for (const test::SamplePlan& sample : test::sample_plans()) {
    for (const std::int64_t element_size : {1, 2, 3, 4, 8, 16}) {
      for (const int threads : {1, 2, 5}) {
        EXPECT_EQ(fault_of(sample.plan, {element_size, threads, 1}), "") << sample.name;
      }
    }
  }
}

RC_GTEST_PROP(Threads, run_random_plans, ()) {
  for (int i = 0; i < 10; ++i) {
    const Plan plan = *test::arbitrary_plan();
    RC_ASSERT(fault_of(plan, arbitrary_setting()) == "");
  }
}

Setting random_setting(test::RandomProblems& random) {
  return {random.pick(std::vector<std::int64_t>{1, 2, 3, 4, 8, 16}), static_cast<int>(1 + random.number(5)),
          random.number(3)};
}

const std::vector<std::string> meshes{"a=2",     "a=6",         "a=12",        "a=2,b=3", "a=2,b=2,c=3",
                                      "a=4,b=5", "a=2,b=2,c=2", "a=3,b=3,c=2", "a=16",    "a=1"};

// Sizes that leave tiles of one element are among them.
TEST(Threads, run_the_plans_of_all_planners) {
  test::RandomProblems random(7);
  int covered = 0;
  for (int i = 0; i < 400; ++i) {
    const Mesh mesh = parse_mesh(random.pick(meshes));
    const int rank = static_cast<int>(1 + random.number(3));
    const Problem problem = random.problem(mesh, random.shape(rank, {mesh.device_count(), 1, 2, 6, 12}));
    std::vector<Plan> plans{test::gather_slice_plan(require_typed(problem).source(), require_typed(problem).target())};
    for (const test::Planning& planning : test::all_plannings()) plans.push_back(make_plan(problem, planning.options));
    for (const Plan& plan : plans) {
      EXPECT_EQ(fault_of(plan, random_setting(random)), "") << plan.planner << ": " << test::describe(problem);
      ++covered;
    }
  }
  EXPECT_EQ(covered, 2000);
}

// Enough bytes for many tasks, and runs of all lengths.
TEST(Threads, share_out_larger_arrays) {
  test::RandomProblems random(11);
  for (int i = 0; i < 30; ++i) {
    const Mesh mesh = parse_mesh(random.pick(meshes));
    const Shape shape = random.pick(std::vector<Shape>{{240, 480}, {48, 60, 48}, {120240}, {60, 48, 8, 6}, {60, 2880}});
    const Problem problem = random.problem(mesh, shape);
    const test::Planning planning = random.pick(test::all_plannings());
    const Plan plan = make_plan(problem, planning.options);
    EXPECT_EQ(fault_of(plan, {4, static_cast<int>(1 + i % 5), static_cast<std::size_t>(i % 2)}), "")
        << plan.planner << ": " << test::describe(problem);
  }
}

// More than caches hold: long runs go around them.
TEST(Threads, stream_large_arrays) {
  for (const char* target : {"[2048, 512{a}2048]", "[1024{b}2048, 1024{a:(1)2}2048]", "[2048, 2048]"}) {
    const Problem problem = test::problem_of("a=4,b=2", "[512{a}2048, 2048]", target);
    EXPECT_EQ(fault_of(make_plan(problem), {4, 3, 3}), "") << target;
  }
}

TEST(Threads, run_symbolic_plans) {
  const Problem problem = test::problem_of("a=32,b=32", "[2{a}64, 2{b}64]", "[2{b}64, 2{a}64]");
  for (const test::Planning& planning : test::all_plannings()) {
    EXPECT_EQ(fault_of(make_plan(problem, planning.options), {2, 2, 0}), "") << planning.name;
  }
  EXPECT_FALSE(is_listed(make_plan(problem).steps().front().operation)) << "otherwise this tests nothing of its own";
}

TEST(Threads, run_plans_of_many_pieces_between_meshes) {
  const Plan plan =
      make_plan(test::problem_of(test::ProblemText{"a=64", "[2{a}96, 96]", "a=16,b=3", "[96, 2{a,b}96]"}));
  ASSERT_FALSE(is_listed(plan.steps().front().operation)) << "otherwise this tests nothing of its own";
  EXPECT_EQ(fault_of(plan, {2, 2, 0}), "");
}

// A million pieces of one element each, in a million pairs of devices.
TEST(Threads, keep_no_list_of_all_pairs_of_devices) {
  if (!test::heap_can_be_measured) GTEST_SKIP();
  const Problem problem = test::problem_of("x=1024", "[1{x}1024, 1024]", "[1024, 1{x}1024]");
  for (const test::Planning& planning : {test::wide_planning(), test::direct_planning()}) {
    const Movement movement = make_plan(problem, planning.options).movement;
    const std::int64_t before = test::heap_bytes();
    const std::unique_ptr<PreparedRun> prepared = engine_with(2).prepare(movement, 4);
    EXPECT_LT(test::heap_bytes() - before, 4 << 20) << planning.name;
    Tiles tiles = source_tiles(movement, 4);
    prepared->execute(tiles);
    const Tile array = make_array({1024, 1024}, 4, 1);
    EXPECT_EQ(find_difference(array, tiles, movement.target(), 4), std::nullopt) << planning.name;
  }
}

// What was kept for the next execution comes again with it.
TEST(Threads, give_scratch_back) {
  if (!test::heap_can_be_measured) GTEST_SKIP();
  const Problem problem = test::problem_of("a=4,b=2", "[512{a}2048, 512{b}1024]", "[1024{b}2048, 1024]");
  const Movement movement = make_plan(problem, test::paper_planning().options).movement;
  const std::int64_t ends = (movement.source.local_size() + movement.target().local_size()) * 4;
  const std::int64_t scratch = predict_peak_bytes(movement, 4, TileUse::kept) - ends;
  ASSERT_GT(scratch, 0);
  const Tiles sources = source_tiles(movement, 4);
  const ShiftedBuffers from(sources, 0);
  const ShiftedBuffers to(8, movement.target().local_size() * 4, 0);
  Tiles expected = sources;
  const std::unique_ptr<PreparedRun> prepared = engine_with(2).prepare(movement, 4);
  prepared->execute(expected);
  for (int i = 0; i < 2; ++i) {
    prepared->execute(from.const_starts(), to.starts());
    EXPECT_TRUE(to.holds(expected));
    const std::int64_t with_scratch = test::heap_bytes();
    prepared->free_scratch();
    EXPECT_GE(with_scratch - test::heap_bytes(), 8 * scratch);
  }
}

TEST(Threads, copy_kept_tiles_where_nothing_moves) {
  const auto samples = test::sample_plans();
  const Plan& plan = test::sample_plan(samples, "nothing");
  EXPECT_EQ(fault_of(plan, {3, 2, 1}), "");
  const Movement movement = plan.movement;
  Tiles tiles = source_tiles(movement, 2);
  const std::byte* first = tiles[0].bytes.data();
  const RunStatistics statistics = engine_with(2).prepare(movement, 2)->execute(tiles);
  EXPECT_EQ(tiles[0].bytes.data(), first) << "donated tiles stay where they are";
  EXPECT_EQ(statistics.peak_measured, static_cast<std::int64_t>(tiles[0].bytes.size()));
}

TEST(Threads, keep_no_more_than_two_tiles_alive_in_a_sequence) {
  const Problem problem = test::problem_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]");
  const Plan plan = make_plan(problem, test::paper_planning().options);
  ASSERT_EQ(test::kinds(plan), "saag");
  Tiles tiles = source_tiles(plan.movement, 4);
  const RunStatistics statistics = engine_with(2).prepare(plan.movement, 4)->execute(tiles);
  EXPECT_EQ(statistics.peak_predicted, (64 + 256) * 4) << "the slice is never made: 256 + 64, 64 + 64, 64 + 256";
  EXPECT_EQ(statistics.peak_measured, (64 + 256) * 4);
  const ShiftedBuffers from(source_tiles(plan.movement, 4), 0);
  const ShiftedBuffers to(32, 256 * 4, 0);
  const RunStatistics kept = engine_with(2).prepare(plan.movement, 4)->execute(from.const_starts(), to.starts());
  EXPECT_EQ(kept.peak_measured, (256 + 256 + 64) * 4) << "the tile in the middle lies in the target's memory";
}

TEST(Threads, run_many_times) {
  const Problem problem = test::problem_of("a=2,b=3", "[30{a}60, 60]", "[60, 10{b,a}60]");
  const Movement movement = make_plan(problem).movement;
  const std::unique_ptr<PreparedRun> prepared = engine_with(3).prepare(movement, 8);
  const Tiles sources = source_tiles(movement, 8);
  Tiles expected = sources;
  prepared->execute(expected);
  const ShiftedBuffers from(sources, 8);
  for (int i = 0; i < 500; ++i) {
    const ShiftedBuffers to(6, 60 * 10 * 8, 8);
    prepared->execute(from.const_starts(), to.starts());
    ASSERT_TRUE(to.holds(expected)) << i;
  }
}

TEST(Threads, serve_several_callers) {
  const Problem problem = test::problem_of("a=4", "[128{a}512, 256]", "[512, 64{a}256]");
  const Movement movement = make_plan(problem).movement;
  const Tiles sources = source_tiles(movement, 4);
  Tiles expected = sources;
  engine_with(1).prepare(movement, 4)->execute(expected);
  Engine& engine = engine_with(2);
  std::vector<std::thread> callers;
  std::array<bool, 3> right{};
  for (bool& mine : right) {
    callers.emplace_back([&] {
      const std::unique_ptr<PreparedRun> prepared = engine.prepare(movement, 4);
      const ShiftedBuffers from(sources, 0);
      const ShiftedBuffers to(4, 512 * 64 * 4, 0);
      for (int i = 0; i < 10; ++i) prepared->execute(from.const_starts(), to.starts());
      mine = to.holds(expected);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(right, ::testing::Each(true));
}

TEST(Threads, runs_outlive_the_engine) {
  const Problem problem = test::problem_of("a=4", "[128{a}512, 256]", "[512, 64{a}256]");
  const Movement movement = make_plan(problem).movement;
  std::unique_ptr<Engine> engine = make_threads_engine({2, no_memory_limit});
  const std::unique_ptr<PreparedRun> prepared = engine->prepare(movement, 4);
  engine.reset();
  Tiles tiles = source_tiles(movement, 4);
  prepared->execute(tiles);
  const Tile array = make_array({512, 256}, 4, 1);
  EXPECT_EQ(find_difference(array, tiles, movement.target(), 4), std::nullopt);
}

TEST(Threads, say_where_tiles_do_not_fit) {
  const Problem problem = test::problem_of("a=4", "[2{a}8, 8]", "[8, 2{a}8]");
  const Movement movement = make_plan(problem).movement;
  const std::unique_ptr<Engine> tight = make_threads_engine({2, 127});
  Tiles tiles = source_tiles(movement, 4);
  const std::unique_ptr<PreparedRun> prepared = tight->prepare(movement, 4);
  EXPECT_EQ(test::error_of([&] { prepared->execute(tiles); }),
            "no memory for a tile of 64 bytes on device 0: it holds 64 and may hold 127");
  const std::unique_ptr<Engine> enough = make_threads_engine({2, 128});
  tiles = source_tiles(movement, 4);
  EXPECT_EQ(test::error_of([&] { enough->prepare(movement, 4)->execute(tiles); }), "");
}

// Any allocation of a run may fail; the prepared run still serves after it.
TEST(Threads, survive_every_failed_allocation) {
  const Problem problem = test::problem_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]");
  const Movement movement = make_plan(problem, test::paper_planning().options).movement;
  const Tiles sources = source_tiles(movement, 1);
  const ShiftedBuffers from(sources, 0);
  const ShiftedBuffers to(32, 256, 0);
  for (const std::int64_t limit : {256, 319, 320, 575, 576}) {
    const std::unique_ptr<Engine> engine = make_threads_engine({2, limit});
    const std::unique_ptr<PreparedRun> prepared = engine->prepare(movement, 1);
    Tiles tiles = sources;
    const std::string donated = test::error_of([&] { prepared->execute(tiles); });
    EXPECT_EQ(donated.empty(), limit >= 320) << limit << ": " << donated;
    for (int i = 0; i < 2; ++i) {
      const std::string kept = test::error_of([&] { prepared->execute(from.const_starts(), to.starts()); });
      EXPECT_EQ(kept.empty(), limit >= 576) << limit << ": " << kept;
    }
    tiles = sources;
    EXPECT_EQ(test::error_of([&] { prepared->execute(tiles); }), donated);
  }
}

TEST(Threads, refuse_other_tiles_than_the_movement_starts_from) {
  const auto samples = test::sample_plans();
  const Movement movement = test::sample_plan(samples, "alltoall").movement;
  const std::unique_ptr<PreparedRun> prepared = engine_with(2).prepare(movement, 2);
  Tiles tiles;
  EXPECT_EQ(test::error_of([&] { prepared->execute(tiles); }), "the run starts with 0 tiles for 4 devices");
  tiles = source_tiles(movement, 2);
  tiles[2].bytes = Buffer(15);
  EXPECT_EQ(test::error_of([&] { prepared->execute(tiles); }),
            "device 2 starts with [2:4, 0:4] in 15 bytes instead of [2:4, 0:4] in 16");
  const ShiftedBuffers from(source_tiles(movement, 2), 0);
  EXPECT_EQ(test::error_of([&] { prepared->execute(from.const_starts(), from.starts().first(3)); }),
            "the run is given 4 source and 3 target buffers for 4 devices");
}

// A plan that is wrong is stopped before it reads past a tile.
TEST(Threads, refuse_plans_that_are_wrong) {
  const auto samples = test::sample_plans();
  Plan plan = test::sample_plan(samples, "allpermute");
  std::get<PermuteStep>(plan.movement.steps[0].operation).pairs = {{{0, 0}, {1, 1}, {2, 2}, {3, 3}}};
  ASSERT_FALSE(find_faults(plan).empty());
  EXPECT_THROW(engine_with(2).prepare(plan.movement, 4), InternalError);
}

TEST(Threads, have_no_arrays_without_elements) {
  const Mesh mesh = parse_mesh("a=2");
  EXPECT_THROW(parse_type("[0, 4]", mesh), InputError);
  EXPECT_THROW(DistributedType(mesh, {{0, {}, 0}}), InputError);
  EXPECT_THROW(DistributedType::cut(mesh, {0}, {{}}), InputError);
}

TEST(Threads, have_their_name) {
  EXPECT_STREQ(engine_with(1).name(), "threads");
  EXPECT_EQ(engine_with(1).devices(3), (std::vector<Device>{0, 1, 2}));
  EXPECT_EQ(engine_with(1).devices_on_machine(3), 3);
  EXPECT_TRUE(engine_with(1).processes().is_speaker());
}

}  // namespace
}  // namespace retile
