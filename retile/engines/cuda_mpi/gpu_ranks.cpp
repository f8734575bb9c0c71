#include "retile/engines/cuda_mpi/gpu_ranks.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/cuda/gpu.h"

namespace retile::cuda {
namespace {

using GpuId = std::array<std::uint64_t, 2>;

// By rank, the first one that has the same GPU. Processes may count GPUs differently.
std::vector<int> find_copiers(const mpi::Communicator& world, int gpu) {
  static_assert(sizeof(cudaUUID_t) == sizeof(GpuId));
  cudaDeviceProp properties{};
  world.do_together([&] { require(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties"); });
  GpuId mine;
  std::memcpy(&mine, &properties.uuid, sizeof mine);
  std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(world.size()));
  const auto id_of = [&](int rank) { return all.begin() + 2 * std::ptrdiff_t{rank}; };
  std::copy(mine.begin(), mine.end(), id_of(world.rank()));
  world.add_up(all);
  std::vector<int> copiers;
  for (int rank = 0; rank < world.size(); ++rank) {
    int first = 0;
    while (!std::equal(id_of(first), id_of(first + 1), id_of(rank))) ++first;
    copiers.push_back(first);
  }
  return copiers;
}

// A list of one rank of the team, on its first.
template <typename Value>
std::vector<Value> fetch(const mpi::Communicator& team, int from, const std::vector<Value>& mine) {
  constexpr std::size_t at_once = (std::size_t{1} << 30U) / sizeof(Value);  // counts have 32 bits
  std::uint64_t size = mine.size();
  std::vector<Value> list;
  if (team.rank() == from) {
    mpi::check(MPI_Send(&size, 1, MPI_UINT64_T, 0, 0, team.get()), "MPI_Send");
  } else {
    mpi::check(MPI_Recv(&size, 1, MPI_UINT64_T, from, 0, team.get(), MPI_STATUS_IGNORE), "MPI_Recv");
    list.resize(size);
  }
  for (std::size_t first = 0; first < size; first += at_once) {
    const auto bytes = static_cast<int>(std::min<std::size_t>(at_once, size - first) * sizeof(Value));
    if (team.rank() == from) {
      mpi::check(MPI_Send(mine.data() + first, bytes, MPI_BYTE, 0, 0, team.get()), "MPI_Send");
    } else {
      mpi::check(MPI_Recv(list.data() + first, bytes, MPI_BYTE, from, 0, team.get(), MPI_STATUS_IGNORE), "MPI_Recv");
    }
  }
  return list;
}

}  // namespace

GpuRanks::GpuRanks(const mpi::Communicator& world, int gpu) : GpuRanks(world, find_copiers(world, gpu)) {}

GpuRanks::GpuRanks(const mpi::Communicator& world, std::vector<int> copiers)
    : copiers_(std::move(copiers)), team_(world.split(copier_of(world.rank()), world.rank())) {}

ChunkTable GpuRanks::gather(const ChunkTable& mine) const {
  ChunkTable all;
  if (team_.rank() == 0) all = mine;
  for (int rank = 1; rank < team_.size(); ++rank) {
    if (team_.rank() != 0 && team_.rank() != rank) continue;
    ChunkTable table;
    table.shapes = fetch(team_, rank, mine.shapes);
    table.pieces = fetch(team_, rank, mine.pieces);
    table.chunks = fetch(team_, rank, mine.chunks);
    const std::vector<std::size_t> unaligned = fetch(team_, rank, std::vector{mine.unaligned});
    if (team_.rank() != 0) continue;
    table.unaligned = unaligned.front();
    all.append(table);
  }
  return all;
}

}  // namespace retile::cuda
