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
#include "retile/files/hdf5.h"
#include "retile/files/process_memory.h"
#include "retile/files/rechunk_run.h"
#include "retile/files/store.h"
#include "retile/plan/text.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// --- Preparing.

bool is_inside(const fs::path& inner, const fs::path& outer) {
  const auto [at, end] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return at == outer.end();
}

void require_apart(const std::string& source, const std::string& target) {
  const fs::path from = fs::weakly_canonical(source);
  const fs::path to = fs::weakly_canonical(target);
  if (from == to) throw InputError(fmt::format("source and target are the same: '{}'", source), {});
  if (is_inside(to, from) || is_inside(from, to)) {
    throw InputError(fmt::format("one of '{}' and '{}' is inside the other", source, target), {});
  }
}

PassProblem problem_of(const ArrayJob& array, const ChunkSource& source) {
  const StoredArray& from = array.source;
  const StoredArray& to = array.target;
  return {from.shape,
          from.element.bytes,
          {from.chunk, source.unit, from.order, from.codecs.empty(), unit_reading_bytes(source)},
          {to.chunk, encoding_bytes(to)}};
}

// The cheaper of reading whole chunks, and parts of them where blocks allow it.
void plan_array(ArrayJob& array, const RechunkJob& job) {
  ChunkSource source = open_source(array.source);
  array.source_unit = source.unit;
  if (array.source.is_empty()) return;
  const RechunkOptions options{job.request.max_bytes - job.program_bytes, job.request.threads, job.request.costs};
  const auto blocks = block_unit(array.source);
  if (!blocks) {
    array.plan = plan_rechunk(problem_of(array, source), options, job.program_bytes);
    return;
  }
  ChunkSource in_blocks = source;
  in_blocks.unit = *blocks;
  array.plan = plan_rechunk(problem_of(array, in_blocks), options, job.program_bytes);
  array.source_unit = in_blocks.unit;
  try {
    const RechunkPlan whole = plan_rechunk(problem_of(array, source), options, job.program_bytes);
    if (whole.seconds() > array.plan->seconds()) return;
    array.plan = whole;
    array.source_unit = source.unit;
  } catch (const MemoryLimitError&) {  // parts it is
  }
}

std::vector<StoredArray> open_arrays(const std::string& source, std::vector<std::string>& names) {
  std::vector<StoredArray> arrays;
  const auto inside = find_hdf5(source);
  names = inside                                         ? hdf5_arrays(*inside)
          : fs::is_directory(source) && is_group(source) ? arrays_of_group(source)
                                                         : std::vector<std::string>{""};
  for (const std::string& name : names)
    arrays.push_back(open_array(name.empty() ? source : fmt::format("{}/{}", source, name)));
  return arrays;
}

std::string unfinished_path(const RechunkJob& job) { return without_slashes(job.request.target) + ".unfinished"; }

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

RechunkJob prepare_rechunk(const RechunkRequest& request) {
  RechunkJob job{request, {}, {}, 0};
  job.request.source = without_slashes(request.source);
  job.request.target = without_slashes(request.target);
  require_apart(job.request.source, job.request.target);
  std::vector<std::string> names;
  const std::vector<StoredArray> sources = open_arrays(job.request.source, names);
  job.program_bytes = program_memory();  // with what is known of the sources
  const bool is_store = sources.size() > 1 || !names.front().empty();
  if (is_store && job.request.target.ends_with(".npy")) {
    throw InputError(fmt::format("'{}' is a group: a .npy file holds one array", job.request.source), {});
  }
  const bool is_hdf5 = sources.front().format == Format::hdf5;
  if (is_store && !is_hdf5 && request.format && *request.format != sources.front().format) {
    throw InputError("a group keeps its version of Zarr", "without --format it is that of the source");
  }
  if (!job.request.target.ends_with(".npy")) require_fit(request.chunks, sources);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    job.arrays.push_back(describe_job(job.request, sources[i], names[i]));
    plan_array(job.arrays.back(), job);
  }
  job.metadata = target_metadata(job.request.source, job.arrays);
  return job;
}

// --- Running.

namespace {

constexpr const char* journal_name = "/.retile-rechunk";

// What an unfinished target was made from, and for: whoever goes on must want the same.
std::string journal_of(const RechunkJob& job) {
  Json journal{{"source", fs::weakly_canonical(job.request.source).string()}};
  for (const ArrayJob& array : job.arrays)
    journal["arrays"][array.name] = {array.source.metadata, array.target.metadata};
  return journal.dump() + "\n";
}

void require_free_disk(const RechunkJob& job) {
  std::int64_t needed = 0;
  for (const ArrayJob& array : job.arrays) {
    if (!array.plan) continue;
    if (array.target.codecs.empty()) needed += array.plan->bounds.least_written_bytes;
    const bool is_here = job.request.scratch.empty();
    if (array.plan->passes.size() > 1 && is_here) needed += array.plan->passes.front().written_bytes;
  }
  const std::int64_t there = free_bytes(parent_of(job.request.target));
  if (needed <= there) return;
  throw RuntimeError(fmt::format("the disk of '{}' has {} bytes left, and {} are needed: {} are missing",
                                 job.request.target, group_digits(there), group_digits(needed),
                                 group_digits(needed - there)));
}

// Makes the folder that the target grows in, or finds the one of an earlier run.
void open_unfinished(const RechunkJob& job, Existing existing) {
  const std::string folder = unfinished_path(job);
  const std::string& target = job.request.target;
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
  const std::string journal = journal_of(job);
  if (fs::exists(folder) && existing == Existing::resume) {
    if (fs::exists(folder + journal_name) && read_text(folder + journal_name) == journal) return;
    throw InputError(fmt::format("'{}' was made from another source, or with other options", folder),
                     "--overwrite starts anew");
  }
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) fs::create_directories(folder, error);
  if (error) throw RuntimeError(fmt::format("cannot write '{}': {}", folder, error.message()));
  write_file(folder + journal_name, journal);
}

