// What ranks refuse, all of them alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <vector>

#include "retile/checking/made_array.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "retile/planner/planner.h"
#include "tests/mpi/job/job.h"
#include "tests/support/error_of.h"

namespace retile::mpi {
namespace {

using test::error_of;

Movement movement_over(const Mesh& mesh, std::int64_t rows) {
  const AxisPart axis = mesh.whole(0);
  const Problem problem("", DistributedType::cut(mesh, {rows, 24}, {{axis}, {}}),
                        DistributedType::cut(mesh, {rows, 24}, {{}, {axis}}));
  return make_plan(problem).movement;
}

TEST(Refusals, different_movements) {
  const Mesh mesh({{"a", job_size()}});
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const Movement movement = movement_over(mesh, differs() ? 48 : 24);
  if (job_size() == 1) return;
  const int last = job_size() - 1;
  EXPECT_EQ(error_of([&] { engine->prepare(movement, 4); }),
            "the ranks were given different movements: the shape of the array is [24, 24] on rank 0 and [48, 24] on "
            "rank " +
                std::to_string(last));
}

TEST(Refusals, different_element_sizes) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const Movement movement = movement_over(Mesh({{"a", job_size()}}), 24);
  if (job_size() == 1) return;
  EXPECT_EQ(
      error_of([&] { engine->prepare(movement, differs() ? 8 : 4); }),
      "the ranks were given different movements: the size of an element is 4 bytes on rank 0 and 8 bytes on rank " +
          std::to_string(job_size() - 1));
}

TEST(Refusals, different_options) {
  if (job_size() == 1) return;
  MpiOptions options;
  if (differs()) options.staging_bytes *= 2;
  const std::string expected =
      "the ranks were given different options: the staging is 8388608 bytes on rank 0 and 16777216 bytes on rank " +
      std::to_string(job_size() - 1);
  EXPECT_EQ(error_of([&] { make_mpi_engine(MPI_COMM_WORLD, options); }), expected);
  engine_of(MPI_COMM_WORLD);
  EXPECT_EQ(error_of([&] { engine_of(MPI_COMM_WORLD, options); }), expected);
}

// After a refusal the engine is as good as before.
TEST(Refusals, leave_the_engine_usable) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const Movement movement = movement_over(Mesh({{"a", job_size()}}), 24);
  const bool is_refused = error_of([&] { engine->prepare(movement, differs() ? 8 : 4); }) != "";
  EXPECT_EQ(is_refused, job_size() > 1);
  const auto run = engine->prepare(movement, 4);
  const Device device = job_rank();
  const MadeArray array{{24, 24}, 4, 5};
  Tiles tiles;
  tiles.push_back(make_tile(array, movement.source.box(device)));
  run->execute(tiles);
  EXPECT_EQ(find_difference(array, tiles[0], device, movement.target().box(device)), std::nullopt);
}

TEST(Refusals, tiles_that_the_run_does_not_start_from) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const Movement movement = movement_over(Mesh({{"a", job_size()}}), 24);
  const auto run = engine->prepare(movement, 4);
  Tiles tiles;
  tiles.push_back(allocate_tile(movement.source.box(job_rank()), differs() ? 2 : 4));
  MPI_Barrier(MPI_COMM_WORLD);  // a rank that is told while it still prepares takes the failure for an earlier run's
  EXPECT_THAT(error_of([&] { run->execute(tiles); }), testing::MatchesRegex("rank " + std::to_string(job_size() - 1) +
                                                                            ": device [0-9]+ starts with .* in [0-9]+ "
                                                                            "bytes instead of .*"));
}

TEST(Refusals, buffers_that_are_missing) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const auto run = engine->prepare(movement_over(Mesh({{"a", job_size()}}), 24), 4);
  EXPECT_THAT(error_of([&] { run->execute({}, {}); }), testing::HasSubstr("0 source and 0 target buffers"));
}

TEST(Refusals, devices_that_cannot_be_shared_out) {
  if (job_size() == 1) return;
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const std::int64_t devices = job_size() + 1;
  EXPECT_EQ(error_of([&] { engine->devices(devices); }),
            std::to_string(devices) + " devices cannot be shared out evenly to " + std::to_string(job_size()) +
                " ranks: start a number of ranks that divides " + std::to_string(devices));
}

TEST(Refusals, staging_that_is_too_small_or_too_large) {
  for (const std::int64_t bytes : {std::int64_t{0}, least_staging - 1, (std::int64_t{1} << 30U) + 1}) {
    MpiOptions options;
    options.staging_bytes = bytes;
    EXPECT_THAT(error_of([&] { make_mpi_engine(MPI_COMM_WORLD, options); }), testing::HasSubstr("staging of")) << bytes;
  }
}

TEST(Refusals, communicators_that_are_none) {
  EXPECT_EQ(error_of([] { engine_of(MPI_COMM_NULL); }), "the communicator is MPI_COMM_NULL");
  if (job_size() == 1) return;
  // The first rank on one side, the others on the other.
  MPI_Comm side = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, job_rank() == 0 ? 0 : 1, 0, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, job_rank() == 0 ? 1 : 0, 7, &between);
  const std::string expected =
      "the communicator is one between two groups: make one of all their ranks with MPI_Intercomm_merge";
  EXPECT_EQ(error_of([&] { engine_of(between); }), expected);
  EXPECT_EQ(error_of([&] { make_mpi_engine(between); }), expected);
  MPI_Comm_free(&between);
  MPI_Comm_free(&side);
}

// A tile larger than the address space of an arena, where no memory is touched.
TEST(Refusals, memory_that_is_not_there) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  EXPECT_EQ(error_of([&] { engine->allocate(std::size_t{1} << 62U); }),
            "no memory for a tile of 4611686018427387904 bytes");
}

// All shared memory that a rank may have, none of which is touched.
std::vector<Buffer> take_all_memory(Engine& engine) {
  std::vector<Buffer> taken;
  for (std::size_t bytes = std::size_t{1} << 46U; bytes >= 4096; bytes /= 2) {
    while (error_of([&] { taken.push_back(engine.allocate(bytes)); }).empty()) continue;
  }
  return taken;
}

// Preparing a run takes shared memory on every rank.
TEST(Refusals, runs_that_one_rank_has_no_memory_to_prepare) {
  if (job_size() == 1) return;
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const Movement movement = movement_over(Mesh({{"a", job_size()}}), 24);
  std::vector<Buffer> taken;
  if (differs()) taken = take_all_memory(*engine);
  EXPECT_THAT(error_of([&] { engine->prepare(movement, 4); }), testing::StartsWith("no memory for a tile of "));
  taken.clear();
  EXPECT_EQ(error_of([&] { engine->prepare(movement, 4); }), "");
}

}  // namespace
}  // namespace retile::mpi
