#include "retile/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "retile/base/error.h"

namespace retile {

const char* name_of(StepOp op) {
  switch (op) {
    case StepOp::dynslice:
      return "dynslice";
    case StepOp::alltoall:
      return "alltoall";
    case StepOp::allgather:
      return "allgather";
    case StepOp::allpermute:
      return "allpermute";
    case StepOp::exchange:
      return "exchange";
  }
  throw InternalError("unknown step");
}

DeviceGroups DeviceGroups::along(std::vector<AxisPart> parts) {
  DeviceGroups groups;
  groups.along_ = std::move(parts);
  return groups;
}

std::vector<std::vector<Device>> DeviceGroups::list(const Mesh& mesh) const {
  if (!is_symbolic()) return listed_;
  // A group's members have one base: the device with the coordinates along the parts set to 0.
  std::map<Device, std::vector<Device>> by_base;
  for (Device device = 0; device < mesh.device_count(); ++device) {
    Device base = device;
    for (const AxisPart& part : along_) base -= mesh.coordinate(device, part) * mesh.stride(part);
    by_base[base].push_back(device);
  }
  std::vector<std::vector<Device>> groups;
  for (auto& [base, members] : by_base) groups.push_back(std::move(members));
  return groups;
}

Movement movement_of(const Plan& plan) { return {plan.mesh(), Placement(plan.source), plan.steps}; }

std::vector<std::vector<Device>> order_groups(std::vector<std::vector<Device>> groups, const Placement& before) {
  // A plan that somebody wrote may have empty groups and name devices that are not there: they come first.
  const auto corner = [&](Device device) {
    return device >= 0 && device < before.device_count() ? before.offset(device) : Shape();
  };
  const auto smallest = [](const std::vector<Device>& members) {
    return members.empty() ? INT64_MIN : *std::min_element(members.begin(), members.end());
  };
  for (std::vector<Device>& members : groups) {
    std::sort(members.begin(), members.end());
    std::stable_sort(members.begin(), members.end(), [&](Device a, Device b) { return corner(a) < corner(b); });
  }
  std::sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return smallest(a) < smallest(b); });
  return groups;
}

std::string to_string(const Step& step) {
  std::string moves;
  for (const Move& move : step.moves) {
    if (!moves.empty()) moves += ", ";
    if (move.from >= 0) moves += fmt::format("{}", move.from);
    if (move.from >= 0 && move.to >= 0) moves += " -> ";
    if (move.to >= 0) moves += fmt::format("{}", move.to);
    moves += fmt::format("; {}", move.factor);
  }
  return moves.empty() ? name_of(step.op) : fmt::format("{}({})", name_of(step.op), moves);
}

}  // namespace retile
