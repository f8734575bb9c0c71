// The parser of what a device computes.
#pragma once

#include "retile/base/scanner.h"
#include "retile/language/syntax.h"

namespace retile::language {

// Deeper expressions are refused, so that whatever walks over one may do so recursively.
constexpr int most_levels = 200;

// Throws InputError.
Expression scan_expression(Scanner& scanner);

// A name that no keyword takes. `what` names it in errors.
Name scan_value_name(Scanner& scanner, std::string_view what);

// Whether an operand is next, and not the name that the next statement declares.
bool looking_at_operand(Scanner& scanner);

}  // namespace retile::language
