// The passes that a program goes through, each of which prints as a program.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "retile/language/checker.h"
#include "retile/language/lowering.h"

namespace retile::language {

enum class Pass {
  parse,  // as written, in canonical form
  check,  // abbreviations resolved, and every statement with its type
  lower,  // redistributions as the steps of their plans
};

constexpr std::string_view pass_names = "parse, check, lower";

std::optional<Pass> find_pass(std::string_view name);

// The tree that a checked program has after the pass. Throws InputError where there is no plan.
SyntaxTree tree_after(Pass pass, const CheckedProgram& checked, const PlanOptions& options);

// The tree that the program was made from, with redistributions as the steps of their plans. It passes the checker
// again; a tree without redistributions is its own lowering.
SyntaxTree lowered_tree(SyntaxTree tree, const LoweredProgram& lowered);

}  // namespace retile::language
