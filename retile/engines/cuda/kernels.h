// The kernels of the CUDA engine, as functions of the host. All work is put on a stream; nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "retile/engines/cuda/chunk_copy.h"
#include "retile/types/element_type.h"
#include "retile/types/layout.h"

namespace retile::cuda {

// Tables in memory of the GPU that runs the kernel; tiles in memory that it can reach.
struct ChunkKernel {
  const ChunkShape* shapes = nullptr;
  const ChunkPiece* pieces = nullptr;
  const Chunk* chunks = nullptr;
  std::uint32_t chunk_count = 0;
  bool is_aligned = true;  // most chunks are, to vectors: which kernel is faster
};

// One launch, whatever the number of pieces.
cudaError_t launch_copies(const ChunkKernel& kernel, const std::byte* const* sources, std::byte* const* targets,
                          cudaStream_t stream);

// Does what combine_rows() in copies/combine.h does, with the same bits.
cudaError_t launch_combine(Reduction reduction, ElementType element, std::int64_t rows, std::int64_t row_elements,
                           const std::byte* in, std::byte* out, cudaStream_t stream);

}  // namespace retile::cuda
