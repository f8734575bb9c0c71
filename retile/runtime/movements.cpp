#include "retile/runtime/movements.h"

#include "retile/language/all_reduce.h"
#include "retile/planner/problem.h"

namespace retile::runtime {

using language::AllReduce;
using language::AllReduceTypes;
using language::ArrayType;
using language::Collective;

Movement MovementPlanner::plan(const DistributedType& from, const DistributedType& to) {
  return plans_.plan(Problem({}, from, to), options_)->movement;
}

std::vector<Movement> MovementPlanner::plan(const Mesh& mesh, const language::Statement& statement,
                                            const ArrayType& from, const ArrayType& to) {
  if (std::holds_alternative<AllReduce>(statement.operation)) {
    const AllReduceTypes types = all_reduce_types(mesh, from, to);
    return {plan(types.partial, types.to_add), plan(types.sums, types.result)};
  }
  if (const auto* collective = std::get_if<Collective>(&statement.operation)) {
    return {{mesh, from.placement, {collective->step}}};
  }
  return {plan(*from.placement.type(), *to.placement.type())};
}

}  // namespace retile::runtime
