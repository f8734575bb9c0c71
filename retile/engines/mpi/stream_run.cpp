#include "retile/engines/mpi/stream_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/mpi/collectives.h"
#include "retile/engines/mpi/lanes.h"
#include "retile/engines/mpi/pulls.h"
#include "retile/schedule/stream_plan.h"

namespace retile::mpi {
namespace {

// Tiles that get more have left the caches before they are read again.
constexpr std::int64_t least_streamed_bytes = 4 << 20;

// Offered messages go two lanes at a time, all in the caches.
constexpr std::size_t offered_lanes = 2;

class StreamRun final : public PreparedStreams {
 public:
  StreamRun(std::shared_ptr<Job> job, Streams streams, DeviceRanks ranks)
      : job_(std::move(job)), ranks_(std::move(ranks)), rank_(job_->world.rank()), streams_(std::move(streams)) {
    streams_.are_shapes_common = job_->world.least(streams_.are_shapes_common ? 1 : 0) == 1;
    is_listed_ = job_->world.least(streams_.is_listed ? 1 : 0) == 1;
    uses_collective_ = job_->options.transport == Transport::collectives && streams_.stage != nullptr &&
                       streams_.stage->groups() != nullptr;
    received_.resize(ranks_.devices_per_rank());
    std::vector<std::int64_t> written(received_.size());
    const auto count = [&](Device from, Device to, std::int64_t bytes) {
      if (!is_ours(to)) return;
      written[ranks_.slot_of(to)] += bytes;
      if (from != to) received_[ranks_.slot_of(to)] += bytes;
    };
    if (streams_.is_listed) {
      for (const Stream& stream : streams_.streams) count(stream.from, stream.to, stream.bytes);
    } else {
      for (const Device device : ranks_.devices_of(rank_)) {
        streams_.stage->visit_received(device, [&](const Piece& piece) {
          count(piece.from, device, volume(piece.box) * streams_.stage->element_size());
        });
      }
    }
    if (*std::max_element(written.begin(), written.end()) >= least_streamed_bytes) stores_ = Stores::streaming;
  }

  const std::vector<std::int64_t>& received() const override { return received_; }

  std::vector<std::int64_t> make_ready(SourceMemory sources) override {
    std::unique_ptr<Work>& work = works_[static_cast<std::size_t>(sources)];
    if (work == nullptr) work = make_work(sources);
    return staging_of(*work);
  }

  void execute(const TilePointers& tiles, SourceMemory sources, std::span<std::byte> staging) override {
    const Work& work = *works_[static_cast<std::size_t>(sources)];
    job_->host.publish(tiles.sources);
    PullRun pulls(work.pulls, work.streams(), work.copies, job_->host, tiles);
    UnlistedRun unlisted(*this, work, tiles);
    LaneRun offered(job_->world, job_->host, *work.packed, work.offered, tiles, staging);
    LaneRun sent(job_->world, job_->host, *work.packed, work.sent, tiles,
                 staging.subspan(static_cast<std::size_t>(work.offered.staging())));
    Idle idle(job_->world);
    while (!pulls.is_done() || !unlisted.is_done() || !offered.is_done() || !sent.is_done()) {
      const bool has_offered = offered.advance();
      const bool has_sent = sent.advance();
      if (pulls.advance() || unlisted.advance() || has_offered || has_sent) {
        idle.reset();
      } else {
        idle.pause();
      }
    }
    finish_stores(stores_);
    if (work.collective) work.collective->run(tiles, staging);
    job_->host.finish();
    for (const int reader : work.pulls.readers) {
      while (!job_->host.is_finished(reader)) idle.pause();
    }
  }

  // What goes to other ranks is packed ahead, what comes waits for its round.
  void execute_rounds(const TilePointers& tiles, std::span<std::byte> staging, const RoundDone& done) override {
    const Work& work = *works_[static_cast<std::size_t>(SourceMemory::donated)];
    LaneRun offered(job_->world, job_->host, *work.packed, work.offered, tiles, staging);
    LaneRun sent(job_->world, job_->host, *work.packed, work.sent, tiles,
                 staging.subspan(static_cast<std::size_t>(work.offered.staging())));
    Idle idle(job_->world);
    const auto advance = [&](std::int64_t end) {
      const bool has_offered = offered.advance(end);
      sent.advance(end) || has_offered ? idle.reset() : idle.pause();
    };
    std::vector<StreamCursor> cursors(streams_.streams.size());
    for (std::int64_t round = 0; round < streams_.rounds; ++round) {
      offered.advance(round);
      sent.advance(round);
      copy_own(work, tiles, round, cursors);
      while (!offered.is_through(round) || !sent.is_through(round)) advance(round + 1);
      done(round);
    }
    while (!offered.is_done() || !sent.is_done()) advance(LaneRun::all_rounds);
  }

