#include "retile/files/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/copies/copy.h"
#include "retile/engines/threads/worker_pool.h"
#include "retile/files/file.h"
#include "retile/files/process_memory.h"
#include "retile/files/target_folder.h"
#include "retile/files/tensor_layouts.h"
#include "retile/grids/grid.h"
#include "retile/memory/buffer.h"
#include "retile/plan/text.h"

namespace retile::files {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::int64_t largest_slab = 8 << 20;   // bytes
constexpr std::int64_t smallest_slab = 1 << 16;  // below it requests cost more than bytes

// --- Preparing.

// The shape of what a device holds: indices that its boxes cover in each dimension.
Shape tile_shape(const std::string& name, const std::vector<Part>& parts, std::size_t rank, std::int64_t size) {
  Shape shape(rank);
  std::int64_t elements = parts.empty() ? 0 : 1;
  for (std::size_t i = 0; i < rank; ++i) {
    std::set<std::pair<std::int64_t, std::int64_t>> intervals;
    for (const Part& part : parts) intervals.emplace(part.box.lo[i], part.box.hi[i]);
    for (const auto& [lo, hi] : intervals) shape[i] += hi - lo;
    elements *= shape[i];
  }
  if (elements != size) throw InputError(fmt::format("what a rank has of '{}' is no array", name), {});
  return shape;
}

void add_boxes(const std::vector<Part>& parts, std::size_t file, const Tensor& tensor, std::vector<StoredBox>& boxes) {
  for (const Part& part : parts) {
    TileLayout layout = layout_of(part, tensor.element_bytes);
    layout.offset += tensor.offset;
    boxes.push_back({file, std::move(layout)});
  }
}

TensorJob whole_tensor(const std::string& name, const Tensor& tensor) {
  TensorJob job{name, tensor.element_bytes, tensor.shape, {}, nullptr};
  if (tensor.bytes() > 0) {
    job.sources.push_back({tensor.file, {box_at(Shape(tensor.shape.size()), tensor.shape), {}, tensor.offset}});
  }
  return job;
}

struct Source {
  std::vector<std::string> files;
  std::vector<TensorJob> tensors;
  std::vector<std::string> types;  // of the tensors
  std::string metadata;
};

Source open_whole(const std::string& path) {
  Model model = open_model(path);
  Source source{std::move(model.files), {}, {}, std::move(model.metadata)};
  for (const auto& [name, tensor] : model.tensors) {
    source.tensors.push_back(whole_tensor(name, tensor));
    source.types.push_back(tensor.type);
  }
  return source;
}

Source open_from_ranks(const std::string& folder, const TensorLayouts& layouts) {
  const std::vector<Model> ranks = open_ranks(folder);
  Source source;
  source.metadata = ranks.front().metadata;
  for (const Model& rank : ranks) source.files.push_back(rank.files.front());
  std::map<std::string, std::string> types;
  for (const Model& rank : ranks) {
    for (const auto& [name, tensor] : rank.tensors) types.emplace(name, tensor.type);
  }
  for (const auto& [name, type] : types) {
    const Placement placement = layouts.layout_of(layouts.find_line(name), name, nullptr).placement();
    TensorJob job{name, 1, placement.global_shape(), {}, nullptr};
    if (placement.device_count() > static_cast<std::int64_t>(ranks.size())) {
      throw InputError(fmt::format("the layout of '{}' has {}, and '{}' has files of {}", name,
                                   count_of(placement.device_count(), "rank"), folder, ranks.size()),
                       {});
    }
    for (std::int64_t device = 0; device < placement.device_count(); ++device) {
      const std::vector<Part> parts = placement.parts(static_cast<Device>(device));
      const auto found = ranks[static_cast<std::size_t>(device)].tensors.find(name);
      const bool is_there = found != ranks[static_cast<std::size_t>(device)].tensors.end();
      if (parts.empty()) continue;
      const Shape shape = tile_shape(name, parts, job.shape.size(), placement.size(static_cast<Device>(device)));
      if (!is_there || found->second.shape != shape || found->second.type != type) {
        throw InputError(fmt::format("'{}' lacks '{}' as {} ({})", source.files[static_cast<std::size_t>(device)], name,
                                     type, fmt::join(shape, ", ")),
                         {});
      }
      job.element_bytes = found->second.element_bytes;
      add_boxes(parts, static_cast<std::size_t>(device), found->second, job.sources);
    }
    source.tensors.push_back(std::move(job));
    source.types.push_back(type);
  }
  return source;
}

// Boxes that several files hold are read once.
void keep_one_of_each(std::vector<StoredBox>& boxes) {
  std::set<std::pair<Shape, Shape>> seen;
  std::erase_if(boxes,
                [&](const StoredBox& box) { return !seen.emplace(box.layout.box.lo, box.layout.box.hi).second; });
}

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

