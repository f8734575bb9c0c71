#include "retile/engines/mpi/near_lanes.h"

#include <algorithm>
#include <new>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

// Packed lanes spare their sender the wait for its readers. That pays up to about this many bytes.
constexpr std::int64_t most_small_bytes = 16 << 10;

constexpr std::uint64_t way_count = 4;

}  // namespace

// --- Boards.

Boards::Boards(const Host& host, std::size_t tile_count) : host_(&host) {
  const auto members = static_cast<std::size_t>(host.member_count());
  std::int64_t mine = 0;
  try {
    if (host.is_shared()) memory_ = host.allocate(members * sizeof(Board) + tile_count * sizeof(TileAddress));
  } catch (const RuntimeError& error) {
    fault_ = error.what();
  }
  if (!memory_.empty()) {
    mine = static_cast<std::int64_t>(*host.shared_offset(memory_.data()));
    for (std::size_t i = 0; i < members; ++i) new (memory_.data() + i * sizeof(Board)) Board{};
  }
  std::vector<std::int64_t> all(members);
  host.team().gather(mine, all);
  offsets_.assign(all.begin(), all.end());
}

void Boards::publish(std::span<const std::byte* const> tiles) {
  TileAddress* mine = addresses(host_->team().rank());
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    mine[i] = {host_->shared_offset(tiles[i]).value_or(0), reinterpret_cast<std::uintptr_t>(tiles[i])};
  }
}

const std::byte* Boards::mapped_tile(int member, std::size_t tile) const {
  return host_->shared_memory(member, addresses(member)[tile].offset);
}

const std::byte* Boards::remote_tile(int member, std::size_t tile) const {
  return reinterpret_cast<const std::byte*>(addresses(member)[tile].remote);  // NOLINT(performance-no-int-to-ptr)
}

// --- Senders.

void NearSender::add(int member, const Lane* lane) {
  lanes_.push_back({member, lane, &boards_.to(member), {}});
  if (lane == nullptr) {
    is_listed_ = false;
    return;
  }
  lanes_.back().cursor.emplace(*lane);
  lanes_.back().shortest_run = shortest_run_of(*lane);
}

void NearSender::list(const PackedStreams& packed, const std::function<const Lane*(int member)>& find_lane) {
  packed_ = &packed;
  is_listed_ = true;
  for (OutLane& lane : lanes_) {
    lane.lane = find_lane(lane.member);
    if (lane.lane != nullptr) lane.cursor.emplace(*lane.lane);
    lane.shortest_run = 0;  // it is not read: receivers have no lists
  }
}

std::int64_t NearSender::shortest_run_of(const Lane& lane) const {
  std::int64_t shortest = INT64_MAX;
  for (const std::size_t i : lane.streams) {
    for (const StreamPiece& piece : packed_->streams().pieces_of(packed_->streams().streams[i])) {
      shortest = std::min(shortest, packed_->copy(piece).run_bytes());
    }
  }
  return shortest;
}

void NearSender::set_shared_rooms(std::int64_t own_room, std::int64_t at_once) {
  at_once_ = at_once;
  std::int64_t needed = 0;
  for (OutLane& lane : lanes_) {
    lane.is_small = lane.lane != nullptr && lane.lane->rounds == 1 && lane.lane->bytes <= most_small_bytes;
    if (lane.is_small) needed += static_cast<std::int64_t>(in_flight) * lane.lane->part_bytes;
  }
  if (needed <= own_room) return;
  for (OutLane& lane : lanes_) lane.is_small = false;
}

Way NearSender::way_to(int member, SourceMemory sources) const {
  const auto lane =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const OutLane& out) { return out.member == member; });
  return lane == lanes_.end() ? Way::nothing : way_of(*lane, sources);
}

Way NearSender::way_of(const OutLane& lane, SourceMemory sources) const {
  if (lane.lane == nullptr) return is_listed_ ? Way::nothing : Way::copied;
  if (!are_shapes_common_ || sources == SourceMemory::donated || lane.is_small) return Way::packed;
  if (sources == SourceMemory::shared) return Way::copied;
  return boards_.host().reads(lane.shortest_run) ? Way::read : Way::packed;
}

