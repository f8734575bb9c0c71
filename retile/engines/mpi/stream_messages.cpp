#include "retile/engines/mpi/stream_messages.h"

#include <algorithm>
#include <utility>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

constexpr int round_tag = 4;  // beside those of messages.cpp

}  // namespace

std::int64_t Lanes::staging(const Streams& streams) const {
  std::int64_t bytes = 0;
  for (const std::vector<Lane>* lanes : {&sent, &received}) {
    for (const Lane& lane : *lanes) bytes += lane.part_bytes;
  }
  return bytes * streams.rounds_in_flight;
}

StreamMessages::StreamMessages(const Communicator& world, const Streams& streams, const Lanes& lanes,
                               const std::vector<BoxPacking>& packings, const std::vector<BoxPacking>& unpackings,
                               std::span<std::byte> staging, PieceSource source, PieceTarget target)
    : world_(world),
      streams_(streams),
      packings_(packings),
      unpackings_(unpackings),
      staging_(staging),
      source_(std::move(source)),
      target_(std::move(target)) {
  add_lanes(sending_, lanes.sent, round_bytes_);
  add_lanes(receiving_, lanes.received, round_bytes_);
  if (lanes.sent.empty()) sending_.round = streams.rounds;
  if (lanes.received.empty()) receiving_.round = streams.rounds;
  ensure(static_cast<std::int64_t>(staging.size()) >= lanes.staging(streams), "streams have the staging they need");
}

// Left early, by an exception: the memory that messages use is about to go.
StreamMessages::~StreamMessages() {
  for (Direction* direction : {&sending_, &receiving_}) {
    for (MPI_Request& request : direction->requests) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }
}

void StreamMessages::add_lanes(Direction& direction, const std::vector<Lane>& lanes, std::size_t& offset) const {
  const auto places = static_cast<std::size_t>(streams_.rounds_in_flight);
  for (const Lane& lane : lanes) {
    direction.lanes.push_back(
        {&lane, offset, 0, 0, std::vector<StreamCursor>(lane.streams.size()), std::vector<bool>(places)});
    offset += static_cast<std::size_t>(lane.part_bytes);
  }
  direction.requests.assign(lanes.size() * places, MPI_REQUEST_NULL);
}

std::int64_t StreamMessages::bytes_of(const Lane& lane, std::int64_t round) const {
  std::int64_t bytes = 0;
  for (const std::size_t stream : lane.streams) bytes += streams_.part_of(streams_.streams[stream].bytes, round).size();
  return bytes;
}

std::byte* StreamMessages::staged(const LaneState& state, std::int64_t round) const {
  return staging_.data() + place_of(round) * round_bytes_ + state.offset;
}

bool StreamMessages::is_through(std::int64_t round) const {
  return receiving_.round > round && std::all_of(sending_.lanes.begin(), sending_.lanes.end(),
                                                 [&](const LaneState& state) { return state.started > round; });
}

bool StreamMessages::advance(std::int64_t end) {
  // Receives first, so that what others send has its place when it comes.
  const bool has_received = start_rounds(receiving_, false);
  const bool has_sent = start_rounds(sending_, true);
  const bool has_arrived = finish_rounds(receiving_, false, end);
  const bool has_left = finish_rounds(sending_, true, streams_.rounds);
  return has_received || has_sent || has_arrived || has_left;
}

// One round of each lane, of those in flight. A message without bytes is not sent.
bool StreamMessages::start_rounds(Direction& direction, bool is_sending) {
  bool has_started = false;
  for (std::size_t i = 0; i < direction.lanes.size(); ++i) {
    LaneState& state = direction.lanes[i];
    const std::int64_t round = state.started;
    if (round == streams_.rounds || round >= state.finished + streams_.rounds_in_flight) continue;
    const std::int64_t bytes = bytes_of(*state.lane, round);
    MPI_Request& request =
        direction.requests[i * static_cast<std::size_t>(streams_.rounds_in_flight) + place_of(round)];
    ++state.started;
    state.is_there[place_of(round)] = bytes == 0;
    has_started = true;
    if (bytes == 0) continue;
    if (is_sending) {
      pack(state, round);
      check(MPI_Isend(staged(state, round), static_cast<int>(bytes), MPI_BYTE, state.lane->peer, round_tag,
                      world_.get(), &request),
            "MPI_Isend");
    } else {
      check(MPI_Irecv(staged(state, round), static_cast<int>(bytes), MPI_BYTE, state.lane->peer, round_tag,
                      world_.get(), &request),
            "MPI_Irecv");
    }
  }
  return has_started;
}

bool StreamMessages::finish_rounds(Direction& direction, bool is_sending, std::int64_t end) {
  if (direction.round == streams_.rounds) return false;
  const auto places = static_cast<std::size_t>(streams_.rounds_in_flight);
  indices_.resize(direction.requests.size());
  int count = 0;
  check(MPI_Testsome(static_cast<int>(direction.requests.size()), direction.requests.data(), &count, indices_.data(),
                     MPI_STATUSES_IGNORE),
        "MPI_Testsome");
  for (int i = 0; count != MPI_UNDEFINED && i < count; ++i) {
    const auto index = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    direction.lanes[index / places].is_there[index % places] = true;
  }
  bool has_finished = false;
  std::int64_t round = streams_.rounds;
  for (LaneState& state : direction.lanes) {
    has_finished = finish_lane(state, is_sending, end) || has_finished;
    round = std::min(round, state.finished);
  }
  direction.round = round;
  return has_finished;
}

// Rounds are unpacked in their order, whichever message came first.
bool StreamMessages::finish_lane(LaneState& state, bool is_sending, std::int64_t end) {
  bool has_finished = false;
  while (state.finished < std::min(state.started, end) && state.is_there[place_of(state.finished)]) {
    if (!is_sending) unpack(state, state.finished);
    ++state.finished;
    has_finished = true;
  }
  return has_finished;
}

// move(stream, piece, range) for all that the round takes of the lane's streams.
template <typename Move>
void StreamMessages::walk(LaneState& state, std::int64_t round, Move move) {
  for (std::size_t i = 0; i < state.cursors.size(); ++i) {
    const Stream& stream = streams_.streams[state.lane->streams[i]];
    state.cursors[i].advance(streams_, stream, streams_.part_of(stream.bytes, round).size(),
                             [&](std::size_t piece, ByteRange range) { move(stream, stream.pieces[piece], range); });
  }
}

void StreamMessages::pack(LaneState& state, std::int64_t round) {
  std::byte* out = staged(state, round);
  walk(state, round, [&](const Stream& stream, const StreamPiece& piece, ByteRange range) {
    packings_[piece.shape].pack(source_(stream, piece), range, out);
    out += range.size();
  });
}

void StreamMessages::unpack(LaneState& state, std::int64_t round) {
  const std::byte* in = staged(state, round);
  walk(state, round, [&](const Stream& stream, const StreamPiece& piece, ByteRange range) {
    unpackings_[piece.shape].unpack(in, range, target_(stream, piece));
    in += range.size();
  });
}

}  // namespace retile::mpi
