#include "retile/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/names.h"
#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/planner/clipped_bound.h"
#include "retile/planner/frame.h"
#include "retile/planner/planned_steps.h"
#include "retile/planner/sum_planner.h"

namespace retile {
namespace {

constexpr Names<PlannerKind, 6> kind_names{{"auto", "wide", "paper", "direct", "lean", "gather-slice"}};

// Some stages are tables with an entry per device: on meshes of mixed primes, and where exchanges are avoided.
constexpr std::int64_t most_tabled_mesh = std::int64_t{1} << 20U;

// Why the planner cannot have so many devices.
std::optional<Fault> find_size_fault(const TypedProblem& problem, PlannerKind kind, const PlanOptions& options) {
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

PlannedSteps plan_steps(const TypedProblem& problem, PlannerKind kind, const PlanOptions& options) {
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

// --- Beyond types: on grids that reach beyond the array, or box by box.

std::vector<Step> clip_steps(std::vector<Step> steps, const Shape& global) {
  for (Step& step : steps) {
    auto* exchange = std::get_if<ExchangeStep>(&step.operation);
    if (exchange != nullptr && exchange->transfers) clip_transfers(*exchange->transfers, global);
    step.after = clip(step.after, global);
  }
  return steps;
}

// --- Memory.

std::int64_t run_bytes(const Plan& plan, const Problem& problem, const PlanOptions& options, TileUse tiles) {
  return predict_peak_bytes(plan.movement, bytes_of(problem.element_type()), tiles, options.engine);
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

// --- Plans from their movements.

struct Proved {
  std::int64_t lower_bound = 0;
  std::int64_t floor = 0;
};

Plan finish_plan(const Problem& problem, const PlanOptions& options, Movement movement, std::vector<Shape> view,
                 std::string planner, const Proved& proved) {
  PlanCost cost = price(*options.cost_model, movement);
  cost.floor = proved.floor;
  cost.lower_bound = std::max(options.cost_model->least_cost(proved.floor), proved.lower_bound);
  cost.optimal = cost.total == cost.lower_bound;
  PlanMemory memory{movement.source.local_size(), movement.target().local_size(), 0, height(movement)};
  memory.bound = std::max({memory.source, memory.target, memory.peak});
  return {problem.id(),        problem.source(), problem.target(),
          std::move(movement), std::move(view),  std::move(planner),
          std::move(cost),     memory,           0};
}

// --- Problems between layouts that are no sums.

class ProblemPlanner {
 public:
  enum class Dimensions { any_view, own };

  // On the devices of a world at least as large as the problem's; refers to the problem. Plans may see dimensions in
  // factors, or not.
  ProblemPlanner(const Problem& problem, const PlanOptions& options, std::int64_t world, Dimensions dimensions)
      : problem_(problem), options_(options), world_(world) {
    if (problem.device_count() < world) return;
    typed_ = typed(problem_);
    if (!typed_) frame_ = find_frame(problem_);
    if (frame_ && !frame_->view.empty() && dimensions == Dimensions::own) frame_.reset();
    if (frame_) typed_.emplace(frame_->source, frame_->target);
  }

  Plan plan() const {
    if (options_.planner == PlannerKind::automatic) {
      Plan plan = plan_automatically();
      if (fits(plan, problem_, options_)) return plan;
    }
    const bool is_lean = options_.planner == PlannerKind::automatic || options_.planner == PlannerKind::lean;
    Plan plan = is_lean ? plan_leanly() : plan_by(options_.planner);
    require_fit(plan, problem_, options_);
    return plan;
  }

 private:
  // Of the planners' own proofs and the model's: the plan that no other beats.
  Plan plan_automatically() const {
    Plan wide = plan_by(PlannerKind::wide);
    if (wide.cost.optimal || options_.cost_model->has_proofs()) return wide;
    if (options_.exchange == ExchangeUse::avoided) {
      Plan paper = plan_by(PlannerKind::paper);
      return paper.cost.total < wide.cost.total ? paper : wide;
    }
    Plan direct = plan_by(PlannerKind::direct);
    return direct.cost.total < wide.cost.total ? direct : wide;
  }

  Plan plan_by(PlannerKind kind) const {
    if (!typed_) return plan_between_boxes();
    PlannedSteps planned = plan_steps(*typed_, kind, options_);
    // Wide plans without exchanges are looked for in fewer places than the paper's, which are such plans too.
    if (kind == PlannerKind::wide && options_.exchange == ExchangeUse::avoided) improve_by_paper(planned);
    if (frame_) return clip_plan(kind, std::move(planned));
    Movement movement{typed_->mesh(), Placement(typed_->source()), std::move(planned.steps)};
    return finish(std::move(movement), name_of(kind), planned.lower_bound,
                  received_floor(typed_->source(), typed_->target()));
  }

  // Of the frame's plan.
  Plan clip_plan(PlannerKind kind, PlannedSteps planned) const {
    Placement source(frame_->shape, frame_->source);
    const Placement target(frame_->shape, frame_->target);
    const std::int64_t floor = received_floor(source, target);
    const bool moves = std::any_of(planned.steps.begin(), planned.steps.end(),
                                   [](const Step& step) { return op_of(step) != StepOp::dynslice; });
    if (floor == 0 && moves && kind != PlannerKind::gather_slice) {  // only what lies beyond the array has to move
      planned.steps.clear();
      if (!(source == target)) planned.steps.push_back({SliceStep{}, target});
    }
    planned.lower_bound = floor == 0 ? 0 : clipped_bound(*typed_, frame_->shape, planned.lower_bound);
    Movement movement{typed_->mesh(), std::move(source), clip_steps(std::move(planned.steps), frame_->shape)};
    return finish(std::move(movement), name_of(kind), planned.lower_bound, floor);
  }

  void improve_by_paper(PlannedSteps& planned) const {
    const Movement movement{typed_->mesh(), Placement(typed_->source()), planned.steps};
    const std::int64_t total = price(*options_.cost_model, movement).total;
    if (options_.cost_model->has_proofs() && total == planned.lower_bound) return;
    if (auto steps = plan_paper_below(*typed_, options_, total)) planned.steps = std::move(*steps);
  }

  // One exchange is the cheapest there is: every planner's.
  Plan plan_between_boxes() const {
    if (options_.exchange == ExchangeUse::avoided) {
      throw InputError("there is no plan without an exchange", "no common grid has both layouts' boxes as tiles");
    }
    Placement source = problem_.source().placement(world_);
    const Placement target = problem_.target().placement(world_);
    const std::int64_t floor = received_floor(source, target);
    PlannedSteps planned = source == target ? PlannedSteps{} : plan_boxes(source, target);
    Movement movement{world_mesh(world_), std::move(source), std::move(planned.steps)};
    return finish(std::move(movement), name_of(PlannerKind::direct), planned.lower_bound, floor);
  }

  Plan finish(Movement movement, const char* planner, std::int64_t lower_bound, std::int64_t floor) const {
    const std::int64_t proved = options_.cost_model->has_proofs() ? lower_bound : 0;
    return finish_plan(problem_, options_, std::move(movement), frame_ ? frame_->view : std::vector<Shape>{}, planner,
                       {proved, floor});
  }

  Plan plan_leanly() const {
    std::optional<Plan> best;
    for (const PlannerKind kind : {PlannerKind::wide, PlannerKind::direct, PlannerKind::paper}) {
      const bool is_avoided = kind == PlannerKind::direct && options_.exchange == ExchangeUse::avoided;
      if (is_avoided || (typed_ && find_size_fault(*typed_, kind, options_))) continue;
      Plan plan = plan_by(kind);
      const auto rank = [&](const Plan& made) {
        return std::pair(run_bytes(made, problem_, options_, options_.tiles), made.cost.total);
      };
      if (!best || rank(plan) < rank(*best)) best = std::move(plan);
    }
    return best ? std::move(*best) : plan_by(PlannerKind::wide);  // which says why there is none
  }

  const Problem& problem_;
  const PlanOptions& options_;
  const std::int64_t world_;
  std::optional<Frame> frame_;  // where the ends are no types, but have one
  std::optional<TypedProblem> typed_;
};

// --- Sums.

Plan plan_partial(const Problem& problem, const PlanOptions& options) {
  PlanOptions part_options = options;
  part_options.memory_limit.reset();  // a promise for the whole
  SumPlan parts = plan_sum(problem, [&](const Layout& source, const Layout& target) {
    const Problem part(problem.id(), source, target, problem.element_type());
    return ProblemPlanner(part, part_options, problem.device_count(), ProblemPlanner::Dimensions::own).plan();
  });
  Movement movement = std::move(parts.first.movement);
  std::string planner = parts.first.planner;
  if (parts.second) {
    movement.steps.push_back({parts.reduce, parts.second->movement.source});
    std::vector<Step>& rest = parts.second->movement.steps;
    if (!rest.empty()) planner = parts.second->planner;
    std::move(rest.begin(), rest.end(), std::back_inserter(movement.steps));
  }
  Proved proved{parts.first.cost.lower_bound, parts.first.cost.floor};
  if (parts.second) proved = {options.cost_model->has_proofs() ? sum_bound(problem) : 0, sum_floor(problem)};
  Plan plan = finish_plan(problem, options, std::move(movement), {}, std::move(planner), proved);
  require_fit(plan, problem, options);
  return plan;
}

}  // namespace

const char* name_of(PlannerKind kind) { return kind_names.of(kind); }

std::optional<PlannerKind> find_planner(std::string_view name) { return kind_names.find(name); }

Plan make_plan(const Problem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan =
      problem.source().is_partial()
          ? plan_partial(problem, options)
          : ProblemPlanner(problem, options, problem.device_count(), ProblemPlanner::Dimensions::any_view).plan();
  plan.planning_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
#ifndef NDEBUG
  const bool affordable = problem.device_count() <= most_listed_devices;
  const std::vector<std::string> faults = affordable ? find_faults(plan, {}, 1) : std::vector<std::string>{};
  if (!faults.empty()) throw InternalError("a planner made a wrong plan: " + faults.front());
#endif
  return plan;
}

}  // namespace retile
