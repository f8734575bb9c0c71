#include "retile/files/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/copies/copy.h"
#include "retile/engines/threads/worker_pool.h"
#include "retile/files/file.h"
#include "retile/files/process_memory.h"
#include "retile/files/runs.h"
#include "retile/files/safetensors.h"
#include "retile/files/target_folder.h"
#include "retile/files/tensor_layouts.h"
#include "retile/grids/grid.h"
#include "retile/memory/buffer.h"
#include "retile/plan/text.h"

namespace retile::files {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t largest_slab = 8 << 20;   // bytes
constexpr std::int64_t smallest_slab = 1 << 16;  // below it requests cost more than bytes

// --- Preparing.

TensorTiles tiles_of(const std::string& name, const Shape& shape, const Placement& placement) {
  TensorTiles tiles;
  for (std::int64_t device = 0; device < placement.device_count(); ++device) {
    tiles.parts.push_back(placement.parts(static_cast<Device>(device)));
    tiles.shapes.push_back(
        tile_shape(name, tiles.parts.back(), shape.size(), placement.size(static_cast<Device>(device))));
  }
  return tiles;
}

// One file has all of it.
TensorTiles whole_tiles(const Shape& shape, bool is_empty) {
  if (is_empty) return {{{}}, {shape}};
  return {{{packed_part(box_at(Shape(shape.size()), shape))}}, {shape}};
}

// Kinds of tensors, by what decides their tiles.
class TensorKinds {
 public:
  explicit TensorKinds(const std::optional<std::vector<SourceText>>& lines) {
    if (lines) layouts_.emplace(*lines);
  }

  std::shared_ptr<const TensorTiles> find(const StoredTensor& tensor) {
    const bool is_whole = !layouts_ || tensor.boxes.empty();
    const std::size_t line = is_whole ? SIZE_MAX : layouts_->find_line(tensor.name);
    auto& kind = kinds_[{line, tensor.shape}];
    if (kind != nullptr) return kind;
    kind = std::make_shared<const TensorTiles>(
        is_whole
            ? whole_tiles(tensor.shape, tensor.boxes.empty())
            : tiles_of(tensor.name, tensor.shape, layouts_->layout_of(line, tensor.name, &tensor.shape).placement()));
    files_ = std::max(files_, kind->parts.size());
    return kind;
  }

  std::size_t file_count() const { return files_; }
  // Whether two files have tiles of the same shapes of all tensors.
  bool are_alike(std::size_t file, std::size_t other) const {
    return std::all_of(kinds_.begin(), kinds_.end(), [&](const auto& kind) {
      const std::vector<Shape>& shapes = kind.second->shapes;
      if (file >= shapes.size() || other >= shapes.size()) return file >= shapes.size() && other >= shapes.size();
      return shapes[file] == shapes[other];
    });
  }

 private:
  std::optional<TensorLayouts> layouts_;
  std::map<std::pair<std::size_t, Shape>, std::shared_ptr<const TensorTiles>> kinds_;  // by line and shape
  std::size_t files_ = 1;
};

FileContents contents_of(std::size_t file, const ReshardJob& job) {
  const std::vector<StoredTensor>& sources = job.source.tensors;
  std::map<std::string, Tensor> tensors;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::vector<Shape>& shapes = job.targets[i]->shapes;
    if (file >= shapes.size()) continue;
    const Tensor tile{sources[i].type, sources[i].element_bytes, shapes[file], 0, 0};
    tensors.emplace_hint(tensors.end(), sources[i].name, tile);
  }
  FileContents contents;
  contents.header = safetensors_header(tensors, job.source.metadata);
  contents.bytes = static_cast<std::int64_t>(contents.header.size());
  contents.offsets.assign(sources.size(), 0);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto found = tensors.find(sources[i].name);
    if (found == tensors.end()) continue;
    contents.offsets[i] = found->second.offset;
    contents.bytes += found->second.bytes();
  }
  return contents;
}

void describe_targets(ReshardJob& job) {
  TensorKinds kinds(job.request.to);
  for (const StoredTensor& tensor : job.source.tensors) job.targets.push_back(kinds.find(tensor));
  for (std::size_t i = 0; i < kinds.file_count(); ++i) {
    TargetFile file;
    file.name = job.request.to ? rank_file(static_cast<std::int64_t>(i)) : "model.safetensors";
    file.contents = i > 0 && kinds.are_alike(i, i - 1) ? job.target_files.back().contents
                                                       : std::make_shared<const FileContents>(contents_of(i, job));
    job.target_files.push_back(std::move(file));
  }
}

// Bytes of a thread: a slab and the window that it is read through, and the same again for what is written or compared.
std::int64_t thread_bytes(std::int64_t slab) { return 2 * (slab + window_bytes); }

