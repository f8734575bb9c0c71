// What benchmarks of engines share: problems of a size that fits, medians, and summaries of ratios.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/planner/problem.h"

namespace retile::bench {

// The problem with an array about `scale` times smaller, each dimension shrunk alike.
Problem shrink(const Problem& problem, std::int64_t scale);

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
