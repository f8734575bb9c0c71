#include "retile/engines/mpi/pulls.h"

#include <algorithm>

namespace retile::mpi {
namespace {

// Bytes between two looks at messages.
constexpr std::int64_t most_pulled_bytes = 1 << 20;

}  // namespace

bool PullRun::advance() {
  for (std::size_t i = first_; i < progress_.size(); ++i) {
    const PullList& list = work_.lists[i];
    if (is_finished(i) || (list.member && !host_.is_ready(*list.member))) continue;
    std::int64_t pulled = 0;
    while (pulled < most_pulled_bytes && !is_finished(i)) pulled += pull(list, progress_[i]);
    while (first_ < progress_.size() && is_finished(first_)) ++first_;
    return true;
  }
  return false;
}

// A part of the next piece. Its bytes.
std::int64_t PullRun::pull(const PullList& list, Progress& progress) const {
  const auto& [number, from_tile, to_tile] = list.pulls[progress.pull];
  const StreamPiece& piece = streams_.pieces[number];
  const BoxCopy& copy = copies_[piece.shape];
  std::byte* to = tiles_.targets[to_tile] + piece.to_offset;
  ByteRange range{progress.done, copy.bytes()};
  if (list.way == Way::read) {
    const std::byte* from = host_.remote_tile(*list.member, from_tile) + piece.from_offset;
    HostRead(copy).run(host_.process(*list.member), from, to);
  } else {
    range.end = std::min(range.end, range.begin + copy.range_length(most_pulled_bytes));
    const std::byte* tile = list.member ? host_.mapped_tile(*list.member, from_tile) : tiles_.sources[from_tile];
    copy.run(tile + piece.from_offset, to, range, work_.stores);
  }
  progress.done = range.end;
  if (progress.done == copy.bytes()) progress = {progress.pull + 1, 0};
  return range.size();
}

}  // namespace retile::mpi
