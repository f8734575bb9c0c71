// A lowered function as statements.
#pragma once

#include <cstddef>

#include "retile/language/lowering.h"
#include "retile/language/syntax.h"

namespace retile::language {

// A function with collectives in place of redistributions between types; a comment above each says what it does and
// costs, and which devices take part. Other redistributions stay, with their steps as comments. Where nothing moves,
// the result's name gives way to the operand's. Everything else, comments too, stays as it is.
FunctionSyntax lower_function(FunctionSyntax syntax, const LoweredProgram& lowered, std::size_t function);

}  // namespace retile::language
