#include "retile/redistribute.h"

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/error_of.h"
#include "tests/support/plans.h"
#include "tests/support/problems.h"
#include "tests/support/split_engine.h"
#include "tests/support/strided_memory.h"

namespace retile {
namespace {

using test::error_of;

template <typename T>
std::vector<std::span<const T>> to_read(const std::vector<std::vector<T>>& tiles) {
  return {tiles.begin(), tiles.end()};
}

template <typename T>
std::vector<std::span<T>> to_write(std::vector<std::vector<T>>& tiles) {
  return {tiles.begin(), tiles.end()};
}

// [4{a}8, 6] to [8, 3{a}6] on two devices: an array whose elements are 10 * row + column.
template <typename T>
struct Rows {
  Problem problem = Problem("", parse_type("[4{a}8, 6]", parse_mesh("a=2")),
                            parse_type("[8, 3{a}6]", parse_mesh("a=2")), ElementType::f32);
  std::vector<std::vector<T>> sources = std::vector<std::vector<T>>(2);
  std::vector<std::vector<T>> targets = std::vector<std::vector<T>>(2, std::vector<T>(24));

  Rows() {
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 6; ++column) {
        sources[static_cast<std::size_t>(row / 4)].push_back(static_cast<T>(10 * row + column));
      }
    }
  }
  bool are_moved() const {
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 6; ++column) {
        const std::vector<T>& tile = targets[static_cast<std::size_t>(column / 3)];
        if (tile[static_cast<std::size_t>(3 * row + column % 3)] != static_cast<T>(10 * row + column)) return false;
      }
    }
    return true;
  }
};

TEST(Redistribute, moves_the_callers_memory_once) {
  Rows<float> rows;
  const RunStatistics statistics = redistribute<float>(rows.problem, to_read(rows.sources), to_write(rows.targets));
  EXPECT_TRUE(rows.are_moved());
  EXPECT_EQ(statistics.received_max, 4 * 3 * 4);
}

TEST(Redistribute, moves_by_a_plan_whatever_the_elements_are) {
  Rows<std::int64_t> numbers;
  redistribute<std::int64_t>(make_plan(numbers.problem), to_read(numbers.sources), to_write(numbers.targets));
  EXPECT_TRUE(numbers.are_moved());
  Rows<std::complex<double>> complexes;
  redistribute<std::complex<double>>(make_plan(complexes.problem), to_read(complexes.sources),
                                     to_write(complexes.targets));
  EXPECT_TRUE(complexes.are_moved());
}

TEST(Redistribute, is_prepared_once_for_many_runs_on_any_engine) {
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(make_reference_engine());
  engines.push_back(make_threads_engine({2, no_memory_limit}));
  for (std::unique_ptr<Engine>& engine : engines) {
    Rows<float> rows;
    RedistributeOptions options;
    options.engine = engine.get();
    Redistribution<float> redistribution(rows.problem, options);
    engine.reset();  // need not outlive it
    EXPECT_EQ(redistribution.devices(), (std::vector<Device>{0, 1}));
    for (int i = 0; i < 50; ++i) {
      rows.targets.assign(2, std::vector<float>(24));
      redistribution.run(to_read(rows.sources), to_write(rows.targets));
      ASSERT_TRUE(rows.are_moved()) << i;
    }
  }
}

TEST(Redistribute, goes_on_while_its_caller_does_something_else) {
  const auto engine = make_threads_engine({2, no_memory_limit});
  RedistributeOptions options;
  options.engine = engine.get();
  Rows<float> first;
  Rows<float> second;
  Redistribution<float> a(first.problem, options);
  Redistribution<float> b(second.problem, options);
  for (int i = 0; i < 50; ++i) {
    first.targets = second.targets = std::vector<std::vector<float>>(2, std::vector<float>(24));
    a.start(to_read(first.sources), to_write(first.targets));
    b.start(to_read(second.sources), to_write(second.targets));
    while (!b.test()) continue;
    a.wait();
    ASSERT_TRUE(first.are_moved());
    ASSERT_TRUE(second.are_moved());
    a.wait();
    ASSERT_TRUE(a.test()) << "nothing is under way";
  }
  a.start(to_read(first.sources), to_write(first.targets));
  EXPECT_EQ(error_of([&] { a.start(to_read(first.sources), to_write(first.targets)); }),
            "a run is started before the one before it is done");
  EXPECT_EQ(a.statistics().received_max, 4 * 3 * 4) << "of a run that is waited for";
}

TEST(Redistribute, is_checked_before_it_is_run) {
  Rows<float> rows;
  Redistribution<float> redistribution(rows.problem);
  EXPECT_EQ(error_of([&] { redistribution.check(to_read(rows.sources), to_write(rows.targets)); }), "");
  rows.targets[1].clear();
  EXPECT_EQ(error_of([&] { redistribution.check(to_read(rows.sources), to_write(rows.targets)); }),
            "the target of device 1 has 0 bytes of memory, and its tile takes 96");
}

