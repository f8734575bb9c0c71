// The rules for steps against the verifier, which replays boxes.
#include "retile/language/step_rules.h"

#include <gtest/gtest.h>

#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

using language::find_step_fault;

bool is_possible(const Mesh& mesh, const StepOperation& operation, const Placement& before, const Placement& after) {
  return find_faults(Movement{mesh, before, {{operation, after}}}).empty();
}

// The dimensions that get longer from one shape to the other, and by how much.
std::vector<DimensionFactor> growth(const Shape& from, const Shape& to) {
  std::vector<DimensionFactor> factors;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] < to[i]) factors.push_back({static_cast<int>(i), to[i] / from[i]});
  }
  return factors;
}

// From one local shape to the other, with a single move where there is one.
std::vector<StepOperation> operations_between(const Shape& from, const Shape& to) {
  const std::vector<DimensionFactor> longer = growth(from, to);
  const std::vector<DimensionFactor> shorter = growth(to, from);
  std::vector<Move> moves;
  if (!longer.empty() && !shorter.empty()) {
    moves.push_back({longer.back().dimension, shorter.back().dimension, longer.back().factor});
  }
  return {SliceStep{shorter}, GatherStep{longer, {}}, AllToAllStep{moves, {}}, PermuteStep{}, ExchangeStep{}};
}

struct Counts {
  int possible = 0;
  int impossible = 0;
};

void compare(const Mesh& mesh, const Placement& before, const Placement& after, Counts& counts) {
  for (const StepOperation& operation : operations_between(before.local_shape(), after.local_shape())) {
    const bool possible = is_possible(mesh, operation, before, after);
    EXPECT_EQ(!find_step_fault(operation, before, after).has_value(), possible)
        << to_string(operation) << " from " << to_string(mesh, before) << " to " << to_string(mesh, after);
    ++(possible ? counts.possible : counts.impossible);
  }
}

TEST(StepRules, agree_with_the_verifier_on_types) {
  RandomProblems random(11);
  Counts counts;
  for (const char* text : {"a=2,b=2", "a=4,b=2", "a=2,b=3", "a=6", "a=2,b=2,c=3"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 400; ++i) {
      const Problem problem = random.problem(mesh, random.shape(2, {4, 6, 12}));
      compare(mesh, problem.source().placement(), problem.target().placement(), counts);
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

TEST(StepRules, agree_with_the_verifier_on_tables) {
  RandomProblems random(12);
  Counts counts;
  for (const char* text : {"a=2,b=2", "a=4", "a=2,b=3"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 600; ++i) {
      const Problem problem = random.problem(mesh, random.shape(2, {2, 4, 6}));
      const Placement before = scrambled(random, require_typed(problem).source());
      const bool table = random.number(2) == 0;
      compare(mesh, before, table ? scrambled(random, require_typed(problem).target()) : problem.target().placement(),
              counts);
    }
  }
  EXPECT_GT(counts.possible, 1000);
  EXPECT_GT(counts.impossible, 500);
}

}  // namespace
}  // namespace retile::test
