// Steps of a plan as MPI's own collectives, on communicators of the ranks whose devices are grouped.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/lanes.h"
#include "retile/plan/plan.h"

namespace retile::mpi {

// Which ranks a step brings together, and in which order. Ranks whose devices are in one group are brought together,
// and with them the ranks that share another group with one of them.
struct RankTeams {
  std::vector<int> colors;  // by rank: the lowest rank of its team
  std::vector<int> keys;    // by rank: its place in the team

  bool operator==(const RankTeams&) const = default;
};

// The teams of a step's groups. If each team is one group with one device on each rank, its ranks are in the order of
// the group's boxes.
RankTeams rank_teams(const std::vector<std::vector<Device>>& groups, const Placement& held, const DeviceRanks& ranks,
                     int rank_count);

// The communicators of a prepared run: equal teams share one.
class TeamCommunicators {
 public:
  explicit TeamCommunicators(const Communicator& world) : world_(world) {}
  // Collective over the world where the teams are new.
  const Communicator& of(const RankTeams& teams);

 private:
  const Communicator& world_;
  std::vector<std::pair<RankTeams, std::unique_ptr<Communicator>>> made_;
};

// A step that a collective of MPI carries out, for one rank.
class StepCollective {
 public:
  StepCollective() = default;
  StepCollective(const StepCollective&) = delete;
  StepCollective& operator=(const StepCollective&) = delete;
  virtual ~StepCollective() = default;

  virtual std::int64_t staging_needed() const = 0;
  virtual void run(const TilePointers& tiles, std::span<std::byte> staging) const = 0;
};

// A stage whose step has groups, among the ranks of a team; the lanes are those between different ranks. Collective
// over the team. A gather among ranks with one device each goes straight into the target if each rank's box is
// contiguous there and they follow each other, else in pieces. All else is an alltoall: in every round, each rank packs
// a piece for each other one, MPI_Alltoallv carries them, and they are unpacked.
std::unique_ptr<StepCollective> make_step_collective(const Communicator& team, const RankTeams& teams, int rank,
                                                     const PackedStreams& packed, LaneSet lanes, const Stage& stage,
                                                     std::int64_t staging_bytes);

}  // namespace retile::mpi
