#include "retile/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "retile/base/error.h"
#include "retile/collectives/notation.h"
#include "retile/plan/step_traits.h"

namespace retile {
namespace {

StepChange change_of(const DimensionFactor& change) { return {change.dimension, change.dimension, change.factor}; }
StepChange change_of(const Move& move) { return {move.from, move.to, move.factor}; }

}  // namespace

const char* name_of(StepOp op) { return traits_of(op).name; }

std::optional<StepOp> find_step_op(std::string_view name) {
  for (const StepTraits& traits : all_step_traits) {
    if (traits.name == name) return traits.op;
  }
  return std::nullopt;
}

std::vector<StepChange> changes_of(const StepOperation& operation) {
  std::vector<StepChange> changes;
  const auto add = [&](const auto& list) {
    for (const auto& change : list) changes.push_back(change_of(change));
  };
  if (const auto* slice = std::get_if<SliceStep>(&operation)) add(slice->slices);
  if (const auto* alltoall = std::get_if<AllToAllStep>(&operation)) add(alltoall->moves);
  if (const auto* gather = std::get_if<GatherStep>(&operation)) add(gather->gathers);
  return changes;
}

std::int64_t group_size(const StepOperation& operation) {
  std::int64_t size = 1;
  for (const StepChange& change : changes_of(operation)) size *= change.factor;
  return size;
}

const Groups* groups_of(const StepOperation& operation) {
  const auto listed = [](const std::optional<Groups>& groups) { return groups ? &*groups : nullptr; };
  if (const auto* alltoall = std::get_if<AllToAllStep>(&operation)) return listed(alltoall->groups);
  if (const auto* gather = std::get_if<GatherStep>(&operation)) return listed(gather->groups);
  return nullptr;
}

std::string to_string(const StepOperation& operation) {
  const char* name = name_of(op_of(operation));
  if (const auto* reduce = std::get_if<ReduceStep>(&operation)) {
    return fmt::format("{}({}; {})", name, fmt::join(reduce->dimensions, ", "), name_of(reduce->reduction));
  }
  return step_text(name, changes_of(operation));
}

Shape without_dimensions(const Shape& shape, const std::vector<int>& dimensions) {
  Shape rest;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!std::binary_search(dimensions.begin(), dimensions.end(), static_cast<int>(i))) rest.push_back(shape[i]);
  }
  return rest;
}

std::string to_string(const Wait& wait) {
  switch (wait.kind) {
    case Wait::Kind::nothing:
      return "nothing";
    case Wait::Kind::link_out:
      return fmt::format("host {}'s link out", wait.number);
    case Wait::Kind::link_in:
      return fmt::format("host {}'s link in", wait.number);
    case Wait::Kind::sending:
      return fmt::format("device {} sending inside its host", wait.number);
    case Wait::Kind::receiving:
      return fmt::format("device {} receiving inside its host", wait.number);
    case Wait::Kind::copying:
      return fmt::format("device {}'s copies", wait.number);
    case Wait::Kind::messages:
      return wait.number == 1 ? "the latency of a message" : fmt::format("{} messages in a row", wait.number);
    case Wait::Kind::step:
      return "what a step takes by itself";
  }
  throw InternalError("unknown wait");
}

std::int64_t height(const Movement& movement) {
  std::int64_t height = movement.source.local_size();
  for (const Step& step : movement.steps) height = std::max(height, step.after.local_size());
  return height;
}

}  // namespace retile
