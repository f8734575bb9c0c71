// Seconds as a cost: how long the steps of a plan take on a machine, and how long any plan must take.
//
// A stage (plan/memory.h) takes the time of the busiest of its hosts' links, its hosts and its devices, plus the
// latencies of messages in a row, plus the time of a step. A host is done when its devices would be that share their
// work evenly; a device may be faster by itself (Machine::alone). What enters a host and is then passed on inside it
// (traffic.h) is a second part, which follows the first. Costs are in picoseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/costs/cost_model.h"
#include "retile/costs/traffic.h"
#include "retile/machine/machine.h"
#include "retile/plan/plan.h"

namespace retile {

// What is known of a movement before its placements are chosen.
struct LeastTraffic {
  std::int64_t received = 0;  // elements that some device receives
  std::int64_t written = 0;   // elements of the largest target tile
  double link_seconds = 0;    // that some link is busy
};

// The rows that a stage copies.
struct CopiedRows {
  std::int64_t bytes = INT64_MAX;
  bool are_spread = false;  // whether they lie apart in the target's tile
};

class SecondsModel final : public CostModel {
 public:
  explicit SecondsModel(Machine machine);

  const Machine& machine() const { return machine_; }

  const char* name() const override { return "seconds"; }
  // The time of the step as a stage by itself. Without placements, a lower bound from sizes over all placements.
  std::int64_t cost(const StepWork& work) const override;
  std::vector<std::int64_t> costs(const Movement& movement, std::int64_t element_size) const override;
  std::int64_t least_cost(std::int64_t received, std::int64_t target_size) const override;
  bool has_proofs() const override { return false; }

  // The time of a movement on as many devices as the machine has. `floor` is the most elements that some device must
  // receive (cost_model.h). Throws InputError where a time does not fit in 63 bits.
  PlanTime time(const Movement& movement, std::int64_t floor, std::int64_t element_size) const;

  // The time of one copy from tiles to tiles, of which the slices before it leave `held`. `element_size` is in bytes.
  StepTime stage_time(const Placement& before, const Placement& held, const Placement& after,
                      std::int64_t element_size) const;
  // The time of a stage with this traffic.
  StepTime stage_time(const StageTraffic& traffic, std::int64_t element_size, const CopiedRows& rows) const;

  // A lower bound over all plans from source to target, of whatever steps. `traffic` is that of one stage between them;
  // their tiles must be equal or share nothing.
  StepTime least_time(const StageTraffic& traffic, std::int64_t element_size) const;
  // A lower bound where only this much is known.
  StepTime least_time(const LeastTraffic& least, std::int64_t element_size) const;

  // The least time that every stage beyond the first adds to the least time of any plan.
  std::int64_t least_stage() const;

 private:
  HostMap host_map() const { return {machine_.hosts, host_of_, link_weights_}; }
  std::vector<StepTime> step_times(const Movement& movement, std::int64_t element_size) const;
  StepTime reduction_time(const Placement& before, const Placement& after, std::int64_t element_size) const;
  StepTime least_time(const Movement& movement, std::int64_t floor, std::int64_t element_size) const;
  // The latency of the quickest message, in seconds.
  double least_latency() const;

  const Machine machine_;
  const std::vector<std::int64_t> host_of_;  // by device
  SenderWeights link_weights_;               // of links out, by host
  double fastest_copy_ = 0;                  // bytes a second, for the best run length, and the best link in
  double fastest_link_ = 0;
};

// The model of a machine. Equal machines share one, which lives as long as the program.
const SecondsModel& seconds_model(const Machine& machine);

}  // namespace retile
