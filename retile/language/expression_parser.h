// The parser of expressions, which say what a device computes.
#pragma once

#include "retile/base/scanner.h"
#include "retile/language/syntax.h"

namespace retile::language {

// The deepest nesting of expressions, so that functions over them may be recursive. Deeper ones are refused.
constexpr int most_levels = 200;

// Scans an expression. Throws InputError.
Expression scan_expression(Scanner& scanner);

// Scans a name that is no keyword. `what` names it in errors.
Name scan_value_name(Scanner& scanner, std::string_view what);

// Whether an operand is next, rather than the name that the next statement declares.
bool looking_at_operand(Scanner& scanner);

}  // namespace retile::language
