// The CUDA engine, on a machine with a GPU.
#include "retile/engines/cuda/cuda_engine.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "retile/pipeline.h"
#include "retile/redistribute.h"
#include "retile/transfer.h"
#include "retile/transfer/run.h"
#include "tests/gpu/device_tiles.h"
#include "tests/support/error_of.h"
#include "tests/support/layouts.h"
#include "tests/support/manifests.h"

namespace retile::cuda {
namespace {

using test::DeviceTiles;
using test::error_of;
using ::testing::HasSubstr;

class CudaEngine : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "there is no GPU";
  }
};

void require_success(cudaError_t error) {
  if (error != cudaSuccess) throw RuntimeError(cudaGetErrorString(error));
}

// A stream of a caller's.
struct OwnStream {
  OwnStream() { require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~OwnStream() { cudaStreamDestroy(stream); }
  CudaOptions options() const {
    CudaOptions options;
    options.stream = [this] { return stream; };
    return options;
  }
  void wait() const { require_success(cudaStreamSynchronize(stream)); }

  cudaStream_t stream = nullptr;
};

Plan plan_of(const char* mesh, const char* source, const char* target, PlannerKind planner = PlannerKind::automatic) {
  PlanOptions options;
  options.planner = planner;
  return make_plan(parse_problem({"mesh", mesh}, {"source", source}, {"target", target}), options);
}

// Two stages, with tiles in between.
Plan plan_of_stages() {
  return plan_of("x=4,y=2", "[64{y,x}512, 512, 8]", "[512, 256{y}512, 2{x}8]", PlannerKind::paper);
}

TEST_F(CudaEngine, moves_between_any_layouts) {
  const auto engine = make_cuda_engine();
  test::RandomProblems random(17);
  for (int i = 0; i < 150; ++i) {
    const Problem problem = test::any_problem(random);
    PipelineOptions options;
    options.running.tiles = i % 3 == 0 ? TileUse::donated : TileUse::kept;
    options.running.repetitions = 2;
    if (options.running.tiles == TileUse::kept && i % 2 == 0) options.planning.planner = PlannerKind::direct;
    const RunReport report = run_pipeline(problem, *engine, options);
    ASSERT_EQ(report.difference, std::nullopt) << i << " " << to_string(problem);
    ASSERT_LE(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
  }
}

TEST_F(CudaEngine, adds_up_sums) {
  const auto engine = make_cuda_engine();
  for (const char* target : {"[8{a}64, 32]", "[64, 32]", "[64, 4{a}32]"}) {
    const Problem problem =
        parse_problem({"mesh", "a=8"}, {"source", "[64, 32] sum {a}"}, {"target", target}, ElementType::bf16);
    EXPECT_EQ(run_pipeline(problem, *engine).difference, std::nullopt) << target;
  }
}

TEST_F(CudaEngine, moves_whole_models) {
  const auto engine = make_cuda_engine();
  test::RandomProblems random(19);
  for (int i = 0; i < 40; ++i) {
    const transfer::TransferPlan plan(test::any_manifest(random), 1 << 20);
    const transfer::TransferReport report = run_transfer(plan, *engine, {7, 2});
    ASSERT_EQ(report.difference, std::nullopt) << i;
    ASSERT_EQ(report.staging_bytes_max, 0);
  }
}

// Pages are of 2 MiB: the arrays of a model have hundreds of them, and tiles that share some.
TEST_F(CudaEngine, moves_whole_models_in_place) {
  const auto engine = make_cuda_engine();
  const std::int64_t free_before = engine->available_memory().value();
  test::RandomProblems random(37);
  for (int i = 0; i < 20; ++i) {
    const transfer::TransferPlan plan(test::any_manifest(random), 64 << 20, {}, TileUse::donated);
    const transfer::TransferReport report = run_transfer(plan, *engine, {7, 2});
    ASSERT_EQ(report.difference, std::nullopt) << i;
    ASSERT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
  }
  const Problem rows_to_columns = parse_problem({"mesh", "x=8"}, {"source", "[512{x}4096, 8192]"},
                                                {"target", "[4096, 1024{x}8192]"}, ElementType::f32);
  const Problem bias = parse_problem({"mesh", "x=8"}, {"source", "[1000{x}8000]"}, {"target", "[8000]"});
  std::vector<std::pair<std::string, Problem>> arrays;
  for (int i = 0; i < 8; ++i) {
    arrays.emplace_back("w" + std::to_string(i), rows_to_columns);
    arrays.emplace_back("b" + std::to_string(i), bias);
  }
  const transfer::TransferPlan plan(transfer::make_manifest(arrays), 24 << 20, {}, TileUse::donated);
  const transfer::TransferReport report = run_transfer(plan, *engine, {7, 2});
  EXPECT_EQ(report.difference, std::nullopt);
  EXPECT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted);
  // 128 MiB a side, and what the cap allows.
  EXPECT_LE(report.peak_bytes_measured, (128 << 20) + (1 << 20) + (24 << 20));
  EXPECT_GE(report.in_place->rounds, 16);
  EXPECT_NEAR(static_cast<double>(engine->available_memory().value()), static_cast<double>(free_before), 64 << 20);
}

TEST_F(CudaEngine, says_when_a_started_run_is_done) {
  const auto engine = make_cuda_engine();
  const Plan plan = plan_of_stages();
  DeviceTiles sources(*engine, plan.movement.source);
  DeviceTiles targets(*engine, plan.movement.target());
  sources.fill(1);
  const auto run = engine->prepare(plan.movement, test::tile_element_size);
  run->start(sources.sources(), targets.targets());
  while (!run->test()) {
  }
  EXPECT_EQ(targets.difference(1), std::nullopt);
}

// What the stream held before is done first, and what comes after finds the targets complete. Nobody waits between.
TEST_F(CudaEngine, keeps_the_order_of_the_callers_stream) {
  const OwnStream own;
  const auto engine = make_cuda_engine(own.options());
  const Plan plan = plan_of_stages();
  ASSERT_GT(plan.steps().size(), 1U);
  DeviceTiles first(*engine, plan.movement.source);
  DeviceTiles second(*engine, plan.movement.source);
  DeviceTiles sources(*engine, plan.movement.source);
  DeviceTiles targets(*engine, plan.movement.target());
  DeviceTiles results[] = {DeviceTiles(*engine, plan.movement.target()), DeviceTiles(*engine, plan.movement.target())};
  first.fill(1);
  second.fill(2);
  sources.clear();
  const auto run = engine->prepare(plan.movement, test::tile_element_size);
  const auto copy = [&](DeviceTiles& from, DeviceTiles& to) {
    for (std::size_t i = 0; i < from.buffers().size(); ++i) {
      require_success(cudaMemcpyAsync(to.buffers()[i].data(), from.buffers()[i].data(), to.buffers()[i].size(),
                                      cudaMemcpyDeviceToDevice, own.stream));
    }
  };
  for (int repetition = 0; repetition < 20; ++repetition) {
    copy(first, sources);
    run->start(sources.sources(), targets.targets());
    copy(targets, results[0]);
    copy(second, sources);
    run->start(sources.sources(), targets.targets());
    copy(targets, results[1]);
  }
  own.wait();
  EXPECT_EQ(results[0].difference(1), std::nullopt);
  EXPECT_EQ(results[1].difference(2), std::nullopt);
  run->run(first.sources(), targets.targets());  // waits
  EXPECT_EQ(targets.difference(1), std::nullopt);
}

TEST_F(CudaEngine, can_be_recorded_in_a_graph) {
  const OwnStream own;
  const auto engine = make_cuda_engine(own.options());
  const Plan plan = plan_of_stages();
  DeviceTiles sources(*engine, plan.movement.source);
  DeviceTiles targets(*engine, plan.movement.target());
  DeviceTiles others(*engine, plan.movement.target());
  const auto run = engine->prepare(plan.movement, test::tile_element_size);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  require_success(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal));
  run->start(sources.sources(), targets.targets());
  require_success(cudaStreamEndCapture(own.stream, &graph));
  require_success(cudaGraphInstantiate(&executable, graph, 0));
  // Between other tiles meanwhile.
  sources.fill(3);
  run->run(sources.sources(), others.targets());
  EXPECT_EQ(others.difference(3), std::nullopt);
  for (const std::uint64_t seed : {std::uint64_t{4}, std::uint64_t{5}}) {
    sources.fill(seed);
    require_success(cudaGraphLaunch(executable, own.stream));
    own.wait();
    EXPECT_EQ(targets.difference(seed), std::nullopt) << seed;
  }
  EXPECT_EQ(others.difference(3), std::nullopt);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_F(CudaEngine, refuses_what_it_cannot_move_before_anything_moves) {
  EXPECT_THAT(error_of([] {
                CudaOptions options;
                options.gpu = 99;
                (void)make_cuda_engine(options);
              }),
              HasSubstr("there is no GPU 99: CUDA sees "));
  const auto engine = make_cuda_engine();
  const Plan plan = plan_of("a=2", "[4{a}8, 8]", "[8, 4{a}8]");
  DeviceTiles sources(*engine, plan.movement.source);
  DeviceTiles targets(*engine, plan.movement.target());
  sources.fill(1);
  targets.clear();
  const auto run = engine->prepare(plan.movement, test::tile_element_size);
  std::vector<std::byte> host(32 * test::tile_element_size);
  std::vector<const std::byte*> wrong = sources.sources();
  wrong[1] = host.data();
  EXPECT_EQ(error_of([&] { run->run(wrong, targets.targets()); }), "a tile lies in memory of the host, not of GPU 0");
  EXPECT_EQ(error_of([&] { (void)engine->allocate(std::size_t{1} << 50U); }).substr(0, 42),
            "GPU 0 has no memory for 1125899906842624 b");
  transfer::TransferOptions in_place{.engine = engine.get(), .in_place = true};
  const Problem problem = parse_problem({"mesh", "a=2"}, {"source", "[4{a}8, 8]"}, {"target", "[8, 4{a}8]"});
  transfer::Transfer transfer({{"w", problem}}, in_place);
  const auto memory_of = [](DeviceTiles& tiles, std::size_t i) {
    return std::span(tiles.buffers()[i].data(), tiles.buffers()[i].size());
  };
  const transfer::ArrayMemory memory{
      "w", {memory_of(sources, 0), memory_of(sources, 1)}, {memory_of(targets, 0), memory_of(targets, 1)}};
  EXPECT_THAT(error_of([&] { transfer.run({&memory, 1}); }), HasSubstr("in place, tiles "));
  // Nothing is lost.
  run->run(sources.sources(), targets.targets());
  EXPECT_EQ(targets.difference(1), std::nullopt);
}

}  // namespace
}  // namespace retile::cuda
