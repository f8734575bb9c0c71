#include "retile/language/parser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/language/programs.h"

namespace retile::test {
namespace {

using namespace language;

std::string with_expression(const std::string& expression) {
  return "mesh {x: 2}\nfn f(a: [8]) -> [8] {\n  b = spmd_op a (t: [8]) {\n    return " + expression +
         "\n  } as [8]\n  return b\n}\n";
}

std::string repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// --- Depth.

TEST(Depth, several_hundred_levels_are_too_many) {
  EXPECT_EQ(faults_of(with_expression(repeat("(", 199) + "t" + repeat(")", 199))), "");
  EXPECT_EQ(faults_of(with_expression("t" + repeat(" + t", 199))), "");
  const std::string message = "error: this expression is nested too deeply\n";
  for (const std::string& deep : {repeat("(", 100000) + "t", "t" + repeat(" + t", 100000), repeat("-", 100000) + "t",
                                  repeat("exp (", 100000) + "t", repeat("t * (", 100000)}) {
    const std::string said = faults_of(with_expression(deep));
    EXPECT_NE(said.find(message), std::string::npos) << said.substr(0, 200);
  }
}

TEST(Depth, chains_within_parentheses_count_together) {
  std::string expression = "t";
  for (int i = 0; i < 100; ++i) expression = "(" + expression + repeat(" + t", 100) + ")";
  EXPECT_NE(faults_of(with_expression(expression)).find("nested too deeply"), std::string::npos);
}

// --- Bytes that are no text.

TEST(Bytes, that_are_not_text_get_a_diagnostic) {
  const std::string rest = "\nfn f(a: [8]) -> [8] { return a }\n";
  for (const std::string& bytes : {std::string("\xff\xfe"), std::string("\x01"), std::string("\0", 1), std::string("é"),
                                   std::string("\"never closed"), std::string("/* never closed")}) {
    EXPECT_NE(faults_of(bytes), "");
    EXPECT_NE(faults_of("mesh {x: 2} " + bytes + rest), "");
    EXPECT_NE(faults_of("mesh {x: 2}\nfn f(a: [8" + bytes + "]) -> [8] { return a }\n"), "");
    EXPECT_NE(faults_of("mesh {x: 2}\nfn f(a: [8]) -> [8] { b = " + bytes + " return a }\n"), "");
  }
}

TEST(Bytes, line_ends_of_windows_are_space) {
  EXPECT_EQ(faults_of("mesh {x: 2}\r\nfn f(a: [8]) -> [8] {\r\n  return a // c\r\n}\r\n"), "");
}

TEST(Bytes, every_prefix_of_a_program_is_judged) {
  const std::string text = read_source("examples/paper/chain.spmd");
  EXPECT_EQ(faults_of(text), "");
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_NE(faults_of(text.substr(0, length)), "") << length;
  }
}

TEST(Bytes, every_program_without_one_byte_is_judged) {
  const std::string text = read_source("tests/fuzz/corpus/fuzz_language/steps.spmd");
  EXPECT_EQ(faults_of(text), "");
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string cut = text;
    cut.erase(i, 1);
    faults_of(cut);  // whatever it says
  }
}

// --- Size.

double seconds_of(const std::string& text, std::string* said) {
  const auto start = std::chrono::steady_clock::now();
  *said = faults_of(text);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string long_program(int statements, bool right) {
  std::string text = "mesh {x: 2, y: 4}\nfn main(v0: [8, 8]) -> [8, 8] {\n";
  for (int i = 0; i < statements; ++i) {
    text += "  v" + std::to_string(i + 1) + " = redistribute v" + std::to_string(i) +
            (right ? " as [8, 8]\n" : " az [4{q}8, 8]\n");
  }
  return text + "  return v" + std::to_string(statements) + "\n}\n";
}

// Far above what a linear parser needs, and far below what a quadratic one does.
TEST(Size, many_lines_take_seconds) {
  std::string said;
  EXPECT_LT(seconds_of(long_program(100000, true), &said), 20);
  EXPECT_EQ(said, "");
  EXPECT_LT(seconds_of(long_program(100000, false), &said), 20);
  EXPECT_NE(said, "");
}

TEST(Size, long_chains_of_calls_need_no_stack) {
  std::string text = "mesh {x: 2}\nfn main(a: [8]) -> [8] { b = g0(a) return b }\n";
  for (int i = 0; i < 20000; ++i) {
    text += "fn g" + std::to_string(i) + "(a: [8]) -> [8] { b = g" + std::to_string(i + 1) + "(a) return b }\n";
  }
  EXPECT_EQ(faults_of(text + "fn g20000(a: [8]) -> [8] { return a }\n"), "");
  const std::string cycle = faults_of(text + "fn g20000(a: [8]) -> [8] { b = g0(a) return b }\n");
  EXPECT_NE(cycle.find("error: g0 calls itself: g0, g1, g2, g3, g4, g5, g6, g7, 19993 more, g0\n"), std::string::npos)
      << cycle;
}

TEST(Size, faults_are_not_reported_without_end) {
  const ParseResult result = parse_program({"program", long_program(1000, false)});
  EXPECT_EQ(result.diagnostics.size(), most_diagnostics);
}

TEST(Size, large_meshes_are_not_looped_over) {
  EXPECT_EQ(faults_of(R"(mesh {x: 32768, y: 32768}
fn f(a: [1{x}32768, 1{y}32768]) -> [32768, 32768] {
  b = dynslice(0: 1) a as [1{x}32768, 1{y}32768]
  c = alltoall(0 -> 1: 1) b as [1{x}32768, 1{y}32768]
  d = allgather(0: 32768, 1: 32768) c as [32768, 32768]
  e = allpermute a as [1{y}32768, 1{x}32768]
  g = exchange e as [1{x}32768, 32768]
  h = redistribute g as [32768, 1{x}32768]
  return d
}
)"),
            "");
}

// --- Comments.

TEST(Comments, are_found_outside_of_quotes_only) {
  const SyntaxTree tree = parsed("mesh {\"a//b\": 2, \"c/*d\": 2} // e\nfn f(a: [8]) -> [8] { return a }");
  EXPECT_EQ(tree.mesh_surroundings.beside, "// e");
  EXPECT_EQ(tree.mesh->axis(0).name, "a//b");
}

}  // namespace
}  // namespace retile::test
