#include "retile/language/stages.h"

#include <unordered_map>
#include <utility>
#include <variant>

#include "retile/base/error.h"
#include "retile/language/lowering.h"

namespace retile::language {
namespace {

void spell_out(std::vector<TypeSyntax>& types, const Function& function, const std::vector<int>& values) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    types[i].type = function.values[static_cast<std::size_t>(values[i])].type;
  }
}

void spell_out(StatementSyntax& syntax, const Function& function, const Statement& statement) {
  if (auto* op = std::get_if<SpmdOpSyntax>(&syntax.operation)) spell_out(op->types, function, statement.results);
  if (!moves_data(statement)) return;
  const ArrayType& type = result_of(function, statement).type;
  if (auto* op = std::get_if<RedistributeSyntax>(&syntax.operation)) op->type = TypeSyntax{type, {}};
  if (auto* op = std::get_if<AllReduceSyntax>(&syntax.operation)) op->type.type = type;
  if (auto* op = std::get_if<CollectiveSyntax>(&syntax.operation)) op->type.type = type;
}

void spell_out(FunctionSyntax& syntax, const Function& function) {
  for (std::size_t i = 0; i < syntax.parameters.size(); ++i) syntax.parameters[i].type.type = function.values[i].type;
  spell_out(syntax.result_types, function, function.results);
  for (std::size_t i = 0; i < syntax.statements.size(); ++i) {
    spell_out(syntax.statements[i], function, function.statements[i]);
  }
}

}  // namespace

const char* name_of(Stage stage) {
  switch (stage) {
    case Stage::parse:
      return "parse";
    case Stage::check:
      return "check";
    case Stage::lower:
      return "lower";
  }
  throw InternalError("unknown stage");
}

std::optional<Stage> find_stage(std::string_view name) {
  for (const Stage stage : {Stage::parse, Stage::check, Stage::lower}) {
    if (name == name_of(stage)) return stage;
  }
  return std::nullopt;
}

SyntaxTree with_types(const CheckedProgram& checked) {
  std::unordered_map<std::string, const Function*> functions;
  for (const Function& function : checked.program.functions) functions[function.name] = &function;
  SyntaxTree tree = checked.tree;
  for (auto& declaration : tree.declarations) {
    if (auto* syntax = std::get_if<FunctionSyntax>(&declaration)) spell_out(*syntax, *functions.at(syntax->name.text));
  }
  std::erase_if(tree.declarations, [](const auto& d) { return std::holds_alternative<TypeDeclaration>(d); });
  return tree;
}

SyntaxTree tree_after(Stage stage, const CheckedProgram& checked, const PlanOptions& options) {
  if (stage == Stage::parse) return checked.tree;
  if (stage == Stage::check) return with_types(checked);
  ProgramPlanner planner(checked.program, options);
  return lower(checked.tree, planner);
}

}  // namespace retile::language
