#include "retile/language/printer.h"

#include <fmt/format.h>

#include <utility>

#include "retile/base/error.h"
#include "retile/base/scanner.h"
#include "retile/language/type_text.h"
#include "retile/types/text.h"

namespace retile::language {
namespace {

// The longest head of a function or spmd_op; longer ones get a line for each parameter.
constexpr std::size_t most_columns = 100;

template <typename List, typename Text>
std::string join(const List& list, std::string_view separator, Text text) {
  std::string out;
  for (const auto& entry : list) {
    if (&entry != &list.front()) out += separator;
    out += text(entry);
  }
  return out;
}

std::string names_text(const std::vector<Name>& names, std::string_view separator) {
  return join(names, separator, [](const Name& name) { return name.text; });
}

// --- Expressions.

// How tightly an expression binds. Operands of an application are atoms.
enum Strength { as_sum = 1, as_product, as_sign, as_application, as_atom };

Strength strength_of(const Expression& expression) {
  switch (expression.kind) {
    case Expression::Kind::name:
    case Expression::Kind::number:
      return as_atom;
    case Expression::Kind::infix:
      return expression.word == "+" || expression.word == "-" ? as_sum : as_product;
    case Expression::Kind::negation:
      return as_sign;
    case Expression::Kind::application:
      return as_application;
  }
  throw InternalError("unknown expression");
}

std::string text_of(const Expression& expression);

// The operand, in parentheses if it binds less tightly than `least`.
std::string operand_text(const Expression& operand, int least) {
  return strength_of(operand) < least ? "(" + text_of(operand) + ")" : text_of(operand);
}

std::string argument_text(char kind, const Expression& expression, std::size_t& next_operand, std::size_t& next_list) {
  switch (kind) {
    case 'e':
      return operand_text(expression.operands[next_operand++], as_atom);
    case 'E':
      return join(expression.operands, " ", [](const Expression& operand) { return operand_text(operand, as_atom); });
    case 'd':
      return fmt::format("{}", expression.dimension);
    case 'n':
      return expression.number;
    case 't':
      return expression.attribute;
    case 'a':
      return quote_name(expression.attribute);
    default:
      return retile::to_string(expression.lists[next_list++]);
  }
}

std::string application_text(const Expression& expression) {
  std::string out = expression.word;
  std::size_t next_operand = 0;
  std::size_t next_list = 0;
  for (const char* kind = find_operation(expression.word)->arguments; *kind != '\0'; ++kind) {
    out += " " + argument_text(*kind, expression, next_operand, next_list);
  }
  return out;
}

std::string text_of(const Expression& expression) {
  switch (expression.kind) {
    case Expression::Kind::name:
    case Expression::Kind::number:
      return expression.word;
    case Expression::Kind::infix: {
      const int strength = strength_of(expression);  // a - b - c is (a - b) - c
      return fmt::format("{} {} {}", operand_text(expression.operands[0], strength), expression.word,
                         operand_text(expression.operands[1], strength + 1));
    }
    case Expression::Kind::negation:
      return "-" + operand_text(expression.operands[0], as_sign);
    case Expression::Kind::application:
      return application_text(expression);
  }
  throw InternalError("unknown expression");
}

// --- Everything else.

class Printer {
 public:
  explicit Printer(const Mesh& mesh) : mesh_(mesh) {}

  std::string print(const SyntaxTree& tree) {
    print_item(tree.mesh_surroundings, "mesh " + retile::to_string(mesh_), 0);
    for (const auto& declaration : tree.declarations) {
      std::visit([&](const auto& declared) { print_declaration(declared); }, declaration);
    }
    print_above(tree.end_surroundings, 0);
    return std::move(out_);
  }

 private:
  void print_line(const std::string& text, std::size_t indent, const std::string& beside = {}) {
    out_ += std::string(indent, ' ') + text + (beside.empty() ? "" : "  " + beside) + "\n";
  }

  void print_above(const Surroundings& surroundings, std::size_t indent) {
    for (const Comment& comment : surroundings.above) {
      if (comment.after_blank) out_ += "\n";
      print_line(comment.text, indent);
    }
    if (surroundings.after_blank) out_ += "\n";
  }

  void print_item(const Surroundings& surroundings, const std::string& text, std::size_t indent) {
    print_above(surroundings, indent);
    print_line(text, indent, surroundings.beside);
  }

