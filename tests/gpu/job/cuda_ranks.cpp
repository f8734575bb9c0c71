// The CUDA engine on ranks that share GPUs.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#if __has_include(<nccl.h>)
#include <dlfcn.h>
#include <nccl.h>
#endif

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/cuda_mpi/cuda_mpi_engine.h"
#include "retile/pipeline.h"
#include "retile/transfer/run.h"
#include "tests/gpu/device_tiles.h"
#include "tests/mpi/job/job.h"
#include "tests/support/error_of.h"
#include "tests/support/layouts.h"
#include "tests/support/manifests.h"

namespace retile::cuda {
namespace {

using mpi::job_rank;
using mpi::job_size;
using test::DeviceTiles;
using test::error_of;
using ::testing::HasSubstr;

// Whether NCCL takes the ranks of this job: where several share a GPU, from 2.30 on and if it is told to.
const std::optional<std::string>& fault_of_nccl() {
  static const std::optional<std::string> fault = []() -> std::optional<std::string> {
    CudaRankOptions options;
    options.transport = CudaTransport::nccl;
    try {
      (void)make_cuda_engine(MPI_COMM_WORLD, options);
    } catch (const RuntimeError& error) {
      return error.what();
    }
    return std::nullopt;
  }();
  return fault;
}

class CudaRanks : public testing::TestWithParam<CudaTransport> {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "there is no GPU";
    if (GetParam() == CudaTransport::nccl && fault_of_nccl()) GTEST_SKIP() << *fault_of_nccl();
  }

  // So little staging that messages go in many rounds.
  static CudaRankOptions options() {
    CudaRankOptions options;
    options.transport = GetParam();
    options.staging_bytes = 64 << 10;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(transports, CudaRanks, testing::Values(CudaTransport::ipc, CudaTransport::nccl),
                         [](const auto& test) { return test.param == CudaTransport::ipc ? "ipc" : "nccl"; });

// Rows to columns, of one device for each rank.
Plan plan_of_ranks(PlannerKind planner = PlannerKind::direct) {
  const Mesh mesh({{"a", job_size()}});
  const Shape shape{24 * job_size(), 40 * job_size()};
  PlanOptions options;
  options.planner = planner;
  return make_plan(Problem("", DistributedType::cut(mesh, shape, {{mesh.whole(0)}, {}}),
                           DistributedType::cut(mesh, shape, {{}, {mesh.whole(0)}})),
                   options);
}

TEST_P(CudaRanks, move_between_any_layouts) {
  const auto engine = make_cuda_engine(MPI_COMM_WORLD, options());
  test::RandomProblems random(23);
  int runs = 0;
  for (int i = 0; i < 200; ++i) {
    const Problem problem = test::any_problem(random, 2 * job_size());
    if (problem.device_count() % job_size() != 0) continue;
    ++runs;
    PipelineOptions options;
    options.running.tiles = i % 3 == 0 ? TileUse::donated : TileUse::kept;
    options.running.repetitions = 2;
    const RunReport report = run_pipeline(problem, *engine, options);
    ASSERT_EQ(report.difference, std::nullopt) << i << " " << to_string(problem);
    ASSERT_LE(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
  }
  EXPECT_GT(runs, 10);
}

TEST_P(CudaRanks, add_up_sums) {
  const auto engine = make_cuda_engine(MPI_COMM_WORLD, options());
  const std::string mesh = "a=" + std::to_string(job_size());
  const std::string rows = std::to_string(8 * job_size());
  const Problem problem = parse_problem({"mesh", mesh}, {"source", "[" + rows + ", 32] sum {a}"},
                                        {"target", "[8{a}" + rows + ", 32]"}, ElementType::f16);
  EXPECT_EQ(run_pipeline(problem, *engine).difference, std::nullopt);
}

TEST_P(CudaRanks, move_whole_models) {
  const auto engine = make_cuda_engine(MPI_COMM_WORLD, options());
  test::RandomProblems random(29);
  for (int i = 0; i < 20; ++i) {
    const transfer::TransferPlan plan(test::any_manifest(random, (1 + i % 2) * job_size()), 1 << 20);
    const transfer::TransferReport report = run_transfer(plan, *engine, {7, 2});
    ASSERT_EQ(report.difference, std::nullopt) << i;
  }
}

// Memory that is freed and taken anew may have the same addresses, and is other memory.
TEST_P(CudaRanks, read_memory_that_is_there_now) {
  const auto engine = make_cuda_engine(MPI_COMM_WORLD, options());
  const Plan plan = plan_of_ranks();
  const auto run = engine->prepare(plan.movement, test::tile_element_size);
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    DeviceTiles sources(*engine, plan.movement.source);
    DeviceTiles targets(*engine, plan.movement.target());
    sources.fill(seed);
    targets.clear();
    run->run(sources.sources(), targets.targets());
    ASSERT_EQ(targets.difference(seed), std::nullopt) << seed;
    sources.fill(seed + 100);
    run->run(sources.sources(), targets.targets());
    ASSERT_EQ(targets.difference(seed + 100), std::nullopt) << seed;
  }
}

TEST_P(CudaRanks, start_several_runs_and_wait_in_any_order) {
  const auto engine = make_cuda_engine(MPI_COMM_WORLD, options());
  const Plan plans[] = {plan_of_ranks(), plan_of_ranks(PlannerKind::paper)};
  std::vector<std::unique_ptr<PreparedRun>> runs;
  std::vector<std::unique_ptr<DeviceTiles>> sources;
  std::vector<std::unique_ptr<DeviceTiles>> targets;
  for (const Plan& plan : plans) {
    runs.push_back(engine->prepare(plan.movement, test::tile_element_size));
    sources.push_back(std::make_unique<DeviceTiles>(*engine, plan.movement.source));
    targets.push_back(std::make_unique<DeviceTiles>(*engine, plan.movement.target()));
  }
  for (std::uint64_t seed = 1; seed < 8; ++seed) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      sources[i]->fill(seed + i);
      targets[i]->clear();
    }
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i]->start(sources[i]->sources(), targets[i]->targets());
    const bool is_last_first = (static_cast<std::uint64_t>(job_rank()) + seed) % 2 == 0;
    runs[is_last_first ? 1 : 0]->wait();
    runs[is_last_first ? 0 : 1]->wait();
    for (std::size_t i = 0; i < runs.size(); ++i) ASSERT_EQ(targets[i]->difference(seed + i), std::nullopt) << seed;
  }
}

