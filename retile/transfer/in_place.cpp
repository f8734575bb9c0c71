#include "retile/transfer/in_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/engines/engine.h"
#include "retile/plan/text.h"
#include "retile/schedule/planned_streams.h"

namespace retile::transfer {
namespace {

// Rounds are powers of two up to this.
constexpr std::int64_t most_rounds = 4096;

// Where the cap allows fewer, a round still fills no more than such a part of a device's target.
constexpr std::int64_t even_rounds = 16;

// MPI counts with 32 bits.
constexpr std::int64_t most_round_bytes = 1 << 30;

// Pages of a device's tiles.
struct TilePages {
  std::int64_t source = 0;
  std::int64_t target = 0;
};

TilePages count_pages(const TransferPlan& plan, const std::vector<std::int64_t>& arrays, Device device,
                      std::int64_t page, const JoinedSides* joined) {
  if (joined != nullptr) {
    return {divide_up(joined->sources.bytes(device), page), divide_up(joined->targets.bytes(device), page)};
  }
  TilePages pages;
  for (std::size_t problem = 0; problem < arrays.size(); ++problem) {
    const std::int64_t element = bytes_of(plan.manifest().problems[problem].element_type());
    const auto count = [&](const Placement& placement) {
      return divide_up(placement.size(device) * element, page) * arrays[problem];
    };
    pages.source += count(plan.source(problem));
    pages.target += count(plan.target(problem));
  }
  return pages;
}

bool has_both_sides(const TransferPlan& plan, Device device) {
  const DeviceLoad& load = plan.loads()[static_cast<std::size_t>(device)];
  return load.source > 0 && load.target > 0;
}

// Figures for one number of rounds or another.
class InPlacePrediction {
 public:
  InPlacePrediction(const TransferPlan& plan, std::span<const Device> devices, const Processes& processes,
                    Streams& streams, const std::vector<bool>& staged, std::int64_t page, const JoinedSides* joined)
      : plan_(plan),
        devices_(devices),
        processes_(processes),
        streams_(streams),
        staged_(staged),
        page_(page),
        page_rounds_(streams, page) {
    std::vector<std::int64_t> arrays(plan.manifest().problems.size());
    for (const NamedArray& array : plan.manifest().arrays) ++arrays[array.problem];
    for (const Device device : devices) pages_.push_back(count_pages(plan, arrays, device, page, joined));
  }

  InPlaceFigures at(std::int64_t rounds) {
    streams_.rounds = rounds;
    InPlaceFigures figures;
    figures.rounds = rounds;
    figures.staging.resize(devices_.size());
    for (std::size_t i = 0; i < staged_.size(); ++i) {
      const Stream& stream = streams_.streams[i];
      if (!staged_[i]) continue;
      const Device ours = is_ours(stream.from) ? stream.from : stream.to;
      const auto slot = std::lower_bound(devices_.begin(), devices_.end(), ours) - devices_.begin();
      figures.staging[static_cast<std::size_t>(slot)] +=
          streams_.part_of(stream.bytes, 0).size() * streams_.rounds_in_flight;
    }
    for (std::size_t slot = 0; slot < devices_.size(); ++slot) {
      figures.larger.push_back(std::max(pages_[slot].source, pages_[slot].target) * page_);
      figures.peaks.push_back(peak_pages(slot) * page_ + figures.staging[slot]);
    }
    sum_up(figures);
    return figures;
  }

  // What is passed on within a host comes when all sources have gone.
  void add_relays(InPlaceFigures& figures) const {
    const std::vector<std::int64_t> staging = plan_.relay_staging();
    for (std::size_t slot = 0; slot < devices_.size(); ++slot) {
      const std::int64_t relayed = staging[static_cast<std::size_t>(devices_[slot])];
      figures.peaks[slot] = std::max(figures.peaks[slot], pages_[slot].target * page_ + relayed);
    }
    sum_up(figures);
    figures.least_cap = std::max(figures.least_cap, plan_.least_cap(StreamPhase::passed_on));
  }

 private:
  bool is_ours(Device device) const { return std::binary_search(devices_.begin(), devices_.end(), device); }

  void sum_up(InPlaceFigures& figures) const {
    std::int64_t peak = 0;
    std::int64_t excess = 0;
    for (std::size_t slot = 0; slot < devices_.size(); ++slot) {
      peak = std::max(peak, figures.peaks[slot]);
      excess = std::max(excess, figures.peaks[slot] - figures.larger[slot]);
    }
    figures.peak = processes_.most(peak);
    figures.excess = processes_.most(excess);
  }

