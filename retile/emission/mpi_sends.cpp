#include "retile/emission/mpi_sends.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "retile/base/list.h"

namespace retile::emission {
namespace {

// How much more than in the plan a device may send for the sake of a rule in place of a list. The planner's own slack
// is of this order.
constexpr double most_excess = 1.05;

// The elements that two devices' arrays share.
std::int64_t shared_size(const LocalArray& a, const LocalArray& b) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < a.runs.size() && elements > 0; ++i) {
    std::int64_t length = 0;
    auto one = a.runs[i].begin();
    auto other = b.runs[i].begin();
    while (one != a.runs[i].end() && other != b.runs[i].end()) {
      length += intersect(one->interval, other->interval).size();
      (one->interval.hi < other->interval.hi ? one : other)++;
    }
    elements *= length;
  }
  return elements;
}

// The devices that hold each array of one element or more.
std::vector<std::vector<Device>> holders_of(const std::vector<LocalArray>& held) {
  std::map<std::vector<Shape>, std::vector<Device>> holders;  // by the bounds of runs in each dimension
  for (std::size_t device = 0; device < held.size(); ++device) {
    if (shared_size(held[device], held[device]) == 0) continue;
    std::vector<Shape> bounds;
    for (const std::vector<HeldRun>& runs : held[device].runs) {
      bounds.emplace_back();
      for (const HeldRun& run : runs) bounds.back().insert(bounds.back().end(), {run.interval.lo, run.interval.hi});
    }
    holders[std::move(bounds)].push_back(static_cast<Device>(device));
  }
  std::vector<std::vector<Device>> all;
  for (auto& [bounds, devices] : holders) all.push_back(std::move(devices));
  return all;
}

Shape corner_of(const LocalArray& array) {
  Shape corner;
  for (const std::vector<HeldRun>& runs : array.runs) corner.push_back(runs.empty() ? 0 : runs.front().interval.lo);
  return corner;
}

std::int64_t most_of(const std::vector<std::int64_t>& sent) { return *std::max_element(sent.begin(), sent.end()); }

}  // namespace

Sends sends_of(const Stage& stage) {
  const auto devices = static_cast<std::size_t>(stage.after().device_count());
  Sends sends{std::vector<std::int64_t>(devices), std::vector<std::int64_t>(devices)};
  for (Device device = 0; device < stage.after().device_count(); ++device) {
    std::set<Device> senders;
    stage.visit_received(device, [&](const Piece& piece) {
      const std::int64_t elements = volume(piece.box);
      at(sends.received, device) += elements;
      if (piece.from == device || elements == 0) return;
      at(sends.sent, piece.from) += elements;
      senders.insert(piece.from);
    });
    sends.messages += std::ssize(senders);
  }
  return sends;
}

Sends sends_in_turn(const std::vector<LocalArray>& held, const std::vector<LocalArray>& after) {
  Sends sends{std::vector<std::int64_t>(held.size()), std::vector<std::int64_t>(held.size())};
  std::vector<std::pair<Shape, Device>> order;
  for (std::size_t device = 0; device < after.size(); ++device) {
    order.emplace_back(corner_of(after[device]), static_cast<Device>(device));
  }
  std::sort(order.begin(), order.end());
  for (const std::vector<Device>& holders : holders_of(held)) {
    std::size_t turn = 0;
    for (const auto& [corner, receiver] : order) {
      const std::int64_t elements = shared_size(at(held, holders.front()), at(after, receiver));
      if (elements == 0) continue;
      at(sends.received, receiver) += elements;
      if (std::binary_search(holders.begin(), holders.end(), receiver)) continue;
      at(sends.sent, holders[turn++ % holders.size()]) += elements;
      ++sends.messages;
    }
  }
  return sends;
}

bool is_as_good(const Sends& sends, const Sends& planned) {
  const auto most_allowed = static_cast<double>(most_of(planned.sent)) * most_excess;
  return sends.received == planned.received && static_cast<double>(most_of(sends.sent)) <= most_allowed &&
         sends.messages <= planned.messages;
}

std::size_t most_holders(const std::vector<LocalArray>& held) {
  std::size_t most = 0;
  for (const std::vector<Device>& devices : holders_of(held)) most = std::max(most, devices.size());
  return most;
}

}  // namespace retile::emission
