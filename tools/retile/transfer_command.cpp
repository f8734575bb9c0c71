// retile transfer
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "retile/base/error.h"
#include "retile/files/tensor_files.h"
#include "retile/plan/text.h"
#include "retile/planner/memory_limit.h"
#include "retile/transfer/in_place.h"
#include "retile/transfer/run.h"
#include "retile/transfer/seconds.h"
#include "retile/transfer/text.h"
#include "tools/retile/command.h"
#include "tools/retile/engine_option.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"

namespace retile::command {
namespace transfer_command {

constexpr const char* examples =
    R"(A manifest has one array a line: a problem with a "name". All arrays are planned together: every device
receives what it lacks, once, from holders that share the sending as evenly as possible, in rounds of one
message per pair of devices. Beside its tiles no device holds more than --max-bytes. Then made-up data is
moved, and every device's tiles are compared with slices of the arrays. Without --dry-run the tiles must
fit in this machine's memory. With "src_file" and "dst_file", files of safetensors, each rank instead reads
its tiles of the array from a file, and writes them to one.

Examples:
  echo '{"name": "w", "mesh": {"x":4}, "shape": [8,8], "src": [["x"],[]], "dst": [[],["x"]], "dtype": "bf16"}' |
    retile transfer - --max-bytes 64KiB
  a model of 36,096 expert matrices, planned and not run
    python3 examples/models/manifest.py qwen3-235b 256 128 | retile transfer - --dry-run
  on MPI ranks
    mpirun -n 8 retile transfer model.jsonl --max-bytes 16MiB --repeat 5)";

struct Arguments {
  std::string manifest;
  std::string max_bytes = "256MiB";
  EngineArguments engine;
  transfer::TransferRunOptions running;
  std::int64_t hosts = 0;  // 0: not given
  std::optional<std::string> machine;
  bool in_place = false;
  bool dry_run = false;
  bool json = false;
};

std::string render_report(const transfer::TransferReport& report) {
  const double fastest = *std::min_element(report.seconds.begin(), report.seconds.end());
  return fmt::format(
      "{} engine: verified, {:.6f} s, {} bytes received at most, {} staged, peak {} of {} bytes predicted\n",
      report.engine, fastest, group_digits(report.received_bytes_max), group_digits(report.staging_bytes_max),
      group_digits(report.peak_bytes_measured), group_digits(report.peak_bytes_predicted));
}

// The hosts of devices: as given, or as the engine has them.
Hosts hosts_of(const Arguments& arguments, std::int64_t devices, const Engine* engine) {
  if (arguments.hosts > 0 && devices % arguments.hosts != 0) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t i = 1; i <= devices; ++i) {
      if (devices % i == 0) divisors.push_back(i);
    }
    throw UsageError(fmt::format("--hosts {} does not divide {}: use one of {}", arguments.hosts,
                                 count_of(devices, "device"), fmt::join(divisors, ", ")));
  }
  if (arguments.hosts > 0) return even_hosts(devices, arguments.hosts);
  if (arguments.machine && engine == nullptr) return machine_of(*arguments.machine).host_numbers();
  return engine == nullptr ? Hosts() : engine->hosts(devices);
}

transfer::TransferPlan plan_transfer(const Arguments& arguments, const Engine* engine) {
  const std::int64_t cap = parse_byte_count({"argument --max-bytes", arguments.max_bytes});
  transfer::Manifest manifest = transfer::parse_manifest(read_values(arguments.manifest, "arrays"));
  if (engine != nullptr) require_ranks(*engine, manifest.device_count());
  MessageForm form;
  if (arguments.machine) {
    const Machine& machine = machine_of(*arguments.machine);
    require_devices(machine, manifest.device_count());
    form = transfer::message_form(machine);
  }
  Hosts hosts = hosts_of(arguments, manifest.device_count(), engine);
  return {std::move(manifest), cap, std::move(hosts), arguments.in_place ? TileUse::donated : TileUse::kept, form};
}

std::optional<transfer::TransferTime> time_of(const transfer::TransferPlan& plan, const Arguments& arguments) {
  if (!arguments.machine) return std::nullopt;
  return predict_time(plan, seconds_model(machine_of(*arguments.machine)));
}