NearSender::Rooms NearSender::rooms_for(SourceMemory sources) const {
  Rooms rooms;
  for (const OutLane& lane : lanes_) {
    if (way_of(lane, sources) != Way::packed) continue;
    const std::int64_t bytes = static_cast<std::int64_t>(in_flight) * lane.lane->part_bytes;
    if (has_own_room(lane)) {
      rooms.own_bytes += bytes;
    } else {
      rooms.shared_count = std::min(rooms.shared_count + 1, at_once_);
      rooms.shared_bytes = std::max(rooms.shared_bytes, bytes);
    }
  }
  return rooms;
}

void NearSender::start(const TilePointers& tiles, SourceMemory sources, std::span<std::byte> staging) {
  ++execution_;
  must_drain_ = sources_ && *sources_ != sources;
  sources_ = sources;
  tiles_ = tiles;
  open_ = lanes_.size();
  std::byte* next = staging.data();
  bool are_tiles_read = false;
  for (OutLane& lane : lanes_) {
    lane.way = way_of(lane, sources);
    lane.is_announced = false;
    lane.is_done = false;
    lane.round = 0;
    lane.room = nullptr;
    are_tiles_read = are_tiles_read || lane.way == Way::copied || lane.way == Way::read;
    if (lane.way != Way::packed) continue;
    lane.cursor->reset();
    if (!has_own_room(lane)) continue;
    lane.room = next;
    next += static_cast<std::int64_t>(in_flight) * lane.lane->part_bytes;
  }
  const Rooms rooms = rooms_for(sources);
  rooms_.resize(static_cast<std::size_t>(rooms.shared_count));
  for (Room& room : rooms_) {
    room.memory = next;
    next += rooms.shared_bytes;
  }
  if (are_tiles_read) boards_.publish(tiles.sources);
}

bool NearSender::advance() {
  if (is_done()) return false;
  if (must_drain_ && is_behind(execution_ - 1)) return false;
  must_drain_ = false;
  bool has_worked = false;
  for (OutLane& lane : lanes_) {
    if (!lane.is_done) has_worked = advance(lane) || has_worked;
  }
  return has_worked;
}

bool NearSender::has_done(OutLane& lane, std::uint64_t execution) {
  if (lane.seen_done < execution) lane.seen_done = lane.board->done.load(std::memory_order_acquire);
  return lane.seen_done >= execution;
}

// For another message.
bool NearSender::has_room(OutLane& lane) {
  if (lane.messages - lane.seen_taken < in_flight) return true;
  lane.seen_taken = lane.board->taken.load(std::memory_order_acquire);
  return lane.messages - lane.seen_taken < in_flight;
}

bool NearSender::advance(OutLane& lane) {
  // What is announced of the last execution but one would be lost.
  if (!lane.is_announced && execution_ > 2 && !has_done(lane, execution_ - 2)) return false;
  if (lane.way == Way::packed) return pack(lane);
  const bool has_worked = !lane.is_announced;
  if (!lane.is_announced) announce(lane);
  if (lane.way != Way::nothing && !has_done(lane, execution_)) return has_worked;
  finish(lane);
  return true;
}

bool NearSender::pack(OutLane& lane) {
  if (lane.room == nullptr && !take_room(lane)) return false;
  const Lane& what = *lane.lane;
  while (lane.round < what.rounds && lane.cursor->bytes_of(*packed_, lane.round) == 0) ++lane.round;
  bool has_worked = false;
  if (lane.round < what.rounds && has_room(lane)) {
    const std::uint64_t parity = lane.messages % in_flight;
    std::byte* place = lane.room + static_cast<std::int64_t>(parity) * what.part_bytes;
    lane.cursor->pack(*packed_, tiles_, lane.round++, place);
    lane.board->places[parity] = *boards_.host().shared_offset(place);
    lane.board->packed.store(++lane.messages, std::memory_order_release);
    has_worked = true;
  }
  if (!lane.is_announced) {
    announce(lane);
    has_worked = true;
  }
  if (lane.round == what.rounds) {
    finish(lane);
    has_worked = true;
  }
  return has_worked;
}

