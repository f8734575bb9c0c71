// Tiles of made-up arrays in memory of a GPU.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "retile/checking/made_array.h"
#include "retile/engines/engine.h"
#include "retile/plan/plan.h"

namespace retile::test {

constexpr std::int64_t tile_element_size = 4;  // bytes

// The tiles of the engine's devices of this process. The engine outlives them.
class DeviceTiles {
 public:
  // Memory whose bytes are not set.
  DeviceTiles(Engine& engine, const Placement& placement) : engine_(engine), placement_(placement) {
    for (const Device device : engine_.devices(placement_.device_count())) {
      buffers_.push_back(engine_.allocate(static_cast<std::size_t>(placement_.size(device) * tile_element_size)));
      tiles_.push_back(buffers_.back().data());
    }
  }

  std::vector<const std::byte*> sources() const { return {tiles_.begin(), tiles_.end()}; }
  const std::vector<std::byte*>& targets() const { return tiles_; }
  std::vector<Buffer>& buffers() { return buffers_; }

  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      const Tile tile = make_tile(array(seed), box(i));
      engine_.store({tile.bytes.begin(), tile.bytes.end()}, tiles_[i]);
    }
  }
  void clear() {
    for (Buffer& buffer : buffers_) engine_.clear({buffer.begin(), buffer.end()});
  }
  std::optional<std::string> difference(std::uint64_t seed) const {
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      Tile tile{box(i), Buffer(buffers_[i].size())};
      engine_.load(tiles_[i], {tile.bytes.begin(), tile.bytes.end()});
      if (auto found = find_difference(array(seed), tile, device(i), tile.box)) return found;
    }
    return std::nullopt;
  }

 private:
  Device device(std::size_t i) const { return engine_.devices(placement_.device_count())[i]; }
  Box box(std::size_t i) const { return placement_.box(device(i)); }
  MadeArray array(std::uint64_t seed) const { return {placement_.global_shape(), tile_element_size, seed}; }

  Engine& engine_;
  const Placement placement_;
  std::vector<Buffer> buffers_;
  std::vector<std::byte*> tiles_;
};

}  // namespace retile::test