  std::string type_text(const TypeSyntax& type) const {
    if (const auto* name = std::get_if<Name>(&type.type)) return name->text;
    return to_string(mesh_, std::get<ArrayType>(type.type));
  }

  std::string types_text(const std::vector<TypeSyntax>& types) const {
    return join(types, ", ", [&](const TypeSyntax& type) { return type_text(type); });
  }

  // Prints head(a: b, c: d)tail, on several lines where it is too long for one.
  void print_head(const std::string& head, const std::vector<std::string>& parameters, const std::string& tail,
                  std::size_t indent, const std::string& beside) {
    const std::string line = head + fmt::format("({}){}", fmt::join(parameters, ", "), tail);
    if (parameters.empty() || indent + line.size() <= most_columns) return print_line(line, indent, beside);
    print_line(head + "(", indent);
    for (const std::string& parameter : parameters) {
      print_line(parameter + (&parameter == &parameters.back() ? "" : ","), indent + 4);
    }
    print_line(")" + tail, indent, beside);
  }

  void print_declaration(const TypeDeclaration& declared) {
    print_item(declared.surroundings, fmt::format("type {} = {}", declared.name.text, type_text(declared.type)), 0);
  }

  void print_declaration(const FunctionSyntax& function) {
    print_above(function.surroundings, 0);
    std::vector<std::string> parameters;
    for (const Parameter& parameter : function.parameters) {
      parameters.push_back(parameter.name.text + ": " + type_text(parameter.type));
    }
    print_head("fn " + function.name.text, parameters, fmt::format(" -> {} {{", types_text(function.result_types)), 0,
               function.surroundings.beside);
    for (const StatementSyntax& statement : function.statements) print_statement(statement);
    print_item(function.return_surroundings, "return " + names_text(function.results, ", "), 2);
    print_above(function.end_surroundings, 2);
    print_line("}", 0, function.end_surroundings.beside);
  }

  void print_statement(const StatementSyntax& statement) {
    print_above(statement.surroundings, 2);
    const std::string start = names_text(statement.results, ", ") + " = ";
    std::visit([&](const auto& operation) { print_operation(start, operation, statement.surroundings.beside); },
               statement.operation);
  }

  [[noreturn]] static void print_operation(const std::string& /*start*/, const Gap& /*gap*/,
                                           const std::string& /*beside*/) {
    throw InternalError("a tree with gaps is not printed");
  }

  void print_operation(const std::string& start, const SpmdOpSyntax& op, const std::string& beside) {
    std::vector<std::string> parameters;
    for (const LocalParameter& parameter : op.parameters) {
      parameters.push_back(parameter.name.text + ": " + to_string(parameter.type.type));
    }
    const std::string operands = names_text(op.operands, " ") + (op.operands.empty() ? "" : " ");
    print_head(start + "spmd_op " + operands, parameters, " {", 2, op.header_beside);
    for (const LocalStatement& statement : op.statements) {
      const std::string ascription = statement.ascription ? " : " + to_string(statement.ascription->type) : "";
      print_item(statement.surroundings,
                 fmt::format("{} = {}{}", statement.result.text, text_of(*statement.expression), ascription), 4);
    }
    print_item(op.return_surroundings, "return " + join(op.results, ", ", text_of), 4);
    print_above(op.end_surroundings, 4);
    print_line("} as " + types_text(op.types), 2, beside);
  }

  void print_operation(const std::string& start, const RedistributeSyntax& op, const std::string& beside) {
    const std::string type = op.type ? " as " + type_text(*op.type) : "";
    print_line(start + name_of(op.kind) + " " + op.operand.text + type, 2, beside);
  }

  void print_operation(const std::string& start, const StepSyntax& op, const std::string& beside) {
    print_line(
        fmt::format("{}{} {} as {}", start, retile::to_string(op.operation), op.operand.text, type_text(op.type)), 2,
        beside);
  }

  void print_operation(const std::string& start, const CallSyntax& op, const std::string& beside) {
    print_line(fmt::format("{}{}({})", start, op.function.text, names_text(op.operands, ", ")), 2, beside);
  }

  const Mesh& mesh_;
  std::string out_;
};

}  // namespace

std::string to_string(const SyntaxTree& tree) {
  ensure(tree.mesh.has_value(), "a tree with gaps is not printed");
  return Printer(*tree.mesh).print(tree);
}

}  // namespace retile::language
