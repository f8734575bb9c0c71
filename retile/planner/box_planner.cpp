// One exchange between any boxes: every device is sent what it lacks, and holders of the same box share the sending.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "retile/grids/box_index.h"
#include "retile/planner/planned_steps.h"

namespace retile {
namespace {

// A box of the source and the devices that hold it.
struct HeldBox {
  Box box;
  std::vector<Device> holders;
};

std::vector<HeldBox> held_boxes(const Placement& placement) {
  std::map<std::pair<Shape, Shape>, std::size_t> numbers;
  std::vector<HeldBox> boxes;
  for (Device device = 0; device < placement.device_count(); ++device) {
    for (Part& part : placement.parts(device)) {
      const auto [found, is_new] = numbers.try_emplace({part.box.lo, part.box.hi}, boxes.size());
      if (is_new) boxes.push_back({std::move(part.box), {}});
      boxes[found->second].holders.push_back(device);
    }
  }
  return boxes;
}

// Cuts a box into one of at most this many elements, of which it has more, and the rest, between slabs of its longest
// dimension. Where already a slab has more, that is cut off.
std::pair<Box, Box> cut_box(const Box& box, std::int64_t elements) {
  std::size_t longest = 0;
  for (std::size_t i = 1; i < box.lo.size(); ++i) {
    if (box.hi[i] - box.lo[i] > box.hi[longest] - box.lo[longest]) longest = i;
  }
  const std::int64_t slab = volume(box) / (box.hi[longest] - box.lo[longest]);
  std::pair<Box, Box> cut{box, box};
  cut.first.hi[longest] = cut.second.lo[longest] = box.lo[longest] + std::max<std::int64_t>(1, elements / slab);
  return cut;
}

class BoxExchange {
 public:
  BoxExchange(const Placement& source, const Placement& target)
      : target_(target), held_(held_boxes(source)), sent_(size(source.device_count())) {}

  std::vector<Transfer> transfers() {
    std::vector<std::vector<Transfer>> wanted = find_pieces();
    // Boxes with few holders have the least choice.
    std::vector<std::size_t> order(held_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return held_[a].holders.size() < held_[b].holders.size(); });
    for (const std::size_t box : order) deal(held_[box].holders, std::move(wanted[box]));
    std::sort(transfers_.begin(), transfers_.end(), [](const Transfer& a, const Transfer& b) {
      return std::tie(a.to, a.from, a.box.lo) < std::tie(b.to, b.from, b.box.lo);
    });
    return std::move(transfers_);
  }

 private:
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  // What devices lack of their target boxes, by the source's box that has it; senders are left open.
  std::vector<std::vector<Transfer>> find_pieces() const {
    std::vector<Box> boxes;
    boxes.reserve(held_.size());
    for (const HeldBox& held : held_) boxes.push_back(held.box);
    const BoxIndex index(std::move(boxes));
    std::vector<std::vector<Transfer>> pieces(held_.size());
    for (Device device = 0; device < target_.device_count(); ++device) {
      for (const Part& part : target_.parts(device)) {
        index.visit_shared(part.box, [&](std::size_t box, Box shared) {
          const std::vector<Device>& holders = held_[box].holders;
          if (std::binary_search(holders.begin(), holders.end(), device)) return;
          pieces[box].push_back({0, device, std::move(shared)});
        });
      }
    }
    return pieces;
  }

  // Fills the holders up to a common level of elements sent, within what is not worth another message.
  void deal(const std::vector<Device>& holders, std::vector<Transfer> pieces) {
    std::int64_t left = 0;
    for (const Transfer& piece : pieces) left += volume(piece.box);
    std::vector<Device> order = holders;
    const auto load = [&](Device device) -> std::int64_t& { return sent_[size(device)]; };
    std::stable_sort(order.begin(), order.end(), [&](Device a, Device b) { return load(a) < load(b); });
    std::reverse(pieces.begin(), pieces.end());  // the first is last, to be taken off
    for (std::size_t i = 0; i < order.size() && !pieces.empty(); ++i) {
      const bool is_last = i + 1 == order.size();
      const std::int64_t room = level(order, i, left) - load(order[i]);
      const std::int64_t slack = room / 50;
      std::int64_t taken = 0;
      while (!pieces.empty() && (is_last || taken + slack < room)) {
        Transfer& piece = pieces.back();
        const std::int64_t elements = volume(piece.box);
        if (!is_last && taken + elements > room + slack) {
          auto [first, rest] = cut_box(piece.box, room + slack - taken);
          const Device to = piece.to;
          piece.box = std::move(rest);
          pieces.push_back({0, to, std::move(first)});
          continue;
        }
        transfers_.push_back({order[i], piece.to, std::move(piece.box)});
        pieces.pop_back();
        taken += elements;
      }
      load(order[i]) += taken;
      left -= taken;
    }
  }

  // What each of the devices from `first` on has sent once they share this many elements. By rising loads.
  std::int64_t level(const std::vector<Device>& order, std::size_t first, std::int64_t elements) const {
    std::int64_t sum = elements;
    std::int64_t result = 0;
    for (std::size_t i = first; i < order.size(); ++i) {
      const std::int64_t load = sent_[size(order[i])];
      if (i > first && load >= result) break;
      sum += load;
      const auto count = static_cast<std::int64_t>(i - first + 1);
      result = (sum + count - 1) / count;
    }
    return result;
  }

  const Placement& target_;
  const std::vector<HeldBox> held_;
  std::vector<std::int64_t> sent_;  // elements, by device
  std::vector<Transfer> transfers_;
};

}  // namespace

PlannedSteps plan_boxes(const Placement& source, const Placement& target) {
  std::vector<Transfer> transfers = BoxExchange(source, target).transfers();
  if (transfers.empty()) return {{{SliceStep{}, target}}, 0};
  return {{{ExchangeStep{std::move(transfers)}, target}}, target.local_size()};
}

}  // namespace retile
