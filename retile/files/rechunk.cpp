#include "retile/files/rechunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/new_file.h"
#include "retile/files/chunk_reader.h"
#include "retile/files/chunk_writer.h"
#include "retile/files/file.h"
#include "retile/files/process_memory.h"
#include "retile/files/rechunk_run.h"
#include "retile/files/store.h"
#include "retile/files/target_folder.h"
#include "retile/plan/text.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// --- Preparing.

void require_apart(const std::string& source, const std::string& target) {
  require_source_outside(source, target);
  if (is_inside(target, source)) throw InputError(fmt::format("'{}' is inside '{}'", target, source), {});
}

PassProblem problem_of(const ArrayJob& array, const ChunkSource& source) {
  const StoredArray& from = array.source;
  const StoredArray& to = array.target;
  return {
      from.shape,
      from.element.bytes,
      {from.chunk, source.unit, from.order, from.codecs.empty(), unit_reading_bytes(source), range_reading_bytes(from)},
      {to.chunk, encoding_bytes(to), to.shards ? to.shards->shape : Shape()}};
}

// The cheaper of reading whole chunks, and parts of them where blocks allow it.
void plan_array(ArrayJob& array, const RechunkJob& job) {
  ChunkSource source = open_source(array.source);
  array.source_unit = source.unit;
  if (array.source.is_empty()) return;
  array.index_bytes = index_bytes(array.target);
  const std::int64_t unavoidable = job.program_bytes + array.index_bytes;
  const RechunkOptions options{job.request.max_bytes - unavoidable, job.request.threads, job.request.costs,
                               job.request.processes->size()};
  const auto blocks = block_unit(array.source);
  if (!blocks) {
    array.plan = plan_rechunk(problem_of(array, source), options, unavoidable);
    return;
  }
  ChunkSource in_blocks = source;
  in_blocks.unit = *blocks;
  array.plan = plan_rechunk(problem_of(array, in_blocks), options, unavoidable);
  array.source_unit = in_blocks.unit;
  try {
    const RechunkPlan whole = plan_rechunk(problem_of(array, source), options, unavoidable);
    if (whole.seconds() > array.plan->seconds()) return;
    array.plan = whole;
    array.source_unit = source.unit;
  } catch (const MemoryLimitError&) {  // parts it is
  }
}

// What .npy files do not have.
void require_plain(const RechunkRequest& request) {
  if (!request.format && !request.shards && (!request.codecs || request.codecs->empty())) return;
  throw InputError(
      fmt::format("'{}' is a .npy file, which has no format of Zarr, no codecs and no shards", request.target),
      "a store has another ending");
}

ArrayJob describe_job(const RechunkRequest& request, const StoredArray& source, const std::string& name) {
  TargetOptions options{request.format, std::nullopt, request.codecs};
  if (request.target.ends_with(".npy")) options.format = Format::npy;
  const Shape chunk = fits(request.chunks, source) ? chunk_shape(request.chunks, source) : source.chunk;
  if (request.shards && fits(*request.shards, source)) {
    StoredArray unsharded = source;
    unsharded.chunk = chunk;
    options.shards = Shape();
    const Shape wanted = chunk_shape(*request.shards, unsharded);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      // A shard that ends with the array is rounded up to whole chunks.
      const bool is_whole = wanted[i] == source.shape[i];
      options.shards->push_back(is_whole ? divide_up(wanted[i], chunk[i]) * chunk[i] : wanted[i]);
    }
  }
  ArrayJob job{name, source, {}, {}, {}};
  job.target = describe_target(source, name.empty() ? request.target : request.target + "/" + name, chunk, options);
  return job;
}

}  // namespace

std::int64_t RechunkJob::read_bytes() const {
  return std::accumulate(arrays.begin(), arrays.end(), std::int64_t{0}, [](std::int64_t sum, const ArrayJob& array) {
    return sum + (array.plan ? array.plan->read_bytes() : 0);
  });
}

