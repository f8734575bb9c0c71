// Compares the model of XLA's rules with what the compiler did, problem by problem.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/xla_records.h"
#include "retile/base/error.h"
#include "retile/contenders/xla_rules.h"

namespace retile::bench {
namespace {

using namespace contenders;
using namespace evaluation;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "nothing" : text;
}

std::string kinds_of(const Plan& plan) {
  std::vector<std::string> kinds;
  for (const Step& step : plan.steps()) kinds.emplace_back(retile::name_of(op_of(step)));
  return joined(kinds);
}

const char* name_of(XlaOp op) {
  switch (op) {
    case XlaOp::all_gather:
      return "allgather";
    case XlaOp::all_to_all:
      return "alltoall";
    case XlaOp::collective_permute:
      return "allpermute";
  }
  throw InternalError("unknown collective");
}

// With sizes in elements per device, slices left out.
std::string collectives_of(const XlaPlan& plan) {
  std::vector<std::string> collectives;
  for (const XlaStep& step : plan.steps) collectives.push_back(fmt::format("{} {}", name_of(step.op), step.out_size()));
  return joined(collectives);
}

std::string collectives_of(const Plan& plan) {
  std::vector<std::string> collectives;
  for (const Step& step : plan.steps()) {
    if (op_of(step) == StepOp::dynslice) continue;
    collectives.push_back(fmt::format("{} {}", retile::name_of(op_of(step)), step.after.local_size()));
  }
  return joined(collectives);
}

// Problems whose plans have the same kinds of steps.
struct Row {
  int problems = 0;
  int agreeing = 0;
  int above_bound = 0;  // hold more than source and target on the way
};

struct Table {
  std::map<std::string, Row> rows;  // by kinds of steps
  std::vector<std::string> differences;

  void add(const XlaRecord& record) {
    const Plan plan = at_line(record.line, [&] { return plan_by_xla_rules(record.problem); });
    Row& row = rows[kinds_of(plan)];
    ++row.problems;
    row.above_bound += plan.memory.peak > std::max(plan.memory.source, plan.memory.target) ? 1 : 0;
    if (has_collectives_of(plan, record.plan)) {
      ++row.agreeing;
    } else {
      differences.push_back(
          fmt::format("| {} | {} | {} |\n", record.plan.id, collectives_of(plan), collectives_of(record.plan)));
    }
  }
};

std::string line_of(const std::string& name, const Row& row) {
  return fmt::format("| {} | {} | {} | {} |\n", name, row.problems, row.agreeing, row.above_bound);
}

std::string to_text(const Table& table) {
  std::string text =
      "| steps by the model | problems | collectives as XLA has them | more memory than source and target |\n"
      "|---|---|---|---|\n";
  Row all;
  for (const auto& [kinds, row] : table.rows) {
    text += line_of(kinds, row);
    all.problems += row.problems;
    all.agreeing += row.agreeing;
    all.above_bound += row.above_bound;
  }
  text += line_of("all", all);
  if (table.differences.empty()) return text + "\nThe model differs on no problem.\n";
  text += "\n| problem | model | XLA |\n|---|---|---|\n";
  for (const std::string& difference : table.differences) text += difference;
  return text;
}

void run(const XlaFiles& files) {
  Table table;
  for (const XlaRecord& record : read_xla_records(files)) table.add(record);
  fmt::print("{}", to_text(table));
}

constexpr Program<XlaFiles> xla_agreement{"xla_agreement",
                                          "Compares the model of XLA's resharding rules with what the compiler did.",
                                          declare_xla_files, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_program(retile::bench::xla_agreement, argument_count, arguments);
}
