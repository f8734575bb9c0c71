#include "retile/transfer/tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "retile/base/mixing.h"

namespace retile::transfer {

MadeTiles::TilePlace MadeTiles::place_of(std::size_t tile) const {
  const std::size_t array = tile / devices_.size();
  return {array, plan_.manifest().arrays[array].problem, devices_[tile % devices_.size()]};
}

MadeTiles::MadeTiles(const TransferPlan& plan, std::vector<Device> devices, std::uint64_t seed, Engine& engine,
                     const Allocate& allocate)
    : plan_(plan), devices_(std::move(devices)), seed_(seed), used_(devices_.size()) {
  for (const Problem& problem : plan.manifest().problems) {
    sources_held_.push_back(problem.source().placement(plan.manifest().device_count()));
    targets_held_.push_back(problem.target().placement(plan.manifest().device_count()));
  }
  for (std::size_t tile = 0; tile < plan.manifest().arrays.size() * devices_.size(); ++tile) {
    const std::size_t problem = place_of(tile).problem;
    sources_.push_back(allocate(add_bytes(plan.source(problem), problem, tile % devices_.size())));
    targets_.push_back(allocate(add_bytes(plan.target(problem), problem, tile % devices_.size())));
    from_.push_back(sources_.back().data());
    to_.push_back(targets_.back().data());
  }
  engine.for_each(sources_.size(), [&](std::size_t tile) {
    const auto [array, problem, device] = place_of(tile);
    make_parts(made(array), sources_held_[problem].parts(device), sources_[tile].data());
  });
}

void MadeTiles::clear_targets() {
  for (Buffer& target : targets_) {
    if (!target.empty()) std::memset(target.data(), 0, target.size());
  }
}

std::optional<std::string> MadeTiles::difference(Engine& engine) const {
  std::vector<std::optional<std::string>> differences(targets_.size());
  engine.for_each(targets_.size(), [&](std::size_t tile) {
    const auto [array, problem, device] = place_of(tile);
    const auto found =
        find_difference(made(array), targets_[tile].data(), device, targets_held_[problem].parts(device));
    if (found) differences[tile] = fmt::format("array \"{}\", {}", plan_.manifest().arrays[array].name, *found);
  });
  const auto first =
      std::find_if(differences.begin(), differences.end(), [](const auto& one) { return one.has_value(); });
  return first == differences.end() ? std::nullopt : *first;
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
