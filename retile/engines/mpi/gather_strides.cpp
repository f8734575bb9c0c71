#include "retile/engines/mpi/gather_strides.h"

#include <optional>
#include <utility>
#include <vector>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

// One side's strides of all devices, which are there on all ranks where they are on one.
std::vector<Strides> gather_side(const std::vector<Strides>& mine, const Placement& placement,
                                 std::int64_t element_size, const Communicator& world, const DeviceRanks& ranks) {
  std::int64_t is_strided = mine.empty() ? 0 : 1;
  world.most({&is_strided, 1});
  if (is_strided == 0 || placement.rank() == 0) return {};
  const std::vector<Device> devices = ranks.devices_of(world.rank());
  std::vector<std::int64_t> sent;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Strides strides = mine.empty() ? packed_strides(placement, devices[i], element_size) : mine[i];
    sent.insert(sent.end(), strides.begin(), strides.end());
  }
  std::vector<std::int64_t> received(sent.size() * static_cast<std::size_t>(world.size()));
  const auto count = static_cast<int>(sent.size());
  check(MPI_Allgather(sent.data(), count, MPI_INT64_T, received.data(), count, MPI_INT64_T, world.get()),
        "MPI_Allgather");
  std::vector<Strides> all(static_cast<std::size_t>(placement.device_count()));
  const auto dimensions = static_cast<std::ptrdiff_t>(packed_strides(placement, 0, element_size).size());
  auto next = received.begin();
  for (int rank = 0; rank < world.size(); ++rank) {
    for (const Device device : ranks.devices_of(rank)) {
      all[static_cast<std::size_t>(device)].assign(next, next + dimensions);
      next += dimensions;
    }
  }
  return all;
}

}  // namespace

BufferStrides gather_strides(const BufferStrides& mine, const Movement& movement, std::int64_t element_size,
                             const Communicator& world, const DeviceRanks& ranks) {
  BufferStrides checked;
  std::optional<RuntimeError> fault;
  try {
    checked = require_strides(mine, movement.source, movement.target(), ranks.devices_of(world.rank()), element_size);
  } catch (const RuntimeError& error) {
    fault = error;
  }
  const bool are_right = world.least(fault ? 0 : 1) == 1;
  if (fault) throw *fault;
  if (!are_right) throw RuntimeError("another rank was given strides that its tiles cannot have");
  return {gather_side(checked.sources, movement.source, element_size, world, ranks),
          gather_side(checked.targets, movement.target(), element_size, world, ranks)};
}

}  // namespace retile::mpi
