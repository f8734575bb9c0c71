#include "retile/planner/best_order.h"

#include <algorithm>
#include <map>

#include "retile/base/error.h"
#include "retile/base/list.h"
#include "retile/grids/box_index.h"

namespace retile {
namespace {

using Corners = std::vector<std::pair<Shape, Shape>>;  // corners of boxes, sorted

Corners corners_of(const Placement& placement, Device device) {
  Corners corners;
  for (const Part& part : placement.parts(device)) corners.emplace_back(part.box.lo, part.box.hi);
  std::sort(corners.begin(), corners.end());
  return corners;
}

// The distinct boxes of each host.
std::map<std::int64_t, Corners> corners_of_hosts(const Placement& placement, const std::vector<std::int64_t>& host_of) {
  std::map<std::int64_t, Corners> hosts;
  for (Device device = 0; device < placement.device_count(); ++device) {
    const Corners more = corners_of(placement, device);
    Corners& corners = hosts[at(host_of, device)];
    corners.insert(corners.end(), more.begin(), more.end());
  }
  for (auto& [host, corners] : hosts) {
    std::sort(corners.begin(), corners.end());
    corners.erase(std::unique(corners.begin(), corners.end()), corners.end());
  }
  return hosts;
}

}  // namespace

TileClasses::TileClasses(const Placement& placement, const std::vector<Device>& devices) {
  std::map<Corners, std::size_t> numbers;
  for (const Device device : devices) {
    const auto [found, is_new] = numbers.try_emplace(corners_of(placement, device), boxes_.size());
    if (is_new) add_class(found->first, device);
    add_device(found->second);
  }
}

TileClasses::TileClasses(const Placement& placement, const std::vector<Device>& devices,
                         const std::vector<std::int64_t>& host_of) {
  const std::map<std::int64_t, Corners> hosts = corners_of_hosts(placement, host_of);
  std::map<std::int64_t, std::size_t> numbers;
  for (const Device device : devices) {
    const std::int64_t host = at(host_of, device);
    const auto [found, is_new] = numbers.try_emplace(host, boxes_.size());
    if (is_new) add_class(hosts.at(host), device);
    add_device(found->second);
  }
}

void TileClasses::add_class(const Corners& corners, Device first) {
  std::vector<Box>& boxes = boxes_.emplace_back();
  for (const auto& [lo, hi] : corners) boxes.push_back({lo, hi});
  sizes_.push_back(0);
  first_devices_.push_back(first);
}

void TileClasses::add_device(std::size_t number) {
  class_of_.push_back(number);
  ++sizes_[number];
}

std::int64_t TileClasses::elements(std::size_t number) const {
  std::int64_t elements = 0;
  for (const Box& box : boxes_[number]) elements += volume(box);
  return elements;
}

std::vector<TransportGain> overlaps(const TileClasses& held, const TileClasses& wanted) {
  struct HeldBox {
    Box box;
    std::size_t holder;
  };
  std::vector<HeldBox> boxes;
  for (std::size_t row = 0; row < held.count(); ++row) {
    for (const Box& box : held.boxes(row)) boxes.push_back({box, row});
  }
  const BoxIndex index(boxes);
  std::vector<TransportGain> gains;
  std::vector<std::int64_t> shared_by(held.count());
  std::vector<std::size_t> holders;  // classes with an entry above 0
  for (std::size_t column = 0; column < wanted.count(); ++column) {
    for (const Box& box : wanted.boxes(column)) {
      index.visit_shared(box, [&](std::size_t number, const Box& shared) {
        const std::size_t row = boxes[number].holder;
        if (shared_by[row] == 0) holders.push_back(row);
        shared_by[row] += volume(shared);
      });
    }
    std::sort(holders.begin(), holders.end());
    for (const std::size_t row : holders) gains.push_back({row, column, std::exchange(shared_by[row], 0)});
    holders.clear();
  }
  return gains;
}

BestOrder::BestOrder(std::vector<Device> devices, TileClasses held, TileClasses wanted,
                     std::vector<TransportGain> gains)
    : devices_(std::move(devices)),
      held_(std::move(held)),
      wanted_(std::move(wanted)),
      transport_problem_{held_.sizes(), wanted_.sizes(), std::move(gains)} {
  for (std::size_t place = 0; place < devices_.size(); ++place) {
    const std::optional<std::size_t> entry = given_entry(place);
    if (!entry) continue;
    ++transport_problem_.gains[*entry].first;
    gained_before_ += transport_problem_.gains[*entry].gain;
  }
  transport_ = best_transport(transport_problem_);
  ensure(is_proved(transport_problem_, transport_), "prices prove that no other order gains more");
}

std::int64_t BestOrder::gain_of(const std::vector<Device>& order) const {
  std::map<Device, std::size_t> rows;
  for (std::size_t place = 0; place < devices_.size(); ++place) rows[devices_[place]] = held_.of(place);
  std::int64_t gain = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::optional<std::size_t> entry = find_entry(rows.at(order[place]), wanted_.of(place));
    if (entry) gain += transport_problem_.gains[*entry].gain;
  }
  return gain;
}

