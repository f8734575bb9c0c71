#include "retile/language/passes.h"

#include <unordered_map>
#include <utility>
#include <variant>

#include "retile/base/names.h"
#include "retile/language/lowered_function.h"

namespace retile::language {
namespace {

constexpr Names<Pass, 3> names{{"parse", "check", "lower"}};

void spell_out(std::vector<TypeSyntax>& types, const Function& function, const std::vector<int>& values) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    types[i].type = at(function.values, values[i]).type;
  }
}

void spell_out(StatementSyntax& syntax, const Function& function, const Statement& statement) {
  if (auto* op = std::get_if<SpmdOpSyntax>(&syntax.operation)) spell_out(op->types, function, statement.results);
  if (!moves_data(statement)) return;
  const ArrayType& type = result_of(function, statement).type;
  if (auto* op = std::get_if<RedistributeSyntax>(&syntax.operation)) op->type = TypeSyntax{type, {}};
  if (auto* op = std::get_if<StepSyntax>(&syntax.operation)) op->type.type = type;
}

void spell_out(FunctionSyntax& syntax, const Function& function) {
  for (std::size_t i = 0; i < syntax.parameters.size(); ++i) syntax.parameters[i].type.type = function.values[i].type;
  spell_out(syntax.result_types, function, function.results);
  for (std::size_t i = 0; i < syntax.statements.size(); ++i) {
    spell_out(syntax.statements[i], function, function.statements[i]);
  }
}

template <typename Change>
void change_functions(SyntaxTree& tree, const Program& program, Change change) {
  std::unordered_map<std::string, std::size_t> functions;
  for (std::size_t i = 0; i < program.functions.size(); ++i) functions[program.functions[i].name] = i;
  for (auto& declaration : tree.declarations) {
    if (auto* syntax = std::get_if<FunctionSyntax>(&declaration)) change(*syntax, functions.at(syntax->name.text));
  }
}

SyntaxTree with_types(const CheckedProgram& checked) {
  SyntaxTree tree = checked.tree;
  change_functions(tree, checked.program, [&](FunctionSyntax& syntax, std::size_t function) {
    spell_out(syntax, checked.program.functions[function]);
  });
  std::erase_if(tree.declarations, [](const auto& d) { return std::holds_alternative<TypeDeclaration>(d); });
  return tree;
}

}  // namespace

std::optional<Pass> find_pass(std::string_view name) { return names.find(name); }

SyntaxTree lowered_tree(SyntaxTree tree, const LoweredProgram& lowered) {
  change_functions(tree, lowered.program, [&](FunctionSyntax& syntax, std::size_t function) {
    syntax = lower_function(std::move(syntax), lowered, function);
  });
  return tree;
}

SyntaxTree tree_after(Pass pass, const CheckedProgram& checked, const PlanOptions& options) {
  if (pass == Pass::parse) return checked.tree;
  if (pass == Pass::check) return with_types(checked);
  return lowered_tree(checked.tree, lower_program(checked.program, options));
}

}  // namespace retile::language
