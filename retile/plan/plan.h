// Plans: the contract between planners and engines. A plan says what every device does, step by step, and what is known
// of its cost and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "retile/grids/grid.h"
#include "retile/types/box.h"
#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"
#include "retile/types/layout.h"
#include "retile/types/placement.h"

namespace retile {

// --- Who communicates with whom.

// Sets of devices, in the order of the plan format, see order_groups().
using Groups = std::vector<std::vector<Device>>;

struct DevicePair {
  Device source = 0;
  Device target = 0;

  bool operator==(const DevicePair&) const = default;
};

// A box of the global array that one device sends another, or keeps. In JSON, the pieces of an exchange are its
// "transfers".
struct Piece {
  Device from = 0;
  Device to = 0;
  Box box;

  bool operator==(const Piece&) const = default;
};

// --- Steps. Lists of devices may be absent: then they follow from the boxes before and after (lists.h), and the step
// takes no memory per device.

// A dimension that becomes `factor` times shorter or longer.
struct DimensionFactor {
  int dimension = 0;
  std::int64_t factor = 1;

  bool operator==(const DimensionFactor&) const = default;
};

// dynslice: every device keeps a part of its tile.
struct SliceStep {
  std::vector<DimensionFactor> slices;

  bool operator==(const SliceStep&) const = default;
};

// alltoall: each group cuts the box that its tiles make up in another way.
struct AllToAllStep {
  std::vector<Move> moves;
  std::optional<Groups> groups;

  bool operator==(const AllToAllStep&) const = default;
};

// allgather: each member of a group gets the box that the group's tiles make up.
struct GatherStep {
  std::vector<DimensionFactor> gathers;
  std::optional<Groups> groups;

  bool operator==(const GatherStep&) const = default;
};

// allpermute: tiles change owners. A bijection, fixed points included.
struct PermuteStep {
  std::optional<std::vector<DevicePair>> pairs;

  bool operator==(const PermuteStep&) const = default;
};

// exchange: every device receives what it lacks. Its groups are the sets of devices that pieces connect.
struct ExchangeStep {
  std::optional<std::vector<Piece>> pieces;

  bool operator==(const ExchangeStep&) const = default;
};

// reduce: every device combines the parts that it holds, in order. They lie along dimensions in front of its box, of
// which it holds the whole extent and which are gone afterwards.
struct ReduceStep {
  std::vector<int> dimensions;  // ascending
  Reduction reduction = Reduction::sum;
  ElementType element = ElementType::f32;

  bool operator==(const ReduceStep&) const = default;
};

using StepOperation = std::variant<SliceStep, AllToAllStep, GatherStep, PermuteStep, ExchangeStep, ReduceStep>;

// The kinds of steps, in the order of StepOperation's alternatives.
enum class StepOp { dynslice, alltoall, allgather, allpermute, exchange, reduce };

inline StepOp op_of(const StepOperation& operation) { return static_cast<StepOp>(operation.index()); }
const char* name_of(StepOp op);
std::optional<StepOp> find_step_op(std::string_view name);

struct Step {
  StepOperation operation;
  Placement after;

  const Shape& local_out() const { return after.local_shape(); }
  bool operator==(const Step&) const = default;
};

inline StepOp op_of(const Step& step) { return op_of(step.operation); }

// The dimensions that a slice, an alltoall or a gather changes; empty for the other steps.
struct StepChange;  // collectives/notation.h
std::vector<StepChange> changes_of(const StepOperation& operation);
// The number of devices in a group of a slice, an alltoall or a gather: the product of its factors.
std::int64_t group_size(const StepOperation& operation);

// The listed groups of an alltoall or a gather; null where they are absent, and for other steps.
const Groups* groups_of(const StepOperation& operation);

// A text such as "allgather(1; 2)", "alltoall(0 -> 1; 4)", "allpermute", "exchange", "reduce(0; sum)".
std::string to_string(const StepOperation& operation);
inline std::string to_string(const Step& step) { return to_string(step.operation); }

// The shape without the dimensions that a reduction removes.
Shape without_dimensions(const Shape& shape, const std::vector<int>& dimensions);

// Steps from one placement to another, as engines run them. The ends need not be types.
struct Movement {
  Mesh mesh;
  Placement source;
  std::vector<Step> steps;

  const Placement& before(std::size_t step) const { return step == 0 ? source : steps[step - 1].after; }
  const Placement& target() const { return before(steps.size()); }
};

// The movement with all lists of devices filled in. Throws RuntimeError where a step cannot be done.
Movement with_lists(Movement movement);

// --- Plans.

struct PlanCost {
  std::string model;                // "paper", "volume", …
  std::vector<std::int64_t> steps;  // the cost of each step
  std::int64_t total = 0;           // their sum
  std::int64_t lower_bound = 0;     // no plan among `over` costs less
  std::string over;                 // the plans that the bound holds for, in words; empty where that was not stated
  std::int64_t floor = 0;           // the most elements that some device must receive, whatever the plan
  bool optimal = false;             // proved: total = lower_bound

  bool operator==(const PlanCost&) const = default;
};

// The text in `over` for a bound that holds for plans of any steps.
constexpr std::string_view all_plans = "all plans";

// Local sizes in elements.
struct PlanMemory {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t bound = 0;  // an upper bound on the peak
  std::int64_t peak = 0;   // the largest tile on the way: the paper's height

  bool operator==(const PlanMemory&) const = default;
};

// The resource that takes the most of a time.
struct Wait {
  enum class Kind {
    nothing,
    link_out,  // bytes that leave a host
    link_in,
    sending,  // bytes that a device sends to others on its host
    receiving,
    copying,   // bytes that a device copies
    messages,  // latencies of messages
    step,      // the time that every step takes
  };
  Kind kind = Kind::nothing;
  std::int64_t number = 0;       // of the host or the device; for messages, how many are in a row
  std::int64_t picoseconds = 0;  // the time that it takes

  bool operator==(const Wait&) const = default;
};

// A text such as "host 2's link out", "device 3's copies", "7 messages in a row".
std::string to_string(const Wait& wait);

struct StepTime {
  std::int64_t picoseconds = 0;
  Wait wait;  // the longest part

  bool operator==(const StepTime&) const = default;
};

// The time that a plan takes on a machine, as predicted by costs/seconds.h.
struct PlanTime {
  std::string machine;  // its name, perhaps empty
  std::vector<StepTime> steps;
  std::int64_t total = 0;  // picoseconds
  StepTime lower_bound;    // over all plans, of whatever steps

  bool operator==(const PlanTime&) const = default;
};

// A movement between layouts, with its cost and what was proved of it.
struct Plan {
  std::string id;
  Layout source;
  Layout target;
  Movement movement;
  std::vector<Shape> view;  // the movement's dimensions that make up each of the array's; empty where they are the same
  std::string planner;
  PlanCost cost;
  PlanMemory memory;
  std::int64_t planning_ns = 0;
  std::optional<PlanTime> time = std::nullopt;  // set where it was planned for a machine

  const Mesh& mesh() const { return movement.mesh; }
  std::int64_t device_count() const { return movement.mesh.device_count(); }
  const std::vector<Step>& steps() const { return movement.steps; }
};

// The largest local size on the way, in elements.
std::int64_t height(const Movement& movement);

// The most devices for which a plan's JSON has lists with entries per device.
constexpr std::int64_t most_listed_devices = 4096;

}  // namespace retile
