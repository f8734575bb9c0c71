#include "retile/engines/mpi/collectives.h"

#include <algorithm>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/plan/lists.h"

namespace retile::mpi {
namespace {

// The lowest rank that a rank is connected with; paths are shortened on the way.
int lowest(std::vector<int>& parents, int rank) {
  int& parent = parents[static_cast<std::size_t>(rank)];
  if (parent != rank) parent = lowest(parents, parent);
  return parent;
}

std::vector<int> ranks_of_team(const RankTeams& teams, int rank) {
  std::vector<int> team;
  for (std::size_t i = 0; i < teams.colors.size(); ++i) {
    if (teams.colors[i] == teams.colors[static_cast<std::size_t>(rank)]) team.push_back(static_cast<int>(i));
  }
  std::stable_sort(team.begin(), team.end(), [&](int a, int b) {
    return teams.keys[static_cast<std::size_t>(a)] < teams.keys[static_cast<std::size_t>(b)];
  });
  return team;
}

class AllToAll final : public StepCollective {
 public:
  AllToAll(const Communicator& team, const std::vector<int>& team_ranks, const PackedStreams& packed, LaneSet lanes,
           std::int64_t staging_bytes)
      : team_(team), packed_(packed), lanes_(std::move(lanes)) {
    const auto place = [&](const Lane& lane) {
      const auto found = std::find(team_ranks.begin(), team_ranks.end(), lane.peer);
      ensure(found != team_ranks.end(), "a team has all ranks that a rank exchanges boxes with");
      return static_cast<std::size_t>(found - team_ranks.begin());
    };
    for (const Lane& lane : lanes_.sent) to_.push_back(place(lane));
    for (const Lane& lane : lanes_.received) from_.push_back(place(lane));
    const std::int64_t share = std::max<std::int64_t>(1, staging_bytes / (std::int64_t{2} * team.size()));
    lanes_.set_most_bytes(packed.streams(), share);
    for (const std::vector<Lane>* list : {&lanes_.sent, &lanes_.received}) {
      for (const Lane& lane : *list) rounds_ = std::max(rounds_, lane.rounds);
    }
    rounds_ = team_.most(rounds_);
    lanes_.set_rounds(packed.streams(), rounds_);
    share_ = team_.most(lanes_.longest_message());  // NOLINT(*-prefer-member-initializer): depends on the rounds
  }

  std::int64_t staging_needed() const override { return 2 * share_ * team_.size(); }

  void run(const TilePointers& tiles, std::span<std::byte> staging) const override {
    std::byte* out = staging.data();
    std::byte* in = out + share_ * team_.size();
    const auto members = static_cast<std::size_t>(team_.size());
    std::vector<int> places(members);
    for (std::size_t i = 0; i < members; ++i) places[i] = static_cast<int>(static_cast<std::int64_t>(i) * share_);
    std::vector<LaneCursor> leaving(lanes_.sent.begin(), lanes_.sent.end());
    std::vector<LaneCursor> arriving(lanes_.received.begin(), lanes_.received.end());
    for (std::int64_t round = 0; round < rounds_; ++round) {
      for (std::size_t i = 0; i < leaving.size(); ++i) leaving[i].pack(packed_, tiles, round, out + places[to_[i]]);
      check(MPI_Alltoallv(out, counts(leaving, to_, round).data(), places.data(), MPI_BYTE, in,
                          counts(arriving, from_, round).data(), places.data(), MPI_BYTE, team_.get()),
            "MPI_Alltoallv");
      for (std::size_t i = 0; i < arriving.size(); ++i)
        arriving[i].unpack(packed_, tiles, round, in + places[from_[i]]);
    }
  }

 private:
  // By rank of the team.
  std::vector<int> counts(const std::vector<LaneCursor>& lanes, const std::vector<std::size_t>& members,
                          std::int64_t round) const {
    std::vector<int> counts(static_cast<std::size_t>(team_.size()));
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      counts[members[i]] = static_cast<int>(lanes[i].bytes_of(packed_, round));
    }
    return counts;
  }

  const Communicator& team_;
  const PackedStreams& packed_;
  LaneSet lanes_;
  std::vector<std::size_t> to_;  // ranks of the team, by lane
  std::vector<std::size_t> from_;
  std::int64_t share_ = 0;  // bytes of a piece
  std::int64_t rounds_ = 0;
};

// A box of this rank's tile.
struct TilePart {
  std::int64_t offset = 0;  // of the piece
  BoxPacking packing;
};

class Allgather final : public StepCollective {
 public:
  Allgather(const Communicator& team, TilePart mine, std::vector<TilePart> parts, std::int64_t staging_bytes)
      : team_(team), mine_(std::move(mine)), parts_(std::move(parts)), is_direct_(mine_.packing.is_contiguous()) {
    const std::int64_t bytes = mine_.packing.bytes();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const BoxPacking& part = parts_[i].packing;
      is_direct_ = is_direct_ && part.is_contiguous() &&
                   parts_[i].offset + part.offset() == static_cast<std::int64_t>(i) * bytes;
    }
    // MPI_Allgather takes a type for what arrives, so all ranks must have the same one.
    is_direct_ = team_.least(is_direct_ ? 1 : 0) == 1;
    piece_bytes_ = std::min(bytes, is_direct_ ? most_mpi_bytes : staging_bytes / (team_.size() + 1));
  }

  std::int64_t staging_needed() const override { return is_direct_ ? 0 : piece_bytes_ * (team_.size() + 1); }

