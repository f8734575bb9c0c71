// Where the command's problems come from: its arguments, or files.
#pragma once

#include <CLI/CLI.hpp>
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

namespace retile::command {

// The file's text; "-" is standard input. Throws InputError where it cannot be read.
SourceText read_file(const std::string& path);
// Reads a log, in which zero bytes are taken for spaces: they come from programs that crash, and from rotation.
SourceText read_log(const std::string& path);

// The JSON values of a file, as text: each begins and ends a line. Throws InputError where there are none; `what` names
// them.
std::vector<SourceText> read_values(const std::string& path, const std::string& what);

// The problems of a file, as text. Throws InputError where there are none.
std::vector<SourceText> problem_lines(const std::string& path);

// The options that say which problems to solve, and how to plan them.
struct ProblemArguments {
  std::optional<std::string> mesh;
  std::optional<std::string> target_mesh;
  std::optional<std::string> source;
  std::optional<std::string> target;
  std::optional<std::string> problems;
  std::optional<std::string> element_type;
  std::optional<std::string> shape;  // of arrays in other notations, which do not say it
  bool is_local_shape = false;
  std::optional<std::string> notation;  // to print source and target in
  std::string planner = "auto";
  std::optional<std::string> cost_model;  // none: seconds where there is a machine, else paper
  std::optional<std::string> machine;     // a file
  std::optional<std::string> memory_limit;
  bool no_exchange = false;
  bool relabel = false;  // choose which device gets which target tile
  double effort = 1;
};

// Whose choice of planners may have XLA's rules in it.
enum class PlannerChoice { ours, with_xla };
constexpr const char* xla_planner = "xla";

void add_problem_options(CLI::App& command, ProblemArguments& arguments, PlannerChoice choice = PlannerChoice::ours);
// What plans may be compared by.
enum class CostChoice { elements, seconds_too };

// Those of them that say how to plan: --planner, --cost, --machine where costs may be seconds, --no-exchange, --effort.
void add_planner_options(CLI::App& command, ProblemArguments& arguments, PlannerChoice choice = PlannerChoice::ours,
                         CostChoice costs = CostChoice::elements);

// The options for one problem: a memory limit in bytes or as a factor depends on it.
PlanOptions plan_options(const ProblemArguments& arguments, const Problem& problem);
// Without a memory limit. Throws UsageError where they contradict each other.
PlanOptions planner_options(const ProblemArguments& arguments);
// The problem's plan by the planner that was asked for, XLA's rules among them.
Plan plan_for(const ProblemArguments& arguments, const Problem& problem, TileUse tiles = TileUse::kept,
              const Executor& executor = {});

// The machine of a file, which is read once.
const Machine& machine_of(const std::string& path);

// The mesh that --mesh gives, in any notation.
std::optional<interchange::PlacedMesh> given_mesh(const ProblemArguments& arguments);
// The array that --shape gives.
std::optional<interchange::ArrayText> given_array(const ProblemArguments& arguments);

// Lines of comments for a result's text: how arguments in another notation were read, and the problem in the notation
// that was asked for. Throws InputError where that cannot say it.
std::string remarks_on(const ProblemArguments& arguments, const Problem& problem);

// Calls `run`. Where a cap on memory is too small, the fault is shown at --max-bytes, which said it.
int run_within_cap(const std::string& max_bytes, const std::function<int()>& run);

// Calls visit(problem) for each problem, relabelled where that is asked for, and returns the exit status. A bad line of
// a file is reported on stderr, and so is a problem that fails; the others are still answered. `action` is what a
// progress bar says is being done, once it takes long. A file of more than so many problems is refused.
int for_each_problem(const ProblemArguments& arguments, std::string_view action,
                     const std::function<void(const Problem& problem)>& visit, std::size_t most = SIZE_MAX);
// Throws InputError where there are more values than that; `what` names them.
void require_at_most(std::size_t most, const std::vector<SourceText>& values, std::string_view what);

}  // namespace retile::command
