// Cost models: what a step costs. To add one, write a file like paper.cpp and name it in cost_model.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "retile/plan/plan.h"

namespace retile {

// What a model sees of a step.
struct StepWork {
  StepOp op = StepOp::dynslice;
  std::int64_t before = 1;  // elements per device: local sizes
  std::int64_t after = 1;
  std::int64_t received = 0;  // the most elements that any device receives, own part not counted
};

// A cost is a number of the model's own unit; smaller is better. Searches rely on this:
//   - slices and reductions, for which nothing moves, cost nothing
//   - no cost falls when sizes or elements received grow, the rest being equal
//   - gathers one after the other cost no less than the one gather that does the same
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
  // No plan costs less in which some device has to receive so many elements.
  virtual std::int64_t least_cost(std::int64_t received) const = 0;

  // Whether cost() looks at `received`, which takes going through boxes.
  virtual bool counts_received() const = 0;
  // Whether the planners' bounds, which are proved for the costs of fig:cost-model, hold (docs/theory.md).
  virtual bool has_proofs() const = 0;
};

// fig:cost-model: steps that move anything cost the local size that they lead to, exchanges too.
const CostModel& paper_model();
// The most elements that any device receives, own part not counted.
const CostModel& volume_model();

// "paper, volume", for messages.
std::string cost_model_names();
// Null where there is none of this name. Models live as long as the program.
const CostModel* find_cost_model(std::string_view name);

std::int64_t step_cost(const CostModel& model, const Step& step, const Placement& before);

// The cost of every step, and their sum; bounds are left open. Throws InputError where the sum does not fit in 63 bits.
PlanCost price(const CostModel& model, const Movement& movement);

// The most elements that some device must receive on any way from source to target: its target box
// less what it already holds.
std::int64_t received_floor(const DistributedType& source, const DistributedType& target);
std::int64_t received_floor(const Placement& source, const Placement& target);

// Whether every device's tiles under the two types nest in the dimension: one is part of the other.
bool always_nest(const DistributedType& source, const DistributedType& target, int dimension);

}  // namespace retile
