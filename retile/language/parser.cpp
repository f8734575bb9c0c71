#include "retile/language/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <utility>

#include "retile/base/error.h"
#include "retile/collectives/notation.h"
#include "retile/language/comments.h"
#include "retile/language/expression_parser.h"
#include "retile/language/recovery.h"
#include "retile/language/type_text.h"
#include "retile/types/scanning.h"
#include "retile/types/text.h"

namespace retile::language {
namespace {

// Thrown when there are enough diagnostics.
struct TooMany {};

// The blank line before a declaration or statement: the first of a block has none, functions always have one.
enum class BlankLine { never, kept, always };

void set_blank_line(Surroundings& surroundings, BlankLine blank) {
  if (blank == BlankLine::kept) return;
  bool& first = surroundings.above.empty() ? surroundings.after_blank : surroundings.above.front().after_blank;
  first = blank == BlankLine::always;
}

class Parser {
 public:
  explicit Parser(SourceText source)
      : source_(std::make_shared<const SourceText>(std::move(source))), scanner_(*source_), comments_(source_->text) {}

  ParseResult parse() {
    tree_.source = source_;
    try {
      program();
    } catch (const TooMany&) {
    }
    return {std::move(tree_), std::move(diagnostics_)};
  }

 private:
  // --- Faults.

  void record(const InputError& error) {
    const Diagnostic& found = error.diagnostic();
    const bool again = !diagnostics_.empty() && diagnostics_.back().range.begin == found.range.begin &&
                       diagnostics_.back().message == found.message;
    if (again) return;  // such as an unclosed comment, which several rules meet
    diagnostics_.push_back(found);
    if (diagnostics_.size() >= most_diagnostics) throw TooMany{};
  }

  // Runs the action. Where it meets a fault, records a diagnostic and returns false.
  template <typename Action>
  bool attempt(Action action) {
    try {
      action();
      return true;
    } catch (const InputError& error) {
      record(error);
      return false;
    }
  }

  // Attempts one statement of a block. Parsing continues after it, fault or not.
  template <typename Action>
  void attempt_statement(Action action) {
    const std::size_t begin = scanner_.next_position();
    if (!attempt(action)) scanner_.go_to(skip_statement(source_->text, begin));
  }

  // Attempts the last statement of a block. Where no closing brace follows it, the block itself is faulty.
  template <typename Action>
  bool attempt_return(Action action) {
    const std::size_t begin = scanner_.next_position();
    try {
      action();
      return true;
    } catch (const InputError& error) {
      const std::size_t end = skip_statement(source_->text, begin);
      if (end >= source_->text.size() || source_->text[end] != '}') throw;
      record(error);
      scanner_.go_to(end);
      return false;
    }
  }

  // --- Comments.

  Surroundings begin_surroundings() {
    const std::size_t begin = scanner_.next_position();
    return {comments_.take_before(begin), comments_.after_blank(begin), {}};
  }

  // The surroundings of a closing brace, which has no blank line before it.
  Surroundings begin_end_surroundings() { return {comments_.take_before(scanner_.next_position()), false, {}}; }

  // Takes the comments beside the last token. Comments before it move above.
  std::string take_beside(Surroundings& surroundings) {
    const std::size_t end = scanner_.last().end;
    for (Comment& comment : comments_.take_before(end)) surroundings.above.push_back(std::move(comment));
    return comments_.take_beside(end);
  }

  // Completes the surroundings of something that ends with the last token.
  void end_surroundings(Surroundings& surroundings, BlankLine blank) {
    surroundings.beside = take_beside(surroundings);
    set_blank_line(surroundings, blank);
  }

  // --- Words and lists.

  bool looking_at_word(std::string_view word) { return scanner_.peek_word() == word; }

  template <typename Scan>
  auto comma_list(Scan scan) {
    std::vector<decltype(scan())> list;
    do {
      list.push_back(scan());
    } while (scanner_.accept(","));
    return list;
  }

  // --- Declarations.

  // program = mesh { type_name | function } ;
  void program() {
    if (!attempt([&] { mesh(); })) return;  // types have no meaning without a mesh
    bool at_end = false;
    while (attempt([&] { at_end = scanner_.at_end(); }) && !at_end) {
      const std::size_t begin = scanner_.next_position();
      if (!attempt([&] { declaration(); })) scanner_.go_to(skip_declaration(source_->text, begin));
    }
    tree_.end_surroundings.above = comments_.take_before(source_->text.size());
  }

