#include "retile/transfer/in_place.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/engines/engine.h"
#include "retile/transfer/streams.h"

namespace retile::transfer {
namespace {

constexpr std::int64_t most_rounds = 4096;

// MPI counts with 32 bits.
constexpr std::int64_t most_round_bytes = 1 << 30;

// The rounds that use each page of each tile of some devices, for one number of rounds.
class PageRounds {
 public:
  PageRounds(const TransferPlan& plan, std::span<const Device> devices, const Streams& streams)
      : devices_(devices), streams_(streams) {
    for (const NamedArray& array : plan.manifest().arrays) {
      const std::int64_t element = bytes_of(plan.manifest().problems[array.problem].element_type());
      for (const Device device : devices) {
        last_read_.emplace_back(pages(plan.source(array.problem).size(device) * element), InPlaceSchedule::never);
        first_write_.emplace_back(pages(plan.target(array.problem).size(device) * element), streams.rounds);
      }
    }
    for (const PieceShape& shape : streams.shapes) copies_.push_back(shape.copy());
    staging_.resize(devices.size());
    for (const Stream& stream : streams.streams) add(stream);
  }

  // `most_relayed` is what passing on stages, by device.
  InPlaceSchedule schedule(const std::vector<std::int64_t>& most_relayed) {
    const auto rounds = static_cast<std::size_t>(streams_.rounds);
    InPlaceSchedule result{streams_.rounds, {}, {}, {}};
    for (std::size_t slot = 0; slot < devices_.size(); ++slot) {
      // Pages that come with a round, less those that go before it.
      std::vector<std::int64_t> change(rounds + 1);
      std::int64_t source = 0;
      std::int64_t target = 0;
      for (std::size_t tile = slot; tile < last_read_.size(); tile += devices_.size()) {
        for (const std::int64_t round : last_read_[tile]) --change[static_cast<std::size_t>(round + 1)];
        for (const std::int64_t round : first_write_[tile]) ++change[static_cast<std::size_t>(round)];
        source += static_cast<std::int64_t>(last_read_[tile].size());
        target += static_cast<std::int64_t>(first_write_[tile].size());
      }
      std::int64_t now = source;
      std::int64_t peak = source;
      for (std::size_t round = 0; round < rounds; ++round) peak = std::max(peak, now += change[round]);
      result.larger.push_back(std::max(source, target) * page_bytes());
      // What is passed on within a host comes when all sources have gone.
      result.peaks.push_back(std::max(peak, target) * page_bytes() + std::max(staging_[slot], most_relayed[slot]));
    }
    result.last_reads = std::move(last_read_);
    return result;
  }

 private:
  // The devices of a stream that are of this process.
  struct Ends {
    std::optional<std::size_t> from;
    std::optional<std::size_t> to;
  };

  static std::size_t pages(std::int64_t bytes) { return static_cast<std::size_t>(divide_up(bytes, page_bytes())); }

  std::optional<std::size_t> slot_of(Device device) const {
    const auto place = std::lower_bound(devices_.begin(), devices_.end(), device);
    if (place == devices_.end() || *place != device) return std::nullopt;
    return static_cast<std::size_t>(place - devices_.begin());
  }

  void add(const Stream& stream) {
    const Ends ends{slot_of(stream.from), slot_of(stream.to)};
    if (!ends.from || !ends.to) {
      const std::int64_t staged = streams_.part_of(stream.bytes, 0).size() * streams_.rounds_in_flight;
      staging_[ends.from ? *ends.from : *ends.to] += staged;
    }
    StreamCursor cursor;
    for (std::int64_t round = 0; round < streams_.rounds; ++round) {
      const std::int64_t bytes = streams_.part_of(stream.bytes, round).size();
      cursor.advance(streams_, stream, bytes,
                     [&](std::size_t piece, ByteRange range) { add(ends, stream.pieces[piece], range, round); });
    }
  }

  // Bytes of a piece, run by run.
  void add(const Ends& ends, const StreamPiece& piece, ByteRange range, std::int64_t round) {
    const BoxCopy& copy = copies_[piece.shape];
    const auto tile_at = [&](const std::optional<std::size_t>& slot, auto& tiles) {
      return slot ? &tiles[piece.array * devices_.size() + *slot] : nullptr;
    };
    std::vector<std::int64_t>* const read = tile_at(ends.from, last_read_);
    std::vector<std::int64_t>* const written = tile_at(ends.to, first_write_);
    for (std::int64_t at = range.begin; at < range.end;) {
      const std::int64_t run = at / copy.run_bytes();
      const std::int64_t end = std::min(range.end, (run + 1) * copy.run_bytes());
      const BoxCopy::RunPlace place = copy.run_place(run);
      const std::int64_t skipped = at - run * copy.run_bytes();
      const auto each_page = [&](std::vector<std::int64_t>* pages, std::int64_t first, const auto& choose) {
        if (pages == nullptr) return;
        for (std::int64_t page = first / page_bytes(); page <= (first + end - at - 1) / page_bytes(); ++page) {
          std::int64_t& other = (*pages)[static_cast<std::size_t>(page)];
          other = choose(other, round);
        }
      };
      each_page(read, piece.from_offset + place.from + skipped,
                [](std::int64_t x, std::int64_t y) { return std::max(x, y); });
      each_page(written, piece.to_offset + place.to + skipped,
                [](std::int64_t x, std::int64_t y) { return std::min(x, y); });
      at = end;
    }
  }

