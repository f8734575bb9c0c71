#include "retile/transfer/rank_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/crc32c.h"
#include "retile/base/error.h"
#include "retile/copies/copy.h"
#include "retile/schedule/streams.h"
#include "retile/transfer/message_header.h"
#include "retile/transfer/message_plan_state.h"
#include "retile/transfer/rank_lane.h"
#include "retile/transfer/rank_memory.h"

namespace retile::transfer {
namespace {

using TransferPiece = StreamPlan::Piece;

// The most arrays that are named in a fault.
constexpr std::size_t most_named = 5;

}  // namespace

struct RankTransfer::State {
  State(MessagePlan plan_given, Device own, ReadableRanks readable_given)
      : plan(std::move(plan_given)), rank(own), readable(std::move(readable_given)) {}

  const StreamPlan& streams() const { return plan.state().streams; }
  std::int64_t rounds(StreamPhase phase) const { return plan.state().rounds(phase); }

  void add_piece(Lane& lane, const RankMemory& memory, const TransferPiece& piece, TransferSide side) {
    const Room& room = memory.room_around(piece.array, side, piece.box);
    const ElementType element_type = plan.state().element_types[piece.array_class];
    std::byte* first = room.first;
    Shape extent(piece.box.lo.size());
    for (std::size_t i = 0; i < extent.size(); ++i) {
      extent[i] = piece.box.hi[i] - piece.box.lo[i];
      first += (piece.box.lo[i] - room.box.lo[i]) * room.strides[i];
    }
    lane.bytes += volume(piece.box) * bytes_of(element_type);
    const Scaling scaling = room.scales == nullptr ? Scaling() : Scaling{room.scales, piece.box};
    lane.pieces.push_back({first, packings.number_of(extent, room.strides, room.stored, element_type, scaling),
                           static_cast<std::uint32_t>(piece.array), lane.bytes});
  }

  // In an order that both ends know.
  void add_pieces(Lane& lane, const RankMemory& memory, std::vector<TransferPiece>& pieces, TransferSide side) {
    std::sort(pieces.begin(), pieces.end(), [](const TransferPiece& a, const TransferPiece& b) {
      return std::tie(a.array, a.box.lo) < std::tie(b.array, b.box.lo);
    });
    for (const TransferPiece& piece : pieces) add_piece(lane, memory, piece, side);
  }

  void add_lanes(const RankMemory& memory) {
    std::vector<TransferPiece> pieces;
    const auto list = [&](const TransferPiece& piece) { pieces.push_back(piece); };
    streams().visit_kept(rank, list);
    add_pieces(kept_from, memory, pieces, TransferSide::source);
    add_pieces(kept_to, memory, pieces, TransferSide::target);
    add_kept_copies();
    for (const StreamPlan::Stream& stream : streams().streams()) {
      if (stream.from != rank && stream.to != rank) continue;
      const bool is_sent = stream.from == rank;
      const bool is_passed_on = stream.phase == StreamPhase::passed_on;
      pieces.clear();
      streams().visit_pieces(stream, list);
      Lane& lane = (is_sent ? sent : received)[is_passed_on ? 1 : 0].emplace_back();
      lane.peer = is_sent ? stream.to : stream.from;
      add_pieces(lane, memory, pieces, is_sent && !is_passed_on ? TransferSide::source : TransferSide::target);
    }
    for (const StreamPhase phase : {StreamPhase::from_sources, StreamPhase::passed_on}) place_lanes(phase);
    for (std::vector<Lane>& lanes : sent) {
      for (Lane& lane : lanes) {
        if (is_lent(lane)) lend(lane);
      }
    }
    stores = stores_for(plan.received_bytes(rank) + kept_to.bytes);
  }

  void add_kept_copies() {
    for (std::size_t i = 0; i < kept_from.pieces.size(); ++i) {
      const auto key = std::pair(kept_from.pieces[i].packing, kept_to.pieces[i].packing);
      const Packing& from = packings[key.first];
      if (from.stored != from.sent || kept_copies.contains(key)) continue;
      kept_copies.emplace(key, packings[key.second].form.copy_from(from.form.strides));
    }
  }

