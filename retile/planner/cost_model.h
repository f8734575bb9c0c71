// Cost models: what a step costs, in elements per device.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "retile/plan/plan.h"

namespace retile {

enum class CostModel {
  paper,   // fig:cost-model; an exchange costs the local size it leads to
  volume,  // the most elements that any device receives, own part not counted
};

constexpr std::string_view cost_model_names = "paper, volume";

const char* name_of(CostModel model);
std::optional<CostModel> find_cost_model(std::string_view name);

std::int64_t step_cost(CostModel model, const Step& step);
// The same for a step whose lists may be symbolic.
std::int64_t step_cost(CostModel model, const Step& step, const Placement& before);

// Sets every step's cost and the plan's model and total. Throws InputError where the total does not
// fit in 63 bits.
void price(Plan& plan, CostModel model);

// Whether every device's tiles under the two types nest in the dimension: one is part of the other.
bool always_nest(const DistributedType& source, const DistributedType& target, int dimension);

// The most elements that some device must receive on any way from source to target: its target box
// less what it already holds. Under both models every plan costs at least this.
std::int64_t received_floor(const DistributedType& source, const DistributedType& target);

}  // namespace retile
