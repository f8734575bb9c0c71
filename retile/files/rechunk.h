// Files and stores from one chunking to another: what is read, what is written beside the target's name, and how it
// gets that name when it is complete.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/engines/processes.h"
#include "retile/files/chunk_sizes.h"
#include "retile/files/rechunk_plan.h"
#include "retile/files/rechunk_report.h"
#include "retile/files/stored_array.h"

namespace retile::files {

struct RechunkRequest {
  std::string source;
  std::string target;
  ChunkSizes chunks;
  std::optional<ChunkSizes> shards = std::nullopt;
  std::optional<Format> format = std::nullopt;              // else that of the target's name, or the source's
  std::optional<std::vector<Codec>> codecs = std::nullopt;  // else the source's
  std::int64_t max_bytes = 0;                               // of memory, for the whole process
  int threads = 1;
  std::string scratch = {};  // folder of intermediate arrays; empty: that of the target
  FileCosts costs = {};
  const Processes* processes = &one_process();  // which share the work out, and all make the same calls
};

// One array of a store.
struct ArrayJob {
  std::string name;  // its path in the store; empty where the store is the array
  StoredArray source;
  StoredArray target;
  Shape source_unit;
  std::optional<RechunkPlan> plan;  // nothing for an array without elements
  std::int64_t index_bytes = 0;     // memory beside the plan's, for the target's shards
};

// A file with metadata, which is written when all arrays are complete.
struct MetadataFile {
  std::string name;  // from the target's folder
  std::string text;
};

struct RechunkJob {
  RechunkRequest request;
  std::vector<ArrayJob> arrays;
  std::vector<MetadataFile> metadata;
  std::int64_t program_bytes = 0;  // of max_bytes, for the program itself

  std::int64_t read_bytes() const;
};

// Opens the source and plans. Nothing is written. Collective. Throws InputError where the input is at fault,
// MemoryLimitError where the cap is too small.
RechunkJob prepare_rechunk(const RechunkRequest& request);

std::string to_string(const RechunkJob& job);
// A line of JSON for each array.
std::string to_json(const RechunkJob& job);

struct RunOptions {
  Existing existing = Existing::refuse;
  bool verify = false;
  std::function<void(std::int64_t read_bytes)> report = {};  // called by one thread at a time
};

// Collective. Throws InputError where the target may not be written, RuntimeError where the run fails: what is complete
// by then is kept beside the target's name. A failure that one process has alone it throws alone: the others wait for
// it.
RechunkReport run_rechunk(const RechunkJob& job, const RunOptions& options);

std::string to_string(const RechunkReport& report, const RechunkJob& job);
std::string to_json(const RechunkReport& report, const RechunkJob& job);

}  // namespace retile::files