 private:
  struct Work {
    std::optional<Streams> own_streams;  // what is listed although the streams are not
    const Streams* all_streams = nullptr;
    std::vector<BoxCopy> copies;  // by shape
    std::optional<PackedStreams> packed;
    PullWork pulls;
    bool has_unlisted = false;
    bool sees_members = false;  // of this rank's host: their tiles are copied from
    LaneSet offered;
    LaneSet sent;
    std::unique_ptr<StepCollective> collective;

    const Streams& streams() const { return own_streams ? *own_streams : *all_streams; }
  };

  // Pieces from tiles that this rank sees, worked out as they are copied: a device after the other, when all tiles are
  // there.
  class UnlistedRun {
   public:
    UnlistedRun(const StreamRun& run, const Work& work, const TilePointers& tiles)
        : run_(run), work_(work), tiles_(tiles), devices_(run.ranks_.devices_of(run.rank_)) {
      if (!work.has_unlisted) next_ = devices_.size();
    }

    bool is_done() const { return next_ == devices_.size(); }

    bool advance() {
      if (is_done()) return false;
      const Host& host = run_.job_->host;
      for (int member = 0; work_.sees_members && member < host.member_count(); ++member) {
        if (!host.is_ready(member)) return false;
      }
      const Device device = devices_[next_];
      PiecePlacer placer(*run_.streams_.stage);
      run_.streams_.stage->visit_received(device, [&](const Piece& transfer) {
        if (!run_.sees(work_, transfer.from)) return;
        const StreamPiece piece = placer.place(transfer);
        const int rank = run_.ranks_.rank_of(transfer.from);
        const std::size_t slot = run_.ranks_.slot_of(transfer.from);
        const std::byte* tile = rank == run_.rank_ ? tiles_.sources[slot] : host.mapped_tile(*host.member(rank), slot);
        placer.shapes()[piece.shape].copy().run(tile + piece.from_offset, tiles_.targets[next_] + piece.to_offset,
                                                run_.stores_);
      });
      ++next_;
      return true;
    }

   private:
    const StreamRun& run_;
    const Work& work_;
    const TilePointers tiles_;
    const std::vector<Device> devices_;
    std::size_t next_ = 0;
  };

  bool is_ours(Device device) const { return ranks_.rank_of(device) == rank_; }
  // Whether this rank copies from the device's tile.
  bool sees(const Work& work, Device device) const {
    return is_ours(device) || (work.sees_members && is_near(ranks_.rank_of(device)));
  }
  bool reaches_members() const { return job_->options.transport == Transport::automatic && !uses_collective_; }
  bool is_near(int peer) const { return job_->host.is_shared() && job_->host.member(peer).has_value(); }
  int distance(int from, int to) const { return (to - from + job_->world.size()) % job_->world.size(); }

  // Found alike by both ranks of a stream.
  Way way_of(const Streams& streams, const Stream& stream, int peer, const std::vector<bool>& suits,
             SourceMemory sources) const {
    if (peer == rank_) return Way::copied;
    if (!reaches_members() || !is_near(peer)) return Way::sent;
    if (!streams_.are_shapes_common || sources == SourceMemory::donated) return Way::offered;
    if (sources == SourceMemory::shared) return Way::copied;
    const std::span<const StreamPiece> pieces = streams.pieces_of(stream);
    const bool is_read = job_->host.reads() && std::all_of(pieces.begin(), pieces.end(), [&](const StreamPiece& piece) {
                           return suits[piece.shape];
                         });
    return is_read ? Way::read : Way::offered;
  }

