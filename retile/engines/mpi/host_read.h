// Reading a box from a tile in another process's own memory, through the system and with one copy where that can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "retile/engines/copy.h"
#include "retile/types/box.h"

namespace retile::mpi {

// Where a byte of a box, in its packed order, lies in a row-major tile.
std::int64_t place_in_tile(const Box& tile, const Box& box, std::int64_t element_size, std::int64_t packed);

class HostRead {
 public:
  // Whether reading pays. A call of the system costs as much for a few bytes as for a page, so it does where the
  // box's runs are long, or where the box makes up most of the tile around it, so that the tile can be read whole.
  // Sender and receiver decide alike: the answer depends on nothing else.
  static bool suits(const Box& source, const Box& box, std::int64_t element_size, std::int64_t staging_bytes);

  HostRead(const Box& source, const Box& target, const Box& box, std::int64_t element_size);

  std::int64_t bytes() const { return copy_.bytes(); }
  // `source` is an address in the other process. Throws RuntimeError where the system refuses.
  void run(std::int64_t process, const std::byte* source, std::byte* target, std::span<std::byte> staging) const;

 private:
  void read_runs(std::int64_t process, const std::byte* source, std::byte* target) const;
  void read_pieces(std::int64_t process, const std::byte* source, std::byte* target,
                   std::span<std::byte> staging) const;
  void read_slabs(std::int64_t process, const std::byte* source, std::byte* target, std::span<std::byte> staging) const;

  Box source_;
  Box target_;
  Box box_;
  std::int64_t element_size_;
  BoxCopy copy_;
  BoxPacking packing_;  // in the target
  std::int64_t run_;    // bytes that lie together in the source
};

}  // namespace retile::mpi
