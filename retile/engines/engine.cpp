#include "retile/engines/engine.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/memory/available_memory.h"
#include "retile/schedule/streams.h"

namespace retile {

void PreparedRun::start_in_place(std::span<const std::byte* const>, std::span<std::byte* const>, const RoundDone&) {
  throw RuntimeError("this engine does not move in place");
}

void PreparedRun::give_back(const std::byte*, std::size_t) { throw RuntimeError("this engine does not move in place"); }

// NOLINTNEXTLINE(performance-unnecessary-value-param): engines keep them
std::unique_ptr<PreparedRun> Engine::prepare_transfer(std::vector<Streams>) {
  throw RuntimeError(fmt::format("the {} engine moves one array at a time", name()));
}

std::vector<bool> Engine::find_staged(const Streams& streams) const {
  return std::vector<bool>(streams.streams.size());
}

void Engine::load(const std::byte* tile, std::span<std::byte> to) const {
  if (!to.empty()) std::memcpy(to.data(), tile, to.size());
}

void Engine::store(std::span<const std::byte> from, std::byte* tile) const {
  if (!from.empty()) std::memcpy(tile, from.data(), from.size());
}

void Engine::clear(std::span<std::byte> tile) const {
  if (!tile.empty()) std::memset(tile.data(), 0, tile.size());
}

Buffer Engine::allocate_pages(std::size_t bytes, Pages) { return make_page_buffer(bytes); }

std::int64_t Engine::resident_bytes(const Buffer& pages) const {
  if (pages.empty()) return 0;
  std::vector<unsigned char> states(
      static_cast<std::size_t>(divide_up(static_cast<std::int64_t>(pages.size()), retile::page_bytes())));
  // The system only looks.
  void* memory = const_cast<std::byte*>(pages.data());  // NOLINT(*-const-cast)
  if (mincore(memory, pages.size(), states.data()) != 0) throw RuntimeError("the system does not count pages");
  return std::count_if(states.begin(), states.end(), [](unsigned char state) { return (state & 1U) != 0; }) *
         retile::page_bytes();
}

std::optional<std::int64_t> Engine::available_memory() const { return retile::available_memory(); }

void Engine::for_each(std::size_t count, const std::function<void(std::size_t)>& task) {
  for (std::size_t i = 0; i < count; ++i) task(i);
}

std::vector<Device> all_devices(std::int64_t count) {
  std::vector<Device> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), Device{0});
  return devices;
}

Box box_of_tile(const Placement& placement, Device device) {
  return placement.has_single_boxes() ? placement.box(device) : Box{};
}

void require_tiles(const Tiles& tiles, const Placement& start, std::span<const Device> devices,
                   std::int64_t element_size, const BufferStrides& strides) {
  if (!strides.are_packed()) {
    throw RuntimeError("donated tiles are packed, and the run was prepared for buffers that are not");
  }
  if (tiles.size() != devices.size()) {
    throw RuntimeError(fmt::format("the run starts with {} tiles for {} devices", tiles.size(), devices.size()));
  }
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const std::int64_t bytes = checked_bytes(start.size(devices[i]), element_size);
    const Box box = box_of_tile(start, devices[i]);
    if (tiles[i].box == box && static_cast<std::int64_t>(tiles[i].bytes.size()) == bytes) continue;
    throw RuntimeError(fmt::format("device {} starts with {} in {} bytes instead of {} in {}", devices[i],
                                   to_string(tiles[i].box), tiles[i].bytes.size(), to_string(box), bytes));
  }
}

void require_buffers(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                     std::span<const Device> devices) {
  if (sources.size() == devices.size() && targets.size() == devices.size()) return;
  throw RuntimeError(fmt::format("the run is given {} source and {} target buffers for {} devices", sources.size(),
                                 targets.size(), devices.size()));
}

}  // namespace retile