  std::unique_ptr<Work> make_work(SourceMemory sources) {
    auto work = std::make_unique<Work>();
    work->all_streams = &streams_;
    work->sees_members = sources == SourceMemory::shared && reaches_members() && job_->host.is_shared();
    if (!is_listed_) list_unseen(*work);
    const Streams& streams = work->streams();
    std::vector<bool> suits;
    for (const PieceShape& shape : streams.shapes) {
      work->copies.push_back(shape.copy());
      suits.push_back(HostRead(work->copies.back()).suits());
    }
    work->packed.emplace(streams, ranks_);
    work->pulls.stores = stores_;
    std::map<std::tuple<std::uint32_t, int, Way>, PullList> lists;  // by array and distance
    std::map<std::pair<Way, int>, Lane> lanes_to;                   // by distance
    std::map<std::pair<Way, int>, Lane> lanes_from;
    for (std::size_t i = 0; i < streams.streams.size(); ++i) {
      const Stream& stream = streams.streams[i];
      const bool is_received = is_ours(stream.to);
      const int peer = ranks_.rank_of(is_received ? stream.from : stream.to);
      const Way way = way_of(streams, stream, peer, suits, sources);
      if (way == Way::sent || way == Way::offered) {
        Lane& lane = is_received ? lanes_from[{way, distance(peer, rank_)}] : lanes_to[{way, distance(rank_, peer)}];
        lane.peer = peer;
        if (way == Way::offered) lane.member = job_->host.member(peer);
        lane.streams.push_back(i);
        lane.bytes += stream.bytes;
      } else if (is_received) {
        add_pulls(*work, lists, stream, peer, way);
      } else {
        work->pulls.readers.push_back(*job_->host.member(peer));
      }
    }
    for (auto& [key, list] : lists) work->pulls.lists.push_back(std::move(list));
    for (PullList& list : work->pulls.lists) sort_pulls(streams, list);
    std::vector<int>& readers = work->pulls.readers;
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    for (auto& [key, lane] : lanes_to)
      (key.first == Way::sent ? work->sent : work->offered).sent.push_back(std::move(lane));
    for (auto& [key, lane] : lanes_from) {
      (key.first == Way::sent ? work->sent : work->offered).received.push_back(std::move(lane));
    }
    for (LaneSet* set : {&work->sent, &work->offered}) finish_lanes(*set, *work);
    if (uses_collective_) {
      make_collective(*work);
    } else {
      limit_messages(*work, sources);
    }
    return work;
  }

  // Lists take too much memory: what is seen is worked out as it is copied, and only the rest is listed.
  void list_unseen(Work& work) const {
    work.own_streams = make_streams(streams_.stage, ranks_.devices_of(rank_), INT64_MAX, [&](const Piece& piece) {
      return !sees(work, is_ours(piece.to) ? piece.from : piece.to);
    });
    work.has_unlisted = true;
    // Whoever sees this rank's tiles may read them.
    for (int member = 0; work.sees_members && member < job_->host.member_count(); ++member) {
      if (member != job_->host.team().rank()) work.pulls.readers.push_back(member);
    }
  }

  void add_pulls(const Work& work, std::map<std::tuple<std::uint32_t, int, Way>, PullList>& lists, const Stream& stream,
                 int peer, Way way) const {
    for (std::size_t i = stream.first; i < stream.first + stream.count; ++i) {
      const StreamPiece& piece = work.streams().pieces[i];
      PullList& list = lists[{piece.array, distance(peer, rank_), way}];
      list.way = way;
      if (peer != rank_) list.member = job_->host.member(peer);
      list.pulls.push_back({i, work.packed->tile_of(stream.from, piece), work.packed->tile_of(stream.to, piece)});
    }
  }

  static void sort_pulls(const Streams& streams, PullList& list) {
    const auto place = [&](const PullList::Pull& pull) {
      return std::tuple(pull.to_tile, streams.pieces[pull.piece].to_offset);
    };
    std::sort(list.pulls.begin(), list.pulls.end(),
              [&](const PullList::Pull& a, const PullList::Pull& b) { return place(a) < place(b); });
  }

  // Streams in the order of both ends; and whether their only piece needs no staging.
  void finish_lanes(LaneSet& set, const Work& work) const {
    const Streams& streams = work.streams();
    const auto ends = [&](std::size_t i) { return std::pair(streams.streams[i].from, streams.streams[i].to); };
    for (const Direction direction : {Direction::sent, Direction::received}) {
      for (Lane& lane : direction == Direction::sent ? set.sent : set.received) {
        std::sort(lane.streams.begin(), lane.streams.end(),
                  [&](std::size_t a, std::size_t b) { return ends(a) < ends(b); });
        const Stream& first = streams.streams[lane.streams.front()];
        if (lane.streams.size() > 1 || first.count > 1) continue;
        const StreamPiece& piece = streams.pieces[first.first];
        const bool is_sent_whole = work.packed->packing(piece).is_contiguous();
        const bool is_received_whole = work.packed->unpacking(piece).is_contiguous();
        lane.is_direct = direction == Direction::sent ? is_sent_whole : is_received_whole;
        lane.is_whole = is_sent_whole && is_received_whole && streams_.are_shapes_common && is_near(lane.peer);
      }
    }
  }

