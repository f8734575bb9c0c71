// Memory that ranks of one host share: each rank has an arena of its own, and all of them have it mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "retile/memory/buffer.h"

namespace retile::mpi {

// A file without a name, as large as the machine's memory and mostly holes. What is freed becomes a hole again, so the
// system has it back at once, whoever has it mapped.
class Arena {
 public:
  // Null where the system does not have it. The cookie, in its first bytes, tells the arena from whatever else a
  // descriptor might lead to.
  static std::shared_ptr<Arena> make(std::size_t size, std::uint64_t cookie);
  // Another process's arena. Null where it cannot be seen.
  static std::shared_ptr<Arena> open(std::int64_t process, int descriptor, std::size_t size, std::uint64_t cookie);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // A size for which address space suffices where this many processes map each other's arenas.
  static std::size_t usual_size(int processes);

  int descriptor() const { return descriptor_; }
  // When all that are to have it mapped have: the memory stays, and no file is open.
  void close_descriptor();
  std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  // The offset of an address in the arena; nothing where it is not in it.
  std::optional<std::uint64_t> offset_of(const std::byte* address) const;

  // From now on, freed memory stays until the last process that has it mapped is gone.
  void keep_pages() { keeps_pages_ = true; }

  // Memory for the owner of the arena, which lives as long as its buffers. Throws RuntimeError where it has no room.
  static Buffer allocate(const std::shared_ptr<Arena>& arena, std::size_t size);

 private:
  Arena(int descriptor, std::byte* base, std::size_t size);
  static std::shared_ptr<Arena> map(int descriptor, std::size_t size);
  // Ranges of pages: size by offset.
  using Ranges = std::map<std::uint64_t, std::size_t>;
  struct Piece;

  // Nothing where there is no room. What is taken holds all that giving it back needs: that takes no memory.
  Ranges::node_type take(std::size_t size);
  void give_back(Ranges::node_type piece);

  int descriptor_;  // negative: closed
  std::byte* base_;
  std::size_t size_;
  bool keeps_pages_ = false;
  std::mutex mutex_;  // buffers may be freed by any thread
  Ranges holes_;      // free, no two of them adjacent
};

}  // namespace retile::mpi
