// Explanations of what XLA's compiler does with a redistribution, what could be done, and why: for people, and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retile/base/palette.h"
#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile::explanation {

// The price of a plan: the bytes that a device receives from others, added over the steps (the busiest device of each),
// and the largest tile on the way.
struct Account {
  std::vector<std::string> steps;
  std::int64_t moved_bytes = 0;
  std::int64_t peak_bytes = 0;
};

// The redistribution as XLA's compiler does it, by the model of its rules.
struct CompilerAccount {
  std::optional<Account> account = {};  // nothing where the model does not say
  bool rematerializes = false;          // makes the whole array on every device, though neither end has it so
  std::string remark = {};              // why there is no account, or what is peculiar about it
};

struct Explanation {
  CompilerAccount xla;
  Account ours;
  std::string planner;
  bool optimal = false;
  std::int64_t floor_bytes = 0;  // what some device must receive, whatever the plan
  std::vector<std::string> sentences = {};
  std::optional<PlanTime> time = {};                 // of our plan, where there is a machine
  std::optional<std::int64_t> xla_picoseconds = {};  // of XLA's, likewise
};

// Throws InputError as make_plan() does.
Explanation explain(const Problem& problem, const PlanOptions& options = {});

// A redistribution that is to be explained, and how it was asked for.
struct Question {
  Problem problem;
  std::string heading;  // the array, and where it was asked for
  std::string source;   // the ends as they were read
  std::string target;
  std::string from = {};  // and as they were given, in another notation; empty in our own
  std::string to = {};
  const char* shape_taken = "global";  // or "local"
  std::string operation = {};          // of a log, as are
  int line = 0;                        // 0: of none
  std::int64_t count = 1;
};

Question question_of(const Problem& problem);

// Lines for people. Remarks are lines that stand between the ends and the table.
std::string to_string(const Question& question, const Explanation& explanation, const Palette& palette = plain,
                      std::string_view remarks = {});
// A line without its end.
std::string to_json(const Question& question, const Explanation& explanation);

}  // namespace retile::explanation
