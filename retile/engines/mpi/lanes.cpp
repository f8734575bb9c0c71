#include "retile/engines/mpi/lanes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

// Parts that begin at cache lines of their pieces are copied faster.
constexpr std::int64_t cache_line = 64;

}  // namespace

// In the order of the source if that is known at both ends: what keeps its order is never transposed.
DimensionOrder packed_order(const Streams& streams, const PieceShape& shape) {
  const Box box = box_at(Shape(shape.extent.size()), shape.extent);
  return order_of(streams.are_shapes_common ? TileLayout(box, shape.from) : TileLayout(box));
}

PackedStreams::PackedStreams(const Streams& streams, const DeviceRanks& ranks) : streams_(&streams), ranks_(&ranks) {
  for (const PieceShape& shape : streams.shapes) {
    const DimensionOrder order = packed_order(streams, shape);
    packings_.push_back(shape.packing(order));
    unpackings_.push_back(shape.unpacking(order));
    copies_.push_back(shape.copy());
  }
}

// --- Lanes.

void Lane::set_rounds(const Streams& all, std::int64_t count) {
  rounds = count;
  part_bytes = 0;
  for (const std::size_t i : streams) part_bytes += part_of(all.streams[i].bytes, 0).size();
}

void Lane::set_most_bytes(const Streams& all, std::int64_t most_bytes) {
  // Each stream's part is rounded up.
  const auto count = static_cast<std::int64_t>(streams.size());
  const std::int64_t most = is_whole ? most_mpi_bytes : most_bytes;
  unit = most > count * cache_line ? cache_line : 1;
  // With more rounds than the longest stream has units, messages are no shorter, and most of them empty.
  std::int64_t longest = 0;
  for (const std::size_t i : streams) longest = std::max(longest, divide_up(all.streams[i].bytes, unit));
  const std::int64_t needed = divide_up(bytes, std::max<std::int64_t>(1, most - count * unit + 1));
  set_rounds(all, bytes <= most ? 1 : std::min(longest, needed));
}

std::map<int, Lane> make_lanes(const Streams& streams, const DeviceRanks& ranks, int rank, Direction direction,
                               const std::function<bool(int)>& takes) {
  std::map<int, Lane> lanes;
  for (std::size_t i = 0; i < streams.streams.size(); ++i) {
    const Stream& stream = streams.streams[i];
    const int from = ranks.rank_of(stream.from);
    const int to = ranks.rank_of(stream.to);
    const int peer = direction == Direction::sent ? to : from;
    if (from == to || (direction == Direction::sent ? from : to) != rank || !takes(peer)) continue;
    Lane& lane = lanes[peer];
    lane.peer = peer;
    lane.streams.push_back(i);
    lane.bytes += stream.bytes;
  }
  // In the order of both ends.
  const auto ends = [&](std::size_t i) { return std::pair(streams.streams[i].from, streams.streams[i].to); };
  for (auto& [peer, lane] : lanes) {
    std::sort(lane.streams.begin(), lane.streams.end(),
              [&](std::size_t a, std::size_t b) { return ends(a) < ends(b); });
  }
  return lanes;
}

bool is_contiguous(const Streams& streams, const Lane& lane, Direction direction) {
  const Stream& first = streams.streams[lane.streams.front()];
  if (lane.streams.size() > 1 || first.count > 1) return false;
  const PieceShape& shape = streams.shapes[streams.pieces[first.first].shape];
  const DimensionOrder order = packed_order(streams, shape);
  return (direction == Direction::sent ? shape.packing(order) : shape.unpacking(order)).is_contiguous();
}

void LaneSet::set_rounds(const Streams& streams, std::int64_t rounds) {
  for (std::vector<Lane>* list : {&sent, &received}) {
    for (Lane& lane : *list) lane.set_rounds(streams, rounds);
  }
}

void LaneSet::set_most_bytes(const Streams& streams, std::int64_t most_bytes) {
  for (std::vector<Lane>* list : {&sent, &received}) {
    for (Lane& lane : *list) lane.set_most_bytes(streams, most_bytes);
  }
}

std::int64_t LaneSet::longest_message() const {
  std::int64_t longest = 0;
  for (const Lane& lane : sent) longest = std::max(longest, lane.part_bytes);
  for (const Lane& lane : received) longest = std::max(longest, lane.part_bytes);
  return longest;
}

std::int64_t LaneSet::staged(const Lane& lane) { return lane.is_direct ? 0 : lane.part_bytes; }

std::int64_t LaneSet::staging(Direction direction) const {
  std::int64_t sum = 0;
  std::int64_t longest = 0;
  for (const Lane& lane : lanes(direction)) {
    sum += staged(lane);
    longest = std::max(longest, staged(lane));
  }
  const bool go_at_once = lanes(direction).size() <= at_once;
  return in_flight * (go_at_once ? sum : longest * static_cast<std::int64_t>(at_once));
}

// --- Cursors.

