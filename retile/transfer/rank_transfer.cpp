#include "retile/transfer/rank_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/base/sentences.h"
#include "retile/copies/convert.h"
#include "retile/copies/copy.h"
#include "retile/grids/held_boxes.h"
#include "retile/schedule/stream_plan.h"
#include "retile/schedule/streams.h"
#include "retile/transfer/checksum.h"
#include "retile/transfer/text.h"

namespace retile::transfer {
namespace {

using TransferPiece = StreamPlan::Piece;

// --- Headers.

enum class Content : std::uint32_t { all = 1, unchanged = 2 };

struct Header {
  std::uint64_t fingerprint = 0;
  std::int64_t round = 0;
  std::int64_t bytes = 0;  // of the message without its header
  std::int32_t from = 0;
  std::int32_t to = 0;
  Content content = Content::all;
  std::uint32_t checksum = 0;
};
constexpr auto header_bytes = static_cast<std::int64_t>(sizeof(Header));
static_assert(sizeof(Header) == 40, "no bytes lie between the fields, so that every bit of a header is checked");

// What is wrong with a header that came where another one is due; empty where nothing is.
std::string fault_of(const Header& header, const Header& due) {
  if (header.fingerprint != due.fingerprint) {
    return fmt::format("rank {} has another transfer than rank {}, or its message was damaged", due.from, due.to);
  }
  if (header.from != due.from || header.to != due.to) {
    return fmt::format("a message from rank {} to rank {} came from rank {} to rank {}", header.from, header.to,
                       due.from, due.to);
  }
  if (header.round != due.round) {
    return fmt::format("rank {} sent round {} to rank {}, and round {} is due", due.from, header.round, due.to,
                       due.round);
  }
  const bool is_known = header.content == Content::all || header.content == Content::unchanged;
  if (header.bytes != due.bytes || !is_known) {
    return fmt::format("the header of round {} from rank {} to rank {} was damaged", due.round, due.from, due.to);
  }
  return "";
}

// --- Fingerprints.

class Fingerprint {
 public:
  void add(std::int64_t number) { value_ = mix_bits(value_ ^ static_cast<std::uint64_t>(number)); }
  void add(const std::string& text) {
    add(static_cast<std::int64_t>(text.size()));
    for (const char c : text) add(static_cast<std::int64_t>(c));
  }
  void add(const Placement& placement) {
    for (const std::int64_t length : placement.global_shape()) add(length);
    for (const HeldBox& held : held_boxes(placement)) {
      for (const Shape* corner : {&held.box.lo, &held.box.hi}) {
        for (const std::int64_t index : *corner) add(index);
      }
      for (const Device device : held.holders) add(device);
      add(-1);
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

std::vector<StreamPlan::ArrayClass> classes_of(std::vector<ArrayKind> kinds, const std::vector<KindOfArray>& arrays) {
  std::vector<StreamPlan::ArrayClass> classes;
  for (ArrayKind& kind : kinds) {
    classes.push_back({std::move(kind.source), std::move(kind.target), bytes_of(kind.element_type), {}});
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) classes[arrays[i].kind].arrays.push_back(i);
  return classes;
}

// Elements that are wanted and that no rank holds.
void require_held(const std::vector<ArrayKind>& kinds, const std::vector<KindOfArray>& arrays) {
  std::map<std::size_t, std::string> lacking;  // by kind
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    std::vector<Box> held;
    for (const HeldBox& box : held_boxes(kinds[i].source)) held.push_back(box.box);
    for (const HeldBox& wanted : held_boxes(kinds[i].target)) {
      std::vector<Box> shared;
      for (const Box& box : held) {
        if (auto part = intersect(wanted.box, box)) shared.push_back(*std::move(part));
      }
      if (const auto missing = find_uncovered(wanted.box, shared)) {
        lacking[i] = fmt::format("no rank holds {}, which rank {} wants", to_string(*missing), wanted.holders.front());
        break;
      }
    }
  }
  Sentences faults;
  for (const KindOfArray& array : arrays) {
    const auto found = lacking.find(array.kind);
    if (found != lacking.end()) faults.add(fmt::format("array \"{}\": {}", array.name, found->second));
  }
  if (!faults.empty()) throw InputError(faults.text(), {});
}

}  // namespace

// --- Plans.

struct MessagePlan::State {
  State(std::vector<ArrayKind> kinds, std::vector<KindOfArray> all, std::int64_t ranks, const MessageOptions& options)
      : arrays(std::move(all)),
        has_checksums(options.has_checksums),
        streams(classes_of(kinds, arrays), ranks, options.max_bytes, options.hosts, TileUse::kept,
                {header_bytes, options.most_message_bytes}) {
    Fingerprint fingerprint;
    for (const KindOfArray& array : arrays) {
      fingerprint.add(array.name);
      fingerprint.add(static_cast<std::int64_t>(array.kind));
    }
    for (const ArrayKind& kind : kinds) {
      element_types.push_back(kind.element_type);
      fingerprint.add(static_cast<std::int64_t>(kind.element_type));
      fingerprint.add(kind.source);
      fingerprint.add(kind.target);
    }
    for (const std::int64_t host : options.hosts) fingerprint.add(host);
    for (const std::int64_t value :
         {ranks, rounds(StreamPhase::from_sources), rounds(StreamPhase::passed_on), std::int64_t{has_checksums}}) {
      fingerprint.add(value);
    }
    number = fingerprint.value();
  }

