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
#include "retile/plan/step_traits.h"
#include "retile/plan/verify.h"
#include "retile/planner/clipped_bound.h"
#include "retile/planner/frame.h"
#include "retile/planner/periods.h"
#include "retile/planner/planned_steps.h"
#include "retile/planner/sum_planner.h"

namespace retile {
namespace {

constexpr Names<PlannerKind, 7> kind_names{{"auto", "wide", "paper", "direct", "lean", "gather-slice", "two-level"}};

// The most devices of planners whose stages are tables with an entry per device: on meshes of mixed primes, and where
// exchanges are avoided.
constexpr std::int64_t most_tabled_mesh = std::int64_t{1} << 20U;

bool has_only_collectives(const PlanOptions& options) {
  return options.executor.transport == Executor::Transport::collectives;
}

// Names the plans that a planner's own bound holds for.
const char* plans_of(PlannerKind kind, const PlanOptions& options) {
  if (kind == PlannerKind::paper) return "the paper's collectives";
  return has_only_collectives(options) ? "wide plans without exchanges" : "wide plans";
}

// The reason why the planner cannot plan for so many devices, if it cannot.
std::optional<Fault> find_size_fault(const TypedProblem& problem, PlannerKind kind, const PlanOptions& options) {
  const std::int64_t devices = problem.mesh().device_count();
  const bool is_tabled = kind == PlannerKind::wide || kind == PlannerKind::paper;
  if (!is_tabled || devices <= most_tabled_mesh) return std::nullopt;
  if (kind == PlannerKind::wide && has_only_collectives(options)) {
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
  if (const auto fault = find_size_fault(problem, kind, options)) throw InputError(*fault);
  switch (kind) {
    case PlannerKind::wide:
      return plan_wide(problem, options);
    case PlannerKind::paper:
      return plan_paper(problem, options);
    case PlannerKind::direct:
      return plan_direct(problem);
    case PlannerKind::two_level:
      return plan_two_level(problem, options);
    case PlannerKind::gather_slice:
      return plan_gather_slice(problem);
    case PlannerKind::automatic:
    case PlannerKind::lean:
      break;
  }
  throw InternalError("no planner by itself");
}

// --- Layouts that are no types: on grids that reach beyond the array, or box by box.

std::vector<Step> clip_steps(std::vector<Step> steps, const Shape& global) {
  for (Step& step : steps) step.after = clip(step.after, global);
  return steps;
}

// --- Memory.

std::int64_t run_bytes(const Plan& plan, const Problem& problem, const PlanOptions& options, TileUse tiles) {
  return predict_peak_bytes(plan.movement, bytes_of(problem.element_type()), tiles, options.executor.memory);
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
  std::int64_t lower_bound = 0;  // under cost models with proofs
  std::string over;              // the plans that the bound holds for
  std::int64_t floor = 0;
};

// Whether costs are times on the machine.
bool is_timed(const PlanOptions& options) { return options.cost_model == options.machine; }

Plan finish_plan(const Problem& problem, const PlanOptions& options, Movement movement, std::vector<Shape> view,
                 std::string planner, const Proved& proved) {
  const CostModel& model = *options.cost_model;
  const std::int64_t element_size = bytes_of(problem.element_type());
  PlanCost cost;
  if (!is_timed(options)) {
    cost = price(model, movement, element_size);
    cost.lower_bound = model.least_cost(proved.floor, movement.target().local_size());
  }
  cost.floor = proved.floor;
  cost.over = all_plans;
  if (model.has_proofs() && proved.lower_bound > cost.lower_bound) {
    cost.lower_bound = proved.lower_bound;
    cost.over = proved.over;
  }
  cost.optimal = cost.total == cost.lower_bound;
  PlanMemory memory{movement.source.local_size(), movement.target().local_size(), 0, height(movement)};
  memory.bound = std::max({memory.source, memory.target, memory.peak});
  Plan plan{problem.id(),        problem.source(), problem.target(),
            std::move(movement), std::move(view),  std::move(planner),
            std::move(cost),     memory,           0};
  add_time(plan, options, element_size);
  return plan;
}

// --- Problems between layouts that are no sums.

class ProblemPlanner {
 public:
  enum class Dimensions { any_view, own };

  // Plans for a world that is at least as large as the problem's. Refers to the problem. With Dimensions::any_view,
  // plans may see dimensions in factors.
  ProblemPlanner(const Problem& problem, const PlanOptions& options, std::int64_t world, Dimensions dimensions)
      : problem_(problem), options_(options), world_(world), dimensions_(dimensions) {
    if (problem.device_count() < world) return;
    typed_ = typed(problem_);
    if (!typed_) frame_ = find_frame(problem_);
    if (frame_ && !frame_->view.empty() && dimensions == Dimensions::own) frame_.reset();
    if (frame_) typed_.emplace(frame_->source, frame_->target, bytes_of(problem.element_type()));
  }

  Plan plan() const {
    if (options_.planner == PlannerKind::automatic) {
      if (auto plan = is_timed(options_) ? fastest_plan() : cheapest_plan()) return std::move(*plan);
    }
    const bool is_lean = options_.planner == PlannerKind::automatic || options_.planner == PlannerKind::lean;
    Plan plan = is_lean ? plan_leanly() : plan_by(options_.planner, options_);
    require_fit(plan, problem_, options_);
    return plan;
  }

 private:
  // --- The choice of `auto`.

  // The best plan so far for the executor.
  struct Choice {
    std::optional<Plan> plan;
    std::pair<bool, long double> rank;  // whether it has too many rounds, and its weighted cost

    // Whether the plan is at least as good as every plan that costs `least_cost` or more and whose steps weigh
    // `least_weight` or more.
    bool is_unbeatable(std::int64_t least_cost, double least_weight) const {
      return plan && !rank.first && rank.second <= least_weight * static_cast<long double>(least_cost);
    }
  };

  // The cheapest plan for the executor that fits the memory limit; the first of equally cheap ones. Nothing where none
  // fits.
  std::optional<Plan> cheapest_plan() const {
    const Executor& executor = options_.executor;
    const double collective_weight = std::min(1.0, executor.first_weight);
    Choice choice;
    std::int64_t collectives_bound = 0;  // a lower bound on plans without exchanges
    if (!has_only_collectives(options_)) {
      if (const auto wide = offer(PlannerKind::wide, options_, choice)) {
        const std::int64_t least = options_.cost_model->least_cost(wide->cost.floor, wide->target_size);
        if (choice.is_unbeatable(least, collective_weight * std::min(1.0, executor.exchange_weight))) {
          return std::move(choice.plan);
        }
        collectives_bound = wide->cost.lower_bound;
      }
      if (typed_) offer(PlannerKind::direct, options_, choice);
    }
    // Allowing exchanges never makes plans dearer, unless they weigh more than collectives.
    const bool is_cheapest = choice.plan && !choice.rank.first && executor.exchange_weight <= 1 &&
                             choice.plan->cost.total <= collectives_bound;
    const bool has_collectives = typed_ || has_only_collectives(options_);
    if (has_collectives && !is_cheapest && !choice.is_unbeatable(collectives_bound, collective_weight)) {
      offer_collectives(choice);
    }
    return std::move(choice.plan);
  }

  // The fastest plan for the executor that fits the memory limit, where costs are times. All plans of one stage take
  // equally long, so one exchange stands for them. Every other plan takes at least the least time and one stage more.
  std::optional<Plan> fastest_plan() const {
    Choice choice;
    if (!has_only_collectives(options_)) {
      const auto direct = offer(PlannerKind::direct, options_, choice);
      const std::int64_t longer = direct ? direct->cost.lower_bound + options_.machine->least_stage() : 0;
      if (!typed_ || choice.is_unbeatable(longer, std::min(1.0, options_.executor.first_weight))) {
        return std::move(choice.plan);
      }
      if (options_.machine->machine().hosts.size() > 1) offer(PlannerKind::two_level, options_, choice);
      offer(PlannerKind::wide, options_, choice);
    }
    const PlanOptions options = collectives_alone();
    for (const PlannerKind kind : {PlannerKind::wide, PlannerKind::paper, PlannerKind::gather_slice}) {
      offer(kind, options, choice);
    }
    return std::move(choice.plan);
  }

  // Offers plans without exchanges. Wide ones cost no more than the paper's, but may not fit the memory limit.
  void offer_collectives(Choice& choice) const {
    const PlanOptions options = collectives_alone();
    const std::optional<Offer> wide = offer(PlannerKind::wide, options, choice);
    if (!wide || !wide->fits) offer(PlannerKind::paper, options, choice);
  }

  // What is known about a plan after it was compared with the choice.
  struct Offer {
    bool fits = false;
    PlanCost cost;
    std::int64_t target_size = 0;
  };

  // Takes the planner's plan as the choice where it fits and is better. Nothing where the planner has no plan.
  std::optional<Offer> offer(PlannerKind kind, const PlanOptions& options, Choice& choice) const {
    if (typed_ && find_size_fault(*typed_, kind, options)) return std::nullopt;
    Plan plan = plan_by(kind, options);
    Offer made{fits(plan, problem_, options_), plan.cost, plan.memory.target};
    const std::pair rank(!has_few_rounds(plan, options_.executor), weighted_cost(plan, options_.executor));
    if (made.fits && (!choice.plan || rank < choice.rank)) choice = {std::move(plan), rank};
    return made;
  }

  Plan plan_by(PlannerKind kind, const PlanOptions& options) const {
    if (!typed_) return plan_between_boxes();
    PlannedSteps planned = plan_steps(*typed_, kind, options);
    // The wide planner searches fewer plans without exchanges than the paper's planner, whose plans are such plans too.
    const bool is_portable = kind == PlannerKind::wide && has_only_collectives(options);
    if (is_portable && !is_timed(options)) improve_by_paper(planned);
    Proved proved{planned.lower_bound, plans_of(kind, options), 0};
    if (frame_) return clip_plan(kind, std::move(planned), proved);
    proved.floor = received_floor(typed_->source(), typed_->target());
    return finish({typed_->mesh(), Placement(typed_->source()), std::move(planned.steps)}, kind, proved);
  }

  // The frame's plan, clipped to the array.
  Plan clip_plan(PlannerKind kind, PlannedSteps planned, Proved proved) const {
    const Placement source(frame_->shape, frame_->source);
    const Placement target(frame_->shape, frame_->target);
    proved.floor = received_floor(source, target);
    const bool moves =
        std::any_of(planned.steps.begin(), planned.steps.end(), [](const Step& step) { return traits_of(step).moves; });
    if (proved.floor == 0 && moves && kind != PlannerKind::gather_slice) {  // only elements beyond the array would move
      planned.steps.clear();
      if (!(source == target)) planned.steps.push_back({SliceStep{}, target});
    }
    proved.lower_bound = proved.floor == 0 ? 0 : clipped_bound(*typed_, frame_->shape, planned.lower_bound);
    const auto clipped = [&](std::vector<Step> steps) {
      return finish({typed_->mesh(), source, clip_steps(std::move(steps), frame_->shape)}, kind, proved);
    };
    Plan plan = clipped(std::move(planned.steps));
    const std::int64_t larger = std::max(plan.memory.source, plan.memory.target);
    if (kind != PlannerKind::paper || plan.memory.peak <= larger) return plan;
    // Tiles of equal size on the grid may differ in size once clipped to the array, so that the peak rose: look for a
    // plan that stays below.
    auto within = plan_paper_within(*typed_, options_, frame_->shape, larger);
    return within ? clipped(std::move(*within)) : plan;
  }

  void improve_by_paper(PlannedSteps& planned) const {
    const Movement movement{typed_->mesh(), Placement(typed_->source()), planned.steps};
    const std::int64_t total = price(*options_.cost_model, movement, typed_->element_size()).total;
    if (options_.cost_model->has_proofs() && total == planned.lower_bound) return;
    if (auto steps = plan_paper_below(*typed_, options_, total)) planned.steps = std::move(*steps);
  }

  // Plans one exchange for every planner: between boxes no plan is cheaper.
  Plan plan_between_boxes() const {
    if (has_only_collectives(options_)) {
      throw InputError("there is no plan without an exchange", "no common grid has both layouts' boxes as tiles");
    }
    const MovedArray array = moved_array(
        problem_.target(), dimensions_ == Dimensions::any_view ? find_periods(problem_) : std::vector<Shape>());
    Placement source = problem_.source().inside(world_, array);
    const Placement target = problem_.target().placement(world_, array);
    const DistinctEnds distinct = distinct_ends(problem_.source(), problem_.target(), world_, array.view);
    const Proved proved{0, "", received_floor(distinct.source, distinct.target)};
    PlannedSteps planned = source == target ? PlannedSteps{} : plan_boxes(source, target);
    return finish_plan(problem_, options_, {world_mesh(world_), std::move(source), std::move(planned.steps)},
                       array.view, name_of(PlannerKind::direct), proved);
  }

  Plan finish(Movement movement, PlannerKind kind, const Proved& proved) const {
    return finish_plan(problem_, options_, std::move(movement), frame_ ? frame_->view : std::vector<Shape>{},
                       name_of(kind), proved);
  }

  // Among the plans that `auto` chooses from, the one whose run takes the least memory.
  Plan plan_leanly() const {
    std::optional<Plan> best;
    const auto offer_lean = [&](PlannerKind kind, const PlanOptions& options) {
      if (typed_ && find_size_fault(*typed_, kind, options)) return;
      Plan plan = plan_by(kind, options);
      const auto rank = [&](const Plan& made) {
        return std::pair(run_bytes(made, problem_, options_, options_.tiles), made.cost.total);
      };
      if (!best || rank(plan) < rank(*best)) best = std::move(plan);
    };
    if (!has_only_collectives(options_)) {
      offer_lean(PlannerKind::wide, options_);
      offer_lean(PlannerKind::direct, options_);
    }
    offer_lean(PlannerKind::paper, options_);
    if (typed_ || has_only_collectives(options_)) offer_lean(PlannerKind::wide, collectives_alone());
    return best ? std::move(*best) : plan_by(PlannerKind::wide, options_);  // throws the reason why there is none
  }

  PlanOptions collectives_alone() const {
    PlanOptions options = options_;
    options.executor.transport = Executor::Transport::collectives;
    return options;
  }

  const Problem& problem_;
  const PlanOptions& options_;
  const std::int64_t world_;
  const Dimensions dimensions_;
  std::optional<Frame> frame_;  // set where the ends are no types, but have a frame
  std::optional<TypedProblem> typed_;
};

// --- Sums.

// Plans a sum, ignoring the memory limit.
Plan plan_parts(const Problem& problem, const PlanOptions& options) {
  PlanOptions part_options = options;
  part_options.memory_limit.reset();  // it applies to the whole plan
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
  Proved proved{parts.first.cost.lower_bound, parts.first.cost.over, parts.first.cost.floor};
  if (parts.second) proved = {sum_bound(problem), "plans with one reduction", sum_floor(problem)};
  return finish_plan(problem, options, std::move(movement), {}, std::move(planner), proved);
}

// Plans a sum. `auto` chooses a planner for each part of the way; where costs are times, one planner for all parts may
// be faster as a whole, so each is tried.
Plan plan_fastest_parts(const Problem& problem, const PlanOptions& options) {
  Plan fastest = plan_parts(problem, options);
  if (!is_timed(options) || options.planner != PlannerKind::automatic) return fastest;
  for (const PlannerKind kind :
       {PlannerKind::direct, PlannerKind::wide, PlannerKind::paper, PlannerKind::gather_slice}) {
    if (kind == PlannerKind::direct && has_only_collectives(options)) continue;
    PlanOptions single = options;
    single.planner = kind;
    Plan plan = plan_parts(problem, single);
    const auto rank = [&](const Plan& made) {
      return std::pair(!fits(made, problem, options), weighted_cost(made, options.executor));
    };
    if (rank(plan) < rank(fastest)) fastest = std::move(plan);
  }
  return fastest;
}

Plan plan_partial(const Problem& problem, const PlanOptions& options) {
  Plan plan = plan_fastest_parts(problem, options);
  if (options.planner == PlannerKind::automatic && !fits(plan, problem, options)) {
    PlanOptions lean = options;
    lean.planner = PlannerKind::lean;
    Plan leaner = plan_parts(problem, lean);
    const auto bytes = [&](const Plan& made) { return run_bytes(made, problem, options, options.tiles); };
    if (bytes(leaner) < bytes(plan)) plan = std::move(leaner);
  }
  require_fit(plan, problem, options);
  return plan;
}

}  // namespace

const char* name_of(PlannerKind kind) { return kind_names.of(kind); }

std::optional<PlannerKind> find_planner(std::string_view name) { return kind_names.find(name); }

PlanOptions on_machine(const Machine& machine, PlanOptions options) {
  options.machine = &seconds_model(machine);
  options.cost_model = options.machine;
  return options;
}

void add_time(Plan& plan, const PlanOptions& options, std::int64_t element_size) {
  if (options.machine == nullptr) return;
  plan.time = options.machine->time(plan.movement, plan.cost.floor, element_size);
  if (!is_timed(options)) return;
  PlanCost& cost = plan.cost;
  cost.model = options.machine->name();
  cost.steps.clear();
  for (const StepTime& step : plan.time->steps) cost.steps.push_back(step.picoseconds);
  cost.total = plan.time->total;
  cost.lower_bound = plan.time->lower_bound.picoseconds;
  cost.over = all_plans;
  cost.optimal = cost.total == cost.lower_bound;
}

Plan make_plan(const Problem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.machine != nullptr) require_devices(options.machine->machine(), problem.device_count());
  PlanOptions weighed = options;
  if (is_timed(options)) {  // the machine tells what steps take
    weighed.executor.exchange_weight = 1;
    weighed.executor.first_weight = 1;
  }
  Plan plan =
      problem.source().is_partial()
          ? plan_partial(problem, weighed)
          : ProblemPlanner(problem, weighed, problem.device_count(), ProblemPlanner::Dimensions::any_view).plan();
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
