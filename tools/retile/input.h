// The command's problems, from its arguments or from files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/interchange/notation.h"
#include "retile/planner/planner.h"
#include "retile/planner/problem.h"
#include "tools/retile/options.h"

namespace retile::command {

// Reads a file's text; "-" is standard input. Throws InputError where it cannot be read.
SourceText read_file(const std::string& path);
// Reads a log. Zero bytes, which come from programs that crash and from log rotation, become spaces.
SourceText read_log(const std::string& path);

// Reads the JSON values of a file, as text: each begins and ends a line. Throws InputError where there are none; `what`
// names them.
std::vector<SourceText> read_values(const std::string& path, const std::string& what);

// Reads the problems of a file, as text. Throws InputError where there are none.
std::vector<SourceText> problem_lines(const std::string& path);

// The options that say which problems to solve, and how to plan them.
struct ProblemArguments {
  std::optional<std::string> mesh;
  std::optional<std::string> target_mesh;
  std::optional<std::string> source;
  std::optional<std::string> target;
  std::optional<std::string> problems;
  std::optional<std::string> element_type;
  std::optional<std::string> shape;  // of arrays in other notations, whose texts do not have it
  bool is_local_shape = false;
  std::optional<std::string> notation;  // that source and target are also printed in
  std::string planner = "auto";
  std::optional<std::string> cost_model;  // none: seconds if there is a machine, else paper
  std::optional<std::string> machine;     // a file
  std::optional<std::string> memory_limit;
  bool no_exchange = false;
  bool relabel = false;  // choose which device gets which target tile
  double effort = 1;
};

// Whether XLA's rules can be chosen as a planner.
enum class PlannerChoice { ours, with_xla };
constexpr const char* xla_planner = "xla";

void add_problem_options(Command command, ProblemArguments& arguments, PlannerChoice choice = PlannerChoice::ours);
// Whether plans can be compared by seconds, too.
enum class CostChoice { elements, seconds_too };

// Adds the options that say how to plan: --planner, --cost, --machine if costs may be seconds, --no-exchange, --effort.
void add_planner_options(Command command, ProblemArguments& arguments, PlannerChoice choice = PlannerChoice::ours,
                         CostChoice costs = CostChoice::elements);

// The plan options for one problem. The memory limit depends on it, if it is a factor.
PlanOptions plan_options(const ProblemArguments& arguments, const Problem& problem);
// The plan options without a memory limit. Throws UsageError where arguments contradict each other.
PlanOptions planner_options(const ProblemArguments& arguments);
// The problem's plan by the chosen planner, which may be XLA's rules.
Plan plan_for(const ProblemArguments& arguments, const Problem& problem, TileUse tiles = TileUse::kept,
              const Executor& executor = {});

// The machine in a file, which is read once.
const Machine& machine_of(const std::string& path);

// The mesh that --mesh gives, in any notation.
std::optional<interchange::PlacedMesh> given_mesh(const ProblemArguments& arguments);
// The array that --shape gives.
std::optional<interchange::ArrayText> given_array(const ProblemArguments& arguments);

// Lines of comments for a result's text: how arguments in another notation were read, and the problem in the requested
// notation. Throws InputError where that notation cannot express it.
std::string remarks_on(const ProblemArguments& arguments, const Problem& problem);

// Calls `run`. If a cap on memory is too small, the fault is shown at the value of --max-bytes.
int run_within_cap(const std::string& max_bytes, const std::function<int()>& run);

// Calls visit(problem) for each problem, relabelled if requested, and returns the exit status. A bad line of a file is
// reported on stderr, and so is a problem that fails; the others are still answered. `action` names the work in a
// progress bar, which is shown if it takes long. A file of more than `most` problems is refused.
int for_each_problem(const ProblemArguments& arguments, std::string_view action,
                     const std::function<void(const Problem& problem)>& visit, std::size_t most = SIZE_MAX);
// Throws InputError where there are more than `most` values; `what` names them.
void require_at_most(std::size_t most, const std::vector<SourceText>& values, std::string_view what);

}  // namespace retile::command
