// Compares what the XLA compiler did with our plans, under the paper's cost model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/text_lines.h"
#include "retile/base/diagnostic.h"
#include "retile/contenders/xla_plans.h"
#include "retile/planner/problem.h"

namespace retile::bench {
namespace {

struct Arguments {
  std::string problems = RETILE_SOURCE_DIR "/tests/data/problems.jsonl";
  std::string plans = RETILE_SOURCE_DIR "/tests/data/xla_plans.jsonl";
  bool json = false;
};

[[noreturn]] void fail_at(const SourceText& line, std::string message, std::string hint = {}) {
  throw InputError(diagnose(line, {0, line.text.size()}, std::move(message), std::move(hint)));
}

std::map<std::string, Problem> problems_by_id(const std::string& path) {
  std::map<std::string, Problem> problems;
  for (const SourceText& line : read_lines(path)) {
    Problem problem = parse_problem(line);
    std::string id = problem.id();
    if (!problems.emplace(id, std::move(problem)).second) fail_at(line, fmt::format("a second problem \"{}\"", id));
  }
  return problems;
}

XlaComparison compare_line(const SourceText& line, const Problem& problem, const XlaPlan& plan) {
  try {
    return compare_with_xla(problem, plan);
  } catch (const InputError& error) {
    fail_at(line, error.diagnostic().message, error.diagnostic().hint);
  }
}

// In the order of the plans. Problems without a plan are left out.
std::vector<XlaComparison> compare_files(const Arguments& arguments) {
  std::map<std::string, Problem> problems = problems_by_id(arguments.problems);
  std::vector<XlaComparison> comparisons;
  for (const SourceText& line : read_lines(arguments.plans)) {
    const XlaPlan plan = parse_xla_plan(line);
    const auto found = problems.find(plan.id);
    if (found == problems.end()) {
      fail_at(line, fmt::format("there is no problem \"{}\" left for this plan", plan.id),
              fmt::format("each problem of {} may have one plan", arguments.problems));
    }
    comparisons.push_back(compare_line(line, found->second, plan));
    problems.erase(found);
  }
  if (comparisons.empty()) {
    throw InputError(fmt::format("there are no plans in '{}'", arguments.plans), "each line is one, as JSON");
  }
  if (!problems.empty()) fmt::print(stderr, "problems without a plan of XLA, left out: {}\n", problems.size());
  return comparisons;
}

std::string to_json(const XlaComparison& comparison) {
  const nlohmann::ordered_json line{
      {"id", comparison.id},
      {"xla", {{"cost", comparison.xla_cost}, {"peak", comparison.xla_peak}}},
      {"paper", {{"cost", comparison.paper_cost}}},
      {"wide", {{"cost", comparison.wide_cost}}},
      {"peak", comparison.our_peak},
      {"bound", comparison.bound},
  };
  return line.dump() + "\n";
}

std::string ratio_line(const char* planner, const CostRatios& ratios) {
  return fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} | {} | {} |\n", planner, ratios.geometric_mean, ratios.largest,
                     ratios.smallest, ratios.xla_dearer, ratios.xla_cheaper);
}

double percent(int part, int whole) { return whole == 0 ? 0 : 100.0 * part / whole; }

std::string to_text(const XlaSummary& summary) {
  std::string text = fmt::format(
      "{} problems, {} of which move data. XLA's cost over ours, on those:\n\n"
      "| planner | geometric mean | at most | at least | XLA costs more | XLA costs less |\n"
      "|---|---|---|---|---|---|\n",
      summary.problems, summary.moving);
  text += ratio_line("paper", summary.paper) + ratio_line("wide", summary.wide);
  text += fmt::format(
      "\nA tensor larger than both source and target: XLA on {} ({:.1f} %), {:.2f} times as large at worst; we on "
      "{}.\n",
      summary.xla_above_bound, percent(summary.xla_above_bound, summary.problems), summary.largest_peak,
      summary.ours_above_bound);
  if (summary.one_sided > 0) {
    text += fmt::format("On {} problems only one side moves data.\n", summary.one_sided);
  }
  return text;
}

void run(const Arguments& arguments) {
  const std::vector<XlaComparison> comparisons = compare_files(arguments);
  if (!arguments.json) fmt::print("{}", to_text(summarize(comparisons)));
  for (const XlaComparison& comparison : comparisons) {
    if (arguments.json) fmt::print("{}", to_json(comparison));
  }
}

int main_with(int argument_count, char** arguments_given) {
  CLI::App app("Compares the plans of the XLA compiler with ours, under the paper's cost model.", "compare_xla");
  Arguments arguments;
  app.add_option("PROBLEMS", arguments.problems, "problems, one a line as JSON; the paper's family unless told");
  app.add_option("PLANS", arguments.plans, "XLA's plan of each, one a line as JSON");
  app.add_flag("--json", arguments.json, "one line per problem instead of the summary");
  try {
    app.parse(argument_count, arguments_given);
    run(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const InputError& error) {
    std::fputs(to_string(error.diagnostic()).c_str(), stderr);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  try {
    return retile::bench::main_with(argument_count, arguments);
  } catch (const std::exception& error) {
    std::fputs("compare_xla: this is a bug in retile: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return 70;
  }
}