void choose_slabs(ReshardJob& job) {
  const std::int64_t room = job.request.max_bytes - job.program_bytes;
  const std::int64_t least = thread_bytes(smallest_slab);
  job.threads = static_cast<int>(std::clamp<std::int64_t>(room / least, 0, job.request.threads));
  if (job.threads == 0) {
    const std::int64_t smallest = job.program_bytes + least;
    throw MemoryLimitError(fmt::format("no plan needs less than {} bytes", group_digits(smallest)),
                           fmt::format("the smallest cap that works is {}", smallest));
  }
  job.slab_bytes = std::min(largest_slab, room / job.threads / 2 - window_bytes);
  job.memory_bytes = job.threads * thread_bytes(job.slab_bytes);
}

// --- Running.

struct Slab {
  std::size_t tensor = 0;
  Box box;
};

// The slabs of a tensor: whole rows that follow each other, or parts of one row, of this many bytes at most.
class Slabs {
 public:
  Slabs() = default;
  Slabs(std::size_t number, const StoredTensor& tensor, std::int64_t most_bytes)
      : tensor_(number), shape_(tensor.shape), extents_(shape_.size(), 1), grid_(shape_.size(), 1) {
    std::int64_t room = std::max<std::int64_t>(1, most_bytes / tensor.element_bytes);
    for (std::size_t i = shape_.size(); i-- > 0;) {
      extents_[i] = std::min(shape_[i], room);
      room = extents_[i] < shape_[i] ? 1 : std::max<std::int64_t>(1, room / extents_[i]);
      grid_[i] = divide_up(shape_[i], extents_[i]);
    }
    left_ = product(grid_);
  }

  bool is_over() const { return left_ == 0; }

  Slab take() {
    std::int64_t number = product(grid_) - left_--;
    Box box = box_at(Shape(shape_.size()), shape_);
    for (std::size_t i = shape_.size(); i-- > 0; number /= grid_[i]) {
      const Interval tile = tile_interval(number % grid_[i], extents_[i]);
      box.lo[i] = tile.lo;
      box.hi[i] = std::min(tile.hi, shape_[i]);
    }
    return {tensor_, std::move(box)};
  }

 private:
  std::size_t tensor_ = 0;
  Shape shape_;
  Shape extents_;
  Grid grid_;
  std::int64_t left_ = 0;
};

class SlabWorker {
 public:
  SlabWorker(const ReshardJob& job, const CheckpointReader& source, const std::vector<File>& targets)
      : job_(job), source_(source), targets_(targets), slab_(make_slab()) {}

  void move(const Slab& slab) {
    read(slab);
    for_each_target(slab, [&](const StoredBox& target, const Box& shared, std::int64_t size) {
      write_runs(slab_.data(), BoxCopy(slab.box, target.layout, shared, size), targets_[target.file], window_);
    });
  }

  // Whether the target has what the source has.
  bool is_same(const Slab& slab) {
    read(slab);
    if (again_.size() == 0) again_ = make_slab();
    bool is_same = true;
    for_each_target(slab, [&](const StoredBox& target, const Box& shared, std::int64_t size) {
      const BoxCopy back(target.layout, slab.box, shared, size);
      read_runs(targets_[target.file], back, again_.data(), window_, Reads::again);
      for (std::int64_t run = 0; run < back.run_count() && is_same; ++run) {
        const std::int64_t at = back.run_place(run).to;
        is_same = std::memcmp(slab_.data() + at, again_.data() + at, static_cast<std::size_t>(back.run_bytes())) == 0;
      }
    });
    return is_same;
  }

 private:
  Buffer make_slab() const { return make_page_buffer(static_cast<std::size_t>(job_.slab_bytes)); }

  void read(const Slab& slab) { source_.read(job_.source.tensors[slab.tensor], {packed_part(slab.box)}, slab_.data()); }

  // Calls visit(box of a target file, what the slab has of it, bytes of an element).
  template <typename Visit>
  void for_each_target(const Slab& slab, Visit visit) const {
    const std::int64_t size = job_.source.tensors[slab.tensor].element_bytes;
    const std::vector<std::vector<Part>>& files = job_.targets[slab.tensor]->parts;
    for (std::size_t file = 0; file < files.size(); ++file) {
      for (const Part& part : files[file]) {
        const auto shared = intersect(part.box, slab.box);
        if (!shared) continue;
        StoredBox target{file, layout_of(part, size)};
        target.layout.offset += job_.target_files[file].contents->offsets[slab.tensor];
        visit(target, *shared, size);
      }
    }
  }

  const ReshardJob& job_;
  const CheckpointReader& source_;
  const std::vector<File>& targets_;
  Buffer slab_;
  Buffer again_;  // what a target has, where it is compared
  Buffer window_;
};

