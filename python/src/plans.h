// Plans in the form that Python holds, and the options that it asks for them with.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "arguments.h"

namespace retile::python {

using PlannerName = Argument<"planner", std::string>;
using CostName = Argument<"cost", std::optional<std::string>>;  // none: seconds if there is a machine, else paper
using MemoryLimitBytes = Argument<"memory_limit", std::optional<std::int64_t>>;
using ExchangeFlag = Argument<"exchange", bool>;
using RelabelFlag = Argument<"relabel", bool>;
using MachineOrNone = Argument<"machine", std::optional<PythonMachine>>;

// These throw InputError where a name is unknown.
PlanOptions plan_options(PlannerName planner, CostName cost, MemoryLimitBytes memory_limit, ExchangeFlag exchange,
                         MachineOrNone machine);
Problem problem_of(const PythonLayout& source, const PythonLayout& target, const std::string& element_type);

struct GpuRuns;

class PythonPlan {
 public:
  explicit PythonPlan(Plan plan) : plan_(std::move(plan)) {}

  const Plan& plan() const { return plan_; }

  // The plan with all lists of devices filled in.
  std::shared_ptr<const Plan> listed() const {
    const std::scoped_lock lock(mutex_);
    if (!listed_) {
      Plan listed = plan_;
      listed.movement = with_lists(std::move(listed.movement));
      listed_ = std::make_shared<const Plan>(std::move(listed));
    }
    return listed_;
  }

  // The plan's prepared runs on GPUs; null where there are none yet.
  std::shared_ptr<GpuRuns>& gpu_runs() const { return gpu_runs_; }

  // Equal plans have equal keys, whatever time they took to find and whatever machine they are timed on.
  const std::string& key() const {
    const std::scoped_lock lock(mutex_);
    if (key_.empty()) {
      Plan timeless = plan_;
      timeless.planning_ns = 0;
      timeless.time.reset();
      key_ = to_json(timeless, PlanLists::always);
    }
    return key_;
  }

 private:
  Plan plan_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Plan> listed_;
  mutable std::string key_;
  mutable std::shared_ptr<GpuRuns> gpu_runs_;
};

}  // namespace retile::python
