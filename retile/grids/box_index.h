// Finds those of many boxes that meet a box.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "retile/base/list.h"
#include "retile/types/box.h"

namespace retile {

// Sorted along the dimension in which the boxes differ most.
class BoxIndex {
 public:
  // Indexes boxes, or things that have boxes; none is empty.
  template <typename Held>
  explicit BoxIndex(const std::vector<Held>& list) : BoxIndex(boxes_of(list)) {}
  explicit BoxIndex(std::vector<Box> boxes) : boxes_(std::move(boxes)), order_(numbers_below(boxes_.size())) {
    choose_dimension();
    const auto start = [&](std::size_t i) { return boxes_[i].lo.empty() ? 0 : boxes_[i].lo[dimension_]; };
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return start(a) < start(b); });
    std::int64_t furthest = 0;
    for (const std::size_t i : order_) {
      starts_.push_back(start(i));
      furthest = std::max(furthest, boxes_[i].hi.empty() ? 1 : boxes_[i].hi[dimension_]);
      furthest_.push_back(furthest);
    }
  }

  // visit(index, what it shares with the box), in no particular order.
  template <typename Visit>
  void visit_shared(const Box& box, Visit visit) const {
    const std::int64_t lo = box.lo.empty() ? 0 : box.lo[dimension_];
    const std::int64_t hi = box.hi.empty() ? 1 : box.hi[dimension_];
    auto place = static_cast<std::size_t>(std::lower_bound(starts_.begin(), starts_.end(), hi) - starts_.begin());
    while (place-- > 0 && furthest_[place] > lo) {
      if (auto shared = intersect(boxes_[order_[place]], box)) visit(order_[place], *std::move(shared));
    }
  }

 private:
  template <typename Held>
  static std::vector<Box> boxes_of(const std::vector<Held>& list) {
    std::vector<Box> boxes;
    for (const Held& held : list) boxes.push_back(held.box);
    return boxes;
  }

  void choose_dimension() {
    std::size_t most = 0;
    for (std::size_t i = 0; !boxes_.empty() && i < boxes_[0].lo.size(); ++i) {
      std::set<std::int64_t> starts;
      for (const Box& box : boxes_) starts.insert(box.lo[i]);
      if (starts.size() <= most) continue;
      most = starts.size();
      dimension_ = i;
    }
  }

  std::vector<Box> boxes_;
  std::size_t dimension_ = 0;
  std::vector<std::size_t> order_;      // of boxes_, by rising starts
  std::vector<std::int64_t> starts_;    // in this order
  std::vector<std::int64_t> furthest_;  // end of the boxes up to here
};

}  // namespace retile
