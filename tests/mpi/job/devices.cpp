// Devices on ranks: listed maps, results of prepared runs, the plain call of MPI programs.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "retile/checking/made_array.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "retile/mpi.h"
#include "retile/planner/planner.h"
#include "tests/mpi/job/job.h"
#include "tests/support/problems.h"

namespace retile::mpi {
namespace {

TEST(Devices, are_where_the_map_says) {
  const std::int64_t count = 2 * job_size();
  MpiOptions options;
  for (std::int64_t device = count; device-- > 0;) options.device_map.push_back(device);
  const auto engine = make_mpi_engine(MPI_COMM_WORLD, options);
  const Device last = count - 1 - 2 * job_rank();
  EXPECT_EQ(engine->devices(count), (std::vector<Device>{last - 1, last}));
}

TEST(Devices, move_their_tiles_wherever_they_are) {
  test::RandomProblems random(31);
  const std::int64_t count = 2 * job_size();
  for (int i = 0; i < 5; ++i) {
    MpiOptions options;
    options.device_map = random.permutation(static_cast<std::size_t>(count));
    const auto engine = make_mpi_engine(MPI_COMM_WORLD, options);
    const Mesh mesh({{"a", count}});
    const Problem problem = random.problem(mesh, {24, 24});
    const Movement movement = make_plan(problem).movement;
    const MadeArray array{{24, 24}, 4, 7};
    Tiles tiles;
    for (const Device device : engine->devices(count)) tiles.push_back(make_tile(array, movement.source.box(device)));
    engine->prepare(movement, 4)->execute(tiles);
    const std::vector<Device> devices = engine->devices(count);
    for (std::size_t j = 0; j < devices.size(); ++j) {
      EXPECT_EQ(find_difference(array, tiles[j], devices[j], movement.target().box(devices[j])), std::nullopt);
    }
  }
}

// The elements of a box of a made-up array.
std::vector<float> floats_of(const MadeArray& array, const Box& box) {
  const Tile tile = make_tile(array, box);
  std::vector<float> floats(tile.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), tile.bytes.data(), tile.bytes.size());
  return floats;
}

bool are_equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(PlainCall, moves_one_tile_per_rank) {
  const Mesh mesh({{"a", job_size()}});
  const AxisPart axis = mesh.whole(0);
  const Problem problem("", DistributedType::cut(mesh, {24, 48}, {{axis}, {}}),
                        DistributedType::cut(mesh, {24, 48}, {{}, {axis}}));
  const MadeArray array{{24, 48}, 4, 11};
  const std::vector<float> source = floats_of(array, problem.source().placement().box(job_rank()));
  const std::vector<float> expected = floats_of(array, problem.target().placement().box(job_rank()));
  std::vector<float> target(expected.size());
  redistribute<float>(problem, MPI_COMM_WORLD, source, target);
  EXPECT_TRUE(are_equal(target, expected));
  std::fill(target.begin(), target.end(), 0.0F);
  redistribute<float>(make_plan(problem), MPI_COMM_WORLD, source, target);
  EXPECT_TRUE(are_equal(target, expected));
}

// A communicator of half the ranks, while the others do nothing.
TEST(PlainCall, works_on_part_of_the_ranks) {
  MPI_Comm part = MPI_COMM_NULL;
  const int half = (job_size() + 1) / 2;
  MPI_Comm_split(MPI_COMM_WORLD, job_rank() < half ? 0 : MPI_UNDEFINED, 0, &part);
  if (part == MPI_COMM_NULL) return;
  const Mesh mesh({{"a", half}});
  const Problem problem("", DistributedType::cut(mesh, {24}, {{mesh.whole(0)}}),
                        DistributedType::replicated(mesh, {24}));
  const MadeArray array{{24}, 4, 13};
  const std::vector<float> source = floats_of(array, problem.source().placement().box(job_rank()));
  const std::vector<float> expected = floats_of(array, problem.target().placement().box(job_rank()));
  std::vector<float> target(expected.size());
  redistribute<float>(problem, part, source, target);
  EXPECT_TRUE(are_equal(target, expected));
  MPI_Comm_free(&part);
}

// Tiles in memory of the engine's, a run of them given back to the system in the end.
TEST(PreparedRuns, outlive_their_engine_and_run_often) {
  const Mesh mesh({{"a", job_size()}});
  const AxisPart axis = mesh.whole(0);
  const Problem problem("", DistributedType::cut(mesh, {24, 24}, {{axis}, {}}),
                        DistributedType::cut(mesh, {24, 24}, {{}, {axis}}));
  const Movement movement = make_plan(problem).movement;
  auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const auto run = engine->prepare(movement, 4);
  Tiles tiles;
  const MadeArray array{{24, 24}, 4, 17};
  const Box box = movement.source.box(job_rank());
  for (int i = 0; i < 50; ++i) {
    tiles.clear();
    if (engine != nullptr) {
      tiles.push_back(make_tile(array, box, engine->allocate(static_cast<std::size_t>(volume(box)) * 4)));
    } else {
      tiles.push_back(make_tile(array, box));
    }
    run->execute(tiles);
    EXPECT_EQ(find_difference(array, tiles[0], job_rank(), movement.target().box(job_rank())), std::nullopt);
    if (i == 25) engine.reset();
  }
}

// Boxes that follow each other in the target need no staging: the peak is that of the tiles.
TEST(Collectives, gather_straight_into_the_target) {
  const Mesh mesh({{"a", job_size()}});
  const Problem problem("", DistributedType::cut(mesh, {24, 10}, {{mesh.whole(0)}, {}}),
                        DistributedType::replicated(mesh, {24, 10}));
  MpiOptions options;
  options.transport = Transport::collectives;
  const auto engine = make_mpi_engine(MPI_COMM_WORLD, options);
  const Movement movement = make_plan(problem).movement;
  const MadeArray array{{24, 10}, 4, 19};
  Tiles tiles;
  tiles.push_back(make_tile(array, movement.source.box(job_rank())));
  const RunStatistics statistics = engine->prepare(movement, 4)->execute(tiles);
  EXPECT_EQ(find_difference(array, tiles[0], job_rank(), movement.target().box(job_rank())), std::nullopt);
  const std::int64_t bytes = 24 * 10 * 4;
  EXPECT_EQ(statistics.peak_measured, job_size() == 1 ? bytes : bytes / job_size() + bytes);
}

}  // namespace
}  // namespace retile::mpi
