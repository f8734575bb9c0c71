// retile reshard
#include <memory>
#include <optional>
#include <string>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/files/reshard.h"
#include "retile/planner/memory_limit.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/job.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/progress.h"

namespace retile::command {
namespace reshard_command {

constexpr const char* examples =
    R"help(MODEL is a .safetensors file, an index of several, or a folder with either; with --from a folder with a file
for each rank. --to says how ranks hold each tensor, one line of JSON for each name (* and ? are wildcards):
  {"name": "*.weight", "mesh": {"tp": 8}, "layout": "PartitionSpec('tp', None)"}
DIR gets rank-00000.safetensors and so on, or without --to one model.safetensors. Every byte of the source is
read once; the process never holds more memory than --max-bytes. DIR gets its name once it is complete.
Under mpirun, ranks divide the work, each within --max-bytes.

Example: one tensor of four numbers, for two ranks
  printf '\074\0\0\0\0\0\0\0{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}       abcd' > w.safetensors; echo '{"name": "w", "mesh": {"x": 2}, "layout": "[2{x}4]"}' | retile reshard w.safetensors --to - --out ranks)help";

struct Arguments {
  std::string model;
  std::optional<std::string> from;
  std::optional<std::string> to;
  std::string out;
  std::string max_bytes = "1GiB";
  int threads = 0;  // 0: one for each core
  files::ReshardOptions running;
  bool dry_run = false;
  bool json = false;
};

files::ReshardRequest request_of(const Arguments& arguments) {
  files::ReshardRequest request;
  request.source = arguments.model;
  request.target = arguments.out;
  if (arguments.from) request.from = read_values(*arguments.from, "layouts");
  if (arguments.to) request.to = read_values(*arguments.to, "layouts");
  request.max_bytes = parse_byte_count({"argument --max-bytes", arguments.max_bytes});
  request.threads = arguments.threads > 0 ? arguments.threads : cores_of_rank();
  request.processes = &job_processes();
  return request;
}

int plan_and_run(const Arguments& arguments) {
  const files::ReshardJob job = prepare_reshard(request_of(arguments));
  if (arguments.dry_run) {
    write_result(arguments.json ? to_json(job) : to_string(job));
    return done;
  }
  Progress progress("resharding", Progress::Bytes{job.read_bytes()});
  files::ReshardOptions options = arguments.running;
  options.report = [&](std::int64_t read) { progress.reach(read); };
  const files::ReshardReport report = run_reshard(job, options);
  write_result(arguments.json ? to_json(report, job) : to_string(job) + to_string(report, job));
  ensure(report.peak_bytes <= job.request.max_bytes, "a run keeps its cap on memory");
  return done;
}

int run(const Arguments& arguments) {
  return run_within_cap(arguments.max_bytes, [&] { return plan_and_run(arguments); });
}

}  // namespace reshard_command

void add_reshard_command(Command app, int* status) {
  using namespace reshard_command;
  const auto [command, arguments] = add_subcommand(
      app, "reshard", "Divide a checkpoint of safetensors among other ranks, within a byte cap", examples, run, status);
  command.add_option("MODEL", arguments.model, "file, index or folder of safetensors").required().type_name("");
  command.add_option("--from", arguments.from, "layouts of the source's tensors, where it has a file for each rank")
      .type_name("FILE");
  command.add_option("--to", arguments.to, "layouts of the target's tensors; by default one model").type_name("FILE");
  command.add_option("--out", arguments.out, "folder to write").required().type_name("DIR");
  command.add_option("--max-bytes", arguments.max_bytes, "most memory that the process may hold")
      .capture_default_str()
      .type_name("BYTES");
  command.add_option("--threads", arguments.threads, "the most threads; by default one for each core")
      .check(whole_number(1, 1024))
      .type_name("N");
  command.add_flag("--dry-run", arguments.dry_run, "plan, and print what is read and written");
  command.add_flag("--overwrite", arguments.running.overwrite, "replace DIR when the new one is complete");
  command.add_flag("--verify", arguments.running.verify, "read both sides again, and compare them");
  command.add_flag("--json", arguments.json, "the plan, or the report of the run, as a line of JSON");
}

}  // namespace retile::command