// Calls visit(worker, slab) for all slabs of this process, on the job's threads.
template <typename Visit>
void for_each_slab(const ReshardJob& job, const CheckpointReader& source, const std::vector<File>& targets,
                   Visit visit) {
  std::mutex mutex;         // guards what follows
  std::size_t next = 0;     // tensor
  Slabs slabs;              // of the one before it
  std::int64_t number = 0;  // of slabs that were taken: processes get them in turn
  const Processes& processes = *job.request.processes;
  const auto take = [&]() -> std::optional<Slab> {
    const std::lock_guard lock(mutex);
    for (;;) {
      while (slabs.is_over()) {
        if (next == job.source.tensors.size()) return std::nullopt;
        const std::size_t tensor = next++;
        const StoredTensor& stored = job.source.tensors[tensor];
        if (!stored.boxes.empty()) slabs = Slabs(tensor, stored, job.slab_bytes);
      }
      Slab slab = slabs.take();
      if (number++ % processes.size() == processes.rank()) return slab;
    }
  };
  WorkerPool pool(job.threads);
  pool.for_each(static_cast<std::size_t>(job.threads), [&](std::size_t) {
    SlabWorker worker(job, source, targets);
    while (const std::optional<Slab> slab = take()) visit(worker, *slab);
  });
}

// What is replaced is removed with all that is in it.
bool holds_safetensors_alone(const std::string& folder) {
  if (!fs::is_directory(folder)) return false;
  const fs::directory_iterator entries(folder);
  return std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.is_regular_file() && entry.path().extension() == ".safetensors";
  });
}

std::int64_t bytes_of(const StoredTensor& tensor, const Box& box) { return volume(box) * tensor.element_bytes; }

void write_target(const ReshardJob& job, const std::string& folder, const ReshardOptions& options) {
  const Processes& processes = *job.request.processes;
  const CheckpointReader source(job.source, Reads::once);
  std::vector<File> targets;
  do_once(processes, [&] {
    for (const TargetFile& file : job.target_files) {
      File(folder + "/" + file.name, File::Mode::create).write(0, std::as_bytes(std::span(file.contents->header)));
    }
  });
  for (const TargetFile& file : job.target_files) targets.emplace_back(folder + "/" + file.name, File::Mode::update);
  const std::int64_t all_bytes = job.read_bytes();
  std::mutex mutex;  // guards the sum
  std::int64_t read = 0;
  for_each_slab(job, source, targets, [&](SlabWorker& worker, const Slab& slab) {
    worker.move(slab);
    const std::lock_guard lock(mutex);
    read += bytes_of(job.source.tensors[slab.tensor], slab.box);
    if (options.report) options.report(std::min(read * processes.size(), all_bytes));  // the others alike
  });
  if (options.verify) {
    for_each_slab(job, source, targets, [&](SlabWorker& worker, const Slab& slab) {
      if (worker.is_same(slab)) return;
      throw RuntimeError(
          fmt::format("'{}' differs in the files that were written", job.source.tensors[slab.tensor].name));
    });
  }
  source.drop();
  for (File& file : targets) {
    file.sync();
    file.close();
  }
}

}  // namespace

std::int64_t ReshardJob::read_bytes() const {
  std::int64_t bytes = 0;
  for (const StoredTensor& tensor : source.tensors) {
    for (const StoredBox& box : tensor.boxes) bytes += bytes_of(tensor, box.layout.box);
  }
  return bytes;
}

std::int64_t ReshardJob::written_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    for (const std::vector<Part>& parts : targets[i]->parts) {
      for (const Part& part : parts) bytes += bytes_of(source.tensors[i], part.box);
    }
  }
  return bytes;
}

namespace {

ReshardJob prepare(const ReshardRequest& request) {
  require_source_outside(request.source, request.target);
  ReshardJob job;
  job.request = request;
  job.request.target = without_slashes(request.target);
  job.source = request.from ? open_checkpoint(request.source, *request.from) : open_checkpoint(request.source);
  describe_targets(job);
  // Reading headers took memory that is free again, and counts.
  job.program_bytes = request.processes->most(std::max(program_memory(), peak_memory()));
  choose_slabs(job);
  return job;
}

void require_replaceable(const std::string& folder) {
  if (fs::exists(folder) && !holds_safetensors_alone(folder)) {
    throw InputError(fmt::format("'{}' holds more than files of safetensors: it is not replaced", folder), {});
  }
}

}  // namespace

ReshardJob prepare_reshard(const ReshardRequest& request) {
  return with_named_errors("read", [&] { return prepare(request); });
}

ReshardReport run_reshard(const ReshardJob& job, const ReshardOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::string& target = job.request.target;
  const std::string folder = unfinished_path(target);
  const Processes& processes = *job.request.processes;
  do_once(processes, [&] {
    if (fs::exists(target) && !options.overwrite)
      throw InputError(fmt::format("'{}' exists", target), "--overwrite replaces it");
    require_replaceable(target);
    require_replaceable(folder);
    fs::remove_all(folder);
    fs::create_directories(folder);
  });
  try {
    do_once(processes, [&] {
      std::int64_t needed = 0;
      for (const TargetFile& file : job.target_files) needed += file.contents->bytes;
      require_free_bytes(folder, target, needed);
    });
    write_target(job, folder, options);
    wait_for_all(processes);
    do_once(processes, [&] { name_target(target); });
  } catch (...) {  // nobody can go on with it
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          processes.most(peak_memory()), options.verify};
}

}  // namespace retile::files
