#include "retile/language/printer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "retile/types/text.h"
#include "tests/language/programs.h"

namespace retile::test {
namespace {

using namespace language;

std::string formatted(const std::string& text) { return to_string(parsed(text)); }

// --- The form.

TEST(Printer, canonical_form) {
  EXPECT_EQ(formatted(read_source("tests/language/golden/comments.spmd")),
            read_source("tests/language/golden/comments.formatted.spmd"));
}

TEST(Printer, parentheses_stand_where_they_are_needed) {
  const auto expression = [](const std::string& text) {
    const std::string start = "mesh {x: 2}\n\nfn f(a: [8]) -> [8] {\n  b = spmd_op a (t: [8]) {\n    return ";
    const std::string end = "\n  } as [8]\n  return b\n}\n";
    const std::string out = formatted(start + text + end);
    return out.substr(start.size(), out.size() - start.size() - end.size());
  };
  EXPECT_EQ(expression("((t))"), "t");
  EXPECT_EQ(expression("(t + t) + t"), "t + t + t");
  EXPECT_EQ(expression("t + (t + t)"), "t + (t + t)");
  EXPECT_EQ(expression("t - (t * t)"), "t - t * t");
  EXPECT_EQ(expression("(t - t) * t / (t / t)"), "(t - t) * t / (t / t)");
  EXPECT_EQ(expression("-(t + t) * -t"), "-(t + t) * -t");
  EXPECT_EQ(expression("-(-t)"), "--t");
  EXPECT_EQ(expression("-(t * t)"), "-(t * t)");
  EXPECT_EQ(expression("exp (t) + max (-t) (1)"), "exp t + max (-t) 1");
  EXPECT_EQ(expression("(matmul t t) + t"), "matmul t t + t");
}

TEST(Printer, long_heads_take_a_line_per_parameter) {
  const std::string name(60, 'n');
  EXPECT_EQ(formatted("mesh {x: 2} fn f(a: [8], " + name + ": [8, 8, 8, 8, 8, 8]) -> [8] { return a }"),
            "mesh {x: 2}\n\nfn f(\n    a: [8],\n    " + name + ": [8, 8, 8, 8, 8, 8]\n) -> [8] {\n  return a\n}\n");
}

// --- What is printed parses back.

void expect_stable(const SyntaxTree& tree, const std::string& name) {
  const std::string text = to_string(tree);
  const ParseResult again = parse_program({"printed", text});
  for (const Diagnostic& diagnostic : again.diagnostics) ADD_FAILURE() << name << "\n" << to_string(diagnostic);
  EXPECT_EQ(again.tree == tree, true) << name << "\n" << text;
  EXPECT_EQ(to_string(again.tree), text) << name;
}

TEST(Printer, programs_of_examples_and_rules_parse_back) {
  for (const NamedProgram& program : right_programs()) expect_stable(parsed(program.text), program.name);
}

TEST(Printer, seeds_of_the_fuzzer_parse_back) {
  for (const char* name : {"comments", "steps", "local", "table"}) {
    expect_stable(parsed(read_source(std::string("tests/fuzz/corpus/fuzz_language/") + name + ".spmd")), name);
  }
}

// --- Random trees.

template <typename Value>
Value pick(const std::vector<Value>& values) {
  return *rc::gen::elementOf(values);
}

// Evenly, whatever size RapidCheck is at.
int number(int end) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, end)); }
bool flip() { return number(2) == 0; }

Name random_name() { return {pick<std::string>({"a", "b", "c1", "long_name", "_", "matmul2"}), {}}; }

std::vector<Comment> random_comments() {
  std::vector<Comment> comments;
  for (int i = number(3); i > 0; --i) {
    comments.push_back(
        {pick<std::string>({"// one", "//", "/* two */", "/* three\n   lines\n */", "// \"quoted\" /*"}), flip()});
  }
  return comments;
}

