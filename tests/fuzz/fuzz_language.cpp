// A program: parsed, checked, printed and, where it is small, lowered.
#include "retile/language/checker.h"
#include "retile/language/parser.h"
#include "retile/language/passes.h"
#include "retile/language/printer.h"
#include "retile/language/summary.h"
#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "tests/fuzz/require.h"

namespace retile::fuzz {
namespace {

using namespace language;

// What is printed parses to an equal tree, and prints as the same text.
void check_printing(const SyntaxTree& tree) {
  const std::string text = to_string(tree);
  const ParseResult again = parse_program({"printed", text});
  for (const Diagnostic& diagnostic : again.diagnostics) require(false, to_string(diagnostic));
  require(again.tree == tree, "a program parses back: " + text);
  require(to_string(again.tree) == text, "printing is idempotent: " + text);
}

bool is_small(const Program& program) {
  bool small = program.mesh.device_count() <= 64;
  for (const Function& function : program.functions) {
    for (const Value& value : function.values) small = small && value.type.placement.rank() <= 8;
  }
  return small;
}

void check_steps(const Program& program) {
  for (const Function& function : program.functions) {
    for (const Statement& statement : function.statements) {
      const auto* step = std::get_if<StepStatement>(&statement.operation);
      if (step == nullptr) continue;
      const Movement movement{program.mesh, operand_of(function, statement).type.placement, {step->step}};
      for (const std::string& fault : find_faults(with_lists(movement))) require(false, fault);
    }
  }
}

void check_lowering(const CheckedProgram& checked) {
  const auto lowered = try_parse([&] { return lower_program(checked.program); });
  if (!lowered) return;  // a cost does not fit in 63 bits
  const SyntaxTree tree = lowered_tree(checked.tree, *lowered);
  check_printing(tree);
  const CheckedProgram again = read_program({"lowered", to_string(tree)});
  check_steps(again.program);
  require(lowered_tree(again.tree, lower_program(again.program)) == again.tree, "a lowered program lowers to itself");
  try_parse([&] { return summarize(*lowered); });
}

}  // namespace
}  // namespace retile::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace retile;
  const language::ParseResult parsed = language::parse_program({"program", fuzz::text_of(data, size)});
  for (const Diagnostic& diagnostic : parsed.diagnostics) fuzz::require(!to_string(diagnostic).empty(), "it has words");
  if (parsed.diagnostics.empty()) fuzz::check_printing(parsed.tree);
  language::CheckResult checked = language::check_program(parsed.tree);
  for (const Diagnostic& diagnostic : checked.diagnostics)
    fuzz::require(!to_string(diagnostic).empty(), "it has words");
  const bool faultless = parsed.diagnostics.empty() && checked.diagnostics.empty();
  fuzz::require(!faultless || checked.program.has_value(), "what is not wrong is right");
  if (faultless && fuzz::is_small(*checked.program)) {
    fuzz::check_lowering({parsed.tree, std::move(*checked.program)});
  }
  return 0;
}
