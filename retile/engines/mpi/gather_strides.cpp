#include "retile/engines/mpi/gather_strides.h"

#include <algorithm>
#include <vector>

namespace retile::mpi {

std::vector<Strides> gather_strides(const std::vector<Strides>& mine, const Placement& placement,
                                    std::int64_t element_size, const Communicator& world, const DeviceRanks& ranks) {
  if (placement.rank() == 0) return {};
  const std::vector<Device> devices = ranks.devices_of(world.rank());
  std::vector<std::int64_t> own;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Strides strides = mine.empty() ? packed_strides(placement, devices[i], element_size) : mine[i];
    own.insert(own.end(), strides.begin(), strides.end());
  }
  std::vector<std::int64_t> gathered(own.size() * static_cast<std::size_t>(world.size()));
  std::copy(own.begin(), own.end(), gathered.begin() + static_cast<std::ptrdiff_t>(own.size()) * world.rank());
  world.gather(gathered);
  std::vector<Strides> all(static_cast<std::size_t>(placement.device_count()));
  const auto dimensions = static_cast<std::ptrdiff_t>(packed_strides(placement, 0, element_size).size());
  auto next = gathered.begin();
  for (int rank = 0; rank < world.size(); ++rank) {
    for (const Device device : ranks.devices_of(rank)) {
      all[static_cast<std::size_t>(device)].assign(next, next + dimensions);
      next += dimensions;
    }
  }
  return all;
}

}  // namespace retile::mpi
