// What statements move: plans for redistributions, single steps for collectives, two movements for an allreduce.
#pragma once

#include <vector>

#include "retile/language/program.h"
#include "retile/planner/plan_cache.h"
#include "retile/planner/planner.h"

namespace retile::runtime {

class MovementPlanner {
 public:
  explicit MovementPlanner(const PlanOptions& options) : options_(options) {}

  // Of a Redistribute, a Collective or an AllReduce statement on the mesh; equal redistributions are planned once.
  // Between an allreduce's two movements, partial sums are added up (see language/all_reduce.h).
  std::vector<Movement> plan(const Mesh& mesh, const language::Statement& statement, const language::ArrayType& from,
                             const language::ArrayType& to);

 private:
  Movement plan(const DistributedType& from, const DistributedType& to);

  const PlanOptions options_;
  PlanCache plans_;
};

}  // namespace retile::runtime
