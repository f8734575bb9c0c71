// Compares what the XLA compiler did with our plans, under the paper's cost model.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/xla_records.h"
#include "evaluation/xla_plans.h"

namespace retile::bench {
namespace {

using namespace evaluation;

struct Arguments {
  XlaFiles files;
  bool json = false;
};

std::vector<XlaComparison> compare_files(const Arguments& arguments) {
  std::vector<XlaComparison> comparisons;
  for (const XlaRecord& record : read_xla_records(arguments.files)) {
    comparisons.push_back(at_line(record.line, [&] { return compare_with_xla(record.problem, record.plan); }));
  }
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

void declare(CLI::App& app, Arguments& arguments) {
  declare_xla_files(app, arguments.files);
  app.add_flag("--json", arguments.json, "one line per problem instead of the summary");
}

constexpr Program<Arguments> compare_xla{
    "compare_xla", "Compares the plans of the XLA compiler with ours, under the paper's cost model.", declare, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_program(retile::bench::compare_xla, argument_count, arguments);
}
