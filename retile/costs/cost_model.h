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

// A step as a cost model sees it. Sizes are known; anything that takes time is computed when a model asks for it.
class StepWork {
 public:
  // A step of these local sizes whose placements a search has not chosen yet. `received` is as below.
  StepWork(StepOp op, std::int64_t before, std::int64_t after, std::int64_t received, std::int64_t element_size);
  // A step of a movement. Refers to the step and to the placement that it starts from.
  StepWork(const Step& step, const Placement& before, std::int64_t element_size);

  StepOp op() const { return op_; }
  std::int64_t before() const { return before_; }  // elements on the device that holds the most
  std::int64_t after() const { return after_; }
  std::int64_t element_size() const { return element_size_; }  // bytes

  // The most elements that any device receives, its own part not counted (may require box intersections).
  std::int64_t received() const;

  // The step and the placement before it; null where placements are not chosen yet.
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
// equality. Smaller is better. Searches rely on these properties:
//   - slices and reductions, which move nothing, cost nothing while placements are not chosen
//   - a cost does not fall if sizes or elements received grow and all else is equal
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
  // The cost of each step of a movement. A model may know that steps are carried out together.
  virtual std::vector<std::int64_t> costs(const Movement& movement, std::int64_t element_size) const;
  // A lower bound on the cost of every plan, of whatever steps, in which some device has to receive `received` elements
  // and that ends with tiles of `target_size` elements.
  virtual std::int64_t least_cost(std::int64_t received, std::int64_t target_size) const = 0;

  // Whether the planners' bounds hold, which are proved for the costs of fig:cost-model (docs/theory.md).
  virtual bool has_proofs() const = 0;
};

// The model of fig:cost-model: a step that moves anything, exchanges included, costs the local size that it leads to.
const CostModel& paper_model();
// A step costs the most elements that any device receives, its own part not counted.
const CostModel& volume_model();

// The names of the models that need no machine (seconds.h), for messages: "paper, volume".
std::string cost_model_names();
// The model of this name; null where there is none. Models live as long as the program.
const CostModel* find_cost_model(std::string_view name);

// The cost of one step. `element_size` is in bytes, and matters to models that count bytes or time.
std::int64_t step_cost(const CostModel& model, const Step& step, const Placement& before,
                       std::int64_t element_size = 1);

// The cost of every step, and their sum, without bounds. Throws InputError where the sum does not fit in 63 bits.
PlanCost price(const CostModel& model, const Movement& movement, std::int64_t element_size = 1);

// The floor: the most elements that some device must receive, whatever the steps. These are its target box less what it
// already holds.
std::int64_t received_floor(const DistributedType& source, const DistributedType& target);
std::int64_t received_floor(const Placement& source, const Placement& target);

// Whether, in this dimension, one of every device's two tiles under the types always contains the other.
bool always_nest(const DistributedType& source, const DistributedType& target, int dimension);

}  // namespace retile
