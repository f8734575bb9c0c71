// How long a compiler's log takes to read: 10,000 lines, one in ten a warning, a hundred of them different.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "retile/interchange/compiler_log.h"

namespace retile::bench {
namespace {

constexpr int line_count = 10000;

std::string make_log() {
  std::string log;
  for (int line = 0; line < line_count; ++line) {
    if (line % 10 != 0) {
      log += fmt::format(
          "I1015 18:20:08.{:06} 12979952 compiler.cc:{}] module jit_step after pass {}, 4096 instructions\n", line,
          line % 900, line % 77);
      continue;
    }
    log += fmt::format(
        "W1015 18:20:08.{:06} 12979952 spmd_partitioner.cc:645] [SPMD] Involuntary full rematerialization. The "
        "compiler "
        "cannot go from sharding {{devices=[2,1,4]<=[4,2]T(1,0)}} to {{devices=[1,8,1]<=[8]}} efficiently for HLO "
        "operation "
        "%copy.{} = f32[8,{},4]{{2,1,0}} copy(%param), sharding={{devices=[2,1,4]<=[4,2]T(1,0)}}, "
        "metadata={{op_name=\"x\"}}. "
        "As the last resort, SPMD will replicate the tensor and then partition it to obtain the target sharding.\n",
        line, line, 16 * (1 + line / 10 % 100));
  }
  return log;
}

// Reads the log and what every different warning in it says.
void read_log(benchmark::State& state) {
  const SourceText log{"log", make_log()};
  for (auto _ : state) {
    const interchange::CompilerLog read = interchange::read_compiler_log(log);
    if (read.reshards.size() != 100 || !read.faults.empty()) return state.SkipWithError("the log was not read right");
    for (const interchange::ReportedReshard& reshard : read.reshards) {
      benchmark::DoNotOptimize(interchange::parse_reshard(log, reshard, reshard.array->shape, true, {}));
    }
  }
  state.counters["lines"] = line_count;
}

BENCHMARK(read_log)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace retile::bench

BENCHMARK_MAIN();
