#include "retile/plan/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "retile/base/utf8.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// Whether the plan's costs are times, so that they need not be told twice.
bool has_times_alone(const Plan& plan) { return plan.time && plan.cost.model == "seconds"; }

// The remark on a step: its cost, and its time.
std::string step_remark(const Plan& plan, std::size_t step) {
  std::string remark = has_times_alone(plan) ? "" : fmt::format("cost {}", group_digits(plan.cost.steps[step]));
  if (!plan.time) return remark;
  const StepTime& time = plan.time->steps[step];
  if (!remark.empty()) remark += ", ";
  remark += duration_text(time.picoseconds);
  return time.wait.kind == Wait::Kind::nothing ? remark : fmt::format("{}: {}", remark, to_string(time.wait));
}

}  // namespace

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

std::string cost_text(const PlanCost& cost, std::int64_t value) {
  return cost.model == "seconds" ? duration_text(value) : group_digits(value);
}

std::string describe_proof(const PlanCost& cost) {
  std::string proof = cost.optimal ? "optimal" : "lower bound " + cost_text(cost, cost.lower_bound);
  return cost.over.empty() ? proof : fmt::format("{} over {}", proof, printable(cost.over));
}

std::string duration_text(std::int64_t picoseconds) {
  constexpr std::array<const char*, 5> units{"s", "ms", "us", "ns", "ps"};
  double value = static_cast<double>(picoseconds) / 1e12;
  std::size_t unit = 0;
  // In the next smaller unit, 999.5 or more would be rounded to four digits.
  while (unit + 1 < units.size() && value > 0 && value < 0.9995) {
    value *= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", value, units[unit]);
}

Wait longest_wait(const PlanTime& time) {
  std::vector<Wait> waits;  // each resource once
  for (const StepTime& step : time.steps) {
    const auto is_same = [&](const Wait& wait) {
      return wait.kind == step.wait.kind && wait.number == step.wait.number;
    };
    const auto known = std::find_if(waits.begin(), waits.end(), is_same);
    if (known == waits.end()) {
      waits.push_back(step.wait);
    } else {
      known->picoseconds += step.wait.picoseconds;
    }
  }
  const auto longest = std::max_element(waits.begin(), waits.end(),
                                        [](const Wait& a, const Wait& b) { return a.picoseconds < b.picoseconds; });
  return longest == waits.end() ? Wait{} : *longest;
}

std::string describe_time(const PlanTime& time) {
  const Wait wait = longest_wait(time);
  const std::string machine = time.machine.empty() ? "" : fmt::format(" on {}", printable(time.machine));
  const std::string part = wait.kind == Wait::Kind::nothing
                               ? ""
                               : fmt::format(", {} of it {}", duration_text(wait.picoseconds), to_string(wait));
  return fmt::format("takes {}{}{}; no plan takes less than {}", duration_text(time.total), machine, part,
                     duration_text(time.lower_bound.picoseconds));
}

std::string to_string(const PlanCost& cost) {
  return fmt::format("cost {} ({}, {}), floor {}", cost_text(cost, cost.total), cost.model, describe_proof(cost),
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
  // The types and the local sizes form two columns, as wide as their widest entries.
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
    out += fmt::format("    -> {}  // {}\n", Palette::paint(palette.step, to_string(plan.steps()[i])),
                       step_remark(plan, i));
    out += type_line(i + 1) + "\n";
  }
  if (plan.steps().empty()) out += "    // nothing to do\n";
  if (!has_times_alone(plan)) out += fmt::format("// {}\n", to_string(plan.cost));
  if (plan.time) out += fmt::format("// {}\n", describe_time(*plan.time));
  out += fmt::format("// peak {} per device, {}\n", count_of(plan.memory.peak, "element"), compare_peak(plan.memory));
  return out;
}

}  // namespace retile
