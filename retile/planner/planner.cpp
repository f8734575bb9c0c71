#include "retile/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "retile/base/error.h"
#include "retile/plan/verify.h"
#include "retile/planner/planned_steps.h"

namespace retile {
namespace {

// Some stages are tables with an entry per device: on meshes of mixed primes, and where exchanges are avoided.
constexpr std::int64_t most_tabled_mesh = std::int64_t{1} << 20U;

// Why the planner cannot have so many devices.
std::optional<Fault> find_size_fault(const Problem& problem, PlannerKind kind, const PlanOptions& options) {
  const std::int64_t devices = problem.mesh().device_count();
  const bool is_tabled = kind == PlannerKind::wide || kind == PlannerKind::paper;
  if (!is_tabled || devices <= most_tabled_mesh) return std::nullopt;
  if (kind == PlannerKind::wide && options.exchange == ExchangeUse::avoided) {
    return Fault{fmt::format("{} devices are too many for wide plans without exchanges", devices),
                 fmt::format("such plans are made up to {} devices; allow exchanges, or use the paper's planner",
                             most_tabled_mesh)};
  }
  const std::vector<AxisPart>& digits = problem.mesh().prime_parts();
  const auto differs = [&](const AxisPart& digit) { return digit.size != digits.front().size; };
  if (std::none_of(digits.begin(), digits.end(), differs)) return std::nullopt;
  return Fault{
      fmt::format("{} devices are too many for a mesh whose size has several prime factors", devices),
      fmt::format("such meshes are planned up to {} devices; gather-slice and direct plan any", most_tabled_mesh)};
}

PlannedSteps plan_steps(const Problem& problem, PlannerKind kind, const PlanOptions& options) {
  if (same_placement(problem.source(), problem.target())) return {};
  if (auto fault = find_size_fault(problem, kind, options)) {
    throw InputError(std::move(fault->message), std::move(fault->hint));
  }
  switch (kind) {
    case PlannerKind::wide:
      return plan_wide(problem, options);
    case PlannerKind::paper:
      return plan_paper(problem, options);
    case PlannerKind::direct:
      return plan_direct(problem);
    case PlannerKind::gather_slice:
      return plan_gather_slice(problem);
    case PlannerKind::automatic:
    case PlannerKind::lean:
      break;
  }
  throw InternalError("no planner by itself");
}

// With what the planner proved of it.
PlanCost cost_of(const Movement& movement, const Problem& problem, const CostModel& model, std::int64_t proved) {
  PlanCost cost = price(model, movement);
  cost.floor = received_floor(problem.source(), problem.target());
  cost.lower_bound = std::max(model.least_cost(cost.floor), model.has_proofs() ? proved : 0);
  cost.optimal = cost.total == cost.lower_bound;
  return cost;
}

Plan plan_by(PlannerKind kind, const Problem& problem, const PlanOptions& options) {
  PlannedSteps planned = plan_steps(problem, kind, options);
  Movement movement{problem.mesh(), Placement(problem.source()), std::move(planned.steps)};
  PlanCost cost = cost_of(movement, problem, *options.cost_model, planned.lower_bound);
  // Wide plans without exchanges are looked for in fewer places than the paper's, which are such plans too.
  if (kind == PlannerKind::wide && options.exchange == ExchangeUse::avoided && !cost.optimal) {
    if (auto steps = plan_paper_below(problem, options, cost.total)) {
      movement.steps = std::move(*steps);
      cost = cost_of(movement, problem, *options.cost_model, planned.lower_bound);
    }
  }
  PlanMemory memory{problem.source().local_size(), problem.target().local_size(), 0, height(movement)};
  memory.bound = std::max({memory.source, memory.target, memory.peak});
  return {problem.id(), std::move(movement), problem.target(), name_of(kind), std::move(cost), memory, 0};
}

// --- Memory.

std::int64_t run_bytes(const Plan& plan, const Problem& problem, const PlanOptions& options, TileUse tiles) {
  return predict_peak_bytes(plan.movement, bytes_of(problem.element_type()), tiles, options.engine);
}

Plan plan_leanly(const Problem& problem, const PlanOptions& options) {
  std::optional<Plan> best;
  for (const PlannerKind kind : {PlannerKind::wide, PlannerKind::direct, PlannerKind::paper}) {
    const bool is_avoided = kind == PlannerKind::direct && options.exchange == ExchangeUse::avoided;
    if (is_avoided || find_size_fault(problem, kind, options)) continue;
    Plan plan = plan_by(kind, problem, options);
    const auto rank = [&](const Plan& made) {
      return std::pair(run_bytes(made, problem, options, options.tiles), made.cost.total);
    };
    if (!best || rank(plan) < rank(*best)) best = std::move(plan);
  }
  return best ? std::move(*best) : plan_by(PlannerKind::wide, problem, options);  // which says why there is none
}

bool fits(const Plan& plan, const Problem& problem, const PlanOptions& options) {
  return !options.memory_limit || run_bytes(plan, problem, options, options.tiles) <= *options.memory_limit;
}

void require_fit(const Plan& plan, const Problem& problem, const PlanOptions& options) {
  if (fits(plan, problem, options)) return;
  const std::int64_t smallest = run_bytes(plan, problem, options, options.tiles);
  std::string hint = fmt::format("the smallest limit that works is {} bytes", smallest);
  if (options.tiles != TileUse::donated) {
    const std::int64_t donated = run_bytes(plan, problem, options, TileUse::donated);
    if (donated < smallest) hint += fmt::format("; {} where the source is donated", donated);
  }
  throw MemoryLimitError(fmt::format("a memory limit of {} bytes per device is too small", *options.memory_limit),
                         hint);
}

Plan plan_by_options(const Problem& problem, const PlanOptions& options) {
  if (options.planner == PlannerKind::automatic) {
    Plan plan = plan_by(PlannerKind::wide, problem, options);
    if (fits(plan, problem, options)) return plan;
  }
  const bool is_lean = options.planner == PlannerKind::automatic || options.planner == PlannerKind::lean;
  Plan plan = is_lean ? plan_leanly(problem, options) : plan_by(options.planner, problem, options);
  require_fit(plan, problem, options);
  return plan;
}

}  // namespace

const char* name_of(PlannerKind kind) {
  switch (kind) {
    case PlannerKind::automatic:
      return "auto";
    case PlannerKind::wide:
      return "wide";
    case PlannerKind::paper:
      return "paper";
    case PlannerKind::direct:
      return "direct";
    case PlannerKind::lean:
      return "lean";
    case PlannerKind::gather_slice:
      return "gather-slice";
  }
  throw InternalError("unknown planner");
}

std::optional<PlannerKind> find_planner(std::string_view name) {
  for (const PlannerKind kind : {PlannerKind::automatic, PlannerKind::wide, PlannerKind::paper, PlannerKind::direct,
                                 PlannerKind::lean, PlannerKind::gather_slice}) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

Plan make_plan(const Problem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = plan_by_options(problem, options);
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
