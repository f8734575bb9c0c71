#include "retile/planner/bound_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/base/names.h"
#include "retile/base/utf8.h"
#include "retile/plan/text.h"
#include "retile/planner/planner.h"

namespace retile {
namespace {

constexpr Names<BoundVerdict, 3> verdict_names{{"confirmed", "refuted", "not checked"}};

// The planner that the plan names; nothing for an unknown one and for those that plans never name.
std::optional<PlannerKind> planner_of(const Plan& plan) {
  const std::optional<PlannerKind> kind = find_planner(plan.planner);
  return kind == PlannerKind::automatic || kind == PlannerKind::lean ? std::nullopt : kind;
}

bool has_exchange(const Plan& plan) {
  return std::any_of(plan.steps().begin(), plan.steps().end(),
                     [](const Step& step) { return op_of(step) == StepOp::exchange; });
}

// Whether the bound comes from a search, which may prove more with more effort.
bool is_searched(const PlanOptions& options) {
  const bool is_portable =
      options.planner == PlannerKind::wide && options.executor.transport == Executor::Transport::collectives;
  return options.cost_model->has_proofs() && (options.planner == PlannerKind::paper || is_portable);
}

// Judges the bound by what the plan's own planner proves and finds.
BoundCheck check_by_planner(const Plan& plan, const PlanOptions& planning) {
  const Problem problem(plan.id, plan.source, plan.target);
  PlanOptions options = planning;
  PlanCost found = make_plan(problem, options).cost;
  std::string planner = plan.planner;
  if (plan.cost.total < found.lower_bound) {
    return {BoundVerdict::refuted,
            fmt::format("{} proves that none of its plans costs less than {}, and this one costs {}", planner,
                        found.lower_bound, plan.cost.total)};
  }
  const std::int64_t stated = plan.cost.lower_bound;
  if (stated > found.lower_bound && options.planner == PlannerKind::wide && !has_exchange(plan)) {
    options.executor.transport = Executor::Transport::collectives;
    found = make_plan(problem, options).cost;
    planner += " without exchanges";
  }
  if (stated <= found.lower_bound) {
    return {BoundVerdict::confirmed, fmt::format("{} proves {}", planner, group_digits(found.lower_bound))};
  }
  if (stated > found.total) {
    return {BoundVerdict::refuted, fmt::format("{} has a plan that costs {}", planner, group_digits(found.total))};
  }
  if (!is_searched(options)) {
    return {BoundVerdict::refuted,
            fmt::format("{} proves {}, and no more with any effort", planner, group_digits(found.lower_bound))};
  }
  return {BoundVerdict::not_checked, fmt::format("{} proves {} with the default effort, and finds no plan below {}",
                                                 planner, group_digits(found.lower_bound), group_digits(found.total))};
}

}  // namespace

const char* name_of(BoundVerdict verdict) { return verdict_names.of(verdict); }

BoundCheck check_bound(const Plan& plan) {
  PlanOptions options;
  options.cost_model = find_cost_model(plan.cost.model);
  if (options.cost_model == nullptr) {
    return {BoundVerdict::not_checked, fmt::format("costs by the model \"{}\" are not judged: there are {}",
                                                   printable(plan.cost.model), cost_model_names())};
  }
  const std::int64_t least = options.cost_model->least_cost(plan.cost.floor, plan.movement.target().local_size());
  if (plan.cost.over == all_plans && plan.cost.lower_bound > least) {
    return {BoundVerdict::refuted, fmt::format("over all plans no more than {} is proved", group_digits(least))};
  }
  std::string reason = plan.planner.empty() ? "the plan names no planner"
                                            : fmt::format("\"{}\" is no planner of retile", printable(plan.planner));
  if (const auto kind = planner_of(plan)) {
    options.planner = *kind;
    try {
      return check_by_planner(plan, options);
    } catch (const InputError& error) {
      reason = fmt::format("{} cannot plan it: {}", plan.planner, error.diagnostic().message);
    }
  }
  if (plan.cost.lower_bound <= least) {
    return {BoundVerdict::confirmed,
            fmt::format("whatever the planner, no plan costs less than {}", group_digits(least))};
  }
  return {BoundVerdict::not_checked, reason};
}

std::string verification_json(const std::string& id, int line, const std::vector<std::string>& faults,
                              const std::optional<BoundCheck>& bound) {
  nlohmann::ordered_json json{
      {"format", json_format}, {"id", id}, {"line", line}, {"verified", faults.empty()}, {"faults", faults}};
  if (bound) json["bound"] = {{"verdict", name_of(bound->verdict)}, {"reason", bound->reason}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace retile
