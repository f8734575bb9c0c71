// Lanes: what goes between this rank and another in one direction, as messages of bounded size. Packed while others are
// on their way, unpacked as they arrive.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "retile/copies/copy.h"
#include "retile/engines/backend.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/schedule/streams.h"

namespace retile::mpi {

// MPI counts with 32 bits.
constexpr std::int64_t most_mpi_bytes = 1 << 30;

// The order in which messages have the dimensions of a box. Both ends know it.
DimensionOrder packed_order(const Streams& streams, const PieceShape& shape);

// Streams of a rank, and how their shapes are packed. Both ends of a stream pack alike.
class PackedStreams {
 public:
  PackedStreams(const Streams& streams, const DeviceRanks& ranks);

  const Streams& streams() const { return *streams_; }
  const DeviceRanks& ranks() const { return *ranks_; }
  const BoxPacking& packing(const StreamPiece& piece) const { return packings_[piece.shape]; }
  const BoxPacking& unpacking(const StreamPiece& piece) const { return unpackings_[piece.shape]; }
  // From tile to tile.
  const BoxCopy& copy(const StreamPiece& piece) const { return copies_[piece.shape]; }

  // The place of a piece in the tiles of this rank.
  const std::byte* source(const TilePointers& tiles, const Stream& stream, const StreamPiece& piece) const {
    return tiles.sources[tile_of(stream.from, piece)] + piece.from_offset;
  }
  std::byte* target(const TilePointers& tiles, const Stream& stream, const StreamPiece& piece) const {
    return tiles.targets[tile_of(stream.to, piece)] + piece.to_offset;
  }
  // The number of a tile among those of its rank.
  std::size_t tile_of(Device device, const StreamPiece& piece) const {
    return piece.array * ranks_->devices_per_rank() + ranks_->slot_of(device);
  }

 private:
  const Streams* streams_;
  const DeviceRanks* ranks_;
  std::vector<BoxPacking> packings_;  // by shape
  std::vector<BoxPacking> unpackings_;
  std::vector<BoxCopy> copies_;
};

struct Lane {
  int peer = 0;
  std::vector<std::size_t> streams;  // by sender, then receiver: the same at both ends
  std::int64_t bytes = 0;
  std::int64_t rounds = 1;      // messages; each takes an equal part of every stream
  std::int64_t unit = 1;        // bytes between which parts are cut
  std::int64_t part_bytes = 0;  // of the longest message
  bool is_direct = false;       // its only piece is contiguous on this side, and needs no staging
  bool is_whole = false;        // it is so at both ends, which are on one host: one long message is fastest

  ByteRange part_of(std::int64_t stream_bytes, std::int64_t round) const {
    if (rounds == 1) return {0, stream_bytes};
    return retile::part_of(stream_bytes, round, rounds, unit);
  }
  // Cuts it into so many rounds, or into messages of at most so many bytes.
  void set_rounds(const Streams& all, std::int64_t count);
  void set_most_bytes(const Streams& all, std::int64_t most_bytes);
};

enum class Direction { sent, received };

// A rank's lanes in one direction, by the rank at their other end, which `takes` has to accept.
std::map<int, Lane> make_lanes(const Streams& streams, const DeviceRanks& ranks, int rank, Direction direction,
                               const std::function<bool(int)>& takes);

// Whether all of a lane is one piece that is contiguous in the sender's or the receiver's tile.
bool is_contiguous(const Streams& streams, const Lane& lane, Direction direction);

// Lanes of a rank, in an order that all ranks have in common: by the distance between the two ranks.
struct LaneSet {
  std::vector<Lane> sent;
  std::vector<Lane> received;
  std::size_t at_once = SIZE_MAX;  // lanes of each direction
  std::int64_t in_flight = 2;      // messages of each lane