// As the parser has it: the first of a block has no blank line before it.
Surroundings random_surroundings(bool is_first) {
  Surroundings surroundings{random_comments(), flip(),
                            pick<std::string>({"", "", "// beside", "/* a */ // b", "/* c */"})};
  if (is_first)
    (surroundings.above.empty() ? surroundings.after_blank : surroundings.above.front().after_blank) = false;
  return surroundings;
}

Surroundings random_declaration_surroundings(bool blank) {
  Surroundings surroundings = random_surroundings(false);
  if (blank) (surroundings.above.empty() ? surroundings.after_blank : surroundings.above.front().after_blank) = true;
  return surroundings;
}

Expression random_expression(int depth) {
  Expression whole;
  const int kind = depth == 0 ? number(2) : number(5);
  if (kind == 0) {
    whole.kind = Expression::Kind::name;
    whole.word = random_name().text;
    return whole;
  }
  if (kind == 1) {
    whole.kind = Expression::Kind::number;
    whole.word = pick<std::string>({"0", "12", "1.5", "2e-3", "1E+5"});
    return whole;
  }
  if (kind == 4) {
    const OperationForm form = pick(operation_forms());
    whole.kind = Expression::Kind::application;
    whole.word = form.word;
    for (const char* argument = form.arguments; *argument != '\0'; ++argument) {
      if (*argument == 'e') whole.operands.push_back(random_expression(depth - 1));
      if (*argument == 'E') {
        for (int i = 1 + number(3); i > 0; --i) whole.operands.push_back(random_expression(depth - 1));
      }
      if (*argument == 'd') whole.dimension = number(9);
      if (*argument == 'n') whole.number = pick<std::string>({"1", "-2.5", "3e4"});
      if (*argument == 's')
        whole.lists.push_back(flip() ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{1, 8});
      if (*argument == 'l')
        whole.lists.push_back(flip() ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{0, 3});
      if (*argument == 't') whole.attribute = pick<std::string>({"f32", "f64", "i32"});
      if (*argument == 'a') whole.attribute = pick<std::string>({"x", "a b", "matmul", "\"\\"});
    }
  } else if (kind == 2) {
    whole.kind = Expression::Kind::negation;
    whole.operands.push_back(random_expression(depth - 1));
  } else {
    whole.kind = Expression::Kind::infix;
    whole.word = pick<std::string>({"+", "-", "*", "/"});
    whole.operands = {random_expression(depth - 1), random_expression(depth - 1)};
  }
  for (const Expression& operand : whole.operands) whole.height = std::max(whole.height, operand.height + 1);
  return whole;
}

TypeSyntax random_type(const Mesh& mesh) {
  if (flip()) return {random_name(), {}};
  const ElementType element = pick<ElementType>({ElementType::f32, ElementType::f64, ElementType::i32});
  const int kind = number(4);
  if (kind == 0) {
    return {ArrayType{element, Placement({4, 2}, {2, 2}, {0, 0, 2, 0, 2, 0, 0, 0}), {}}, {}};
  }
  const std::string text = pick<std::string>({"[8]", "[]", "[4{x}8, 3]", "[2{\"a b\",x}8, 5]", "[4{x}7, 3]",
                                              "[2{\"a b\",x}5] nested", "[3{x}5, 1] balanced", "[2*3{x}5*4]"});
  MeshLayout cuts = *parse_layout(text, mesh).cuts();
  const bool is_cut = text.find("a b") != std::string::npos;
  if (!is_cut && flip()) {
    cuts.partial = {mesh.whole(1)};
    cuts.reduction = pick<Reduction>({Reduction::sum, Reduction::max, Reduction::min});
  }
  return {array_type_of(element, std::move(cuts)), {}};
}

LocalTypeSyntax random_local_type() {
  return {{pick<ElementType>({ElementType::f32, ElementType::i32}), pick<Shape>({{}, {8}, {4, 16}})}, {}};
}

template <typename Make>
auto some(int least, int end, Make make) {
  std::vector<decltype(make())> list;
  for (int i = least + number(end); i > 0; --i) list.push_back(make());
  return list;
}

