#include "retile/files/tensor_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <span>
#include <utility>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/copies/copy.h"
#include "retile/files/runs.h"
#include "retile/files/safetensors.h"
#include "retile/files/target_folder.h"
#include "retile/memory/tile_layout.h"

namespace retile::files {
namespace {

std::string type_name(const FiledTensor& tensor) {
  const auto name = safetensors_type(tensor.type);
  if (!name) throw InputError(fmt::format("files of safetensors have no type {}", name_of(tensor.type)), {});
  return *name;
}

}  // namespace

TensorFiles::TensorFiles(std::vector<FiledTensor> tensors, const Processes& processes)
    : tensors_(std::move(tensors)), processes_(processes), stored_(tensors_.size()), targets_(tensors_.size()) {
  processes.do_together([&] { open_sources(); });
  create_targets();
}

void TensorFiles::open_sources() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const FiledTensor& tensor = tensors_[i];
    if (tensor.source.empty()) continue;
    auto& source = sources_[tensor.source];
    if (source == nullptr) source = std::make_unique<const Source>(tensor.source);
    const StoredTensor* stored = source->checkpoint.find(tensor.name);
    if (stored == nullptr || stored->shape != tensor.shape || stored->type != type_name(tensor)) {
      throw InputError(fmt::format("'{}' lacks '{}' as {} ({})", tensor.source, tensor.name, type_name(tensor),
                                   fmt::join(tensor.shape, ", ")),
                       {});
    }
    stored_[i] = stored;
  }
}

void TensorFiles::create_targets() {
  std::map<std::string, std::map<std::string, Tensor>> contents;
  for (const FiledTensor& tensor : tensors_) {
    if (tensor.target.empty()) continue;
    contents[tensor.target][tensor.name] = {type_name(tensor), bytes_of(tensor.type), tensor.shape, 0, 0};
  }
  for (auto& [target, tensors] : contents) {
    const std::string& path = target;  // clang 14 captures no structured bindings
    const std::string header = safetensors_header(tensors, "");
    std::string unfinished;
    do_once(processes_, [&] {
      if (std::filesystem::exists(path)) throw InputError(fmt::format("'{}' exists: it is not replaced", path), {});
      unfinished_.push_back(std::make_unique<NewFile>(path));
      unfinished = unfinished_.back()->unfinished_path();
      File(unfinished, File::Mode::create).write(0, std::as_bytes(std::span(header)));
    });
    unfinished = processes_.share(unfinished);
    processes_.do_together([&] { files_[unfinished] = std::make_unique<const File>(unfinished, File::Mode::update); });
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].target == path) targets_[i] = {files_[unfinished].get(), tensors.at(tensors_[i].name).offset};
    }
  }
}

void TensorFiles::read(std::size_t tensor, const std::vector<Part>& parts, std::byte* tile) const {
  sources_.at(tensors_[tensor].source)->reader.read(*stored_[tensor], parts, tile);
}

void TensorFiles::write(std::size_t tensor, const std::vector<Part>& parts, const std::byte* tile) const {
  const FiledTensor& filed = tensors_[tensor];
  const auto& [file, offset] = targets_[tensor];
  const TileLayout stored{box_at(Shape(filed.shape.size()), filed.shape), {}, offset};
  const std::int64_t size = bytes_of(filed.type);
  Buffer window;
  for (const Part& part : parts) {
    if (!contains(stored.box, part.box))
      throw RuntimeError(fmt::format("'{}' has ghost zones beyond its ends, which no file has", filed.name));
    write_runs(tile, BoxCopy(layout_of(part, size), stored, part.box, size), *file, window);
  }
}

void TensorFiles::finish() {
  processes_.do_together([&] {
    for (const Place& place : targets_) {
      if (place.file != nullptr) place.file->sync();
    }
  });
  do_once(processes_, [&] {
    for (const auto& file : unfinished_) file->finish();
  });
}

}  // namespace retile::files
