// Lowered functions as statements.
#pragma once

#include <cstddef>

#include "retile/language/lowering.h"
#include "retile/language/syntax.h"

namespace retile::language {

// The function with collectives in place of redistributions between types. A comment above each says what it does and
// costs, and which devices take part. Other redistributions stay, with their steps as comments. Where nothing moves,
// the operand's name replaces the result's. Everything else stays as it is, comments included.
FunctionSyntax lower_function(FunctionSyntax syntax, const LoweredProgram& lowered, std::size_t function);

}  // namespace retile::language