  const std::vector<Lane>& lanes(Direction direction) const { return direction == Direction::sent ? sent : received; }
  // Cuts every lane into messages.
  void set_rounds(const Streams& streams, std::int64_t rounds);
  void set_most_bytes(const Streams& streams, std::int64_t most_bytes);
  std::int64_t longest_message() const;
  // Bytes.
  static std::int64_t staged(const Lane& lane);
  std::int64_t staging(Direction direction) const;
  std::int64_t staging() const { return staging(Direction::sent) + staging(Direction::received); }
};

// Packs or unpacks a lane, round by round.
class LaneCursor {
 public:
  explicit LaneCursor(const Lane& lane) : lane_(&lane), cursors_(lane.streams.size()) {}

  // Back to the first round.
  void reset() { std::fill(cursors_.begin(), cursors_.end(), StreamCursor()); }
  std::int64_t bytes_of(const PackedStreams& packed, std::int64_t round) const;
  void pack(const PackedStreams& packed, const TilePointers& tiles, std::int64_t round, std::byte* out);
  void unpack(const PackedStreams& packed, const TilePointers& tiles, std::int64_t round, const std::byte* in,
              Stores stores = Stores::cached);

 private:
  template <typename Move>
  void walk(const PackedStreams& packed, std::int64_t round, Move move);

  const Lane* lane_;
  std::vector<StreamCursor> cursors_;
};

// The messages of a set of lanes. Lanes start in their order, some at once, and go as fast as they can, whatever the
// others do: links of different rates are all busy.
//
// Nobody waits for ever. Of all lanes in the job that are not through, take one of the least distance. All lanes before
// it, at both its ends, are through, so both ends have it under way; its first message that is not through is posted by
// both, and arrives.
class LaneRun {
 public:
  static constexpr std::int64_t all_rounds = INT64_MAX;

  // All that it is given outlives it. The tag is of these lanes alone.
  LaneRun(const Communicator& world, int tag, const PackedStreams& packed, const LaneSet& lanes,
          const TilePointers& tiles, std::span<std::byte> staging);
  LaneRun(const LaneRun&) = delete;
  LaneRun& operator=(const LaneRun&) = delete;
  ~LaneRun();

  bool is_done() const { return is_done(sending_) && is_done(receiving_); }
  // Whether all of a round has been read from this rank's tiles, and written to them. For lanes that all go at once.
  bool is_through(std::int64_t round) const;
  // Starts what can be started and takes in what has arrived, of rounds before `end`. False if there was nothing to do.
  bool advance(std::int64_t end = all_rounds);

 private:
  // A lane under way.
  struct Slot {
    const Lane* lane = nullptr;  // null: free
    LaneCursor cursor{no_lane};
    std::byte* staging = nullptr;
    std::int64_t started = 0;  // rounds
    std::int64_t finished = 0;
    std::vector<char> is_there;  // by place in flight: whether the round's message has come or gone
  };
  struct Lanes {
    Direction direction;
    const std::vector<Lane>* lanes;
    std::size_t next = 0;  // lane to start
    std::vector<Slot> slots;
    std::vector<MPI_Request> requests;  // by slot and place
    std::byte* staging = nullptr;
  };
  static const Lane no_lane;

  static bool is_done(const Lanes& lanes);
  Lanes make_lanes(Direction direction, std::byte* staging) const;
  bool start_lanes(Lanes& lanes);
  bool start_rounds(Lanes& lanes);
  bool finish_rounds(Lanes& lanes, std::int64_t end);
  void send(Slot& slot, std::size_t request);
  void receive(Slot& slot, std::size_t request);
  void take_in(Slot& slot);
  std::size_t place_of(std::int64_t round) const { return static_cast<std::size_t>(round % lanes_.in_flight); }
  std::byte* staged(const Slot& slot, std::int64_t round) const;

  const Communicator& world_;
  const int tag_;
  const PackedStreams& packed_;
  const LaneSet& lanes_;
  const TilePointers tiles_;
  Lanes sending_;
  Lanes receiving_;
  std::vector<int> indices_;
};

}  // namespace retile::mpi
