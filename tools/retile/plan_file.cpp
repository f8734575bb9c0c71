#include "tools/retile/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "retile/base/error.h"
#include "retile/plan/verify.h"
#include "tools/retile/command.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"

namespace retile::command {
namespace {

// Checks that nothing but the element type is given beside a file of plans.
void check_plan_usage(const ProblemArguments& arguments) {
  planner_options(arguments);
  const bool asks_for_plan = arguments.planner != "auto" || arguments.memory_limit || arguments.no_exchange ||
                             arguments.relabel || arguments.machine;
  if (asks_for_plan) {
    throw UsageError(
        "a file of plans cannot be combined with --planner, --machine, --memory-limit, --no-exchange or --relabel");
  }
  if (arguments.mesh || arguments.target_mesh || arguments.shape || arguments.is_local_shape || arguments.notation) {
    throw UsageError("a file of plans cannot be combined with --mesh or --shape; a problem needs both SRC and DST");
  }
}

StatedElement element_of(const Plan& plan, const std::optional<std::string>& given) {
  StatedElement element;
  if (given) element = find_element_type(*given);
  for (const Step& step : plan.steps()) {
    const auto* reduce = std::get_if<ReduceStep>(&step.operation);
    if (reduce == nullptr) continue;
    if (element.value_or(reduce->element) != reduce->element) {
      throw InputError(fmt::format("the plan combines elements of {}, not of {}", name_of(reduce->element), *given),
                       {});
    }
    element = reduce->element;
  }
  return element;
}

}  // namespace

bool is_plan_file(const ProblemArguments& arguments) {
  return arguments.source && !arguments.target && !arguments.problems;
}

std::vector<SourceText> read_plans(const ProblemArguments& arguments, std::size_t most) {
  check_plan_usage(arguments);
  std::vector<SourceText> plans = read_values(*arguments.source, "plans");
  require_at_most(most, plans, "plans");
  return plans;
}

int for_each_plan(const ProblemArguments& arguments,
                  const std::function<void(StatedPlan plan, StatedElement element)>& visit, std::size_t most) {
  return for_each_plan(arguments, read_plans(arguments, most), visit);
}

int for_each_plan(const ProblemArguments& arguments, const std::vector<SourceText>& plans,
                  const std::function<void(StatedPlan plan, StatedElement element)>& visit) {
  int status = done;
  for (const SourceText& text : plans) {
    const auto work = [&] {
      StatedPlan stated = parse_plan(text);
      const std::vector<std::string> faults = find_faults(stated.plan, stated.statements, 1);
      if (!faults.empty()) throw RuntimeError("the plan is wrong: " + faults.front());
      const StatedElement element = element_of(stated.plan, arguments.element_type);
      visit(std::move(stated), element);
      return done;
    };
    status = std::max<int>(status, attempt(work, &text));
  }
  return status;
}

}  // namespace retile::command
