// How long planning takes, problem by problem, and how good the plans are.
//
// One iteration plans every problem of a family once. Counters are over the problems of the family.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/heap_meter.h"
#include "bench/problem_times.h"
#include "bench/sample_problems.h"
#include "bench/text_lines.h"
#include "retile/machine/machine.h"
#include "retile/plan/verify.h"
#include "retile/planner/planner.h"
#include "retile/planner/relabelling.h"

namespace retile::bench {
namespace {

struct Quality {
  std::size_t verified = 0;
  std::size_t proved = 0;
  double gap_sum = 0;
  std::int64_t peak_bytes = 0;
};

// Replaying a plan takes time and memory per device; on larger meshes the first few plans stand for all.
std::size_t verified_count(std::int64_t devices) {
  if (devices <= 1024) return std::numeric_limits<std::size_t>::max();
  return devices <= 4096 ? 20 : 2;
}

// The share of the cost that is not proved to be needed.
double gap_of(const PlanCost& cost) {
  if (cost.total == 0) return 0;
  return static_cast<double>(cost.total - cost.lower_bound) / static_cast<double>(cost.total);
}

// Plans every problem once, untimed. Returns what is wrong with the first wrong plan, or nothing.
std::string assess(const std::vector<Problem>& problems, const PlanOptions& options, Quality& quality) {
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const HeapMeter meter;
    const Plan plan = make_plan(problems[i], options);
    quality.peak_bytes = std::max(quality.peak_bytes, meter.peak_bytes());
    quality.proved += plan.cost.optimal ? 1 : 0;
    quality.gap_sum += gap_of(plan.cost);
    if (i >= verified_count(problems[i].device_count())) continue;
    const std::vector<std::string> faults = find_faults(plan, {}, 1);
    if (!faults.empty()) return fmt::format("the plan of {} is wrong: {}", plan.id, faults.front());
    ++quality.verified;
  }
  return {};
}

void plan_family(benchmark::State& state, const std::vector<Problem>& problems, const PlanOptions& options) {
  Quality quality;
  const std::string fault = assess(problems, options, quality);
  if (!fault.empty()) return state.SkipWithError(fault.c_str());

  ProblemTimes times(problems,
                     [&](const Problem& problem) { return seconds_of([&] { return make_plan(problem, options); }); });
  for ([[maybe_unused]] auto iteration : state) state.SetIterationTime(times.pass());

  const auto count = static_cast<double>(problems.size());
  state.counters["problems"] = count;
  state.counters["verified"] = static_cast<double>(quality.verified);
  state.counters["median_us"] = 1e6 * times.percentile(0.5);
  state.counters["p99_us"] = 1e6 * times.percentile(0.99);
  state.counters["max_us"] = 1e6 * times.percentile(1);
  state.counters["proved"] = static_cast<double>(quality.proved) / count;
  state.counters["mean_gap"] = quality.gap_sum / count;
  state.counters["peak_heap_kb"] = static_cast<double>(quality.peak_bytes) / 1e3;
}

using Problems = std::function<std::vector<Problem>()>;

void add_planning(const std::string& name, const Problems& problems, const PlanOptions& options, int passes) {
  benchmark::RegisterBenchmark(fmt::format("{}/{}", name, name_of(options.planner)).c_str(),
                               [=](benchmark::State& state) { plan_family(state, problems(), options); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(passes);
}

void add_family(const std::string& name, const Problems& problems, const std::vector<PlannerKind>& planners,
                int passes) {
  for (const PlannerKind planner : planners) {
    PlanOptions options;
    options.planner = planner;
    add_planning(name, problems, options, passes);
  }
}

// The fastest plans on a machine of examples/machines, of as many devices.
void add_timed_family(const std::string& name, const std::string& machine, const Problems& problems, int passes) {
  const std::string path = fmt::format("{}/examples/machines/{}.json", RETILE_SOURCE_DIR, machine);
  add_planning(fmt::format("{}_on_{}", name, machine), problems, on_machine(read_machine(path)), passes);
}

// How long it takes to choose the order of the target's devices on a machine of 128 hosts.
void add_relabelling() {
  benchmark::RegisterBenchmark(
      "relabelling_of_1024_on_128_hosts",
      [](benchmark::State& state) {
        Machine machine;
        for (Device device = 0; device < 1024; ++device) {
          if (device % 8 == 0) machine.hosts.emplace_back();
          machine.hosts.back().push_back(device);
        }
        machine.links.assign(machine.hosts.size(), {4e11, 4e11});
        machine.link_latency = 5e-6;
        machine.inside_rate = 4.5e11;
        machine.inside_latency = 3e-6;
        const std::vector<Problem> problems = sample_problems({"relabelled", {16, 8, 8}, {1024, 1024, 1024, 1024}, 20});
        const PlanOptions options = on_machine(machine);
        ProblemTimes times(
            problems, [&](const Problem& problem) { return seconds_of([&] { return relabel(problem, options); }); });
        for ([[maybe_unused]] auto iteration : state) state.SetIterationTime(times.pass());
        state.counters["problems"] = static_cast<double>(problems.size());
        state.counters["median_us"] = 1e6 * times.percentile(0.5);
        state.counters["max_us"] = 1e6 * times.percentile(1);
      })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1);
}

// From a mesh of all devices to one of the first half of them.
std::vector<Problem> cross_mesh_problems() {
  const Shape shape{256, 256, 256, 256};
  const std::vector<Problem> from = sample_problems({"from", {16, 16}, shape, 200});
  const std::vector<Problem> to = sample_problems({"to", {8, 16}, shape, 200});
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < from.size(); ++i) problems.emplace_back(from[i].id(), from[i].source(), to[i].target());
  return problems;
}

void add_families() {
  using enum PlannerKind;
  const auto papers_problems = [] { return read_problems(RETILE_SOURCE_DIR "/tests/data/problems.jsonl"); };
  add_family("2x2x2_1-6D", papers_problems, {paper, wide, direct, gather_slice}, 400);
  const auto add_sampled = [](const ProblemFamily& family, int passes) {
    add_family(
        family.name, [=] { return sample_problems(family); }, {paper, wide}, passes);
  };
  add_sampled({"4x6x2_3D", {4, 6, 2}, {96, 96, 96}, 200}, 50);
  add_sampled({"2x3x5_3D", {2, 3, 5}, {120, 120, 120}, 200}, 50);
  add_sampled({"12x12_3D", {12, 12}, {288, 288, 288}, 200}, 20);
  add_sampled({"8x8x8_6D", {8, 8, 8}, {512, 512, 512, 512, 512, 512}, 200}, 20);
  add_sampled({"16x16x16_4D", {16, 16, 16}, {4096, 4096, 4096, 4096}, 200}, 20);
  add_family("256_to_128_4D", cross_mesh_problems, {automatic}, 20);
  for (const char* machine : {"h100-node", "gigabit-4"}) add_timed_family("2x2x2_1-6D", machine, papers_problems, 100);
  const ProblemFamily on_hosts{"8x8x8_3D", {8, 8, 8}, {4096, 4096, 4096}, 100};
  add_timed_family(
      on_hosts.name, "h100-cluster-64", [=] { return sample_problems(on_hosts); }, 5);
  add_relabelling();
  add_sampled({"32x32x32x32_4D", {32, 32, 32, 32}, {32768, 32768, 32768, 32768}, 100}, 5);
}

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  benchmark::Initialize(&argument_count, arguments);
  if (benchmark::ReportUnrecognizedArguments(argument_count, arguments)) return 2;
  retile::bench::add_families();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
