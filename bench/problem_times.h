// The time that something takes, problem by problem.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "retile/planner/problem.h"

namespace retile::bench {

// What the action returns is still there when the clock is read: its end is not part of the time.
template <typename Action>
double seconds_of(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  [[maybe_unused]] const auto result = action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A problem's time is its best over several passes, since whatever else the machine does only adds to it.
// Passes go through all problems, so that no problem finds its own data in the caches.
class ProblemTimes {
 public:
  using Timer = std::function<double(const Problem& problem)>;  // returns seconds

  ProblemTimes(const std::vector<Problem>& problems, Timer timer);

  // Times every problem once. Returns the seconds that all of them took.
  double pass();

  // The smallest time in seconds that at least this share of the problems keeps within.
  double percentile(double share) const;

 private:
  const std::vector<Problem>& problems_;
  const Timer timer_;
  std::vector<double> best_;  // seconds
};

}  // namespace retile::bench
