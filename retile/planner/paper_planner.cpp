// The paper's collectives (sections 6 and 7): search, routes, steps.
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

// Digits where they are enough, tables where they are not.
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
  static constexpr std::int64_t most_searched_devices = 64;  // by tables, after digits found nothing

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

// By digits, where the mesh is large and they are enough.
std::optional<std::vector<Step>> lower_by_digits(const TypedProblem& problem, const CutProblem& cuts, const NormalPath& path,
                                                 PathRouter& router) {
  if (cuts.device_count <= most_tabled_devices || cuts.primes.size() > 1) return std::nullopt;
  const DigitTable target = digit_table(problem.target());
  if (path.permuted) {
    return narrow_steps(cuts.global, path, permuted_stops(path, digit_table(problem.source()), target));
  }
  const auto routes = router.digit_routes(layers_of(cuts, path));
  if (!routes) return std::nullopt;
  return narrow_steps(cuts.global, path, routed_stops(path, *routes, target));
}

std::vector<Step> lower(const TypedProblem& problem, const CutProblem& cuts, const NormalPath& path, PathRouter& router) {
  if (auto steps = lower_by_digits(problem, cuts, path, router)) return std::move(*steps);
  const TileTable target = tile_table(problem.target());
  if (path.permuted) {
    return narrow_steps(cuts.global, path, permuted_stops(path, tile_table(problem.source()), target));
  }
  return narrow_steps(cuts.global, path, routed_stops(path, router.routes(layers_of(cuts, path)), target));
}

}  // namespace

PlannedSteps plan_paper(const TypedProblem& problem, const PlanOptions& options) {
  const CutProblem cuts = cut_problem_of(problem);
  WorkBudget budget(options.effort);
  PathRouter router(problem, cuts, budget);
  const SearchResult found = search_paths(
      cuts, [&](std::span<const Cuts> layers) { return router.judge(layers); }, budget, *options.cost_model);
  return {lower(problem, cuts, found.path, router), found.lower_bound};
}

}  // namespace retile