bool NearSender::take_room(OutLane& lane) {
  for (Room& room : rooms_) {
    if (room.board != nullptr && room.board->taken.load(std::memory_order_acquire) < room.messages) continue;
    room.board = lane.board;
    room.messages = UINT64_MAX;
    lane.room = room.memory;
    return true;
  }
  return false;
}

void NearSender::announce(OutLane& lane) const {
  lane.board->announced[execution_ % 2].store(execution_ * way_count + static_cast<std::uint64_t>(lane.way),
                                              std::memory_order_release);
  lane.is_announced = true;
}

void NearSender::finish(OutLane& lane) {
  lane.is_done = true;
  --open_;
  for (Room& room : rooms_) {
    if (room.board == lane.board) room.messages = lane.messages;
  }
}

bool NearSender::is_through(std::int64_t round) const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const OutLane& lane) { return lane.is_done || lane.round > round; });
}

bool NearSender::is_behind(std::uint64_t execution) const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const OutLane& lane) { return lane.board->done.load(std::memory_order_acquire) < execution; });
}

// --- Receivers.

void NearReceiver::add(int member, const Lane* lane) {
  lanes_.push_back({member, lane, &boards_.from(member), {}});
  if (lane != nullptr) lanes_.back().cursor.emplace(*lane);
}

void NearReceiver::list(const PackedStreams& packed, const std::function<const Lane*(int member)>& find_lane) {
  packed_ = &packed;
  for (InLane& lane : lanes_) {
    lane.lane = find_lane(lane.member);
    if (lane.lane != nullptr) lane.cursor.emplace(*lane.lane);
  }
}

std::optional<std::size_t> NearReceiver::lane_from(int member) const {
  const auto found =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const InLane& lane) { return lane.member == member; });
  if (found == lanes_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - lanes_.begin());
}

void NearReceiver::start(const TilePointers& tiles) {
  ++execution_;
  tiles_ = tiles;
  open_ = unknown_ = lanes_.size();
  for (InLane& lane : lanes_) {
    lane.way.reset();
    lane.is_done = false;
    lane.round = 0;
  }
}

bool NearReceiver::advance(std::int64_t end) {
  if (is_done()) return false;
  bool has_worked = false;
  for (InLane& lane : lanes_) {
    if (lane.is_done) continue;
    if (!lane.way) {
      if (!learn_way(lane)) continue;
      has_worked = true;
      if (lane.way == Way::packed && lane.lane == nullptr) list_lanes_();
      if (lane.way == Way::packed) lane.cursor->reset();
      if (lane.way == Way::nothing) finish(lane);
    }
    if (lane.way == Way::packed) has_worked = unpack(lane, end) || has_worked;
  }
  return has_worked;
}

bool NearReceiver::learn_way(InLane& lane) {
  const std::uint64_t announced = lane.board->announced[execution_ % 2].load(std::memory_order_acquire);
  if (announced / way_count != execution_) return false;
  lane.way = static_cast<Way>(announced % way_count);
  --unknown_;
  return true;
}

bool NearReceiver::unpack(InLane& lane, std::int64_t end) {
  const Lane& what = *lane.lane;
  bool has_worked = false;
  while (lane.round < std::min(what.rounds, end)) {
    if (lane.cursor->bytes_of(*packed_, lane.round) > 0) {
      if (lane.board->packed.load(std::memory_order_acquire) <= lane.messages) return has_worked;
      const std::uint64_t place = lane.board->places[lane.messages % 2];
      lane.cursor->unpack(*packed_, tiles_, lane.round, boards_.host().shared_memory(lane.member, place), stores_);
      lane.board->taken.store(++lane.messages, std::memory_order_release);
    }
    ++lane.round;
    has_worked = true;
  }
  if (lane.round == what.rounds) finish(lane);
  return has_worked;
}

void NearReceiver::finish(InLane& lane) {
  lane.is_done = true;
  --open_;
  lane.board->done.store(execution_, std::memory_order_release);
}

void NearReceiver::finish(std::size_t lane) { finish(lanes_[lane]); }

bool NearReceiver::is_through(std::int64_t round) const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const InLane& lane) { return lane.is_done || lane.round > round; });
}

}  // namespace retile::mpi