  std::int64_t rounds(StreamPhase phase) const { return streams.rounds(phase); }
  const DeviceLoad& load(Device rank) const { return streams.loads()[static_cast<std::size_t>(rank)]; }

  std::vector<KindOfArray> arrays;
  std::vector<ElementType> element_types;  // by kind
  bool has_checksums;
  StreamPlan streams;
  std::uint64_t number = 0;
};

MessagePlan::MessagePlan(std::vector<ArrayKind> kinds, std::vector<KindOfArray> arrays, std::int64_t ranks,
                         const MessageOptions& options) {
  require_held(kinds, arrays);
  state_ = std::make_shared<const State>(std::move(kinds), std::move(arrays), ranks, options);
}

std::uint64_t MessagePlan::fingerprint() const { return state_->number; }
std::int64_t MessagePlan::rounds() const {
  return state_->rounds(StreamPhase::from_sources) + state_->rounds(StreamPhase::passed_on);
}
std::int64_t MessagePlan::sent_bytes(Device rank) const { return state_->load(rank).sent; }
std::int64_t MessagePlan::received_bytes(Device rank) const { return state_->load(rank).received; }
std::int64_t MessagePlan::staged_bytes(Device rank) const { return state_->load(rank).staging; }
std::string MessagePlan::text() const { return to_string(state_->streams); }

// --- One rank.

namespace {

// Bytes that are converted, checked or copied at once, in the first-level cache. A multiple of Checksum::unit.
constexpr std::int64_t block_bytes = 16 << 10;

// How boxes lie in memory. Pieces are many, and such forms few.
struct Packing {
  BoxPacking box;
  ElementType stored;
  ElementType sent;

