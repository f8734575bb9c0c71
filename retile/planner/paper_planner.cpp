// The paper's collectives (sections 6 and 7): search, routes, steps.
#include <memory>
#include <optional>
#include <utility>

#include "retile/planner/cut_problem.h"
#include "retile/planner/lowering.h"
#include "retile/planner/path_search.h"
#include "retile/planner/planners.h"
#include "retile/planner/routing.h"
#include "retile/planner/symbolic_lowering.h"

namespace retile {
namespace {

// Digits where they are enough, tables where they are not.
class PathRouter {
 public:
  PathRouter(const Problem& problem, const CutProblem& cuts, WorkBudget& budget)
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

  Routes routes(std::span<const Cuts> layers) {
    if (digits_ && digits_->judge(layers) == Verdict::lowers) return digits_->routes(layers);
    return tables().routes(layers);
  }

 private:
  static constexpr std::int64_t most_searched_devices = 64;  // by tables, after digits found nothing

  Router& tables() {
    if (!tables_) tables_ = make_table_router(problem_, cuts_, budget_);
    return *tables_;
  }

  const Problem& problem_;
  const CutProblem& cuts_;
  WorkBudget& budget_;
  std::unique_ptr<Router> digits_;
  std::unique_ptr<Router> tables_;
};

// Steps without tables, where the mesh is large and its digits are enough.
std::optional<std::vector<Step>> lower_symbolically(const Problem& problem, const CutProblem& cuts,
                                                    const NormalPath& path, PathRouter& router) {
  if (cuts.device_count <= most_tabled_devices || cuts.primes.size() > 1) return std::nullopt;
  if (path.permuted) return symbolic_narrow_steps(problem, path, permuted_digits(problem, path));
  const auto layers = router.digit_routes(layers_of(cuts, path));
  if (!layers) return std::nullopt;
  return symbolic_narrow_steps(problem, path, routed_digits(problem, path, *layers));
}

std::vector<Step> lower(const Problem& problem, const CutProblem& cuts, const NormalPath& path, PathRouter& router) {
  if (auto steps = lower_symbolically(problem, cuts, path, router)) return std::move(*steps);
  if (path.permuted) return narrow_steps(problem, path, permuted_stages(problem, path));
  return narrow_steps(problem, path, routed_stages(problem, path, router.routes(layers_of(cuts, path))));
}

}  // namespace

PlannedSteps plan_paper(const Problem& problem, const PlanOptions& options) {
  if (same_placement(problem.source(), problem.target())) return {};
  const CutProblem cuts = cut_problem_of(problem);
  WorkBudget budget = WorkBudget::of_effort(options.effort);
  PathRouter router(problem, cuts, budget);
  const SearchResult found = search_paths(
      cuts, [&](std::span<const Cuts> layers) { return router.judge(layers); }, budget, options.cost_model);
  // Under other weights a path that slices after its moves may beat a permutation: the search does not look at those.
  const std::int64_t lower_bound = options.cost_model == CostModel::paper ? found.lower_bound : 0;
  return {lower(problem, cuts, found.path, router), lower_bound};
}

}  // namespace retile
