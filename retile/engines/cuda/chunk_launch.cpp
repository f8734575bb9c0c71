#include "retile/engines/cuda/chunk_launch.h"

#include <utility>

namespace retile::cuda {

ChunkLaunch::ChunkLaunch(std::shared_ptr<const Gpu> gpu, const ChunkTable& table, std::size_t tile_count)
    : gpu_(std::move(gpu)),
      shapes_(*gpu_, std::span(table.shapes)),
      pieces_(*gpu_, std::span(table.pieces)),
      chunks_(*gpu_, std::span(table.chunks)),
      kernel_{shapes_.data(), pieces_.data(), chunks_.data(), static_cast<std::uint32_t>(table.chunks.size()),
              table.is_aligned()},
      source_addresses_(*gpu_, tile_count),
      target_addresses_(*gpu_, tile_count) {}

cudaStream_t ChunkLaunch::start(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) {
  const CurrentGpu current(gpu_->number());
  cudaStream_t stream = gpu_->stream();
  const std::byte* const* const from = source_addresses_.send(sources, stream);
  std::byte* const* const to = target_addresses_.send(targets, stream);
  require(launch_copies(kernel_, from, to, stream), "the kernel that copies");
  return stream;
}

}  // namespace retile::cuda