  // The bytes of a range of the box as it is sent.
  void pack(const std::byte* first, ByteRange range, std::byte* out) const {
    if (stored == sent) return box.pack(first, range, out);
    const std::int64_t size = bytes_of(sent);
    const std::int64_t stored_size = bytes_of(stored);
    std::array<std::byte, block_bytes> elements;
    std::array<std::byte, block_bytes> converted;
    const std::int64_t most = block_bytes / std::max(size, stored_size);
    const std::int64_t end = divide_up(range.end, size);
    for (std::int64_t begin = range.begin / size; begin < end; begin += most) {
      const std::int64_t count = std::min(most, end - begin);
      box.pack(first, {begin * stored_size, (begin + count) * stored_size}, elements.data());
      convert_elements(stored, sent, count, elements.data(), converted.data());
      // Rounds cut streams between bytes: an element may be there in part.
      const ByteRange kept{std::max(range.begin, begin * size), std::min(range.end, (begin + count) * size)};
      std::memcpy(out + (kept.begin - range.begin), converted.data() + (kept.begin - begin * size),
                  static_cast<std::size_t>(kept.size()));
    }
  }
};

class Packings {
 public:
  std::uint32_t number_of(const Shape& extent, const Strides& strides, ElementType stored, ElementType sent) {
    const auto [found, is_new] =
        numbers_.try_emplace({extent, strides, stored, sent}, static_cast<std::uint32_t>(packings_.size()));
    if (is_new) {
      const Box box = box_at(Shape(extent.size()), extent);
      DimensionOrder order(extent.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      packings_.push_back({BoxPacking({box, strides}, box, bytes_of(stored), order), stored, sent});
    }
    return found->second;
  }
  const Packing& operator[](std::uint32_t number) const { return packings_[number]; }

 private:
  std::map<std::tuple<Shape, Strides, ElementType, ElementType>, std::uint32_t> numbers_;
  std::vector<Packing> packings_;
};

// A box in the rank's memory.
struct LaidPiece {
  std::byte* first;
  std::uint32_t packing;
  std::uint32_t array;
  std::int64_t end;  // bytes of the stream up to its end
};

// What goes between the rank and a peer in one phase and direction.
struct Lane {
  Device peer = 0;
  std::int64_t bytes = 0;
  std::int64_t staged = 0;  // where its messages begin in the staging of a round
  std::vector<LaidPiece> pieces;
  std::vector<std::uint64_t> digests;  // of what was packed last, by round; 0: nothing
};

// visit(piece, the range of its bytes, where they begin in the range) for the pieces in a range of a lane.
template <typename Visit>
void visit_range(const Lane& lane, ByteRange range, Visit visit) {
  auto piece = std::upper_bound(lane.pieces.begin(), lane.pieces.end(), range.begin,
                                [](std::int64_t at, const LaidPiece& one) { return at < one.end; });
  std::int64_t begin = piece == lane.pieces.begin() ? 0 : std::prev(piece)->end;
  for (std::int64_t at = range.begin; at < range.end; begin = piece->end, ++piece) {
    const std::int64_t end = std::min(range.end, piece->end);
    visit(*piece, ByteRange{at - begin, end - begin}, at - range.begin);
    at = end;
  }
}

// The mixing of each word is bijective: what differs in one word never has the same digest. Never 0.
std::uint64_t digest_of(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, 4> lanes{1, 2, 3, 4};
  constexpr std::uint64_t factor = 0x9E3779B97F4A7C15U;
  const auto add = [&](const std::byte* words) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, words + 8 * i, sizeof word);
      lanes[i] = (lanes[i] ^ word) * factor;
      lanes[i] ^= lanes[i] >> 32U;
    }
  };
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) add(bytes.data() + at);
  std::array<std::byte, 32> rest{};
  std::memcpy(rest.data(), bytes.data() + at, bytes.size() - at);
  add(rest.data());
  std::uint64_t digest = 0;
  for (const std::uint64_t lane : lanes) digest = mix_bits(digest ^ lane);
  return std::max<std::uint64_t>(1, digest);
}

// A box in memory, as it was given or as the rank's placement has it.
struct Room {
  Box box;
  std::byte* first;
  Strides strides;
  ElementType stored;
};

}  // namespace

struct RankTransfer::State {
  State(MessagePlan plan_given, Device own) : plan(std::move(plan_given)), rank(own) {}

  const StreamPlan& streams() const { return plan.state_->streams; }
  std::int64_t rounds(StreamPhase phase) const { return plan.state_->rounds(phase); }

  // --- Memory.

  const std::string& name_of(std::size_t array) const { return plan.state_->arrays[array].name; }
  static const char* word(TransferSide side) { return side == TransferSide::source ? "source" : "target"; }
  std::vector<std::vector<Room>>& rooms_on(TransferSide side) {
    return side == TransferSide::source ? source_rooms : target_rooms;
  }

  const std::vector<Part>& parts_of(std::size_t kind, TransferSide side) {
    const auto [found, is_new] = parts.try_emplace({kind, side});
    const StreamPlan::ArrayClass& sides = streams().classes()[kind];
    if (is_new) found->second = (side == TransferSide::source ? sides.source : sides.target).parts(rank);
    return found->second;
  }

