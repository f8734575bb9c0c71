#include "retile/transfer.h"

#include <fmt/format.h>

#include <optional>
#include <unordered_map>
#include <utility>

#include "retile/base/error.h"
#include "retile/caller_memory.h"
#include "retile/engines/threads/threads.h"
#include "retile/plan/text.h"
#include "retile/transfer/run.h"
#include "retile/transfer/seconds.h"

namespace retile::transfer {
namespace {

Manifest manifest_of(const std::vector<TransferArray>& arrays) {
  std::vector<std::pair<std::string, Problem>> named;
  named.reserve(arrays.size());
  for (const TransferArray& array : arrays) named.emplace_back(array.name, array.problem);
  return make_manifest(named);
}

// What lies between the elements is not donated.
void require_packed(const std::vector<TransferArray>& arrays) {
  Sentences faults;
  for (const TransferArray& array : arrays) {
    if (array.sources.empty() && array.targets.empty()) continue;
    faults.add(fmt::format("array \"{}\" has layouts of memory: in place, tiles are packed", array.name));
  }
  if (!faults.empty()) throw RuntimeError(faults.text());
}

template <typename List>
std::string count_in(const List& list, const char* noun) {
  return count_of(static_cast<std::int64_t>(list.size()), noun);
}

}  // namespace

struct Transfer::State {
  // The memory that one array's tiles reach on this process's devices.
  struct Rooms {
    std::vector<TileRoom> sources;
    std::vector<TileRoom> targets;
  };

  std::vector<std::string> names;
  std::unordered_map<std::string, std::size_t> numbers;  // by name
  std::vector<Rooms> rooms;                              // by array
  std::optional<PreparedTransfer> prepared;
  std::vector<std::span<const std::byte>> started_from;  // of the run that is being started
  std::vector<std::byte*> started_to;

  // The tiles, in `started_from` and `started_to`. Throws RuntimeError where there is not memory for them.
  void find_tiles(std::span<const ArrayMemory> arrays);

  const std::vector<Device>& devices() const { return prepared->devices(); }

  BufferStrides add_rooms(const TransferArray& array, const Placement& source, const Placement& target,
                          const std::vector<Shape>& view, const std::vector<Device>& devices, TileUse tiles) {
    const std::int64_t element_size = bytes_of(array.problem.element_type());
    const std::vector<MemoryLayout> from = spread(array.sources, devices.size(), "source");
    const std::vector<MemoryLayout> to = spread(array.targets, devices.size(), "target");
    const Layout& held = array.problem.source();
    const Layout& wanted = array.problem.target();
    BufferStrides strides = require_strides({strides_in_view(strides_in(from), view, source, devices),
                                             strides_in_view(strides_in(to), view, target, devices)},
                                            source, target, devices, element_size);
    rooms.push_back({rooms_of(from, strides.sources, source, devices, element_size),
                     rooms_of(to, strides.targets, target, devices, element_size)});
    // Where tiles are donated, what was read is given back.
    if (tiles == TileUse::kept) allow_refresh(held, wanted, rooms.back().sources);
    return strides;
  }

  // By array, whatever the order in which they are given; null where one is not given.
  std::vector<const ArrayMemory*> in_order(std::span<const ArrayMemory> arrays, RoomCheck& check) const {
    std::vector<const ArrayMemory*> ordered(names.size());
    for (const ArrayMemory& array : arrays) {
      const auto found = numbers.find(std::string(array.name));
      if (found == numbers.end()) {
        check.add_fault(fmt::format("no array is called \"{}\"", array.name));
      } else if (std::exchange(ordered[found->second], &array) != nullptr) {
        check.add_fault(fmt::format("array \"{}\" is given twice", array.name));
      }
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (ordered[i] == nullptr) check.add_fault(fmt::format("array \"{}\" is not given", names[i]));
    }
    return ordered;
  }

  // The arrays in order, each with memory for its tiles. Throws RuntimeError with all that is wrong.
  std::vector<const ArrayMemory*> require_memory(std::span<const ArrayMemory> arrays) const {
    const std::vector<Device>& devices = this->devices();
    RoomCheck check([&](std::size_t tile, bool is_target) {
      return fmt::format("the {} of \"{}\" on device {}", is_target ? "target" : "source", names[tile / devices.size()],
                         devices[tile % devices.size()]);
    });
    std::vector<const ArrayMemory*> ordered = in_order(arrays, check);
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      if (ordered[i] == nullptr) continue;
      const ArrayMemory& array = *ordered[i];
      if (array.sources.size() != devices.size() || array.targets.size() != devices.size()) {
        check.add_fault(fmt::format("array \"{}\" has {} and {} for {}", array.name, count_in(array.sources, "source"),
                                    count_in(array.targets, "target"), count_in(devices, "device")));
        continue;
      }
      for (std::size_t slot = 0; slot < devices.size(); ++slot) {
        check.add_source(i * devices.size() + slot, array.sources[slot], rooms[i].sources[slot]);
        check.add_target(i * devices.size() + slot, array.targets[slot], rooms[i].targets[slot]);
      }
    }
    check.require_room();
    return ordered;
  }
};