std::string render_dry_run(const transfer::TransferPlan& plan, const Arguments& arguments) {
  std::optional<transfer::InPlaceFigures> in_place;
  if (arguments.in_place) {
    in_place = choose_in_place(plan);
    require_cap(plan, *in_place);
  }
  const transfer::InPlaceFigures* figures = in_place ? &*in_place : nullptr;
  const std::optional<transfer::TransferTime> time = time_of(plan, arguments);
  if (arguments.json) return to_json(plan, figures, time ? &*time : nullptr) + "\n";
  return to_string(plan, figures) + (time ? time_line(*time) : "");
}

std::vector<files::FiledTensor> filed_tensors(const transfer::Manifest& manifest) {
  std::vector<files::FiledTensor> tensors;
  for (const transfer::NamedArray& array : manifest.arrays) {
    const Problem& problem = manifest.problems[array.problem];
    tensors.push_back(
        {array.name, problem.source().global_shape(), problem.element_type(), array.source_file, array.target_file});
  }
  return tensors;
}

int plan_and_run(const Arguments& arguments) {
  if (arguments.engine.command.is_given("--staging")) {
    throw UsageError("--max-bytes bounds what a transfer stages: leave out --staging");
  }
  if (arguments.machine && arguments.hosts > 0) throw UsageError("--machine names the hosts: leave out --hosts");
  check_engine_options(arguments.engine);
  const std::unique_ptr<Engine> engine = arguments.dry_run ? nullptr : make_engine(arguments.engine);
  const transfer::TransferPlan plan = plan_transfer(arguments, engine.get());
  if (arguments.dry_run) {
    write_result(render_dry_run(plan, arguments));
    return done;
  }
  files::TensorFiles files(filed_tensors(plan.manifest()), engine->processes());
  transfer::TransferRunOptions running = arguments.running;
  running.contents.read = [&](std::size_t array, const std::vector<Part>& parts, std::byte* tile) {
    if (files.has_source(array)) files.read(array, parts, tile);
    return files.has_source(array);
  };
  running.contents.write = [&](std::size_t array, const std::vector<Part>& parts, const std::byte* tile) {
    if (files.has_target(array)) files.write(array, parts, tile);
  };
  const transfer::TransferReport report = run_transfer(plan, *engine, running);
  if (!report.difference) files.finish();
  if (arguments.json) {
    write_result(to_json(report) + "\n");
  } else if (!report.difference) {
    const std::optional<transfer::TransferTime> time = time_of(plan, arguments);
    write_result(to_string(plan, report.in_place ? &*report.in_place : nullptr) + (time ? time_line(*time) : "") +
                 render_report(report));
  }
  if (report.difference) throw RuntimeError("the result is wrong: " + *report.difference);
  return done;
}

int run(const Arguments& arguments) {
  return run_within_cap(arguments.max_bytes, [&] { return plan_and_run(arguments); });
}

}  // namespace transfer_command

void add_transfer_command(Command app, int* status) {
  using namespace transfer_command;
  const auto [command, arguments] =
      add_subcommand(app, "transfer", "Move all arrays of a model at once, within a byte cap", examples, run, status);
  command.add_option("MANIFEST", arguments.manifest, "file with one array a line as JSON; - is standard input")
      .required()
      .type_name("");
  command.add_option("--max-bytes", arguments.max_bytes, "most that a device may hold beyond the arrays' tiles")
      .capture_default_str()
      .type_name("BYTES");
  add_engine_options(command, arguments.engine, EngineChoice::of_transfers);
  command.add_flag("--dry-run", arguments.dry_run,
                   "plan and print what each device sends, receives and stages;\n"
                   "starts no engine: any number of ranks will do");
  command
      .add_option("--hosts", arguments.hosts,
                  "number of hosts, with equally many devices each, in order: an element crosses into a host once;\n"
                  "by default those of the ranks under mpirun")
      .check(whole_number(1, 1U << 30U))
      .type_name("N");
  command
      .add_option("--machine", arguments.machine,
                  "a file that says which devices are on which host and how fast bytes move (docs/machines.md):\n"
                  "messages are long enough for its links, and how long the transfer should take is printed;\n"
                  "a run keeps to the hosts of the ranks")
      .type_name("FILE");
  command.add_flag("--in-place", arguments.in_place, "release sources page by page once rounds have read them");
  add_value(command, "--repeat", arguments.running.repetitions, "how often to run; the fastest counts", "N",
            whole_number(1, 1000000));
  add_value(command, "--seed", arguments.running.seed, "seed of the data", "N", whole_number(0, UINT64_MAX));
  command.add_flag("--json", arguments.json, "the plan, or the report of the run, as a line of JSON");
}

}  // namespace retile::command
