// Prints how planning time grows, as a table in Markdown: with the prime factors of the mesh and the
// dimensions of the array, while the number of devices may be anything.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/problem_times.h"
#include "bench/sample_problems.h"
#include "retile/planner/cut_problem.h"
#include "retile/planner/path_search.h"
#include "retile/planner/planner.h"
#include "retile/planner/routing.h"

namespace retile::bench {
namespace {

constexpr std::int64_t primes[] = {2, 3, 5, 7};

struct Row {
  int factors;  // axes of the mesh, each as long as the prime
  int dimensions;
};

constexpr Row rows[] = {{2, 3},  {3, 3},  {4, 3}, {5, 3}, {6, 3}, {8, 3},
                        {10, 3}, {12, 3}, {4, 1}, {4, 2}, {4, 4}, {4, 5}};

// The paper's planner falls back to tables of devices for the few plans that digits do not describe.
constexpr std::int64_t most_devices = 1 << 20;

std::int64_t power(std::int64_t base, int exponent) {
  std::int64_t result = 1;
  for (; exponent > 0; --exponent) result *= base;
  return result;
}

// How often the primes divide each dimension: the same for all of them, so that layouts are the same, and such
// that the largest array has fewer than 2^63 elements.
int cuts_per_dimension(const Row& row) {
  const int most = static_cast<int>(62 / (row.dimensions * std::log2(static_cast<double>(primes[3]))));
  return std::min(row.factors, most);
}

ProblemFamily family_of(const Row& row, std::int64_t prime) {
  ProblemFamily family;
  family.axes.assign(static_cast<std::size_t>(row.factors), prime);
  family.shape.assign(static_cast<std::size_t>(row.dimensions), power(prime, cuts_per_dimension(row)));
  family.count = 60;
  return family;
}

// The search of the paper's planner alone: no steps, no lists.
SearchResult search(const Problem& problem) {
  const TypedProblem ends = require_typed(problem);
  const CutProblem cuts = cut_problem_of(ends);
  WorkBudget budget(1);
  const std::unique_ptr<Router> router = make_digit_router(ends, cuts, budget);
  return search_paths(
      cuts, [&](std::span<const Cuts> layers) { return router->judge(layers); }, budget);
}

double time_search(const Problem& problem) {
  return seconds_of([&] { return search(problem); });
}

template <PlannerKind planner>
double time_planning(const Problem& problem) {
  PlanOptions options;
  options.planner = planner;
  return seconds_of([&] { return make_plan(problem, options); });
}

double median_microseconds(const std::vector<Problem>& problems, const ProblemTimes::Timer& timer) {
  ProblemTimes times(problems, timer);
  for (int pass = 0; pass < 15; ++pass) times.pass();
  return 1e6 * times.percentile(0.5);
}

std::string cell(const Row& row, std::int64_t prime) {
  if (power(prime, row.factors) > most_devices) return "";
  const std::vector<Problem> problems = sample_problems(family_of(row, prime));
  std::string text = fmt::format("{}:", power(prime, row.factors));
  for (const auto timer : {time_search, time_planning<PlannerKind::paper>, time_planning<PlannerKind::wide>}) {
    text += fmt::format(" {:.0f}", median_microseconds(problems, timer));
  }
  return text;
}

void print_row(const Row& row) {
  fmt::print("| {} | {} |", row.factors, row.dimensions);
  for (const std::int64_t prime : primes) fmt::print(" {} |", cell(row, prime));
  fmt::print("\n");
}

void print_table() {
  std::string header = "| prime factors | dimensions |";
  std::string line = "|---|---|";
  for (const std::int64_t prime : primes) {
    header += fmt::format(" axes of {} |", prime);
    line += "---|";
  }
  fmt::print("{}\n{}\n", header, line);
  for (const Row& row : rows) print_row(row);
}

}  // namespace
}  // namespace retile::bench

int main() { retile::bench::print_table(); }
