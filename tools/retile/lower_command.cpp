// retile lower
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "retile/language/passes.h"
#include "retile/language/printer.h"
#include "retile/language/summary.h"
#include "retile/plan/text.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"

namespace retile::command {
namespace lower_command {

constexpr const char* examples =
    R"(Prints the program with every redistribution replaced by the steps of its plan, and a comment above each
step: tiles before and after, cost, and the groups of devices that communicate. The result is a program again.
With --summary it prints instead what each statement moves, costs and needs in memory, and where the program
needs the most memory.

Examples:
  the steps of one redistribution
    echo 'mesh {x: 4} fn main(a: [2{x}8, 8]) -> [8, 2{x}8] { b = redistribute a as [8, 2{x}8] return b }' |
      retile lower -
  what it costs
    echo 'mesh {x: 4} fn main(a: [2{x}8, 8]) -> [8, 2{x}8] { b = redistribute a as [8, 2{x}8] return b }' |
      retile lower --summary -)";

struct Arguments {
  std::string path;
  ProblemArguments planning;
  std::optional<std::string> pass;
  bool summary = false;
  bool json = false;
};

using Row = std::vector<std::string>;

// A table whose columns are as wide as their widest entry; numbers, from column `first_number` on, are aligned right.
std::string render_table(const std::vector<Row>& rows, std::size_t first_number) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? "" : "  ";
      line += i < first_number ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string render_summary(const language::ProgramSummary& summary) {
  std::vector<Row> rows{{"line", "statement", "from", "to", "steps", "cost", "received bytes", "peak bytes"}};
  for (const language::MovementSummary& movement : summary.movements) {
    const language::MovementFigures& figures = movement.figures;
    rows.push_back({fmt::format("{}", movement.line),
                    fmt::format("{}: {} = {}", movement.function, movement.name, movement.operation), movement.from,
                    movement.to, group_digits(figures.steps), group_digits(figures.cost),
                    group_digits(figures.received_bytes), group_digits(figures.peak_bytes)});
  }
  const std::string place = summary.peak_statement.empty()
                                ? fmt::format("where {} is entered", summary.peak_function)
                                : fmt::format("at {} of {}", summary.peak_statement, summary.peak_function);
  return render_table(rows, 4) +
         fmt::format(
             "planner {}, costs in elements ({}); bytes are per device\nthe program's peak: {} bytes {}, line {}\n",
             summary.planner, summary.cost_model, group_digits(summary.peak_bytes), place, summary.peak_line);
}

int run(const Arguments& arguments) {
  const bool summary = arguments.summary || arguments.json;
  if (arguments.pass && summary) throw UsageError("--dump-after cannot be combined with --summary or --json");
  const PlanOptions options = planner_options(arguments.planning);
  const language::CheckedProgram checked = language::read_program(read_file(arguments.path));
  std::string text;
  if (summary) {
    const language::ProgramSummary figures = summarize(lower_program(checked.program, options));
    text = arguments.json ? to_json(figures) + "\n" : render_summary(figures);
  } else {
    const language::Pass pass = *language::find_pass(arguments.pass.value_or("lower"));
    text = to_string(tree_after(pass, checked, options));
  }
  write_result(text);
  return done;
}

}  // namespace lower_command

void add_lower_command(Command app, int* status) {
  using namespace lower_command;
  const auto [command, arguments] =
      add_subcommand(app, "lower", "Show what a program's redistributions become", examples, run, status);
  command.add_option("FILE", arguments.path, "program; - is standard input").required().type_name("");
  add_planner_options(command, arguments.planning);
  add_value(command, "--dump-after", arguments.pass,
            "print the program after a pass:\n"
            "parse: as written, in canonical form; check: with all types spelled out;\n"
            "lower: redistributions as the steps of their plans",
            "PASS", known_name(language::pass_names));
  command.add_flag("--summary", arguments.summary,
                   "a table of what redistributions and allreduces move, cost and need");
  command.add_flag("--json", arguments.json, "the summary as JSON");
}

}  // namespace retile::command
