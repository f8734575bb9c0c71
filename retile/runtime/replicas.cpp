#include "retile/runtime/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "retile/plan/lists.h"
#include "retile/runtime/elements.h"
#include "retile/runtime/tile_parts.h"
#include "retile/types/text.h"

namespace retile::runtime {
namespace {

using language::ArrayType;

constexpr std::int64_t most_elements_at_once = 1 << 14;

// For each device the one before it among those that hold the same, in a ring; itself where there is no other.
std::vector<Device> previous_replicas(const Mesh& mesh, const ArrayType& type) {
  std::map<Shape, std::vector<Device>> replicas;  // by corner and by coordinates along the axes that are summed over
  for (Device device = 0; device < mesh.device_count(); ++device) {
    Shape key = corner_of(type.placement, device);
    for (const AxisPart& part : type.partial) key.push_back(mesh.coordinate(device, part));
    replicas[key].push_back(device);
  }
  std::vector<Device> previous(static_cast<std::size_t>(mesh.device_count()));
  for (const auto& [key, devices] : replicas) {
    Device before = devices.back();
    for (const Device device : devices) at(previous, device) = std::exchange(before, device);
  }
  return previous;
}

// An array of which each device has one row of its own, and gets that of another.
Movement rotation_of(const Mesh& mesh, const std::vector<Device>& others, std::int64_t row) {
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> after;
  for (std::size_t device = 0; device < others.size(); ++device) {
    before.insert(before.end(), {static_cast<std::int64_t>(device), 0});
    after.insert(after.end(), {others[device], 0});
  }
  const Shape global{mesh.device_count(), row};
  const Shape local{1, row};
  return {
      mesh, Placement(global, local, std::move(before)), {{PermuteStep{}, Placement(global, local, std::move(after))}}};
}

bool has_replicas(const std::vector<Device>& others) {
  for (std::size_t device = 0; device < others.size(); ++device) {
    if (others[device] != static_cast<Device>(device)) return true;
  }
  return false;
}

}  // namespace

ReplicaCheck::ReplicaCheck(const Mesh& mesh, const ArrayType& type, Engine& engine)
    : engine_(engine),
      type_(type),
      devices_(engine.devices(mesh.device_count())),
      others_(previous_replicas(mesh, type)),
      piece_(std::min(type.placement.local_size(), most_elements_at_once)) {
  if (has_replicas(others_)) rotation_ = engine.prepare(rotation_of(mesh, others_, piece_), bytes_of(type.element));
}

std::optional<Disagreement> ReplicaCheck::run(const TileBuffers& tiles) {
  if (!rotation_) return std::nullopt;
  const std::int64_t size = bytes_of(type_.element);
  const std::int64_t elements = type_.placement.local_size();
  std::vector<const std::byte*> sources(tiles.size());
  std::vector<std::byte*> targets(tiles.size());
  TileBuffers received(tiles.size());
  TileBuffers padded(tiles.size());  // pieces of tiles that end before the largest do
  engine_.processes().do_together([&] {
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      received[i] = Buffer(static_cast<std::size_t>(piece_ * size));
      if (tiles[i].size() < static_cast<std::size_t>(elements * size)) {
        padded[i] = Buffer(static_cast<std::size_t>(piece_ * size));
      }
    }
  });
  for (std::size_t i = 0; i < tiles.size(); ++i) targets[i] = received[i].data();
  std::optional<Disagreement> found;
  for (std::int64_t done = 0; done < elements; done += piece_) {
    const std::int64_t begin = std::min(done, elements - piece_);  // the last piece may overlap the one before
    std::vector<std::int64_t> counts(tiles.size(), piece_);
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      sources[i] = tiles[i].data() + begin * size;
      if (padded[i].empty()) continue;
      counts[i] = std::clamp<std::int64_t>(static_cast<std::int64_t>(tiles[i].size()) / size - begin, 0, piece_);
      std::copy_n(tiles[i].data() + (counts[i] > 0 ? begin * size : 0), counts[i] * size, padded[i].data());
      sources[i] = padded[i].data();
    }
    rotation_->execute(sources, targets);
    for (std::size_t i = 0; i < tiles.size() && !found; ++i) {
      found = compare(i, sources[i], targets[i], begin, counts[i]);
    }
  }
  rotation_->free_scratch();
  return found;
}

std::optional<Disagreement> ReplicaCheck::compare(std::size_t tile, const std::byte* mine, const std::byte* other,
                                                  std::int64_t first_element, std::int64_t count) const {
  const std::int64_t size = bytes_of(type_.element);
  const std::byte* end = mine + count * size;
  const std::byte* differing = std::mismatch(mine, end, other).first;
  if (differing == end) return std::nullopt;
  const std::int64_t number = (differing - mine) / size;
  const Device device = devices_[tile];
  const Shape element = element_index(type_.placement, device, first_element + number);

  struct Side {
    Device device;
    const std::byte* bytes;
  };
  Side first{device, mine + number * size};
  Side second{at(others_, device), other + number * size};
  if (second.device < first.device) std::swap(first, second);
  std::string texts[] = {format_element(type_.element, first.bytes), format_element(type_.element, second.bytes)};
  if (texts[0] == texts[1]) {
    texts[0] += fmt::format(" ({:#x})", bits_of_element(type_.element, first.bytes));
    texts[1] += fmt::format(" ({:#x})", bits_of_element(type_.element, second.bytes));
  }
  return Disagreement{first.device, second.device,
                      fmt::format("element {} is {} on device {} and {} on device {}", to_string(element), texts[0],
                                  first.device, texts[1], second.device)};
}

}  // namespace retile::runtime