std::int64_t LaneCursor::bytes_of(const PackedStreams& packed, std::int64_t round) const {
  if (lane_->rounds == 1) return lane_->bytes;
  std::int64_t bytes = 0;
  for (const std::size_t i : lane_->streams) {
    bytes += lane_->part_of(packed.streams().streams[i].bytes, round).size();
  }
  return bytes;
}

// move(stream, piece, range) for all that the round takes of the lane's streams.
template <typename Move>
void LaneCursor::walk(const PackedStreams& packed, std::int64_t round, Move move) {
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    const Stream& stream = packed.streams().streams[lane_->streams[i]];
    if (lane_->rounds == 1) {
      for (const StreamPiece& piece : packed.streams().pieces_of(stream)) {
        move(stream, piece, ByteRange{0, packed.packing(piece).bytes()});
      }
      continue;
    }
    cursors_[i].advance(packed.streams(), stream, lane_->part_of(stream.bytes, round).size(),
                        [&](const StreamPiece& piece, ByteRange range) { move(stream, piece, range); });
  }
}

void LaneCursor::pack(const PackedStreams& packed, const TilePointers& tiles, std::int64_t round, std::byte* out) {
  walk(packed, round, [&](const Stream& stream, const StreamPiece& piece, ByteRange range) {
    packed.packing(piece).pack(packed.source(tiles, stream, piece), range, out);
    out += range.size();
  });
}

void LaneCursor::unpack(const PackedStreams& packed, const TilePointers& tiles, std::int64_t round, const std::byte* in,
                        Stores stores) {
  walk(packed, round, [&](const Stream& stream, const StreamPiece& piece, ByteRange range) {
    packed.unpacking(piece).unpack(in, range, packed.target(tiles, stream, piece), stores);
    in += range.size();
  });
}

// --- Runs.

const Lane LaneRun::no_lane;

LaneRun::LaneRun(const Communicator& world, int tag, const PackedStreams& packed, const LaneSet& lanes,
                 const TilePointers& tiles, std::span<std::byte> staging)
    : world_(world),
      tag_(tag),
      packed_(packed),
      lanes_(lanes),
      tiles_(tiles),
      sending_(make_lanes(Direction::sent, staging.data())),
      receiving_(make_lanes(Direction::received, staging.data() + lanes.staging(Direction::sent))) {
  ensure(static_cast<std::int64_t>(staging.size()) >= lanes.staging(), "lanes have the staging they need");
}

// Left early, by an exception: the memory that messages use is about to go. What has not begun is cancelled; what has
// is given a moment to end.
LaneRun::~LaneRun() {
  constexpr int most_tests = 1000;
  for (Lanes* lanes : {&sending_, &receiving_}) {
    for (MPI_Request& request : lanes->requests) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      int is_done = 0;
      for (int i = 0; i < most_tests && is_done == 0; ++i) MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
      if (is_done == 0) MPI_Request_free(&request);
    }
  }
}

LaneRun::Lanes LaneRun::make_lanes(Direction direction, std::byte* staging) const {
  Lanes made{direction, &lanes_.lanes(direction), 0, {}, {}, staging};
  made.slots.resize(std::min(lanes_.at_once, made.lanes->size()));
  made.requests.assign(made.slots.size() * static_cast<std::size_t>(lanes_.in_flight), MPI_REQUEST_NULL);
  return made;
}

bool LaneRun::is_done(const Lanes& lanes) {
  return lanes.next == lanes.lanes->size() &&
         std::all_of(lanes.slots.begin(), lanes.slots.end(), [](const Slot& slot) { return slot.lane == nullptr; });
}

bool LaneRun::is_through(std::int64_t round) const {
  const auto has_left = [&](const Slot& slot) { return slot.lane == nullptr || slot.started > round; };
  const auto has_come = [&](const Slot& slot) { return slot.lane == nullptr || slot.finished > round; };
  return sending_.next == sending_.lanes->size() && receiving_.next == receiving_.lanes->size() &&
         std::all_of(sending_.slots.begin(), sending_.slots.end(), has_left) &&
         std::all_of(receiving_.slots.begin(), receiving_.slots.end(), has_come);
}

bool LaneRun::advance(std::int64_t end) {
  // Receives first, so that what others send has its place when it comes.
  bool has_worked = start_lanes(receiving_);
  has_worked = start_rounds(receiving_) || has_worked;
  has_worked = start_lanes(sending_) || has_worked;
  has_worked = start_rounds(sending_) || has_worked;
  has_worked = finish_rounds(receiving_, end) || has_worked;
  return finish_rounds(sending_, all_rounds) || has_worked;
}

