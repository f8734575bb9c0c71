#include "retile/plan/true_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "retile/base/arithmetic.h"

namespace retile {
namespace {

std::int64_t paper_cost(const Step& step) {
  switch (op_of(step)) {
    case StepOp::dynslice:
    case StepOp::reduce:
      return 0;
    case StepOp::allgather:
    case StepOp::exchange:
    case StepOp::alltoall:
    case StepOp::allpermute:
      return step.after.local_size();
  }
  return 0;
}

std::int64_t most_received(const Placement& before, const Step& step) {
  if (op_of(step) == StepOp::reduce) return 0;
  const std::int64_t device_count = step.after.device_count();
  const auto* exchange = std::get_if<ExchangeStep>(&step.operation);
  const auto* permute = std::get_if<PermuteStep>(&step.operation);
  std::vector<std::int64_t> received(static_cast<std::size_t>(device_count));
  const auto at = [&](Device device) -> std::int64_t& { return received[static_cast<std::size_t>(device)]; };
  if (exchange != nullptr && exchange->pieces) {
    // A box may be sent many times. Sums beyond 63 bits become the largest number, which no true statement equals.
    for (const Piece& piece : *exchange->pieces) {
      at(piece.to) = checked_add(at(piece.to), volume(piece.box)).value_or(INT64_MAX);
    }
  } else if (permute != nullptr && permute->pairs) {
    for (const DevicePair& pair : *permute->pairs) {
      at(pair.target) = pair.source == pair.target ? 0 : step.after.size(pair.target);
    }
  } else {
    for (Device device = 0; device < device_count; ++device) at(device) = lacked_elements(before, step.after, device);
  }
  return *std::max_element(received.begin(), received.end());
}

std::int64_t device_count_of(const Plan& plan) { return plan.movement.mesh.device_count(); }

// The floor of a sum. Parts are added pair by pair, and each element is sent to all but one of the devices that end
// with it. Some device receives at least the average of this total. What a device ends with is no part of what it held.
std::int64_t floor_of_sum(const Plan& plan) {
  std::int64_t parts = 1;
  for (const AxisPart& part : plan.source.partial()) parts *= part.size;
  std::int64_t kept = 1;
  for (const AxisPart& part : plan.target.partial()) kept *= part.size;
  const auto elements = static_cast<double>(product(plan.source.global_shape()));
  const Placement target = plan.target.placement(device_count_of(plan));
  double arriving = elements * static_cast<double>(parts - kept) - elements * static_cast<double>(kept);
  std::int64_t floor = 0;
  for (Device device = 0; device < device_count_of(plan); ++device) {
    arriving += static_cast<double>(target.size(device));
    floor = std::max(floor, target.size(device));
  }
  const double average = arriving / static_cast<double>(device_count_of(plan));
  return std::max(floor, static_cast<std::int64_t>(std::ceil(average * (1 - 1e-12))));
}

}  // namespace

std::vector<Box> held_boxes(const Placement& placement, Device device) {
  if (placement.is_even()) return {placement.box(device)};
  std::vector<Box> boxes;
  for (Part& part : placement.parts(device)) boxes.push_back(std::move(part.box));
  return boxes;
}

std::int64_t lacked_elements(const Placement& before, const Placement& after, Device device) {
  const std::vector<Box> own = held_boxes(before, device);
  std::int64_t lacked = 0;
  for (const Box& wanted : held_boxes(after, device)) {
    lacked += volume(wanted);
    for (const Box& box : own) {
      const std::optional<Box> shared = intersect(wanted, box);
      lacked -= shared ? volume(*shared) : 0;
    }
  }
  return lacked;
}

std::optional<std::int64_t> true_cost(const std::string& model, const Movement& movement, std::size_t step) {
  if (model == "paper") return paper_cost(movement.steps[step]);
  if (model == "volume") return most_received(movement.before(step), movement.steps[step]);
  return std::nullopt;
}

std::int64_t true_floor(const Plan& plan) {
  if (plan.source.partial() != plan.target.partial()) return floor_of_sum(plan);
  const DistinctEnds ends = distinct_ends(plan.source, plan.target, device_count_of(plan), plan.view);
  std::int64_t floor = 0;
  for (Device device = 0; device < device_count_of(plan); ++device) {
    floor = std::max(floor, lacked_elements(ends.source, ends.target, device));
  }
  return floor;
}

}  // namespace retile