TEST_P(CudaRanks, stage_no_more_than_they_may) {
  const auto engine = make_cuda_engine(MPI_COMM_WORLD, options());
  const Plan plan = plan_of_ranks();
  DeviceTiles sources(*engine, plan.movement.source);
  DeviceTiles targets(*engine, plan.movement.target());
  sources.fill(3);
  const auto run = engine->prepare(plan.movement, test::tile_element_size);
  const RunStatistics statistics = run->execute(sources.sources(), targets.targets());
  EXPECT_EQ(targets.difference(3), std::nullopt);
  const bool is_staged = GetParam() == CudaTransport::nccl && job_size() > 1;
  EXPECT_EQ(statistics.staging_max > 0, is_staged);
  EXPECT_LE(statistics.staging_max, options().staging_bytes);
}

TEST_P(CudaRanks, hear_of_a_rank_that_fails) {
  if (job_size() == 1) return;
  const auto engine = make_cuda_engine(MPI_COMM_WORLD, options());
  const Plan plan = plan_of_ranks();
  DeviceTiles sources(*engine, plan.movement.source);
  DeviceTiles targets(*engine, plan.movement.target());
  const auto run = engine->prepare(plan.movement, test::tile_element_size);
  std::vector<std::byte> host(sources.buffers()[0].size());
  const int last = job_size() - 1;
  std::vector<const std::byte*> from = sources.sources();
  if (job_rank() == last) from[0] = host.data();
  EXPECT_THAT(error_of([&] { run->run(from, targets.targets()); }),
              HasSubstr("rank " + std::to_string(last) + ", step 0"));
  EXPECT_THAT(error_of([&] { run->run(sources.sources(), targets.targets()); }), HasSubstr("an earlier run failed: "));
}

TEST_P(CudaRanks, refuse_together) {
  CudaRankOptions wrong = options();
  if (job_rank() == job_size() - 1) wrong.gpu = 99;
  EXPECT_THAT(error_of([&] { (void)make_cuda_engine(MPI_COMM_WORLD, wrong); }), HasSubstr("there is no GPU 99"));
}

TEST_P(CudaRanks, want_one_transport) {
  if (job_size() == 1) return;
  CudaRankOptions different = options();
  if (job_rank() == 1) different.transport = CudaTransport::automatic;
  EXPECT_THAT(error_of([&] { (void)make_cuda_engine(MPI_COMM_WORLD, different); }),
              HasSubstr("the transport between GPUs"));
}

#if __has_include(<nccl.h>)

// A communicator of NCCL's that a program has made for itself.
class OwnCommunicator {
 public:
  OwnCommunicator() {
    ncclUniqueId id{};
    if (job_rank() == 0) call<&ncclGetUniqueId>("ncclGetUniqueId", &id);
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    call<&ncclCommInitRank>("ncclCommInitRank", &comm_, job_size(), id, job_rank());
  }
  OwnCommunicator(const OwnCommunicator&) = delete;
  OwnCommunicator& operator=(const OwnCommunicator&) = delete;
  ~OwnCommunicator() { call<&ncclCommDestroy>("ncclCommDestroy", comm_); }

  ncclComm_t get() const { return comm_; }

 private:
  template <auto function, typename... Arguments>
  static void call(const char* name, Arguments... arguments) {
    static void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    const auto found = reinterpret_cast<decltype(function)>(dlsym(library, name));
    ASSERT_EQ(found(arguments...), ncclSuccess) << name;
  }

  ncclComm_t comm_ = nullptr;
};

TEST_P(CudaRanks, take_a_communicator_of_the_callers) {
  if (GetParam() != CudaTransport::nccl) return;
  const OwnCommunicator own;
  CudaRankOptions handed = options();
  handed.communicator = own.get();
  const auto engine = make_cuda_engine(MPI_COMM_WORLD, handed);
  const Plan plan = plan_of_ranks();
  DeviceTiles sources(*engine, plan.movement.source);
  DeviceTiles targets(*engine, plan.movement.target());
  sources.fill(4);
  engine->prepare(plan.movement, test::tile_element_size)->run(sources.sources(), targets.targets());
  EXPECT_EQ(targets.difference(4), std::nullopt);
}

#endif

}  // namespace
}  // namespace retile::cuda
