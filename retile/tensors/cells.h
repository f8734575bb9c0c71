// Rounds of permutations as statements: cells are cut, sent, and joined to tiles.
#pragma once

#include "retile/plan/rounds.h"
#include "retile/tensors/builder.h"
#include "retile/tensors/lowering.h"

namespace retile::tensors {

// Adds the rounds, and returns the tile after them, of shape `whole`. `is_gathered_next` says that a gather along the
// outermost dimension follows.
Value lower_rounds(ProgramBuilder& builder, const LoweringOptions& options, Value tile, const Rounds& rounds,
                   const Shape& whole, bool is_gathered_next);

}  // namespace retile::tensors
