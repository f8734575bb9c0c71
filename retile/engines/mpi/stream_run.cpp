#include "retile/engines/mpi/stream_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/mpi/collectives.h"
#include "retile/engines/mpi/lanes.h"
#include "retile/engines/mpi/near_lanes.h"
#include "retile/engines/mpi/pulls.h"
#include "retile/schedule/stream_plan.h"

namespace retile::mpi {
namespace {

// Lanes to and from members of this host, by member.
struct NearLanes {
  std::map<int, Lane> sent;
  std::map<int, Lane> received;

  static const Lane* find(const std::map<int, Lane>& lanes, int member) {
    const auto found = lanes.find(member);
    return found == lanes.end() ? nullptr : &found->second;
  }
};

class StreamRun final : public PreparedStreams {
 public:
  StreamRun(Job& job, Streams streams, DeviceRanks ranks)
      : job_(&job),
        ranks_(std::move(ranks)),
        rank_(job_->world.rank()),
        tag_(job_->new_tag()),
        streams_(std::move(streams)),
        planned_rounds_(streams_.rounds),
        uses_collective_(job_->options.transport == Transport::collectives && streams_.stage != nullptr &&
                         streams_.stage->groups() != nullptr),
        boards_(job_->host, streams_.array_count * ranks_.devices_per_rank()) {
    agree();
    count_bytes();
    if (!streams_.is_listed) listed_ = list([&](Device device) { return !sees(device); });
    packed_.emplace(listed(), ranks_);
    sender_.emplace(boards_, *packed_, streams_.are_shapes_common);
    receiver_.emplace(boards_, *packed_, stores_, [this] { list_near(); });
    pulls_.emplace(*receiver_, *packed_, stores_);
    near_ = make_near_lanes(listed());
    add_near_lanes();
    make_sent_lanes();
    if (uses_collective_) {
      make_collective();
    } else {
      limit_messages();
    }
  }

  const std::vector<std::int64_t>& received() const override { return received_; }

  const std::vector<std::int64_t>& staging(SourceMemory sources) override {
    std::optional<std::vector<std::int64_t>>& staging = staging_[static_cast<std::size_t>(sources)];
    if (sources != SourceMemory::shared) list_near();
    if (!staging) staging = staging_of(sources);
    return *staging;
  }

  void start(const TilePointers& tiles, SourceMemory sources, std::span<std::byte> staging) override {
    start_lanes(tiles, sources, staging);
    pulls_->start(tiles);
    next_unlisted_ = streams_.is_listed ? devices_.size() : 0;
    done_ = {};
    is_done_ = false;
  }

  void start_rounds(const TilePointers& tiles, std::span<std::byte> staging, const RoundDone& done) override {
    if (streams_.rounds != planned_rounds_) {
      throw RuntimeError(fmt::format("a message of more than {} bytes: the cap is too large", most_mpi_bytes));
    }
    start_lanes(tiles, SourceMemory::donated, staging);
    cursors_.assign(streams_.streams.size(), {});
    done_ = done;
    round_ = -1;
    is_done_ = false;
  }

  bool advance() override { return !is_done_ && (done_ ? advance_rounds() : advance_all()); }
  bool is_done() const override { return is_done_; }
  bool is_staging_read() const override { return sender_->is_read(); }

 private:
  const Streams& listed() const { return listed_ ? *listed_ : streams_; }
  bool is_ours(Device device) const { return ranks_.rank_of(device) == rank_; }
  // Whether this rank may copy from the device's tile.
  bool sees(Device device) const { return is_ours(device) || is_near(ranks_.rank_of(device)); }
  bool is_near(int peer) const { return job_->is_near(peer); }
  int distance(int from, int to) const { return (to - from + job_->world.size()) % job_->world.size(); }
  bool has_planned_rounds() const { return streams_.rounds != Streams::any_rounds; }
  // Whether all ranks are on this host, and see each other's shared memory.
  bool is_nothing_sent() const {
    return job_->options.transport == Transport::automatic && job_->host.member_count() == job_->world.size();
  }

