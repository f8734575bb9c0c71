#include "retile/collectives/notation.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "retile/types/scanning.h"
#include "retile/types/text.h"

namespace retile {
namespace {

bool is_alltoall(std::string_view name) { return name == "alltoall"; }

int scan_dimension(Scanner& scanner) {
  return static_cast<int>(std::min<std::int64_t>(scanner.index("a dimension"), INT_MAX));
}

// Whether a comma is followed by one more axis; otherwise, by the next change.
bool accept_next_axis(Scanner& scanner) {
  if (!scanner.looking_at(",")) return false;
  const std::size_t comma = scanner.next_position();
  scanner.expect(",", "between axes");
  if (!scanner.looking_at_digit()) return true;
  scanner.go_to(comma);
  return false;
}

void scan_amount(Scanner& scanner, const Mesh* mesh, StepChange& change) {
  if (mesh == nullptr || scanner.looking_at_digit()) {
    change.factor = scanner.size("a factor");
    return;
  }
  do {
    change.axes.push_back(scan_axis_part(scanner, *mesh));
  } while (accept_next_axis(scanner));
}

std::vector<StepChange> scan_all_changes(Scanner& scanner, std::string_view name, const Mesh* mesh) {
  scanner.expect("(", fmt::format("after {}", name));
  std::vector<StepChange> changes;
  do {
    StepChange& change = changes.emplace_back();
    change.from = change.to = scan_dimension(scanner);
    change.from_place = change.to_place = scanner.last();
    if (is_alltoall(name)) {
      if (!scanner.accept(",")) scanner.expect("->", "between the dimensions of an alltoall");
      change.to = scan_dimension(scanner);
      change.to_place = scanner.last();
    }
    const bool optional = mesh != nullptr && name != "dynslice" && !scanner.looking_at(";") && !scanner.looking_at(":");
    if (optional) continue;
    if (!scanner.accept(":")) scanner.expect(";", "after a dimension");
    scan_amount(scanner, mesh, change);
  } while (scanner.accept(","));
  scanner.expect(")", fmt::format("at the end of {}", name));
  return changes;
}

std::string text_of_step(std::string_view name, std::span<const StepChange> changes, const Mesh* mesh) {
  std::string out;
  for (const StepChange& change : changes) {
    out += fmt::format("{}{}", out.empty() ? "" : ", ", change.from);
    if (is_alltoall(name)) out += fmt::format(" -> {}", change.to);
    out += "; " + (mesh == nullptr ? fmt::format("{}", change.factor) : to_string(*mesh, change.axes));
  }
  return out.empty() ? std::string(name) : fmt::format("{}({})", name, out);
}

}  // namespace

std::vector<StepChange> scan_changes(Scanner& scanner, std::string_view name) {
  return scan_all_changes(scanner, name, nullptr);
}

std::vector<StepChange> scan_changes(Scanner& scanner, std::string_view name, const Mesh& mesh) {
  return scan_all_changes(scanner, name, &mesh);
}

std::string step_text(std::string_view name, std::span<const StepChange> changes) {
  return text_of_step(name, changes, nullptr);
}

std::string step_text(std::string_view name, std::span<const StepChange> changes, const Mesh& mesh) {
  return text_of_step(name, changes, &mesh);
}

}  // namespace retile
