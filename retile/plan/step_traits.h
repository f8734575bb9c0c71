// Traits of steps: the name and the properties of every kind of step, in one table.
#pragma once

#include <array>

#include "retile/base/list.h"
#include "retile/plan/plan.h"

namespace retile {

struct StepTraits {
  StepOp op = StepOp::dynslice;
  const char* name = "";  // in texts and JSON
  bool moves = false;     // data goes from device to device
};

// The traits in the order of StepOp.
constexpr std::array<StepTraits, 6> all_step_traits{{{StepOp::dynslice, "dynslice", false},
                                                     {StepOp::alltoall, "alltoall", true},
                                                     {StepOp::allgather, "allgather", true},
                                                     {StepOp::allpermute, "allpermute", true},
                                                     {StepOp::exchange, "exchange", true},
                                                     {StepOp::reduce, "reduce", false}}};
static_assert(all_step_traits.size() == std::variant_size_v<StepOperation>);

constexpr const StepTraits& traits_of(StepOp op) { return at(all_step_traits, op); }
inline const StepTraits& traits_of(const Step& step) { return traits_of(op_of(step)); }

}  // namespace retile
