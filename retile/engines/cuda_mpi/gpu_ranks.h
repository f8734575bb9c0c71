// The ranks of a job by the GPUs that they use.
#pragma once

#include <vector>

#include "retile/engines/cuda/chunks.h"
#include "retile/engines/mpi/communicator.h"

namespace retile::cuda {

// Ranks of one GPU are a team, and its first rank copies for all of them.
class GpuRanks {
 public:
  // Collective, on ranks of one host.
  GpuRanks(const mpi::Communicator& world, int gpu);

  // The rank that copies to the tiles of a rank.
  int copier_of(int rank) const { return copiers_[static_cast<std::size_t>(rank)]; }
  int team_size() const { return team_.size(); }

  // The chunks of all ranks of this GPU, on the one that copies; nothing on the others. Collective.
  ChunkTable gather(const ChunkTable& mine) const;

 private:
  GpuRanks(const mpi::Communicator& world, std::vector<int> copiers);

  std::vector<int> copiers_;
  mpi::Communicator team_;
};

}  // namespace retile::cuda
