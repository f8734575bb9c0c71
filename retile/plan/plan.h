// Plan: the contract between planners and engines. What every device does, step by step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/types/box.h"
#include "retile/types/distributed_type.h"
#include "retile/types/placement.h"

namespace retile {

enum class StepOp { dynslice, alltoall, allgather, allpermute, exchange };

const char* name_of(StepOp op);

// A change of the local shape: `factor` times longer along `from`, that much shorter along `to`.
// A dynslice has only a `to`, an allgather only a `from`; the other one is -1.
struct Move {
  int from = -1;
  int to = -1;
  std::int64_t factor = 1;

  bool operator==(const Move&) const = default;
};

struct DevicePair {
  Device source = 0;
  Device target = 0;

  bool operator==(const DevicePair&) const = default;
};

// A box of the global array that one device sends another.
struct Transfer {
  Device from = 0;
  Device to = 0;
  Box box;

  bool operator==(const Transfer&) const = default;
};

// Which devices communicate with each other in a step: listed, or left symbolic as "along these
// axes", which costs no memory per device.
class DeviceGroups {
 public:
  DeviceGroups() = default;
  // In the order of the plan format, see order_groups().
  explicit DeviceGroups(std::vector<std::vector<Device>> listed) : listed_(std::move(listed)) {}
  // Devices whose coordinates differ only along the parts.
  static DeviceGroups along(std::vector<AxisPart> parts);

  bool is_symbolic() const { return !along_.empty(); }
  // Symbolic groups are listed with their members ascending.
  std::vector<std::vector<Device>> list(const Mesh& mesh) const;

 private:
  std::vector<AxisPart> along_;
  std::vector<std::vector<Device>> listed_;
};

// The order of the plan format: members in row-major order of the corners they held before the step
// (equal corners by device), groups in order of their smallest member.
std::vector<std::vector<Device>> order_groups(std::vector<std::vector<Device>> groups, const Placement& before);

// Above this many devices, lists with entries per device are left symbolic in plans and out of their JSON.
constexpr std::int64_t most_listed_devices = 4096;

struct Step {
  StepOp op = StepOp::dynslice;
  std::vector<Move> moves;          // of dynslice, alltoall and allgather
  DeviceGroups groups;              // of alltoall, allgather and exchange
  std::vector<DevicePair> pairs;    // of allpermute: a bijection, fixed points included
  std::vector<Transfer> transfers;  // of exchange
  Shape local_in;
  Placement after;
  std::int64_t cost = 0;
  bool symbolic = false;  // groups, pairs and transfers are left to be worked out from the boxes, see groups.h

  const Shape& local_out() const { return after.local_shape(); }
};

struct PlanCost {
  std::string model;             // "paper", "volume", …
  std::int64_t total = 0;        // sum of the steps' costs
  std::int64_t lower_bound = 0;  // no plan of the planner's steps costs less
  std::int64_t floor = 0;        // most elements that some device must receive, whatever the plan
  bool optimal = false;          // proved: total = lower_bound
};

// Local sizes in elements.
struct PlanMemory {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t bound = 0;  // what the plan was allowed
  std::int64_t peak = 0;   // the largest on the way: the paper's height
};

struct Plan {
  std::string id;
  DistributedType source;
  DistributedType target;
  std::string planner;
  PlanCost cost;
  PlanMemory memory;
  std::int64_t planning_ns = 0;
  std::vector<Step> steps;

  const Mesh& mesh() const { return source.mesh(); }
  // What the devices hold before a step; after the last one for step = steps.size().
  Placement before(std::size_t step) const { return step == 0 ? Placement(source) : steps[step - 1].after; }
};

// Steps from one placement to another: what engines run. A plan's ends are types; these need not be.
struct Movement {
  Mesh mesh;
  Placement source;
  std::vector<Step> steps;

  const Placement& before(std::size_t step) const { return step == 0 ? source : steps[step - 1].after; }
  const Placement& target() const { return before(steps.size()); }
};

Movement movement_of(const Plan& plan);

// "allgather(1; 2)", "alltoall(0 -> 1; 4)", "allpermute", "exchange".
std::string to_string(const Step& step);

}  // namespace retile
