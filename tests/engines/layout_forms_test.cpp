// Layouts of programs with MPI in memory of the caller's own: several boxes a device, blocks dealt out in turn with a
// leading dimension, ghost zones around the memory that is read, transposed tiles.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/plan/verify.h"
#include "retile/planner/planner.h"
#include "retile/redistribute.h"
#include "retile/types/text.h"
#include "tests/support/error_of.h"
#include "tests/support/layouts.h"
#include "tests/support/split_engine.h"

namespace retile {
namespace {

using test::error_of;
using test::RandomProblems;

Problem problem_of(const char* mesh, const char* source, const char* target) {
  return parse_problem({"mesh", mesh}, {"source", source}, {"target", target}, ElementType::f64);
}

// The tiles of an array whose elements are its numbers, packed; -1 beside its elements.
std::vector<std::vector<double>> tiles_of(const Placement& placement) {
  std::vector<std::vector<double>> tiles;
  for (Device device = 0; device < placement.device_count(); ++device) {
    std::vector<double>& tile = tiles.emplace_back(static_cast<std::size_t>(placement.size(device)), -1);
    for (const Part& part : placement.parts(device)) {
      for (std::int64_t number = 0; number < volume(part.box); ++number) {
        std::int64_t rest = number;
        std::int64_t place = part.offset;
        std::int64_t element = 0;
        std::int64_t stride = 1;
        for (std::size_t i = part.box.lo.size(); i-- > 0;) {
          const std::int64_t length = part.box.hi[i] - part.box.lo[i];
          place += rest % length * part.strides[i];
          element += (part.box.lo[i] + rest % length) * stride;
          stride *= placement.global_shape()[i];
          rest /= length;
        }
        tile[static_cast<std::size_t>(place)] = static_cast<double>(element);
      }
    }
  }
  return tiles;
}

std::vector<std::vector<double>> tiles_of(const Layout& layout) { return tiles_of(layout.placement()); }

// With ghost zones that are out of date.
std::vector<std::vector<double>> stale_tiles_of(const Layout& layout) {
  return tiles_of(layout.inside(layout.device_count()));
}

std::vector<std::span<const double>> to_read(const std::vector<std::vector<double>>& tiles) {
  return {tiles.begin(), tiles.end()};
}

std::vector<std::span<double>> to_write(std::vector<std::vector<double>>& tiles) {
  return {tiles.begin(), tiles.end()};
}

std::vector<std::vector<double>> empty_like(std::vector<std::vector<double>> tiles) {
  for (std::vector<double>& tile : tiles) std::fill(tile.begin(), tile.end(), -7);
  return tiles;
}

TEST(LayoutForms, of_several_boxes_are_moved_by_the_library) {
  for (const Problem& problem : {
           problem_of("a=2", "[12] boxes {[0:2] [4:8]; [2:4] [8:12]}", "[6{a}12]"),
           problem_of("a=2", "[3*1{a}2*2]", "[6{a}12]"),
           problem_of("a=2", "[7{a}13]", "[13 cyclic 2{a} from 1]"),
       }) {
    const std::vector<std::vector<double>> sources = tiles_of(problem.source());
    std::vector<std::vector<double>> targets = empty_like(tiles_of(problem.target()));
    redistribute<double>(problem, to_read(sources), to_write(targets));
    EXPECT_EQ(targets, tiles_of(problem.target())) << to_string(problem);
  }
}

// --- Strides of the arrays in which devices have their blocks.

// A device's own array in memory with gaps, its dimensions in any order.
struct Memory {
  MemoryLayout layout;
  std::vector<double> elements;
};

// `packed` is the array of this shape, row-major.
Memory spread_out(RandomProblems& random, const std::vector<double>& packed, const Shape& shape) {
  Memory memory{{0, Strides(shape.size())}, {}};
  std::int64_t stride = 1 + static_cast<std::int64_t>(random.number(2));
  for (const std::int64_t dimension : random.permutation(shape.size())) {
    const auto i = static_cast<std::size_t>(dimension);
    memory.layout.strides[i] = stride * 8;
    stride *= shape[i] + static_cast<std::int64_t>(random.number(3));
    stride = std::max<std::int64_t>(1, stride);
  }
  const std::size_t before = random.number(3);
  memory.layout.offset = static_cast<std::int64_t>(before) * 8;
  memory.elements.assign(before + static_cast<std::size_t>(stride), -3);
  for (std::size_t number = 0; number < packed.size(); ++number) {
    std::int64_t rest = static_cast<std::int64_t>(number);
    auto place = static_cast<std::int64_t>(before);
    for (std::size_t i = shape.size(); i-- > 0; rest /= shape[i]) {
      place += rest % shape[i] * memory.layout.strides[i] / 8;
    }
    memory.elements[static_cast<std::size_t>(place)] = packed[number];
  }
  return memory;
}

Shape array_shape(const Layout& layout, Device device) {
  const MeshLayout cuts = *layout.cuts();
  Shape shape;
  for (const std::vector<Factor>& factors : cuts.view) {
    std::int64_t& length = shape.emplace_back(1);
    for (const Factor& factor : factors) {
      length *= held_size(factor, cuts.rule, coordinate_along(cuts.mesh, factor.axes, device));
    }
  }
  return shape;
}

struct Side {
  std::vector<MemoryLayout> layouts;
  std::vector<std::vector<double>> elements;
};

Side side_of(RandomProblems& random, const Layout& layout) {
  Side side;
  const std::vector<std::vector<double>> tiles = tiles_of(layout);
  for (std::size_t device = 0; device < tiles.size(); ++device) {
    Memory memory = spread_out(random, tiles[device], array_shape(layout, static_cast<Device>(device)));
    side.layouts.push_back(memory.layout);
    side.elements.push_back(std::move(memory.elements));
  }
  return side;
}

TEST(LayoutForms, lie_in_memory_as_the_caller_says) {
  RandomProblems random(31);
  const std::unique_ptr<Engine> reference = make_reference_engine();
  const std::unique_ptr<Engine> threads = make_threads_engine();
  for (int i = 0; i < 150; ++i) {
    const Mesh mesh = parse_mesh(random.pick(std::vector<const char*>{"a=2,b=2", "a=3,b=2", "a=4"}));
    const Shape shape = random.shape(2, {1, 5, 9, 14, 23});
    const auto layout = [&] {
      MeshLayout cuts = *test::any_form(random, shape, mesh.device_count()).cuts();
      cuts.order.clear();
      return Layout(std::move(cuts));
    };
    const Layout source = layout();
    const Layout target = layout();
    if (source.device_count() != target.device_count()) continue;
    const Problem problem("", source, target, ElementType::f64);
    SCOPED_TRACE(to_string(problem));
    const Side from = side_of(random, source);
    const Side expected = side_of(random, target);
    for (Engine* engine : {reference.get(), threads.get()}) {
      Side to = expected;
      for (std::size_t device = 0; device < to.elements.size(); ++device) {
        for (double& element : to.elements[device]) element = element == -3 ? -3 : -7;
      }
      redistribute<double>(problem, to_read(from.elements), to_write(to.elements), {from.layouts, to.layouts, engine});
      ASSERT_EQ(to.elements, expected.elements) << engine->name();
    }
  }
}

TEST(LayoutForms, refuse_strides_that_blocks_cannot_have) {
  const Problem problem = problem_of("a=2,b=2", "[7 cyclic 2{a}, 5 cyclic 2{b}]", "[4{a}7, 3{b}5]");
  const auto refusal = [&](const MemoryLayout& source, const MemoryLayout& target) {
    RedistributeOptions options;
    options.sources = {source};
    options.targets = {target};
    return error_of([&] { Redistribution<double> made(problem, options); });
  };
  EXPECT_EQ(refusal({0, {8, 36}}, {}), "the strides [8, 36] of device 0's source are not of whole elements of 8 bytes");
  EXPECT_EQ(refusal({0, {8}}, {}), "the strides [8] of device 0's source are of 1 dimensions instead of 2");
  EXPECT_EQ(error_of([&] {
              RedistributeOptions options;
              options.targets = {{0, {8, 24}}};
              Redistribution<double> made(problem_of("a=2,b=2", "[4{a}7, 3{b}5]", "[7 cyclic 2{a}, 5 cyclic 2{b}]"),
                                          options);
            }),
            "the strides [8, 24] of device 0's target put elements into the same memory");
  EXPECT_EQ(error_of([&] {
              RedistributeOptions options;
              options.sources = {{0, {8, 64}}};
              Redistribution<double> made(
                  problem_of("a=2", "[4, 4] boxes {[0:2, 0:4] [2:4, 0:2]; [2:4, 2:4]}", "[2{a}4, 4]"), options);
            }),
            "the boxes of device 0's source make up no array: strides cannot be given");
}

TEST(LayoutForms, need_as_much_memory_as_their_blocks_reach) {
  const Problem problem = problem_of("a=2", "[7 cyclic 2{a}, 3]", "[4{a}7, 3]");
  RedistributeOptions options;
  options.sources = {layout_within({5, 3}, {0, 0}, 8, MemoryOrder::column_major)};
  Redistribution<double> redistribution(problem, options);
  std::vector<std::vector<double>> sources{std::vector<double>(14), std::vector<double>(13)};
  std::vector<std::vector<double>> targets = tiles_of(problem.target());
  redistribution.run(to_read(sources), to_write(targets));
  sources[0].pop_back();
  EXPECT_EQ(error_of([&] { redistribution.run(to_read(sources), to_write(targets)); }),
            "the source of device 0 has 104 bytes of memory, and its tile takes 112");
}

// --- Halos.

// Rows of padded memory, the inside of which is the source.
TEST(Halo, is_exchanged_in_place) {
  const Problem problem = problem_of("a=3", "[4{a}12, 6]", "[4{a}12 halo 1 wrap, 6 halo 2 wrap]");
  std::vector<std::vector<double>> memory = empty_like(tiles_of(problem.target()));
  const std::vector<std::vector<double>> inside = tiles_of(problem.source());
  for (std::size_t device = 0; device < 3; ++device) {
    for (std::size_t row = 0; row < 4; ++row) {
      std::copy_n(inside[device].begin() + static_cast<std::ptrdiff_t>(6 * row), 6,
                  memory[device].begin() + static_cast<std::ptrdiff_t>(10 * (row + 1) + 2));
    }
  }
  RedistributeOptions options;
  options.sources = {layout_within({6, 10}, {1, 2}, 8)};
  const RunStatistics statistics = redistribute<double>(problem, to_read(memory), to_write(memory), options);
  EXPECT_EQ(memory, tiles_of(problem.target()));
  EXPECT_EQ(statistics.received_max, 2 * 10 * 8)
      << "a row of each neighbour, and what the other dimension repeats of it";
  EXPECT_EQ(make_plan(problem).cost.floor, 2 * 6) << "without repeats";
}

TEST(Halo, moves_what_a_device_lacks_and_no_more) {
  const Problem problem = problem_of("a=4", "[10{a}40]", "[10{a}40 halo 1]");
  const Plan plan = make_plan(problem);
  EXPECT_EQ(plan.cost.floor, 2);
  EXPECT_EQ(make_plan(problem_of("a=1", "[10]", "[10 halo 3 wrap]")).cost.floor, 0);
  const std::vector<std::vector<double>> sources = tiles_of(problem.source());
  std::vector<std::vector<double>> targets = empty_like(tiles_of(problem.target()));
  EXPECT_EQ(redistribute<double>(problem, to_read(sources), to_write(targets)).received_max, 2 * 8);
  EXPECT_EQ(targets, tiles_of(problem.target()));
}

TEST(Halo, of_a_source_is_not_read) {
  for (const Problem& problem : {
           problem_of("a=3", "[4{a}11 halo 1, 6]", "[4{a}11, 6]"),
           problem_of("a=3", "[4{a}11 halo 1, 6]", "[11, 2{a}6]"),
           problem_of("a=3", "[4{a}11 halo (0,2)]", "[4{a}11]"),
           problem_of("a=3", "[4{a}11 halo 1]", "[4{a}11 halo 2]"),
           problem_of("a=3", "[(5,4,2){a}11 halo 1 wrap, 6 halo 2 wrap]", "[4{a}11 halo 1 wrap, 6 halo 1 wrap]"),
           problem_of("a=3", "[4{a}11, 6 halo 1 wrap]", "[4{a}11 halo 1 wrap, 6]"),
           problem_of("a=2,b=2", "[4{a}8 halo 1, 3{b}6 halo 1] order [1, 0]", "[8 cyclic 3{a}, 6 cyclic 2{b}]"),
           problem_of("a=3", "[11 halo 1] boxes {[0:3]; ; [3:11]}", "[4{a}11 halo 1 wrap]"),
           problem_of("a=2", "[4{a}8 halo 1, 40]", "[8, 40 cyclic 2{a}]"),
       }) {
    const std::vector<std::vector<double>> sources = stale_tiles_of(problem.source());
    std::vector<std::vector<double>> targets = empty_like(tiles_of(problem.target()));
    redistribute<double>(problem, to_read(sources), to_write(targets));
    EXPECT_EQ(targets, tiles_of(problem.target())) << to_string(problem);
  }
}

// From a layout to itself, in one memory.
TEST(Halo, is_refreshed_in_place) {
  for (const char* text : {"[4{a}11 halo 1, 6]", "[4{a}12 halo 1 wrap, 6 halo 2 wrap]", "[(5,0,6){a}11 halo (2,1)]",
                           "[11, 2{a}6 halo 1] order [1, 0]", "[11 halo 1 wrap] boxes {[0:3]; ; [3:11]}"}) {
    const Problem problem = problem_of("a=3", text, text);
    std::vector<std::vector<double>> memory = stale_tiles_of(problem.source());
    Redistribution<double> redistribution(problem);
    for (int run = 0; run < 2; ++run) {
      redistribution.run(to_read(memory), to_write(memory));
      EXPECT_EQ(memory, tiles_of(problem.target())) << text;
    }
  }
}

TEST(Halo, refreshed_in_place_moves_what_a_device_lacks_and_no_more) {
  const Problem problem = problem_of("a=4", "[10{a}40 halo 1, 8]", "[10{a}40 halo 1, 8]");
  EXPECT_EQ(make_plan(problem).cost.floor, 2 * 8);
  std::vector<std::vector<double>> memory = stale_tiles_of(problem.source());
  EXPECT_EQ(redistribute<double>(problem, to_read(memory), to_write(memory)).received_max, 2 * 8 * 8);
}

TEST(Halo, is_refreshed_where_its_layout_and_memory_are_those_of_the_target) {
  const Problem refresh = problem_of("a=2", "[4{a}8 halo 1]", "[4{a}8 halo 1]");
  std::vector<std::vector<double>> memory = stale_tiles_of(refresh.source());
  const auto refusal = [&](const Problem& problem, const std::vector<std::span<double>>& targets) {
    return error_of([&] { redistribute<double>(problem, to_read(memory), targets); });
  };
  const std::span<double> own(memory[1]);
  std::vector<double> longer(6);
  EXPECT_NE(refusal(refresh, {memory[1], memory[0]}).find(" overlaps "), std::string::npos);
  EXPECT_NE(refusal(problem_of("a=2", "[4{a}8 halo 1]", "[4{a}8]"), {longer, own.first(4)}).find(" overlaps "),
            std::string::npos);
  memory[0].pop_back();
  EXPECT_EQ(refusal(refresh, {longer, own}), "the source of device 0 has 32 bytes of memory, and its tile takes 40");
}

// Memory of the target may hold whole tiles on the way.
TEST(Halo, is_not_refreshed_in_place_by_plans_of_several_steps) {
  const Problem refresh = problem_of("a=2", "[4{a}8 halo 1]", "[4{a}8 halo 1]");
  Plan plan = make_plan(refresh);
  const Problem gather = problem_of("a=2", "[4{a}8 halo 1]", "[8]");
  plan.movement.steps.insert(plan.movement.steps.begin(), {ExchangeStep{}, gather.target().placement(2)});
  plan.movement.steps.back().operation = ExchangeStep{};
  plan.cost.steps = {8, 5};
  plan.cost.total = 13;
  plan.cost.optimal = false;
  plan.memory.bound = plan.memory.peak = 8;
  std::vector<std::vector<double>> memory = stale_tiles_of(refresh.source());
  std::vector<std::vector<double>> targets = empty_like(memory);
  Redistribution<double> redistribution(plan);
  redistribution.run(to_read(memory), to_write(targets));
  EXPECT_EQ(targets, tiles_of(refresh.target()));
  EXPECT_NE(error_of([&] { redistribution.run(to_read(memory), to_write(memory)); }).find(" overlaps "),
            std::string::npos);
}

TEST(Halo, of_a_source_lies_in_memory_as_the_caller_says) {
  const Problem problem = problem_of("a=2", "[4{a}8 halo 1, 6 halo (1,2)]", "[8, 3{a}6]");
  const std::vector<std::vector<double>> packed = stale_tiles_of(problem.source());
  // Columns first; no device has ghost zones at both ends.
  std::vector<std::vector<double>> sources(2, std::vector<double>(5 * 6, -1));
  for (std::size_t i = 0; i < packed[0].size(); ++i) {
    for (std::size_t device = 0; device < 2; ++device) sources[device][i % 6 * 5 + i / 6] = packed[device][i];
  }
  RedistributeOptions options;
  options.sources = {layout_within({5, 6}, {0, 0}, 8, MemoryOrder::column_major)};
  std::vector<std::vector<double>> targets = empty_like(tiles_of(problem.target()));
  redistribute<double>(problem, to_read(sources), to_write(targets), options);
  EXPECT_EQ(targets, tiles_of(problem.target()));
}

// --- Orders.

TEST(Order, of_a_target_transposes_it) {
  const Problem problem = problem_of("a=2", "[4{a}8, 6]", "[8, 3{a}6] order [1, 0]");
  const std::vector<std::vector<double>> sources = tiles_of(problem.source());
  std::vector<std::vector<double>> targets = empty_like(tiles_of(problem.target()));
  redistribute<double>(problem, to_read(sources), to_write(targets));
  // Device 1 has columns 3 to 5, one after the other.
  EXPECT_EQ(targets[1][0], 3);
  EXPECT_EQ(targets[1][1], 9);
  EXPECT_EQ(targets[1][8], 4);
  EXPECT_EQ(targets, tiles_of(problem.target()));
}

}  // namespace
}  // namespace retile