std::vector<Device> BestOrder::devices() const {
  std::vector<std::int64_t> units = transport_.units;
  std::vector<std::optional<Device>> chosen(devices_.size());
  std::vector<bool> is_used(devices_.size());  // by the device's place in the given order
  const auto choose = [&](std::size_t place, std::size_t from) {
    chosen[place] = devices_[from];
    is_used[from] = true;
  };
  for (std::size_t place = 0; place < devices_.size(); ++place) {
    const std::optional<std::size_t> entry = given_entry(place);
    if (!entry || units[*entry] == 0) continue;
    --units[*entry];
    choose(place, place);
  }
  ship_rest(units, chosen, is_used, choose);
  for (std::size_t place = 0; place < devices_.size(); ++place) {
    if (!chosen[place] && !is_used[place]) choose(place, place);
  }
  std::size_t from = 0;
  for (std::size_t place = 0; place < devices_.size(); ++place) {
    if (chosen[place]) continue;
    while (is_used[from]) ++from;
    choose(place, from);
  }
  std::vector<Device> devices;
  for (const std::optional<Device>& device : chosen) devices.push_back(*device);
  return devices;
}

// The index of the pair's gain; nothing where the pair has none.
std::optional<std::size_t> BestOrder::find_entry(std::size_t row, std::size_t column) const {
  const std::pair key(column, row);
  const std::vector<TransportGain>& gains = transport_problem_.gains;
  const auto key_of = [](const TransportGain& entry) { return std::pair(entry.column, entry.row); };
  const auto found =
      std::lower_bound(gains.begin(), gains.end(), key,
                       [&](const TransportGain& entry, const auto& wanted) { return key_of(entry) < wanted; });
  if (found == gains.end() || key_of(*found) != key) return std::nullopt;
  return static_cast<std::size_t>(found - gains.begin());
}

// Gives the remaining units to the first free devices of their rows and the first free places of their columns.
template <typename Choose>
void BestOrder::ship_rest(const std::vector<std::int64_t>& units, const std::vector<std::optional<Device>>& chosen,
                          const std::vector<bool>& is_used, Choose choose) const {
  std::vector<std::vector<std::size_t>> free_devices(held_.count());
  std::vector<std::vector<std::size_t>> free_places(wanted_.count());
  for (std::size_t i = devices_.size(); i-- > 0;) {  // so that the first are at the back
    if (!is_used[i]) free_devices[held_.of(i)].push_back(i);
    if (!chosen[i]) free_places[wanted_.of(i)].push_back(i);
  }
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::vector<std::size_t>& from = free_devices[transport_problem_.gains[i].row];
    std::vector<std::size_t>& to = free_places[transport_problem_.gains[i].column];
    for (std::int64_t unit = 0; unit < units[i]; ++unit) {
      choose(to.back(), from.back());
      to.pop_back();
      from.pop_back();
    }
  }
}

}  // namespace retile
