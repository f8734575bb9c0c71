#include "retile/engines/mpi/collectives.h"

#include <algorithm>
#include <numeric>

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

// The letters of a rank for one other rank of its team, one after the other as one stream of bytes.
struct Stream {
  std::vector<Letter> letters;
  std::int64_t bytes = 0;
};

// Calls visit(letter, range of the letter, place in the piece) for what the range of the stream holds.
template <typename Visit>
void for_each_part(const Stream& stream, ByteRange range, Visit visit) {
  std::int64_t start = 0;
  for (const Letter& letter : stream.letters) {
    const ByteRange part{std::max<std::int64_t>(range.begin - start, 0), std::min(range.end - start, letter.bytes)};
    if (part.begin < part.end) visit(letter, part, start + part.begin - range.begin);
    start += letter.bytes;
  }
}

class AllToAll final : public StepCollective {
 public:
  AllToAll(const Communicator& team, std::vector<Stream> sent, std::vector<Stream> received, std::int64_t share)
      : team_(team), sent_(std::move(sent)), received_(std::move(received)), share_(share) {
    std::int64_t longest = 0;
    for (const Stream& stream : sent_) longest = std::max(longest, stream.bytes);
    for (const Stream& stream : received_) longest = std::max(longest, stream.bytes);
    team_.most({&longest, 1});
    share_ = std::min(share_, longest);
    rounds_ = longest == 0 ? 0 : (longest - 1) / share_ + 1;
  }

  std::int64_t staging_needed() const override { return 2 * share_ * team_.size(); }

  void run(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
           std::span<std::byte> staging) const override {
    std::byte* out = staging.data();
    std::byte* in = out + share_ * team_.size();
    const auto members = static_cast<std::size_t>(team_.size());
    std::vector<int> places(members);
    for (std::size_t i = 0; i < members; ++i) places[i] = static_cast<int>(static_cast<std::int64_t>(i) * share_);
    for (std::int64_t round = 0; round < rounds_; ++round) {
      const std::vector<ByteRange> leaving = ranges(sent_, round);
      const std::vector<ByteRange> arriving = ranges(received_, round);
      for (std::size_t i = 0; i < members; ++i) {
        for_each_part(sent_[i], leaving[i], [&](const Letter& letter, ByteRange range, std::int64_t place) {
          const TilePart& part = letter.parts.front();
          part.packing.pack(sources[part.slot], range, out + places[i] + place);
        });
      }
      check(MPI_Alltoallv(out, counts(leaving).data(), places.data(), MPI_BYTE, in, counts(arriving).data(),
                          places.data(), MPI_BYTE, team_.get()),
            "MPI_Alltoallv");
      for (std::size_t i = 0; i < members; ++i) {
        for_each_part(received_[i], arriving[i], [&](const Letter& letter, ByteRange range, std::int64_t place) {
          for (const TilePart& part : letter.parts) {
            part.packing.unpack(in + places[i] + place, range, targets[part.slot]);
          }
        });
      }
    }
  }

 private:
  std::vector<ByteRange> ranges(const std::vector<Stream>& streams, std::int64_t round) const {
    std::vector<ByteRange> ranges;
    for (const Stream& stream : streams) {
      ranges.push_back(piece_at(std::min(round * share_, stream.bytes), share_, stream.bytes));
    }
    return ranges;
  }

  static std::vector<int> counts(const std::vector<ByteRange>& ranges) {
    std::vector<int> counts;
    for (const ByteRange& range : ranges) counts.push_back(static_cast<int>(range.size()));
    return counts;
  }

  const Communicator& team_;
  const std::vector<Stream> sent_;      // by rank of the team
  const std::vector<Stream> received_;  // by rank of the team
  std::int64_t share_;                  // bytes of a piece
  std::int64_t rounds_ = 0;
};