namespace {

RechunkJob prepare(const RechunkRequest& request) {
  RechunkJob job{request, {}, {}, 0};
  job.request.source = without_slashes(request.source);
  job.request.target = without_slashes(request.target);
  require_apart(job.request.source, job.request.target);
  const bool is_npy = job.request.target.ends_with(".npy");
  if (is_npy) require_plain(job.request);
  const StoreContents contents = open_store(job.request.source);
  const bool is_store = !contents.groups.empty();
  if (is_store && is_npy) {
    throw InputError(fmt::format("'{}' is a group: a .npy file holds one array", job.request.source), {});
  }
  const Format format = contents.arrays.front().array.format;
  if (is_store && format != Format::hdf5 && request.format && *request.format != format) {
    throw InputError("a group keeps its version of Zarr", "without --format it is that of the source");
  }
  if (!is_npy) require_fit(request.chunks, contents.arrays);
  for (const auto& [name, array] : contents.arrays) job.arrays.push_back(describe_job(job.request, array, name));
  job.metadata = target_metadata(job.request.source, contents.groups, job.arrays);
  job.program_bytes = request.processes->most(program_memory());  // with all metadata
  for (ArrayJob& array : job.arrays) plan_array(array, job);
  return job;
}

}  // namespace

RechunkJob prepare_rechunk(const RechunkRequest& request) {
  return with_named_errors("read", [&] { return prepare(request); });
}

// --- Running.

namespace {

constexpr const char* journal_name = "/.retile-rechunk";

// What an unfinished target was made from, and for: whoever goes on must want the same.
std::string journal_of(const RechunkJob& job) {
  Json journal{{"source", utf8_of(fs::weakly_canonical(job.request.source).string())}};
  for (const ArrayJob& array : job.arrays)
    journal["arrays"][utf8_of(array.name)] = {array.source.metadata, array.target.metadata};
  return journal.dump() + "\n";
}

std::int64_t bytes_in(const std::string& folder) {
  std::int64_t bytes = 0;
  if (!fs::exists(folder)) return bytes;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += static_cast<std::int64_t>(entry.file_size());
  }
  return bytes;
}

// What is written where it is not compressed is known beforehand. Intermediate arrays are there one at a time.
void require_free_disk(const RechunkJob& job) {
  std::int64_t target = 0;
  std::int64_t between = 0;
  for (const ArrayJob& array : job.arrays) {
    if (!array.plan) continue;
    const bool is_npy = array.target.format == Format::npy;  // which ends with the array
    if (array.target.codecs.empty())
      target += is_npy ? array.target.array_bytes() : array.plan->bounds.least_written_bytes;
    if (array.plan->passes.size() > 1) between = std::max(between, array.plan->passes.front().written_bytes);
  }
  const std::int64_t left = std::max<std::int64_t>(0, target - bytes_in(unfinished_path(job.request.target)));
  const std::string& scratch = job.request.scratch;
  require_free_bytes(parent_of(job.request.target), job.request.target, left + (scratch.empty() ? between : 0));
  if (!scratch.empty()) require_free_bytes(scratch, scratch, between);
}

// Whether a folder has nothing but what a run that was stopped at its beginning leaves there.
bool has_nothing(const std::string& folder) {
  const fs::directory_iterator entries(folder);
  return std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with(".retile-");
  });
}

// Whether all that is in an unfinished folder may be removed: what retile writes there, or has replaced.
bool is_left_over(const std::string& folder) {
  return fs::is_directory(folder) &&
         (fs::exists(folder + journal_name) || !metadata_file(folder).empty() || has_nothing(folder));
}

// Whether there is an unfinished target to go on with. Throws InputError where the target may not be written.
bool find_unfinished(const RechunkJob& job, Existing existing) {
  const std::string& target = job.request.target;
  const std::string folder = unfinished_path(target);
  if (fs::exists(target) && existing != Existing::overwrite) {
    throw InputError(fmt::format("'{}' exists", target), "--overwrite replaces it");
  }
  // What is replaced is removed with all that is in it.
  if (fs::exists(target) && metadata_file(target).empty() && !(fs::is_directory(target) && fs::is_empty(target))) {
    throw InputError(fmt::format("'{}' is no store of Zarr: it is not replaced", target), {});
  }
  if (fs::exists(folder) && existing == Existing::refuse) {
    throw InputError(fmt::format("'{}' is there: an earlier run did not finish", folder),
                     "--resume goes on with it, --overwrite starts anew");
  }
  if (fs::exists(folder) && existing == Existing::resume) {
    if (!fs::exists(folder + journal_name) && fs::is_directory(folder) && has_nothing(folder)) return false;
    if (fs::exists(folder + journal_name) && read_text(folder + journal_name) == journal_of(job)) return true;
    throw InputError(fmt::format("'{}' was made from another source, or with other options", folder),
                     "--overwrite starts anew");
  }
  if (fs::exists(folder) && !is_left_over(folder)) {
    throw InputError(fmt::format("'{}' is no unfinished store: it is not replaced", folder), {});
  }
  return false;
}