  void run(const TilePointers& tiles, std::span<std::byte> staging) const override {
    const std::byte* source = tiles.sources.front() + mine_.offset;
    std::byte* target = tiles.targets.front();
    const std::int64_t bytes = mine_.packing.bytes();
    for (std::int64_t begin = 0; begin < bytes; begin += piece_bytes_) {
      const ByteRange piece{begin, std::min(bytes, begin + piece_bytes_)};
      if (is_direct_) {
        gather_in_place(source + mine_.packing.offset() + piece.begin, piece, target + piece.begin);
      } else {
        gather_piece(source, piece, target, staging.data());
      }
    }
  }

 private:
  // The pieces of the ranks lie a whole box apart in the target.
  void gather_in_place(const std::byte* source, ByteRange piece, std::byte* target) const {
    const auto count = static_cast<int>(piece.size());
    MPI_Datatype packed = MPI_DATATYPE_NULL;
    MPI_Datatype spaced = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(count, MPI_BYTE, &packed), "MPI_Type_contiguous");
    check(MPI_Type_create_resized(packed, 0, mine_.packing.bytes(), &spaced), "MPI_Type_create_resized");
    check(MPI_Type_free(&packed), "MPI_Type_free");
    check(MPI_Type_commit(&spaced), "MPI_Type_commit");
    check(MPI_Allgather(source, count, MPI_BYTE, target, 1, spaced, team_.get()), "MPI_Allgather");
    check(MPI_Type_free(&spaced), "MPI_Type_free");
  }

  void gather_piece(const std::byte* source, ByteRange piece, std::byte* target, std::byte* staging) const {
    const auto count = static_cast<int>(piece.size());
    std::byte* all = staging + piece_bytes_;
    mine_.packing.pack(source, piece, staging);
    check(MPI_Allgather(staging, count, MPI_BYTE, all, count, MPI_BYTE, team_.get()), "MPI_Allgather");
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].packing.unpack(all + static_cast<std::int64_t>(i) * count, piece, target + parts_[i].offset);
    }
  }

  const Communicator& team_;
  const TilePart mine_;                // in this rank's source tile
  const std::vector<TilePart> parts_;  // in its target tile, by rank of the team
  bool is_direct_;
  std::int64_t piece_bytes_ = 0;
};

// The streams that make up a gathered tile, in the order of the team. Every rank has one device, and every stream one
// piece.
std::unique_ptr<StepCollective> make_allgather(const Communicator& team, const std::vector<int>& team_ranks, int rank,
                                               const PackedStreams& packed, std::int64_t staging_bytes) {
  const Streams& streams = packed.streams();
  const auto stream_from = [&](int member) -> const Stream& {
    const auto found = std::find_if(streams.streams.begin(), streams.streams.end(), [&](const Stream& stream) {
      return packed.ranks().rank_of(stream.from) == member && packed.ranks().rank_of(stream.to) == rank;
    });
    ensure(found != streams.streams.end() && found->count == 1, "every member of a team is gathered");
    return *found;
  };
  const StreamPiece& own = streams.pieces[stream_from(rank).first];
  std::vector<TilePart> parts;
  for (const int member : team_ranks) {
    const StreamPiece& piece = streams.pieces[stream_from(member).first];
    parts.push_back({piece.to_offset, packed.unpacking(piece)});
  }
  return std::make_unique<Allgather>(team, TilePart{own.from_offset, packed.packing(own)}, std::move(parts),
                                     staging_bytes);
}

}  // namespace

RankTeams rank_teams(const std::vector<std::vector<Device>>& groups, const Placement& held, const DeviceRanks& ranks,
                     int rank_count) {
  RankTeams teams{std::vector<int>(static_cast<std::size_t>(rank_count)),
                  std::vector<int>(static_cast<std::size_t>(rank_count))};
  std::iota(teams.colors.begin(), teams.colors.end(), 0);
  for (const std::vector<Device>& group : order_groups(groups, held)) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const int rank = ranks.rank_of(group[i]);
      const int a = lowest(teams.colors, ranks.rank_of(group.front()));
      const int b = lowest(teams.colors, rank);
      teams.colors[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
      teams.keys[static_cast<std::size_t>(rank)] = static_cast<int>(i);
    }
  }
  for (int rank = 0; rank < rank_count; ++rank) lowest(teams.colors, rank);
  return teams;
}

const Communicator& TeamCommunicators::of(const RankTeams& teams) {
  const auto found = std::find_if(made_.begin(), made_.end(), [&](const auto& entry) { return entry.first == teams; });
  if (found != made_.end()) return *found->second;
  const auto rank = static_cast<std::size_t>(world_.rank());
  made_.emplace_back(teams, std::make_unique<Communicator>(world_.split(teams.colors[rank], teams.keys[rank])));
  return *made_.back().second;
}

std::unique_ptr<StepCollective> make_step_collective(const Communicator& team, const RankTeams& teams, int rank,
                                                     const PackedStreams& packed, LaneSet lanes, const Stage& stage,
                                                     std::int64_t staging_bytes) {
  const std::vector<int> team_ranks = ranks_of_team(teams, rank);
  const bool gathers = stage.after().local_size() > stage.held().local_size() &&
                       packed.ranks().devices_per_rank() == 1 && stage.held().is_even() && stage.after().is_even();
  if (gathers) return make_allgather(team, team_ranks, rank, packed, staging_bytes);
  return std::make_unique<AllToAll>(team, team_ranks, packed, std::move(lanes), staging_bytes);
}

}  // namespace retile::mpi