TEST(Redistribute, moves_halos_and_columns_as_they_lie) {
  Rows<double> rows;
  const Problem problem("", rows.problem.source(), rows.problem.target(), ElementType::f64);
  // Two tiles of columns in arrays of 6 x 8 with a halo of one; the targets are columns of one array, side by side.
  std::vector<std::vector<double>> halos(2, std::vector<double>(48, -1));
  for (std::size_t i = 0; i < 24; ++i) {
    for (std::size_t device = 0; device < 2; ++device) {
      halos[device][(i % 6 + 1) * 6 + i / 6 + 1] = rows.sources[device][i];
    }
  }
  std::vector<double> array(8 * 7, -2);  // rows of 7, the last element of each is nobody's
  RedistributeOptions options;
  options.sources = {layout_within({6, 8}, {1, 1}, sizeof(double), MemoryOrder::column_major)};
  options.targets = {layout_within({8, 7}, {0, 0}, sizeof(double)), layout_within({8, 7}, {0, 3}, sizeof(double))};
  const std::vector<std::span<double>> targets{array, array};
  redistribute<double>(problem, to_read(halos), targets, options);
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t column = 0; column < 6; ++column) {
      EXPECT_EQ(array[7 * row + column], static_cast<double>(10 * row + column));
    }
    EXPECT_EQ(array[7 * row + 6], -2) << "nobody's";
  }
}

// Elements by their numbers in an array of 12, device by device.
std::vector<std::vector<float>> numbered(const std::vector<std::vector<int>>& tiles) {
  std::vector<std::vector<float>> numbers;
  for (const std::vector<int>& tile : tiles) numbers.emplace_back(tile.begin(), tile.end());
  return numbers;
}

TEST(Redistribute, moves_several_boxes_of_a_device) {
  const std::vector<std::vector<float>> rows = numbered({{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}});
  struct Case {
    const char* layout;
    std::vector<std::vector<float>> tiles;
  };
  for (const Case& layout :
       {Case{"[12] boxes {[0:2] [4:8]; [2:4] [8:12]}", numbered({{0, 1, 4, 5, 6, 7}, {2, 3, 8, 9, 10, 11}})},
        Case{"[3*1{a}2*2]", numbered({{0, 1, 4, 5, 8, 9}, {2, 3, 6, 7, 10, 11}})}}) {
    const SourceText mesh{"mesh", "a=2"};
    const SourceText boxes{"layout", layout.layout};
    const SourceText even{"layout", "[6{a}12]"};
    std::vector<std::vector<float>> targets(2, std::vector<float>(6));
    redistribute<float>(parse_problem(mesh, boxes, even), to_read(layout.tiles), to_write(targets));
    EXPECT_EQ(targets, rows) << layout.layout;
    redistribute<float>(parse_problem(mesh, even, boxes), to_read(rows), to_write(targets));
    EXPECT_EQ(targets, layout.tiles) << layout.layout;
    RedistributeOptions options;
    options.sources = {{0, {8}}};
    EXPECT_EQ(error_of([&] {
                redistribute<float>(parse_problem(mesh, boxes, even), to_read(layout.tiles), to_write(targets),
                                    options);
              }),
              "the source of device 0 has 24 bytes of memory, and its tile takes 44; the source of device 1 has 24 "
              "bytes of memory, and its tile takes 44");
  }
}

TEST(Redistribute, takes_an_array_without_elements_for_an_empty_tile) {
  const MemoryLayout layout = layout_within({0, 8}, {0, 0}, 8);
  EXPECT_EQ(layout.offset, 0);
  EXPECT_EQ(layout.strides, (Strides{64, 8}));
}