// The journal goes last: what has it can be gone on with.
void complete_target(const RechunkJob& job) {
  const std::string folder = unfinished_path(job.request.target);
  for (const MetadataFile& file : job.metadata) {
    fs::create_directories(fs::path(folder + "/" + file.name).parent_path());
    write_file(folder + "/" + file.name, file.text);
  }
  name_target(job.request.target);
  fs::remove(job.request.target + journal_name);
}

// Memory for what is planned of an array.
std::int64_t room_of(const RechunkJob& job, const ArrayJob& array) {
  return job.request.max_bytes - job.program_bytes - array.index_bytes;
}

// The file of an intermediate array. Several processes find it by its name, which goes when all have opened it.
class ScratchFile {
 public:
  ScratchFile(const Processes& processes, const std::string& folder) : processes_(processes) {
    if (processes.size() == 1) {
      file_ = std::make_shared<const File>(File::temporary(folder));
      return;
    }
    do_once(processes, [&] { named_.emplace(folder + "/.retile-between"); });
    path_ = processes.share(named_ ? named_->unfinished_path() : "");
    file_ = std::make_shared<const File>(path_, File::Mode::scratch);
  }

  const std::shared_ptr<const File>& file() const { return file_; }

  // What all processes have written. On other hosts it is there for whoever opens it after it was closed.
  std::shared_ptr<const File> take() {
    if (processes_.size() == 1) return std::move(file_);
    file_.reset();
    wait_for_all(processes_);
    auto file = std::make_shared<const File>(path_, File::Mode::scratch);
    wait_for_all(processes_);
    named_.reset();
    return file;
  }

 private:
  const Processes& processes_;
  std::optional<NewFile> named_;  // of the speaker
  std::string path_;
  std::shared_ptr<const File> file_;
};

class ArrayRun {
 public:
  ArrayRun(const RechunkJob& job, const ArrayJob& array, StoredArray target, const RunOptions& options,
           RechunkReport& report)
      : job_(job), array_(array), target_(std::move(target)), options_(options), report_(report) {}

  // `file` holds the target, if it is one file.
  void run(const std::shared_ptr<const File>& file) {
    const RechunkPlan& plan = *array_.plan;
    ChunkSource source = open_source(array_.source);
    source.unit = array_.source_unit;
    const bool is_read_once = plan.passes[0].read_bytes == plan.bounds.least_read_bytes;
    source.is_dropped = is_read_once && !is_cached(source);
    for (std::size_t i = 0; i + 1 < plan.passes.size(); ++i) source = run_between(plan.passes[i], source);
    ChunkTarget target(target_, file);
    run_one(plan.passes.back(), source, target);
  }

 private:
  // The intermediate array that a pass writes.
  ChunkSource run_between(const PassPlan& pass, const ChunkSource& source) {
    const std::string& scratch = job_.request.scratch;
    ScratchFile file(*job_.request.processes, scratch.empty() ? parent_of(job_.request.target) : scratch);
    StoredArray between = array_.source;
    between.path = file.file()->path();
    between.format = Format::zarr3;
    between.chunk = pass.problem.target.chunk;
    between.codecs.clear();
    between.shards.reset();
    between.order = row_major(between.order.size());
    {
      ChunkTarget target(between, file.file());
      run_one(pass, source, target);
    }
    // It stays in the page cache: dropping it would first write to the disk what is soon removed.
    return {between, file.take(), between.chunk};
  }

  void run_one(const PassPlan& pass, const ChunkSource& source, ChunkTarget& target) {
    const Processes& processes = *job_.request.processes;
    const std::int64_t chunks = pass.open_chunks * target.array().chunk_bytes();
    const std::int64_t room = room_of(job_, array_) - (pass.memory_bytes - chunks);
    const std::int64_t before = report_.read_bytes;
    // The others are taken to have read as much.
    const auto report = [&](std::int64_t read) {
      if (options_.report) options_.report(std::min((before + read) * processes.size(), job_.read_bytes()));
    };
    const PassStatistics statistics = run_pass(pass, source, target, room, processes, report);
    if (source.is_dropped && source.file != nullptr) source.file->drop();
    report_.read_bytes += statistics.read_bytes;
    report_.written_bytes += statistics.written_bytes;
  }

