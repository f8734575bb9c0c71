// retile run
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "retile/base/error.h"
#include "retile/base/utf8.h"
#include "retile/pipeline.h"
#include "retile/plan/text.h"
#include "tools/retile/command.h"
#include "tools/retile/engine_option.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/run_program.h"

namespace retile::command {
namespace run_command {

constexpr const char* examples =
    R"(SRC and DST: each problem is planned, the plan is checked, and made-up data of the element type is moved;
every device's result is compared with a slice of the global array. Times are of runs in memory
that is allocated before; with --donate, tiles are freed on the way and the peak is that of the largest step.

Instead of SRC and DST, a file with a program may be given. Its redistributions are planned, its main function
is run, and the returned values are printed: type, a checksum that depends only on the elements, not on the
layout, and the first elements. If replicas on different devices differ, the run fails and says where. A memory
limit is then in bytes per device, and a program that needs more is refused before it runs.

Examples:
  retile run --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]'
  retile run --mesh a=2,b=2 '[512{a}1024, 4096]' '[1024, 1024{a,b}4096]' --threads 2 --repeat 5 --donate
  mpirun -n 8 retile run --mesh x=8 '[1024{x}8192, 4096]' '[8192, 512{x}4096]' --transport messages
  echo '{"mesh": {"a":2,"b":2}, "shape": [4,6], "src": [["a"],[]], "dst": [[],["b"]], "dtype": "f64"}' |
    retile run --problems - --repeat 3 --json
  echo 'mesh {x: 4} fn main(a: [2{x}8]) -> [8] { b = undistribute a return b }' | retile run - --verify
  a program of your own, with an argument from a NumPy file and a result written to one
    mpirun -n 4 retile run program.spmd --arg a=a.npy --out b=b.npy)";

struct Arguments {
  ProblemArguments problem;
  EngineArguments engine;
  ProgramArguments program;
  int repetitions = 1;
  std::uint64_t seed = 0;
  bool donate = false;
  bool json = false;
};

std::string render_run(const RunReport& report) {
  const double fastest = *std::min_element(report.seconds.begin(), report.seconds.end());
  return fmt::format("{}{}, {} engine: verified, {:.6f} s, {} bytes received at most, peak {} of {} bytes predicted\n",
                     report.id.empty() ? "" : printable(report.id) + ": ", count_of(report.devices, "device"),
                     report.engine, fastest, group_digits(report.received_bytes_max),
                     group_digits(report.peak_bytes_measured), group_digits(report.peak_bytes_predicted));
}

bool stands_alone(const ProblemArguments& arguments) {
  return !arguments.target && !arguments.mesh && !arguments.problems;
}

// Whether the only argument names a program: it is no type.
bool is_program(const ProblemArguments& arguments) {
  if (!arguments.source) return false;
  return arguments.source->ends_with(".spmd") ||
         (stands_alone(arguments) && !arguments.shape && !arguments.source->starts_with('['));
}

int run_program(const Arguments& arguments) {
  if (!stands_alone(arguments.problem))
    throw UsageError("a program cannot be combined with other arguments, --mesh or --problems");
  if (arguments.problem.element_type) throw UsageError("--dtype goes with SRC and DST; a program has its own types");
  if (arguments.problem.relabel) throw UsageError("--relabel goes with SRC and DST; a program has its own layouts");
  if (arguments.donate)
    throw UsageError("--donate goes with SRC and DST; a program's tiles are freed where they can be");
  if (arguments.engine.engine == "cuda") throw UsageError("--engine cuda moves arrays; programs run on threads or mpi");
  runtime::ProgramRunOptions options;
  options.repetitions = arguments.repetitions;
  options.seed = arguments.seed;
  const std::unique_ptr<Engine> engine = make_engine(arguments.engine, arguments.problem.machine);
  run_program_file(*arguments.problem.source, arguments.program, arguments.problem.memory_limit,
                   planner_options(arguments.problem), options, arguments.json, *engine);
  return done;
}

int run(const Arguments& arguments) {
  if (is_program(arguments.problem)) return run_program(arguments);
  if (!arguments.problem.source && stands_alone(arguments.problem))
    throw UsageError("nothing to do: give a program, or --mesh, SRC and DST, or --problems FILE");
  if (is_given(arguments.program))
    throw UsageError("--arg, --out and --verify go with a program: retile run FILE.spmd");
  PipelineOptions options;
  options.running.tiles = arguments.donate ? TileUse::donated : TileUse::kept;
  options.running.repetitions = arguments.repetitions;
  options.running.seed = arguments.seed;
  const std::unique_ptr<Engine> engine = make_engine(arguments.engine, arguments.problem.machine);
  return for_each_problem(arguments.problem, "running", [&](const Problem& problem) {
    require_ranks(*engine, problem.device_count());
    options.planning = plan_options(arguments.problem, problem);
    if (!arguments.json) write_remark(remarks_on(arguments.problem, problem));
    const RunReport report = run_pipeline(problem, *engine, options);
    const bool silent = report.difference && !arguments.json;
    if (!silent) write_result(arguments.json ? to_json(report) + "\n" : render_run(report));
    if (report.difference) throw RuntimeError("the result is wrong: " + *report.difference);
  });
}

}  // namespace run_command

void add_run_command(Command app, int* status) {
  using namespace run_command;
  const auto [command, arguments] =
      add_subcommand(app, "run", "Plan, move real data, and check the result", examples, run, status);
  add_problem_options(command, arguments.problem);
  add_engine_options(command, arguments.engine);
  add_program_options(command, arguments.program);
  add_value(command, "--repeat", arguments.repetitions, "how often to run; the fastest counts", "N",
            whole_number(1, 1000000));
  add_value(command, "--seed", arguments.seed, "seed of the data", "N", whole_number(0, UINT64_MAX));
  command.add_flag("--donate", arguments.donate, "free tiles as the run goes: less memory, more time for fresh memory");
  command.add_flag("--json", arguments.json, "one report a line, as JSON");
}

}  // namespace retile::command
