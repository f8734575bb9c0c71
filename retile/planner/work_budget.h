// How much a planner may still do. Work is counted, not timed: a problem has the same plan on every machine.
#pragma once

#include <algorithm>
#include <cstdint>

namespace retile {

class WorkBudget {
 public:
  // A unit is at most ten nanoseconds or so: at effort 1 a search ends within 60 milliseconds.
  static constexpr std::int64_t units = 6000000;
  static constexpr double most_effort = 1000;

  explicit WorkBudget(double effort) : effort_(std::min(effort, most_effort)), left_(scaled(units)) {}

  void spend(std::int64_t spent) { left_ -= std::min(left_, spent); }
  bool is_spent() const { return left_ == 0; }
  std::int64_t left() const { return left_; }

  // Scales a limit that holds at effort 1 to this effort; at least 1.
  std::int64_t scaled(std::int64_t limit) const {
    return std::max(std::int64_t{1}, static_cast<std::int64_t>(effort_ * static_cast<double>(limit)));
  }

 private:
  double effort_;
  std::int64_t left_;
};

}  // namespace retile
