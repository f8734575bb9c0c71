#include "retile/language/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/language/type_text.h"

namespace retile::language {
namespace {

class ExpressionParser {
 public:
  explicit ExpressionParser(Scanner& scanner) : scanner_(scanner) {}

  // expression = term { ( "+" | "-" ) term } ;
  Expression expression() {
    Expression left = term();
    while (const char* op = accept_one_of("+", "-")) left = infix(op, std::move(left), term());
    return left;
  }

 private:
  // The depth of parentheses and signs that the parser is in.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.level_ > most_levels) parser_.fail_too_deep();
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Level(Level&&) = delete;
    Level& operator=(Level&&) = delete;
    ~Level() { --parser_.level_; }

   private:
    ExpressionParser& parser_;
  };

  [[noreturn]] void fail_too_deep() {
    scanner_.fail_here("this expression is nested too deeply",
                       fmt::format("at most {} levels; give parts of it names", most_levels));
  }

  // Accepts one of two tokens, and returns it; null where neither is next.
  const char* accept_one_of(const char* a, const char* b) {
    if (scanner_.accept(a)) return a;
    return scanner_.accept(b) ? b : nullptr;
  }

  Expression infix(const char* op, Expression left, Expression right) {
    Expression whole;
    whole.kind = Expression::Kind::infix;
    whole.word = op;
    whole.place.begin = left.place.begin;
    whole.operands.push_back(std::move(left));
    whole.operands.push_back(std::move(right));
    return finish(std::move(whole));
  }

  Expression finish(Expression whole) {
    whole.place.end = scanner_.last().end;
    for (const Expression& operand : whole.operands) whole.height = std::max(whole.height, operand.height + 1);
    if (whole.height > most_levels) fail_too_deep();
    return whole;
  }

  // term = factor { ( "*" | "/" ) factor } ;
  Expression term() {
    Expression left = factor();
    while (const char* op = accept_one_of("*", "/")) left = infix(op, std::move(left), factor());
    return left;
  }

  // factor = "-" factor | application ;
  Expression factor() {
    const Level level(*this);
    const std::size_t begin = scanner_.next_position();
    if (!scanner_.accept("-")) return application();
    Expression negation;
    negation.kind = Expression::Kind::negation;
    negation.place.begin = begin;
    negation.operands.push_back(factor());
    return finish(std::move(negation));
  }

  // application = operation { argument } | atom ;
  Expression application() {
    const OperationForm* form = find_operation(scanner_.peek_word());
    if (form == nullptr) return atom("an expression");
    Expression whole;
    whole.kind = Expression::Kind::application;
    whole.word = scanner_.name("an operation");
    whole.place = Place(scanner_.last());
    for (const char* argument = form->arguments; *argument != '\0'; ++argument) scan_argument(*argument, whole);
    return finish(std::move(whole));
  }

  void scan_argument(char kind, Expression& whole) {
    switch (kind) {
      case 'e':
        whole.operands.push_back(atom("an operand of " + whole.word));
        return;
      case 'E':
        do {
          whole.operands.push_back(atom("an operand of " + whole.word));
        } while (looking_at_operand(scanner_));
        return;
      case 'd':
        whole.dimension = scanner_.index("a dimension");
        return;
      case 'n':
        whole.number = scanner_.accept("-") ? "-" : "";
        whole.number += scanner_.decimal("a number");
        return;
      case 't':
        whole.attribute = name_of(scan_element_type(scanner_));
        break;
      case 'a':
        whole.attribute = scanner_.name("an axis name");
        break;
      default:
        whole.lists.push_back(list(kind == 's'));
        return;
    }
    whole.attribute_place = Place(scanner_.last());
  }

  // list = "[" [ number { "," number } ] "]" ;
  std::vector<std::int64_t> list(bool of_sizes) {
    std::vector<std::int64_t> numbers;
    scanner_.expect("[", "at the start of a list of numbers");
    if (!scanner_.looking_at("]")) {
      do {
        numbers.push_back(of_sizes ? scanner_.size("a size") : scanner_.index("a number"));
      } while (scanner_.accept(","));
    }
    scanner_.expect("]", "or ',' after a number of a list");
    return numbers;
  }

  // atom = name | number | "(" expression ")" ;
  Expression atom(const std::string& what) {
    if (scanner_.accept("(")) {
      Expression inner = expression();
      scanner_.expect(")", "after an expression in parentheses");
      return inner;
    }
    Expression leaf;
    if (scanner_.looking_at_digit()) {
      leaf.kind = Expression::Kind::number;
      leaf.word = scanner_.decimal("a number");
    } else {
      leaf.word = scan_operand_name(what);
    }
    leaf.place = Place(scanner_.last());
    return leaf;
  }

  std::string scan_operand_name(const std::string& what) {
    const std::string_view word = scanner_.peek_word();
    const bool nested = find_operation(word) != nullptr || scanner_.looking_at("-");
    if (nested) {
      scanner_.fail_here(fmt::format("expected {}, found {}", what, scanner_.describe_ahead()),
                         "put an operand that is computed in parentheses");
    }
    const bool ends = !word.empty() && !is_keyword(word) && !looking_at_operand(scanner_);
    if (ends) scanner_.fail_here(fmt::format("expected {}, found the next statement", what));
    return scan_value_name(scanner_, what).text;
  }

  Scanner& scanner_;
  int level_ = 0;
};

}  // namespace

Expression scan_expression(Scanner& scanner) { return ExpressionParser(scanner).expression(); }

Name scan_value_name(Scanner& scanner, std::string_view what) {
  const std::string_view word = scanner.peek_word();
  if (scanner.looking_at_name() && !scanner.looking_at("\"") && !is_keyword(word)) {
    std::string name = scanner.name(what);
    return {std::move(name), Place(scanner.last())};
  }
  const std::string_view hint = is_keyword(word)           ? "keywords name nothing else"
                                : scanner.looking_at("\"") ? "only the names of axes may be quoted"
                                                           : "names are letters, digits and _";
  scanner.fail_here(
      fmt::format("expected {}, found {}{}", what, is_keyword(word) ? "the keyword " : "", scanner.describe_ahead()),
      std::string(hint));
}

bool looking_at_operand(Scanner& scanner) {
  if (scanner.looking_at("(") || scanner.looking_at_digit()) return true;
  if (scanner.peek_word().empty() || is_keyword(scanner.peek_word())) return false;
  Scanner ahead = scanner;
  ahead.name("a name");
  return !ahead.looking_at("=");
}

}  // namespace retile::language
