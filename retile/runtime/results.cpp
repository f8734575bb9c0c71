#include "retile/runtime/results.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/runtime/elements.h"
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

bool contains_element(const Box& box, const Shape& element) {
  for (std::size_t d = 0; d < element.size(); ++d) {
    if (element[d] < box.lo[d] || element[d] >= box.hi[d]) return false;
  }
  return true;
}

// Where the element lies in a tile that holds the box.
std::int64_t place_in(const Box& box, const Shape& element) {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < element.size(); ++d) place = place * (box.hi[d] - box.lo[d]) + element[d] - box.lo[d];
  return place;
}

}  // namespace

std::uint64_t checksum(const Mesh& mesh, const ArrayType& type, const TileBuffers& tiles, Engine& engine) {
  const std::vector<Device> devices = engine.devices(mesh.device_count());
  const std::vector<bool> is_first = first_holders(type.placement);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!is_first[static_cast<std::size_t>(devices[i])]) continue;
    sum += checksum_of_tile(type, type.placement.box(devices[i]), tiles[i]);
  }
  engine.processes().add_up({&sum, 1});
  return sum;
}

std::vector<std::string> first_elements(const Mesh& mesh, const ArrayType& type, const TileBuffers& tiles,
                                        Engine& engine, std::int64_t most) {
  const std::vector<Device> devices = engine.devices(mesh.device_count());
  const std::vector<bool> is_first = first_holders(type.placement);
  const Shape& shape = type.placement.global_shape();
  const auto size = static_cast<std::size_t>(bytes_of(type.element));
  // Each element in the first bytes of a number, 0 but for its first holder: added up, all processes have it.
  std::vector<std::uint64_t> elements(static_cast<std::size_t>(std::min(product(shape), most)));
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!is_first[static_cast<std::size_t>(devices[i])]) continue;
    const Box box = type.placement.box(devices[i]);
    for (std::size_t number = 0; number < elements.size(); ++number) {
      const Shape element = element_index(shape, static_cast<std::int64_t>(number));
      if (!contains_element(box, element)) continue;
      std::memcpy(&elements[number], tiles[i].data() + static_cast<std::size_t>(place_in(box, element)) * size, size);
    }
  }
  engine.processes().add_up(elements);
  std::vector<std::string> texts;
  for (const std::uint64_t& element : elements) {
    texts.push_back(format_element(type.element, reinterpret_cast<const std::byte*>(&element)));
  }
  return texts;
}

void write_npy(const std::string& path, const Mesh& mesh, const ArrayType& type, const TileBuffers& tiles,
               Engine& engine) {
  const std::vector<Device> devices = engine.devices(mesh.device_count());
  const std::vector<bool> is_first = first_holders(type.placement);
  const Shape& shape = type.placement.global_shape();
  engine.processes().do_together([&] {
    if (engine.processes().is_speaker()) NpyWriter(path, type.element, shape, NpyWriter::Mode::create);
  });
  engine.processes().do_together([&] {
    const NpyWriter writer(path, type.element, shape, NpyWriter::Mode::open);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (!is_first[static_cast<std::size_t>(devices[i])]) continue;
      writer.write_box(type.placement.box(devices[i]), tiles[i].data());
    }
  });
}

}  // namespace retile::runtime
