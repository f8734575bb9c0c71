#include "retile/schedule/stream_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/plan/text.h"

namespace retile {
namespace {

// Cuts between senders are moved to where rows of a box begin, as long as all of them together move less than this part
// of what the busiest device sends.
constexpr std::int64_t moved_part = 1000;

// What is counted anywhere, staging for rounds in flight included, is less than eight times as much.
constexpr std::int64_t most_tile_bytes = std::int64_t{1} << 60U;

std::size_t index(Device device) { return static_cast<std::size_t>(device); }

std::int64_t most_of(const std::vector<std::int64_t>& bytes) { return *std::max_element(bytes.begin(), bytes.end()); }

std::tuple<StreamPhase, Device, Device> key_of(const StreamPlan::Stream& stream) {
  return {stream.phase, stream.from, stream.to};
}

}  // namespace

Hosts even_hosts(std::int64_t devices, std::int64_t count) {
  Hosts hosts;
  for (Device device = 0; device < devices; ++device) hosts.push_back(device * count / devices);
  return hosts;
}

StreamPlan::StreamPlan(std::vector<ArrayClass> classes, std::int64_t device_count, std::int64_t max_bytes, Hosts hosts,
                       TileUse sources, MessageForm form)
    : max_bytes_(max_bytes),
      sources_(sources),
      form_(std::move(form)),
      hosts_(std::move(hosts)),
      classes_(std::move(classes)),
      loads_(index(device_count)) {
  if (hosts_.empty()) hosts_.resize(loads_.size());
  for (std::size_t i = hosts_.size(); i-- > 0;) first_on_host_[hosts_[i]] = static_cast<Device>(i);
  ensure(hosts_.size() == loads_.size(), "every device is on a host");
  ensure(form_.link_rates.empty() || form_.link_rates.size() == loads_.size(), "every device's host has a link");
  for (std::size_t i = 0; i < classes_.size(); ++i) add_class(i);
  add_wants();
  choose_senders();
  list_streams();
  count_crossing();
  if (sources_ == TileUse::kept) require_cap();
  rounds_ = choose_rounds(StreamPhase::from_sources);
  relay_rounds_ = choose_rounds(StreamPhase::passed_on);
}

std::size_t StreamPlan::array_count() const {
  std::size_t count = 0;
  for (const ArrayClass& kind : classes_) count += kind.arrays.size();
  return count;
}

void StreamPlan::add_class(std::size_t number) {
  const ArrayClass& added = classes_[number];
  const auto count = static_cast<std::int64_t>(added.arrays.size());
  std::int64_t all = 0;  // of all tiles so far
  for (const DeviceLoad& load : loads_) all += load.source + load.target;
  for (Device device = 0; device < device_count(); ++device) {
    for (const bool is_target : {false, true}) {
      const std::int64_t elements = (is_target ? added.target : added.source).size(device);
      const auto one = checked_multiply(elements, added.element_size);
      const auto bytes = one ? checked_multiply(*one, count) : std::nullopt;
      const auto sum = bytes ? checked_add(all, *bytes) : std::nullopt;
      if (!sum || *sum > most_tile_bytes) throw InputError("the bytes of all tiles do not fit in 60 bits", {});
      all = *sum;
      (is_target ? loads_[index(device)].target : loads_[index(device)].source) += *bytes;
    }
  }
  std::vector<Cell> cells = find_cells(added.source, added.target, sets_);
  cells_.push_back(has_hosts() ? split_by_hosts(cells, hosts_, sets_) : std::move(cells));
}

void StreamPlan::add_wants() {
  std::map<std::pair<DeviceSets::Number, StreamPhase>, std::size_t> numbers;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    for (std::size_t j = 0; j < cells_[i].size(); ++j) {
      const Cell& cell = cells_[i][j];
      if (sets_[cell.receivers].empty()) continue;
      const auto [found, is_new] = numbers.try_emplace({cell.holders, cell.phase}, supplies_.size());
      if (is_new) supplies_.push_back({cell.holders, cell.phase, {}, 0});
      for (const Device device : sets_[cell.receivers]) {
        supplies_[found->second].wants.push_back(
            {device, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j), 0});
      }
    }
  }
  for (Supply& supply : supplies_) {
    std::stable_sort(supply.wants.begin(), supply.wants.end(),
                     [](const Want& a, const Want& b) { return a.to < b.to; });
    for (Want& want : supply.wants) {
      want.begin = supply.bytes;
      const std::int64_t bytes = cell_bytes(want) * static_cast<std::int64_t>(classes_[want.array_class].arrays.size());
      supply.bytes += bytes;
      loads_[index(want.to)].lacking += bytes;
    }
  }
}