  // --- Preparation.

  void agree() {
    std::int64_t differing[] = {streams_.are_shapes_common ? 0 : 1, streams_.is_listed ? 0 : 1,
                                boards_.fault() ? 1 : 0};
    job_->world.most(differing);
    if (differing[2] != 0) throw RuntimeError(job_->world.first_text(boards_.fault()).value());
    streams_.are_shapes_common = differing[0] == 0;
    if (differing[1] != 0 && streams_.is_listed) streams_.drop_lists();
  }

  void count_bytes() {
    devices_ = ranks_.devices_of(rank_);
    received_.resize(ranks_.devices_per_rank());
    std::vector<std::int64_t> written(received_.size());
    const auto count = [&](Device from, Device to, std::int64_t bytes) {
      if (!is_ours(to)) return;
      written[ranks_.slot_of(to)] += bytes;
      if (from != to) received_[ranks_.slot_of(to)] += bytes;
    };
    for (const Stream& stream : streams_.streams) count(stream.from, stream.to, stream.bytes);
    for (const Device device : devices_) {
      if (streams_.is_listed) break;
      streams_.stage->visit_received(device, [&](const Piece& piece) {
        count(piece.from, device, volume(piece.box) * streams_.stage->element_size());
      });
    }
    stores_ = stores_for(*std::max_element(written.begin(), written.end()));
  }

  // Lists would take too much memory. Those of pieces to and from some devices.
  template <typename Takes>
  Streams list(Takes takes) const {
    return make_streams(streams_.stage, devices_, INT64_MAX,
                        [&](const Piece& piece) { return takes(is_ours(piece.to) ? piece.from : piece.to); });
  }

  NearLanes make_near_lanes(const Streams& streams) const {
    NearLanes lanes;
    for (const Direction direction : {Direction::sent, Direction::received}) {
      std::map<int, Lane>& made = direction == Direction::sent ? lanes.sent : lanes.received;
      for (auto& [peer, lane] :
           make_lanes(streams, ranks_, rank_, direction, [&](int other) { return is_near(other); })) {
        made.emplace(*job_->host.member(peer), std::move(lane));
      }
      for (auto& [member, lane] : made) {
        if (has_planned_rounds()) {
          lane.set_rounds(streams, streams_.rounds);
        } else {
          cut_near_lane(lane, streams);
        }
      }
    }
    return lanes;
  }

  // A quarter of the staging is for lanes with room of their own, another one for those that share some, and half of it
  // for messages to other ranks, if there are any.
  std::int64_t own_room() const { return job_->options.staging_bytes / 4; }
  std::int64_t shared_room() const { return job_->options.staging_bytes / (is_nothing_sent() ? 2 : 4); }
  std::int64_t near_at_once() const {
    const NearMessages& near = job_->options.near;
    const std::int64_t lanes = std::min<std::int64_t>(near.lanes_at_once, job_->host.member_count() - 1);
    return std::clamp<std::int64_t>(shared_room() / (2 * near.most_bytes), 1, std::max<std::int64_t>(1, lanes));
  }
  // Into messages, the same at both ends. A lane that has room as a whole goes in two, so that its sender waits for
  // nobody; others in shorter ones.
  void cut_near_lane(Lane& lane, const Streams& streams) const {
    const std::int64_t room = std::max<std::int64_t>(1, shared_room() / (2 * near_at_once()));
    const std::int64_t usual = std::min(room, job_->options.near.most_bytes);
    lane.set_most_bytes(streams, lane.bytes <= usual ? usual : room);
    if (lane.bytes > usual && lane.rounds == 1) lane.set_rounds(streams, 2);
    if (lane.rounds > 2) lane.set_most_bytes(streams, usual);
  }

