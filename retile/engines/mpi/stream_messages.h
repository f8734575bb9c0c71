// The messages of a rank's streams: one to each peer and from each peer in every round, some rounds at once.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "retile/engines/mpi/communicator.h"
#include "retile/engines/streams.h"

namespace retile::mpi {

// Where a stream's piece lies on this rank: what is read, and what is written.
using PieceSource = std::function<const std::byte*(const Stream&, const StreamPiece&)>;
using PieceTarget = std::function<std::byte*(const Stream&, const StreamPiece&)>;

// Streams between this rank and another, in one direction, and the staging of a round of them.
struct Lane {
  int peer = 0;
  std::vector<std::size_t> streams;  // of all streams, in their order
  std::int64_t part_bytes = 0;       // the most of a round
};

// What goes which way. Both ends of a lane have the same streams in it, in the same order.
struct Lanes {
  std::vector<Lane> sent;
  std::vector<Lane> received;

  // Bytes, for all rounds in flight.
  std::int64_t staging(const Streams& streams) const;
};

// Every lane goes as fast as it can, whatever the others do: links of different rates are all busy. Nobody waits
// forever: both ends of a lane post a round once their own round so many before is done there, and the first one that
// is not done has been posted by both.
class StreamMessages {
 public:
  // All that it is given outlives it.
  StreamMessages(const Communicator& world, const Streams& streams, const Lanes& lanes,
                 const std::vector<BoxPacking>& packings, const std::vector<BoxPacking>& unpackings,
                 std::span<std::byte> staging, PieceSource source, PieceTarget target);
  StreamMessages(const StreamMessages&) = delete;
  StreamMessages& operator=(const StreamMessages&) = delete;
  ~StreamMessages();

  bool is_done() const { return sending_.round == streams_.rounds && receiving_.round == streams_.rounds; }
  // Whether all of a round has been read from this rank's tiles, and written to them.
  bool is_through(std::int64_t round) const;
  // Starts what can be started and takes in what has arrived, of rounds before `end`. False where there was nothing to
  // do.
  bool advance(std::int64_t end);

 private:
  struct LaneState {
    const Lane* lane = nullptr;
    std::size_t offset = 0;             // of its staging, in that of a round
    std::int64_t started = 0;           // rounds
    std::int64_t finished = 0;          // rounds, of which all before have finished too
    std::vector<StreamCursor> cursors;  // by stream of the lane
    std::vector<bool> is_there;         // by place: whether the round's message has come or gone
  };
  struct Direction {
    std::vector<LaneState> lanes;
    std::int64_t round = 0;             // the first that is not finished by all lanes
    std::vector<MPI_Request> requests;  // by lane and place
  };

  std::int64_t bytes_of(const Lane& lane, std::int64_t round) const;
  std::size_t place_of(std::int64_t round) const { return static_cast<std::size_t>(round % streams_.rounds_in_flight); }
  std::byte* staged(const LaneState& state, std::int64_t round) const;
  void add_lanes(Direction& direction, const std::vector<Lane>& lanes, std::size_t& offset) const;
  bool start_rounds(Direction& direction, bool is_sending);
  bool finish_rounds(Direction& direction, bool is_sending, std::int64_t end);
  bool finish_lane(LaneState& state, bool is_sending, std::int64_t end);
  void pack(LaneState& state, std::int64_t round);
  void unpack(LaneState& state, std::int64_t round);
  template <typename Move>
  void walk(LaneState& state, std::int64_t round, Move move);

  const Communicator& world_;
  const Streams& streams_;
  const std::vector<BoxPacking>& packings_;  // by shape
  const std::vector<BoxPacking>& unpackings_;
  const std::span<std::byte> staging_;
  const PieceSource source_;
  const PieceTarget target_;
  std::size_t round_bytes_ = 0;  // staging of one round
  Direction sending_;
  Direction receiving_;
  std::vector<int> indices_;
};

}  // namespace retile::mpi
