#include "retile/engines/mpi/device_ranks.h"

#include <fmt/format.h>

#include <numeric>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

std::string counted(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

DeviceRanks::DeviceRanks(std::int64_t device_count, int rank_count, const std::vector<Device>& map)
    : devices_per_rank_(device_count / rank_count), places_(static_cast<std::size_t>(device_count)) {
  if (device_count % rank_count != 0) {
    throw RuntimeError(fmt::format("{} cannot be shared out evenly to {}: start a number of ranks that divides {}",
                                   counted(device_count, "device"), counted(rank_count, "rank"), device_count));
  }
  std::vector<Device> listed = map;
  if (listed.empty()) {
    listed.resize(places_.size());
    std::iota(listed.begin(), listed.end(), Device{0});
  }
  if (listed.size() != places_.size()) {
    throw RuntimeError(
        fmt::format("the device map lists {} devices, and the mesh has {}", listed.size(), device_count));
  }
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const Device device = listed[i];
    const bool is_new = device >= 0 && device < device_count && places_[static_cast<std::size_t>(device)].rank < 0;
    if (!is_new) {
      throw RuntimeError(
          fmt::format("the device map does not list every device from 0 to {} once: look at its device {}",
                      device_count - 1, device));
    }
    places_[static_cast<std::size_t>(device)].rank = static_cast<std::int64_t>(i) / devices_per_rank_;
  }
  std::vector<std::size_t> filled(static_cast<std::size_t>(rank_count));
  for (Place& place : places_) place.slot = filled[static_cast<std::size_t>(place.rank)]++;
}

std::vector<Device> DeviceRanks::devices_of(int rank) const {
  std::vector<Device> devices;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].rank == rank) devices.push_back(static_cast<Device>(i));
  }
  return devices;
}

}  // namespace retile::mpi
