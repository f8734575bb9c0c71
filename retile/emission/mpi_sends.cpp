#include "retile/emission/mpi_sends.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/list.h"

namespace retile::emission {
namespace {

// How much more than in the plan a device may send for the sake of a rule in place of a list. The planner's own slack
// is of this order.
constexpr double most_excess = 1.05;

// The lengths of what two devices' arrays share.
Shape shared_shape(const LocalArray& a, const LocalArray& b) {
  Shape shape;
  for (std::size_t i = 0; i < a.runs.size(); ++i) {
    std::int64_t length = 0;
    auto one = a.runs[i].begin();
    auto other = b.runs[i].begin();
    while (one != a.runs[i].end() && other != b.runs[i].end()) {
      length += intersect(one->interval, other->interval).size();
      (one->interval.hi < other->interval.hi ? one : other)++;
    }
    if (length == 0) return {0};
    shape.push_back(length);
  }
  return shape;
}

// The devices that hold each array of one element or more.
std::vector<std::vector<Device>> holders_of(const std::vector<LocalArray>& held) {
  std::map<std::vector<Shape>, std::vector<Device>> holders;  // by the bounds of runs in each dimension
  for (std::size_t device = 0; device < held.size(); ++device) {
    if (product(shared_shape(held[device], held[device])) == 0) continue;
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

// Leaves about so many elements in the shape, as the emitted cut() does. Returns the others; nothing where it stays
// whole.
std::optional<Shape> cut(Shape& shape, std::int64_t elements) {
  const auto longest = std::max_element(shape.begin(), shape.end());
  const std::int64_t slabs = std::max<std::int64_t>(1, elements / (product(shape) / *longest));
  if (slabs >= *longest) return std::nullopt;
  Shape rest = shape;
  rest[static_cast<std::size_t>(longest - shape.begin())] -= slabs;
  *longest = slabs;
  return rest;
}

// What devices lack of an array.
struct Lack {
  Device receiver = 0;
  Shape shape;
};

// Gives the holders equal shares.
void share_out(const std::vector<Device>& holders, const std::vector<Lack>& lacks, std::int64_t lacking, Sends& sends) {
  const std::int64_t share = divide_up(lacking, std::ssize(holders));
  const std::int64_t slack = share / 50;
  std::int64_t left = share;
  auto sender = holders.begin();
  for (const Lack& lack : lacks) {
    for (std::optional<Shape> rest = lack.shape; rest;) {
      Shape shape = *std::exchange(rest, std::nullopt);
      if (left <= slack && sender + 1 != holders.end()) {
        ++sender;
        left = share;
      }
      if (sender + 1 != holders.end() && product(shape) > left + slack) rest = cut(shape, left);
      at(sends.sent, *sender) += product(shape);
      left -= product(shape);
      ++sends.messages;
    }
  }
}

std::int64_t most_of(const std::vector<std::int64_t>& sent) { return *std::max_element(sent.begin(), sent.end()); }

}  // namespace

Sends sends_of(const Stage& stage) {
  const auto devices = static_cast<std::size_t>(stage.after().device_count());
  Sends sends{std::vector<std::int64_t>(devices), std::vector<std::int64_t>(devices)};
  for (Device device = 0; device < stage.after().device_count(); ++device) {
    stage.visit_received(device, [&](const Piece& piece) {
      const std::int64_t elements = volume(piece.box);
      at(sends.received, device) += elements;
      if (piece.from == device || elements == 0) return;
      at(sends.sent, piece.from) += elements;
      ++sends.messages;
    });
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
      const std::int64_t elements = product(shared_shape(at(held, holders.front()), at(after, receiver)));
      if (elements == 0) continue;
      at(sends.received, receiver) += elements;
      if (std::binary_search(holders.begin(), holders.end(), receiver)) continue;
      at(sends.sent, holders[turn++ % holders.size()]) += elements;
      ++sends.messages;
    }
  }
  return sends;
}

Sends shared_sends(const std::vector<LocalArray>& held, const std::vector<LocalArray>& after) {
  Sends sends{std::vector<std::int64_t>(held.size()), std::vector<std::int64_t>(held.size())};
  for (const std::vector<Device>& holders : holders_of(held)) {
    std::vector<Lack> lacks;
    std::int64_t lacking = 0;
    for (Device receiver = 0; receiver < std::ssize(after); ++receiver) {
      Shape shape = shared_shape(at(held, holders.front()), at(after, receiver));
      const std::int64_t elements = product(shape);
      at(sends.received, receiver) += elements;
      if (elements == 0 || std::binary_search(holders.begin(), holders.end(), receiver)) continue;
      lacking += elements;
      lacks.push_back({receiver, std::move(shape)});
    }
    share_out(holders, lacks, lacking, sends);
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