  std::shared_ptr<const TensorTiles> find(const TensorJob& tensor) {
    const bool is_whole = !layouts_ || tensor.sources.empty();
    const std::size_t line = is_whole ? SIZE_MAX : layouts_->find_line(tensor.name);
    auto& kind = kinds_[{line, tensor.shape}];
    if (kind != nullptr) return kind;
    kind = std::make_shared<const TensorTiles>(
        is_whole
            ? whole_tiles(tensor.shape, tensor.sources.empty())
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

FileContents contents_of(std::size_t file, const ReshardJob& job, const Source& source) {
  std::map<std::string, Tensor> tensors;
  for (std::size_t i = 0; i < job.tensors.size(); ++i) {
    const TensorJob& tensor = job.tensors[i];
    if (file >= tensor.targets->shapes.size()) continue;
    const Tensor tile{source.types[i], tensor.element_bytes, tensor.targets->shapes[file], 0, 0};
    tensors.emplace_hint(tensors.end(), tensor.name, tile);
  }
  FileContents contents;
  contents.header = safetensors_header(tensors, source.metadata);
  contents.bytes = static_cast<std::int64_t>(contents.header.size());
  contents.offsets.assign(job.tensors.size(), 0);
  for (std::size_t i = 0; i < job.tensors.size(); ++i) {
    const auto found = tensors.find(job.tensors[i].name);
    if (found == tensors.end()) continue;
    contents.offsets[i] = found->second.offset;
    contents.bytes += found->second.bytes();
  }
  return contents;
}

void describe_targets(ReshardJob& job, const Source& source) {
  TensorKinds kinds(job.request.to);
  for (TensorJob& tensor : job.tensors) tensor.targets = kinds.find(tensor);
  for (std::size_t i = 0; i < kinds.file_count(); ++i) {
    TargetFile file;
    file.name = job.request.to ? rank_file(static_cast<std::int64_t>(i)) : "model.safetensors";
    file.contents = i > 0 && kinds.are_alike(i, i - 1)
                        ? job.target_files.back().contents
                        : std::make_shared<const FileContents>(contents_of(i, job, source));
    job.target_files.push_back(std::move(file));
  }
}

void choose_slabs(ReshardJob& job) {
  const std::int64_t room = job.request.max_bytes - job.program_bytes;
  job.threads = static_cast<int>(std::clamp<std::int64_t>(room / (2 * smallest_slab), 0, job.request.threads));
  if (job.threads == 0) {
    const std::int64_t smallest = job.program_bytes + 2 * smallest_slab;
    throw MemoryLimitError(fmt::format("no plan needs less than {} bytes", group_digits(smallest)),
                           fmt::format("the smallest cap that works is {}", smallest));
  }
  job.slab_bytes = std::min(largest_slab, room / 2 / job.threads);
}

// --- Running.

struct Slab {
  const TensorJob* tensor = nullptr;
  Box box;
};

// The slabs of a tensor: whole rows that follow each other, or parts of one row, of this many bytes at most.
class Slabs {
 public:
  Slabs() = default;
  Slabs(const TensorJob& tensor, std::int64_t most_bytes)
      : tensor_(&tensor), extents_(tensor.shape.size(), 1), grid_(tensor.shape.size(), 1) {
    const Shape& shape = tensor.shape;
    std::int64_t room = std::max<std::int64_t>(1, most_bytes / tensor.element_bytes);
    for (std::size_t i = shape.size(); i-- > 0;) {
      extents_[i] = std::min(shape[i], room);
      room = extents_[i] < shape[i] ? 1 : std::max<std::int64_t>(1, room / extents_[i]);
      grid_[i] = divide_up(shape[i], extents_[i]);
    }
    left_ = product(grid_);
  }

  bool is_over() const { return left_ == 0; }

  Slab take() {
    const Shape& shape = tensor_->shape;
    std::int64_t number = product(grid_) - left_--;
    Box box = box_at(Shape(shape.size()), shape);
    for (std::size_t i = shape.size(); i-- > 0; number /= grid_[i]) {
      const Interval tile = tile_interval(number % grid_[i], extents_[i]);
      box.lo[i] = tile.lo;
      box.hi[i] = std::min(tile.hi, shape[i]);
    }
    return {tensor_, std::move(box)};
  }

 private:
  const TensorJob* tensor_ = nullptr;
  Shape extents_;
  Grid grid_;
  std::int64_t left_ = 0;
};

struct SourceFile {
  File file;
  bool is_dropped = false;  // from the page cache, as it is read
};

class SlabWorker {
 public:
  SlabWorker(const ReshardJob& job, const std::vector<SourceFile>& sources, const std::vector<File>& targets)
      : job_(job),
        sources_(sources),
        targets_(targets),
        slab_(make_page_buffer(static_cast<std::size_t>(job.slab_bytes))),
        piece_(make_page_buffer(static_cast<std::size_t>(job.slab_bytes))) {}

  void move(const Slab& slab) {
    read(slab);
    for_each_target(slab, [&](const StoredBox& target, const Box& shared) {
      BoxCopy(TileLayout(slab.box), TileLayout(shared), shared, slab.tensor->element_bytes)
          .run(slab_.data(), piece_.data());
      for_each_run(target, shared, slab.tensor->element_bytes, [&](std::int64_t offset, std::span<std::byte> bytes) {
        targets_[target.file].write(offset, bytes);
      });
    });
  }

  // Whether the target has what the source has.
  bool is_same(const Slab& slab) {
    read(slab);
    bool is_same = true;
    for_each_target(slab, [&](const StoredBox& target, const Box& shared) {
      const std::int64_t size = slab.tensor->element_bytes;
      for_each_run(target, shared, size,
                   [&](std::int64_t offset, std::span<std::byte> bytes) { targets_[target.file].read(offset, bytes); });
      const BoxCopy copy{TileLayout(slab.box), TileLayout(shared), shared, size};
      for (std::int64_t run = 0; run < copy.run_count(); ++run) {
        const BoxCopy::RunPlace place = copy.run_place(run);
        is_same = is_same && std::memcmp(slab_.data() + place.from, piece_.data() + place.to,
                                         static_cast<std::size_t>(copy.run_bytes())) == 0;
      }
    });
    return is_same;
  }

 private:
  // Calls visit(box of a target file, what the slab has of it).
  template <typename Visit>
  void for_each_target(const Slab& slab, Visit visit) const {
    const auto number = static_cast<std::size_t>(slab.tensor - job_.tensors.data());
    const std::vector<std::vector<Part>>& files = slab.tensor->targets->parts;
    for (std::size_t file = 0; file < files.size(); ++file) {
      for (const Part& part : files[file]) {
        const auto shared = intersect(part.box, slab.box);
        if (!shared) continue;
        StoredBox target{file, layout_of(part, slab.tensor->element_bytes)};
        target.layout.offset += job_.target_files[file].contents->offsets[number];
        visit(target, *shared);
      }
    }
  }

  void read(const Slab& slab) {
    for (const StoredBox& source : slab.tensor->sources) {
      const auto shared = intersect(source.layout.box, slab.box);
      if (!shared) continue;
      const auto& [file, is_dropped] = sources_[source.file];
      for_each_run(source, *shared, slab.tensor->element_bytes, [&](std::int64_t offset, std::span<std::byte> bytes) {
        is_dropped ? file.read_once(offset, bytes) : file.read(offset, bytes);
      });
      BoxCopy(TileLayout(*shared), TileLayout(slab.box), *shared, slab.tensor->element_bytes)
          .run(piece_.data(), slab_.data());
    }
  }

  // Calls visit(place in the file, bytes of piece_) for the runs of a box that lie together in the file.
  template <typename Visit>
  void for_each_run(const StoredBox& stored, const Box& box, std::int64_t size, Visit visit) {
    const BoxCopy copy(stored.layout, TileLayout(box), box, size);
    for (std::int64_t run = 0; run < copy.run_count(); ++run) {
      const BoxCopy::RunPlace place = copy.run_place(run);
      visit(place.from, std::span(piece_.data() + place.to, static_cast<std::size_t>(copy.run_bytes())));
    }
  }

  const ReshardJob& job_;
  const std::vector<SourceFile>& sources_;
  const std::vector<File>& targets_;
  Buffer slab_;
  Buffer piece_;
};

// Calls visit(worker, slab) for all slabs of this process, on the job's threads.
template <typename Visit>
void for_each_slab(const ReshardJob& job, const std::vector<SourceFile>& sources, const std::vector<File>& targets,
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
        if (next == job.tensors.size()) return std::nullopt;
        const TensorJob& tensor = job.tensors[next++];
        if (!tensor.sources.empty()) slabs = Slabs(tensor, job.slab_bytes);
      }
      Slab slab = slabs.take();
      if (number++ % processes.size() == processes.rank()) return slab;
    }
  };
  WorkerPool pool(job.threads);
  pool.for_each(static_cast<std::size_t>(job.threads), [&](std::size_t) {
    SlabWorker worker(job, sources, targets);
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

std::int64_t sum_of_volumes(const std::vector<StoredBox>& boxes) {
  std::int64_t sum = 0;
  for (const StoredBox& box : boxes) sum += volume(box.layout.box);
  return sum;
}

void write_target(const ReshardJob& job, const std::string& folder, const ReshardOptions& options) {
  const Processes& processes = *job.request.processes;
  std::vector<SourceFile> sources;
  std::vector<File> targets;
  for (const std::string& path : job.source_files) {
    File file(path, File::Mode::read);
    const bool is_dropped = !file.is_cached();
    sources.push_back({std::move(file), is_dropped});
  }
  do_once(processes, [&] {
    for (const TargetFile& file : job.target_files) {
      File(folder + "/" + file.name, File::Mode::create).write(0, std::as_bytes(std::span(file.contents->header)));
    }
  });
  for (const TargetFile& file : job.target_files) targets.emplace_back(folder + "/" + file.name, File::Mode::update);
  std::mutex mutex;  // guards the sum
  std::int64_t read = 0;
  for_each_slab(job, sources, targets, [&](SlabWorker& worker, const Slab& slab) {
    worker.move(slab);
    const std::lock_guard lock(mutex);
    read += volume(slab.box) * slab.tensor->element_bytes;
    if (options.report) options.report(std::min(read * processes.size(), job.read_bytes()));  // the others alike
  });
  if (options.verify) {
    for_each_slab(job, sources, targets, [&](SlabWorker& worker, const Slab& slab) {
      if (!worker.is_same(slab))
        throw RuntimeError(fmt::format("'{}' differs in the files that were written", slab.tensor->name));
    });
  }
  for (const SourceFile& source : sources) {
    if (source.is_dropped) source.file.drop();
  }
  for (File& file : targets) {
    file.sync();
    file.close();
  }
}

}  // namespace

std::int64_t ReshardJob::read_bytes() const {
  std::int64_t bytes = 0;
  for (const TensorJob& tensor : tensors) bytes += sum_of_volumes(tensor.sources) * tensor.element_bytes;
  return bytes;
}

std::int64_t ReshardJob::written_bytes() const {
  std::int64_t bytes = 0;
  for (const TensorJob& tensor : tensors) {
    for (const std::vector<Part>& parts : tensor.targets->parts) {
      for (const Part& part : parts) bytes += volume(part.box) * tensor.element_bytes;
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
  Source source =
      request.from ? open_from_ranks(request.source, TensorLayouts(*request.from)) : open_whole(request.source);
  job.source_files = std::move(source.files);
  job.tensors = std::move(source.tensors);
  for (TensorJob& tensor : job.tensors) keep_one_of_each(tensor.sources);
  describe_targets(job, source);
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

// --- Text.

std::string to_string(const ReshardJob& job) {
  std::int64_t largest = 0;
  for (const TargetFile& file : job.target_files) largest = std::max(largest, file.contents->bytes);
  const auto count = [](std::size_t number, const char* noun) {
    return count_of(static_cast<std::int64_t>(number), noun);
  };
  return fmt::format(
      "{} -> {}: {} of {} to {}, of {} bytes at most\n"
      "read     {} bytes, each once\n"
      "written  {} bytes\n"
      "memory   {} bytes and {} of the program (cap {}); {}\n",
      job.request.source, job.request.target, count(job.tensors.size(), "tensor"),
      count(job.source_files.size(), "file"), count(job.target_files.size(), "file"), group_digits(largest),
      group_digits(job.read_bytes()), group_digits(job.written_bytes()), group_digits(2 * job.slab_bytes * job.threads),
      group_digits(job.program_bytes), group_digits(job.request.max_bytes), count_of(job.threads, "thread"));
}

std::string to_json(const ReshardJob& job) {
  Json files = Json::array();
  for (const TargetFile& file : job.target_files)
    files.push_back({{"name", file.name}, {"bytes", file.contents->bytes}});
  const Json json{{"format", json_format},
                  {"source", utf8_of(job.request.source)},
                  {"target", utf8_of(job.request.target)},
                  {"tensors", job.tensors.size()},
                  {"source_files", job.source_files.size()},
                  {"target_files", files},
                  {"read_bytes", job.read_bytes()},
                  {"written_bytes", job.written_bytes()},
                  {"threads", job.threads},
                  {"slab_bytes", job.slab_bytes},
                  {"program_bytes", job.program_bytes},
                  {"max_bytes", job.request.max_bytes}};
  return json.dump() + "\n";
}

std::string to_string(const ReshardReport& report, const ReshardJob& job) {
  return fmt::format("{}done in {:.3f} s, peak {} of {} bytes\n", report.verified ? "verified, " : "", report.seconds,
                     group_digits(report.peak_bytes), group_digits(job.request.max_bytes));
}

std::string to_json(const ReshardReport& report, const ReshardJob& job) {
  const Json json{{"format", json_format},
                  {"source", utf8_of(job.request.source)},
                  {"target", utf8_of(job.request.target)},
                  {"seconds", report.seconds},
                  {"read_bytes", job.read_bytes()},
                  {"written_bytes", job.written_bytes()},
                  {"peak_bytes", report.peak_bytes},
                  {"max_bytes", job.request.max_bytes},
                  {"verified", report.verified}};
  return json.dump() + "\n";
}

}  // namespace retile::files
