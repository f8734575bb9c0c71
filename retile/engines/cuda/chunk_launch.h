// Chunks in memory of a GPU, copied by launches of one kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "retile/engines/cuda/chunks.h"
#include "retile/engines/cuda/gpu.h"
#include "retile/engines/cuda/kernels.h"

namespace retile::cuda {

// Addresses of tiles in memory of the GPU, sent again only where they are others.
class TileAddresses {
 public:
  TileAddresses(const Gpu& gpu, std::size_t count)
      : gpu_(gpu), sent_(count), device_(gpu, std::span<const void* const>(sent_)) {}

  template <typename Pointer>
  bool are(std::span<const Pointer> tiles) const {
    return std::equal(sent_.begin(), sent_.end(), tiles.begin(), tiles.end());
  }

  // For what is put on the stream afterwards. What is recorded in a graph keeps addresses of its own.
  template <typename Pointer>
  Pointer* send(std::span<const Pointer> tiles, cudaStream_t stream) {
    DeviceList<const void*>* list = &device_;
    if (gpu_.is_capturing(stream)) {
      const std::vector<const void*> addresses(tiles.begin(), tiles.end());
      list = &recorded_.emplace_back(gpu_, std::span<const void* const>(addresses));
    } else if (!are(tiles)) {
      sent_.assign(tiles.begin(), tiles.end());
      require(cudaMemcpyAsync(device_.data(), sent_.data(), tiles.size_bytes(), cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
    }
    return static_cast<Pointer*>(static_cast<void*>(list->data()));
  }

 private:
  const Gpu& gpu_;
  std::vector<const void*> sent_;
  DeviceList<const void*> device_;
  std::list<DeviceList<const void*>> recorded_;
};

class ChunkLaunch {
 public:
  // Tiles have numbers below `tile_count`.
  ChunkLaunch(std::shared_ptr<const Gpu> gpu, const ChunkTable& table, std::size_t tile_count);

  // Whether these are the tiles of the last start.
  bool has_tiles(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) const {
    return source_addresses_.are(sources) && target_addresses_.are(targets);
  }

  // Puts the tiles of launches on the stream, by their numbers; those that no chunk names may be null.
  void send(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, cudaStream_t stream);
  // Puts a launch on the stream, between the tiles that were sent last.
  void launch(ChunkRange chunks, cudaStream_t stream) const;
  // All chunks, on the GPU's stream, which is returned.
  cudaStream_t start(std::span<const std::byte* const> sources, std::span<std::byte* const> targets);

 private:
  const std::shared_ptr<const Gpu> gpu_;
  const DeviceList<ChunkShape> shapes_;
  const DeviceList<ChunkPiece> pieces_;
  const DeviceList<Chunk> chunks_;
  const ChunkKernel kernel_;
  TileAddresses source_addresses_;
  TileAddresses target_addresses_;
  const std::byte* const* from_ = nullptr;  // in memory of the GPU
  std::byte* const* to_ = nullptr;
};

}  // namespace retile::cuda
