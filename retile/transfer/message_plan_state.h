// The state of a MessagePlan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/schedule/stream_plan.h"
#include "retile/transfer/message_plan.h"

namespace retile::transfer {

struct MessagePlanState {
  std::vector<KindOfArray> arrays;
  std::vector<ElementType> element_types;  // by kind
  bool has_checksums;
  const SecondsModel* machine;  // null: none
  StreamPlan streams;           // a class is a kind
  std::uint64_t fingerprint = 0;

  std::int64_t rounds(StreamPhase phase) const { return streams.rounds(phase); }
  const DeviceLoad& load(Device rank) const { return streams.loads()[static_cast<std::size_t>(rank)]; }
};

}  // namespace retile::transfer
