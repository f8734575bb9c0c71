#include "retile/contenders/tile_assignment.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/grids/tile_table.h"

namespace retile::contenders {
namespace {

std::size_t index_of(int dimension) { return static_cast<std::size_t>(dimension); }

// The digits of devices' tile numbers, several for each dimension. Lists the devices in other orders of the digits.
class Digits {
 public:
  // Starts with one digit per dimension, and a last one for the replicas.
  explicit Digits(const TileAssignment& assignment) : devices_(assignment.devices) {
    for (const std::int64_t count : assignment.counts) dimensions_.push_back({add(count)});
    dimensions_.push_back({add(assignment.replicas)});
  }

  std::size_t replicas() const { return dimensions_.size() - 1; }

  // Splits the minor `size` off a dimension's last digit, and removes it from the dimension.
  std::size_t take(std::size_t dimension, std::int64_t size) {
    const std::size_t digit = dimensions_[dimension].back();
    ensure(sizes_[digit] % size == 0, "digits are taken that are there");
    return split(digit, sizes_[digit] / size);
  }

  // Splits the major `size` off a dimension's last digit, and removes it from the dimension.
  std::size_t take_major(std::size_t dimension, std::int64_t size) {
    const std::size_t digit = dimensions_[dimension].back();
    ensure(sizes_[digit] % size == 0, "digits are taken that are there");
    dimensions_[dimension].back() = split(digit, size);
    return digit;
  }

  void give(std::size_t dimension, std::size_t digit) { dimensions_[dimension].push_back(digit); }

  std::vector<std::vector<std::size_t>>& dimensions() { return dimensions_; }

  std::int64_t count(std::size_t dimension) const {
    std::int64_t count = 1;
    for (const std::size_t digit : dimensions_[dimension]) count *= sizes_[digit];
    return count;
  }

  // The devices in row-major order over the digits in this order.
  std::vector<Device> read(const std::vector<std::size_t>& order) const {
    std::vector<std::size_t> strides(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) strides[i] = stride(order[i]);
    std::vector<Device> result;
    result.reserve(devices_.size());
    std::vector<std::int64_t> at(order.size());
    std::size_t position = 0;
    while (result.size() < devices_.size()) {
      result.push_back(devices_[position]);
      for (std::size_t i = order.size(); i-- > 0;) {
        position += strides[i];
        if (++at[i] < sizes_[order[i]]) break;
        position -= strides[i] * static_cast<std::size_t>(at[i]);
        at[i] = 0;
      }
    }
    return result;
  }

 private:
  std::size_t add(std::int64_t size) {
    sizes_.push_back(size);
    written_.push_back(sizes_.size() - 1);
    return sizes_.size() - 1;
  }

  // Splits a digit. It keeps the major part; the minor part becomes a new digit.
  std::size_t split(std::size_t digit, std::int64_t major) {
    const std::int64_t minor = sizes_[digit] / major;
    sizes_[digit] = major;
    sizes_.push_back(minor);
    written_.insert(std::find(written_.begin(), written_.end(), digit) + 1, sizes_.size() - 1);
    return sizes_.size() - 1;
  }

  // The distance in the list between devices that differ by one in the digit.
  std::size_t stride(std::size_t digit) const {
    std::size_t stride = 1;
    for (std::size_t i = written_.size(); written_[--i] != digit;)
      stride *= static_cast<std::size_t>(sizes_[written_[i]]);
    return stride;
  }

