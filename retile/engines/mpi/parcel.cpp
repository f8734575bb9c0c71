#include "retile/engines/mpi/parcel.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace retile::mpi {
namespace {

// Joins transfers that differ only in which device of a rank they are for, and puts the parcels in order.
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

template <typename TransfersOf>
std::vector<Transfer> transfers_of_all(const std::vector<Device>& devices, TransfersOf transfers_of) {
  std::vector<Transfer> all;
  for (const Device device : devices) {
    std::vector<Transfer> some = transfers_of(device);
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::vector<Parcel> parcels_to(const Stage& stage, const DeviceRanks& ranks, int rank, int rank_count) {
  return make_parcels(
      transfers_of_all(ranks.devices_of(rank), [&](Device device) { return stage.received_by(device); }), ranks,
      rank_count);
}

std::vector<Parcel> parcels_from(const Stage& stage, const DeviceRanks& ranks, int rank, int rank_count) {
  return make_parcels(transfers_of_all(ranks.devices_of(rank), [&](Device device) { return stage.sent_by(device); }),
                      ranks, rank_count);
}

}  // namespace retile::mpi
