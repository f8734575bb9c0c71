// Arrays in files.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

files::Existing existing_of(const std::string& name) {
  if (name == "overwrite") return files::Existing::overwrite;
  return name == "resume" ? files::Existing::resume : files::Existing::refuse;
}

// Lines of JSON: the report, or the plans.
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

}  // namespace

void bind_files(nb::module_& module) {
  module.def("rechunk", &rechunk_files, "source"_a, "target"_a, "chunks"_a, "max_bytes"_a, "shards"_a.none(), "codec"_a,
             "format"_a.none(), "scratch"_a, "threads"_a, "existing"_a, "verify"_a, "dry_run"_a,
             nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace retile::python