  // The most pages that the device has at once.
  std::int64_t peak_pages(std::size_t slot) {
    const TilePages& pages = pages_[slot];
    std::int64_t peak = std::max(pages.source, pages.target);
    if (!has_both_sides(plan_, devices_[slot])) return peak;
    // Pages that come with a round, less those that go before it.
    std::vector<std::int64_t> change(static_cast<std::size_t>(streams_.rounds) + 1);
    std::int64_t now = 0;  // what nobody reads goes before the first round
    for (const PageUse use : {PageUse::last_read, PageUse::first_write}) {
      page_rounds_.visit_tiles(devices_[slot], use, [&](std::size_t, const std::vector<PageRun>& runs) {
        for (const PageRun& run : runs) {
          if (run.round == PageRun::never) continue;
          if (use == PageUse::last_read) {
            change[static_cast<std::size_t>(run.round + 1)] -= run.pages;
            now += run.pages;
          } else {
            change[static_cast<std::size_t>(run.round)] += run.pages;
          }
        }
      });
    }
    for (const std::int64_t pages_more : change) peak = std::max(peak, now += pages_more);
    return peak;
  }

  const TransferPlan& plan_;
  const std::span<const Device> devices_;
  const Processes& processes_;
  Streams& streams_;
  const std::vector<bool>& staged_;  // streams
  const std::int64_t page_;          // bytes
  PageRounds page_rounds_;
  std::vector<TilePages> pages_;  // by device
};

// Powers of two: rounds that fill no more than the cap, or less, and as many as there are bytes, or less.
struct RoundLimits {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

RoundLimits round_limits(const TransferPlan& plan, std::int64_t page) {
  std::int64_t written = 1;  // by a device
  for (const DeviceLoad& load : plan.loads()) written = std::max(written, load.target);
  const auto power = [](std::int64_t rounds) {
    return std::min(most_rounds, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rounds))));
  };
  const std::int64_t even = std::min(even_rounds, divide_up(written, page));
  const std::int64_t fill = std::clamp(plan.max_bytes(), page, most_round_bytes);
  return {power(std::max(even, divide_up(written, fill))), power(written)};
}

}  // namespace

InPlaceFigures choose_in_place(const TransferPlan& plan, std::span<const Device> devices, const Processes& processes,
                               Streams& streams, const std::vector<bool>& staged, std::int64_t page,
                               const JoinedSides* joined) {
  InPlacePrediction prediction(plan, devices, processes, streams, staged, page, joined);
  const RoundLimits limits = round_limits(plan, page);
  // Twice as many rounds never have more at once: where one round has read and written, two have, one after the other.
  InPlaceFigures figures = prediction.at(limits.first);
  while (figures.excess > plan.max_bytes() && figures.rounds < limits.last) {
    figures = prediction.at(2 * figures.rounds);
  }
  figures.least_cap = figures.excess;
  if (plan.has_relays() && processes.size() > 1) prediction.add_relays(figures);
  return figures;
}

InPlaceFigures choose_in_place(const TransferPlan& plan) {
  const std::vector<Device> all = all_devices(plan.device_count());
  // Rounds matter where sources go as targets come.
  std::vector<Device> both;
  std::copy_if(all.begin(), all.end(), std::back_inserter(both),
               [&](Device device) { return has_both_sides(plan, device); });
  Streams streams = make_streams(plan, both, {});
  return choose_in_place(plan, all, one_process(), streams, {});
}

void require_cap(const TransferPlan& plan, const InPlaceFigures& figures) {
  if (figures.least_cap <= plan.max_bytes()) return;
  throw MemoryLimitError(
      fmt::format("in place, {} bytes beyond the larger of source and target are too few for these shapes",
                  group_digits(plan.max_bytes())),
      fmt::format("the smallest cap that works in place is {} bytes", group_digits(figures.least_cap)));
}

std::int64_t messages_of(const StreamPlan& plan, const InPlaceFigures& figures) {
  std::int64_t count = 0;
  for (const TransferPlan::Stream& stream : plan.streams()) {
    count +=
        std::min(stream.bytes, stream.phase == StreamPhase::passed_on ? plan.rounds(stream.phase) : figures.rounds);
  }
  return count;
}

InPlaceSchedule make_schedule(const Streams& streams, std::span<const Device> devices) {
  InPlaceSchedule schedule{streams.rounds, {}};
  schedule.last_reads.resize(streams.array_count * devices.size());
  PageRounds page_rounds(streams);
  for (std::size_t slot = 0; slot < devices.size(); ++slot) {
    page_rounds.visit_tiles(devices[slot], PageUse::last_read,
                            [&](std::size_t array, const std::vector<PageRun>& runs) {
                              schedule.last_reads[array * devices.size() + slot] = runs;
                            });
  }
  return schedule;
}