TEST(Redistribute, agrees_with_slices_of_the_array_whatever_the_memory) {
  test::RandomProblems random(71);
  const std::vector<std::string> meshes{"a=2", "a=6", "a=2,b=3", "a=2,b=2,c=2", "a=1"};
  for (int i = 0; i < 100; ++i) {
    const Mesh mesh = parse_mesh(random.pick(meshes));
    const Problem problem = random.problem(mesh, random.shape(static_cast<int>(1 + random.number(3)), {1, 2, 6, 12}));
    const Placement source = problem.source().placement();
    const Placement target = problem.target().placement();
    const MadeArray array{source.global_shape(), 4, 7};
    std::vector<test::StridedMemory> from;
    std::vector<test::StridedMemory> to;
    RedistributeOptions options;
    for (Device device = 0; device < mesh.device_count(); ++device) {
      const Box boxes[] = {source.box(device), target.box(device)};
      from.emplace_back(TileLayout(boxes[0], test::random_strides(random, boxes[0], 4)), 4, 1);
      to.emplace_back(TileLayout(boxes[1], test::random_strides(random, boxes[1], 4)), 4, 2);
      from.back().put(make_tile(array, boxes[0]));
      options.sources.push_back({static_cast<std::int64_t>(from.back().offset()), from.back().layout().strides});
      options.targets.push_back({static_cast<std::int64_t>(to.back().offset()), to.back().layout().strides});
    }
    std::vector<std::span<const std::byte>> sources;
    std::vector<std::span<std::byte>> targets;
    for (test::StridedMemory& memory : from) sources.emplace_back(memory.bytes());
    for (test::StridedMemory& memory : to) targets.emplace_back(memory.bytes());
    ByteRedistribution(problem, options).run(sources, targets);
    for (std::size_t device = 0; device < to.size(); ++device) {
      ASSERT_EQ(find_difference(array, to[device].take(), static_cast<Device>(device), to[device].layout().box),
                std::nullopt)
          << test::describe(problem);
      ASSERT_TRUE(to[device].is_unchanged_around_elements());
      ASSERT_TRUE(from[device].is_unchanged());
    }
  }
}

TEST(Redistribute, refuses_memory_that_does_not_fit_its_tiles) {
  Rows<float> rows;
  Redistribution<float> redistribution(rows.problem);
  const auto fault = [&](auto change) {
    Rows<float> changed = rows;
    std::vector<std::span<const float>> sources = to_read(changed.sources);
    std::vector<std::span<float>> targets = to_write(changed.targets);
    change(sources, targets);
    return error_of([&] { redistribution.run(sources, targets); });
  };
  EXPECT_EQ(fault([](auto& sources, auto&) { sources.pop_back(); }),
            "there are 1 sources and 2 targets for 2 devices of this process");
  EXPECT_EQ(fault([](auto&, auto& targets) { targets.clear(); }),
            "there are 2 sources and 0 targets for 2 devices of this process");
  EXPECT_EQ(fault([](auto& sources, auto&) { sources[1] = sources[1].first(23); }),
            "the source of device 1 has 92 bytes of memory, and its tile takes 96");
  EXPECT_EQ(fault([](auto&, auto& targets) { targets[0] = {}; }),
            "the target of device 0 has 0 bytes of memory, and its tile takes 96");
  EXPECT_EQ(fault([](auto&, auto& targets) { targets[0] = std::span<float>(static_cast<float*>(nullptr), 24); }),
            "the target of device 0 is null, and its tile takes 96 bytes");
  EXPECT_EQ(fault([](auto& sources, auto& targets) {
              sources[1] = sources[1].first(23);
              targets[0] = {};
            }),
            "the target of device 0 has 0 bytes of memory, and its tile takes 96; "
            "the source of device 1 has 92 bytes of memory, and its tile takes 96");
  EXPECT_EQ(fault([](auto& sources, auto& targets) { sources[0] = targets[1]; }),
            "the target of device 1 overlaps the source of device 0");
  std::vector<float> both(47);
  EXPECT_EQ(fault([&](auto&, auto& targets) {
              targets = {std::span(both).first(24), std::span(both).last(24)};
            }),
            "the target of device 1 overlaps the target of device 0");
  EXPECT_EQ(fault([](auto& sources, auto&) { sources[0] = sources[1]; }), "") << "sources may be shared";
  redistribution.run(to_read(rows.sources), to_write(rows.targets));
  EXPECT_TRUE(rows.are_moved()) << "it serves after all refusals";
}

TEST(Redistribute, refuses_layouts_that_lead_out_of_memory) {
  Rows<float> rows;
  const auto fault = [&](const RedistributeOptions& options) {
    return error_of([&] { redistribute<float>(rows.problem, to_read(rows.sources), to_write(rows.targets), options); });
  };
  EXPECT_EQ(fault({{{4, {}}}, {}}),
            "the source of device 0 has 96 bytes of memory, and its tile takes 100; "
            "the source of device 1 has 96 bytes of memory, and its tile takes 100");
  EXPECT_EQ(fault({{{-4, {}}}, {}}),
            "device 0's tile of [0:4, 0:6] begins outside of its memory: its first element is at byte -4");
  EXPECT_EQ(fault({{}, {{0, {-12, 4}}}}),
            "device 0's tile of [0:8, 0:3] begins outside of its memory: its first element is at byte 0");
  EXPECT_EQ(fault({{}, {{84, {-12, 4}}}}), "") << "rows upside down";
  EXPECT_EQ(fault({{}, {{0, {16, 4}}}}),
            "the target of device 0 has 96 bytes of memory, and its tile takes 124; "
            "the target of device 1 has 96 bytes of memory, and its tile takes 124");
  EXPECT_EQ(fault({{}, {{0, {8, 4}}}}), "the strides [8, 4] of device 0's target put elements into the same memory");
  EXPECT_EQ(fault({{{}, {}, {}}, {}}), "there are layouts of 3 sources for 2 devices");
  EXPECT_EQ(fault({{{INT64_MAX, {24, 4}}}, {}}),
            "device 0's tile of [0:4, 0:6] begins outside of its memory: its first element is at byte "
            "9223372036854775807");
  EXPECT_EQ(error_of([] { layout_within({4, 4}, {0, 4}, 4); }), "a tile cannot start at [0, 4] of an array of [4, 4]");
  EXPECT_EQ(error_of([] { layout_within({4, 4}, {0}, 4); }), "a tile cannot start at [0] of an array of [4, 4]");
  EXPECT_EQ(error_of([&] { ByteRedistribution(make_plan(rows.problem), 0); }), "elements cannot have 0 bytes");
}

