#include "retile/files/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <span>
#include <utility>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/copies/copy.h"
#include "retile/files/target_folder.h"
#include "retile/memory/tile_layout.h"

namespace retile::files {
namespace {

// As the format names it.
std::string type_name(ElementType type) {
  if (type == ElementType::f8e4m3fn) return "F8_E4M3";
  if (type == ElementType::f8e5m2) return "F8_E5M2";
  std::string name = name_of(type);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char letter) { return static_cast<char>(std::toupper(static_cast<unsigned char>(letter))); });
  return name;
}

// Calls visit(place in the file, place in the tile, bytes) for the runs of a tensor's parts.
template <typename Visit>
void for_each_run(const FiledTensor& tensor, std::int64_t offset, const std::vector<Part>& parts, Visit visit) {
  const std::int64_t size = bytes_of(tensor.type);
  const TileLayout stored{box_at(Shape(tensor.shape.size()), tensor.shape), {}, offset};
  for (const Part& part : parts) {
    if (!contains(stored.box, part.box))
      throw RuntimeError(fmt::format("'{}' has ghost zones beyond its ends, which no file has", tensor.name));
    const BoxCopy copy(stored, layout_of(part, size), part.box, size);
    for (std::int64_t run = 0; run < copy.run_count(); ++run) {
      const BoxCopy::RunPlace place = copy.run_place(run);
      visit(place.from, place.to, static_cast<std::size_t>(copy.run_bytes()));
    }
  }
}

}  // namespace

TensorFiles::TensorFiles(std::vector<FiledTensor> tensors, const Processes& processes)
    : tensors_(std::move(tensors)), processes_(processes), sources_(tensors_.size()), targets_(tensors_.size()) {
  processes.do_together([&] { open_sources(); });
  create_targets();
}

void TensorFiles::open_sources() {
  std::map<std::string, Model> models;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const FiledTensor& tensor = tensors_[i];
    if (tensor.source.empty()) continue;
    if (!models.contains(tensor.source)) models[tensor.source] = open_model(tensor.source);
    const Model& model = models[tensor.source];
    const auto found = model.tensors.find(tensor.name);
    if (found == model.tensors.end() || found->second.shape != tensor.shape ||
        found->second.type != type_name(tensor.type)) {
      throw InputError(fmt::format("'{}' lacks '{}' as {} ({})", tensor.source, tensor.name, type_name(tensor.type),
                                   fmt::join(tensor.shape, ", ")),
                       {});
    }
    const std::string& path = model.files[found->second.file];
    auto& file = files_[path];
    if (file == nullptr) file = std::make_unique<const File>(path, File::Mode::read);
    sources_[i] = {file.get(), found->second.offset};
  }
}

void TensorFiles::create_targets() {
  std::map<std::string, std::map<std::string, Tensor>> contents;
  for (const FiledTensor& tensor : tensors_) {
    if (tensor.target.empty()) continue;
    contents[tensor.target][tensor.name] = {type_name(tensor.type), bytes_of(tensor.type), tensor.shape, 0, 0};
  }
  for (auto& [path, tensors] : contents) {
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
  const auto& [file, offset] = sources_[tensor];
  for_each_run(tensors_[tensor], offset, parts, [&](std::int64_t from, std::int64_t to, std::size_t bytes) {
    file->read(from, std::span(tile + to, bytes));
  });
}

void TensorFiles::write(std::size_t tensor, const std::vector<Part>& parts, const std::byte* tile) const {
  const auto& [file, offset] = targets_[tensor];
  for_each_run(tensors_[tensor], offset, parts, [&](std::int64_t to, std::int64_t from, std::size_t bytes) {
    file->write(to, std::span(tile + from, bytes));
  });
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