class Allgather final : public StepCollective {
 public:
  Allgather(const Communicator& team, TilePart mine, std::vector<TilePart> parts, std::int64_t staging_bytes)
      : team_(team), mine_(std::move(mine)), parts_(std::move(parts)), is_direct_(mine_.packing.is_contiguous()) {
    const std::int64_t bytes = mine_.packing.bytes();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const BoxPacking& part = parts_[i].packing;
      is_direct_ = is_direct_ && part.is_contiguous() && part.offset() == static_cast<std::int64_t>(i) * bytes;
    }
    // MPI_Allgather takes a type for what arrives, so all ranks must have the same one.
    is_direct_ = team_.least(is_direct_ ? 1 : 0) == 1;
    piece_bytes_ = std::min(bytes, is_direct_ ? most_message_bytes : staging_bytes / (team_.size() + 1));
  }

  std::int64_t staging_needed() const override { return is_direct_ ? 0 : piece_bytes_ * (team_.size() + 1); }

  void run(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
           std::span<std::byte> staging) const override {
    const std::byte* source = sources[mine_.slot];
    std::byte* target = targets[parts_.front().slot];
    const std::int64_t bytes = mine_.packing.bytes();
    for (ByteRange piece = piece_at(0, piece_bytes_, bytes); piece.size() > 0;
         piece = piece_at(piece.end, piece_bytes_, bytes)) {
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
      parts_[i].packing.unpack(all + static_cast<std::int64_t>(i) * count, piece, target);
    }
  }

  const Communicator& team_;
  const TilePart mine_;                // in this rank's source tile
  const std::vector<TilePart> parts_;  // in its target tile, by rank of the team
  bool is_direct_;
  std::int64_t piece_bytes_ = 0;
};

std::vector<Stream> streams_of(const std::vector<int>& team_ranks, std::vector<Letter> letters) {
  std::vector<Stream> streams(team_ranks.size());
  for (Letter& letter : letters) {
    const auto found = std::find(team_ranks.begin(), team_ranks.end(), letter.peer);
    ensure(found != team_ranks.end(), "a team has all ranks that a rank exchanges boxes with");
    Stream& stream = streams[static_cast<std::size_t>(found - team_ranks.begin())];
    stream.bytes += letter.bytes;
    stream.letters.push_back(std::move(letter));
  }
  return streams;
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

std::unique_ptr<StepCollective> make_alltoall(const Communicator& team, const std::vector<int>& team_ranks,
                                              const std::vector<Parcel>& sent, const std::vector<Parcel>& received,
                                              const LetterContext& context) {
  std::vector<Letter> leaving;
  std::vector<Letter> arriving;
  for (const Parcel& parcel : sent) leaving.push_back(letter_to_send(parcel, StagingSight::own, context));
  for (const Parcel& parcel : received) arriving.push_back(letter_to_receive(parcel, StagingSight::own, context));
  const std::int64_t share = context.staging_bytes / (std::int64_t{2} * team.size());
  return std::make_unique<AllToAll>(team, streams_of(team_ranks, std::move(leaving)),
                                    streams_of(team_ranks, std::move(arriving)), share);
}

std::unique_ptr<StepCollective> make_allgather(const Communicator& team, Device device,
                                               const std::vector<Device>& members, const Placement& held,
                                               const LetterContext& context) {
  const std::size_t slot = context.ranks.slot_of(device);
  const auto part_of = [&](const TileLayout& tile, Device member) {
    const DimensionOrder order = order_of(context.stage.tile_before(member, held.box(member)));
    return TilePart{slot, {tile, held.box(member), context.element_size, order}};
  };
  std::vector<TilePart> parts;
  for (const Device member : members)
    parts.push_back(part_of(context.stage.tile_after(device, held.box(member)), member));
  return std::make_unique<Allgather>(team, part_of(context.stage.tile_before(device, held.box(device)), device),
                                     std::move(parts), context.staging_bytes);
}

}  // namespace retile::mpi
