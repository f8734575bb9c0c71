// retile verify
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/utf8.h"
#include "retile/plan/json.h"
#include "retile/plan/text.h"
#include "retile/plan/verify.h"
#include "retile/planner/bound_check.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"

namespace retile::command {
namespace verify_command {

constexpr const char* examples =
    R"(Replays the boxes that every device holds, step by step, and says which device lacks which part of
which box where a plan is wrong. The check is independent of how plans are made. A lower bound is then
compared with what the planner named in the plan proves and finds: it is confirmed, refuted or not checked.

Example:
  retile plan --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' --json | retile verify -)";

// The claim of a plan: that it is optimal, or its lower bound.
std::string claim_of(const Plan& plan) {
  return plan.cost.optimal ? "optimal" : fmt::format("lower bound {}", group_digits(plan.cost.lower_bound));
}

std::string render(const std::string& place, const Plan& plan, const PlanStatements& statements,
                   const std::optional<BoundCheck>& bound) {
  std::string summary = fmt::format("{}: {} verified: {}", place, plan.id.empty() ? "plan" : printable(plan.id),
                                    count_of(static_cast<std::int64_t>(plan.steps().size()), "step"));
  if (statements.cost) {
    summary += fmt::format(", cost {} ({})", group_digits(plan.cost.total), printable(plan.cost.model));
  }
  if (statements.memory) {
    summary += fmt::format(", peak {} of {} elements allowed", group_digits(plan.memory.peak),
                           group_digits(plan.memory.bound));
  }
  if (bound) summary += fmt::format("; {} {}: {}", claim_of(plan), name_of(bound->verdict), bound->reason);
  return summary + "\n";
}

int verify(const SourceText& text, bool json) {
  const auto [plan, statements] = parse_plan(text);
  std::vector<std::string> faults = find_faults(plan, statements);
  std::optional<BoundCheck> bound;
  if (faults.empty() && statements.cost) bound = check_bound(plan);
  if (bound && bound->verdict == BoundVerdict::refuted) {
    faults.push_back(fmt::format("cost: {} refuted: {}", claim_of(plan), bound->reason));
  }
  const std::string place = fmt::format("{}:{}", text.name, text.first_line);
  if (json) {
    write_result(verification_json(plan.id, text.first_line, faults, bound) + "\n");
  } else if (faults.empty()) {
    write_result(render(place, plan, statements, bound));
  }
  std::string message;
  for (const std::string& fault : faults) {
    message += fmt::format("{}: {} {}\n", place, Palette::paint(palette_of(stderr).error, "error:"), fault);
  }
  return faults.empty() ? done : fail(failed, message);
}

struct Arguments {
  std::string path;
  bool json = false;
};

int run(const Arguments& arguments) {
  int status = done;
  for (const SourceText& text : read_values(arguments.path, "plans")) {
    status = std::max(status, attempt([&] { return verify(text, arguments.json); }, &text));
  }
  return status;
}

}  // namespace verify_command

void add_verify_command(Command app, int* status) {
  using namespace verify_command;
  const auto [command, arguments] = add_subcommand(app, "verify", "Check plans from a file", examples, run, status);
  command.add_option("PLAN", arguments.path, "file with one plan a line as JSON; - is standard input")
      .required()
      .type_name("");
  command.add_flag("--json", arguments.json, "one report a line, as JSON");
}

}  // namespace retile::command
