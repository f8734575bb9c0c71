#include "retile/render/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "retile/base/utf8.h"
#include "retile/collectives/sequence.h"
#include "retile/types/text.h"

namespace retile {
namespace {

std::string ratio_to_bound(const PlanMemory& memory) {
  if (memory.peak <= memory.bound) return "within the bound";
  return fmt::format("{:.2f} times the bound", static_cast<double>(memory.peak) / static_cast<double>(memory.bound));
}

std::string summary(const Sequence& sequence) {
  return fmt::format("{}, height {}, cost {}", count_of(static_cast<std::int64_t>(sequence.size()), "step"),
                     height(sequence), cost(sequence));
}

}  // namespace

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

std::string render_plan(const Plan& plan, const Palette& palette) {
  // A column of types and one of local sizes, as wide as their widest entries.
  std::vector<std::string> types{to_string(plan.source())};
  for (const Step& step : plan.steps()) types.push_back(to_string(plan.mesh(), step.after));
  std::size_t width = 0;
  for (const std::string& type : types) width = std::max(width, type.size());

  const std::string id = plan.id.empty() ? "" : printable(plan.id) + "  ";
  const std::string heading = fmt::format("{}mesh {}  planner {}", id, to_string(plan.mesh()), plan.planner);
  std::string out = Palette::paint(palette.heading, heading) + "\n";
  out += fmt::format("  {:<{}}  {:>15} {} per device\n", types[0], width, group_digits(plan.memory.source),
                     plan.memory.source == 1 ? "element" : "elements");
  for (std::size_t i = 0; i < plan.steps().size(); ++i) {
    const Step& step = plan.steps()[i];
    out += fmt::format("    -> {}, cost {}\n", Palette::paint(palette.step, to_string(step)),
                       group_digits(plan.cost.steps[i]));
    out += fmt::format("  {:<{}}  {:>15}\n", types[i + 1], width, group_digits(step.after.local_size()));
  }
  if (plan.steps().empty()) out += "    nothing to do\n";
  out += fmt::format("cost {} ({}{}), floor {}\n", group_digits(plan.cost.total), plan.cost.model,
                     plan.cost.optimal ? ", optimal" : ", lower bound " + group_digits(plan.cost.lower_bound),
                     group_digits(plan.cost.floor));
  out += fmt::format("peak {} per device, {} of {}\n", count_of(plan.memory.peak, "element"),
                     ratio_to_bound(plan.memory), group_digits(plan.memory.bound));
  return out;
}

std::string render_normalization(const Normalization& normalization) {
  std::string out = fmt::format("// input: {}\n", summary(normalization.source));
  const Sequence* before = &normalization.source;
  int number = 0;
  for (const Rewriting& rewriting : normalization.rewritings) {
    const Sequence& after = rewriting.result;
    out += fmt::format("// {}. {}: height {} -> {}\n", ++number, rewriting.rule, height(*before), height(after));
    out += fmt::format("//      {}\n", to_string(after.types()[rewriting.first]));
    for (std::size_t i = rewriting.first; i < rewriting.first + rewriting.added; ++i) {
      out +=
          fmt::format("//      -> {} {}\n", to_string(after.mesh(), after.steps()[i]), to_string(after.types()[i + 1]));
    }
    before = &after;
  }
  out += fmt::format("// normal form: {}\n", summary(normalization.result()));
  return out + to_string(normalization.result());
}

}  // namespace retile
