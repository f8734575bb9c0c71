// Lowering with types instead of tables, for meshes with too many devices to list. Meshes of a single
// prime only: there every stage of a plan is a type over the mesh's digits.
#pragma once

#include <optional>
#include <vector>

#include "retile/plan/plan.h"
#include "retile/planner/lowering.h"
#include "retile/planner/routing.h"

namespace retile {

// Cuts every dimension up to the grid with digits that the table does not use yet: those that `wish` has
// in the same place where they are free.
void fill_digits(const Problem& problem, const Shape& grid, const DigitTable& wish, DigitTable& table);

// The digits of a stage between two layers: those of both, and others up to the grid.
DigitTable join_digits(const Problem& problem, const DigitTable& first, const DigitTable& second, const Shape& grid,
                       const DigitTable& wish);

// The digits at every stage, as routed_stages() and permuted_stages() have them.
std::vector<DigitTable> routed_digits(const Problem& problem, const NormalPath& path,
                                      const std::vector<DigitTable>& layers);
std::vector<DigitTable> permuted_digits(const Problem& problem, const NormalPath& path);

std::vector<Step> symbolic_narrow_steps(const Problem& problem, const NormalPath& path,
                                        const std::vector<DigitTable>& stages);

// A step between two stages; its lists are left to be worked out.
Step symbolic_step(const Problem& problem, StepOp op, std::vector<Move> moves, const DigitTable& before,
                   const DigitTable& after);

}  // namespace retile