  void add_near_lanes() {
    std::vector<std::pair<int, int>> peers;  // by distance
    for (int peer = 0; peer < job_->world.size(); ++peer) {
      if (is_near(peer)) peers.emplace_back(distance(rank_, peer), peer);
    }
    std::sort(peers.begin(), peers.end());
    const auto add = [&](auto& end, const std::map<int, Lane>& lanes, int peer) {
      const int member = *job_->host.member(peer);
      const Lane* lane = NearLanes::find(lanes, member);
      if (lane != nullptr || !streams_.is_listed) end.add(member, lane);
    };
    for (const auto& [away, peer] : peers) add(*sender_, near_.sent, peer);
    for (auto peer = peers.rbegin(); peer != peers.rend(); ++peer) add(*receiver_, near_.received, peer->second);
    if (has_planned_rounds()) {
      sender_->set_rooms_by_lane();
    } else {
      sender_->set_shared_rooms(own_room(), near_at_once());
    }
    if (!streams_.is_listed) return;
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < streams_.streams.size(); ++i) {
      if (is_ours(streams_.streams[i].from) && is_ours(streams_.streams[i].to)) own.push_back(i);
    }
    pulls_->add(std::nullopt, 0, own);
    for (std::size_t i = 0; i < receiver_->size() && streams_.are_shapes_common; ++i) {
      const Lane& lane = *NearLanes::find(near_.received, receiver_->member(i));
      pulls_->add(i, distance(lane.peer, rank_), lane.streams);
    }
  }

  // Lanes of members whose tiles this rank cannot copy from, or who cannot copy from this rank's.
  void list_near() {
    if (streams_.is_listed || near_listed_) return;
    near_listed_ = list([&](Device device) { return is_near(ranks_.rank_of(device)); });
    near_packed_.emplace(*near_listed_, ranks_);
    near_ = make_near_lanes(*near_listed_);
    sender_->list(*near_packed_, [&](int member) { return NearLanes::find(near_.sent, member); });
    receiver_->list(*near_packed_, [&](int member) { return NearLanes::find(near_.received, member); });
  }

  void make_sent_lanes() {
    for (const Direction direction : {Direction::sent, Direction::received}) {
      std::vector<Lane>& lanes = direction == Direction::sent ? sent_.sent : sent_.received;
      for (auto& [peer, lane] :
           make_lanes(listed(), ranks_, rank_, direction, [&](int other) { return !is_near(other); })) {
        lanes.push_back(std::move(lane));
        find_direct(lanes.back(), direction);
      }
      const auto away = [&](const Lane& lane) {
        return direction == Direction::sent ? distance(rank_, lane.peer) : distance(lane.peer, rank_);
      };
      std::sort(lanes.begin(), lanes.end(), [&](const Lane& a, const Lane& b) { return away(a) < away(b); });
    }
  }

  void find_direct(Lane& lane, Direction direction) const {
    lane.is_direct = is_contiguous(listed(), lane, direction);
    const bool is_on_host = job_->host.is_shared() && job_->host.member(lane.peer).has_value();
    lane.is_whole = is_on_host && streams_.are_shapes_common && is_contiguous(listed(), lane, Direction::sent) &&
                    is_contiguous(listed(), lane, Direction::received);
  }

  // Collective, unless all ranks are near each other. All cut lanes alike.
  void limit_messages() {
    if (is_nothing_sent()) return;
    if (has_planned_rounds()) {
      sent_.in_flight = streams_.rounds_in_flight;
      sent_.set_rounds(listed(), streams_.rounds);
      while (job_->world.most(sent_.longest_message()) > most_mpi_bytes) {
        streams_.rounds *= 2;
        sent_.set_rounds(listed(), streams_.rounds);
      }
      return;
    }
    const std::int64_t room = job_->options.staging_bytes / 2;
    const auto lanes = static_cast<std::int64_t>(std::max(sent_.sent.size(), sent_.received.size()));
    const std::int64_t most_lanes =
        std::max<std::int64_t>(1, room / (2 * sent_.in_flight) / least_crossing_message_bytes);
    const std::int64_t at_once = std::clamp<std::int64_t>(job_->world.most(lanes), 1, most_lanes);
    const std::int64_t bytes =
        std::clamp(most_crossing_bytes / at_once, least_crossing_message_bytes, most_message_bytes);
    sent_.at_once = static_cast<std::size_t>(at_once);
    sent_.set_most_bytes(listed(), std::clamp<std::int64_t>(room / (2 * sent_.in_flight * at_once), 1, bytes));
  }

