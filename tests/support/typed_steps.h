// The steps of a plan for a sequence of typed collectives.
#pragma once

#include <vector>

#include "retile/collectives/sequence.h"
#include "retile/plan/plan.h"

namespace retile::test {

// One plan step per collective, lists absent.
inline std::vector<Step> typed_steps(const Sequence& sequence) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const Collective& collective = sequence.steps()[i];
    const std::int64_t factor = factor_of(collective);
    StepOperation operation = PermuteStep{};
    if (const auto* slice = std::get_if<DynSlice>(&collective)) operation = SliceStep{{{slice->dimension, factor}}};
    if (const auto* move = std::get_if<AllToAll>(&collective))
      operation = AllToAllStep{{{move->from, move->to, factor}}, {}};
    if (const auto* gather = std::get_if<AllGather>(&collective))
      operation = GatherStep{{{gather->dimension, factor}}, {}};
    steps.push_back({std::move(operation), Placement(sequence.types()[i + 1])});
  }
  return steps;
}

}  // namespace retile::test