  void place_lanes(StreamPhase phase) {
    const std::int64_t ranks = streams().device_count();
    const std::size_t index = phase == StreamPhase::passed_on ? 1 : 0;
    const auto sort_by = [&](std::vector<Lane>& lanes, auto distance) {
      std::sort(lanes.begin(), lanes.end(),
                [&](const Lane& a, const Lane& b) { return distance(a.peer) < distance(b.peer); });
    };
    sort_by(sent[index], [&](Device peer) { return (peer - rank + ranks) % ranks; });
    sort_by(received[index], [&](Device peer) { return (rank - peer + ranks) % ranks; });
    std::int64_t staged = 0;
    for (std::vector<Lane>* lanes : {&sent[index], &received[index]}) {
      for (Lane& lane : *lanes) {
        lane.staged = staged;
        staged += header_bytes + divide_up(lane.bytes, rounds(phase));
        lane.digests.resize(lanes == &sent[index] ? static_cast<std::size_t>(rounds(phase)) : 0);
      }
    }
    round_bytes = std::max(round_bytes, staged);
  }

  // --- Memory that receivers read.

  bool is_lent(const Lane& lane) const {
    if (readable.processes.empty() || readable.processes[static_cast<std::size_t>(lane.peer)] == 0) return false;
    if (plan.state().has_checksums) return false;
    std::int64_t parts = 0;
    for (const LaidPiece& piece : lane.pieces) {
      const Packing& packing = packings[piece.packing];
      if (packing.stored != packing.sent) return false;
      parts += packing.form.part_count();
    }
    return lane.bytes >= parts * readable.least_part;
  }
  void lend(Lane& lane) const {
    lane.table.emplace();
    for (const LaidPiece& piece : lane.pieces) lane.table->add(piece.first, packings[piece.packing].form.strides);
  }
  void borrow(Lane& lane) const {
    lane.lent.emplace(readable.processes[static_cast<std::size_t>(lane.peer)]);
    for (const LaidPiece& piece : lane.pieces) lane.lent->add(packings[piece.packing].form);
  }

  ReadOffer offer_of(const Lane& lane, Device from, Device to, std::int64_t round) const {
    const std::int64_t first = place_of(round).phase == 0 ? 0 : rounds(StreamPhase::from_sources);
    ReadOffer offer{header_of(from, to, first, lane.bytes)};
    offer.header.content = Content::offer;
    return offer;
  }
  static std::vector<Message> offers_in(std::vector<Lane>& lanes) {
    std::vector<Message> offers;
    for (Lane& lane : lanes) {
      if (lane.has_offers()) offers.push_back({lane.peer, std::as_writable_bytes(std::span(&lane.offer, 1))});
    }
    return offers;
  }

  // --- Messages.

  struct RoundPlace {
    std::size_t phase;
    std::int64_t round;  // in the phase
    std::int64_t rounds;
  };
  RoundPlace place_of(std::int64_t round) const {
    const std::int64_t first = rounds(StreamPhase::from_sources);
    if (round < first) return {0, round, first};
    return {1, round - first, rounds(StreamPhase::passed_on)};
  }

  std::byte* staging_of(const Lane& lane, std::int64_t round) const {
    return staging->data() + (round % rounds_in_flight) * round_bytes + lane.staged;
  }
  static ByteRange range_of(const Lane& lane, const RoundPlace& place) {
    return part_of(lane.bytes, place.round, place.rounds);
  }

  std::vector<Message> messages(const std::array<std::vector<Lane>, 2>& lanes, std::int64_t round) const {
    const RoundPlace place = place_of(round);
    std::vector<Message> result;
    for (const Lane& lane : lanes[place.phase]) {
      const std::int64_t bytes = range_of(lane, place).size();
      if (bytes == 0 || lane.is_read) continue;
      result.push_back({lane.peer, {staging_of(lane, round), static_cast<std::size_t>(header_bytes + bytes)}});
    }
    return result;
  }

