// Which rank holds which devices.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/types/mesh.h"

namespace retile::mpi {

// Every rank has equally many devices; a device is one of its rank's, in ascending order, its slot.
class DeviceRanks {
 public:
  // `map` lists the devices rank by rank; where it is empty, rank 0 has the first devices, rank 1 the next ones and so
  // on. Throws RuntimeError where the devices cannot be shared out evenly, or the list is not one of these devices.
  DeviceRanks(std::int64_t device_count, int rank_count, const std::vector<Device>& map);

  std::size_t devices_per_rank() const { return static_cast<std::size_t>(devices_per_rank_); }
  int rank_of(Device device) const { return static_cast<int>(places_[static_cast<std::size_t>(device)].rank); }
  std::size_t slot_of(Device device) const { return places_[static_cast<std::size_t>(device)].slot; }
  std::vector<Device> devices_of(int rank) const;

 private:
  struct Place {
    std::int64_t rank = -1;
    std::size_t slot = 0;
  };
  std::int64_t devices_per_rank_;
  std::vector<Place> places_;  // by device
};

}  // namespace retile::mpi