std::int64_t StreamPlan::cell_bytes(const Want& want) const {
  const ArrayClass& kind = classes_[want.array_class];
  return volume(cells_[want.array_class][want.cell].box) * kind.element_size;
}

void StreamPlan::choose_senders() {
  std::vector<SenderDemand> demands;
  demands.reserve(supplies_.size());
  for (const Supply& supply : supplies_) demands.push_back({sets_[supply.holders], supply.bytes});
  SenderShares shares = share_sending(demands, device_count());
  sent_bound_ = shares.bound;
  add_stretches(has_hosts() ? share_by_hosts() : std::move(shares.shares));
}

// Links are what is scarce: hosts share what crosses between them by the rates of their links, then the devices of each
// host share what falls to it.
std::vector<std::vector<std::int64_t>> StreamPlan::share_by_hosts() const {
  const std::vector<SenderDemand> of_hosts = crossing_demands();
  const auto host_shares = share_sending(of_hosts, device_count(), sender_weights(form_.link_rates)).shares;
  std::vector<SenderDemand> of_devices;  // by supply and host
  for (std::size_t i = 0; i < supplies_.size(); ++i) {
    for (std::size_t j = 0; j < of_hosts[i].holders.size(); ++j) {
      const bool is_only = of_hosts[i].holders.size() == 1;  // which sends to devices of its own, too
      of_devices.push_back({{}, is_only ? supplies_[i].bytes : host_shares[i][j]});
      for (const Device device : sets_[supplies_[i].holders]) {
        if (first_on_host(device) == of_hosts[i].holders[j]) of_devices.back().holders.push_back(device);
      }
    }
  }
  const auto device_shares = share_sending(of_devices, device_count()).shares;
  std::vector<std::vector<std::int64_t>> shares(supplies_.size());
  for (std::size_t i = 0, next = 0; i < supplies_.size(); ++i) {
    std::map<Device, std::int64_t> of_holders;  // ascending, as holders are
    for (std::size_t j = 0; j < of_hosts[i].holders.size(); ++j, ++next) {
      for (std::size_t k = 0; k < device_shares[next].size(); ++k) {
        of_holders[of_devices[next].holders[k]] = device_shares[next][k];
      }
    }
    for (const auto& [device, share] : of_holders) shares[i].push_back(share);
  }
  return shares;
}

// What hosts send each other of every supply. A host goes by the number of its first device.
std::vector<SenderDemand> StreamPlan::crossing_demands() const {
  std::vector<SenderDemand> demands;
  for (const Supply& supply : supplies_) {
    SenderDemand& demand = demands.emplace_back();
    for (const Device device : sets_[supply.holders]) demand.holders.push_back(first_on_host(device));
    std::sort(demand.holders.begin(), demand.holders.end());
    demand.holders.erase(std::unique(demand.holders.begin(), demand.holders.end()), demand.holders.end());
    for (std::size_t i = 0; i < supply.wants.size(); ++i) {
      const std::int64_t end = i + 1 < supply.wants.size() ? supply.wants[i + 1].begin : supply.bytes;
      const bool stays = first_on_host(supply.wants[i].to) == demand.holders[0];  // where holders are on one host
      if (demand.holders.size() > 1 || !stays) demand.amount += end - supply.wants[i].begin;
    }
  }
  return demands;
}

