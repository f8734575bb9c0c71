#include "retile/engines/mpi/rank_work.h"

#include <algorithm>
#include <utility>

#include "retile/engines/array.h"

namespace retile::mpi {
namespace {

// Copies are made in ranges of about this length, so that messages do not wait for long ones.
constexpr std::int64_t range_bytes = 4 << 20;

// Larger tiles have left the caches before they are read again.
constexpr std::int64_t most_cached = 4 << 20;

LetterContext letter_context(const Stage& stage, const StageContext& context) {
  return {stage, context.ranks, context.host, context.element_size, context.options.staging_bytes};
}

bool crosses_hosts(const std::vector<std::vector<Device>>& groups, const StageContext& context) {
  const auto host_of = [&](Device device) {
    return context.host.numbers()[static_cast<std::size_t>(context.ranks.rank_of(device))];
  };
  return std::any_of(groups.begin(), groups.end(), [&](const std::vector<Device>& group) {
    return std::any_of(group.begin(), group.end(),
                       [&](Device device) { return host_of(device) != host_of(group.front()); });
  });
}

// A gathered tile crosses between hosts once in MPI's ring of ranks, but once per reader in messages. What else crosses
// has one reader anyway.
bool uses_collective(const Step& step, const StageContext& context) {
  const Groups* groups = groups_of(step.operation);
  if (groups == nullptr || context.options.transport == Transport::messages) return false;
  if (context.options.transport == Transport::collectives) return true;
  return op_of(step) == StepOp::allgather && context.ranks.devices_per_rank() == 1 && crosses_hosts(*groups, context);
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

std::unique_ptr<StepCollective> make_collective(const Stage& stage, const Step& step, const Placement& held,
                                                const std::vector<Parcel>& sent, const std::vector<Parcel>& received,
                                                const StageContext& context) {
  const RankTeams teams = rank_teams(*groups_of(step.operation), held, context.ranks, context.world.size());
  const Communicator& team = context.teams.of(teams);
  const std::vector<int> team_ranks = ranks_of_team(teams, context.world.rank());
  const LetterContext letters = letter_context(stage, context);
  const bool gathers = op_of(step) == StepOp::allgather && context.ranks.devices_per_rank() == 1 && held.is_even();
  if (!gathers) return make_alltoall(team, team_ranks, sent, received, letters);
  std::vector<Device> members;
  for (const int rank : team_ranks) members.push_back(context.ranks.devices_of(rank).front());
  return make_allgather(team, context.ranks.devices_of(context.world.rank()).front(), members, held, letters);
}

HostRead read_of(const Parcel& parcel, Device to, const Stage& stage, const StageContext& context) {
  return HostRead(
      {stage.tile_before(parcel.from, parcel.box), stage.tile_after(to, parcel.box), parcel.box, context.element_size});
}

// Whether a parcel is read from another rank's own memory, or else comes as messages: both ranks find the same. Where
// tiles are mapped, no rank of this host has parcels.
bool is_read(const Parcel& parcel, int peer, const Stage& stage, const StageContext& context) {
  if (context.options.transport != Transport::automatic || !context.host.member(peer)) return false;
  return context.host.reads() && std::all_of(parcel.to.begin(), parcel.to.end(),
                                             [&](Device to) { return read_of(parcel, to, stage, context).suits(); });
}

}  // namespace

RankWork::RankWork(const Stage& stage, const Step& step, const Placement& held, TileSight sight,
                   const StageContext& context, std::int64_t most_bytes)
    : stage_(&stage),
      ranks_(&context.ranks),
      rank_(context.world.rank()),
      element_size_(context.element_size),
      sees_members_(sight == TileSight::mapped && context.options.transport == Transport::automatic &&
                    !uses_collective(step, context)),
      received_(context.ranks.devices_per_rank()),
      shapes_(stage, context.element_size),
      copies_(static_cast<std::size_t>(context.world.size())) {
  if (checked_bytes(stage.after().local_size(), element_size_) > most_cached) stores_ = Stores::streaming;
  const Parcels parcels = find_pieces(context, most_bytes);
  if (uses_collective(step, context)) {
    collective_ = make_collective(stage, step, held, parcels.sent, parcels.received, context);
  } else {
    add_parcels(parcels, context);
  }
  std::sort(readers_.begin(), readers_.end());
  readers_.erase(std::unique(readers_.begin(), readers_.end()), readers_.end());
}

RankWork::Parcels RankWork::find_pieces(const StageContext& context, std::int64_t most_bytes) {
  std::vector<Transfer> received;
  std::vector<Transfer> sent;
  std::vector<bool> is_reader(static_cast<std::size_t>(context.host.member_count()));
  bool is_listed = true;
  for (PieceCursor cursor(*stage_); cursor.device() < stage_->after().device_count();) {
    const Device to = cursor.device();
    if (is_ours(to) && !unlisted_) unlisted_ = cursor;
    if (is_ours(to)) unlisted_end_ = to + 1;
    cursor.next([&](const Transfer& piece) {
      if (is_ours(to)) {
        if (piece.from != to) received_[ranks_->slot_of(to)] += volume(piece.box) * element_size_;
        if (!sees(piece.from, context.host)) {
          received.push_back(piece);
        } else if (is_listed) {
          add_copy(piece, context);
        }
      } else if (is_ours(piece.from)) {
        if (sees(to, context.host)) {
          is_reader[static_cast<std::size_t>(*context.host.member(ranks_->rank_of(to)))] = true;
        } else {
          sent.push_back(piece);
        }
      }
    });
    is_listed = is_listed && listed_bytes() <= most_bytes;
  }
  if (is_listed) {
    unlisted_.reset();
    std::erase_if(copies_, [](const Copies& list) { return list.copies.empty(); });
  } else {
    copies_ = {};
  }
  for (std::size_t member = 0; member < is_reader.size(); ++member) {
    if (is_reader[member]) readers_.push_back(static_cast<int>(member));
  }
  return {make_parcels(std::move(received), *ranks_, context.world.size()),
          make_parcels(std::move(sent), *ranks_, context.world.size())};
}

PlacedCopy RankWork::place(const Transfer& piece, PieceCopies& shapes) const {
  PlacedCopy copy = shapes.place(piece.from, piece.to, piece.box);
  copy.from = static_cast<std::uint32_t>(ranks_->slot_of(piece.from));
  copy.to = static_cast<std::uint32_t>(ranks_->slot_of(piece.to));
  return copy;
}

void RankWork::add_copy(const Transfer& piece, const StageContext& context) {
  const int from = ranks_->rank_of(piece.from);
  Copies& list = copies_[static_cast<std::size_t>((rank_ - from + context.world.size()) % context.world.size())];
  if (from != rank_) list.member = context.host.member(from);
  list.copies.push_back(place(piece, shapes_));
}

std::int64_t RankWork::listed_bytes() const {
  std::size_t count = 0;
  for (const Copies& list : copies_) count += list.copies.size();
  return static_cast<std::int64_t>(count * sizeof(PlacedCopy)) + (count == 0 ? 0 : shapes_.bytes());
}

void RankWork::add_parcels(const Parcels& parcels, const StageContext& context) {
  const LetterContext letters = letter_context(*stage_, context);
  const StagingSight staging =
      context.options.transport == Transport::automatic ? StagingSight::shared : StagingSight::own;
  for (const Parcel& parcel : parcels.received) {
    const int peer = ranks_->rank_of(parcel.from);
    if (is_read(parcel, peer, *stage_, context)) {
      add_read(parcel, *context.host.member(peer), context);
    } else {
      messages_.received.push_back(letter_to_receive(parcel, staging, letters));
    }
  }
  for (const Parcel& parcel : parcels.sent) {
    const int peer = ranks_->rank_of(parcel.to.front());
    if (is_read(parcel, peer, *stage_, context)) {
      readers_.push_back(*context.host.member(peer));
    } else {
      messages_.sent.push_back(letter_to_send(parcel, staging, letters));
    }
  }
}

void RankWork::add_read(const Parcel& parcel, int member, const StageContext& context) {
  for (const Device device : parcel.to) {
    reads_.push_back(
        {member, ranks_->slot_of(parcel.from), ranks_->slot_of(device), read_of(parcel, device, *stage_, context)});
  }
}

std::int64_t RankWork::staging_needed() const {
  return collective_ ? collective_->staging_needed() : messages_.staging_needed();
}

// The copies and reads of a run, a part at a time.
class RankWork::Pulls {
 public:
  Pulls(const RankWork& work, const Host& host, std::span<const std::byte* const> sources,
        std::span<std::byte* const> targets)
      : work_(work), host_(host), sources_(sources), targets_(targets), unlisted_(work.unlisted_) {
    for (const Copies& list : work.copies_) copies_.push_back({&list, 0, 0});
    for (std::size_t i = 0; i < work.reads_.size(); ++i) reads_.push_back(i);
  }

