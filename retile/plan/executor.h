// Executors, which carry plans out, described by the properties that plans are chosen by.
#pragma once

#include <cstdint>
#include <optional>

#include "retile/plan/memory.h"
#include "retile/plan/plan.h"

namespace retile {

// Whose memory tiles lie in: that of the executor, or of its caller.
enum class TileOwner { engine, caller };

struct Executor {
  enum class Transport {
    messages,     // devices can address single peers, so that every step can be carried out
    collectives,  // exchanges cannot be carried out
  };
  Transport transport = Transport::messages;

  // The time of an exchange, relative to that of a collective of the same cost.
  double exchange_weight = 1;
  // The time of the first step that moves anything, relative to that of later steps of the same cost: above 1 where the
  // source's tiles lie in memory that is slow to reach.
  double first_weight = 1;
  // Exchanges of more rounds (plan/rounds.h) are taken only where there is no other plan. None: any number.
  std::optional<std::int64_t> most_rounds;

  EngineMemory memory;  // beside the tiles of source and target

  bool operator==(const Executor&) const = default;
};

// The executor, restricted to this transport.
inline Executor restricted_to(Executor::Transport transport, Executor executor) {
  if (transport == Executor::Transport::collectives) executor.transport = transport;
  return executor;
}

// The plan's cost, with every step weighted by the executor's weights.
long double weighted_cost(const Plan& plan, const Executor& executor);

// Whether no exchange of the plan takes more rounds than the executor's limit.
bool has_few_rounds(const Plan& plan, const Executor& executor);

}  // namespace retile