  // Collective. All ranks cut lanes alike.
  void limit_messages(Work& work, SourceMemory sources) {
    const Streams& streams = work.streams();
    if (streams_.rounds != Streams::any_rounds) {
      for (LaneSet* set : {&work.sent, &work.offered}) {
        set->in_flight = streams_.rounds_in_flight;
        set->set_rounds(streams, streams_.rounds);
      }
      while (job_->world.most(std::max(work.sent.longest_message(), work.offered.longest_message())) > most_mpi_bytes) {
        if (sources == SourceMemory::donated) {
          throw RuntimeError(fmt::format("a message of more than {} bytes: the cap is too large", most_mpi_bytes));
        }
        streams_.rounds *= 2;
        for (LaneSet* set : {&work.sent, &work.offered}) set->set_rounds(streams, streams_.rounds);
      }
      return;
    }
    const std::int64_t room = job_->options.staging_bytes / 2;  // of each set
    work.offered.at_once = offered_lanes;
    const std::int64_t offered_messages = 2 * work.offered.in_flight * static_cast<std::int64_t>(offered_lanes);
    work.offered.set_most_bytes(streams, std::clamp<std::int64_t>(room / offered_messages, 1, most_message_bytes));
    const auto lanes = static_cast<std::int64_t>(std::max(work.sent.sent.size(), work.sent.received.size()));
    const std::int64_t most_lanes =
        std::max<std::int64_t>(1, room / (2 * work.sent.in_flight) / least_crossing_message_bytes);
    const std::int64_t at_once = std::clamp<std::int64_t>(job_->world.most(lanes), 1, most_lanes);
    const std::int64_t bytes =
        std::clamp(most_crossing_bytes / at_once, least_crossing_message_bytes, most_message_bytes);
    work.sent.at_once = static_cast<std::size_t>(at_once);
    work.sent.set_most_bytes(streams, std::clamp<std::int64_t>(room / (2 * work.sent.in_flight * at_once), 1, bytes));
  }

  void make_collective(Work& work) {
    const Stage& stage = *streams_.stage;
    const RankTeams teams = rank_teams(*stage.groups(), stage.held(), ranks_, job_->world.size());
    const Communicator& team = job_->teams.of(teams);
    work.collective = make_step_collective(team, teams, rank_, *work.packed, std::move(work.sent), stage,
                                           job_->options.staging_bytes);
    work.sent = {};
  }

  std::vector<std::int64_t> staging_of(const Work& work) const {
    std::vector<std::int64_t> staging(ranks_.devices_per_rank());
    if (streams_.rounds != Streams::any_rounds) {
      for (const LaneSet* set : {&work.offered, &work.sent}) {
        for (const Direction direction : {Direction::sent, Direction::received}) {
          for (const Lane& lane : set->lanes(direction)) add_staging(*set, lane, direction, work, staging);
        }
      }
      return staging;
    }
    const std::int64_t bytes =
        work.collective ? work.collective->staging_needed() : work.offered.staging() + work.sent.staging();
    staging.assign(staging.size(), divide_up(bytes, static_cast<std::int64_t>(staging.size())));  // shared
    return staging;
  }

  void add_staging(const LaneSet& set, const Lane& lane, Direction direction, const Work& work,
                   std::vector<std::int64_t>& staging) const {
    if (LaneSet::staged(lane, direction) == 0) return;
    for (const std::size_t i : lane.streams) {
      const Stream& stream = work.streams().streams[i];
      staging[ranks_.slot_of(direction == Direction::sent ? stream.from : stream.to)] +=
          lane.part_of(stream.bytes, 0).size() * set.in_flight;
    }
  }

  // What stays on this rank, of one round.
  void copy_own(const Work& work, const TilePointers& tiles, std::int64_t round,
                std::vector<StreamCursor>& cursors) const {
    for (std::size_t i = 0; i < cursors.size(); ++i) {
      const Stream& stream = streams_.streams[i];
      if (!is_ours(stream.from) || !is_ours(stream.to)) continue;
      cursors[i].advance(streams_, stream, streams_.part_of(stream.bytes, round).size(),
                         [&](const StreamPiece& piece, ByteRange range) {
                           work.copies[piece.shape].run(work.packed->source(tiles, stream, piece),
                                                        work.packed->target(tiles, stream, piece), range);
                         });
    }
  }

  const std::shared_ptr<Job> job_;
  const DeviceRanks ranks_;
  const int rank_;
  Streams streams_;
  bool is_listed_ = true;  // by all ranks
  bool uses_collective_ = false;
  Stores stores_ = Stores::cached;
  std::vector<std::int64_t> received_;          // bytes by slot
  std::array<std::unique_ptr<Work>, 3> works_;  // by kind of sources
};

}  // namespace

std::unique_ptr<PreparedStreams> make_stream_run(std::shared_ptr<Job> job, Streams streams, DeviceRanks ranks) {
  return std::make_unique<StreamRun>(std::move(job), std::move(streams), std::move(ranks));
}

}  // namespace retile::mpi
