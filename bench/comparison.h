// What benchmarks of engines share: problems, medians, and summaries of ratios.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "retile/planner/problem.h"

namespace retile::bench {

struct ComparisonArguments {
  std::string problems = RETILE_SOURCE_DIR "/tests/data/problems.jsonl";
  std::size_t count = 100;
  std::int64_t scale = 1;  // how many times smaller arrays are made
  int repetitions = 5;
};

void declare_comparison(CLI::App& app, ComparisonArguments& arguments);

// Those of the chosen problems in which some device receives something.
std::vector<Problem> moving_problems(const ComparisonArguments& arguments);

double median(std::vector<double> values);

// "geometric mean  1.31, least  0.90, most  2.40".
class RatioSummary {
 public:
  void add(double ratio) { ratios_.push_back(ratio); }
  double geometric_mean() const;
  std::string text() const;

 private:
  std::vector<double> ratios_;
};

std::string processor_name();

}  // namespace retile::bench
