// Rounds of permutations as statements: cells are cut, sent, and put together to tiles.
#pragma once

#include "retile/plan/rounds.h"
#include "retile/tensors/builder.h"
#include "retile/tensors/lowering.h"

namespace retile::tensors {

// The tile after the rounds, of the shape `whole`. A gather along the outermost dimension may come next.
Value lower_rounds(ProgramBuilder& builder, const LoweringOptions& options, Value tile, const Rounds& rounds,
                   const Shape& whole, bool is_gathered_next);

}  // namespace retile::tensors