  const RechunkJob& job_;
  const ArrayJob& array_;
  StoredArray target_;
  const RunOptions& options_;
  RechunkReport& report_;
};

void verify_array(const RechunkJob& job, const ArrayJob& array, StoredArray target, const std::string& path) {
  target.path = path;
  ChunkSource source = open_source(array.source);
  source.unit = array.source_unit;
  source.is_dropped = !is_cached(source);
  ChunkSource written = open_source(target);
  written.is_dropped = true;
  const int threads = job.request.threads;
  const std::int64_t room = room_of(job, array);
  const Processes& processes = *job.request.processes;
  const std::uint64_t wanted = checksum(source, threads, room, processes);
  const std::uint64_t found = checksum(written, threads, room, processes);
  for (const ChunkSource* read : {&source, &written}) {
    if (read->is_dropped && read->file != nullptr) read->file->drop();
  }
  if (wanted == found) return;
  throw RuntimeError(fmt::format("'{}' differs from '{}'", path, array.source.path));
}

// A .npy file is written in the order in which it comes, and has its name when it is complete.
void run_npy(const RechunkJob& job, const RunOptions& options, RechunkReport& report) {
  const std::string& path = job.request.target;
  if (options.existing == Existing::resume) {
    throw InputError("a .npy file cannot be gone on with", "--overwrite starts anew");
  }
  if (fs::exists(path) && options.existing != Existing::overwrite) {
    throw InputError(fmt::format("'{}' exists", path), "--overwrite replaces it");
  }
  const ArrayJob& array = job.arrays.front();
  const Processes& processes = *job.request.processes;
  std::optional<NewFile> whole;  // of the speaker
  do_once(processes, [&] {
    require_free_disk(job);
    whole.emplace(path);
    const File header(whole->unfinished_path(), File::Mode::create);
    header.write(0, std::as_bytes(std::span(array.target.metadata)));
  });
  const std::string unfinished = processes.share(whole ? whole->unfinished_path() : "");
  const auto file = std::make_shared<File>(unfinished, File::Mode::update);
  if (array.plan) ArrayRun(job, array, array.target, options, report).run(file);
  file->sync();
  file->close();
  wait_for_all(processes);
  if (options.verify) {
    StoredArray written = array.target;
    written.chunk = written.shape;
    verify_array(job, array, written, unfinished);
  }
  do_once(processes, [&] {
    whole->finish();
    Disk(parent_of(path)).sync_names();
  });
}

void run_store(const RechunkJob& job, const RunOptions& options, RechunkReport& report) {
  const Processes& processes = *job.request.processes;
  const std::string folder = unfinished_path(job.request.target);
  do_once(processes, [&] {
    const bool goes_on = find_unfinished(job, options.existing);
    require_free_disk(job);
    if (goes_on) return;
    fs::remove_all(folder);
    fs::create_directories(folder);
    write_file(folder + journal_name, journal_of(job));
  });
  for (const ArrayJob& array : job.arrays) {
    StoredArray target = array.target;
    target.path = array.name.empty() ? folder : folder + "/" + array.name;
    if (array.plan) ArrayRun(job, array, target, options, report).run(nullptr);
    wait_for_all(processes);
    if (options.verify) verify_array(job, array, target, target.path);
  }
  do_once(processes, [&] { complete_target(job); });
}

// What all processes have done together.
void add_up(RechunkReport& report, const Processes& processes) {
  std::uint64_t bytes[] = {static_cast<std::uint64_t>(report.read_bytes),
                           static_cast<std::uint64_t>(report.written_bytes)};
  processes.add_up(bytes);
  report.read_bytes = static_cast<std::int64_t>(bytes[0]);
  report.written_bytes = static_cast<std::int64_t>(bytes[1]);
  report.peak_bytes = processes.most(peak_memory());
}

}  // namespace

RechunkReport run_rechunk(const RechunkJob& job, const RunOptions& options) {
  RechunkReport report;
  const auto start = std::chrono::steady_clock::now();
  with_named_errors("write", [&] {
    const bool is_npy = job.request.target.ends_with(".npy");
    is_npy ? run_npy(job, options, report) : run_store(job, options, report);
  });
  report.verified = options.verify;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  add_up(report, *job.request.processes);
  return report;
}

}  // namespace retile::files
