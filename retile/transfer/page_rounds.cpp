#include "retile/transfer/page_rounds.h"

#include <algorithm>
#include <bit>

#include "retile/base/arithmetic.h"

namespace retile::transfer {
namespace {

std::size_t index(std::int64_t page) { return static_cast<std::size_t>(page); }

void add_run(std::vector<PageRun>& runs, std::int64_t pages, std::int64_t round) {
  if (pages == 0) return;
  if (!runs.empty() && runs.back().round == round) {
    runs.back().pages += pages;
  } else {
    runs.push_back({pages, round});
  }
}

}  // namespace

PageRounds::Footprint::Footprint(const PieceShape& shape, const Strides& in_tile, std::int64_t page)
    : extent(shape.extent),
      strides(in_tile),
      element_size(shape.element_size),
      outer(shape.extent.size()),
      block_bytes(shape.element_size),
      span(shape.element_size) {
  const auto is_behind = [](std::int64_t count, std::int64_t stride, std::int64_t before) {
    return count == 1 || stride >= before;
  };
  for (; outer > 0; --outer) {
    const std::int64_t count = extent[outer - 1];
    const std::int64_t stride = strides[outer - 1];
    const bool leaves_no_page_out = count == 1 || stride - span < page;
    if (!is_behind(count, stride, span) || !leaves_no_page_out) break;
    span += (count - 1) * stride;
    block_bytes *= count;
  }
  is_ascending = true;
  std::int64_t before = span;
  for (std::size_t i = outer; i-- > 0;) {
    is_ascending = is_ascending && is_behind(extent[i], strides[i], before);
    before += (extent[i] - 1) * strides[i];
  }
}

std::int64_t PageRounds::Footprint::bytes() const { return product(extent) * element_size; }

std::int64_t PageRounds::Footprint::place(std::int64_t byte) const {
  return byte % element_size + place(byte / element_size, extent.size());
}

std::int64_t PageRounds::Footprint::place(std::int64_t number, std::size_t dimensions) const {
  std::int64_t place = 0;
  for (std::size_t i = dimensions; i-- > 0; number /= extent[i]) place += number % extent[i] * strides[i];
  return place;
}

PageRounds::PageRounds(const Streams& streams, std::int64_t page)
    : streams_(streams), page_shift_(std::countr_zero(static_cast<std::uint64_t>(page))) {
  for (const PieceShape& shape : streams.shapes) {
    from_.emplace_back(shape, shape.from, page);
    to_.emplace_back(shape, shape.to, page);
  }
}

void PageRounds::visit_tiles(Device device, PageUse use, const VisitTile& visit) {
  find_chunks(device, use);
  for (auto first = chunks_.begin(); first != chunks_.end();) {
    const auto last =
        std::find_if(first, chunks_.end(), [&](const Chunk& chunk) { return chunk.array != first->array; });
    visit(first->array, runs_of({first, last}, use));
    first = last;
  }
}

void PageRounds::find_chunks(Device device, PageUse use) {
  chunks_.clear();
  for (const Stream& stream : streams_.streams) {
    if ((use == PageUse::last_read ? stream.from : stream.to) != device) continue;
    StreamCursor cursor;
    for (std::int64_t round = 0; round < streams_.rounds; ++round) {
      cursor.advance(
          streams_, stream, streams_.part_of(stream.bytes, round).size(),
          [&](const StreamPiece& piece, ByteRange range) {
            const std::int64_t offset = use == PageUse::last_read ? piece.from_offset : piece.to_offset;
            const Footprint& footprint = footprints(use)[piece.shape];
            chunks_.push_back({piece.array, piece.shape, offset, range, round, pages_of(footprint, offset, range)});
          });
    }
  }
  std::stable_sort(chunks_.begin(), chunks_.end(), [](const Chunk& a, const Chunk& b) { return a.array < b.array; });
}

PageRounds::Pages PageRounds::pages_of(const Footprint& footprint, std::int64_t offset, ByteRange range) const {
  if (!footprint.is_ascending) range = {0, footprint.bytes()};
  const std::int64_t first = offset + footprint.place(range.begin);
  const std::int64_t last = offset + footprint.place(range.end - 1);
  return {page_of(first), page_of(last) + 1};
}

template <typename Visit>
void PageRounds::visit_blocks(const Footprint& footprint, std::int64_t offset, ByteRange range, Visit visit) const {
  const std::int64_t length = footprint.block_bytes;
  for (std::int64_t at = range.begin; at < range.end;) {
    const std::int64_t block = at / length;
    const std::int64_t end = std::min(range.end, (block + 1) * length);
    const bool is_whole = end - at == length;
    const std::int64_t first = offset + (is_whole ? footprint.place(block, footprint.outer) : footprint.place(at));
    const std::int64_t last = is_whole ? first + footprint.span - 1 : offset + footprint.place(end - 1);
    visit(Pages{page_of(first), page_of(last) + 1});
    at = end;
  }
}

// What any round uses of the tile.
const std::vector<PageRounds::Pages>& PageRounds::touched(std::span<const Chunk> tile, PageUse use) {
  std::vector<std::int64_t> key{use == PageUse::last_read ? 0 : 1};
  const Chunk* before = nullptr;
  std::int64_t end = 0;
  for (const Chunk& chunk : tile) {
    end = std::max(end, chunk.pages.end);
    const bool is_known = before != nullptr && before->shape == chunk.shape && before->offset == chunk.offset;
    before = &chunk;
    if (is_known) continue;
    key.push_back(chunk.shape);
    key.push_back(chunk.offset);
  }
  const auto [found, is_new] = touched_.try_emplace(std::move(key));
  std::vector<Pages>& list = found->second;
  if (!is_new) return list;
  std::vector<bool> pages(index(end));
  for (std::size_t i = 1; i < found->first.size(); i += 2) {
    const Footprint& footprint = footprints(use)[static_cast<std::size_t>(found->first[i])];
    visit_blocks(footprint, found->first[i + 1], {0, footprint.bytes()},
                 [&](const Pages& block) { std::fill(pages.begin() + block.begin, pages.begin() + block.end, true); });
  }
  for (std::int64_t page = 0; page < end; ++page) {
    if (!pages[index(page)]) continue;
    if (list.empty() || list.back().end != page) list.push_back({page, page});
    list.back().end = page + 1;
  }
  return list;
}

std::vector<PageRounds::Segment> PageRounds::segments_of(std::span<const Chunk> tile) const {
  std::vector<std::int64_t> ends;
  for (const Chunk& chunk : tile) {
    ends.push_back(chunk.pages.begin);
    ends.push_back(chunk.pages.end);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<Segment> segments;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    segments.push_back({{ends[i], ends[i + 1]}, streams_.rounds, PageRun::never});
  }
  for (const Chunk& chunk : tile) {
    auto at = static_cast<std::size_t>(std::lower_bound(ends.begin(), ends.end(), chunk.pages.begin) - ends.begin());
    for (; at < segments.size() && segments[at].pages.begin < chunk.pages.end; ++at) {
      segments[at].least = std::min(segments[at].least, chunk.round);
      segments[at].most = std::max(segments[at].most, chunk.round);
    }
  }
  // Where nothing lies.
  std::erase_if(segments, [](const Segment& segment) { return segment.most == PageRun::never; });
  return segments;
}

// Page by page, from the first mixed segment to the last one.
void PageRounds::look_closely(std::span<const Chunk> tile, const std::vector<Segment>& segments, PageUse use) {
  const auto is_mixed = [](const Segment& segment) { return segment.is_mixed(); };
  const auto first = std::find_if(segments.begin(), segments.end(), is_mixed);
  if (first == segments.end()) return;
  const std::int64_t begin = first->pages.begin;
  const std::int64_t end = std::find_if(segments.rbegin(), segments.rend(), is_mixed)->pages.end;
  close_.resize(std::max(close_.size(), index(end)));
  std::fill(close_.begin() + begin, close_.begin() + end, PageRun::never);
  for (const Chunk& chunk : tile) {
    if (chunk.pages.begin >= end || chunk.pages.end <= begin) continue;
    visit_blocks(footprints(use)[chunk.shape], chunk.offset, chunk.range, [&](const Pages& block) {
      const std::int64_t block_end = std::min(end, block.end);
      for (std::int64_t page = std::max(begin, block.begin); page < block_end; ++page) {
        std::int64_t& round = close_[index(page)];
        const bool is_first = round == PageRun::never;
        if (is_first || (use == PageUse::last_read ? chunk.round > round : chunk.round < round)) round = chunk.round;
      }
    });
  }
}

const std::vector<PageRun>& PageRounds::runs_of(std::span<const Chunk> tile, PageUse use) {
  const std::vector<Pages>& used = touched(tile, use);
  const std::vector<Segment> segments = segments_of(tile);
  look_closely(tile, segments, use);
  runs_.clear();
  std::int64_t done = 0;  // pages so far
  const auto add = [&](std::int64_t begin, std::int64_t end, std::int64_t round) {
    add_run(runs_, begin - done, PageRun::never);
    add_run(runs_, end - begin, round);
    done = end;
  };
  auto next = used.begin();
  for (const Segment& segment : segments) {
    if (segment.is_mixed()) {
      for (std::int64_t page = segment.pages.begin; page < segment.pages.end; ++page) {
        add(page, page + 1, close_[index(page)]);
      }
      continue;
    }
    // All that lies here is of one round.
    while (next != used.end() && next->end <= segment.pages.begin) ++next;
    for (auto at = next; at != used.end() && at->begin < segment.pages.end; ++at) {
      add(std::max(at->begin, segment.pages.begin), std::min(at->end, segment.pages.end), segment.least);
    }
  }
  return runs_;
}

}  // namespace retile::transfer
