// What a transfer is measured against: arrays one after the other, and what people do with whole models.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "retile/engines/backend.h"
#include "retile/engines/engine.h"
#include "retile/transfer/plan.h"

namespace retile::bench {

// Moves all arrays of a manifest.
class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  virtual const char* name() const = 0;
  // Otherwise it shows what moving costs at least.
  virtual bool is_right() const { return true; }
  virtual void run(const TilePointers& tiles) = 0;
  // Bytes that this rank receives, and the most that it holds beside its tiles.
  virtual std::int64_t received() = 0;
  virtual std::int64_t extra() = 0;
};

// Ours.
std::unique_ptr<Contender> make_transfer(const transfer::TransferPlan& plan, Engine& engine);
// Ours as well: a prepared redistribution after the other.
std::unique_ptr<Contender> make_one_by_one(const transfer::TransferPlan& plan, Engine& engine);

// The floor: every source tile copied to the target tile as it lies, by so many threads.
std::unique_ptr<Contender> make_memcpy(const transfer::TransferPlan& plan, const std::vector<Device>& devices,
                                       int threads);

// With one device on each rank.
std::unique_ptr<Contender> make_alltoallw(const transfer::TransferPlan& plan, MPI_Comm comm);
// Every rank gets all of an array, and takes its slice.
std::unique_ptr<Contender> make_gather_slice(const transfer::TransferPlan& plan, MPI_Comm comm);
// The first rank gathers arrays of so many bytes together and broadcasts them; every rank takes its slices.
std::unique_ptr<Contender> make_buckets(const transfer::TransferPlan& plan, MPI_Comm comm, std::int64_t bucket_bytes);

}  // namespace retile::bench