  void make_collective() {
    const Stage& stage = *streams_.stage;
    const RankTeams teams = rank_teams(*stage.groups(), stage.held(), ranks_, job_->world.size());
    const Communicator& team = job_->teams.of(teams);
    collective_ =
        make_step_collective(team, teams, rank_, *packed_, std::move(sent_), stage, job_->options.staging_bytes);
    sent_ = {};
  }

  std::vector<std::int64_t> staging_of(SourceMemory sources) const {
    std::vector<std::int64_t> staging(ranks_.devices_per_rank());
    if (has_planned_rounds()) {
      const Streams& near = near_listed_ ? *near_listed_ : listed();
      for (const auto& [member, lane] : near_.sent) {
        if (sender_->way_to(member, sources) == Way::packed) add_staging(near, lane, Direction::sent, staging);
      }
      for (const Direction direction : {Direction::sent, Direction::received}) {
        for (const Lane& lane : sent_.lanes(direction)) {
          if (LaneSet::staged(lane) > 0) add_staging(listed(), lane, direction, staging);
        }
      }
      return staging;
    }
    const std::int64_t bytes = sender_->staging(sources) + sent_staging();
    staging.assign(staging.size(), divide_up(bytes, static_cast<std::int64_t>(staging.size())));  // shared
    return staging;
  }

  std::int64_t sent_staging() const { return collective_ ? collective_->staging_needed() : sent_.staging(); }

  void add_staging(const Streams& streams, const Lane& lane, Direction direction,
                   std::vector<std::int64_t>& staging) const {
    for (const std::size_t i : lane.streams) {
      const Stream& stream = streams.streams[i];
      staging[ranks_.slot_of(direction == Direction::sent ? stream.from : stream.to)] +=
          lane.part_of(stream.bytes, 0).size() * streams_.rounds_in_flight;
    }
  }

  // --- Executions.

  void start_lanes(const TilePointers& tiles, SourceMemory sources, std::span<std::byte> staging) {
    tiles_ = tiles;
    sender_->start(tiles, sources, staging);
    receiver_->start(tiles);
    staging_for_messages_ = staging.subspan(static_cast<std::size_t>(sender_->staging(sources)));
    sending_.reset();
    if (sent_.sent.empty() && sent_.received.empty()) return;
    sending_.emplace(job_->world, tag_, *packed_, sent_, tiles, staging_for_messages_);
  }

  bool advance_lanes(std::int64_t end) {
    bool has_worked = sender_->advance();
    has_worked = receiver_->advance(end) || has_worked;
    return (sending_ && sending_->advance(end)) || has_worked;
  }
  bool are_lanes_done() const {
    return sender_->is_done() && receiver_->is_done() && (!sending_ || sending_->is_done());
  }

  bool advance_all() {
    bool has_worked = advance_lanes(LaneRun::all_rounds);
    has_worked = pulls_->advance() || has_worked;
    has_worked = advance_unlisted() || has_worked;
    if (!are_lanes_done() || !pulls_->is_done() || next_unlisted_ < devices_.size()) return has_worked;
    finish_stores(stores_);
    if (collective_) collective_->run(tiles_, staging_for_messages_);
    is_done_ = true;
    return true;
  }

