#include "retile/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "retile/collectives/notation.h"
#include "retile/plan/step_traits.h"

namespace retile {
namespace {

StepChange change_of(const DimensionFactor& change) { return {change.dimension, change.dimension, change.factor}; }
StepChange change_of(const Move& move) { return {move.from, move.to, move.factor}; }

template <typename Change>
std::string text_of(const char* name, const std::vector<Change>& changes) {
  std::vector<StepChange> written;
  for (const Change& change : changes) written.push_back(change_of(change));
  return step_text(name, written);
}

template <typename Change>
std::int64_t product_of_factors(const std::vector<Change>& changes) {
  std::int64_t product = 1;
  for (const Change& change : changes) product *= change.factor;
  return product;
}

}  // namespace

const char* name_of(StepOp op) { return traits_of(op).name; }

std::optional<StepOp> find_step_op(std::string_view name) {
  for (const StepTraits& traits : all_step_traits) {
    if (traits.name == name) return traits.op;
  }
  return std::nullopt;
}

std::int64_t group_size(const StepOperation& operation) {
  if (const auto* slice = std::get_if<SliceStep>(&operation)) return product_of_factors(slice->slices);
  if (const auto* alltoall = std::get_if<AllToAllStep>(&operation)) return product_of_factors(alltoall->moves);
  if (const auto* gather = std::get_if<GatherStep>(&operation)) return product_of_factors(gather->gathers);
  return 1;
}

const Groups* groups_of(const StepOperation& operation) {
  const auto listed = [](const std::optional<Groups>& groups) { return groups ? &*groups : nullptr; };
  if (const auto* alltoall = std::get_if<AllToAllStep>(&operation)) return listed(alltoall->groups);
  if (const auto* gather = std::get_if<GatherStep>(&operation)) return listed(gather->groups);
  return nullptr;
}

std::string to_string(const StepOperation& operation) {
  const char* name = name_of(op_of(operation));
  if (const auto* slice = std::get_if<SliceStep>(&operation)) return text_of(name, slice->slices);
  if (const auto* alltoall = std::get_if<AllToAllStep>(&operation)) return text_of(name, alltoall->moves);
  if (const auto* gather = std::get_if<GatherStep>(&operation)) return text_of(name, gather->gathers);
  if (const auto* reduce = std::get_if<ReduceStep>(&operation)) {
    return fmt::format("{}({}; {})", name, fmt::join(reduce->dimensions, ", "), name_of(reduce->reduction));
  }
  return name;
}

Shape without_dimensions(const Shape& shape, const std::vector<int>& dimensions) {
  Shape rest;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!std::binary_search(dimensions.begin(), dimensions.end(), static_cast<int>(i))) rest.push_back(shape[i]);
  }
  return rest;
}

std::int64_t height(const Movement& movement) {
  std::int64_t height = movement.source.local_size();
  for (const Step& step : movement.steps) height = std::max(height, step.after.local_size());
  return height;
}

}  // namespace retile
