// Lowering: every redistribution becomes the steps of its plan, as statements.
#pragma once

#include "retile/language/program_planner.h"
#include "retile/language/syntax.h"

namespace retile::language {

// The tree that the planner's program was made from, with collectives in place of redistribute, distribute and
// undistribute; a comment above each says what it does and costs, and which devices take part. Where nothing moves, the
// result's name gives way to the operand's. Everything else, comments too, stays as it is; the tree checks again, and a
// tree without redistributions is its own lowering. Throws InputError where there is no plan.
SyntaxTree lower(const SyntaxTree& tree, ProgramPlanner& planner);

}  // namespace retile::language
