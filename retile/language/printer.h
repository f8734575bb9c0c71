// Programs as text in their one canonical form, comments included.
#pragma once

#include <string>

#include "retile/language/syntax.h"

namespace retile::language {

// The tree has no gaps. What is printed parses back to an equal tree.
std::string to_string(const SyntaxTree& tree);

}  // namespace retile::language
