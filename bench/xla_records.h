// What the XLA compiler did, beside the problems: two files, one line per problem in each.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "evaluation/xla_plans.h"
#include "retile/base/diagnostic.h"
#include "retile/planner/problem.h"

namespace retile::bench {

struct XlaFiles {
  std::string problems = RETILE_SOURCE_DIR "/tests/data/problems.jsonl";
  std::string plans = RETILE_SOURCE_DIR "/tests/data/xla_plans.jsonl";
};

void declare_xla_files(CLI::App& app, XlaFiles& files);

struct XlaRecord {
  SourceText line;  // of the plan
  Problem problem;
  evaluation::XlaPlan plan;
};

// In the order of the plans. Problems without a plan are left out, and standard error says how many.
// Throws InputError.
std::vector<XlaRecord> read_xla_records(const XlaFiles& files);

[[noreturn]] void fail_at(const SourceText& line, std::string message, std::string hint = {});

// What the action returns; its InputErrors point to the line.
template <typename Action>
auto at_line(const SourceText& line, const Action& action) {
  try {
    return action();
  } catch (const InputError& error) {
    fail_at(line, error.diagnostic().message, error.diagnostic().hint);
  }
}

}  // namespace retile::bench