  // mesh = "mesh" "{" axis { "," axis } "}" ;
  void mesh() {
    tree_.mesh_surroundings = begin_surroundings();
    if (!scanner_.accept_word("mesh")) scanner_.fail_here("a program starts with its mesh", "as in mesh {x: 4, y: 4}");
    if (!scanner_.looking_at("{")) scanner_.fail_here("expected '{' after mesh", "as in mesh {x: 4, y: 4}");
    tree_.mesh = scan_mesh(scanner_);
    end_surroundings(tree_.mesh_surroundings, BlankLine::never);
  }

  void declaration() {
    if (looking_at_word("type")) return type_declaration();
    if (looking_at_word("fn")) return function();
    if (looking_at_word("mesh"))
      scanner_.fail_here("a program has one mesh", "all types are over the mesh that comes first");
    scanner_.fail_here(fmt::format("expected a declaration, found {}", scanner_.describe_ahead()),
                       "type NAME = TYPE, or fn NAME(PARAMETERS) -> TYPES { ... }");
  }

  // type_name = "type" name "=" type ;
  void type_declaration() {
    const bool follows_type =
        !tree_.declarations.empty() && std::holds_alternative<TypeDeclaration>(tree_.declarations.back());
    TypeDeclaration declared;
    declared.surroundings = begin_surroundings();
    scanner_.expect_word("type", "before the name of a type");
    declared.name = scan_value_name(scanner_, "the name of a type");
    scanner_.expect("=", "after the name of a type");
    declared.type = type();
    end_surroundings(declared.surroundings, follows_type ? BlankLine::kept : BlankLine::always);
    tree_.declarations.emplace_back(std::move(declared));
  }

  // function = "fn" name "(" [ parameter { "," parameter } ] ")" "->" types "{" { statement } return "}" ;
  void function() {
    auto& function = std::get<FunctionSyntax>(tree_.declarations.emplace_back(FunctionSyntax{}));
    function.has_head_gap = function.has_return_gap = true;  // until they are read
    function.surroundings = begin_surroundings();
    scanner_.expect_word("fn", "before the name of a function");
    function.name = scan_value_name(scanner_, "the name of a function");
    scanner_.expect("(", "before the parameters of a function");
    if (!scanner_.looking_at(")")) function.parameters = comma_list([&] { return parameter(); });
    scanner_.expect(")", "or ',' after a parameter");
    scanner_.expect("->", "before the types of a function's results");
    function.result_types = comma_list([&] { return type(); });
    scanner_.expect("{", "before the statements of a function");
    end_surroundings(function.surroundings, BlankLine::always);
    function.has_head_gap = false;
    function_body(function);
  }

  // parameter = name ":" type ;
  Parameter parameter() {
    Name name = scan_value_name(scanner_, "the name of a parameter");
    scanner_.expect(":", "between a parameter and its type");
    return {std::move(name), type()};
  }

  // body = { statement } "return" name { "," name } "}" ;
  void function_body(FunctionSyntax& function) {
    while (!at_block_end()) {
      StatementSyntax& statement = function.statements.emplace_back();
      attempt_statement([&] { this->statement(statement, function.statements.size() == 1); });
    }
    function.has_return_gap = !attempt_return([&] { function_return(function); });
    function.end_surroundings = begin_end_surroundings();
    scanner_.expect("}", fmt::format("at the end of function {}", function.name.text));
    end_surroundings(function.end_surroundings, BlankLine::kept);
  }

  // Whether the statements of a block end here, or the next token cannot begin one.
  bool at_block_end() {
    const std::string_view word = scanner_.peek_word();
    return word == "return" || word == "fn" || word == "type" || word == "mesh" || scanner_.looking_at("}") ||
           scanner_.at_end();
  }

  void function_return(FunctionSyntax& function) {
    function.return_surroundings = begin_surroundings();
    const std::size_t begin = scanner_.next_position();
    scanner_.expect_word("return", fmt::format("at the end of function {}", function.name.text));
    function.results = comma_list([&] { return scan_value_name(scanner_, "the name of a result"); });
    function.return_place = Place({begin, scanner_.last().end});
    end_surroundings(function.return_surroundings, function.statements.empty() ? BlankLine::never : BlankLine::kept);
  }

  // --- Statements.

