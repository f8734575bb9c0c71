// Buffers of the ranks' own are moved as they lie, and refused on all ranks where they are wrong on one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "retile/checking/made_array.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "retile/mpi.h"
#include "tests/mpi/job/job.h"
#include "tests/support/error_of.h"
#include "tests/support/problems.h"
#include "tests/support/strided_memory.h"

namespace retile::mpi {
namespace {

using test::error_of;

using test::RandomProblems;
using test::StridedMemory;

const std::vector<Setting> strided_settings{
    {"reading", {Transport::automatic, 1 << 20, {}, HostView::detected, Reading::always}},
    {"automatic", {Transport::automatic, 4096, {}, HostView::detected, Reading::never}},
    {"automatic, alone", {Transport::automatic, 1 << 20, {}, HostView::every_rank_alone, Reading::never}},
    {"collectives", {Transport::collectives, 4096, {}, HostView::detected, Reading::never}},
    {"messages", {Transport::messages, 4096, {}, HostView::detected, Reading::never}},
};

// One side of a run: the strides of all devices, drawn alike on all ranks, and this rank's memory.
class RankSide {
 public:
  RankSide(RandomProblems& random, const Placement& placement, const std::vector<Device>& devices,
           std::int64_t element_size) {
    const bool are_packed = random.number(3) == 0;
    std::vector<Strides> all;
    for (Device device = 0; device < placement.device_count(); ++device) {
      all.push_back(are_packed ? Strides() : test::random_strides(random, placement.box(device), element_size));
    }
    for (const Device device : devices) {
      strides.push_back(all[static_cast<std::size_t>(device)]);
      memory.emplace_back(TileLayout(placement.box(device), strides.back()), element_size, 3);
    }
  }

  std::vector<const std::byte*> to_read() const {
    std::vector<const std::byte*> pointers;
    for (const StridedMemory& tile : memory) pointers.push_back(tile.first());
    return pointers;
  }
  std::vector<std::byte*> to_write() {
    std::vector<std::byte*> pointers;
    for (StridedMemory& tile : memory) pointers.push_back(tile.first());
    return pointers;
  }