  template <typename Lanes>
  static auto& lane_to(Lanes& lanes, Device peer) {
    const auto found = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.peer == peer; });
    ensure(found != lanes.end(), "messages go where the plan says");
    return *found;
  }

  void pack_range(const Lane& lane, ByteRange range, std::byte* out) const {
    visit_range(lane, range, [&](const LaidPiece& piece, ByteRange bytes, std::int64_t at) {
      packings[piece.packing].pack(piece.first, bytes, out + at);
    });
  }
  void unpack_range(const Lane& lane, ByteRange range, const std::byte* in) const {
    visit_range(lane, range, [&](const LaidPiece& piece, ByteRange bytes, std::int64_t at) {
      packings[piece.packing].box.unpack(in + at, bytes, piece.first, stores);
    });
  }

  // visit(a block of the range, where it begins in it).
  template <typename Visit>
  static void visit_blocks(ByteRange range, Visit visit) {
    for (std::int64_t begin = range.begin; begin < range.end; begin += block_bytes) {
      visit(ByteRange{begin, std::min(range.end, begin + block_bytes)}, begin - range.begin);
    }
  }

  void copy_kept(const LaidPiece& from, const LaidPiece& to) const {
    const auto copy = kept_copies.find({from.packing, to.packing});
    if (copy != kept_copies.end()) return copy->second.run(from.first, to.first, stores);
    std::array<std::byte, block_bytes> block;  // NOLINT(*-member-init): filled before it is read
    visit_blocks({0, packings[to.packing].box.bytes()}, [&](ByteRange range, std::int64_t) {
      packings[from.packing].pack(from.first, range, block.data());
      packings[to.packing].box.unpack(block.data(), range, to.first, stores);
    });
  }

  MessageHeader header_of(Device from, Device to, std::int64_t round, std::int64_t bytes) const {
    return {plan.fingerprint(), round, bytes, static_cast<std::int32_t>(from), static_cast<std::int32_t>(to)};
  }

  // Bytes of staging for a round of what is not read.
  std::int64_t staged_in_round() const {
    std::int64_t most = 0;
    for (const StreamPhase phase : {StreamPhase::from_sources, StreamPhase::passed_on}) {
      std::int64_t staged = 0;
      for (const auto* lanes : {&sent, &received}) {
        for (const Lane& lane : (*lanes)[phase == StreamPhase::passed_on ? 1 : 0]) {
          if (!lane.is_read) staged += header_bytes + divide_up(lane.bytes, rounds(phase));
        }
      }
      most = std::max(most, staged);
    }
    return most;
  }

  std::string reading_fault(Device peer, const RuntimeError& error) const {
    return fmt::format("rank {} could not read the memory of rank {}: {}\nhint: transport=\"messages\"", rank, peer,
                       error.what());
  }

  // The names of the arrays that have bytes in a range, for messages.
  std::string names_in(const Lane& lane, ByteRange range) const {
    std::vector<std::string> names;
    visit_range(lane, range, [&](const LaidPiece& piece, ByteRange, std::int64_t) {
      std::string name = fmt::format("\"{}\"", plan.state().arrays[piece.array].name);
      if (names.empty() || names.back() != name) names.push_back(std::move(name));
    });
    const std::size_t count = names.size();
    names.resize(std::min(count, most_named));
    const std::string text = fmt::format("{}", fmt::join(names, ", "));
    return count > most_named ? fmt::format("{} and {} more", text, count - most_named) : text;
  }

  MessagePlan plan;
  Device rank;
  ReadableRanks readable;
  Packings packings;
  Lane kept_from;
  Lane kept_to;
  std::map<std::pair<std::uint32_t, std::uint32_t>, BoxCopy> kept_copies;  // by packings, where nothing is converted
  std::array<std::vector<Lane>, 2> sent;                                   // by phase
  std::array<std::vector<Lane>, 2> received;
  Stores stores = Stores::cached;  // into target tiles
  std::int64_t round_bytes = 0;    // of the staging
  std::shared_ptr<Staging> staging;
};

