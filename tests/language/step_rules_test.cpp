// The rules for steps against the verifier, which replays boxes.
#include "retile/language/step_rules.h"

#include <gtest/gtest.h>

#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

using language::find_step_fault;

// What the verifier makes of the step, devices listed.
bool is_possible(const Mesh& mesh, StepOp op, const std::vector<Move>& moves, const Placement& before,
                 const Placement& after) {
  const Step step{op, moves, {}, {}, {}, before.local_shape(), after, 0, true};
  return find_faults(Movement{mesh, before, {step}}).empty();
}

// Moves that lead from one local shape to the other, dimension by dimension where they do not mix.
std::vector<Move> moves_between(StepOp op, const Shape& from, const Shape& to) {
  std::vector<Move> moves;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto dimension = static_cast<int>(i);
    if (op == StepOp::dynslice && from[i] > to[i]) moves.push_back({-1, dimension, from[i] / to[i]});
    if (op == StepOp::allgather && from[i] < to[i]) moves.push_back({dimension, -1, to[i] / from[i]});
  }
  if (op != StepOp::alltoall) return moves;
  Move move;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] < to[i]) move.from = static_cast<int>(i);
    if (from[i] > to[i]) move.to = static_cast<int>(i);
    if (from[i] < to[i]) move.factor = to[i] / from[i];
  }
  if (move.from >= 0 && move.to >= 0) moves.push_back(move);
  return moves;
}

struct Counts {
  int possible = 0;
  int impossible = 0;
};

void compare(const Mesh& mesh, const Placement& before, const Placement& after, Counts& counts) {
  for (const StepOp op :
       {StepOp::dynslice, StepOp::allgather, StepOp::alltoall, StepOp::allpermute, StepOp::exchange}) {
    const std::vector<Move> moves = moves_between(op, before.local_shape(), after.local_shape());
    const bool possible = is_possible(mesh, op, moves, before, after);
    EXPECT_EQ(!find_step_fault(op, moves, before, after).has_value(), possible)
        << name_of(op) << " from " << to_string(mesh, before) << " to " << to_string(mesh, after);
    ++(possible ? counts.possible : counts.impossible);
  }
}

TEST(StepRules, AgreeWithTheVerifierOnTypes) {
  RandomProblems random(11);
  Counts counts;
  for (const char* text : {"a=2,b=2", "a=4,b=2", "a=2,b=3", "a=6", "a=2,b=2,c=3"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 400; ++i) {
      const Problem problem = random.problem(mesh, random.shape(2, {4, 6, 12}));
      compare(mesh, Placement(problem.source()), Placement(problem.target()), counts);
    }
  }
  EXPECT_GT(counts.possible, 1000);
  EXPECT_GT(counts.impossible, 1000);
}

// A type's placement with devices renumbered: balanced, and mostly of no type.
Placement scrambled(RandomProblems& random, const DistributedType& type) {
  const std::vector<std::int64_t> order = random.permutation(static_cast<std::size_t>(type.mesh().device_count()));
  std::vector<std::int64_t> corners;
  for (const std::int64_t device : order) {
    const Shape corner = type.base_offset(device);
    corners.insert(corners.end(), corner.begin(), corner.end());
  }
  return {type.global_shape(), type.local_shape(), std::move(corners)};
}

TEST(StepRules, AgreeWithTheVerifierOnTables) {
  RandomProblems random(12);
  Counts counts;
  for (const char* text : {"a=2,b=2", "a=4", "a=2,b=3"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 600; ++i) {
      const Problem problem = random.problem(mesh, random.shape(2, {2, 4, 6}));
      const Placement before = scrambled(random, problem.source());
      const bool table = random.number(2) == 0;
      compare(mesh, before, table ? scrambled(random, problem.target()) : Placement(problem.target()), counts);
    }
  }
  EXPECT_GT(counts.possible, 1000);
  EXPECT_GT(counts.impossible, 500);
}

}  // namespace
}  // namespace retile::test
