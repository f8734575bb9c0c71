// The C interface on the ranks of a job: what they move, and what they refuse together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "retile/c_mpi.h"
#include "tests/c/handles.h"
#include "tests/mpi/job/job.h"

namespace retile::c::test {
namespace {

using mpi::job_rank;
using mpi::job_size;
using testing::HasSubstr;

bool differs() { return job_rank() == job_size() - 1; }

EngineHandle engine_of_ranks() {
  retile_engine* engine = nullptr;
  EXPECT_EQ(retile_engine_mpi(MPI_COMM_WORLD, &engine), RETILE_OK) << retile_error_message();
  return EngineHandle(engine);
}

// A row of elements for each rank, to be gathered on all; null where the type is none.
PlanHandle gathering_plan(const char* element) {
  retile_mesh* mesh = nullptr;
  retile_layout* source = nullptr;
  retile_layout* target = nullptr;
  retile_plan* plan = nullptr;
  const std::string ranks = std::to_string(job_size());
  EXPECT_EQ(retile_mesh_parse(("a=" + ranks).c_str(), &mesh), RETILE_OK);
  const MeshHandle on(mesh);
  EXPECT_EQ(retile_layout_parse(mesh, ("[1{a}" + ranks + ", 3]").c_str(), &source), RETILE_OK);
  EXPECT_EQ(retile_layout_parse(mesh, ("[" + ranks + ", 3]").c_str(), &target), RETILE_OK);
  const LayoutHandle rows(source);
  const LayoutHandle whole(target);
  retile_plan_create(source, target, element, nullptr, &plan);
  return PlanHandle(plan);
}

struct Gathering {
  EngineHandle engine = engine_of_ranks();
  RunHandle run;
  std::vector<std::int32_t> row = std::vector<std::int32_t>(3);
  std::vector<std::int32_t> all = std::vector<std::int32_t>(static_cast<std::size_t>(3 * job_size()), -1);

  Gathering() {
    std::iota(row.begin(), row.end(), 3 * job_rank());
    retile_run* made = nullptr;
    EXPECT_EQ(retile_run_create(gathering_plan("i32").get(), engine.get(), nullptr, nullptr, &made), RETILE_OK)
        << retile_error_message();
    run.reset(made);
  }
};

TEST(CInterfaceOnRanks, gathers) {
  Gathering gathering;
  const void* const source = gathering.row.data();
  void* const target = gathering.all.data();
  std::vector<std::int32_t> expected(gathering.all.size());
  std::iota(expected.begin(), expected.end(), 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(retile_run_execute(gathering.run.get(), &source, &target), RETILE_OK) << retile_error_message();
    EXPECT_EQ(gathering.all, expected);
    gathering.all.assign(expected.size(), -1);
  }
  ASSERT_EQ(retile_run_start(gathering.run.get(), &source, &target), RETILE_OK) << retile_error_message();
  ASSERT_EQ(retile_run_wait(gathering.run.get()), RETILE_OK) << retile_error_message();
  EXPECT_EQ(gathering.all, expected);
}

TEST(CInterfaceOnRanks, refuses_communicators_that_are_none) {
  retile_engine* engine = nullptr;
  EXPECT_EQ(retile_engine_mpi(MPI_COMM_NULL, &engine), RETILE_RUN_ERROR);
  EXPECT_STREQ(retile_error_message(), "the communicator is MPI_COMM_NULL");
  EXPECT_EQ(engine, nullptr);
  if (job_size() == 1) return;
  MPI_Comm side = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, job_rank() == 0 ? 0 : 1, 0, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, job_rank() == 0 ? 1 : 0, 7, &between);
  EXPECT_EQ(retile_engine_mpi(between, &engine), RETILE_RUN_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("MPI_Intercomm_merge"));
  MPI_Comm_free(&between);
  MPI_Comm_free(&side);
}

// One rank has failed to make a plan, or made another one: all are refused, and can go on.
TEST(CInterfaceOnRanks, refuses_together_what_one_rank_lacks) {
  const EngineHandle engine = engine_of_ranks();
  retile_run* run = nullptr;
  const PlanHandle plan = gathering_plan(differs() ? "i31" : "i32");
  EXPECT_EQ(plan == nullptr, differs());
  EXPECT_EQ(retile_run_create(plan.get(), engine.get(), nullptr, nullptr, &run), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(), "error: the argument plan is NULL");

  retile_memory memory{differs() ? 0 : 1, nullptr, nullptr};
  const PlanHandle right = gathering_plan("i32");
  EXPECT_EQ(retile_run_create(right.get(), engine.get(), &memory, nullptr, &run), RETILE_INPUT_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("a layout of memory has a count below 1"));

  retile_transfer* made = nullptr;
  ASSERT_EQ(retile_transfer_create(&made), RETILE_OK);
  const TransferHandle transfer(made);
  EXPECT_EQ(retile_transfer_run(differs() ? nullptr : made, engine.get(), 0, &run), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(), "error: the argument transfer is NULL");
  EXPECT_EQ(run, nullptr);

  EXPECT_EQ(retile_run_create(right.get(), engine.get(), nullptr, nullptr, &run), RETILE_OK) << retile_error_message();
  retile_run_free(run);
  if (job_size() == 1) return;
  run = nullptr;
  const PlanHandle other = gathering_plan(differs() ? "f64" : "i32");
  EXPECT_EQ(retile_run_create(other.get(), engine.get(), nullptr, nullptr, &run), RETILE_RUN_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("the size of an element is 4 bytes on rank 0 and 8 bytes on rank " +
                                                std::to_string(job_size() - 1)));
}

// One rank cannot execute a run: the others, which need its row, hear why.
TEST(CInterfaceOnRanks, fails_together_where_one_rank_has_no_memory) {
  for (const bool has_lists : {true, false}) {
    Gathering gathering;
    const void* const source = differs() ? nullptr : gathering.row.data();
    void* const target = gathering.all.data();
    const bool gives_lists = has_lists || !differs();
    EXPECT_EQ(retile_run_execute(gathering.run.get(), gives_lists ? &source : nullptr, gives_lists ? &target : nullptr),
              RETILE_RUN_ERROR);
    EXPECT_THAT(retile_error_message(), HasSubstr("the source of device " + std::to_string(job_size() - 1) +
                                                  " has 0 bytes of memory, and its tile takes 12"));
  }
}

}  // namespace
}  // namespace retile::c::test