  bool is_done() const { return copies_.empty() && !unlisted_ && reads_.empty(); }

  // Pulls from the first tile that is there. False where none is.
  bool advance() { return advance_copies() || advance_unlisted() || advance_reads(); }

 private:
  struct Progress {
    const Copies* list;
    std::size_t copy;   // in the list
    std::int64_t done;  // bytes of it
  };

  const std::byte* source(std::optional<int> member, const PlacedCopy& copy) const {
    return (member ? host_.mapped_tile(*member, copy.from) : sources_[copy.from]) + copy.from_offset;
  }
  std::byte* target(const PlacedCopy& copy) const { return targets_[copy.to] + copy.to_offset; }

  bool advance_copies() {
    const auto next = std::find_if(copies_.begin(), copies_.end(), [&](const Progress& progress) {
      return !progress.list->member || host_.is_ready(*progress.list->member);
    });
    if (next == copies_.end()) return false;
    const PlacedCopy& placed = next->list->copies[next->copy];
    const BoxCopy& copy = work_.shapes_.shape(placed);
    const ByteRange range = piece_at(next->done, copy.range_length(range_bytes), copy.bytes());
    copy.run(source(next->list->member, placed), target(placed), range, work_.stores_);
    next->done = range.end;
    if (next->done < copy.bytes()) return true;
    next->done = 0;
    if (++next->copy == next->list->copies.size()) copies_.erase(next);
    return true;
  }

