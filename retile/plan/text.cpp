#include "retile/plan/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "retile/base/utf8.h"
#include "retile/types/text.h"

namespace retile {

std::string compare_peak(const PlanMemory& memory) {
  const std::int64_t larger = std::max(memory.source, memory.target);
  if (memory.peak <= larger) return "no more than the larger of source and target";
  return fmt::format("{:.2f} times the larger of source and target",
                     static_cast<double>(memory.peak) / static_cast<double>(larger));
}

std::string describe_meshes(const Plan& plan) {
  const auto source = plan.source.cuts();
  const auto target = plan.target.cuts();
  std::string from = to_string(source ? source->mesh : target ? target->mesh : plan.mesh());
  if (!source || !target || source->mesh == target->mesh) return from;
  return fmt::format("{} to {}", from, to_string(target->mesh));
}

std::string describe_proof(const PlanCost& cost) {
  std::string proof = cost.optimal ? "optimal" : "lower bound " + group_digits(cost.lower_bound);
  return cost.over.empty() ? proof : fmt::format("{} over {}", proof, printable(cost.over));
}

std::string to_string(const PlanCost& cost) {
  return fmt::format("cost {} ({}, {}), floor {}", group_digits(cost.total), cost.model, describe_proof(cost),
                     group_digits(cost.floor));
}

std::string group_digits(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string count_of(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", group_digits(number), noun, number == 1 ? "" : "s");
}

std::string to_string(const Plan& plan, const Palette& palette) {
  // A column of types and one of local sizes, as wide as their widest entries.
  std::vector<std::string> types{to_string(plan.source)};
  std::vector<std::string> sizes{group_digits(plan.memory.source)};
  for (const Step& step : plan.steps()) {
    types.push_back(to_string(plan.mesh(), step.after));
    sizes.push_back(group_digits(step.after.local_size()));
  }
  const bool ends_in_type = plan.target.type() != nullptr && plan.target.type()->mesh() == plan.mesh();
  if (!plan.steps().empty() && !ends_in_type) types.back() = to_string(plan.target);
  const auto width_of = [](const std::vector<std::string>& texts) {
    std::size_t width = 0;
    for (const std::string& text : texts) width = std::max(width, text.size());
    return width;
  };
  const auto type_line = [&, type_width = width_of(types), size_width = width_of(sizes)](std::size_t i) {
    return fmt::format("  {:<{}}  // {:>{}}", types[i], type_width, sizes[i], size_width);
  };

  const std::string id = plan.id.empty() ? "" : printable(plan.id) + ", ";
  const std::string heading = fmt::format("mesh {}  // {}planner {}", describe_meshes(plan), id, plan.planner);
  std::string out = Palette::paint(palette.heading, heading) + "\n";
  out += fmt::format("{} {} per device\n", type_line(0), plan.memory.source == 1 ? "element" : "elements");
  for (std::size_t i = 0; i < plan.steps().size(); ++i) {
    out += fmt::format("    -> {}  // cost {}\n", Palette::paint(palette.step, to_string(plan.steps()[i])),
                       group_digits(plan.cost.steps[i]));
    out += type_line(i + 1) + "\n";
  }
  if (plan.steps().empty()) out += "    // nothing to do\n";
  out += fmt::format("// {}\n", to_string(plan.cost));
  out += fmt::format("// peak {} per device, {}\n", count_of(plan.memory.peak, "element"), compare_peak(plan.memory));
  return out;
}

}  // namespace retile
