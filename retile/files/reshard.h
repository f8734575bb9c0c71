// Checkpoints from the files of some ranks, or of a whole model, to those of others: every byte of the source is read
// once, within a cap on memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/engines/processes.h"
#include "retile/files/checkpoint.h"
#include "retile/types/placement.h"

namespace retile::files {

struct ReshardRequest {
  std::string source;                                          // a model, or with `from` a folder with files of ranks
  std::string target;                                          // a folder
  std::optional<std::vector<SourceText>> from = std::nullopt;  // layouts of the source's tensors
  std::optional<std::vector<SourceText>> to = std::nullopt;    // layouts of the target's; else it is one file
  std::int64_t max_bytes = 0;                                  // of memory, for the whole process
  int threads = 1;
  const Processes* processes = &one_process();  // which share the work out, and all make the same calls
};

// How files hold a tensor: by file, the parts of its tile and their shape together; no parts where it is empty. Tensors
// of one shape and layout share it: a model has tens of thousands, and as many times the number of files.
struct TensorTiles {
  std::vector<std::vector<Part>> parts;
  std::vector<Shape> shapes;
};

// The contents of a file of the target. Files with tiles of the same shapes share it.
struct FileContents {
  std::string header;                 // its first bytes
  std::vector<std::int64_t> offsets;  // by tensor, in bytes from the file's beginning
  std::int64_t bytes = 0;             // of the file
};

struct TargetFile {
  std::string name;  // in the target's folder
  std::shared_ptr<const FileContents> contents;
};

struct ReshardJob {
  ReshardRequest request;
  Checkpoint source;
  std::vector<std::shared_ptr<const TensorTiles>> targets;  // by tensor of the source
  std::vector<TargetFile> target_files;
  std::int64_t program_bytes = 0;  // of max_bytes, for the program and the headers
  std::int64_t slab_bytes = 0;     // of a tensor that a thread reads at once
  int threads = 1;
  std::int64_t memory_bytes = 0;  // of all threads

  std::int64_t read_bytes() const;
  std::int64_t written_bytes() const;
};

// Reads headers and layouts, and plans. Nothing is written. Collective. Throws InputError, MemoryLimitError where the
// cap is too small.
ReshardJob prepare_reshard(const ReshardRequest& request);

std::string to_string(const ReshardJob& job);
std::string to_json(const ReshardJob& job);

struct ReshardOptions {
  bool overwrite = false;  // replace a target that is there when the new one is complete
  bool verify = false;     // read the target again, and compare it with the source
  std::function<void(std::int64_t read_bytes)> report = {};
};

struct ReshardReport {
  double seconds = 0;
  std::int64_t peak_bytes = 0;
  bool verified = false;
};

// Collective. Throws InputError where the target may not be written, RuntimeError where the run fails.
ReshardReport run_reshard(const ReshardJob& job, const ReshardOptions& options);

std::string to_string(const ReshardReport& report, const ReshardJob& job);
std::string to_json(const ReshardReport& report, const ReshardJob& job);

}  // namespace retile::files