// The first holder sends the first bytes, so that few of them send to one receiver.
void StreamPlan::add_stretches(const std::vector<std::vector<std::int64_t>>& shares) {
  const std::int64_t tolerance =
      sent_bound_ / moved_part / std::max<std::int64_t>(1, static_cast<std::int64_t>(supplies_.size()));
  for (std::size_t i = 0; i < supplies_.size(); ++i) {
    const Supply& supply = supplies_[i];
    const std::vector<Device>& holders = sets_[supply.holders];
    std::int64_t shared = 0;
    std::int64_t begin = 0;
    for (std::size_t j = 0; j < holders.size(); ++j) {
      shared += shares[i][j];
      const std::int64_t end =
          j + 1 == holders.size() ? supply.bytes : std::max(begin, nearest_cut(supply, shared, tolerance));
      for (std::size_t want = end > begin ? want_at(supply, begin) : 0; begin < end;) {
        const Device to = supply.wants[want].to;
        while (want < supply.wants.size() && supply.wants[want].to == to) ++want;
        const std::int64_t last = want < supply.wants.size() ? supply.wants[want].begin : supply.bytes;
        assignments_.push_back({supply.phase, holders[j], to, {i, begin, std::min(end, last)}});
        begin = std::min(end, last);
      }
    }
  }
}

std::size_t StreamPlan::want_at(const Supply& supply, std::int64_t position) const {
  const auto after = std::upper_bound(supply.wants.begin(), supply.wants.end(), position,
                                      [](std::int64_t at, const Want& want) { return at < want.begin; });
  return static_cast<std::size_t>(after - supply.wants.begin()) - 1;
}

// Where a cell, a row of it, a row of that and so on begins: the largest of them that is near enough, or an element.
std::int64_t StreamPlan::nearest_cut(const Supply& supply, std::int64_t position, std::int64_t tolerance) const {
  if (position <= 0 || position >= supply.bytes) return std::clamp<std::int64_t>(position, 0, supply.bytes);
  const Want& want = supply.wants[want_at(supply, position)];
  const Box& box = cells_[want.array_class][want.cell].box;
  const std::int64_t offset = (position - want.begin) % cell_bytes(want);
  std::int64_t slab = cell_bytes(want);
  for (std::size_t i = 0;; ++i) {
    const std::int64_t below = offset % slab;
    const bool goes_up = below > slab - below;
    const std::int64_t moved = goes_up ? slab - below : -below;
    if (std::abs(moved) <= tolerance || i == box.lo.size()) return position + moved;
    slab /= box.hi[i] - box.lo[i];
  }
}

void StreamPlan::list_streams() {
  std::sort(assignments_.begin(), assignments_.end(), [](const Assignment& a, const Assignment& b) {
    return std::tie(a.phase, a.from, a.to, a.stretch.supply, a.stretch.begin) <
           std::tie(b.phase, b.from, b.to, b.stretch.supply, b.stretch.begin);
  });
  for (std::size_t i = 0; i < assignments_.size(); ++i) {
    const auto& [phase, from, to, stretch] = assignments_[i];
    if (streams_.empty() || key_of(streams_.back()) != std::tuple(phase, from, to)) {
      streams_.push_back({phase, from, to, 0});
      first_assignment_.push_back(i);
    }
    const std::int64_t bytes = stretch.end - stretch.begin;
    streams_.back().bytes += bytes;
    loads_[index(from)].sent += bytes;
    loads_[index(to)].received += bytes;
  }
  first_assignment_.push_back(assignments_.size());
}

void StreamPlan::count_crossing() {
  std::map<std::int64_t, std::int64_t> bytes;
  for (const std::int64_t host : hosts_) bytes.emplace(host, 0);
  for (const Stream& stream : streams_) {
    if (hosts_[index(stream.from)] != hosts_[index(stream.to)]) bytes[hosts_[index(stream.to)]] += stream.bytes;
  }
  for (const auto& [host, crossing] : bytes) crossing_.push_back(crossing);
}

// What each device stages, with room for the largest part of each of its streams.
std::vector<std::int64_t> StreamPlan::staging_at(std::int64_t rounds, StreamPhase phase) const {
  std::vector<std::int64_t> staging(loads_.size());
  for (const Stream& stream : streams_) {
    if (stream.phase != phase) continue;
    const std::int64_t part = rounds_in_flight * (divide_up(stream.bytes, rounds) + form_.header_bytes);
    staging[index(stream.from)] += part;
    staging[index(stream.to)] += part;
  }
  return staging;
}

std::int64_t StreamPlan::longest_stream(StreamPhase phase) const {
  std::int64_t longest = 0;
  for (const Stream& stream : streams_) longest = std::max(longest, stream.phase == phase ? stream.bytes : 0);
  return longest;
}

