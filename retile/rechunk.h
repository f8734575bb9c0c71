// Rechunking for users: arrays in files, from one chunking to another within a cap on memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "retile/files/rechunk_report.h"

namespace retile {

class Processes;

namespace files {
struct RechunkJob;
}  // namespace files

// The task of a Rechunk. Texts are as `retile rechunk` takes them (docs/from-zarr.md).
struct RechunkSettings {
  std::string source;  // a store of Zarr, or a .npy file
  std::string target;
  std::string chunks;                                // "8760,10,10" or "time=8760,lat=10"; -1 is the whole dimension
  std::int64_t max_bytes = std::int64_t{256} << 20;  // of memory, for the whole process
  std::optional<std::string> shards = std::nullopt;
  std::optional<std::string> format = std::nullopt;  // "zarr2" or "zarr3"; else the source's
  std::string codec = "keep";
  std::string scratch = {};  // folder of intermediate arrays; empty: that of the target
  int threads = 0;           // at most; 0: as many as there are cores

  files::Existing existing = files::Existing::refuse;
  bool verify = false;  // read both sides again, and compare checksums

  const Processes* processes = nullptr;  // which share the work out and all make the same calls; null: this one alone
};

// A plan, and its run. The constructor opens the source and plans, and nothing is written: it throws InputError where
// the input is at fault, MemoryLimitError where the cap is too small, with the smallest that works.
class Rechunk {
 public:
  explicit Rechunk(RechunkSettings settings);
  Rechunk(const Rechunk&) = delete;
  Rechunk& operator=(const Rechunk&) = delete;
  Rechunk(Rechunk&&) = delete;
  Rechunk& operator=(Rechunk&&) = delete;
  ~Rechunk();

  // The number of bytes that a run reads.
  std::int64_t read_bytes() const;
  // `report` is called with what has been read so far, in bytes, by one thread at a time. Throws InputError where the
  // target may not be written, RuntimeError where the run fails: what is complete by then is kept for a resumed run.
  files::RechunkReport run(const std::function<void(std::int64_t read_bytes)>& report = {}) const;

  // The plan; of JSON a line for each array.
  std::string to_string() const;
  std::string to_json() const;
  std::string to_string(const files::RechunkReport& report) const;
  std::string to_json(const files::RechunkReport& report) const;

 private:
  RechunkSettings settings_;
  std::unique_ptr<const files::RechunkJob> job_;
};

}  // namespace retile
