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
#include "retile/engines/piece_copies.h"
#include "retile/engines/schedule.h"

namespace retile::mpi {

// Whether the tiles that a stage reads are in memory that all ranks of their host see.
enum class TileSight { mapped, own };

// What work is made from, and what outlives it.
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
  // of MPI's collectives. The stage outlives it. Copies are listed where that takes at most so many bytes, see
  // usual_listed_bytes.
  RankWork(const Stage& stage, const Step& step, const Placement& held, TileSight sight, const StageContext& context,
           std::int64_t most_bytes);

  // Bytes that each of this rank's devices gets from others.
  const std::vector<std::int64_t>& received() const { return received_; }
  // Of the lists of copies; 0 where there are none.
  std::int64_t listed_bytes() const;
  std::int64_t staging_needed() const;
  // Ends when this rank's targets are complete and nobody reads its sources any more.
  void run(const Communicator& world, Host& host, std::span<const std::byte* const> sources,
           std::span<std::byte* const> targets, std::span<std::byte> staging) const;

 private:
  // Copies from the tiles of one rank that this one sees.
  struct Copies {
    std::optional<int> member;  // nothing: its own
    std::vector<PlacedCopy> copies;
  };
  // From a tile that only its owner sees.
  struct Read {
    int member = 0;
    std::size_t source_slot = 0;
    std::size_t target_slot = 0;
    HostRead read;
  };
  // What comes and goes as parcels.
  struct Parcels {
    std::vector<Parcel> received;
    std::vector<Parcel> sent;
  };
  class Pulls;

  bool is_ours(Device device) const { return ranks_->rank_of(device) == rank_; }
  // Whether this rank copies from the device's tile.
  bool sees(Device device, const Host& host) const {
    return is_ours(device) || (sees_members_ && host.member(ranks_->rank_of(device)));
  }
  // Between slots.
  PlacedCopy place(const Transfer& piece, PieceCopies& shapes) const;
  // Goes through all pieces once, and returns those that are not copied.
  Parcels find_pieces(const StageContext& context, std::int64_t most_bytes);
  void add_copy(const Transfer& piece, const StageContext& context);
  void add_parcels(const Parcels& parcels, const StageContext& context);
  void add_read(const Parcel& parcel, int member, const StageContext& context);

  const Stage* stage_;
  const DeviceRanks* ranks_;
  int rank_;
  std::int64_t element_size_;
  bool sees_members_;  // whose tiles are copied from straight
  Stores stores_ = Stores::cached;
  std::vector<std::int64_t> received_;  // by slot
  // Listed copies, rank by rank in the order of their distance.
  PieceCopies shapes_;
  std::vector<Copies> copies_;
  // Or where they begin, and the device after the last one.
  std::optional<PieceCursor> unlisted_;
  Device unlisted_end_ = 0;
  std::vector<Read> reads_;
  Messages messages_;
  std::unique_ptr<StepCollective> collective_;
  std::vector<int> readers_;  // members that take from this rank's tiles
};

}  // namespace retile::mpi
