#include "retile/redistribute.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/caller_memory.h"
#include "retile/engines/threads/threads.h"
#include "retile/pipeline.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"

namespace retile {
MemoryLayout layout_within(const Shape& allocated, const Shape& corner, std::int64_t element_size, MemoryOrder order) {
  const bool fits = allocated.size() == corner.size() && checked_product(allocated).has_value();
  for (std::size_t i = 0; i < allocated.size(); ++i) {
    const bool is_inside = fits && corner[i] >= 0 && corner[i] < allocated[i];
    const bool is_empty = fits && corner[i] == 0 && allocated[i] == 0;
    if (is_inside || is_empty) continue;
    throw RuntimeError(
        fmt::format("a tile cannot start at {} of an array of {}", to_string(corner), to_string(allocated)));
  }
  DimensionOrder dimensions = order_of(box_at(corner, allocated));
  if (order == MemoryOrder::column_major) std::reverse(dimensions.begin(), dimensions.end());
  MemoryLayout layout{0, packed_strides(box_at(Shape(corner.size()), allocated), element_size, dimensions)};
  for (std::size_t i = 0; i < corner.size(); ++i) layout.offset += corner[i] * layout.strides[i];
  return layout;
}

const Problem& require_element_type(const Problem& problem, bool stands_for_it, std::size_t size) {
  if (stands_for_it) return problem;
  throw RuntimeError(fmt::format("the problem's elements are {}, which the type of the buffers, of {} bytes, is not",
                                 name_of(problem.element_type()), size));
}

ByteRedistribution::ByteRedistribution(const Plan& plan, std::int64_t element_size,
                                       const RedistributeOptions& options) {
  if (element_size < 1) throw RuntimeError(fmt::format("elements cannot have {} bytes", element_size));
  require_right(plan);
  const std::unique_ptr<Engine> threads = options.engine == nullptr ? make_threads_engine() : nullptr;
  Engine& engine = options.engine == nullptr ? *threads : *options.engine;
  const Movement& movement = plan.movement;
  devices_ = engine.devices(plan.device_count());
  BufferStrides strides;
  std::optional<RuntimeError> fault;
  try {
    const std::vector<MemoryLayout> sources = spread(options.sources, devices_.size(), "source");
    const std::vector<MemoryLayout> targets = spread(options.targets, devices_.size(), "target");
    const BufferStrides given{strides_in_view(strides_in(sources), plan.view, movement.source, devices_),
                              strides_in_view(strides_in(targets), plan.view, movement.target(), devices_)};
    strides = require_strides(given, movement.source, movement.target(), devices_, element_size);
    source_rooms_ = rooms_of(sources, strides.sources, movement.source, devices_, element_size);
    target_rooms_ = rooms_of(targets, strides.targets, movement.target(), devices_, element_size);
  } catch (const RuntimeError& error) {
    fault = error;
    strides.sources.resize(devices_.size() + 1);  // which all processes refuse
  }
  try {
    run_ = engine.prepare(movement, element_size, strides);
  } catch (const RuntimeError&) {
    if (!fault) throw;
  }
  if (fault) throw *fault;
}

namespace {

PlanOptions planning_for(const RedistributeOptions& options) {
  PlanOptions planning;
  if (options.engine != nullptr) planning.executor = options.engine->executor(TileOwner::caller);
  return planning;
}

}  // namespace

ByteRedistribution::ByteRedistribution(const Problem& problem, const RedistributeOptions& options)
    : ByteRedistribution(make_plan(problem, planning_for(options)), bytes_of(problem.element_type()), options) {}

void ByteRedistribution::require_memory(std::span<const std::span<const std::byte>> sources,
                                        std::span<const std::span<std::byte>> targets) const {
  if (sources.size() != devices_.size() || targets.size() != devices_.size()) {
    throw RuntimeError(fmt::format("there are {} sources and {} targets for {} devices", sources.size(), targets.size(),
                                   devices_.size()));
  }
  RoomCheck check([&](std::size_t i, bool is_target) {
    return fmt::format("the {} of device {}", is_target ? "target" : "source", devices_[i]);
  });
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    check.add_source(i, sources[i], source_rooms_[i]);
    check.add_target(i, targets[i], target_rooms_[i]);
  }
  check.require_room();
}

RunStatistics ByteRedistribution::run(std::span<const std::span<const std::byte>> sources,
                                      std::span<const std::span<std::byte>> targets) {
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  try {
    require_memory(sources, targets);
  } catch (const RuntimeError& fault) {
    try {
      run_->execute(from, to);  // no buffers, which all processes refuse
    } catch (const RuntimeError&) {
      throw RuntimeError(fault);
    }
    throw;
  }
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    from.push_back(sources[i].data() + source_rooms_[i].first);
    to.push_back(targets[i].data() + target_rooms_[i].first);
  }
  return run_->execute(from, to);
}

}  // namespace retile
