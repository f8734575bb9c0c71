#include "retile/grids/tile_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile {
namespace {

// The rank of each device among those with the same key, in order of their numbers. Keys are below `key_count`.
std::vector<std::int64_t> ranks_within(const std::vector<std::int64_t>& keys, std::int64_t key_count) {
  if (key_count <= 8 * static_cast<std::int64_t>(keys.size())) {
    std::vector<std::int32_t> seen(static_cast<std::size_t>(key_count));
    std::vector<std::int64_t> ranks(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) ranks[i] = seen[static_cast<std::size_t>(keys[i])]++;
    return ranks;
  }
  std::vector<std::size_t> order = numbers_below(keys.size());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  std::vector<std::int64_t> ranks(keys.size());
  for (std::size_t i = 1; i < order.size(); ++i) {
    ranks[order[i]] = keys[order[i]] == keys[order[i - 1]] ? ranks[order[i - 1]] + 1 : 0;
  }
  return ranks;
}

// Deals every device the free tile that overlaps its wish the most.
class WishDealer {
 public:
  WishDealer(const TileTable& within, const Grid& finer, const TileTable& wish)
      : within_(within),
        wish_(wish),
        dealt_{finer, std::vector<std::int32_t>(within.tiles.size())},
        choices_(product(finer) / product(within.grid)),
        room_(static_cast<std::size_t>(product(finer)),
              static_cast<std::int32_t>(static_cast<std::int64_t>(within.device_count()) / product(finer))),
        tile_(finer.size()),
        best_(finer.size()) {}

  TileTable run() {
    std::vector<bool> served(within_.device_count());
    // First the devices that can have a tile that meets their wish, then the others.
    for (const std::int64_t least_overlap : {1, 0}) {
      for (std::size_t device = 0; device < served.size(); ++device) {
        if (!served[device]) served[device] = serve(device, least_overlap);
      }
    }
    return std::move(dealt_);
  }

 private:
  std::int32_t& room(const Shape& tile) {
    return room_[static_cast<std::size_t>(tile_number(dealt_.grid, tile.data()))];
  }

  bool serve(std::size_t device, std::int64_t least_overlap) {
    std::int64_t best_overlap = least_overlap - 1;
    for (std::int64_t choice = 0; choice < choices_; ++choice) {
      const std::int64_t overlap = choose(device, choice);
      if (overlap <= best_overlap || room(tile_) == 0) continue;
      best_overlap = overlap;
      best_ = tile_;
    }
    if (best_overlap < least_overlap) return false;
    --room(best_);
    std::transform(best_.begin(), best_.end(),
                   dealt_.tiles.begin() + static_cast<std::ptrdiff_t>(device * best_.size()),
                   [](std::int64_t tile) { return static_cast<std::int32_t>(tile); });
    return true;
  }

  // Sets tile_ to a tile within the device's, and returns how much of the wish it overlaps, in units of one
  // over the product of the two grids.
  std::int64_t choose(std::size_t device, std::int64_t choice) {
    std::int64_t overlap = 1;
    for (std::size_t i = tile_.size(); i-- > 0;) {
      const std::int64_t inside = dealt_.grid[i] / within_.grid[i];
      tile_[i] = within_.tile(device)[i] * inside + choice % inside;
      choice /= inside;
      overlap *= intersect(tile_interval(tile_[i], wish_.grid[i]), tile_interval(wish_.tile(device)[i], dealt_.grid[i]))
                     .size();
    }
    return overlap;
  }