bool LaneRun::start_lanes(Lanes& lanes) {
  bool has_started = false;
  const bool go_at_once = lanes.lanes->size() <= lanes_.at_once;
  for (std::size_t i = 0; i < lanes.slots.size() && lanes.next < lanes.lanes->size(); ++i) {
    Slot& slot = lanes.slots[i];
    if (slot.lane != nullptr) continue;
    const Lane& lane = (*lanes.lanes)[lanes.next++];
    slot = {&lane, LaneCursor(lane), slot.staging, 0, 0, std::vector<char>(static_cast<std::size_t>(lanes_.in_flight))};
    if (slot.staging == nullptr) {
      const std::int64_t whole = lanes_.staging(lanes.direction);
      slot.staging =
          go_at_once ? lanes.staging
                     : lanes.staging + whole / static_cast<std::int64_t>(lanes_.at_once) * static_cast<std::int64_t>(i);
      if (go_at_once) lanes.staging += LaneSet::staged(lane) * lanes_.in_flight;
    }
    has_started = true;
  }
  return has_started;
}

std::byte* LaneRun::staged(const Slot& slot, std::int64_t round) const {
  return slot.staging + static_cast<std::int64_t>(place_of(round)) * slot.lane->part_bytes;
}

// Messages of lanes under way, as many as may be in flight. One without bytes is not sent.
bool LaneRun::start_rounds(Lanes& lanes) {
  bool has_started = false;
  for (std::size_t i = 0; i < lanes.slots.size(); ++i) {
    Slot& slot = lanes.slots[i];
    while (slot.lane != nullptr && slot.started < std::min(slot.lane->rounds, slot.finished + lanes_.in_flight)) {
      const std::size_t place = place_of(slot.started);
      const std::size_t request = i * static_cast<std::size_t>(lanes_.in_flight) + place;
      const bool is_empty = slot.cursor.bytes_of(packed_, slot.started) == 0;
      slot.is_there[place] = is_empty ? 1 : 0;
      if (!is_empty) lanes.direction == Direction::sent ? send(slot, request) : receive(slot, request);
      ++slot.started;
      has_started = true;
    }
  }
  return has_started;
}

void LaneRun::send(Slot& slot, std::size_t request) {
  const Lane& lane = *slot.lane;
  const std::int64_t round = slot.started;
  const std::byte* message = staged(slot, round);
  if (lane.is_direct) {
    const Stream& stream = packed_.streams().streams[lane.streams.front()];
    const StreamPiece& piece = packed_.streams().pieces[stream.first];
    message =
        packed_.source(tiles_, stream, piece) + packed_.packing(piece).offset() + lane.part_of(lane.bytes, round).begin;
  } else {
    slot.cursor.pack(packed_, tiles_, round, staged(slot, round));
  }
  check(MPI_Isend(message, static_cast<int>(slot.cursor.bytes_of(packed_, round)), MPI_BYTE, lane.peer, tag_,
                  world_.get(), &sending_.requests[request]),
        "MPI_Isend");
}

void LaneRun::receive(Slot& slot, std::size_t request) {
  const Lane& lane = *slot.lane;
  const std::int64_t round = slot.started;
  void* room = staged(slot, round);
  const auto bytes = static_cast<int>(slot.cursor.bytes_of(packed_, round));
  if (lane.is_direct) {
    const Stream& stream = packed_.streams().streams[lane.streams.front()];
    const StreamPiece& piece = packed_.streams().pieces[stream.first];
    room = packed_.target(tiles_, stream, piece) + packed_.unpacking(piece).offset() +
           lane.part_of(lane.bytes, round).begin;
  }
  check(MPI_Irecv(room, bytes, MPI_BYTE, lane.peer, tag_, world_.get(), &receiving_.requests[request]), "MPI_Irecv");
}

void LaneRun::take_in(Slot& slot) {
  if (slot.lane->is_direct || slot.cursor.bytes_of(packed_, slot.finished) == 0) return;
  slot.cursor.unpack(packed_, tiles_, slot.finished, staged(slot, slot.finished));
}

// Rounds of a lane are taken in in their order, whichever message came first.
bool LaneRun::finish_rounds(Lanes& lanes, std::int64_t end) {
  if (lanes.requests.empty()) return false;
  const auto places = static_cast<std::size_t>(lanes_.in_flight);
  indices_.resize(lanes.requests.size());
  int count = 0;
  check(MPI_Testsome(static_cast<int>(lanes.requests.size()), lanes.requests.data(), &count, indices_.data(),
                     MPI_STATUSES_IGNORE),
        "MPI_Testsome");
  for (int i = 0; count != MPI_UNDEFINED && i < count; ++i) {
    const auto index = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    lanes.slots[index / places].is_there[index % places] = 1;
  }
  bool has_finished = false;
  for (std::size_t i = 0; i < lanes.slots.size(); ++i) {
    Slot& slot = lanes.slots[i];
    while (slot.lane != nullptr && slot.finished < std::min(slot.started, end) &&
           slot.is_there[place_of(slot.finished)] != 0) {
      if (lanes.direction == Direction::received) take_in(slot);
      has_finished = true;
      if (++slot.finished == slot.lane->rounds) slot.lane = nullptr;
    }
  }
  return has_finished;
}

}  // namespace retile::mpi
