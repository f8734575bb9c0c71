// Arrays in files.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

files::Existing existing_of(const std::string& name) {
  if (name == "overwrite") return files::Existing::overwrite;
  return name == "resume" ? files::Existing::resume : files::Existing::refuse;
}

// Rechunks arrays in files. Returns lines of JSON: the report, or the plans.
std::string rechunk_files(const std::string& source, const std::string& target, const std::string& chunks,
                          std::int64_t max_bytes, const std::optional<std::string>& shards, const std::string& codec,
                          const std::optional<std::string>& format, const std::string& scratch, int threads,
                          const std::string& existing, bool verify, bool dry_run) {
  RechunkSettings settings;
  settings.source = source;
  settings.target = target;
  settings.chunks = chunks;
  settings.max_bytes = max_bytes;
  settings.shards = shards;
  settings.codec = codec;
  settings.format = format;
  settings.scratch = scratch;
  settings.threads = threads;
  settings.existing = existing_of(existing);
  settings.verify = verify;
  const Rechunk rechunk(settings);
  return dry_run ? rechunk.to_json() : rechunk.to_json(rechunk.run());
}

// A checkpoint whose tensors are read into memory that Python owns.
class PythonCheckpoint {
 public:
  PythonCheckpoint(const std::string& path, const std::optional<std::string>& layouts)
      : path_(path),
        checkpoint_(layouts ? files::open_checkpoint(path, *layouts) : files::open_checkpoint(path)),
        reader_(checkpoint_) {}

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const files::StoredTensor& tensor : checkpoint_.tensors) names.push_back(tensor.name);
    return names;
  }

  const Shape& shape(const std::string& name) const { return find(name).shape; }

  std::string element_type(const std::string& name) const {
    const files::StoredTensor& tensor = find(name);
    if (const auto type = tensor.element_type()) return numpy_name_of(*type);
    throw InputError("'" + name + "' has elements of type " + tensor.type + ", which frameworks have no name for", {});
  }

  // Reads what a device of the layout holds into packed memory of this many bytes; the whole tensor where there is no
  // layout.
  void read(const std::string& name, const PythonLayout* layout, Device device, std::uintptr_t address,
            std::int64_t bytes) const {
    const files::StoredTensor& tensor = find(name);
    const Placement placement = layout != nullptr ? layout->layout.placement() : whole(tensor.shape);
    ensure(placement.global_shape() == tensor.shape, "layouts are of the tensor's shape");
    ensure(placement.size(device) * tensor.element_bytes == bytes, "the memory is that of the device's tile");
    // NOLINTNEXTLINE(*-reinterpret-cast): Python gives addresses as numbers
    reader_.read(tensor, placement.parts(device), reinterpret_cast<std::byte*>(address));
  }

 private:
  const files::StoredTensor& find(const std::string& name) const {
    const files::StoredTensor* tensor = checkpoint_.find(name);
    if (tensor == nullptr) throw InputError("'" + path_ + "' lacks '" + name + "'", {});
    return *tensor;
  }

  static Placement whole(const Shape& shape) {
    const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    std::vector<Part> parts;
    if (!is_empty) parts.push_back(packed_part(box_at(Shape(shape.size()), shape)));
    return {shape, {parts}};
  }

  std::string path_;
  files::Checkpoint checkpoint_;
  files::CheckpointReader reader_;
};

}  // namespace

void bind_files(nb::module_& module) {
  nb::class_<PythonCheckpoint>(module, "Checkpoint")
      .def(nb::init<const std::string&, const std::optional<std::string>&>(), "path"_a, "layouts"_a.none())
      .def("names", &PythonCheckpoint::names)
      .def("shape", &PythonCheckpoint::shape, "name"_a)
      .def("element_type", &PythonCheckpoint::element_type, "name"_a, "As NumPy and PyTorch name it.")
      .def("read", &PythonCheckpoint::read, "name"_a, "layout"_a.none(), "device"_a, "address"_a, "bytes"_a,
           nb::call_guard<nb::gil_scoped_release>(), "Fills packed memory with what a device of the layout holds.");
  module.def("rechunk", &rechunk_files, "source"_a, "target"_a, "chunks"_a, "max_bytes"_a, "shards"_a.none(), "codec"_a,
             "format"_a.none(), "scratch"_a, "threads"_a, "existing"_a, "verify"_a, "dry_run"_a,
             nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace retile::python