SpmdOpSyntax random_spmd_op(const Mesh& mesh) {
  SpmdOpSyntax op;
  op.operands = some(0, 3, random_name);
  op.parameters = some(0, 3, [] { return LocalParameter{random_name(), random_local_type()}; });
  for (int i = number(3); i > 0; --i) {
    LocalStatement statement{random_name(), random_expression(3), {}, random_surroundings(op.statements.empty())};
    if (flip()) statement.ascription = random_local_type();
    op.statements.push_back(std::move(statement));
  }
  op.results = some(1, 2, [] { return random_expression(2); });
  op.types = some(1, 2, [&] { return random_type(mesh); });
  op.header_beside = pick<std::string>({"", "// body"});
  op.return_surroundings = random_surroundings(op.statements.empty());
  op.end_surroundings.above = random_comments();
  return op;
}

StatementSyntax random_statement(const Mesh& mesh, bool is_first) {
  StatementSyntax statement;
  statement.results = some(1, 2, random_name);
  statement.surroundings = random_surroundings(is_first);
  switch (number(4)) {
    case 0:
      statement.operation = random_spmd_op(mesh);
      break;
    case 1: {
      using Kind = Redistribute::Kind;
      RedistributeSyntax op{
          pick<Kind>({Kind::redistribute, Kind::distribute, Kind::undistribute, Kind::allreduce}), random_name(), {}};
      if (op.kind != Kind::undistribute || flip()) op.type = random_type(mesh);
      statement.operation = std::move(op);
      break;
    }
    case 2: {
      const std::vector<DimensionFactor> factors = some(1, 2, [&] {
        return DimensionFactor{number(3), 1 + number(9)};
      });
      const std::vector<Move> moves = some(1, 2, [&] { return Move{number(3), number(3), 1 + number(9)}; });
      const auto operation = pick<StepOperation>(
          {SliceStep{factors}, GatherStep{factors, {}}, AllToAllStep{moves, {}}, PermuteStep{}, ExchangeStep{}});
      statement.operation = StepSyntax{operation, random_name(), random_type(mesh)};
      break;
    }
    default:
      statement.operation = CallSyntax{random_name(), some(0, 3, random_name)};
  }
  return statement;
}

FunctionSyntax random_function(const Mesh& mesh) {
  FunctionSyntax function;
  function.name = random_name();
  function.parameters = some(0, 4, [&] { return Parameter{random_name(), random_type(mesh)}; });
  function.result_types = some(1, 2, [&] { return random_type(mesh); });
  for (int i = number(4); i > 0; --i) {
    function.statements.push_back(random_statement(mesh, function.statements.empty()));
  }
  function.results = some(1, 2, random_name);
  function.surroundings = random_declaration_surroundings(true);
  function.return_surroundings = random_surroundings(function.statements.empty());
  function.end_surroundings = {random_comments(), false, pick<std::string>({"", "// end"})};
  return function;
}

SyntaxTree random_tree() {
  SyntaxTree tree;
  tree.source = std::make_shared<const SourceText>();
  tree.mesh = parse_mesh("{x: 2, \"a b\": 2}");
  tree.mesh_surroundings = random_surroundings(true);
  bool after_type = false;
  for (int i = number(4); i > 0; --i) {
    if (flip()) {
      tree.declarations.emplace_back(
          TypeDeclaration{random_name(), random_type(*tree.mesh), random_declaration_surroundings(!after_type)});
      after_type = true;
    } else {
      tree.declarations.emplace_back(random_function(*tree.mesh));
      after_type = false;
    }
  }
  tree.end_surroundings.above = random_comments();
  return tree;
}

RC_GTEST_PROP(Printer, random_trees_parse_back, ()) {
  const SyntaxTree tree = random_tree();
  const std::string text = to_string(tree);
  const ParseResult again = parse_program({"printed", text});
  for (const Diagnostic& diagnostic : again.diagnostics) RC_FAIL(to_string(diagnostic) + text);
  if (!(again.tree == tree)) RC_FAIL("another tree: " + text + "\nagain:\n" + to_string(again.tree));
  RC_ASSERT(to_string(again.tree) == text);
}

}  // namespace
}  // namespace retile::test
