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

void require_element_type(const Problem& problem, bool stands_for_it, std::size_t size) {
  if (stands_for_it) return;
  throw RuntimeError(fmt::format("the problem's elements are {}, which the type of the buffers, of {} bytes, is not",
                                 name_of(problem.element_type()), size));
}

namespace {

// The caller's engine, or threads of our own.
class GivenEngine {
 public:
  explicit GivenEngine(Engine* given) : own_(given == nullptr ? make_threads_engine() : nullptr), given_(given) {}
  Engine& operator*() const { return given_ == nullptr ? *own_ : *given_; }

 private:
  const std::unique_ptr<Engine> own_;
  Engine* const given_;
};

PlanOptions planning_for(const RedistributeOptions& options) {
  PlanOptions planning;
  if (options.engine != nullptr) planning.executor = options.engine->executor(TileOwner::caller);
  return planning;
}

}  // namespace

ByteRedistribution::ByteRedistribution(const Plan& plan, std::int64_t element_size,
                                       const RedistributeOptions& options) {
  prepare([&]() -> const Plan& { return plan; }, element_size, *GivenEngine(options.engine), options);
}

ByteRedistribution::ByteRedistribution(const Problem& problem, const RedistributeOptions& options,
                                       const std::function<void()>& require) {
  std::optional<Plan> plan;
  const auto make = [&]() -> const Plan& {
    if (require) require();
    return plan.emplace(make_plan(problem, planning_for(options)));
  };
  prepare(make, bytes_of(problem.element_type()), *GivenEngine(options.engine), options);
}

void ByteRedistribution::prepare(const std::function<const Plan&()>& find_plan, std::int64_t element_size,
                                 Engine& engine, const RedistributeOptions& options) {
  processes_ = &engine.processes();
  const Plan* plan = nullptr;
  BufferStrides strides;
  processes_->do_together([&] {
    if (element_size < 1) throw RuntimeError(fmt::format("elements cannot have {} bytes", element_size));
    plan = &find_plan();
    require_right(*plan);
    const Movement& movement = plan->movement;
    devices_ = engine.devices(plan->device_count());
    const std::vector<MemoryLayout> sources = spread(options.sources, devices_.size(), "source");
    const std::vector<MemoryLayout> targets = spread(options.targets, devices_.size(), "target");
    const BufferStrides given{strides_in_view(strides_in(sources), plan->view, movement.source, devices_),
                              strides_in_view(strides_in(targets), plan->view, movement.target(), devices_)};
    strides = require_strides(given, movement.source, movement.target(), devices_, element_size);
    source_rooms_ = rooms_of(sources, strides.sources, movement.source, devices_, element_size);
    // More steps may hold the whole of a tile in the target's memory on the way.
    if (movement.steps.size() <= 1) allow_refresh(plan->source, plan->target, source_rooms_);
    target_rooms_ = rooms_of(targets, strides.targets, movement.target(), devices_, element_size);
  });
  run_ = engine.prepare(plan->movement, element_size, strides);
}

void ByteRedistribution::require_memory(std::span<const std::span<const std::byte>> sources,
                                        std::span<const std::span<std::byte>> targets) const {
  if (sources.size() != devices_.size() || targets.size() != devices_.size()) {
    throw RuntimeError(fmt::format("there are {} sources and {} targets for {} devices of this process", sources.size(),
                                   targets.size(), devices_.size()));
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

void ByteRedistribution::check(std::span<const std::span<const std::byte>> sources,
                               std::span<const std::span<std::byte>> targets) const {
  processes_->do_together([&] { require_memory(sources, targets); });
}

void ByteRedistribution::find_tiles(std::span<const std::span<const std::byte>> sources,
                                    std::span<const std::span<std::byte>> targets) {
  try {
    require_memory(sources, targets);
  } catch (const RuntimeError& fault) {
    run_->refuse(fault.what());
    throw;
  }
  from_.clear();
  to_.clear();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    from_.push_back(sources[i].data() + source_rooms_[i].first);
    to_.push_back(targets[i].data() + target_rooms_[i].first);
  }
}

void ByteRedistribution::run(std::span<const std::span<const std::byte>> sources,
                             std::span<const std::span<std::byte>> targets) {
  find_tiles(sources, targets);
  run_->run(from_, to_);
}

void ByteRedistribution::start(std::span<const std::span<const std::byte>> sources,
                               std::span<const std::span<std::byte>> targets) {
  find_tiles(sources, targets);
  run_->start(from_, to_);
}

}  // namespace retile