  // Pieces from tiles that this rank sees, worked out as they are copied: a device after the other, when all tiles are
  // there.
  bool advance_unlisted() {
    if (next_unlisted_ == devices_.size() || !receiver_->are_ways_known()) return false;
    const Device device = devices_[next_unlisted_];
    PiecePlacer placer(*streams_.stage);
    streams_.stage->visit_received(device, [&](const Piece& transfer) {
      const std::byte* tile = seen_tile(transfer.from);
      if (tile == nullptr) return;
      const StreamPiece piece = placer.place(transfer);
      placer.shapes()[piece.shape].copy().run(tile + piece.from_offset,
                                              tiles_.targets[next_unlisted_] + piece.to_offset, stores_);
    });
    if (++next_unlisted_ < devices_.size()) return true;
    for (std::size_t lane = 0; lane < receiver_->size(); ++lane) {
      if (receiver_->way(lane) == Way::copied) receiver_->finish(lane);
    }
    return true;
  }

  // Null for tiles that come otherwise.
  const std::byte* seen_tile(Device device) const {
    const std::size_t slot = ranks_.slot_of(device);
    if (is_ours(device)) return tiles_.sources[slot];
    const int peer = ranks_.rank_of(device);
    if (!is_near(peer)) return nullptr;
    const int member = *job_->host.member(peer);
    return receiver_->way(*receiver_->lane_from(member)) == Way::copied ? boards_.mapped_tile(member, slot) : nullptr;
  }

  // What goes to other ranks is packed ahead, what comes waits for its round.
  bool advance_rounds() {
    bool has_worked = advance_lanes(round_ + 1);
    if (round_ < 0) return begin_round();
    while (round_ < streams_.rounds && is_through(round_)) {
      done_(round_);
      begin_round();
      has_worked = true;
    }
    if (round_ < streams_.rounds) return has_worked;
    is_done_ = are_lanes_done();
    if (is_done_) finish_stores(stores_);
    return is_done_ || advance_lanes(LaneRun::all_rounds) || has_worked;
  }

  bool is_through(std::int64_t round) const {
    return sender_->is_through(round) && receiver_->is_through(round) && (!sending_ || sending_->is_through(round));
  }

  // What stays on this rank, of the next round.
  bool begin_round() {
    ++round_;
    for (std::size_t i = 0; i < cursors_.size() && round_ < streams_.rounds; ++i) {
      const Stream& stream = streams_.streams[i];
      if (!is_ours(stream.from) || !is_ours(stream.to)) continue;
      cursors_[i].advance(streams_, stream, streams_.part_of(stream.bytes, round_).size(),
                          [&](const StreamPiece& piece, ByteRange range) {
                            packed_->copy(piece).run(packed_->source(tiles_, stream, piece),
                                                     packed_->target(tiles_, stream, piece), range);
                          });
    }
    return true;
  }

  Job* const job_;
  const DeviceRanks ranks_;
  const int rank_;
  const int tag_;
  Streams streams_;
  const std::int64_t planned_rounds_;
  const bool uses_collective_;
  Boards boards_;
  std::vector<Device> devices_;
  std::vector<std::int64_t> received_;  // bytes by slot
  Stores stores_ = Stores::cached;
  std::optional<Streams> listed_;  // what is listed although the streams are not: what this rank never sees
  std::optional<PackedStreams> packed_;
  std::optional<Streams> near_listed_;  // and what goes between it and members of its host
  std::optional<PackedStreams> near_packed_;
  NearLanes near_;
  std::optional<NearSender> sender_;
  std::optional<NearReceiver> receiver_;
  std::optional<Pulls> pulls_;
  LaneSet sent_;
  std::unique_ptr<StepCollective> collective_;
  std::array<std::optional<std::vector<std::int64_t>>, 3> staging_;  // by kind of sources
  // The execution.
  TilePointers tiles_;
  std::span<std::byte> staging_for_messages_;
  std::optional<LaneRun> sending_;
  std::size_t next_unlisted_ = 0;  // device
  RoundDone done_;                 // in rounds
  std::int64_t round_ = 0;
  std::vector<StreamCursor> cursors_;
  bool is_done_ = true;
};

}  // namespace

std::shared_ptr<PreparedStreams> make_stream_run(Job& job, Streams streams, DeviceRanks ranks) {
  return std::make_shared<StreamRun>(job, std::move(streams), std::move(ranks));
}

}  // namespace retile::mpi
