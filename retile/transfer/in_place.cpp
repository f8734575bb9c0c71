#include "retile/transfer/in_place.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/engines/engine.h"
#include "retile/transfer/streams.h"

namespace retile::transfer {
namespace {

constexpr std::int64_t most_rounds = 4096;

// The rounds that use each page of each tile, for one number of rounds.
class PageRounds {
 public:
  PageRounds(const TransferPlan& plan, const Streams& streams) : plan_(plan), streams_(streams) {
    const std::vector<NamedArray>& arrays = plan.manifest().arrays;
    for (const NamedArray& array : arrays) {
      const std::int64_t element = bytes_of(plan.manifest().problems[array.problem].element_type());
      for (Device device = 0; device < plan.device_count(); ++device) {
        last_read_.emplace_back(pages(plan.source(array.problem).size(device) * element), never);
        first_write_.emplace_back(pages(plan.target(array.problem).size(device) * element), streams.rounds);
      }
    }
    for (const PieceShape& shape : streams.shapes) copies_.push_back(shape.copy());
    for (const Stream& stream : streams.streams) add(stream);
  }

  InPlaceSchedule schedule() const {
    const auto rounds = static_cast<std::size_t>(streams_.rounds);
    const auto devices = static_cast<std::size_t>(plan_.device_count());
    InPlaceSchedule result{streams_.rounds, std::vector<std::vector<PageRange>>(rounds + 1), {}, {}};
    for (std::size_t device = 0; device < devices; ++device) {
      // Pages that come with a round, less those that go before it.
      std::vector<std::int64_t> change(rounds + 1);
      std::int64_t source = 0;
      std::int64_t target = 0;
      for (std::size_t tile = device; tile < last_read_.size(); tile += devices) {
        for (const std::int64_t round : last_read_[tile]) --change[static_cast<std::size_t>(round + 1)];
        for (const std::int64_t round : first_write_[tile]) ++change[static_cast<std::size_t>(round)];
        source += static_cast<std::int64_t>(last_read_[tile].size());
        target += static_cast<std::int64_t>(first_write_[tile].size());
        list_released(tile, result.released);
      }
      std::int64_t now = source;
      std::int64_t peak = source;
      for (std::size_t round = 0; round < rounds; ++round) peak = std::max(peak, now += change[round]);
      result.larger.push_back(std::max(source, target) * page_bytes());
      result.peaks.push_back(peak * page_bytes());
    }
    return result;
  }

 private:
  static constexpr std::int64_t never = -1;

  static std::size_t pages(std::int64_t bytes) { return static_cast<std::size_t>(divide_up(bytes, page_bytes())); }

  std::size_t tile_of(const StreamPiece& piece, Device device) const {
    return piece.array * static_cast<std::size_t>(plan_.device_count()) + static_cast<std::size_t>(device);
  }

  void add(const Stream& stream) {
    StreamCursor cursor;
    for (std::int64_t round = 0; round < streams_.rounds; ++round) {
      const std::int64_t bytes = streams_.part_of(stream.bytes, round).size();
      cursor.advance(streams_, stream, bytes,
                     [&](std::size_t piece, ByteRange range) { add(stream, stream.pieces[piece], range, round); });
    }
  }

  // Bytes of a piece, run by run.
  void add(const Stream& stream, const StreamPiece& piece, ByteRange range, std::int64_t round) {
    const BoxCopy& copy = copies_[piece.shape];
    std::vector<std::int64_t>& read = last_read_[tile_of(piece, stream.from)];
    std::vector<std::int64_t>& written = first_write_[tile_of(piece, stream.to)];
    for (std::int64_t at = range.begin; at < range.end;) {
      const std::int64_t run = at / copy.run_bytes();
      const std::int64_t end = std::min(range.end, (run + 1) * copy.run_bytes());
      const BoxCopy::RunPlace place = copy.run_place(run);
      const std::int64_t skipped = at - run * copy.run_bytes();
      const auto each_page = [&](std::int64_t first, const auto& visit) {
        for (std::int64_t page = first / page_bytes(); page <= (first + end - at - 1) / page_bytes(); ++page) {
          visit(static_cast<std::size_t>(page));
        }
      };
      each_page(piece.from_offset + place.from + skipped,
                [&](std::size_t page) { read[page] = std::max(read[page], round); });
      each_page(piece.to_offset + place.to + skipped,
                [&](std::size_t page) { written[page] = std::min(written[page], round); });
      at = end;
    }
  }

  void list_released(std::size_t tile, std::vector<std::vector<PageRange>>& released) const {
    const std::vector<std::int64_t>& last = last_read_[tile];
    for (std::size_t page = 0; page < last.size(); ++page) {
      std::vector<PageRange>& list =
          last[page] == never ? released.back() : released[static_cast<std::size_t>(last[page])];
      const auto number = static_cast<std::int64_t>(page);
      if (!list.empty() && list.back().tile == tile && list.back().first + list.back().count == number) {
        ++list.back().count;
      } else {
        list.push_back({tile, number, 1});
      }
    }
  }

  const TransferPlan& plan_;
  const Streams& streams_;
  std::vector<BoxCopy> copies_;                         // by shape
  std::vector<std::vector<std::int64_t>> last_read_;    // by source tile and page
  std::vector<std::vector<std::int64_t>> first_write_;  // by target tile and page
};

}  // namespace

std::int64_t page_bytes() {
  static const std::int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

std::int64_t InPlaceSchedule::excess() const {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < peaks.size(); ++i) most = std::max(most, peaks[i] - larger[i]);
  return most;
}

InPlaceTransfer make_in_place(const TransferPlan& plan, std::int64_t max_bytes) {
  Streams streams = make_streams(plan, all_devices(plan.device_count()), {});
  std::int64_t written = 1;
  for (const DeviceLoad& load : plan.loads()) written = std::max(written, load.target);
  std::optional<InPlaceSchedule> best;
  const std::int64_t first = divide_up(written, std::max<std::int64_t>(max_bytes, page_bytes()));
  for (std::int64_t rounds = std::min(first, most_rounds); rounds <= most_rounds; rounds *= 2) {
    streams.rounds = rounds;
    InPlaceSchedule schedule = PageRounds(plan, streams).schedule();
    const std::int64_t excess = schedule.excess();
    if (!best || excess < best->excess()) best = std::move(schedule);
    if (excess <= max_bytes || rounds > 8 * first) break;
  }
  streams.rounds = best->rounds;
  return {*std::move(best), std::move(streams)};
}

}  // namespace retile::transfer
