// Lanes between ranks of one host, through memory that both see. Nothing is sent.
//
// For each of its receivers a sender has a board, in its own shared memory. In every execution it writes there how the
// lane goes this time: the receiver copies from the sender's tiles, reads them through the system, or unpacks messages
// that the sender has packed into its staging, two of which may be there at once. The receiver writes there what it has
// taken. So a sender of packed messages is done when it has packed them, and may be one execution ahead.
//
// Nobody waits for ever: a receiver takes whatever is there, in any order, so what a sender has packed is taken.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "retile/engines/backend.h"
#include "retile/engines/mpi/host.h"
#include "retile/engines/mpi/lanes.h"

namespace retile::mpi {

// How a lane goes.
enum class Way : std::uint64_t {
  nothing,  // there is nothing in it
  copied,   // from tiles that the receiver sees
  read,     // from the sender's own memory, through the system
  packed,   // as messages in the sender's staging
};

// One lane's. All counters begin at 0, and grow. An execution is known by its number, from 1.
struct Board {
  // Written by the sender.
  alignas(64) std::array<std::atomic<std::uint64_t>, 2> announced;  // execution and way, by the execution's parity
  std::atomic<std::uint64_t> packed;                                // messages
  std::array<std::uint64_t, 2> places;                              // offsets of messages, by their parity
  // Written by the receiver, which does not look at the board after that, until the next execution.
  alignas(64) std::atomic<std::uint64_t> taken;  // messages
  std::atomic<std::uint64_t> done;               // executions
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "counters between processes need no lock");

// The boards of a prepared stage, and where the senders' tiles are.
class Boards {
 public:
  // Collective over the host. Ranks agree on whether all have their boards before any is used.
  Boards(const Host& host, std::size_t tile_count);

  // Why this rank has none; nothing where it has.
  const std::optional<std::string>& fault() const { return fault_; }
  const Host& host() const { return *host_; }
  Board& to(int member) const { return *board(host_->team().rank(), member); }
  Board& from(int member) const { return *board(member, host_->team().rank()); }

  // This rank's tiles, for members that copy or read them.
  void publish(std::span<const std::byte* const> tiles);
  // The address of a tile in the member's shared memory, as this rank sees it and as the member does.
  const std::byte* mapped_tile(int member, std::size_t tile) const;
  const std::byte* remote_tile(int member, std::size_t tile) const;

 private:
  struct TileAddress {
    std::uint64_t offset;  // in shared memory, where it lies there
    std::uint64_t remote;  // in the owner's memory
  };

  Board* board(int sender, int receiver) const { return reinterpret_cast<Board*>(memory_of(sender)) + receiver; }
  TileAddress* addresses(int member) const {
    return reinterpret_cast<TileAddress*>(board(member, host_->member_count()));  // behind the last
  }
  std::byte* memory_of(int member) const {
    return host_->shared_memory(member, offsets_[static_cast<std::size_t>(member)]);
  }

  const Host* host_;
  Buffer memory_;
  std::optional<std::string> fault_;
  std::vector<std::uint64_t> offsets_;  // by member
};

// The sending side of this rank's lanes to members of its host.
class NearSender {
 public:
  NearSender(Boards& boards, const PackedStreams& packed, bool are_shapes_common)
      : boards_(boards), packed_(&packed), are_shapes_common_(are_shapes_common) {}

  // In the order of distances. The lane outlives this; null: it is not listed, and is copied from, or listed later.
  void add(int member, const Lane* lane);
  // Lanes that were not listed are. Members without one get nothing.
  void list(const PackedStreams& packed, const std::function<const Lane*(int member)>& find_lane);
  bool is_listed() const { return is_listed_; }

  // Every lane that is packed has room of its own, for lanes in planned rounds. Otherwise small ones have, as long as
  // that takes no more than `own_room` bytes, and the others share places for `at_once` of them.
  void set_rooms_by_lane() { is_by_lane_ = true; }
  void set_shared_rooms(std::int64_t own_room, std::int64_t at_once);

  // How the lane goes to a member if sources are of this kind.
  Way way_to(int member, SourceMemory sources) const;
  // Bytes.
  std::int64_t staging(SourceMemory sources) const { return rooms_for(sources).bytes(); }

  void start(const TilePointers& tiles, SourceMemory sources, std::span<std::byte> staging);
  bool advance();
  bool is_done() const { return open_ == 0; }
  bool is_through(std::int64_t round) const;
  // Whether a receiver still looks at its board, or at messages.
  bool is_read() const { return is_behind(execution_); }

 private:
  static constexpr std::uint64_t in_flight = 2;  // messages of a lane

