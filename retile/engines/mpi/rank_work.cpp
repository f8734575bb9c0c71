#include "retile/engines/mpi/rank_work.h"

#include <algorithm>
#include <set>
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
  const bool gathers = op_of(step) == StepOp::allgather && context.ranks.devices_per_rank() == 1;
  if (!gathers) return make_alltoall(team, team_ranks, sent, received, letters);
  std::vector<Device> members;
  for (const int rank : team_ranks) members.push_back(context.ranks.devices_of(rank).front());
  return make_allgather(team, context.ranks.devices_of(context.world.rank()).front(), members, held, letters);
}

enum class Way { copy, read, message };

HostRead read_of(const Parcel& parcel, Device to, const Stage& stage, const StageContext& context) {
  return HostRead({stage.tile_before(parcel.from), stage.tile_after(to), parcel.box, context.element_size});
}

// How a parcel comes from another rank: both ranks find the same.
Way way_of(const Parcel& parcel, int peer, TileSight sight, const Stage& stage, const StageContext& context) {
  if (context.options.transport != Transport::automatic || !context.host.member(peer)) return Way::message;
  if (sight == TileSight::mapped) return Way::copy;
  const bool reads = context.host.reads() && std::all_of(parcel.to.begin(), parcel.to.end(), [&](Device to) {
                       return read_of(parcel, to, stage, context).suits();
                     });
  return reads ? Way::read : Way::message;
}

}  // namespace

RankWork::RankWork(const Stage& stage, const Step& step, const Placement& held, TileSight sight,
                   const StageContext& context) {
  if (checked_bytes(stage.after().local_size(), context.element_size) > most_cached) stores_ = Stores::streaming;
  const int rank = context.world.rank();
  std::vector<Parcel> received = parcels_to(stage, context.ranks, rank, context.world.size());
  std::vector<Parcel> sent = parcels_from(stage, context.ranks, rank, context.world.size());
  std::erase_if(sent, [&](const Parcel& parcel) { return context.ranks.rank_of(parcel.to.front()) == rank; });
  std::erase_if(received, [&](const Parcel& parcel) {
    if (context.ranks.rank_of(parcel.from) != rank) return false;
    add_copy(parcel, std::nullopt, stage, context);
    return true;
  });
  if (uses_collective(step, context)) {
    collective_ = make_collective(stage, step, held, sent, received, context);
    return;
  }
  const LetterContext letters = letter_context(stage, context);
  const StagingSight staging =
      context.options.transport == Transport::automatic ? StagingSight::shared : StagingSight::own;
  for (const Parcel& parcel : received) {
    const int peer = context.ranks.rank_of(parcel.from);
    const std::optional<int> member = context.host.member(peer);
    switch (way_of(parcel, peer, sight, stage, context)) {
      case Way::copy:
        add_copy(parcel, member, stage, context);
        break;
      case Way::read:
        add_read(parcel, *member, stage, context);
        break;
      case Way::message:
        messages_.received.push_back(letter_to_receive(parcel, staging, letters));
        break;
    }
  }
  std::set<int> readers;
  for (const Parcel& parcel : sent) {
    const int peer = context.ranks.rank_of(parcel.to.front());
    if (way_of(parcel, peer, sight, stage, context) == Way::message) {
      messages_.sent.push_back(letter_to_send(parcel, staging, letters));
    } else {
      readers.insert(*context.host.member(peer));
    }
  }
  readers_.assign(readers.begin(), readers.end());
}

void RankWork::add_copy(const Parcel& parcel, std::optional<int> member, const Stage& stage,
                        const StageContext& context) {
  for (const Device device : parcel.to) {
    copies_.push_back(
        {member, context.ranks.slot_of(parcel.from), context.ranks.slot_of(device),
         BoxCopy(stage.tile_before(parcel.from), stage.tile_after(device), parcel.box, context.element_size)});
  }
}

void RankWork::add_read(const Parcel& parcel, int member, const Stage& stage, const StageContext& context) {
  for (const Device device : parcel.to) {
    reads_.push_back({member, context.ranks.slot_of(parcel.from), context.ranks.slot_of(device),
                      read_of(parcel, device, stage, context)});
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
      : work_(work), host_(host), sources_(sources), targets_(targets) {
    for (std::size_t i = 0; i < work.copies_.size(); ++i) copies_.push_back({i, 0});
    for (std::size_t i = 0; i < work.reads_.size(); ++i) reads_.push_back(i);
  }

  bool is_done() const { return copies_.empty() && reads_.empty(); }

  // Pulls from the first tile that is there. False where none is.
  bool advance() { return advance_copies() || advance_reads(); }

 private:
  struct Progress {
    std::size_t copy;
    std::int64_t done;  // bytes
  };

  bool advance_copies() {
    const auto next = std::find_if(copies_.begin(), copies_.end(), [&](const Progress& progress) {
      const Copy& copy = work_.copies_[progress.copy];
      return !copy.member || host_.is_ready(*copy.member);
    });
    if (next == copies_.end()) return false;
    const auto& [member, source_slot, target_slot, copy] = work_.copies_[next->copy];
    const std::byte* source = member ? host_.mapped_tile(*member, source_slot) : sources_[source_slot];
    const ByteRange range = piece_at(next->done, copy.range_length(range_bytes), copy.bytes());
    copy.run(source, targets_[target_slot], range, work_.stores_);
    next->done = range.end;
    if (next->done == copy.bytes()) copies_.erase(next);
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
  if (collective_) collective_->run(sources, targets, staging);
  host.finish();
  for (const int reader : readers_) {
    for (; !host.is_finished(reader);) idle.pause();
  }
}

}  // namespace retile::mpi
