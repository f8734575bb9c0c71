// The planner of the paper's collectives (sections 6 and 7): search, routes, steps.
#include <memory>
#include <optional>
#include <utility>

#include "retile/base/error.h"
#include "retile/planner/cut_problem.h"
#include "retile/planner/lowering.h"
#include "retile/planner/path_search.h"
#include "retile/planner/planned_steps.h"
#include "retile/planner/routing.h"

namespace retile {
namespace {

// Routes paths by digits where they suffice, by tables otherwise.
class PathRouter {
 public:
  PathRouter(const TypedProblem& problem, const CutProblem& cuts, WorkBudget& budget)
      : problem_(problem), cuts_(cuts), budget_(budget) {
    if (cuts.primes.size() <= 1) digits_ = make_digit_router(problem, cuts, budget);
  }

  Verdict judge(std::span<const Cuts> layers) {
    if (digits_) {
      const Verdict verdict = digits_->judge(layers);
      if (verdict != Verdict::undecided || cuts_.device_count > most_searched_devices) return verdict;
    }
    return tables().judge(layers);
  }

  std::optional<std::vector<DigitTable>> digit_routes(std::span<const Cuts> layers) {
    return digits_ ? digits_->digit_routes(layers) : std::nullopt;
  }

  std::vector<TileTable> routes(std::span<const Cuts> layers) {
    auto routes = digits_ ? digits_->routes(layers) : std::nullopt;
    if (!routes) routes = tables().routes(layers);
    ensure(routes.has_value(), "a path that was judged to lower has routes");
    return std::move(*routes);
  }

 private:
  static constexpr std::int64_t most_searched_devices = 64;  // most devices routed by tables after digits found nothing

  Router& tables() {
    if (!tables_) tables_ = make_table_router(problem_, cuts_, budget_);
    return *tables_;
  }

  const TypedProblem& problem_;
  const CutProblem& cuts_;
  WorkBudget& budget_;
  std::unique_ptr<Router> digits_;
  std::unique_ptr<Router> tables_;
};

class PaperPlanner {
 public:
  PaperPlanner(const TypedProblem& problem, const PlanOptions& options)
      : problem_(problem),
        model_(*options.cost_model),
        cuts_(cut_problem_of(problem)),
        budget_(options.effort),
        router_(problem, cuts_, budget_) {}

  // Limits what devices may hold of `array`, which ends before its grid does, from now on.
  void limit(const Shape& array, std::int64_t most_held) {
    cuts_.array = array;
    cuts_.most_held = most_held;
  }

  SearchResult search(std::int64_t below) {
    const auto judge = [&](std::span<const Cuts> layers) { return router_.judge(layers); };
    return search_paths(cuts_, judge, budget_, model_, below);
  }

  std::vector<Step> lower(const NormalPath& path, StepWidth width) {
    if (auto steps = lower_by_digits(path, width)) return std::move(*steps);
    const TileTable target = tile_table(problem_.target());
    if (path.permuted) {
      return path_steps(cuts_.global, path, permuted_stops(path, tile_table(problem_.source()), target), width);
    }
    return path_steps(cuts_.global, path, routed_stops(path, router_.routes(layers_of(cuts_, path)), target), width);
  }

 private:
  // Lowers by digits. Nothing where the mesh is small enough for tables or digits do not suffice.
  std::optional<std::vector<Step>> lower_by_digits(const NormalPath& path, StepWidth width) {
    if (cuts_.device_count <= most_tabled_devices || cuts_.primes.size() > 1) return std::nullopt;
    const DigitTable target = digit_table(problem_.target());
    if (path.permuted) {
      return path_steps(cuts_.global, path, permuted_stops(path, digit_table(problem_.source()), target), width);
    }
    const auto routes = router_.digit_routes(layers_of(cuts_, path));
    if (!routes) return std::nullopt;
    return path_steps(cuts_.global, path, routed_stops(path, *routes, target), width);
  }

  const TypedProblem& problem_;
  const CostModel& model_;
  CutProblem cuts_;
  WorkBudget budget_;
  PathRouter router_;
};

}  // namespace

PlannedSteps plan_paper(const TypedProblem& problem, const PlanOptions& options) {
  PaperPlanner planner(problem, options);
  const SearchResult found = planner.search(any_cost);
  return {planner.lower(found.path, StepWidth::narrow), found.lower_bound};
}

std::optional<std::vector<Step>> plan_paper_below(const TypedProblem& problem, const PlanOptions& options,
                                                  std::int64_t cost) {
  PaperPlanner planner(problem, options);
  const SearchResult found = planner.search(cost);
  if (found.cost == cost) return std::nullopt;
  return planner.lower(found.path, StepWidth::wide);
}

std::optional<std::vector<Step>> plan_paper_within(const TypedProblem& problem, const PlanOptions& options,
                                                   const Shape& array, std::int64_t most_held) {
  PaperPlanner planner(problem, options);
  planner.limit(array, most_held);
  const SearchResult found = planner.search(any_cost);
  if (found.cost == any_cost) return std::nullopt;
  return planner.lower(found.path, StepWidth::narrow);
}

}  // namespace retile