std::int64_t StreamPlan::least_cap(StreamPhase phase) const {
  return most_of(staging_at(std::max<std::int64_t>(1, longest_stream(phase)), phase));
}

void StreamPlan::require_cap() const {
  const std::int64_t least = std::max(least_cap(StreamPhase::from_sources), least_cap(StreamPhase::passed_on));
  if (least <= max_bytes_) return;
  throw MemoryLimitError(fmt::format("a cap of {} per device is too small for the messages of a round: "
                                     "the smallest that works is {}",
                                     count_of(max_bytes_, "byte"), count_of(least, "byte")),
                         {});
}

std::int64_t StreamPlan::message_limit(StreamPhase phase) const {
  std::vector<std::int64_t> crossing(loads_.size());  // streams by sender
  for (const Stream& stream : streams_) {
    if (stream.phase != phase || hosts_.empty()) continue;
    const auto from = static_cast<std::size_t>(stream.from);
    if (hosts_[from] != hosts_[static_cast<std::size_t>(stream.to)]) ++crossing[from];
  }
  const std::int64_t most = most_of(crossing);
  return most == 0 ? form_.most_bytes : std::max(form_.most_crossing / most, form_.least_crossing);
}

std::int64_t StreamPlan::choose_rounds(StreamPhase phase) {
  std::int64_t high = longest_stream(phase);
  if (high == 0) return 0;
  std::int64_t low = divide_up(high, message_limit(phase));
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (most_of(staging_at(middle, phase)) <= max_bytes_) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const std::vector<std::int64_t> staging = staging_at(low, phase);
  for (std::size_t i = 0; i < loads_.size(); ++i) loads_[i].staging = std::max(loads_[i].staging, staging[i]);
  return low;
}

std::int64_t StreamPlan::messages() const {
  std::int64_t count = 0;
  for (const Stream& stream : streams_) count += std::min(stream.bytes, rounds(stream.phase));
  return count;
}

void StreamPlan::visit_pieces(const Stream& stream, const std::function<void(const Piece&)>& visit) const {
  const auto place = std::lower_bound(streams_.begin(), streams_.end(), stream,
                                      [](const Stream& a, const Stream& b) { return key_of(a) < key_of(b); });
  const auto number = static_cast<std::size_t>(place - streams_.begin());
  for (std::size_t i = first_assignment_[number]; i < first_assignment_[number + 1]; ++i) {
    visit_stretch(assignments_[i].stretch, stream.from, visit);
  }
}

void StreamPlan::visit_stretch(const Stretch& stretch, Device from,
                               const std::function<void(const Piece&)>& visit) const {
  const Supply& supply = supplies_[stretch.supply];
  std::int64_t position = stretch.begin;
  for (std::size_t i = want_at(supply, position); position < stretch.end; ++i) {
    const Want& want = supply.wants[i];
    const ArrayClass& kind = classes_[want.array_class];
    const Box& box = cells_[want.array_class][want.cell].box;
    const std::int64_t bytes = cell_bytes(want);
    const std::int64_t want_end = want.begin + bytes * static_cast<std::int64_t>(kind.arrays.size());
    while (position < std::min(stretch.end, want_end)) {
      const std::int64_t number = (position - want.begin) / bytes;
      const std::int64_t first = want.begin + number * bytes;
      const std::int64_t end = std::min(stretch.end, first + bytes);
      const std::size_t array = kind.arrays[static_cast<std::size_t>(number)];
      if (position == first && end == first + bytes) {
        visit({array, want.array_class, from, want.to, box, supply.phase});
      } else {
        for (Box& part :
             boxes_of_range(box, (position - first) / kind.element_size, (end - first) / kind.element_size)) {
          visit({array, want.array_class, from, want.to, std::move(part), supply.phase});
        }
      }
      position = end;
    }
  }
}

void StreamPlan::visit_kept(Device device, const std::function<void(const Piece&)>& visit) const {
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    for (const Cell& cell : cells_[i]) {
      const std::vector<Device>& keepers = sets_[cell.keepers];
      if (!std::binary_search(keepers.begin(), keepers.end(), device)) continue;
      for (const std::size_t array : classes_[i].arrays) visit({array, i, device, device, cell.box});
    }
  }
}

}  // namespace retile