Transfer::Transfer(const std::vector<TransferArray>& arrays, const TransferOptions& options)
    : state_(std::make_unique<State>()) {
  const std::unique_ptr<Engine> threads = options.engine == nullptr ? make_threads_engine() : nullptr;
  Engine& engine = options.engine == nullptr ? *threads : *options.engine;
  std::optional<TransferPlan> plan;
  std::vector<BufferStrides> strides;
  engine.processes().do_together([&] {
    Manifest manifest = manifest_of(arrays);
    std::vector<std::int64_t> hosts = engine.hosts(manifest.device_count());
    if (options.machine) require_devices(*options.machine, manifest.device_count());
    plan.emplace(std::move(manifest), options.max_bytes, std::move(hosts),
                 options.in_place ? TileUse::donated : TileUse::kept,
                 options.machine ? message_form(*options.machine) : MessageForm());
    if (options.in_place) require_packed(arrays);
    const std::vector<Device> devices = engine.devices(plan->device_count());
    Sentences faults;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const std::size_t problem = plan->manifest().arrays[i].problem;
      state_->names.push_back(arrays[i].name);
      state_->numbers.emplace(arrays[i].name, i);
      try {
        strides.push_back(state_->add_rooms(arrays[i], plan->source(problem), plan->target(problem),
                                            array_of(plan->manifest().problems[problem], plan->sources()).view, devices,
                                            plan->sources()));
      } catch (const RuntimeError& error) {
        faults.add(fmt::format("array \"{}\": {}", arrays[i].name, error.what()));
      }
    }
    if (!faults.empty()) throw RuntimeError(faults.text());
  });
  if (options.in_place) strides.clear();  // all are packed
  state_->prepared.emplace(*plan, engine, strides);
}

Transfer::Transfer(Transfer&&) noexcept = default;
Transfer& Transfer::operator=(Transfer&&) noexcept = default;
Transfer::~Transfer() = default;

const std::vector<Device>& Transfer::devices() const { return state_->devices(); }

TileBytes Transfer::tile_bytes(std::size_t array, std::size_t device) const {
  const State::Rooms& rooms = state_->rooms[array];
  return {rooms.sources[device].end, rooms.targets[device].end};
}

void Transfer::check(std::span<const ArrayMemory> arrays) const {
  state_->prepared->processes().do_together([&] { (void)state_->require_memory(arrays); });
}

void Transfer::State::find_tiles(std::span<const ArrayMemory> arrays) {
  std::vector<const ArrayMemory*> ordered;
  try {
    ordered = require_memory(arrays);
  } catch (const RuntimeError& fault) {
    prepared->refuse(fault.what());
    throw;
  }
  started_from.clear();
  started_to.clear();
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    for (std::size_t slot = 0; slot < devices().size(); ++slot) {
      const TileRoom& room = rooms[i].sources[slot];
      const auto first = prepared->in_place() ? 0 : static_cast<std::size_t>(room.first);
      started_from.push_back(ordered[i]->sources[slot].subspan(first));
      started_to.push_back(ordered[i]->targets[slot].data() + rooms[i].targets[slot].first);
    }
  }
}

void Transfer::run(std::span<const ArrayMemory> arrays) {
  state_->find_tiles(arrays);
  state_->prepared->run(state_->started_from, state_->started_to);
}

void Transfer::start(std::span<const ArrayMemory> arrays) {
  state_->find_tiles(arrays);
  state_->prepared->start(state_->started_from, state_->started_to);
}

bool Transfer::test() { return state_->prepared->test(); }

void Transfer::wait() { state_->prepared->wait(); }

void Transfer::refuse(const std::string& why) { state_->prepared->refuse(why); }

TransferStatistics Transfer::statistics() {
  const RunStatistics statistics = state_->prepared->statistics();
  return {statistics.received_max, statistics.staging_max, statistics.seconds};
}

}  // namespace retile::transfer
