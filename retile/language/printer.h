// Programs as text in canonical form, comments included.
#pragma once

#include <string>

#include "retile/language/syntax.h"

namespace retile::language {

// The tree must have no gaps. The text parses back to an equal tree.
std::string to_string(const SyntaxTree& tree);

}  // namespace retile::language