  // A device after the other, when all tiles are there.
  bool advance_unlisted() {
    if (!unlisted_) return false;
    for (int member = 0; work_.sees_members_ && host_.is_shared() && member < host_.member_count(); ++member) {
      if (!host_.is_ready(member)) return false;
    }
    const bool is_ours = work_.is_ours(unlisted_->device());
    PieceCopies shapes(*work_.stage_, work_.element_size_);
    unlisted_->next([&](const Transfer& piece) {
      if (!is_ours || !work_.sees(piece.from, host_)) return;
      const PlacedCopy copy = work_.place(piece, shapes);
      const int rank = work_.ranks_->rank_of(piece.from);
      const std::byte* from = source(rank == work_.rank_ ? std::nullopt : host_.member(rank), copy);
      shapes.shape(copy).run(from, target(copy), work_.stores_);
    });
    if (unlisted_->device() == work_.unlisted_end_) unlisted_.reset();
    return true;
  }

  bool advance_reads() {
    const auto next = std::find_if(reads_.begin(), reads_.end(),
                                   [&](std::size_t read) { return host_.is_ready(work_.reads_[read].member); });
    if (next == reads_.end()) return false;
    const auto& [member, source_slot, target_slot, read] = work_.reads_[*next];
    read.run(host_.process(member), host_.remote_tile(member, source_slot), targets_[target_slot]);
    reads_.erase(next);
    return true;
  }

  const RankWork& work_;
  const Host& host_;
  std::span<const std::byte* const> sources_;
  std::span<std::byte* const> targets_;
  std::vector<Progress> copies_;
  std::optional<PieceCursor> unlisted_;
  std::vector<std::size_t> reads_;
};

void RankWork::run(const Communicator& world, Host& host, std::span<const std::byte* const> sources,
                   std::span<std::byte* const> targets, std::span<std::byte> staging) const {
  host.publish(sources);
  Pulls pulls(*this, host, sources, targets);
  MessageRun messages(world, host, messages_, sources, targets, staging);
  Idle idle(world);
  while (!pulls.is_done() || !messages.is_done()) {
    const bool has_moved = messages.advance();
    if (pulls.advance() || has_moved) {
      idle.reset();
    } else {
      idle.pause();
    }
  }
  finish_stores(stores_);
  if (collective_) collective_->run(sources, targets, staging);
  host.finish();
  for (const int reader : readers_) {
    for (; !host.is_finished(reader);) idle.pause();
  }
}

}  // namespace retile::mpi
