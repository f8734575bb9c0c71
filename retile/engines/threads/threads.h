// The threads engine: all devices in one process, every element copied once a stage, straight from tile to tile.
#pragma once

#include <cstdint>
#include <memory>

#include "retile/engines/engine.h"
#include "retile/plan/memory.h"

namespace retile {

struct ThreadsOptions {
  int threads = 0;                                 // 0: one for each core
  std::int64_t memory_limit = no_memory_limit;     // bytes of tiles per device
  std::int64_t listed_bytes = usual_listed_bytes;  // at most, of a prepared run's lists of copies
};

// Devices share the threads: work is divided by bytes. One run at a time; others wait for it. Throws RuntimeError where
// threads cannot be started.
std::unique_ptr<Engine> make_threads_engine(const ThreadsOptions& options = {});

}  // namespace retile
