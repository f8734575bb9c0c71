#include "bench/xla_records.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <utility>

#include "bench/text_lines.h"

namespace retile::bench {
namespace {

std::map<std::string, Problem> problems_by_id(const std::string& path) {
  std::map<std::string, Problem> problems;
  for (const SourceText& line : read_lines(path)) {
    Problem problem = parse_problem(line);
    std::string id = problem.id();
    if (!problems.emplace(id, std::move(problem)).second) fail_at(line, fmt::format("a second problem \"{}\"", id));
  }
  return problems;
}

}  // namespace

void fail_at(const SourceText& line, std::string message, std::string hint) {
  throw InputError(diagnose(line, {0, line.text.size()}, std::move(message), std::move(hint)));
}

void declare_xla_files(CLI::App& app, XlaFiles& files) {
  app.add_option("PROBLEMS", files.problems, "problems, one a line as JSON; default: the paper's family");
  app.add_option("PLANS", files.plans, "XLA's plan of each, one a line as JSON");
}

std::vector<XlaRecord> read_xla_records(const XlaFiles& files) {
  std::map<std::string, Problem> left = problems_by_id(files.problems);
  std::vector<XlaRecord> records;
  for (const SourceText& line : read_lines(files.plans)) {
    evaluation::XlaPlan plan = evaluation::parse_xla_plan(line);
    auto found = left.extract(plan.id);
    if (found.empty()) {
      fail_at(line, fmt::format("there is no problem \"{}\" left for this plan", plan.id),
              fmt::format("each problem of {} may have one plan", files.problems));
    }
    records.push_back({line, std::move(found.mapped()), std::move(plan)});
  }
  if (records.empty())
    throw InputError(fmt::format("there are no plans in '{}'", files.plans), "each line is one, as JSON");
  if (!left.empty()) fmt::print(stderr, "problems without a plan of XLA, left out: {}\n", left.size());
  return records;
}

}  // namespace retile::bench