  std::vector<Strides> strides;
  std::vector<StridedMemory> memory;
};

void check(Engine& engine, const Movement& movement, std::int64_t element_size, RandomProblems& random) {
  const std::vector<Device> devices = engine.devices(movement.mesh.device_count());
  const MadeArray array{movement.source.global_shape(), element_size, 5};
  RankSide sources(random, movement.source, devices, element_size);
  RankSide targets(random, movement.target(), devices, element_size);
  for (StridedMemory& source : sources.memory) source.put(make_tile(array, source.layout().box));
  const std::unique_ptr<PreparedRun> run = engine.prepare(movement, element_size, {sources.strides, targets.strides});
  for (int i = 0; i < 2; ++i) {
    const RunStatistics statistics = run->execute(sources.to_read(), targets.to_write());
    EXPECT_LE(statistics.peak_measured, statistics.peak_predicted);
    for (std::size_t j = 0; j < devices.size(); ++j) {
      const StridedMemory& target = targets.memory[j];
      EXPECT_EQ(find_difference(array, target.take(), devices[j], target.layout().box), std::nullopt);
      EXPECT_TRUE(target.is_unchanged_around_elements()) << "device " << devices[j];
      EXPECT_TRUE(sources.memory[j].is_unchanged()) << "device " << devices[j];
    }
  }
}

class StridedBuffers : public testing::TestWithParam<Setting> {};

TEST_P(StridedBuffers, are_moved_as_they_lie) {
  RandomProblems random(61);
  const std::unique_ptr<Engine> engine = make_mpi_engine(MPI_COMM_WORLD, GetParam().options);
  std::vector<test::Planning> plannings = test::all_plannings();
  plannings.push_back({"gather-slice", {}});
  plannings.back().options.planner = PlannerKind::gather_slice;
  const std::vector<Mesh> meshes{Mesh({{"a", job_size()}}), Mesh({{"a", job_size()}, {"b", 2}}),
                                 Mesh({{"a", 2}, {"b", job_size()}})};
  for (int i = 0; i < 30; ++i) {
    const Shape shape = random.shape(static_cast<int>(1 + random.number(3)), {1, 2, 6, 12, 24});
    const Problem problem = random.problem(random.pick(meshes), shape);
    const test::Planning& planning = random.pick(plannings);
    const std::int64_t element_size = random.pick(std::vector<std::int64_t>{1, 2, 3, 4, 8, 16});
    SCOPED_TRACE(test::describe(problem) + " by " + planning.name + ", element size " + std::to_string(element_size));
    check(*engine, make_plan(problem, planning.options).movement, element_size, random);
  }
}

// Pieces of every length, runs of many pages, rows and columns.
TEST_P(StridedBuffers, are_moved_where_tiles_are_large) {
  RandomProblems random(67);
  const std::unique_ptr<Engine> engine = make_mpi_engine(MPI_COMM_WORLD, GetParam().options);
  const Mesh mesh({{"a", job_size()}});
  for (const Shape& shape : {Shape{24, 12, 1000}, Shape{120000}, Shape{24, 4800}, Shape{4800, 24}}) {
    const Problem problem = random.problem(mesh, shape);
    SCOPED_TRACE(test::describe(problem));
    check(*engine, make_plan(problem).movement, 4, random);
  }
}

// The memory that others read is the memory that is written. Ranks are at different runs.
TEST_P(StridedBuffers, have_ghost_zones_refreshed_in_place) {
  if (job_size() == 1) GTEST_SKIP() << "a rank alone has no neighbours";
  const std::unique_ptr<Engine> engine = make_mpi_engine(MPI_COMM_WORLD, GetParam().options);
  const Mesh mesh({{"a", job_size()}});
  RedistributeOptions options;
  options.engine = engine.get();
  for (const char* text : {"[6{{a}}{0} halo 1, 6]", "[6{{a}}{0} halo (2,1) wrap, 6 halo 2 wrap]",
                           "[7, 6{{a}}{0} halo 2] order [1, 0]", "[6{{a}}{0} halo 1 wrap, 3000]"}) {
    const Layout layout = parse_layout(fmt::format(fmt::runtime(text), 6 * job_size() - 1), mesh);
    const Problem problem("", layout, layout, ElementType::f64);
    SCOPED_TRACE(to_string(problem));
    ByteRedistribution redistribution(problem, options);
    const Device device = redistribution.devices().at(0);
    const Placement inside = layout.inside(job_size());
    const Placement whole = layout.placement();
    std::vector<std::byte> memory(static_cast<std::size_t>(8 * whole.size(device)), std::byte{0xA5});
    for (std::uint64_t run = 0; run < 4; ++run) {
      const MadeArray array{layout.global_shape(), 8, run};
      make_parts(array, inside.parts(device), memory.data());
      const std::span<const std::byte> from(memory);
      const std::span<std::byte> to(memory);
      redistribution.run({&from, 1}, {&to, 1});
      EXPECT_EQ(find_difference(array, memory.data(), device, whole.parts(device)), std::nullopt) << "run " << run;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, StridedBuffers, testing::ValuesIn(strided_settings));

// --- As MPI programs call it.

Problem columns_problem() {
  const Mesh mesh({{"a", job_size()}});
  const AxisPart axis = mesh.whole(0);
  return {"", DistributedType::cut(mesh, {24, 48}, {{axis}, {}}), DistributedType::cut(mesh, {24, 48}, {{}, {axis}}),
          ElementType::f64};
}

double value_of(std::int64_t row, std::int64_t column) { return static_cast<double>(row * 100 + column); }

// Fortran's order with two rows of halo on every side; then rows with padding.
TEST(PlainCall, moves_halos_and_padding) {
  const Problem problem = columns_problem();
  const Box source_box = problem.source().placement().box(job_rank());
  const Box target_box = problem.target().placement().box(job_rank());
  const std::int64_t rows = 24 / job_size();
  const std::int64_t columns = 48 / job_size();
  std::vector<double> source(static_cast<std::size_t>((rows + 4) * (48 + 4)), -1);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < 48; ++j) {
      source[static_cast<std::size_t>((j + 2) * (rows + 4) + i + 2)] = value_of(source_box.lo[0] + i, j);
    }
  }
  std::vector<double> target(static_cast<std::size_t>(24 * (columns + 3)), -2);
  RedistributeOptions options;
  options.sources = {layout_within({rows + 4, 48 + 4}, {2, 2}, sizeof(double), MemoryOrder::column_major)};
  options.targets = {layout_within({24, columns + 3}, {0, 0}, sizeof(double))};
  auto redistribution = prepare<double>(problem, MPI_COMM_WORLD, options);
  for (int run = 0; run < 3; ++run) {
    const std::span<const double> from(source);
    const std::span<double> to(target);
    redistribution.run({&from, 1}, {&to, 1});
    for (std::int64_t i = 0; i < 24; ++i) {
      for (std::int64_t j = 0; j < columns + 3; ++j) {
        const double expected = j < columns ? value_of(i, target_box.lo[1] + j) : -2;
        ASSERT_EQ(target[static_cast<std::size_t>(i * (columns + 3) + j)], expected) << i << ", " << j;
      }
    }
  }
}

TEST(PlainCall, refuses_short_memory_on_all_ranks) {
  const Problem problem = columns_problem();
  const auto size = static_cast<std::size_t>(24 * 48 / job_size());
  const std::vector<double> source(size);
  std::vector<double> target(differs() ? size - 1 : size);
  const auto error = [&] { return error_of([&] { redistribute<double>(problem, MPI_COMM_WORLD, source, target); }); };
  EXPECT_THAT(error(), testing::MatchesRegex(
                           "the target of device [0-9]+ has [0-9,]+ bytes of memory, and its tile takes [0-9,]+"));
  target.resize(size);
  EXPECT_EQ(error(), "") << "all can go on";
}

TEST(PlainCall, refuses_wrong_strides_on_all_ranks) {
  RedistributeOptions options;
  if (differs()) options.targets = {{0, {0, 8}}};
  EXPECT_THAT(error_of([&] { prepare<double>(columns_problem(), MPI_COMM_WORLD, options); }),
              testing::MatchesRegex("the strides .0, 8. of device [0-9]+'s target put elements into the same memory"));
  const auto engine = engine_of(MPI_COMM_WORLD);
  const Movement movement = make_plan(columns_problem()).movement;
  BufferStrides strides;
  if (differs()) strides.targets = {{0, 8}};
  EXPECT_THAT(error_of([&] { engine->prepare(movement, 8, strides); }),
              testing::MatchesRegex("the strides .0, 8. of device [0-9]+'s target put elements into the same memory"));
}

// The ranks' own memory may lie differently on each of them.
TEST(PlainCall, moves_what_lies_differently_on_each_rank) {
  const Problem problem = columns_problem();
  const Box source_box = problem.source().placement().box(job_rank());
  const Box target_box = problem.target().placement().box(job_rank());
  const std::int64_t rows = 24 / job_size();
  const std::int64_t columns = 48 / job_size();
  const bool by_columns = job_rank() % 2 == 0;
  std::vector<double> source;
  for (std::int64_t i = 0; i < rows * 48; ++i) {
    source.push_back(by_columns ? value_of(source_box.lo[0] + i % rows, i / rows)
                                : value_of(source_box.lo[0] + i / 48, i % 48));
  }
  std::vector<double> target(source.size());
  RedistributeOptions options;
  if (by_columns) options.sources = {layout_within({rows, 48}, {0, 0}, sizeof(double), MemoryOrder::column_major)};
  redistribute<double>(problem, MPI_COMM_WORLD, source, target, options);
  for (std::int64_t i = 0; i < 24 * columns; ++i) {
    ASSERT_EQ(target[static_cast<std::size_t>(i)], value_of(i / columns, target_box.lo[1] + i % columns)) << i;
  }
}

}  // namespace
}  // namespace retile::mpi
