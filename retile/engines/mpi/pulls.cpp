#include "retile/engines/mpi/pulls.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "retile/copies/host_read.h"

namespace retile::mpi {
namespace {

// Bytes between two looks at messages.
constexpr std::int64_t most_pulled_bytes = 1 << 20;

}  // namespace

void Pulls::add(std::optional<std::size_t> lane, int distance, std::span<const std::size_t> streams) {
  const Streams& all = packed_.streams();
  std::map<std::uint32_t, List> added;  // by array
  for (const std::size_t i : streams) {
    const Stream& stream = all.streams[i];
    for (std::size_t piece = stream.first; piece < stream.first + stream.count; ++piece) {
      const std::uint32_t array = all.pieces[piece].array;
      List& list = added.try_emplace(array, List{array, distance, lane, {}}).first->second;
      list.pulls.push_back(
          {piece, packed_.tile_of(stream.from, all.pieces[piece]), packed_.tile_of(stream.to, all.pieces[piece])});
    }
  }
  const auto place = [&](const Pull& pull) { return std::tuple(pull.to_tile, all.pieces[pull.piece].to_offset); };
  for (auto& [array, list] : added) {
    std::sort(list.pulls.begin(), list.pulls.end(), [&](const Pull& a, const Pull& b) { return place(a) < place(b); });
    lists_.push_back(std::move(list));
  }
  std::sort(lists_.begin(), lists_.end(), [](const List& a, const List& b) {
    return std::pair(a.array, a.distance) < std::pair(b.array, b.distance);
  });
}

void Pulls::start(const TilePointers& tiles) {
  tiles_ = tiles;
  first_ = 0;
  open_lists_.assign(receiver_.size(), 0);
  for (List& list : lists_) {
    list.next = 0;
    list.done = 0;
    if (list.lane) ++open_lists_[*list.lane];
  }
}

bool Pulls::advance() {
  std::int64_t pulled = 0;
  for (std::size_t i = first_; i < lists_.size() && pulled < most_pulled_bytes; ++i) {
    List& list = lists_[i];
    const std::optional<Way> way = way_of(list);
    const bool is_pulled = way == Way::copied || way == Way::read;
    if (is_pulled && list.next < list.pulls.size()) {
      while (pulled < most_pulled_bytes && list.next < list.pulls.size()) pulled += pull(list, *way);
      if (list.next == list.pulls.size()) finish(list);
    }
    const bool is_closed = is_pulled ? list.next == list.pulls.size() : way.has_value();
    if (is_closed && i == first_) ++first_;
  }
  return pulled > 0;
}

void Pulls::finish(const List& list) {
  if (list.lane && --open_lists_[*list.lane] == 0) receiver_.finish(*list.lane);
}

// A part of the next piece. Its bytes.
std::int64_t Pulls::pull(List& list, Way way) const {
  const auto& [number, from_tile, to_tile] = list.pulls[list.next];
  const StreamPiece& piece = packed_.streams().pieces[number];
  const BoxCopy& copy = packed_.copy(piece);
  std::byte* to = tiles_.targets[to_tile] + piece.to_offset;
  ByteRange range{list.done, copy.bytes()};
  const Boards& boards = receiver_.boards();
  if (way == Way::read) {
    const int member = receiver_.member(*list.lane);
    read_box(copy, boards.host().process(member), boards.remote_tile(member, from_tile) + piece.from_offset, to, range);
  } else {
    range.end = std::min(range.end, range.begin + copy.range_length(most_pulled_bytes));
    const std::byte* tile =
        list.lane ? boards.mapped_tile(receiver_.member(*list.lane), from_tile) : tiles_.sources[from_tile];
    copy.run(tile + piece.from_offset, to, range, stores_);
  }
  list.done = range.end;
  if (list.done == copy.bytes()) {
    ++list.next;
    list.done = 0;
  }
  return range.size();
}

}  // namespace retile::mpi
