// retile plan
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "retile/plan/json.h"
#include "retile/plan/text.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"

namespace retile::command {
namespace plan_command {

constexpr const char* examples =
    R"(Types read as in [8{x,y}32, 128]: a dimension of 32 cut into tiles of 8 along the axes x and y, from
minor to major (x varies fastest), and one of 128 that is not cut.

Examples:
  rows to columns over one axis
    retile plan --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]'
  the same as JSON, with groups and the corner of every device's tile
    retile plan --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' --json
  with the paper's collectives, which act on one dimension at a time
    retile plan --mesh x=4,y=6 '[3{x}12, 2{y}12]' '[2{y}12, 3{x}12]' --planner paper
  shardings of another system (docs/notations.md), and what its compiler would do
    retile plan --shape 'f32[16,16,16]' '{devices=[2,1,4]<=[4,2]T(1,0)}' '{devices=[1,8,1]<=[8]}' --planner xla
  a file of problems
    echo '{"mesh": {"a":2,"b":2}, "shape": [4,6], "src": [["a"],[]], "dst": [[],["b"]]}' | retile plan --problems -)";

struct Arguments {
  ProblemArguments problem;
  bool json = false;
  bool full = false;
  bool donate = false;
};

// The most devices for --full: the lists of a larger mesh would exhaust the memory.
constexpr std::int64_t most_full_devices = 1 << 22;

void check_lists(const Problem& problem) {
  const std::int64_t devices = problem.device_count();
  if (devices <= most_full_devices) return;
  throw InputError(fmt::format("{} devices are too many for --full", devices),
                   fmt::format("at most {} are listed", most_full_devices));
}

void write_line(const Plan& plan, PlanLists lists) {
  bool has_begun = false;
  try {
    write_json(plan, lists, [&](std::string_view text) {
      has_begun = true;
      write_part(text);
    });
  } catch (...) {
    if (has_begun) write_result("\n");  // so that the next result begins on a new line
    throw;
  }
  write_result("\n");
}

int run(const Arguments& arguments) {
  if (arguments.full && !arguments.json) throw UsageError("--full goes with --json");
  if (arguments.donate && !arguments.problem.memory_limit) throw UsageError("--donate goes with --memory-limit");
  if (arguments.json && arguments.problem.notation) throw UsageError("--notation goes with text, not with --json");
  const PlanLists lists = arguments.full ? PlanLists::always : PlanLists::when_small;
  bool first = true;
  return for_each_problem(arguments.problem, "planning", [&](const Problem& problem) {
    if (arguments.full) check_lists(problem);
    const Plan plan = plan_for(arguments.problem, problem, arguments.donate ? TileUse::donated : TileUse::kept);
    if (arguments.json) return write_line(plan, lists);
    write_result((std::exchange(first, false) ? "" : "\n") + remarks_on(arguments.problem, problem) +
                 to_string(plan, palette_of(stdout)));
  });
}

}  // namespace plan_command

void add_plan_command(Command app, int* status) {
  using namespace plan_command;
  const auto [command, arguments] =
      add_subcommand(app, "plan", "Show the steps that lead from one layout to another", examples, run, status);
  add_problem_options(command, arguments.problem, PlannerChoice::with_xla);
  command.add_flag("--json", arguments.json, "one plan a line, as JSON");
  command.add_flag("--donate", arguments.donate, "with --memory-limit: the run may free source tiles on its way");
  command.add_flag("--full", arguments.full, "with --json: list groups and offsets above 4096 devices too");
}

}  // namespace retile::command
