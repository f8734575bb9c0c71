// Plans of transfers whose messages the caller carries.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "retile/costs/seconds.h"
#include "retile/types/element_type.h"
#include "retile/types/placement.h"

namespace retile::transfer {

// Properties that many arrays share. Boxes of one side are equal or disjoint, on as many devices as there are ranks.
struct ArrayKind {
  Placement source;
  Placement target;
  ElementType element_type = ElementType::f32;
};

struct KindOfArray {
  std::string name;
  std::size_t kind = 0;
};

struct MessageOptions {
  std::int64_t max_bytes = std::int64_t{256} << 20U;         // that a rank may stage, headers included
  std::int64_t most_message_bytes = std::int64_t{4} << 20U;  // where the cap allows more
  std::vector<std::int64_t> hosts = {};                      // a number by rank, as in Hosts; none: one host
  bool has_checksums = false;                                // of every message
  // Says the hosts and how long messages must be at least, and times the plan's text; null: none.
  const SecondsModel* machine = nullptr;
};

struct MessagePlanState;  // message_plan_state.h, which is not installed

// The messages of a transfer: who sends what to whom, and in which round. Executions share it.
class MessagePlan {
 public:
  // Throws InputError if an element that some rank wants is held by none, the cap is too small, or the machine has
  // another number of devices than there are ranks.
  MessagePlan(const std::vector<ArrayKind>& kinds, std::vector<KindOfArray> arrays, std::int64_t ranks,
              const MessageOptions& options = {});

  // Equal plans of equal arrays have equal numbers, and others have different ones, almost certainly.
  std::uint64_t fingerprint() const;
  std::int64_t rounds() const;
  // Bytes of one rank.
  std::int64_t sent_bytes(Device rank) const;
  std::int64_t received_bytes(Device rank) const;
  std::int64_t staged_bytes(Device rank) const;
  // Several lines, as `retile transfer` prints them.
  std::string text() const;

  // For RankTransfer.
  const MessagePlanState& state() const { return *state_; }

 private:
  std::shared_ptr<const MessagePlanState> state_;
};

}  // namespace retile::transfer
