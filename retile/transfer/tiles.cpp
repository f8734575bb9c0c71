#include "retile/transfer/tiles.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "retile/base/mixing.h"

namespace retile::transfer {

// visit(array, its problem, slot of the device).
template <typename Visit>
void MadeTiles::for_each_tile(Visit visit) const {
  const std::vector<NamedArray>& arrays = plan_.manifest().arrays;
  for (std::size_t array = 0; array < arrays.size(); ++array) {
    for (std::size_t slot = 0; slot < devices_.size(); ++slot) visit(array, arrays[array].problem, slot);
  }
}

MadeTiles::MadeTiles(const TransferPlan& plan, std::vector<Device> devices, std::uint64_t seed,
                     const Allocate& allocate)
    : plan_(plan), devices_(std::move(devices)), seed_(seed), used_(devices_.size()) {
  for_each_tile([&](std::size_t array, std::size_t problem, std::size_t slot) {
    sources_.push_back(allocate(add_bytes(plan.source(problem), problem, slot)));
    targets_.push_back(allocate(add_bytes(plan.target(problem), problem, slot)));
    make_parts(made(array), plan.source(problem).parts(devices_[slot]), sources_.back().data());
    from_.push_back(sources_.back().data());
    to_.push_back(targets_.back().data());
  });
}

void MadeTiles::clear_targets() {
  for (Buffer& target : targets_) {
    if (!target.empty()) std::memset(target.data(), 0, target.size());
  }
}

std::optional<std::string> MadeTiles::difference() const {
  std::optional<std::string> difference;
  std::size_t tile = 0;
  for_each_tile([&](std::size_t array, std::size_t problem, std::size_t slot) {
    const std::byte* memory = targets_[tile++].data();
    if (difference) return;
    const Device device = devices_[slot];
    const auto found = find_difference(made(array), memory, device, plan_.target(problem).parts(device));
    if (found) difference = fmt::format("array \"{}\", {}", plan_.manifest().arrays[array].name, *found);
  });
  return difference;
}

MadeArray MadeTiles::made(std::size_t array) const {
  const Problem& problem = plan_.manifest().problems[plan_.manifest().arrays[array].problem];
  return {problem.source().global_shape(), bytes_of(problem.element_type()), mix_bits(seed_ + array)};
}

std::size_t MadeTiles::add_bytes(const Placement& placement, std::size_t problem, std::size_t slot) {
  const std::int64_t element = bytes_of(plan_.manifest().problems[problem].element_type());
  const std::int64_t bytes = placement.size(devices_[slot]) * element;
  used_[slot] += bytes;
  return static_cast<std::size_t>(bytes);
}

}  // namespace retile::transfer
