// Transfer plans: the streams of a manifest's arrays.
#pragma once

#include <cstdint>

#include "retile/schedule/stream_plan.h"
#include "retile/transfer/manifest.h"

namespace retile::transfer {

// The array that a problem's pieces are boxes of. Blocks in turn are seen in periods, so that a plan does not grow with
// them; but not where sources are donated, whose memory is given back block by block.
MovedArray array_of(const Problem& problem, TileUse sources);

// A class of arrays is a problem of the manifest. Throws as StreamPlan does.
class TransferPlan : public StreamPlan {
 public:
  TransferPlan(Manifest manifest, std::int64_t max_bytes, Hosts hosts = {}, TileUse sources = TileUse::kept,
               const MessageForm& form = {});

  const Manifest& manifest() const { return manifest_; }
  // The sides of a problem, in the plan's world, as boxes of array_of().
  const Placement& source(std::size_t problem) const { return classes()[problem].source; }
  const Placement& target(std::size_t problem) const { return classes()[problem].target; }

 private:
  Manifest manifest_;
};

}  // namespace retile::transfer
