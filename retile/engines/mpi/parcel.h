// What one rank gets from another in a stage of a schedule, in an order that all ranks have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/engines/mpi/device_ranks.h"
#include "retile/plan/plan.h"
#include "retile/types/box.h"

namespace retile::mpi {

// A box from one device for devices of one rank: what several of them need travels once.
struct Parcel {
  Device from = 0;
  std::vector<Device> to;  // ascending
  Box box;
};

// Joins pieces that differ only in which device of a rank they are for. The parcels are in the order in which ranks
// work: partners one distance apart first, then two and so on, so that at any time all ranks have different partners.
std::vector<Parcel> make_parcels(std::vector<Transfer> transfers, const DeviceRanks& ranks, int rank_count);

}  // namespace retile::mpi