  // statement = name { "," name } "=" operation ;
  void statement(StatementSyntax& statement, bool is_first) {
    statement.surroundings = begin_surroundings();
    statement.place.begin = scanner_.next_position();
    do {
      statement.results.push_back(scan_value_name(scanner_, "a statement"));
    } while (scanner_.accept(","));
    scanner_.expect("=", "after the names that a statement declares");
    statement.place.end = scanner_.last().end;
    operation(statement);
    statement.place.end = scanner_.last().end;
    end_surroundings(statement.surroundings, is_first ? BlankLine::never : BlankLine::kept);
  }

  void operation(StatementSyntax& statement) {
    const std::string word(scanner_.peek_word());
    if (word == "spmd_op") {
      statement.operation = spmd_op(statement.surroundings);
    } else if (const auto kind = find_redistribution(word)) {
      statement.operation = redistribution(*kind);
    } else if (const auto op = find_step_op(word); op && *op != StepOp::reduce) {
      statement.operation = collective(*op);
    } else if (find_operation(word) != nullptr) {
      scanner_.fail_here(fmt::format("{} computes on the tiles of one device", word), "write it within an spmd_op");
    } else {
      statement.operation = call();
    }
  }

  // redistribution = ( "redistribute" | "distribute" | "allreduce" ) name "as" type
  //                | "undistribute" name [ "as" type ] ;
  RedistributeSyntax redistribution(Redistribute::Kind kind) {
    const std::string word = scanner_.name("an operation");
    RedistributeSyntax syntax{kind, scan_value_name(scanner_, "the operand of " + word), {}};
    const bool may_end = kind == Redistribute::Kind::undistribute;
    if (may_end && !looking_at_word("as")) return syntax;
    syntax.type = as_type(word);
    return syntax;
  }

  TypeSyntax as_type(const std::string& word) {
    scanner_.expect_word("as", "before the type of the result of " + word);
    return type();
  }

  // collective = ( ( "dynslice" | "allgather" | "alltoall" ) changes | "allpermute" | "exchange" ) name "as" type ;
  StepSyntax collective(StepOp op) {
    const std::string word = scanner_.name("an operation");
    StepOperation operation = step_operation(op);
    Name operand = scan_value_name(scanner_, "the operand of " + word);
    return {std::move(operation), std::move(operand), as_type(word)};
  }

  // Scans the changes of a step as in collectives/notation.h, with a factor each.
  StepOperation step_operation(StepOp op) {
    const char* name = retile::name_of(op);
    switch (op) {
      case StepOp::dynslice:
        return SliceStep{factors(name)};
      case StepOp::alltoall: {
        AllToAllStep step;
        for (const StepChange& change : scan_changes(scanner_, name)) {
          step.moves.push_back({change.from, change.to, change.factor});
        }
        return step;
      }
      case StepOp::allgather:
        return GatherStep{factors(name), {}};
      case StepOp::allpermute:
        return PermuteStep{};
      case StepOp::exchange:
        return ExchangeStep{};
      case StepOp::reduce:
        break;  // only part of a redistribution
    }
    throw InternalError("unknown step");
  }

  std::vector<DimensionFactor> factors(const char* name) {
    std::vector<DimensionFactor> factors;
    for (const StepChange& change : scan_changes(scanner_, name)) factors.push_back({change.from, change.factor});
    return factors;
  }

  // call = name "(" [ name { "," name } ] ")" ;
  CallSyntax call() {
    CallSyntax syntax;
    syntax.function = scan_value_name(scanner_, "an operation");
    if (!scanner_.accept("(")) {
      scanner_.fail(
          syntax.function.place, fmt::format("there is no operation {}", syntax.function.text),
          "operations on distributed arrays are spmd_op, redistribute, distribute, undistribute, allreduce, the "
          "steps of plans, and calls such as f(x)");
    }
    if (!scanner_.looking_at(")")) {
      syntax.operands = comma_list([&] { return scan_value_name(scanner_, "an operand of a call"); });
    }
    scanner_.expect(")", "or ',' after an operand of a call");
    return syntax;
  }

  // --- spmd_op.

