#include "retile/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/plan/verify.h"
#include "retile/planner/planned_steps.h"

namespace retile {
namespace {

// Some stages are tables with an entry per device: on meshes of mixed primes, and where exchanges are avoided.
constexpr std::int64_t most_tabled_mesh = std::int64_t{1} << 20U;

void check_device_count(const Problem& problem, const PlanOptions& options) {
  const std::int64_t devices = problem.mesh().device_count();
  if (devices <= most_tabled_mesh) return;
  if (options.planner == PlannerKind::wide && options.exchange == ExchangeUse::avoided) {
    throw InputError(fmt::format("{} devices are too many for wide plans without exchanges", devices),
                     fmt::format("such plans are made up to {} devices; allow exchanges, or use the paper's planner",
                                 most_tabled_mesh));
  }
  const std::vector<AxisPart>& digits = problem.mesh().prime_parts();
  const auto differs = [&](const AxisPart& digit) { return digit.size != digits.front().size; };
  if (std::none_of(digits.begin(), digits.end(), differs)) return;
  throw InputError(
      fmt::format("{} devices are too many for a mesh whose size has several prime factors", devices),
      fmt::format("such meshes are planned up to {} devices; gather-slice and direct plan any", most_tabled_mesh));
}

PlannedSteps plan_steps(const Problem& problem, const PlanOptions& options) {
  if (same_placement(problem.source(), problem.target())) return {};
  const bool tabled = options.planner == PlannerKind::wide || options.planner == PlannerKind::paper;
  if (tabled) check_device_count(problem, options);
  switch (options.planner) {
    case PlannerKind::wide:
      return plan_wide(problem, options);
    case PlannerKind::paper:
      return plan_paper(problem, options);
    case PlannerKind::direct:
      return plan_direct(problem);
    case PlannerKind::gather_slice:
      return plan_gather_slice(problem);
  }
  throw InternalError("unknown planner");
}

std::int64_t memory_bound(const Problem& problem, const PlanOptions& options) {
  const std::int64_t least = std::max(problem.source().local_size(), problem.target().local_size());
  const std::int64_t limit = options.memory_limit.value_or(least);
  if (limit < least) {
    const auto bytes = checked_multiply(least, bytes_of(problem.element_type()));
    throw InputError(fmt::format("a memory limit of {} elements per device is too small", limit),
                     fmt::format("the larger of source and target tile has {} elements{}, and that is enough", least,
                                 bytes ? fmt::format(" ({} bytes)", *bytes) : ""));
  }
  return limit;
}

}  // namespace

const char* name_of(PlannerKind kind) {
  switch (kind) {
    case PlannerKind::wide:
      return "wide";
    case PlannerKind::paper:
      return "paper";
    case PlannerKind::direct:
      return "direct";
    case PlannerKind::gather_slice:
      return "gather-slice";
  }
  throw InternalError("unknown planner");
}

std::optional<PlannerKind> find_planner(std::string_view name) {
  for (const PlannerKind kind :
       {PlannerKind::wide, PlannerKind::paper, PlannerKind::direct, PlannerKind::gather_slice}) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

Plan make_plan(const Problem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t bound = memory_bound(problem, options);
  PlannedSteps planned = plan_steps(problem, options);
  const CostModel& model = *options.cost_model;
  Movement movement{problem.mesh(), Placement(problem.source()), std::move(planned.steps)};
  PlanCost cost = price(model, movement);
  cost.floor = received_floor(problem.source(), problem.target());
  cost.lower_bound = std::max(model.least_cost(cost.floor), model.has_proofs() ? planned.lower_bound : 0);
  cost.optimal = cost.total == cost.lower_bound;
  const std::int64_t peak = height(movement);
  const PlanMemory memory{problem.source().local_size(), problem.target().local_size(), std::max(bound, peak), peak};
  Plan plan{problem.id(),    std::move(movement), problem.target(), name_of(options.planner),
            std::move(cost), memory,              0};
  plan.planning_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
#ifndef NDEBUG
  const bool affordable = problem.mesh().device_count() <= most_listed_devices;
  const std::vector<std::string> faults = affordable ? find_faults(plan, {}, 1) : std::vector<std::string>{};
  if (!faults.empty()) throw InternalError("a planner made a wrong plan: " + faults.front());
#endif
  return plan;
}

}  // namespace retile
