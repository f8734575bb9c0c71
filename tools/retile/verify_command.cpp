// retile verify
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "retile/base/utf8.h"
#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/render/terminal.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"

namespace retile::command {
namespace {

constexpr const char* examples =
    R"(Replays the boxes that every device holds, step by step, and says which device lacks which part of
which box where a plan is wrong. It knows nothing of how plans are made.

Example:
  retile plan --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' --json | retile verify -)";

// Just behind the bracket that closes the first one, or nothing where it stays open.
std::optional<std::size_t> end_of_value(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth <= 0) return i + 1;
  }
  return std::nullopt;
}

// The file's values, whatever lines they begin and end on.
std::vector<SourceText> values_in(const SourceText& file) {
  std::vector<SourceText> values;
  std::string_view rest = file.text;
  int line = file.first_line;
  const auto skip = [&](std::size_t count) {
    line += static_cast<int>(std::count(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count), '\n'));
    rest.remove_prefix(count);
  };
  while (!is_blank(rest)) {
    skip(rest.substr(0, rest.find_first_not_of(" \t\r\n")).rfind('\n') + 1);
    const std::size_t end = end_of_value(rest).value_or(rest.size());
    values.push_back({file.name, std::string(rest.substr(0, end)), line});
    skip(end);
  }
  return values;
}

// A file holds one plan a line, or plans over several lines each.
std::vector<SourceText> plans_in(const SourceText& file) {
  std::vector<SourceText> lines;
  for_each_line(file, [&](const SourceText& line) { lines.push_back(line); });
  if (lines.empty()) throw InputError(diagnose(file, {0, 0}, "there is no plan in this file"));
  return end_of_value(lines.front().text) ? lines : values_in(file);
}

int verify(const SourceText& text) {
  const auto [plan, statements] = parse_plan(text);
  const std::vector<std::string> faults = find_faults(plan, statements);
  const std::string place = fmt::format("{}:{}", text.name, text.first_line);
  for (const std::string& fault : faults) std::fputs(fmt::format("{}: error: {}\n", place, fault).c_str(), stderr);
  if (!faults.empty()) return failed;
  std::string summary = fmt::format("{}: {} verified: {}", place, plan.id.empty() ? "plan" : printable(plan.id),
                                    count_of(static_cast<std::int64_t>(plan.steps().size()), "step"));
  if (statements.cost) {
    summary += fmt::format(", cost {} ({})", group_digits(plan.cost.total), printable(plan.cost.model));
  }
  if (statements.memory) {
    summary += fmt::format(", peak {} of {} elements allowed", group_digits(plan.memory.peak),
                           group_digits(plan.memory.bound));
  }
  std::puts(summary.c_str());
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
  command->add_option("PLAN", *path, "file with one plan a line as JSON; - is standard input")
      ->required()
      ->type_name("");
  command->footer(examples);
  command->callback([path, status] { *status = run(*path); });
}

}  // namespace retile::command
