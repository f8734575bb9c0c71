// Cost models: what a step costs. To add one, write a file like paper.cpp and name it in cost_model.cpp. Seconds on a
// machine are in seconds.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

// A step as a cost model sees it. Sizes are known; what takes time is worked out when a model asks for it.
class StepWork {
 public:
  // A step of these local sizes that a search looks at before it chooses placements. `received` as below.
  StepWork(StepOp op, std::int64_t before, std::int64_t after, std::int64_t received, std::int64_t element_size);
  // A step of a movement. Refers to the step and to the placement that it starts from.
  StepWork(const Step& step, const Placement& before, std::int64_t element_size);

  StepOp op() const { return op_; }
  std::int64_t before() const { return before_; }  // elements per device, the largest device's
  std::int64_t after() const { return after_; }
  std::int64_t element_size() const { return element_size_; }  // bytes

  // The most elements that any device receives, own part not counted (may require box intersections).
  std::int64_t received() const;

  // Null for a step whose placements are not chosen yet.
  const Step* step() const { return step_; }
  const Placement* placement_before() const { return placement_before_; }
  // The operation with its groups, pairs or pieces (requires box intersections where the step does not list them).
  // Nothing where placements are not chosen yet.
  std::optional<StepOperation> listed() const;

 private:
  StepOp op_;
  std::int64_t before_;
  std::int64_t after_;
  std::int64_t element_size_;
  mutable std::optional<std::int64_t> received_;
  const Step* step_ = nullptr;
  const Placement* placement_before_ = nullptr;
};

// A cost is a whole number of the model's own unit (elements, picoseconds), so that sums are exact and a proof is an
// equality. Smaller is better. Searches rely on this:
//   - slices and reductions, for which nothing moves, cost nothing as long as placements are not chosen
//   - no cost falls when sizes or elements received grow, the rest being equal
//   - gathers one after the other cost no less than the one gather that does the same
//   - a step whose placements are not chosen yet costs no more than the same step once they are
class CostModel {
 public:
  CostModel() = default;
  CostModel(const CostModel&) = delete;
  CostModel& operator=(const CostModel&) = delete;
  CostModel(CostModel&&) = delete;
  CostModel& operator=(CostModel&&) = delete;
  virtual ~CostModel() = default;

  virtual const char* name() const = 0;
  virtual std::int64_t cost(const StepWork& work) const = 0;
  // Of each step of a movement. A model may know that steps are carried out together.
  virtual std::vector<std::int64_t> costs(const Movement& movement, std::int64_t element_size) const;
  // No plan costs less, of whatever steps, in which some device has to receive so many elements and that ends with
  // tiles of so many elements.
  virtual std::int64_t least_cost(std::int64_t received, std::int64_t target_size) const = 0;

  // Whether the planners' bounds, which are proved for the costs of fig:cost-model, hold (docs/theory.md).
  virtual bool has_proofs() const = 0;
};

// fig:cost-model: steps that move anything cost the local size that they lead to, exchanges too.
const CostModel& paper_model();
// The most elements that any device receives, own part not counted.
const CostModel& volume_model();

// "paper, volume", for messages: those that need no machine (seconds.h).
std::string cost_model_names();
// Null where there is none of this name. Models live as long as the program.
const CostModel* find_cost_model(std::string_view name);

// Elements are of so many bytes, which matters to models that count bytes or time.
std::int64_t step_cost(const CostModel& model, const Step& step, const Placement& before,
                       std::int64_t element_size = 1);

// The cost of every step, and their sum; bounds are left open. Throws InputError where the sum does not fit in 63 bits.
PlanCost price(const CostModel& model, const Movement& movement, std::int64_t element_size = 1);

// The most elements that some device must receive on any way from source to target: its target box
// less what it already holds.
std::int64_t received_floor(const DistributedType& source, const DistributedType& target);
std::int64_t received_floor(const Placement& source, const Placement& target);

// Whether every device's tiles under the two types nest in the dimension: one is part of the other.
bool always_nest(const DistributedType& source, const DistributedType& target, int dimension);

}  // namespace retile