  void add_rooms(const TileMemory& memory, Sentences& faults) {
    const std::size_t kind = plan.state_->arrays[memory.array].kind;
    const ElementType wanted = plan.state_->element_types[kind];
    const ElementType stored = memory.stored.value_or(wanted);
    const auto fail = [&](std::string_view what) {
      faults.add(fmt::format("the {} of \"{}\" on rank {} {}", word(memory.side), name_of(memory.array), rank, what));
    };
    if (stored != wanted && (memory.side == TransferSide::target || !can_convert(stored, wanted))) {
      return fail(fmt::format("has elements of {}, which are not converted to {}", retile::name_of(stored),
                              retile::name_of(wanted)));
    }
    const std::int64_t size = bytes_of(stored);
    std::vector<Room> added;
    if (memory.box) {
      added.push_back({*memory.box, memory.data, strides_of({*memory.box, memory.strides}, size), stored});
    } else {
      for (const Part& part : parts_of(kind, memory.side)) {
        Strides strides = part.strides;
        for (std::int64_t& stride : strides) stride *= size;
        added.push_back({part.box, memory.data + part.offset * size, std::move(strides), stored});
      }
      if (!memory.strides.empty() && added.size() > 1) return fail("is several boxes, which lie without gaps");
      if (!memory.strides.empty() && !added.empty()) added.front().strides = memory.strides;
    }
    for (Room& room : added) {
      if (volume(room.box) == 0) continue;
      if (room.strides.size() != room.box.lo.size()) return fail("has strides of another number of dimensions");
      if (room.first == nullptr) return fail("is null");
      if (memory.side == TransferSide::target && has_shared_elements(room, size)) {
        return fail("has elements that share memory");
      }
      rooms_on(memory.side)[memory.array].push_back(std::move(room));
    }
  }

  static bool has_shared_elements(const Room& room, std::int64_t size) {
    const Placement placement(room.box.hi, {{packed_part(room.box)}});
    const std::array<Device, 1> device{0};
    try {
      require_strides({{}, {room.strides}}, placement, placement, device, size);
    } catch (const RuntimeError&) {
      return true;
    }
    return false;
  }

