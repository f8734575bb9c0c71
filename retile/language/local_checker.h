// The checker of local functions, which say what a device computes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "retile/language/diagnostic_list.h"
#include "retile/language/program.h"
#include "retile/language/syntax.h"

namespace retile::language {

struct LocalCheckResult {
  LocalFunction function;                              // complete where there are no diagnostics
  std::vector<std::optional<LocalType>> result_types;  // nothing where a fault was reported
};

struct LocalScope {
  const Mesh& mesh;
  // The place where the function around the body declares a value of this name, if it does.
  std::function<std::optional<SourceRange>(const std::string& name)> find_outside;
  std::vector<bool> faulty;      // by parameter: its type has a fault that was reported
  std::vector<LocalType> tiles;  // by parameter, unless it is faulty
  std::vector<UnevenCut> cuts;   // referred to by the tiles' types
};

// Checks a local function. `wanted` has the declared element type of each result, for numbers and constants; nothing
// where unknown.
LocalCheckResult check_local_function(const SpmdOpSyntax& op, const std::vector<std::optional<ElementType>>& wanted,
                                      const LocalScope& scope, DiagnosticList& diagnostics);

}  // namespace retile::language