  const std::span<const Device> devices_;
  const Streams& streams_;
  std::vector<BoxCopy> copies_;                         // by shape
  std::vector<std::vector<std::int64_t>> last_read_;    // by source tile and page
  std::vector<std::vector<std::int64_t>> first_write_;  // by target tile and page
  std::vector<std::int64_t> staging_;                   // bytes by device
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

std::int64_t InPlaceSchedule::peak() const { return *std::max_element(peaks.begin(), peaks.end()); }

InPlaceFigures figures_of(const InPlaceSchedule& schedule, const Processes& processes) {
  return {schedule.rounds, processes.most(schedule.peak()), processes.most(schedule.excess())};
}

InPlaceTransfer make_in_place(const TransferPlan& plan) {
  return make_in_place(plan, all_devices(plan.device_count()), one_process());
}

InPlaceTransfer make_in_place(const TransferPlan& plan, std::span<const Device> devices, const Processes& processes) {
  const std::int64_t max_bytes = plan.max_bytes();
  Streams streams = make_streams(plan, devices, {});
  std::int64_t written = 1;
  for (const DeviceLoad& load : plan.loads()) written = std::max(written, load.target);
  std::vector<std::int64_t> most_relayed(devices.size());
  for (std::size_t slot = 0; plan.has_relays() && processes.size() > 1 && slot < devices.size(); ++slot) {
    most_relayed[slot] = plan.loads()[static_cast<std::size_t>(devices[slot])].staging;
  }
  std::optional<InPlaceSchedule> best;
  std::int64_t least = 0;
  const std::int64_t first = divide_up(written, std::clamp<std::int64_t>(max_bytes, page_bytes(), most_round_bytes));
  for (std::int64_t rounds = std::min(first, most_rounds); rounds <= most_rounds; rounds *= 2) {
    streams.rounds = rounds;
    InPlaceSchedule schedule = PageRounds(plan, devices, streams).schedule(most_relayed);
    const std::int64_t excess = processes.most(schedule.excess());
    if (!best || excess < least) {
      best = std::move(schedule);
      least = excess;
    }
    if (excess <= max_bytes || rounds > 8 * first) break;
  }
  streams.rounds = best->rounds;
  return {*std::move(best), std::move(streams)};
}

std::vector<std::vector<PageRange>> find_released(const InPlaceSchedule& schedule,
                                                  std::span<const std::span<const std::byte>> sources) {
  ensure(sources.size() == schedule.last_reads.size(), "there is memory for every tile");
  // Bytes of a source in a page of memory, by its number.
  struct Bytes {
    std::uintptr_t page;
    std::int64_t round;
    std::uintptr_t count;
  };
  const auto page_size = static_cast<std::uintptr_t>(page_bytes());
  std::vector<Bytes> all;
  for (std::size_t tile = 0; tile < sources.size(); ++tile) {
    const std::vector<std::int64_t>& last_reads = schedule.last_reads[tile];
    const auto start = reinterpret_cast<std::uintptr_t>(sources[tile].data());
    const std::uintptr_t end = start + sources[tile].size();
    for (std::uintptr_t at = start; at < end;) {
      const std::size_t number = (at - start) / page_size;  // of the tile's page
      const std::uintptr_t next = std::min({end, (at / page_size + 1) * page_size, start + (number + 1) * page_size});
      all.push_back(
          {at / page_size, number < last_reads.size() ? last_reads[number] : InPlaceSchedule::never, next - at});
      at = next;
    }
  }
  std::sort(all.begin(), all.end(), [](const Bytes& a, const Bytes& b) { return a.page < b.page; });
  std::vector<std::vector<PageRange>> released(static_cast<std::size_t>(schedule.rounds) + 1);
  for (std::size_t i = 0; i < all.size();) {
    const std::uintptr_t page = all[i].page;
    std::int64_t round = InPlaceSchedule::never;
    std::uintptr_t count = 0;
    for (; i < all.size() && all[i].page == page; ++i) {
      round = std::max(round, all[i].round);
      count += all[i].count;
    }
    if (count < page_size) continue;
    std::vector<PageRange>& list =
        round == InPlaceSchedule::never ? released.back() : released[static_cast<std::size_t>(round)];
    const auto* first = reinterpret_cast<const std::byte*>(page * page_size);  // NOLINT(performance-no-int-to-ptr)
    if (!list.empty() && list.back().first + list.back().bytes == first) {
      list.back().bytes += page_size;
    } else {
      list.push_back({first, page_size});
    }
  }
  return released;
}

}  // namespace retile::transfer