// Gives the complete target its name.
void name_target(const RechunkJob& job) {
  const std::string folder = unfinished_path(job);
  for (const MetadataFile& file : job.metadata) {
    fs::create_directories(fs::path(folder + "/" + file.name).parent_path());
    write_file(folder + "/" + file.name, file.text);
  }
  fs::remove(folder + journal_name);
  const std::string& target = job.request.target;
  const std::string old = target + ".old";
  const bool replaces = fs::exists(target);
  if (replaces) fs::rename(target, old);
  fs::rename(folder, target);
  if (replaces) fs::remove_all(old);
}

class ArrayRun {
 public:
  ArrayRun(const RechunkJob& job, const ArrayJob& array, StoredArray target, const RunOptions& options,
           RechunkReport& report)
      : job_(job), array_(array), target_(std::move(target)), options_(options), report_(report) {}

  // `file` holds the target, if it is one file.
  void run(const std::shared_ptr<const File>& file) {
    ChunkSource source = open_source(array_.source);
    source.unit = array_.source_unit;
    const RechunkPlan& plan = *array_.plan;
    ChunkTarget target(target_, file);
    if (plan.passes.size() == 1) return run_one(plan.passes[0], source, target);
    const std::string& scratch = job_.request.scratch;
    const auto between =
        std::make_shared<const File>(File::temporary(scratch.empty() ? parent_of(job_.request.target) : scratch));
    StoredArray intermediate = array_.source;
    intermediate.path = between->path();
    intermediate.format = Format::zarr3;
    intermediate.chunk = plan.passes[0].problem.target.chunk;
    intermediate.codecs.clear();
    intermediate.shards.reset();
    std::iota(intermediate.order.begin(), intermediate.order.end(), std::size_t{0});
    {
      ChunkTarget first(intermediate, between);
      run_one(plan.passes[0], source, first);
    }
    run_one(plan.passes[1], {intermediate, between, intermediate.chunk}, target);
  }

 private:
  void run_one(const PassPlan& pass, const ChunkSource& source, ChunkTarget& target) {
    const std::int64_t chunks = pass.open_chunks * target.array().chunk_bytes();
    const std::int64_t room = job_.request.max_bytes - job_.program_bytes - (pass.memory_bytes - chunks);
    const std::int64_t before = report_.read_bytes;
    const auto report = [&](std::int64_t read) {
      if (options_.report) options_.report(before + read);
    };
    const PassStatistics statistics = run_pass(pass, source, target, room, report);
    report_.read_bytes += statistics.read_bytes;
    report_.written_bytes += statistics.written_bytes;
  }

  const RechunkJob& job_;
  const ArrayJob& array_;
  StoredArray target_;
  const RunOptions& options_;
  RechunkReport& report_;
};

void verify_array(const ArrayJob& array, StoredArray target, const std::string& path) {
  target.path = path;
  ChunkSource source = open_source(array.source);
  source.unit = array.source_unit;
  const int threads = array.plan ? array.plan->passes.back().threads : 1;
  if (checksum(source, threads) == checksum(open_source(target), threads)) return;
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
  NewFile whole(path);
  {
    const auto file = std::make_shared<const File>(whole.unfinished_path(), File::Mode::create);
    file->write(0, std::as_bytes(std::span(array.target.metadata)));
    if (array.plan) ArrayRun(job, array, array.target, options, report).run(file);
  }
  if (options.verify) {
    StoredArray written = array.target;
    written.chunk = written.shape;
    verify_array(array, written, whole.unfinished_path());
  }
  whole.finish();
}

void run_store(const RechunkJob& job, const RunOptions& options, RechunkReport& report) {
  open_unfinished(job, options.existing);
  const std::string folder = unfinished_path(job);
  for (const ArrayJob& array : job.arrays) {
    StoredArray target = array.target;
    target.path = array.name.empty() ? folder : folder + "/" + array.name;
    if (array.plan) ArrayRun(job, array, target, options, report).run(nullptr);
    if (options.verify) verify_array(array, target, target.path);
  }
  name_target(job);
}

}  // namespace

RechunkReport run_rechunk(const RechunkJob& job, const RunOptions& options) {
  RechunkReport report;
  const auto start = std::chrono::steady_clock::now();
  require_free_disk(job);
  try {
    if (job.request.target.ends_with(".npy")) {
      run_npy(job, options, report);
    } else {
      run_store(job, options, report);
    }
  } catch (const fs::filesystem_error& error) {
    throw RuntimeError(fmt::format("cannot write '{}': {}", error.path1().string(), error.code().message()));
  }
  report.verified = options.verify;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.peak_bytes = peak_memory();
  return report;
}

}  // namespace retile::files
