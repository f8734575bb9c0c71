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

void ChunkLaunch::send(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                       cudaStream_t stream) {
  const CurrentGpu current(gpu_->number());
  from_ = source_addresses_.send(sources, stream);
  to_ = target_addresses_.send(targets, stream);
}

void ChunkLaunch::launch(ChunkRange chunks, cudaStream_t stream) const {
  const CurrentGpu current(gpu_->number());
  ChunkKernel kernel = kernel_;
  kernel.chunks += chunks.first;
  kernel.chunk_count = static_cast<std::uint32_t>(chunks.count);
  require(launch_copies(kernel, from_, to_, stream), "the kernel that copies");
}

cudaStream_t ChunkLaunch::start(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) {
  cudaStream_t stream = gpu_->stream();
  send(sources, targets, stream);
  launch({0, kernel_.chunk_count}, stream);
  return stream;
}

}  // namespace retile::cuda