void Staging::reserve(std::int64_t bytes) {
  if (bytes <= bytes_) return;
  memory_.reset();  // so that never both are there
  memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  bytes_ = bytes;
}

RankTransfer::RankTransfer(const MessagePlan& plan, Device rank, const std::vector<TileMemory>& memory,
                           std::shared_ptr<Staging> staging, ReadableRanks readable)
    : state_(std::make_unique<State>(plan, rank, std::move(readable))) {
  state_->add_lanes(RankMemory(plan, rank, memory));
  ensure(staged_bytes() <= plan.staged_bytes(rank), "a rank stages no more than the plan says");
  staging->reserve(staged_bytes());
  state_->staging = std::move(staging);
}

RankTransfer::RankTransfer(RankTransfer&&) noexcept = default;
RankTransfer& RankTransfer::operator=(RankTransfer&&) noexcept = default;
RankTransfer::~RankTransfer() = default;

std::int64_t RankTransfer::rounds() const { return state_->plan.rounds(); }
std::int64_t RankTransfer::first_passed_on() const { return state_->rounds(StreamPhase::from_sources); }
std::int64_t RankTransfer::staged_bytes() const { return rounds_in_flight * state_->staged_in_round(); }

std::vector<std::int64_t> RankTransfer::last_rounds() const {
  std::vector<std::int64_t> last(state_->plan.state().arrays.size(), -1);
  for (std::size_t phase = 0; phase < state_->received.size(); ++phase) {
    const std::int64_t before = phase == 0 ? 0 : first_passed_on();
    const std::int64_t rounds = phase == 0 ? first_passed_on() : this->rounds() - before;
    for (const Lane& lane : state_->received[phase]) {
      std::int64_t round = 0;
      for (const LaidPiece& piece : lane.pieces) {
        while (part_of(lane.bytes, round, rounds).end < piece.end) ++round;
        last[piece.array] = std::max(last[piece.array], before + round);
      }
    }
  }
  return last;
}

std::vector<Message> RankTransfer::sent(std::int64_t round) const { return state_->messages(state_->sent, round); }
std::vector<Message> RankTransfer::received(std::int64_t round) const {
  return state_->messages(state_->received, round);
}

void RankTransfer::copy_kept() const {
  for (std::size_t i = 0; i < state_->kept_from.pieces.size(); ++i) {
    state_->copy_kept(state_->kept_from.pieces[i], state_->kept_to.pieces[i]);
  }
  finish_stores(state_->stores);
}

std::int64_t RankTransfer::pack(std::int64_t round, Device peer, bool only_changed) {
  const State::RoundPlace place = state_->place_of(round);
  Lane& lane = State::lane_to(state_->sent[place.phase], peer);
  const ByteRange range = State::range_of(lane, place);
  std::byte* const message = state_->staging_of(lane, round);
  std::byte* const out = message + header_bytes;
  MessageHeader header = state_->header_of(state_->rank, peer, round, range.size());
  State::visit_blocks(range, [&](ByteRange block, std::int64_t at) {
    state_->pack_range(lane, block, out + at);
    if (!state_->plan.state().has_checksums) return;
    header.checksum = crc32c({out + at, static_cast<std::size_t>(block.size())}, header.checksum);
  });
  std::uint64_t& last = lane.digests[static_cast<std::size_t>(place.round)];
  const std::uint64_t digest = only_changed ? digest_of({out, static_cast<std::size_t>(range.size())}) : 0;
  if (std::exchange(last, digest) == digest && digest != 0) header.content = Content::unchanged;
  std::memcpy(message, &header, sizeof header);
  return header.content == Content::all ? header_bytes + range.size() : header_bytes;
}

