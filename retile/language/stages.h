// The stages that a program passes, each of which prints as a program.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "retile/language/checker.h"
#include "retile/language/program_planner.h"

namespace retile::language {

enum class Stage {
  parse,  // as it is written, in canonical form
  check,  // abbreviations spelled out, and every statement with its type
  lower,  // redistributions as the steps of their plans
};

constexpr std::string_view stage_names = "parse, check, lower";

const char* name_of(Stage stage);
std::optional<Stage> find_stage(std::string_view name);

// The tree that a checked program has after the stage. Throws InputError where there is no plan.
SyntaxTree tree_after(Stage stage, const CheckedProgram& checked, const PlanOptions& options);

// The checked tree with all types spelled out.
SyntaxTree with_types(const CheckedProgram& checked);

}  // namespace retile::language
