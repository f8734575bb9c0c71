#include "bench/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include "bench/text_lines.h"
#include "evaluation/sampler.h"
#include "retile/planner/planner.h"

namespace retile::bench {

void declare_comparison(CLI::App& app, ComparisonArguments& arguments) {
  app.add_option("PROBLEMS", arguments.problems, "problems, one a line as JSON; default: the paper's family");
  app.add_option("--count", arguments.count, "how many of them, from the first")->capture_default_str();
  app.add_option("--scale", arguments.scale, "how many times smaller to make the arrays")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--repeat", arguments.repetitions, "repetitions, in turn; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

std::vector<Problem> moving_problems(const ComparisonArguments& arguments) {
  std::vector<Problem> problems;
  std::size_t seen = 0;
  for (const Problem& given : read_problems(arguments.problems)) {
    if (seen++ == arguments.count) break;
    Problem problem = evaluation::scale_problem(given, 1.0 / static_cast<double>(arguments.scale));
    if (make_plan(problem).cost.floor > 0) problems.push_back(std::move(problem));
  }
  return problems;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double RatioSummary::geometric_mean() const {
  double sum = 0;
  for (const double ratio : ratios_) sum += std::log(ratio);
  return std::exp(sum / static_cast<double>(std::max<std::size_t>(1, ratios_.size())));
}

std::string RatioSummary::text() const {
  if (ratios_.empty()) return "no problems";
  const auto [least, most] = std::minmax_element(ratios_.begin(), ratios_.end());
  return fmt::format("geometric mean {:5.2f}, least {:5.2f}, most {:5.2f}", geometric_mean(), *least, *most);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace retile::bench