JoinedSchedule make_schedule(const Streams& streams, const JoinedSides& sides, std::span<const Device> devices,
                             std::int64_t page) {
  JoinedSchedule schedule{streams.rounds, {}, {}};
  PageRounds page_rounds(streams, page);
  const auto add = [&](PageUse use, const JoinedTiles& joined, std::vector<std::vector<PageRun>>& list) {
    list.resize(devices.size());
    for (std::size_t slot = 0; slot < devices.size(); ++slot) {
      std::int64_t rest = divide_up(joined.bytes(devices[slot]), page);
      page_rounds.visit_tiles(devices[slot], use, [&](std::size_t, const std::vector<PageRun>& runs) {
        list[slot] = runs;
        for (const PageRun& run : runs) rest -= run.pages;
      });
      if (rest > 0) list[slot].push_back({rest, PageRun::never});
    }
  };
  add(PageUse::last_read, sides.sources, schedule.last_reads);
  add(PageUse::first_write, sides.targets, schedule.first_writes);
  return schedule;
}

namespace {

// Memory of sources that goes after one round.
struct Donated {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::int64_t round;
};

// Apart, in the order of addresses. What several tiles share goes after the last of them.
std::vector<Donated> separate(const std::vector<Donated>& all) {
  std::vector<std::uintptr_t> ends;
  for (const Donated& one : all) {
    ends.push_back(one.begin);
    ends.push_back(one.end);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  constexpr std::int64_t nobody = PageRun::never - 1;
  std::vector<Donated> apart;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) apart.push_back({ends[i], ends[i + 1], nobody});
  for (const Donated& one : all) {
    auto at = static_cast<std::size_t>(std::lower_bound(ends.begin(), ends.end(), one.begin) - ends.begin());
    for (; at < apart.size() && apart[at].begin < one.end; ++at) apart[at].round = std::max(apart[at].round, one.round);
  }
  std::erase_if(apart, [](const Donated& one) { return one.round == nobody; });
  return apart;
}

std::vector<Donated> find_donated(const InPlaceSchedule& schedule,
                                  std::span<const std::span<const std::byte>> sources) {
  std::vector<Donated> all;
  for (std::size_t tile = 0; tile < sources.size(); ++tile) {
    auto at = reinterpret_cast<std::uintptr_t>(sources[tile].data());
    const std::uintptr_t end = at + sources[tile].size();
    const auto add = [&](std::uintptr_t bytes, std::int64_t round) {
      const std::uintptr_t next = at + std::min(bytes, end - at);
      if (next > at) all.push_back({at, next, round});
      at = next;
    };
    for (const PageRun& run : schedule.last_reads[tile]) {
      add(static_cast<std::uintptr_t>(run.pages * page_bytes()), run.round);
    }
    add(end - at, PageRun::never);
  }
  return separate(all);
}

}  // namespace

std::vector<std::vector<PageRange>> find_released(const InPlaceSchedule& schedule,
                                                  std::span<const std::span<const std::byte>> sources) {
  ensure(sources.size() == schedule.last_reads.size(), "there is memory for every tile");
  const auto page_size = static_cast<std::uintptr_t>(page_bytes());
  std::vector<std::vector<PageRange>> released(static_cast<std::size_t>(schedule.rounds) + 1);
  const auto release = [&](std::uintptr_t begin, std::uintptr_t end, std::int64_t round) {
    if (begin == end) return;
    std::vector<PageRange>& list =
        round == PageRun::never ? released.back() : released[static_cast<std::size_t>(round)];
    const auto* first = reinterpret_cast<const std::byte*>(begin);  // NOLINT(performance-no-int-to-ptr)
    if (!list.empty() && list.back().first + list.back().bytes == first) {
      list.back().bytes += end - begin;
    } else {
      list.push_back({first, end - begin});
    }
  };
  // A page of several parts: how far they have filled it, and the last of their rounds.
  std::uintptr_t shared = 0;
  std::uintptr_t filled = 0;
  std::int64_t last = PageRun::never;
  for (const auto& [begin, end, round] : find_donated(schedule, sources)) {
    for (std::uintptr_t at = begin; at < end;) {
      const std::uintptr_t page = at / page_size * page_size;
      const std::uintptr_t whole_end = end / page_size * page_size;
      if (at == page && whole_end > at) {
        release(at, whole_end, round);
        at = whole_end;
        continue;
      }
      const std::uintptr_t next = std::min(end, page + page_size);
      if (page != shared) filled = 0;
      last = filled == 0 ? round : std::max(last, round);
      shared = page;
      filled += next - at;
      if (filled == page_size) release(page, page + page_size, last);
      at = next;
    }
  }
  return released;
}

}  // namespace retile::transfer