  struct OutLane {
    int member = 0;
    const Lane* lane = nullptr;
    Board* board = nullptr;
    std::optional<LaneCursor> cursor;
    bool is_small = false;  // and packed, whatever the sources are
    std::int64_t shortest_run = 0;
    std::uint64_t messages = 0;  // of all executions
    // The receiver's counters as they were last seen. Reading them again takes a cache line from its core.
    std::uint64_t seen_taken = 0;
    std::uint64_t seen_done = 0;
    // The execution.
    Way way = Way::nothing;
    bool is_announced = true;
    bool is_done = true;
    std::int64_t round = 0;
    std::byte* room = nullptr;
  };
  // Shared by lanes, one after the other.
  struct Room {
    std::byte* memory = nullptr;
    const Board* board = nullptr;  // of the lane that used it last
    std::uint64_t messages = 0;    // after which that one is through
  };

  // State of executions with sources of one kind.
  struct Rooms {
    std::int64_t own_bytes = 0;  // of lanes with room of their own
    std::int64_t shared_count = 0;
    std::int64_t shared_bytes = 0;  // of each

    std::int64_t bytes() const { return own_bytes + shared_count * shared_bytes; }
  };
  Rooms rooms_for(SourceMemory sources) const;
  Way way_of(const OutLane& lane, SourceMemory sources) const;
  // Whether a receiver has not done with an execution yet.
  bool is_behind(std::uint64_t execution) const;
  static bool has_done(OutLane& lane, std::uint64_t execution);
  static bool has_room(OutLane& lane);
  bool advance(OutLane& lane);
  bool pack(OutLane& lane);
  bool take_room(OutLane& lane);
  void announce(OutLane& lane) const;
  void finish(OutLane& lane);
  bool has_own_room(const OutLane& lane) const { return is_by_lane_ || lane.is_small; }
  std::int64_t shortest_run_of(const Lane& lane) const;

  Boards& boards_;
  const PackedStreams* packed_;
  const bool are_shapes_common_;
  bool is_listed_ = true;
  bool is_by_lane_ = false;
  std::int64_t at_once_ = 1;
  std::vector<OutLane> lanes_;
  std::vector<Room> rooms_;
  std::uint64_t execution_ = 0;
  TilePointers tiles_;
  std::optional<SourceMemory> sources_;
  bool must_drain_ = false;  // rooms lie differently from those that are still read
  std::size_t open_ = 0;     // lanes
};

// The receiving side of lanes from members of this rank's host. What the rank copies or reads itself is in Pulls.
class NearReceiver {
 public:
  // `list_lanes` is called when a lane comes packed that is not listed.
  NearReceiver(Boards& boards, const PackedStreams& packed, Stores stores, std::function<void()> list_lanes)
      : boards_(boards), packed_(&packed), stores_(stores), list_lanes_(std::move(list_lanes)) {}

  // See NearSender.
  void add(int member, const Lane* lane);
  void list(const PackedStreams& packed, const std::function<const Lane*(int member)>& find_lane);

  void start(const TilePointers& tiles);
  // Unpacks rounds before `end`.
  bool advance(std::int64_t end);
  bool is_done() const { return open_ == 0; }
  bool is_through(std::int64_t round) const;

  // Lanes by number, in the order in which they were added.
  std::size_t size() const { return lanes_.size(); }
  int member(std::size_t lane) const { return lanes_[lane].member; }
  // Nothing as long as the sender has not said.
  std::optional<Way> way(std::size_t lane) const { return lanes_[lane].way; }
  std::optional<std::size_t> lane_from(int member) const;
  bool are_ways_known() const { return unknown_ == 0; }
  const Boards& boards() const { return boards_; }
  // All of a lane has been copied or read.
  void finish(std::size_t lane);

 private:
  struct InLane {
    int member = 0;
    const Lane* lane = nullptr;
    Board* board = nullptr;
    std::optional<LaneCursor> cursor;
    std::uint64_t messages = 0;  // of all executions
    // The execution.
    std::optional<Way> way = {};
    bool is_done = true;
    std::int64_t round = 0;
  };

  bool learn_way(InLane& lane);
  bool unpack(InLane& lane, std::int64_t end);
  void finish(InLane& lane);

  Boards& boards_;
  const PackedStreams* packed_;
  const Stores stores_;
  const std::function<void()> list_lanes_;
  std::vector<InLane> lanes_;
  std::uint64_t execution_ = 0;
  TilePointers tiles_;
  std::size_t open_ = 0;
  std::size_t unknown_ = 0;
};

}  // namespace retile::mpi