  // Targets that overlap sources would be read after they were written. Those that overlap each other are told where
  // both lie without gaps: boxes of one matrix lie between each other.
  void find_overlaps(Sentences& faults) const {
    struct Range {
      const std::byte* begin;
      const std::byte* end;
      std::size_t array;
      TransferSide side;
      bool is_packed;
    };
    std::vector<Range> ranges;
    for (const TransferSide side : {TransferSide::source, TransferSide::target}) {
      const auto& rooms = side == TransferSide::source ? source_rooms : target_rooms;
      for (std::size_t array = 0; array < rooms.size(); ++array) {
        for (const Room& room : rooms[array]) {
          const std::int64_t size = bytes_of(room.stored);
          const auto reach = reach_of({room.box, room.strides}, size);
          ensure(reach.has_value(), "memory is within 62 bits");
          const bool is_packed = reach->end - reach->begin == volume(room.box) * size;
          ranges.push_back({room.first + reach->begin, room.first + reach->end, array, side, is_packed});
        }
      }
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::vector<const Range*> open;  // those that reach beyond the last one's beginning
    for (const Range& range : ranges) {
      std::erase_if(open, [&](const Range* one) { return one->end <= range.begin; });
      for (const Range* other : open) {
        const bool are_targets = other->side == TransferSide::target && range.side == TransferSide::target;
        const bool are_sources = other->side == TransferSide::source && range.side == TransferSide::source;
        if (are_sources || (are_targets && (!other->is_packed || !range.is_packed))) continue;
        faults.add(fmt::format("the {} of \"{}\" on rank {} overlaps the {} of \"{}\"", word(range.side),
                               name_of(range.array), rank, word(other->side), name_of(other->array)));
        break;
      }
      open.push_back(&range);
    }
  }

  void require_rooms(Sentences& faults) {
    for (std::size_t array = 0; array < plan.state_->arrays.size(); ++array) {
      for (const TransferSide side : {TransferSide::source, TransferSide::target}) {
        for (const Part& part : parts_of(plan.state_->arrays[array].kind, side)) {
          if (find_room(array, side, part.box) != nullptr) continue;
          faults.add(fmt::format("the {} of \"{}\" on rank {} has no memory for {}", word(side), name_of(array), rank,
                                 to_string(part.box)));
          break;
        }
      }
    }
  }

  const Room* find_room(std::size_t array, TransferSide side, const Box& box) {
    const std::vector<Room>& rooms = rooms_on(side)[array];
    const auto found =
        std::find_if(rooms.begin(), rooms.end(), [&](const Room& room) { return contains(room.box, box); });
    return found == rooms.end() ? nullptr : &*found;
  }

  // --- Lanes.

  void add_piece(Lane& lane, const TransferPiece& piece, TransferSide side) {
    const Room* room = find_room(piece.array, side, piece.box);
    ensure(room != nullptr, "pieces lie in memory");
    const ElementType element_type = plan.state_->element_types[piece.array_class];
    std::byte* first = room->first;
    Shape extent(piece.box.lo.size());
    for (std::size_t i = 0; i < extent.size(); ++i) {
      extent[i] = piece.box.hi[i] - piece.box.lo[i];
      first += (piece.box.lo[i] - room->box.lo[i]) * room->strides[i];
    }
    lane.bytes += volume(piece.box) * bytes_of(element_type);
    lane.pieces.push_back({first, packings.number_of(extent, room->strides, room->stored, element_type),
                           static_cast<std::uint32_t>(piece.array), lane.bytes});
  }

  // In an order that both ends know.
  void add_pieces(Lane& lane, std::vector<TransferPiece>& pieces, TransferSide side) {
    std::sort(pieces.begin(), pieces.end(), [](const TransferPiece& a, const TransferPiece& b) {
      return std::tie(a.array, a.box.lo) < std::tie(b.array, b.box.lo);
    });
    for (const TransferPiece& piece : pieces) add_piece(lane, piece, side);
  }

  void add_lanes() {
    std::vector<TransferPiece> pieces;
    const auto list = [&](const TransferPiece& piece) { pieces.push_back(piece); };
    streams().visit_kept(rank, list);
    add_pieces(kept_from, pieces, TransferSide::source);
    add_pieces(kept_to, pieces, TransferSide::target);
    for (const StreamPlan::Stream& stream : streams().streams()) {
      if (stream.from != rank && stream.to != rank) continue;
      const bool is_sent = stream.from == rank;
      const bool is_passed_on = stream.phase == StreamPhase::passed_on;
      pieces.clear();
      streams().visit_pieces(stream, list);
      Lane& lane = (is_sent ? sent : received)[is_passed_on ? 1 : 0].emplace_back();
      lane.peer = is_sent ? stream.to : stream.from;
      add_pieces(lane, pieces, is_sent && !is_passed_on ? TransferSide::source : TransferSide::target);
    }
    for (const StreamPhase phase : {StreamPhase::from_sources, StreamPhase::passed_on}) place_lanes(phase);
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
    return staging.get() + (round % rounds_in_flight) * round_bytes + lane.staged;
  }
  static ByteRange range_of(const Lane& lane, const RoundPlace& place) {
    return part_of(lane.bytes, place.round, place.rounds);
  }

  std::vector<Message> messages(const std::array<std::vector<Lane>, 2>& lanes, std::int64_t round) const {
    const RoundPlace place = place_of(round);
    std::vector<Message> result;
    for (const Lane& lane : lanes[place.phase]) {
      const std::int64_t bytes = range_of(lane, place).size();
      if (bytes == 0) continue;
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
      packings[piece.packing].box.unpack(in + at, bytes, piece.first);
    });
  }

  // visit(a block of the range, where it begins in it).
  template <typename Visit>
  static void visit_blocks(ByteRange range, Visit visit) {
    for (std::int64_t begin = range.begin; begin < range.end; begin += block_bytes) {
      visit(ByteRange{begin, std::min(range.end, begin + block_bytes)}, begin - range.begin);
    }
  }

  Header header_of(Device from, Device to, std::int64_t round, std::int64_t bytes) const {
    return {plan.fingerprint(), round, bytes, static_cast<std::int32_t>(from), static_cast<std::int32_t>(to)};
  }

  MessagePlan plan;
  Device rank;
  std::map<std::pair<std::size_t, TransferSide>, std::vector<Part>> parts;  // by kind
  std::vector<std::vector<Room>> source_rooms;                              // by array
  std::vector<std::vector<Room>> target_rooms;
  Packings packings;
  Lane kept_from;
  Lane kept_to;
  std::array<std::vector<Lane>, 2> sent;  // by phase
  std::array<std::vector<Lane>, 2> received;
  std::int64_t round_bytes = 0;  // of the staging
  std::unique_ptr<std::byte[]> staging;
};

