// The engine that a communicator keeps, and what ranks refuse before they have one.
#include <gtest/gtest.h>
#include <mpi.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/mpi.h"
#include "retile/planner/planner.h"
#include "tests/mpi/job/job.h"
#include "tests/support/error_of.h"

namespace retile::mpi {
namespace {

using test::error_of;

Problem rows_to_columns() {
  const Mesh mesh({{"a", job_size()}});
  const AxisPart axis = mesh.whole(0);
  return {"", DistributedType::cut(mesh, {24, 48}, {{axis}, {}}), DistributedType::cut(mesh, {24, 48}, {{}, {axis}})};
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST(KeptEngines, are_one_for_a_communicator_and_options) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const auto engine = engine_of(comm);
  EXPECT_EQ(engine_of(comm), engine);
  MpiOptions messages;
  messages.transport = Transport::messages;
  EXPECT_NE(engine_of(comm, messages), engine);
  EXPECT_EQ(engine_of(comm, messages), engine_of(comm, messages));
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &copy);
  EXPECT_NE(engine_of(copy), engine);
  MPI_Comm_free(&copy);
  EXPECT_EQ(engine.use_count(), 2);
  MPI_Comm_free(&comm);
  EXPECT_EQ(engine.use_count(), 1) << "freed with its communicator";
}

TEST(KeptEngines, serve_any_number_of_runs_without_files) {
  engine_of(MPI_COMM_WORLD);
  const std::ptrdiff_t before = open_files();
  std::vector<Redistribution<float>> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(prepare<float>(rows_to_columns(), MPI_COMM_WORLD));
  EXPECT_EQ(open_files(), before);
}

TEST(KeptEngines, give_way_to_the_engine_of_the_options) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  // A communicator of this rank alone could not have the devices.
  RedistributeOptions options;
  options.engine = engine.get();
  auto redistribution = prepare<float>(rows_to_columns(), job_size() == 1 ? MPI_COMM_WORLD : MPI_COMM_SELF, options);
  EXPECT_EQ(redistribution.devices(), (std::vector<Device>{job_rank()}));
}

// --- What one rank cannot do, all refuse.

TEST(Together, element_types_that_are_wrong_on_one_rank) {
  const Problem floats = rows_to_columns();
  const Problem doubles("", floats.source(), floats.target(), ElementType::f64);
  EXPECT_EQ(error_of([&] { prepare<float>(differs() ? doubles : floats, MPI_COMM_WORLD); }),
            "the problem's elements are f64, which the type of the buffers, of 4 bytes, is not");
}

TEST(Together, texts_that_are_wrong_on_one_rank) {
  const auto parse = [] {
    const SourceText mesh{"mesh", "a=" + std::to_string(job_size())};
    return parse_problem(mesh, {"source", differs() ? "[24{b}24]" : "[24]"}, {"target", "[24]"});
  };
  EXPECT_THROW(together(MPI_COMM_WORLD, parse), InputError);
  EXPECT_EQ(together(MPI_COMM_WORLD, [] { return job_rank(); }), job_rank());
}

TEST(Together, plans_that_are_wrong_on_one_rank) {
  Plan plan = make_plan(rows_to_columns());
  if (differs()) plan.movement.steps.clear();
  const std::string error = error_of([&] { prepare<float>(plan, MPI_COMM_WORLD); });
  EXPECT_EQ(error.empty(), job_size() == 1) << error;
}

}  // namespace
}  // namespace retile::mpi