TEST(Redistribute, asks_for_the_problems_element_type) {
  Rows<double> doubles;
  EXPECT_EQ(
      error_of([&] { redistribute<double>(doubles.problem, to_read(doubles.sources), to_write(doubles.targets)); }),
      "the problem's elements are f32, which the type of the buffers, of 8 bytes, is not");
  EXPECT_TRUE(stands_for<float>(ElementType::f32));
  EXPECT_TRUE(stands_for<double>(ElementType::f64));
  EXPECT_TRUE(stands_for<std::int32_t>(ElementType::i32));
  EXPECT_TRUE(stands_for<std::int8_t>(ElementType::i8));
  EXPECT_TRUE(stands_for<std::complex<float>>(ElementType::c64));
  EXPECT_TRUE(stands_for<std::complex<double>>(ElementType::c128));
  EXPECT_TRUE(stands_for<std::int64_t>(ElementType::i64));
  EXPECT_TRUE(stands_for<long long>(ElementType::i64)) << "another type of the same numbers";
  EXPECT_TRUE(stands_for<std::uint32_t>(ElementType::u32));
  EXPECT_TRUE(stands_for<bool>(ElementType::boolean));
  EXPECT_FALSE(stands_for<std::int64_t>(ElementType::u64));
  EXPECT_FALSE(stands_for<std::int8_t>(ElementType::f8e4m3fn));
  EXPECT_TRUE(stands_for<std::uint8_t>(ElementType::f8e4m3fn)) << "bits";
  EXPECT_FALSE(stands_for<long double>(ElementType::c128));
  EXPECT_FALSE(stands_for<std::int32_t>(ElementType::f32));
  EXPECT_FALSE(stands_for<float>(ElementType::i32));
  EXPECT_FALSE(stands_for<double>(ElementType::c64));
  EXPECT_FALSE(stands_for<std::complex<float>>(ElementType::f64));
  EXPECT_FALSE(stands_for<std::int64_t>(ElementType::f64));
  EXPECT_FALSE(stands_for<std::int16_t>(ElementType::f16));
  EXPECT_FALSE(stands_for<bool>(ElementType::i8));
  for (const ElementType half : {ElementType::f16, ElementType::bf16}) {
    EXPECT_TRUE(stands_for<std::uint16_t>(half)) << "bits";
    EXPECT_TRUE((stands_for<std::array<std::byte, 2>>(half)));
    EXPECT_FALSE(stands_for<std::byte>(half));
  }
  EXPECT_TRUE(stands_for<std::byte>(ElementType::i8));
}

TEST(Redistribute, refuses_a_plan_that_is_wrong) {
  const auto samples = test::sample_plans();
  Plan plan = test::sample_plan(samples, "allpermute");
  std::get<PermuteStep>(plan.movement.steps[0].operation).pairs = {{0, 0}, {1, 1}, {2, 2}, {3, 3}};
  EXPECT_NE(error_of([&] { Redistribution<float> redistribution(plan); }).find("is wrong"), std::string::npos);
}

// What is wrong in one process ends the run in all.
TEST(Redistribute, is_refused_in_all_processes_alike) {
  const Problem problem = Rows<float>().problem;
  std::array<std::string, 2> errors;
  test::run_split(2, [&](int process, Engine& engine) {
    const auto p = static_cast<std::size_t>(process);
    Rows<float> rows;
    RedistributeOptions options;
    options.engine = &engine;
    Redistribution<float> redistribution(problem, options);
    const std::span<const float> source(rows.sources[p]);
    const std::span<float> target(rows.targets[p].data(), process == 1 ? 3 : 24);
    errors[p] = error_of([&] { redistribution.run({&source, 1}, {&target, 1}); });
  });
  EXPECT_EQ(errors[0], "the run starts with 1 tiles for 2 devices");
  EXPECT_EQ(errors[1], "the target of device 1 has 12 bytes of memory, and its tile takes 96");
}

}  // namespace
}  // namespace retile
