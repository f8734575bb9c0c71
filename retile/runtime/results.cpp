#include "retile/runtime/results.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/base/new_file.h"
#include "retile/runtime/elements.h"
#include "retile/runtime/npy.h"
#include "retile/runtime/strided.h"
#include "retile/runtime/tile_parts.h"

namespace retile::runtime {
namespace {

using language::ArrayType;

// True for the first of the devices that hold the same box.
std::vector<bool> first_holders(const Placement& placement) {
  std::map<Shape, Device> seen;
  std::vector<bool> first;
  for (Device device = 0; device < placement.device_count(); ++device) {
    first.push_back(seen.try_emplace(corner_of(placement, device), device).second);
  }
  return first;
}

std::uint64_t checksum_of_box(const ArrayType& type, const Box& box, const std::byte* element) {
  const StridedView rows = sliced(type.placement.global_shape(), box.lo, box.hi);
  const std::int64_t size = bytes_of(type.element);
  std::uint64_t sum = 0;
  for_each_row(rows, [&](std::int64_t start) {
    for (std::int64_t i = start; i < start + row_length(rows); ++i, element += size) {
      sum += mix_bits(mix_bits(static_cast<std::uint64_t>(i)) ^ bits_of_element(type.element, element));
    }
  });
  return sum;
}

}  // namespace

std::uint64_t checksum(const Mesh& mesh, const ArrayType& type, const TileBuffers& tiles, Engine& engine) {
  const std::vector<Device> devices = engine.devices(mesh.device_count());
  const std::vector<bool> is_first = first_holders(type.placement);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!at(is_first, devices[i])) continue;
    read_parts(type.placement, devices[i], tiles[i].data(), bytes_of(type.element),
               [&](const Box& box, const std::byte* bytes) { sum += checksum_of_box(type, box, bytes); });
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
    if (!at(is_first, devices[i])) continue;
    for (const Part& part : type.placement.parts(devices[i])) {
      for (std::size_t number = 0; number < elements.size(); ++number) {
        const std::int64_t place = place_in(part, element_index(shape, static_cast<std::int64_t>(number)));
        if (place < 0) continue;
        std::memcpy(&elements[number], tiles[i].data() + static_cast<std::size_t>(place) * size, size);
      }
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
  std::optional<NewFile> file;  // of the speaker
  engine.processes().do_together([&] {
    if (!engine.processes().is_speaker()) return;
    file.emplace(path);
    NpyWriter(path, type.element, shape, NpyWriter::Mode::create, file->unfinished_path());
  });
  const std::string place = engine.processes().share(file ? file->unfinished_path() : std::string());
  engine.processes().do_together([&] {
    const NpyWriter writer(path, type.element, shape, NpyWriter::Mode::open, place);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (!at(is_first, devices[i])) continue;
      read_parts(type.placement, devices[i], tiles[i].data(), bytes_of(type.element),
                 [&](const Box& box, const std::byte* bytes) { writer.write_box(box, bytes); });
    }
  });
  engine.processes().do_together([&] {
    if (file) file->finish();
  });
}

}  // namespace retile::runtime
