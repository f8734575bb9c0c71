#include "retile/runtime/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/planner/planner.h"
#include "retile/runtime/elements.h"
#include "retile/runtime/failure.h"
#include "retile/runtime/npy.h"
#include "retile/runtime/strided.h"

namespace retile::runtime {
namespace {

using language::ArrayType;

// True for the first of the devices that hold the same box.
std::vector<bool> first_holders(const Placement& placement) {
  std::map<Shape, Device> seen;
  std::vector<bool> first;
  for (Device device = 0; device < placement.device_count(); ++device) {
    first.push_back(seen.try_emplace(placement.offset(device), device).second);
  }
  return first;
}

std::uint64_t checksum_of_tile(const ArrayType& type, const Box& box, const Buffer& tile) {
  const StridedView rows = sliced(type.placement.global_shape(), box.lo, box.hi);
  const std::int64_t size = bytes_of(type.element);
  const std::byte* element = tile.data();
  std::uint64_t sum = 0;
  for_each_row(rows, [&](std::int64_t start) {
    for (std::int64_t i = start; i < start + row_length(rows); ++i, element += size) {
      sum += mix_bits(mix_bits(static_cast<std::uint64_t>(i)) ^ bits_of_element(type.element, element));
    }
  });
  return sum;
}

// The sum of every device's number, given those of this process's devices.
std::uint64_t sum_over_devices(const Mesh& mesh, const std::vector<std::uint64_t>& mine, Engine& engine) {
  const std::int64_t count = mesh.device_count();
  if (static_cast<std::int64_t>(mine.size()) == count)
    return std::accumulate(mine.begin(), mine.end(), std::uint64_t{0});
  std::vector<AxisPart> axes;
  for (int axis = mesh.axis_count() - 1; axis >= 0; --axis) axes.push_back(mesh.whole(axis));
  const DistributedType by_device(mesh, {{1, axes, count}});
  const Problem problem({}, by_device, DistributedType::replicated(mesh, {count}));
  const std::int64_t size = sizeof(std::uint64_t);
  Tiles tiles;
  const std::vector<Device> devices = engine.devices(count);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    tiles.push_back(allocate_tile(Placement(by_device).box(devices[i]), size));
    std::memcpy(tiles.back().bytes.data(), &mine[i], sizeof mine[i]);
  }
  engine.prepare(make_plan(problem).movement, size)->execute(tiles);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(count));
  std::optional<std::string> sum;
  if (!tiles.empty()) {
    std::memcpy(all.data(), tiles.front().bytes.data(), tiles.front().bytes.size());
    sum = fmt::format("{}", std::accumulate(all.begin(), all.end(), std::uint64_t{0}));
  }
  return std::stoull(*engine.first_of(sum));  // a process may have no devices
}

bool contains_element(const Box& box, const Shape& element) {
  for (std::size_t d = 0; d < element.size(); ++d) {
    if (element[d] < box.lo[d] || element[d] >= box.hi[d]) return false;
  }
  return true;
}

// Nothing where no tile of this process has the element.
std::optional<std::string> find_element(const ArrayType& type, const std::vector<Device>& devices,
                                        const TileBuffers& tiles, std::int64_t number) {
  const Shape element = element_index(type.placement.global_shape(), number);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Box box = type.placement.box(devices[i]);
    if (!contains_element(box, element)) continue;
    std::int64_t place = 0;
    for (std::size_t d = 0; d < element.size(); ++d) place = place * (box.hi[d] - box.lo[d]) + element[d] - box.lo[d];
    return format_element(type.element, tiles[i].data() + place * bytes_of(type.element));
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t checksum(const Mesh& mesh, const ArrayType& type, const TileBuffers& tiles, Engine& engine) {
  const std::vector<Device> devices = engine.devices(mesh.device_count());
  const std::vector<bool> is_first = first_holders(type.placement);
  std::vector<std::uint64_t> sums(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!is_first[static_cast<std::size_t>(devices[i])]) continue;
    sums[i] = checksum_of_tile(type, type.placement.box(devices[i]), tiles[i]);
  }
  return sum_over_devices(mesh, sums, engine);
}

std::vector<std::string> first_elements(const Mesh& mesh, const ArrayType& type, const TileBuffers& tiles,
                                        Engine& engine, std::int64_t most) {
  const std::vector<Device> devices = engine.devices(mesh.device_count());
  const std::int64_t count = std::min(product(type.placement.global_shape()), most);
  std::vector<std::string> elements;
  for (std::int64_t number = 0; number < count; ++number) {
    const std::optional<std::string> element = engine.first_of(find_element(type, devices, tiles, number));
    ensure(element.has_value(), "every element has a holder");
    elements.push_back(*element);
  }
  return elements;
}

void write_npy(const std::string& path, const Mesh& mesh, const ArrayType& type, const TileBuffers& tiles,
               Engine& engine) {
  const std::vector<Device> devices = engine.devices(mesh.device_count());
  const std::vector<bool> is_first = first_holders(type.placement);
  const Shape& shape = type.placement.global_shape();
  do_together(engine, [&] {
    if (engine.is_speaker()) NpyWriter(path, type.element, shape, NpyWriter::Mode::create);
  });
  do_together(engine, [&] {
    const NpyWriter writer(path, type.element, shape, NpyWriter::Mode::open);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (!is_first[static_cast<std::size_t>(devices[i])]) continue;
      writer.write_box(type.placement.box(devices[i]), tiles[i].data());
    }
  });
}

}  // namespace retile::runtime
