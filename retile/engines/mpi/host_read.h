// Reading a box from a tile in another process's own memory, through the system: one copy, straight into the target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "retile/engines/copy.h"
#include "retile/types/box.h"

namespace retile::mpi {

// Where a byte of a box, in its packed order, lies in a row-major tile.
std::int64_t place_in_tile(const Box& tile, const Box& box, std::int64_t element_size, std::int64_t packed);

class HostRead {
 public:
  HostRead(const Box& source, const Box& target, const Box& box, std::int64_t element_size);

  // Whether the box has runs that are long enough: the system works page by page.
  bool suits() const;
  // `source` is an address in the other process. Throws RuntimeError where the system refuses.
  void run(std::int64_t process, const std::byte* source, std::byte* target) const;

 private:
  Box source_;
  Box target_;
  Box box_;
  std::int64_t element_size_;
  std::int64_t run_bytes_;  // that lie together on both sides
  std::int64_t bytes_;
};

// One range of another process's memory. False where the system refuses.
bool read_memory(std::int64_t process, const std::byte* source, std::byte* target, std::int64_t bytes);

}  // namespace retile::mpi
