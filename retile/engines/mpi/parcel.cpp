#include "retile/engines/mpi/parcel.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace retile::mpi {

std::vector<Parcel> make_parcels(std::vector<Transfer> transfers, const DeviceRanks& ranks, int rank_count) {
  const auto key = [&](const Transfer& transfer) {
    const int from = ranks.rank_of(transfer.from);
    const int to = ranks.rank_of(transfer.to);
    return std::make_tuple((to - from + rank_count) % rank_count, transfer.from, to, std::cref(transfer.box.lo),
                           std::cref(transfer.box.hi));
  };
  std::sort(transfers.begin(), transfers.end(), [&](const Transfer& a, const Transfer& b) {
    return std::make_tuple(key(a), a.to) < std::make_tuple(key(b), b.to);
  });
  std::vector<Parcel> parcels;
  const Transfer* last = nullptr;
  for (Transfer& transfer : transfers) {
    if (last != nullptr && key(*last) == key(transfer)) {
      parcels.back().to.push_back(transfer.to);
    } else {
      parcels.push_back({transfer.from, {transfer.to}, transfer.box});
    }
    last = &transfer;
  }
  return parcels;
}

}  // namespace retile::mpi
