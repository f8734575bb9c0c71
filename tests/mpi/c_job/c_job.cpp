// The C interface on the ranks of a job: what they move, and what they refuse together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "retile/c_mpi.h"
#include "tests/c/handles.h"
#include "tests/mpi/c_job/collective_calls.h"
#include "tests/mpi/job/job.h"

namespace retile::c::test {
namespace {

using mpi::job_rank;
using mpi::job_size;
using testing::HasSubstr;

bool differs() { return job_rank() == job_size() - 1; }

// A communicator with an engine of its own, for what ends an engine or counts it.
struct Copy {
  MPI_Comm comm = MPI_COMM_NULL;

  Copy() { MPI_Comm_dup(MPI_COMM_WORLD, &comm); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() { MPI_Comm_free(&comm); }
};

EngineHandle engine_of_ranks(MPI_Comm comm = MPI_COMM_WORLD, const retile_mpi_options* options = nullptr) {
  retile_engine* engine = nullptr;
  EXPECT_EQ(retile_engine_mpi_with(comm, options, &engine), RETILE_OK) << retile_error_message();
  return EngineHandle(engine);
}

struct GatheringLayouts {
  LayoutHandle rows;
  LayoutHandle whole;
};

// A row of elements for each rank, to be gathered on all.
GatheringLayouts gathering_layouts() {
  retile_mesh* mesh = nullptr;
  retile_layout* source = nullptr;
  retile_layout* target = nullptr;
  const std::string ranks = std::to_string(job_size());
  EXPECT_EQ(retile_mesh_parse(("a=" + ranks).c_str(), &mesh), RETILE_OK);
  const MeshHandle on(mesh);
  EXPECT_EQ(retile_layout_parse(mesh, ("[1{a}" + ranks + ", 3]").c_str(), &source), RETILE_OK);
  EXPECT_EQ(retile_layout_parse(mesh, ("[" + ranks + ", 3]").c_str(), &target), RETILE_OK);
  return {LayoutHandle(source), LayoutHandle(target)};
}

// Null where there is no such type.
PlanHandle gathering_plan(const char* element) {
  const GatheringLayouts layouts = gathering_layouts();
  retile_plan* plan = nullptr;
  retile_plan_create(layouts.rows.get(), layouts.whole.get(), element, nullptr, &plan);
  return PlanHandle(plan);
}

std::vector<std::int32_t> numbers_from(std::int32_t first, std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

struct Gathering {
  EngineHandle engine;
  RunHandle run;
  std::vector<std::int32_t> row = numbers_from(3 * job_rank(), 3);
  std::vector<std::int32_t> all = std::vector<std::int32_t>(static_cast<std::size_t>(3 * job_size()), -1);

  explicit Gathering(EngineHandle on = engine_of_ranks()) : engine(std::move(on)) {
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
  const std::vector<std::int32_t> expected = numbers_from(0, gathering.all.size());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(retile_run_execute(gathering.run.get(), &source, &target), RETILE_OK) << retile_error_message();
    EXPECT_EQ(gathering.all, expected);
    gathering.all.assign(expected.size(), -1);
  }
  ASSERT_EQ(retile_run_start(gathering.run.get(), &source, &target), RETILE_OK) << retile_error_message();
  ASSERT_EQ(retile_run_wait(gathering.run.get()), RETILE_OK) << retile_error_message();
  EXPECT_EQ(gathering.all, expected);
  gathering.all.assign(expected.size(), -1);
  ASSERT_EQ(retile_run_start(gathering.run.get(), &source, &target), RETILE_OK) << retile_error_message();
  int done = 0;
  while (done == 0) ASSERT_EQ(retile_run_test(gathering.run.get(), &done), RETILE_OK) << retile_error_message();
  EXPECT_EQ(gathering.all, expected);
  retile_statistics statistics{};
  ASSERT_EQ(retile_run_statistics(gathering.run.get(), &statistics), RETILE_OK) << retile_error_message();
  EXPECT_EQ(statistics.received_max, 12 * (job_size() - 1));
}

TEST(CInterfaceOnRanks, moves_several_arrays_in_one_run) {
  const EngineHandle engine = engine_of_ranks();
  const GatheringLayouts layouts = gathering_layouts();
  retile_transfer* made = nullptr;
  ASSERT_EQ(retile_transfer_create(&made), RETILE_OK);
  const TransferHandle transfer(made);
  const retile_layout* const rows = layouts.rows.get();
  const retile_layout* const whole = layouts.whole.get();
  ASSERT_EQ(retile_transfer_add(made, "gathered", rows, whole, "i32", nullptr, nullptr), RETILE_OK);
  ASSERT_EQ(retile_transfer_add(made, "cut", whole, rows, "i32", nullptr, nullptr), RETILE_OK);
  retile_run* prepared = nullptr;
  ASSERT_EQ(retile_transfer_run(made, engine.get(), 1 << 16, &prepared), RETILE_OK) << retile_error_message();
  const RunHandle run(prepared);
  const std::vector<std::int32_t> row = numbers_from(3 * job_rank(), 3);
  const std::vector<std::int32_t> all = numbers_from(0, static_cast<std::size_t>(3 * job_size()));
  std::vector<std::int32_t> gathered(all.size());
  std::vector<std::int32_t> cut(3);
  const std::array<const void*, 2> sources{row.data(), all.data()};
  const std::array<void*, 2> targets{gathered.data(), cut.data()};
  ASSERT_EQ(retile_run_execute(prepared, sources.data(), targets.data()), RETILE_OK) << retile_error_message();
  EXPECT_EQ(gathered, all);
  EXPECT_EQ(cut, row);
}

// But for MPI's own collectives, where they are asked for.
TEST(CInterfaceOnRanks, executions_make_no_collective_call) {
  for (const char* transport : {"auto", "messages", "collectives"}) {
    const retile_mpi_options options{transport, 0, nullptr, 0};
    Gathering gathering(engine_of_ranks(MPI_COMM_WORLD, &options));
    const void* const source = gathering.row.data();
    void* const target = gathering.all.data();
    const int before = collective_calls();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(retile_run_execute(gathering.run.get(), &source, &target), RETILE_OK) << retile_error_message();
      ASSERT_EQ(retile_run_start(gathering.run.get(), &source, &target), RETILE_OK) << retile_error_message();
      ASSERT_EQ(retile_run_wait(gathering.run.get()), RETILE_OK) << retile_error_message();
    }
    const int made = collective_calls() - before;
    EXPECT_EQ(made > 0, std::string(transport) == "collectives" && job_size() > 1) << transport << ": " << made;
    retile_statistics statistics{};
    ASSERT_EQ(retile_run_statistics(gathering.run.get(), &statistics), RETILE_OK) << retile_error_message();
    EXPECT_GT(collective_calls(), before + made) << "statistics are collective";
  }
}

// --- Engines.

TEST(CInterfaceOnRanks, keeps_one_engine_for_a_communicator) {
  const Copy copy;
  const EngineHandle first = engine_of_ranks(copy.comm);
  const int before = new_communicators();
  EXPECT_GT(before, 0) << "an engine works on a duplicate";
  for (int i = 0; i < 3; ++i) engine_of_ranks(copy.comm);
  EXPECT_EQ(new_communicators(), before);
}

TEST(CInterfaceOnRanks, outlives_the_handle_that_asked_for_the_engine) {
  for (int i = 0; i < 3; ++i) Gathering{};
  Gathering gathering;
  gathering.engine.reset();
  const void* const source = gathering.row.data();
  void* const target = gathering.all.data();
  ASSERT_EQ(retile_run_execute(gathering.run.get(), &source, &target), RETILE_OK) << retile_error_message();
}

TEST(CInterfaceOnRanks, takes_options) {
  std::vector<std::int64_t> map;
  for (int rank = job_size(); rank-- > 0;) map.push_back(rank);
  const retile_mpi_options options{"messages", 1 << 16, map.data(), job_size()};
  Gathering gathering(engine_of_ranks(MPI_COMM_WORLD, &options));
  std::int64_t device = -1;
  EXPECT_EQ(retile_engine_devices(gathering.engine.get(), job_size(), &device, 1, nullptr), RETILE_OK);
  EXPECT_EQ(device, job_size() - 1 - job_rank());
  gathering.row = numbers_from(static_cast<std::int32_t>(3 * device), 3);
  const void* const source = gathering.row.data();
  void* const target = gathering.all.data();
  ASSERT_EQ(retile_run_execute(gathering.run.get(), &source, &target), RETILE_OK) << retile_error_message();
  EXPECT_EQ(gathering.all, numbers_from(0, gathering.all.size()));
  const retile_mpi_options zero{};
  engine_of_ranks(MPI_COMM_WORLD, &zero);
}

TEST(CInterfaceOnRanks, refuses_options_that_are_wrong) {
  retile_engine* engine = nullptr;
  const retile_mpi_options pigeons{"pigeons", 0, nullptr, 0};
  EXPECT_EQ(retile_engine_mpi_with(MPI_COMM_WORLD, &pigeons, &engine), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(),
               "error: unknown transport 'pigeons'\nhint: transports are auto, collectives, messages");
  const retile_mpi_options short_map{nullptr, 0, nullptr, 2};
  EXPECT_EQ(retile_engine_mpi_with(MPI_COMM_WORLD, &short_map, &engine), RETILE_INPUT_ERROR);
  EXPECT_STREQ(retile_error_message(), "error: the argument device_map is NULL");
  const retile_mpi_options little{nullptr, 1, nullptr, 0};
  EXPECT_EQ(retile_engine_mpi_with(MPI_COMM_WORLD, &little, &engine), RETILE_RUN_ERROR);
  EXPECT_THAT(retile_error_message(), HasSubstr("staging of 1 bytes is not between "));
  EXPECT_EQ(engine, nullptr);
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

// Options that one rank alone has wrong, before the communicator has an engine and after: all are refused, and can go
// on.
TEST(CInterfaceOnRanks, refuses_together_options_that_one_rank_has_wrong) {
  const Copy copy;
  const retile_mpi_options pigeons{"pigeons", 0, nullptr, 0};
  const retile_mpi_options short_map{nullptr, 0, nullptr, 2};
  for (int i = 0; i < 2; ++i) {
    retile_engine* engine = nullptr;
    EXPECT_EQ(retile_engine_mpi_with(copy.comm, differs() ? &pigeons : nullptr, &engine), RETILE_INPUT_ERROR);
    EXPECT_THAT(retile_error_message(), HasSubstr("unknown transport 'pigeons'"));
    EXPECT_EQ(retile_engine_mpi_with(copy.comm, differs() ? &short_map : nullptr, &engine), RETILE_INPUT_ERROR);
    EXPECT_STREQ(retile_error_message(), "error: the argument device_map is NULL");
    EXPECT_EQ(retile_engine_mpi_with(copy.comm, nullptr, differs() ? nullptr : &engine), RETILE_INPUT_ERROR);
    EXPECT_STREQ(retile_error_message(), "error: the argument engine is NULL");
    EXPECT_EQ(engine, nullptr);
    engine_of_ranks(copy.comm);
  }
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

// One rank cannot execute a run: the others, which need its row, hear why. The engine ends with it.
TEST(CInterfaceOnRanks, fails_together_where_one_rank_has_no_memory) {
  for (const bool has_lists : {true, false}) {
    const Copy copy;
    Gathering gathering(engine_of_ranks(copy.comm));
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