  const TileTable& within_;
  const TileTable& wish_;
  TileTable dealt_;
  const std::int64_t choices_;
  std::vector<std::int32_t> room_;  // devices that each tile still takes
  Shape tile_;
  Shape best_;
};

TileTable deal(const TileTable& first, const TileTable& second, const Grid& finer) {
  const std::size_t rank = finer.size();
  const std::size_t devices = first.device_count();
  std::vector<std::int64_t> keys(devices);
  const std::int64_t second_tiles = &first == &second ? 1 : product(second.grid);
  for (std::size_t device = 0; device < devices; ++device) {
    keys[device] = first.number(device);
    if (&first != &second) keys[device] = keys[device] * second_tiles + second.number(device);
  }
  const std::vector<std::int64_t> ranks = ranks_within(keys, product(first.grid) * second_tiles);
  const Shape first_inside = tile_shape(finer, first.grid);
  const Shape second_inside = tile_shape(finer, second.grid);
  TileTable dealt{finer, std::vector<std::int32_t>(first.tiles.size())};
  for (std::size_t device = 0; device < devices; ++device) {
    std::int64_t rest = ranks[device];
    for (std::size_t i = rank; i-- > 0;) {
      const Interval both = intersect(tile_interval(first.tile(device)[i], first_inside[i]),
                                      tile_interval(second.tile(device)[i], second_inside[i]));
      ensure(both.size() > 0, "a device goes through tiles that meet");
      dealt.tiles[device * rank + i] = static_cast<std::int32_t>(both.lo);
      if (both.size() == 1) continue;
      dealt.tiles[device * rank + i] += static_cast<std::int32_t>(rest % both.size());
      rest /= both.size();
    }
  }
  return dealt;
}

// Runs of devices of the part's stride share a coordinate.
void add_coordinates(const Mesh& mesh, const AxisPart& part, std::int32_t weight, std::size_t dimension,
                     TileTable& table) {
  const std::int64_t stride = mesh.stride(part);
  std::int64_t coordinate = 0;
  std::size_t at = dimension;
  for (std::int64_t run = mesh.device_count() / stride; run > 0; --run) {
    for (std::int64_t device = 0; device < stride; ++device, at += table.rank()) {
      table.tiles[at] += static_cast<std::int32_t>(coordinate) * weight;
    }
    if (++coordinate == part.size) coordinate = 0;
  }
}

}  // namespace

TileTable tile_table(const DistributedType& type) {
  const auto rank = static_cast<std::size_t>(type.rank());
  TileTable table{grid_of(type), {}};
  table.tiles.resize(static_cast<std::size_t>(type.mesh().device_count()) * rank);
  for (std::size_t i = 0; i < rank; ++i) {
    std::int64_t weight = 1;  // of a part's coordinate in the tile's number
    for (const AxisPart& part : type.dimensions()[i].axes) {
      add_coordinates(type.mesh(), part, static_cast<std::int32_t>(weight), i, table);
      weight *= part.size;
    }
  }
  return table;
}

TileTable tile_table(const Placement& placement) {
  if (placement.type() != nullptr) return tile_table(*placement.type());
  const std::size_t rank = placement.global_shape().size();
  const Shape& local = placement.tile_shape();
  TileTable table{tile_shape(placement.grid_extent(), local), {}};
  table.tiles.resize(static_cast<std::size_t>(placement.device_count()) * rank);
  Shape corner(rank);
  for (Device device = 0; device < placement.device_count(); ++device) {
    placement.offset(device, corner);
    for (std::size_t i = 0; i < rank; ++i) {
      table.tiles[static_cast<std::size_t>(device) * rank + i] = static_cast<std::int32_t>(corner[i] / local[i]);
    }
  }
  return table;
}

TileTable coarsen(const TileTable& table, const Grid& grid) {
  TileTable coarse{grid, table.tiles};
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const auto inside = static_cast<std::int32_t>(table.grid[i] / grid[i]);
    if (inside == 1) continue;
    for (std::size_t at = i; at < coarse.tiles.size(); at += grid.size()) coarse.tiles[at] /= inside;
  }
  return coarse;
}

TileTable deal(const TileTable& first, const TileTable& second, const Grid& finer, const TileTable& /*wish*/) {
  return finer == second.grid ? second : deal(first, second, finer);
}

TileTable deal_toward(const TileTable& within, const Grid& finer, const TileTable& wish) {
  constexpr std::size_t most_devices = 512;  // the work is quadratic in them
  if (finer == within.grid) return within;
  if (within.device_count() > most_devices) return deal(within, within, finer);
  return WishDealer(within, finer, wish).run();
}

TileTable recut(const TileTable& held, const Move& move, const TileTable& wish) {
  return deal_toward(coarsen(held, merged_grid(held.grid, move)), grid_after(held.grid, move), wish);
}

Placement placement_of(const Shape& global, const TileTable& table) {
  const std::size_t rank = global.size();
  const Shape local = tile_shape(global, table.grid);
  std::vector<std::int64_t> corners(table.tiles.size());
  for (std::size_t i = 0; i < rank; ++i) {
    for (std::size_t at = i; at < corners.size(); at += rank) corners[at] = table.tiles[at] * local[i];
  }
  return {global, local, std::move(corners)};
}

std::int64_t least_kept(const Shape& global, const TileTable& before, const TileTable& after) {
  const Shape had = tile_shape(global, before.grid);
  const Shape has = tile_shape(global, after.grid);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t device = 0; device < before.device_count(); ++device) {
    std::int64_t kept = 1;
    for (std::size_t i = 0; i < global.size(); ++i) {
      kept *=
          intersect(tile_interval(before.tile(device)[i], had[i]), tile_interval(after.tile(device)[i], has[i])).size();
    }
    least = std::min(least, kept);
  }
  return least;
}

}  // namespace retile
