// retile calibrate
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "evaluation/calibration.h"
#include "retile/machine/machine.h"
#include "tools/retile/command.h"
#include "tools/retile/engine_option.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/progress.h"

namespace retile::command {
namespace calibrate_command {

constexpr const char* examples =
    R"(Measures the machine with runs of the engine and writes it as a machine file (docs/formats.md): hosts as MPI
sees them, the rates of each host's link out and in, the rate inside a host, what a message and a step take,
and how fast runs of bytes are copied. Its "source" says how well the model fits the measurements. If repetitions
differ much, a warning says so; measurements that make no sense are not written.

Examples:
  this process, as many devices as there are cores
    retile calibrate > machine.json
  four devices on threads, quickly, and a plan for them
    retile calibrate --devices 4 --seconds 1 --out machine.json
  eight ranks, on whatever hosts mpirun puts them
    mpirun -n 8 retile calibrate --out machine.json)";

struct Arguments {
  EngineArguments engine;
  std::optional<std::int64_t> devices;
  double seconds = evaluation::CalibrationOptions().seconds;
  std::optional<std::string> path;
};

constexpr std::int64_t most_devices = 4096;

std::int64_t device_count(const Arguments& arguments, const Engine& engine) {
  if (arguments.devices) return *arguments.devices;
  const int ranks = engine.processes().size();
  if (ranks > 1) return ranks;
  return std::max(2, thread_count(arguments.engine));
}

int run(const Arguments& arguments) {
  const std::unique_ptr<Engine> engine = make_engine(arguments.engine);
  evaluation::CalibrationOptions options{device_count(arguments, *engine), arguments.seconds};
  require_ranks(*engine, options.devices);
  constexpr std::size_t ticks = 100;
  Progress progress("calibrating", engine->processes().is_speaker() ? ticks : 0);
  const evaluation::Calibration calibration = evaluation::calibrate(
      *engine, options, [&](double share) { progress.reach(static_cast<std::int64_t>(share * ticks)); });
  if (const auto warning = evaluation::find_warning(calibration)) write_remark("warning: " + *warning + "\n");
  write_result_to(arguments.path, to_json(calibration.machine) + "\n");
  return done;
}

}  // namespace calibrate_command

void add_calibrate_command(Command app, int* status) {
  using namespace calibrate_command;
  const auto [command, arguments] =
      add_subcommand(app, "calibrate", "Measure this machine and write it as a machine file", examples, run, status);
  add_engine_options(command, arguments.engine, EngineChoice::of_transfers);
  command.add_option("--devices", arguments.devices, "devices of the machine; by default one for each rank or core")
      .check(whole_number(2, most_devices))
      .type_name("N");
  add_value(command, "--seconds", arguments.seconds, "about how long to measure", "SECONDS", number_between(0.1, 3600));
  command.add_option("-o,--out", arguments.path, "file to write when all is measured, by default standard output")
      .type_name("FILE");
}

}  // namespace retile::command
