#include "bench/problem_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace retile::bench {

ProblemTimes::ProblemTimes(const std::vector<Problem>& problems, Timer timer)
    : problems_(problems), timer_(std::move(timer)), best_(problems.size(), std::numeric_limits<double>::infinity()) {}

double ProblemTimes::pass() {
  double sum = 0;
  for (std::size_t i = 0; i < problems_.size(); ++i) {
    const double seconds = timer_(problems_[i]);
    best_[i] = std::min(best_[i], seconds);
    sum += seconds;
  }
  return sum;
}

double ProblemTimes::percentile(double share) const {
  std::vector<double> sorted = best_;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace retile::bench
