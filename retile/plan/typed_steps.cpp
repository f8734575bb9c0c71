#include "retile/plan/typed_steps.h"

#include <utility>

namespace retile {
namespace {

StepOperation operation_of(const Collective& collective) {
  const std::int64_t factor = factor_of(collective);
  if (const auto* slice = std::get_if<DynSlice>(&collective)) return SliceStep{{{slice->dimension, factor}}};
  if (const auto* move = std::get_if<AllToAll>(&collective)) return AllToAllStep{{{move->from, move->to, factor}}, {}};
  if (const auto* gather = std::get_if<AllGather>(&collective)) return GatherStep{{{gather->dimension, factor}}, {}};
  return PermuteStep{};
}

}  // namespace

std::vector<Step> typed_steps(const Sequence& sequence) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    steps.push_back({operation_of(sequence.steps()[i]), Placement(sequence.types()[i + 1])});
  }
  return steps;
}

}  // namespace retile
