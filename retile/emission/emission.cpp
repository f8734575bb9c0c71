#include "retile/emission/emission.h"

#include <fmt/format.h>

#include <sstream>

#include "retile/base/error.h"
#include "retile/base/names.h"
#include "retile/base/utf8.h"
#include "retile/emission/targets.h"
#include "retile/plan/lists.h"
#include "retile/plan/text.h"
#include "retile/types/text.h"

namespace retile::emission {
namespace {

constexpr Names<Target, 4> names{{"jax", "mpi", "stablehlo", "mlir"}};
constexpr Names<Target, 4> titles{{"JAX", "MPI", "StableHLO", "MLIR"}};

constexpr std::size_t most_columns = 110;

}  // namespace

const char* name_of(Target target) { return names.of(target); }

std::optional<Target> find_target(std::string_view name) { return names.find(name); }

void refuse(Target target, std::string_view what, std::string_view hint) {
  throw InputError(fmt::format("{} cannot say {}", titles.of(target), what), std::string(hint));
}

std::string summary_of(const Plan& plan, ElementType element) {
  return printable(fmt::format("{}{} from {} to {}", name_of(element), to_string(plan.source.global_shape()),
                               to_string(plan.source), to_string(plan.target)));
}

std::string plan_text(const Plan& plan, std::string_view margin) {
  std::istringstream lines(to_string(plan));
  std::string text;
  for (std::string line; std::getline(lines, line);) text += fmt::format("{}{}\n", margin, line);
  return text;
}

std::string step_text(const Plan& plan, std::size_t step) {
  return fmt::format("{}, cost {}: {}", to_string(plan.steps()[step]), cost_text(plan.cost, plan.cost.steps[step]),
                     to_string(plan.mesh(), plan.steps()[step].after));
}

std::string wrapped(const std::vector<std::string>& entries, std::string_view margin) {
  std::string text;
  std::size_t column = most_columns;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string entry = entries[i] + (i + 1 < entries.size() ? "," : "");
    if (column + 1 + entry.size() > most_columns) {
      text += fmt::format("{}{}", i == 0 ? "" : "\n", margin);
      column = margin.size();
    } else {
      text += " ";
      ++column;
    }
    text += entry;
    column += entry.size();
  }
  return text;
}

std::string emit(const Plan& plan, ElementType element, Target target, tensors::ProgramForm form) {
  if (plan.device_count() > most_listed_devices) {
    throw InputError(fmt::format("{} devices are too many to be listed in code", plan.device_count()),
                     fmt::format("at most {} are", most_listed_devices));
  }
  Plan listed = plan;
  listed.movement = with_lists(plan.movement);
  switch (target) {
    case Target::jax:
      return emit_jax(listed, element, form);
    case Target::mpi:
      return emit_mpi(listed, element);
    case Target::stablehlo:
      return emit_stablehlo(listed, element);
    case Target::mlir:
      return emit_mlir(listed, element);
  }
  throw InternalError("there is no such target");
}

}  // namespace retile::emission