std::int64_t RankTransfer::unpack(std::int64_t round, Device peer) const {
  const State::RoundPlace place = state_->place_of(round);
  const Lane& lane = State::lane_to(state_->received[place.phase], peer);
  const ByteRange range = State::range_of(lane, place);
  const std::byte* const message = state_->staging_of(lane, round);
  const std::byte* const in = message + header_bytes;
  MessageHeader header;
  std::memcpy(&header, message, sizeof header);
  const std::string fault = fault_of(header, state_->header_of(peer, state_->rank, round, range.size()));
  if (!fault.empty()) throw RuntimeError(fault);
  if (header.content == Content::unchanged) return 0;
  const bool has_checksum = state_->plan.state().has_checksums;
  std::uint32_t checksum = 0;
  State::visit_blocks(range, [&](ByteRange block, std::int64_t at) {
    if (has_checksum) checksum = crc32c({in + at, static_cast<std::size_t>(block.size())}, checksum);
    state_->unpack_range(lane, block, in + at);
  });
  finish_stores(state_->stores);
  if (header.checksum == checksum) return range.size();
  throw RuntimeError(
      fmt::format("round {} from rank {} to rank {} did not arrive as it was sent: its checksum is wrong; it has {}",
                  round, peer, state_->rank, state_->names_in(lane, range)));
}

std::vector<Device> RankTransfer::readers(std::int64_t round) const {
  std::vector<Device> ranks;
  for (const Lane& lane : state_->sent[state_->place_of(round).phase]) {
    if (lane.table) ranks.push_back(lane.peer);
  }
  return ranks;
}

void RankTransfer::set_lenders(std::int64_t round, const std::vector<Device>& lenders) {
  for (const Device lender : lenders) {
    state_->borrow(State::lane_to(state_->received[state_->place_of(round).phase], lender));
  }
}

std::vector<Message> RankTransfer::make_offers(std::int64_t round, bool only_changed) {
  std::vector<Lane>& lanes = state_->sent[state_->place_of(round).phase];
  for (Lane& lane : lanes) {
    if (!lane.table) continue;
    lane.is_read = !only_changed;
    lane.offer = state_->offer_of(lane, state_->rank, lane.peer, round);
    lane.offer.is_read = lane.is_read ? 1 : 0;
    lane.table->describe(lane.offer);
    if (lane.is_read) std::fill(lane.digests.begin(), lane.digests.end(), 0);
  }
  return State::offers_in(lanes);
}

std::vector<Message> RankTransfer::awaited_offers(std::int64_t round) {
  return State::offers_in(state_->received[state_->place_of(round).phase]);
}

void RankTransfer::accept_offer(std::int64_t round, Device peer) {
  Lane& lane = State::lane_to(state_->received[state_->place_of(round).phase], peer);
  lane.is_read = true;
  const ReadOffer due = state_->offer_of(lane, peer, state_->rank, round);
  const std::string fault = fault_of(lane.offer.header, due.header);
  if (!fault.empty()) throw RuntimeError(fault);
  lane.is_read = lane.offer.is_read == 1;
  if (!lane.is_read) return;
  try {
    lane.lent->accept(lane.offer);
  } catch (const RuntimeError& error) {
    throw RuntimeError(state_->reading_fault(peer, error));
  }
}

std::int64_t RankTransfer::read(std::int64_t round) const {
  const State::RoundPlace place = state_->place_of(round);
  std::int64_t bytes = 0;
  for (const Lane& lane : state_->received[place.phase]) {
    if (!lane.is_read) continue;
    const ByteRange range = State::range_of(lane, place);
    try {
      visit_range(lane, range, [&](const LaidPiece& piece, ByteRange part, std::int64_t) {
        const auto number = static_cast<std::size_t>(&piece - lane.pieces.data());
        lane.lent->read(number, part, piece.first, state_->stores);
      });
    } catch (const RuntimeError& error) {
      throw RuntimeError(state_->reading_fault(lane.peer, error));
    }
    bytes += range.size();
  }
  finish_stores(state_->stores);
  return bytes;
}

void RankTransfer::forget_sent() {
  for (std::vector<Lane>& lanes : state_->sent) {
    for (Lane& lane : lanes) std::fill(lane.digests.begin(), lane.digests.end(), 0);
  }
}

}  // namespace retile::transfer
