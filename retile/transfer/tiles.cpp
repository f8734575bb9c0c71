#include "retile/transfer/tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "retile/base/mixing.h"

namespace retile::transfer {

MadeTiles::TilePlace MadeTiles::place_of(std::size_t tile) const {
  const std::size_t array = tile / devices_.size();
  return {array, plan_.manifest().arrays[array].problem, devices_[tile % devices_.size()]};
}

namespace {

// Memory of the host for a tile of a device's, which this thread uses again.
std::span<std::byte> room_on_host(std::size_t bytes) {
  thread_local std::vector<std::byte> room;
  if (room.size() < bytes) room.resize(bytes);
  return std::span(room).first(bytes);
}

}  // namespace

MadeTiles::MadeTiles(const TransferPlan& plan, std::vector<Device> devices, std::uint64_t seed, Engine& engine,
                     const Allocate& allocate, ArrayContents contents)
    : plan_(plan),
      devices_(std::move(devices)),
      seed_(seed),
      engine_(engine),
      contents_(std::move(contents)),
      used_(devices_.size()) {
  for (const Problem& problem : plan.manifest().problems) {
    sources_held_.push_back(problem.source().inside(plan.manifest().device_count()));
    targets_held_.push_back(problem.target().placement(plan.manifest().device_count()));
  }
  sources_ = make_side(PageUse::last_read, allocate, source_memory_);
  targets_ = make_side(PageUse::first_write, allocate, target_memory_);
  for (Buffer& source : sources_) from_.push_back(source.data());
  for (Buffer& target : targets_) to_.push_back(target.data());
  engine.for_each(sources_.size(), [&](std::size_t tile) {
    const auto [array, problem, device] = place_of(tile);
    Buffer& source = sources_[tile];
    const bool is_on_host = engine_.has_host_memory();
    std::byte* const elements = is_on_host ? source.data() : room_on_host(source.size()).data();
    const std::vector<Part> parts = sources_held_[problem].parts(device);
    if (!contents_.read || !contents_.read(array, parts, elements)) make_parts(made(array), parts, elements);
    if (!is_on_host) engine_.store({elements, source.size()}, source.data());
  });
}

void MadeTiles::clear_targets() {
  for (Buffer& target : targets_) engine_.clear({target.begin(), target.end()});
}

void MadeTiles::for_each_target(const std::function<void(std::size_t tile, const std::byte* elements)>& visit) const {
  engine_.for_each(targets_.size(), [&](std::size_t tile) {
    const std::byte* elements = targets_[tile].data();
    if (!engine_.has_host_memory()) {
      const std::span<std::byte> host = room_on_host(targets_[tile].size());
      engine_.load(elements, host);
      elements = host.data();
    }
    visit(tile, elements);
  });
}

void MadeTiles::write_targets() const {
  if (!contents_.write) return;
  for_each_target([&](std::size_t tile, const std::byte* elements) {
    const auto [array, problem, device] = place_of(tile);
    contents_.write(array, targets_held_[problem].parts(device), elements);
  });
}

std::optional<std::string> MadeTiles::difference() const {
  std::vector<std::optional<std::string>> differences(targets_.size());
  for_each_target([&](std::size_t tile, const std::byte* elements) {
    const auto [array, problem, device] = place_of(tile);
    const std::vector<Part> parts = targets_held_[problem].parts(device);
    std::optional<std::string> found;
    std::vector<std::byte> expected(contents_.read ? targets_[tile].size() : 0);
    if (contents_.read && contents_.read(array, parts, expected.data())) {
      const bool is_same = std::equal(expected.begin(), expected.end(), elements);
      if (!is_same) found = fmt::format("device {}: its tile differs from the file", device);
    } else {
      found = find_difference(made(array), elements, device, parts);
    }
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

std::vector<Buffer> MadeTiles::make_side(PageUse side, const Allocate& allocate, std::vector<Buffer>& memory) {
  const Engine::Pages pages = side == PageUse::last_read ? Engine::Pages::there : Engine::Pages::to_come;
  std::optional<JoinedTiles> joined;
  if (!engine_.has_host_memory()) {
    joined.emplace(plan_, side);
    for (const Device device : devices_) {
      memory.push_back(allocate(static_cast<std::size_t>(joined->bytes(device)), pages));
    }
  }
  std::vector<Buffer> tiles;
  for (std::size_t tile = 0; tile < plan_.manifest().arrays.size() * devices_.size(); ++tile) {
    const auto [array, problem, device] = place_of(tile);
    const std::int64_t element = bytes_of(plan_.manifest().problems[problem].element_type());
    const Placement& held = side == PageUse::last_read ? plan_.source(problem) : plan_.target(problem);
    const std::int64_t bytes = held.size(device) * element;
    const std::size_t slot = tile % devices_.size();
    used_[slot] += bytes;
    if (!joined) {
      tiles.push_back(allocate(static_cast<std::size_t>(bytes), pages));
    } else if (bytes == 0) {
      tiles.emplace_back();
    } else {
      tiles.emplace_back(memory[slot].data() + joined->offset(array, device), static_cast<std::size_t>(bytes), nullptr);
    }
  }
  return tiles;
}

}  // namespace retile::transfer
