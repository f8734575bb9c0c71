// retile verify
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/render/terminal.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"

namespace retile::command {
namespace {

constexpr const char* examples = R"(
Replays the boxes that every device holds, step by step, and says which device lacks which part of
which box where a plan is wrong. It knows nothing of how plans are made.

Example:
  retile plan --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' --json > plan.json
  retile verify plan.json)";

// A file holds one plan a line, or a single plan over many lines.
std::vector<SourceText> plans_in(const SourceText& file) {
  std::vector<SourceText> lines;
  for_each_line(file, [&](const SourceText& line) { lines.push_back(line); });
  if (lines.empty()) throw InputError(diagnose(file, {0, 0}, "there is no plan in this file"));
  const std::size_t last = lines.front().text.find_last_not_of(" \t\r");
  if (lines.front().text[last] != '}') return {file};
  return lines;
}

int verify(const SourceText& text) {
  const Plan plan = parse_plan(text);
  const std::vector<std::string> faults = find_faults(plan);
  const std::string place = fmt::format("{}:{}", text.name, text.first_line);
  for (const std::string& fault : faults) std::fputs(fmt::format("{}: {}\n", place, fault).c_str(), stderr);
  if (!faults.empty()) return failed;
  std::fputs(fmt::format("{}: {} verified: {} steps, cost {} ({}), peak {} of {} elements allowed\n", place,
                         plan.id.empty() ? "plan" : plan.id, plan.steps.size(), group_digits(plan.cost.total),
                         plan.cost.model, group_digits(plan.memory.peak), group_digits(plan.memory.bound))
                 .c_str(),
             stdout);
  return done;
}

int run(const std::string& path) {
  int status = done;
  for (const SourceText& text : plans_in(read_file(path))) {
    try {
      const int result = verify(text);
      status = std::max(status, result);
    } catch (const InputError& error) {
      std::fputs(to_string(error.diagnostic()).c_str(), stderr);
      status = std::max<int>(status, bad_input);
    }
  }
  return status;
}

}  // namespace

void add_verify_command(CLI::App& app, int* status) {
  CLI::App* command = app.add_subcommand("verify", "Check plans that somebody made");
  const auto path = std::make_shared<std::string>();
  command->add_option("PLAN", *path, "file with one plan a line as JSON; - is standard input")->required();
  command->footer(examples);
  command->callback([path, status] { *status = run(*path); });
}

}  // namespace retile::command
