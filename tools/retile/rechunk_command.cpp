// retile rechunk
#include <memory>
#include <string>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/planner/memory_limit.h"
#include "retile/rechunk.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/job.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/progress.h"

namespace retile::command {
namespace rechunk_command {

constexpr const char* examples =
    R"(SRC is a store of Zarr v2 or v3 (an array, or a group with all its arrays), a .npy file, or a file of HDF5 or
NetCDF-4 (all its arrays; FILE/NAME is one of them). DST becomes a store, or a .npy file if its name ends in .npy.
Reading and writing are planned so that the process never holds more memory than --max-bytes; a cap that is too
small is refused, with the smallest that works. DST gets its name once it is complete. A run that is stopped
leaves DST.unfinished for --resume. Under mpirun, ranks divide the work, each within --max-bytes.

Sizes by the names of dimensions, --chunks time=-1,lat=10, hold for all arrays of a group that have them.
--dry-run prints what would be read and written, and the least that is possible.

Example:
  a year of maps, one in each chunk (none is stored yet), to time series at each place
    echo '{"zarr_format": 2, "shape": [365, 90, 180], "chunks": [1, 90, 180], "dtype": "<f4", "order": "C", "filters": null, "compressor": null, "fill_value": 0}' |
      install -D /dev/stdin maps.zarr/.zarray && retile rechunk maps.zarr series.zarr --chunks 365,10,10 --max-bytes 64MiB --verify)";

struct Arguments {
  RechunkSettings settings;
  std::string max_bytes = "256MiB";
  bool overwrite = false;
  bool resume = false;
  bool dry_run = false;
  bool json = false;
};

RechunkSettings settings_of(const Arguments& arguments) {
  if (arguments.overwrite && arguments.resume) throw UsageError("--overwrite and --resume contradict each other");
  RechunkSettings settings = arguments.settings;
  settings.processes = &job_processes();
  if (settings.threads == 0) settings.threads = cores_of_rank();
  settings.max_bytes = parse_byte_count({"argument --max-bytes", arguments.max_bytes});
  if (arguments.overwrite) settings.existing = files::Existing::overwrite;
  if (arguments.resume) settings.existing = files::Existing::resume;
  return settings;
}

int plan_and_run(const Arguments& arguments) {
  const RechunkSettings settings = settings_of(arguments);
  const Rechunk rechunk(settings);
  if (arguments.dry_run) {
    write_result(arguments.json ? rechunk.to_json() : rechunk.to_string());
    return done;
  }
  Progress progress("rechunking", Progress::Bytes{rechunk.read_bytes()});
  const files::RechunkReport report = rechunk.run([&](std::int64_t read) { progress.reach(read); });
  write_result(arguments.json ? rechunk.to_json(report) : rechunk.to_string() + rechunk.to_string(report));
  ensure(report.peak_bytes <= settings.max_bytes, "a run keeps its cap on memory");
  return done;
}

int run(const Arguments& arguments) {
  return run_within_cap(arguments.max_bytes, [&] { return plan_and_run(arguments); });
}

}  // namespace rechunk_command

void add_rechunk_command(Command app, int* status) {
  using namespace rechunk_command;
  const auto [command, arguments] =
      add_subcommand(app, "rechunk", "Change the chunks of arrays in files, within a byte cap", examples, run, status);
  command.add_option("SRC", arguments.settings.source, "Zarr store, .npy file or HDF5 file").required().type_name("");
  command.add_option("DST", arguments.settings.target, "Zarr store or .npy file to write").required().type_name("");
  command
      .add_option("--chunks", arguments.settings.chunks,
                  "elements of a chunk: 8760,10,10 or time=8760,lat=10; -1 is the whole dimension")
      .required()
      .type_name("SIZES");
  command.add_option("--max-bytes", arguments.max_bytes, "most memory that the process may hold")
      .capture_default_str()
      .type_name("BYTES");
  command.add_option("--shards", arguments.settings.shards, "elements of a shard of Zarr v3: whole chunks")
      .type_name("SIZES");
  command.add_option("--codec", arguments.settings.codec, "keep, none, zstd:3, blosc:lz4:5, lz4, zlib:1, gzip:5")
      .capture_default_str()
      .type_name("CODEC");
  command
      .add_option("--format", arguments.settings.format,
                  "format of the store: zarr2 or zarr3; by default that of the source")
      .check(known_name("zarr2, zarr3"))
      .type_name("FORMAT");
  command.add_option("--threads", arguments.settings.threads, "the most threads; by default one for each core")
      .check(whole_number(1, 1024))
      .type_name("N");
  command
      .add_option("--scratch", arguments.settings.scratch, "folder for an intermediate array; by default that of DST")
      .type_name("FOLDER");
  command.add_flag("--dry-run", arguments.dry_run, "plan, and print what is read and written, and the least possible");
  command.add_flag("--overwrite", arguments.overwrite, "replace DST when the new one is complete");
  command.add_flag("--resume", arguments.resume, "continue a run that was stopped");
  command.add_flag("--verify", arguments.settings.verify, "read both sides again, and compare checksums");
  command.add_flag("--json", arguments.json, "the plan, or the report of the run, as lines of JSON");
}

}  // namespace retile::command
