// Tiles in memory of a GPU that processes show each other by CUDA IPC, as messages of bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "retile/engines/backend.h"
#include "retile/engines/cuda/gpu.h"

namespace retile::cuda {

// A tile of this process: its number among those of all processes, and its place in TilePointers.
struct OwnTile {
  std::uint32_t number = 0;
  std::size_t place = 0;
};

// Tiles that this process shows to others.
class ShownTiles {
 public:
  // The GPU outlives it.
  ShownTiles(const Gpu& gpu, std::vector<OwnTile> sources, std::vector<OwnTile> targets)
      : gpu_(gpu), sources_(std::move(sources)), targets_(std::move(targets)) {}

  const std::vector<OwnTile>& sources() const { return sources_; }
  const std::vector<OwnTile>& targets() const { return targets_; }

  // The message about these tiles; a short one where it is the same as the last. Throws RuntimeError where memory is
  // not the GPU's, or cannot be shown.
  const std::vector<std::byte>& show(const TilePointers& tiles);

 private:
  struct Allocation {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    std::uint64_t id = 0;
    std::uint32_t number = 0;
  };

  std::vector<const std::byte*> addresses_in(const TilePointers& tiles) const;
  bool are_shown(const std::vector<const std::byte*>& addresses) const;
  const Allocation& find_allocation(const std::byte* address);

  const Gpu& gpu_;
  const std::vector<OwnTile> sources_;
  const std::vector<OwnTile> targets_;
  std::vector<const std::byte*> shown_;                 // sources, then targets
  std::map<const std::byte*, Allocation> allocations_;  // by where they begin
  std::vector<std::byte> message_;
};

// Tiles that another process has shown, mapped into this one.
class SeenTiles {
 public:
  explicit SeenTiles(int gpu) : gpu_(gpu) {}
  SeenTiles(const SeenTiles&) = delete;
  SeenTiles& operator=(const SeenTiles&) = delete;
  ~SeenTiles();

  // Puts addresses in their places, by the numbers of tiles. Nothing that this process runs uses those before any more.
  // Throws RuntimeError where memory cannot be mapped.
  void look(std::span<const std::byte> message, std::span<const std::byte*> sources, std::span<std::byte*> targets);

 private:
  const int gpu_;
  std::map<std::uint64_t, std::byte*> mapped_;  // by the number that allocations have in their process
};

}  // namespace retile::cuda
