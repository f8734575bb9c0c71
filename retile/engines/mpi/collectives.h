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
#include "retile/engines/mpi/messages.h"
#include "retile/engines/mpi/parcel.h"
#include "retile/plan/plan.h"

namespace retile::mpi {

// Which ranks a step brings together, and in which order. Ranks whose devices are in one group are brought together,
// and with them the ranks that share another group with one of them.
struct RankTeams {
  std::vector<int> colors;  // by rank: the lowest rank of its team
  std::vector<int> keys;    // by rank: its place in the team

  bool operator==(const RankTeams&) const = default;
};

// Where each team is one group with one device on each rank, ranks are in the order of the group's boxes.
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

// What carries out a step for one rank.
class StepCollective {
 public:
  StepCollective() = default;
  StepCollective(const StepCollective&) = delete;
  StepCollective& operator=(const StepCollective&) = delete;
  virtual ~StepCollective() = default;

  virtual std::int64_t staging_needed() const = 0;
  virtual void run(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                   std::span<std::byte> staging) const = 0;
};

// An alltoall among the ranks of a team: in every round, each rank packs a piece for each other one, MPI_Alltoallv
// carries them, and they are unpacked. Parcels are those between different ranks. Collective over the team.
std::unique_ptr<StepCollective> make_alltoall(const Communicator& team, const std::vector<int>& team_ranks,
                                              const std::vector<Parcel>& sent, const std::vector<Parcel>& received,
                                              const LetterContext& context);

// An allgather among ranks with one device each, straight into the target where each rank's box is contiguous there
// and they follow each other; else in pieces.
std::unique_ptr<StepCollective> make_allgather(const Communicator& team, Device device,
                                               const std::vector<Device>& members, const Placement& held,
                                               const LetterContext& context);

}  // namespace retile::mpi