  const std::vector<Device>& devices_;
  std::vector<std::int64_t> sizes_;                   // by digit
  std::vector<std::size_t> written_;                  // digits in the order in which devices are listed, major to minor
  std::vector<std::vector<std::size_t>> dimensions_;  // digits of each, major to minor; the last entry: replicas
};

std::vector<std::size_t> joined(const std::vector<std::vector<std::size_t>>& lists) {
  std::vector<std::size_t> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

void sort_replicas(TileAssignment& assignment) {
  for (auto tile = assignment.devices.begin(); tile != assignment.devices.end(); tile += assignment.replicas) {
    std::sort(tile, tile + assignment.replicas);
  }
}

TileAssignment assignment_of_digits(Digits& digits) {
  TileAssignment assignment;
  for (std::size_t i = 0; i < digits.replicas(); ++i) assignment.counts.push_back(digits.count(i));
  assignment.replicas = digits.count(digits.replicas());
  assignment.devices = digits.read(joined(digits.dimensions()));
  sort_replicas(assignment);
  return assignment;
}

std::vector<std::vector<Device>> chunks(const std::vector<Device>& devices, std::int64_t count) {
  const auto size = static_cast<std::ptrdiff_t>(devices.size()) / count;
  std::vector<std::vector<Device>> result;
  for (auto begin = devices.begin(); begin != devices.end(); begin += size) result.emplace_back(begin, begin + size);
  return result;
}

}  // namespace

bool TileAssignment::is_replicated() const {
  return std::all_of(counts.begin(), counts.end(), [](std::int64_t count) { return count == 1; });
}

TileAssignment assignment_of(const DistributedType& type) {
  const TileTable table = tile_table(type);
  TileAssignment assignment;
  assignment.counts = table.grid;
  const std::int64_t tiles = product(assignment.counts);
  const std::int64_t device_count = type.mesh().device_count();
  assignment.replicas = device_count / tiles;
  std::vector<Device> first(static_cast<std::size_t>(tiles));  // where the tile's next replica goes
  for (std::size_t tile = 0; tile < first.size(); ++tile) first[tile] = static_cast<Device>(tile) * assignment.replicas;
  assignment.devices.resize(static_cast<std::size_t>(device_count));
  for (Device device = 0; device < device_count; ++device) {
    const std::int64_t tile = table.number(static_cast<std::size_t>(device));
    assignment.devices[static_cast<std::size_t>(first[static_cast<std::size_t>(tile)]++)] = device;
  }
  return assignment;
}

Placement placement_of(const TileAssignment& assignment, const Shape& global) {
  const std::size_t rank = assignment.rank();
  TileTable table{assignment.counts, std::vector<std::int32_t>(assignment.devices.size() * rank)};
  for (std::size_t position = 0; position < assignment.devices.size(); ++position) {
    std::int64_t tile = static_cast<std::int64_t>(position) / assignment.replicas;
    const std::size_t row = static_cast<std::size_t>(assignment.devices[position]) * rank;
    for (std::size_t i = rank; i-- > 0; tile /= assignment.counts[i]) {
      table.tiles[row + i] = static_cast<std::int32_t>(tile % assignment.counts[i]);
    }
  }
  return placement_of(global, table);
}

TileAssignment after_moves(const TileAssignment& before, std::span<const Move> moves) {
  Digits digits(before);
  for (const Move& move : moves) {
    const std::size_t moved = move.from == replicas ? digits.take_major(digits.replicas(), move.factor)
                                                    : digits.take(index_of(move.from), move.factor);
    digits.give(move.to == replicas ? digits.replicas() : index_of(move.to), moved);
  }
  return assignment_of_digits(digits);
}

std::vector<std::vector<Device>> groups_along(const TileAssignment& before, std::span<const Move> moves) {
  Digits digits(before);
  std::vector<std::size_t> moved;
  std::int64_t group_size = 1;
  for (const Move& move : moves) {
    moved.push_back(digits.take(index_of(move.from), move.factor));
    group_size *= move.factor;
  }
  std::vector<std::size_t> order = joined(digits.dimensions());
  order.insert(order.end(), moved.begin(), moved.end());
  return chunks(digits.read(order), static_cast<std::int64_t>(before.devices.size()) / group_size);
}

TileAssignment with_split(const TileAssignment& assignment, std::size_t dimension, std::int64_t major) {
  TileAssignment result = assignment;
  result.counts[dimension] /= major;
  result.counts.insert(result.counts.begin() + static_cast<std::ptrdiff_t>(dimension), major);
  return result;
}

TileAssignment with_merged(const TileAssignment& assignment, std::size_t dimension) {
  TileAssignment result = assignment;
  result.counts[dimension + 1] *= result.counts[dimension];
  result.counts.erase(result.counts.begin() + static_cast<std::ptrdiff_t>(dimension));
  return result;
}

TileAssignment with_renamed_devices(TileAssignment assignment, const std::vector<Device>& names) {
  for (Device& device : assignment.devices) device = names[static_cast<std::size_t>(device)];
  sort_replicas(assignment);
  return assignment;
}

GroupedAssignment group_by(const TileAssignment& assignment, std::vector<std::size_t> dimensions) {
  GroupedAssignment grouped{std::move(dimensions), {}, {}, assignment};
  Digits digits(assignment);
  std::vector<std::size_t> order;
  for (const std::size_t dimension : grouped.dimensions) {
    grouped.counts.push_back(assignment.counts[dimension]);
    grouped.inside.counts[dimension] = 1;
    order.push_back(digits.dimensions()[dimension].front());
    digits.dimensions()[dimension].clear();
  }
  const std::vector<std::size_t> rest = joined(digits.dimensions());
  order.insert(order.end(), rest.begin(), rest.end());
  grouped.groups = chunks(digits.read(order), product(grouped.counts));
  grouped.inside.devices.resize(grouped.groups.front().size());
  std::iota(grouped.inside.devices.begin(), grouped.inside.devices.end(), Device{0});
  return grouped;
}

TileAssignment ungroup(const GroupedAssignment& grouped, const TileAssignment& inside) {
  TileAssignment flat{grouped.counts, inside.replicas, {}};  // has the groups' dimensions before all others
  flat.counts.insert(flat.counts.end(), inside.counts.begin(), inside.counts.end());
  for (const std::vector<Device>& group : grouped.groups) {
    for (const Device position : inside.devices) flat.devices.push_back(group[static_cast<std::size_t>(position)]);
  }
  Digits digits(flat);
  auto& places = digits.dimensions();
  const std::size_t count = grouped.dimensions.size();
  for (std::size_t i = 0; i < count; ++i) places[count + grouped.dimensions[i]] = std::move(places[i]);
  places.erase(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count));
  return assignment_of_digits(digits);
}

}  // namespace retile::contenders
