// What one rank does in one stage of a schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "retile/engines/copy.h"
#include "retile/engines/mpi/collectives.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/host.h"
#include "retile/engines/mpi/host_read.h"
#include "retile/engines/mpi/messages.h"
#include "retile/engines/mpi_options.h"
#include "retile/engines/schedule.h"

namespace retile::mpi {

// Whether the tiles that a stage reads are in memory that all ranks of their host see.
enum class TileSight { mapped, own };

// What work is made from.
struct StageContext {
  const Communicator& world;
  const Host& host;
  const DeviceRanks& ranks;
  const MpiOptions& options;
  TeamCommunicators& teams;
  const Mesh& mesh;
  std::int64_t element_size;
};

// Ranks take what they lack: from their own tiles, from those of their host's ranks, or from messages that others send.
// MPI's collective takes the place of the latter two where the transport says so.
//
// Nobody waits forever. A rank offers its tiles before it waits for anything, so whoever pulls can go on; messages come
// in an order that all ranks have in common (see MessageRun); and while a rank waits, it lets MPI work.
class RankWork {
 public:
  // `step` is the stage's, and `held` what devices hold of their tiles by then. Collective where the step becomes one
  // of MPI's collectives.
  RankWork(const Stage& stage, const Step& step, const Placement& held, TileSight sight, const StageContext& context);

  std::int64_t staging_needed() const;
  // Ends when this rank's targets are complete and nobody reads its sources any more.
  void run(const Communicator& world, Host& host, std::span<const std::byte* const> sources,
           std::span<std::byte* const> targets, std::span<std::byte> staging) const;

 private:
  // From a tile that this rank sees: its own, or a member's.
  struct Copy {
    std::optional<int> member;
    std::size_t source_slot;
    std::size_t target_slot;
    BoxCopy copy;
  };
  // From a tile that only its owner sees.
  struct Read {
    int member;
    std::size_t source_slot;
    std::size_t target_slot;
    HostRead read;
  };
  class Pulls;

  void add_copy(const Parcel& parcel, std::optional<int> member, const Stage& stage, const StageContext& context);
  void add_read(const Parcel& parcel, int member, const Stage& stage, const StageContext& context);

  std::vector<Copy> copies_;
  std::vector<Read> reads_;
  Messages messages_;
  std::unique_ptr<StepCollective> collective_;
  std::vector<int> readers_;  // members that take from this rank's tiles
  Stores stores_ = Stores::cached;
};

}  // namespace retile::mpi
