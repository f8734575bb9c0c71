// How much a planner may still do. Work is counted, not timed: a problem has the same plan on every machine.
#pragma once

#include <algorithm>
#include <cstdint>

namespace retile {

class WorkBudget {
 public:
  // A unit is about ten nanoseconds of one core: at effort 1 a search ends within 60 milliseconds.
  static constexpr double units_of_effort = 6e6;
  static constexpr double most_effort = 1e6;

  static WorkBudget of_effort(double effort) { return WorkBudget(static_cast<std::int64_t>(effort * units_of_effort)); }
  explicit WorkBudget(std::int64_t units) : left_(units) {}

  void spend(std::int64_t units) { left_ -= std::min(left_, units); }
  bool is_spent() const { return left_ == 0; }
  std::int64_t left() const { return left_; }

 private:
  std::int64_t left_;
};

}  // namespace retile