  // spmd_op = "spmd_op" { name } "(" [ local_parameter { "," local_parameter } ] ")" local_body "as" types ;
  SpmdOpSyntax spmd_op(Surroundings& statement_surroundings) {
    SpmdOpSyntax op;
    scanner_.expect_word("spmd_op", "at the start of an spmd_op");
    while (!scanner_.looking_at("(")) {
      op.operands.push_back(scan_value_name(scanner_, "an operand of spmd_op, or '(' before its parameters"));
    }
    scanner_.expect("(", "before the parameters of spmd_op");
    if (!scanner_.looking_at(")")) op.parameters = comma_list([&] { return local_parameter(); });
    scanner_.expect(")", "or ',' after a parameter of spmd_op");
    scanner_.expect("{", "before the body of spmd_op");
    op.header_beside = take_beside(statement_surroundings);
    local_body(op);
    scanner_.expect_word("as", "before the types of the results of spmd_op");
    op.types = comma_list([&] { return type(); });
    return op;
  }

  // local_parameter = name ":" local_type ;
  LocalParameter local_parameter() {
    Name name = scan_value_name(scanner_, "the name of a parameter");
    scanner_.expect(":", "between a parameter and its type");
    return {std::move(name), local_type()};
  }

  LocalTypeSyntax local_type() {
    const std::size_t begin = scanner_.next_position();
    const LocalType type = scan_local_type(scanner_);
    return {type, Place({begin, scanner_.last().end})};
  }

  // local_body = "{" { local_statement } local_return "}" ;
  void local_body(SpmdOpSyntax& op) {
    while (!at_block_end()) {
      LocalStatement& statement = op.statements.emplace_back();
      attempt_statement([&] { local_statement(statement, op.statements.size() == 1); });
    }
    op.has_gap = !attempt_return([&] { local_return(op); });
    op.end_surroundings = begin_end_surroundings();
    scanner_.expect("}", "at the end of the body of spmd_op");
  }

  // local_statement = name "=" expression [ ":" local_type ] ;
  void local_statement(LocalStatement& statement, bool is_first) {
    statement.surroundings = begin_surroundings();
    statement.result = scan_value_name(scanner_, "a statement");
    scanner_.expect("=", "after the name that a statement declares");
    Expression value = expression();
    if (scanner_.accept(":")) statement.ascription = local_type();
    statement.expression = std::move(value);
    end_surroundings(statement.surroundings, is_first ? BlankLine::never : BlankLine::kept);
  }

  // local_return = "return" expression { "," expression } ;
  void local_return(SpmdOpSyntax& op) {
    op.return_surroundings = begin_surroundings();
    scanner_.expect_word("return", "at the end of the body of spmd_op");
    op.results = comma_list([&] { return expression(); });
    end_surroundings(op.return_surroundings, op.statements.empty() ? BlankLine::never : BlankLine::kept);
  }

  Expression expression() {
    Expression whole = scan_expression(scanner_);
    if (looking_at_operand(scanner_)) fail_at_operand(whole);
    return whole;
  }

  [[noreturn]] void fail_at_operand(const Expression& before) {
    if (before.kind != Expression::Kind::name) {
      scanner_.fail_here(
          fmt::format("expected an operator or the next statement, found {}", scanner_.describe_ahead()));
    }
    std::string words;
    for (const OperationForm& form : operation_forms()) words += (words.empty() ? "" : ", ") + std::string(form.word);
    scanner_.fail(before.place, fmt::format("there is no operation {}", before.word),
                  "operations on tiles are " + words);
  }

  // --- Types.

  // Whether a name is next that no bracket follows: before a bracket it would be an element type, even an unknown one.
  bool looking_at_abbreviation() {
    if (!scanner_.looking_at_name() || is_element_type(scanner_.peek_word())) return false;
    Scanner ahead = scanner_;
    ahead.name("a type");
    return !ahead.looking_at("[");
  }

  // Scans a type. A faulty one leaves a gap.
  TypeSyntax type() {
    const std::size_t begin = scanner_.next_position();
    if (looking_at_abbreviation()) {
      Name name = scan_value_name(scanner_, "a type");
      return {std::move(name), Place(scanner_.last())};
    }
    try {
      ArrayType type = scan_array_type(scanner_, *tree_.mesh);
      return {std::move(type), Place({begin, scanner_.last().end})};
    } catch (const InputError& error) {
      const std::optional<std::size_t> end = skip_type(source_->text, begin);
      if (!end) throw;
      record(error);
      scanner_.go_to(*end);
      return {Gap{}, Place({begin, *end})};
    }
  }

  std::shared_ptr<const SourceText> source_;
  Scanner scanner_;
  CommentList comments_;
  SyntaxTree tree_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace

ParseResult parse_program(SourceText source) { return Parser(std::move(source)).parse(); }

}  // namespace retile::language