RankTransfer::RankTransfer(const MessagePlan& plan, Device rank, const std::vector<TileMemory>& memory)
    : state_(std::make_unique<State>(plan, rank)) {
  Sentences faults;
  state_->source_rooms.resize(plan.state_->arrays.size());
  state_->target_rooms.resize(plan.state_->arrays.size());
  for (const TileMemory& one : memory) state_->add_rooms(one, faults);
  if (faults.empty()) state_->require_rooms(faults);
  if (faults.empty()) state_->find_overlaps(faults);
  if (!faults.empty()) throw RuntimeError(faults.text());
  state_->add_lanes();
  ensure(staged_bytes() <= plan.staged_bytes(rank), "a rank stages no more than the plan says");
  state_->staging = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(staged_bytes()));
  // What only adding lanes needs.
  state_->source_rooms = {};
  state_->target_rooms = {};
  state_->parts.clear();
}

RankTransfer::RankTransfer(RankTransfer&&) noexcept = default;
RankTransfer& RankTransfer::operator=(RankTransfer&&) noexcept = default;
RankTransfer::~RankTransfer() = default;

std::int64_t RankTransfer::rounds() const { return state_->plan.rounds(); }
std::int64_t RankTransfer::first_passed_on() const { return state_->rounds(StreamPhase::from_sources); }
std::int64_t RankTransfer::staged_bytes() const { return rounds_in_flight * state_->round_bytes; }

std::vector<std::int64_t> RankTransfer::last_rounds() const {
  std::vector<std::int64_t> last(state_->plan.state_->arrays.size(), -1);
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
  std::array<std::byte, block_bytes> block;
  State::visit_blocks({0, state_->kept_from.bytes}, [&](ByteRange range, std::int64_t) {
    state_->pack_range(state_->kept_from, range, block.data());
    state_->unpack_range(state_->kept_to, range, block.data());
  });
}

std::int64_t RankTransfer::pack(std::int64_t round, Device peer, bool only_changed) {
  const State::RoundPlace place = state_->place_of(round);
  Lane& lane = State::lane_to(state_->sent[place.phase], peer);
  const ByteRange range = State::range_of(lane, place);
  std::byte* const message = state_->staging_of(lane, round);
  std::byte* const out = message + header_bytes;
  Checksum checksum;
  State::visit_blocks(range, [&](ByteRange block, std::int64_t at) {
    state_->pack_range(lane, block, out + at);
    if (state_->plan.state_->has_checksums) checksum.add({out + at, static_cast<std::size_t>(block.size())});
  });
  Header header = state_->header_of(state_->rank, peer, round, range.size());
  if (state_->plan.state_->has_checksums) header.checksum = checksum.value();
  std::uint64_t& last = lane.digests[static_cast<std::size_t>(place.round)];
  const std::uint64_t digest = only_changed ? digest_of({out, static_cast<std::size_t>(range.size())}) : 0;
  if (std::exchange(last, digest) == digest && digest != 0) header.content = Content::unchanged;
  std::memcpy(message, &header, sizeof header);
  return header.content == Content::all ? header_bytes + range.size() : header_bytes;
}

void RankTransfer::unpack(std::int64_t round, Device peer) const {
  const State::RoundPlace place = state_->place_of(round);
  const Lane& lane = State::lane_to(state_->received[place.phase], peer);
  const ByteRange range = State::range_of(lane, place);
  const std::byte* const message = state_->staging_of(lane, round);
  const std::byte* const in = message + header_bytes;
  Header header;
  std::memcpy(&header, message, sizeof header);
  const std::string fault = fault_of(header, state_->header_of(peer, state_->rank, round, range.size()));
  if (!fault.empty()) throw RuntimeError(fault);
  if (header.content == Content::unchanged) return;
  const bool has_checksum = state_->plan.state_->has_checksums;
  Checksum checksum;
  State::visit_blocks(range, [&](ByteRange block, std::int64_t at) {
    if (has_checksum) checksum.add({in + at, static_cast<std::size_t>(block.size())});
    state_->unpack_range(lane, block, in + at);
  });
  if (header.checksum == (has_checksum ? checksum.value() : 0)) return;
  throw RuntimeError(
      fmt::format("round {} from rank {} to rank {} did not arrive as it was sent: its checksum is wrong", round, peer,
                  state_->rank));
}

void RankTransfer::forget_sent() {
  for (std::vector<Lane>& lanes : state_->sent) {
    for (Lane& lane : lanes) std::fill(lane.digests.begin(), lane.digests.end(), 0);
  }
}

}  // namespace retile::transfer
