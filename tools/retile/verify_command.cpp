// retile verify
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "retile/base/utf8.h"
#include "retile/plan/json.h"
#include "retile/plan/text.h"
#include "retile/plan/verify.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/output.h"

namespace retile::command {
namespace {

constexpr const char* examples =
    R"(Replays the boxes that every device holds, step by step, and says which device lacks which part of
which box where a plan is wrong. It knows nothing of how plans are made.

Example:
  retile plan --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' --json | retile verify -)";

int verify(const SourceText& text) {
  const auto [plan, statements] = parse_plan(text);
  const std::vector<std::string> faults = find_faults(plan, statements);
  const std::string place = fmt::format("{}:{}", text.name, text.first_line);
  std::string message;
  for (const std::string& fault : faults) {
    message += fmt::format("{}: {} {}\n", place, Palette::paint(palette_of(stderr).error, "error:"), fault);
  }
  if (!faults.empty()) return fail(failed, message);
  std::string summary = fmt::format("{}: {} verified: {}", place, plan.id.empty() ? "plan" : printable(plan.id),
                                    count_of(static_cast<std::int64_t>(plan.steps().size()), "step"));
  if (statements.cost) {
    summary += fmt::format(", cost {} ({})", group_digits(plan.cost.total), printable(plan.cost.model));
  }
  if (statements.memory) {
    summary += fmt::format(", peak {} of {} elements allowed", group_digits(plan.memory.peak),
                           group_digits(plan.memory.bound));
  }
  write_result(summary + "\n");
  return done;
}

int run(const std::string& path) {
  int status = done;
  for (const SourceText& text : read_values(path, "plans")) {
    status = std::max(status, attempt([&] { return verify(text); }, &text));
  }
  return status;
}

}  // namespace

void add_verify_command(CLI::App& app, int* status) {
  CLI::App* command = app.add_subcommand("verify", "Check plans that somebody made");
  const auto path = std::make_shared<std::string>();
  command->add_option("PLAN", *path, "file with one plan a line as JSON; - is standard input")
      ->required()
      ->type_name("");
  command->footer(examples);
  command->callback([path, status] { *status = run(*path); });
}

}  // namespace retile::command
