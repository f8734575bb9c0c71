// Reading a box from a tile in another process's own memory, through the system: one copy, straight into the target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "retile/copies/copy.h"

namespace retile::mpi {

class HostRead {
 public:
  explicit HostRead(BoxCopy copy) : copy_(std::move(copy)) {}

  // Whether the box has runs that are long enough: the system works page by page.
  bool suits() const;
  // `source` is an address in the other process. Throws RuntimeError where the system refuses.
  void run(std::int64_t process, const std::byte* source, std::byte* target) const;

 private:
  BoxCopy copy_;
};

// One range of another process's memory. False where the system refuses.
bool read_memory(std::int64_t process, const std::byte* source, std::byte* target, std::int64_t bytes);

}  // namespace retile::mpi
