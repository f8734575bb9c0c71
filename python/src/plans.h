// A plan as Python holds it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "bindings.h"

namespace retile::python {

// Lists of devices that the planner left to be worked out are there, always.
Plan with_lists(Plan plan);

class PythonPlan {
 public:
  explicit PythonPlan(Plan plan) : plan_(std::move(plan)) {}

  const Plan& plan() const { return plan_; }

  std::shared_ptr<const Plan> listed() const {
    const std::scoped_lock lock(mutex_);
    if (!listed_) listed_ = std::make_shared<const Plan>(with_lists(plan_));
    return listed_;
  }

  // Equal plans have equal keys, whatever time they took to find.
  const std::string& key() const {
    const std::scoped_lock lock(mutex_);
    if (key_.empty()) {
      Plan timeless = plan_;
      timeless.planning_ns = 0;
      key_ = to_json(timeless, PlanLists::always);
    }
    return key_;
  }

 private:
  Plan plan_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Plan> listed_;
  mutable std::string key_;
};

}  // namespace retile::python
