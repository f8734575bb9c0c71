// The work of one device in a run of a plan, for callers who carry messages themselves, without an engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "retile/memory/tile_layout.h"
#include "retile/plan/plan.h"

namespace retile {

// Elements of a tile in memory: bytes from the tile's first element to the first of these, how many there are in each
// dimension, and bytes from one to the next.
struct Region {
  std::int64_t offset = 0;
  Shape shape;
  Strides strides;

  bool operator==(const Region&) const = default;
};

// Regions one after the other, each row-major: what the one end packs is what the other unpacks.
struct Message {
  Device peer = 0;
  std::int64_t bytes = 0;
  std::vector<Region> regions;
};

struct RegionCopy {
  Region from;
  Region to;
};

// What a device sends and what it receives at a time. Devices that finish their rounds in order, however many they have
// begun, never wait for each other.
struct MessageRound {
  std::optional<Message> send;
  std::optional<Message> receive;
};

// One copy from tiles to tiles, or a reduction.
struct DeviceStage {
  std::int64_t elements = 0;  // of the device's tile afterwards; between source and target it is packed
  std::vector<RegionCopy> copies;
  std::vector<MessageRound> rounds;
  std::optional<ReduceStep> reduction;  // of packed rows, in order, into as many elements as there are afterwards
};

struct DeviceScheduleOptions {
  std::int64_t element_size = 4;
  std::int64_t message_bytes = std::int64_t{1} << 20U;  // about: no message is longer that can be cut
  Strides source;                                       // of the device's array; none: packed
  Strides target;
};

// At least one stage: without steps, it copies the device's own tile. Throws RuntimeError where strides are wrong.
std::vector<DeviceStage> device_schedule(const Plan& plan, Device device, const DeviceScheduleOptions& options);

}  // namespace retile
