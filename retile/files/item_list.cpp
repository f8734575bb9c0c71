#include "retile/files/item_list.h"

#include <algorithm>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/grids/grid.h"

namespace retile::files {

bool next_combination(std::vector<std::size_t>& numbers, const std::vector<std::size_t>& counts,
                      const DimensionOrder& order) {
  for (std::size_t i = order.size(); i-- > 0;) {
    if (++numbers[order[i]] < counts[order[i]]) return true;
    numbers[order[i]] = 0;
  }
  return false;
}

ItemList::ItemList(const PassPlan& plan, const Processes& processes)
    : plan_(plan), rank_(processes.rank()), ranks_(processes.size()), order_(plan.problem.shape.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  row_major_ = order_;  // NOLINT(*-prefer-member-initializer): before the rotation
  if (plan.swept) {
    const auto swept = order_.begin() + static_cast<std::ptrdiff_t>(*plan.swept);
    std::rotate(order_.begin(), swept, swept + 1);
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    region_counts_.push_back(static_cast<std::size_t>(divide_up(plan.problem.shape[i], plan.region[i])));
  }
  region_.resize(order_.size());
  is_mine() ? enter_region() : next_region();
}

Item ItemList::current() const {
  Item item;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Interval unit = cuts_[i].piece(number_[i]);
    const Interval wanted = cuts_[i].wanted(number_[i]);
    item.unit.lo.push_back(unit.lo);
    item.unit.hi.push_back(unit.hi);
    item.wanted.lo.push_back(wanted.lo);
    item.wanted.hi.push_back(wanted.hi);
  }
  return item;
}

std::int64_t ItemList::count_meeting(const Box& box) const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < order_.size(); ++i) count *= cuts_[i].count_meeting({box.lo[i], box.hi[i]});
  return count;
}

bool ItemList::is_mine() const {
  std::int64_t share = 0;
  for (std::size_t i = 0; i < region_.size(); ++i) {
    const Shape& shard = plan_.problem.target.shard;
    const std::int64_t size = plan_.problem.shape[i];
    const std::int64_t extent = share_extent(plan_.region[i], shard.empty() ? 0 : shard[i], size);
    share = share * divide_up(size, extent) + static_cast<std::int64_t>(region_[i]) * plan_.region[i] / extent;
  }
  return share % ranks_ == rank_;
}

void ItemList::next_region() {
  do {
    is_over_ = !next_combination(region_, region_counts_, row_major_);
  } while (!is_over_ && !is_mine());
  if (!is_over_) enter_region();
}

void ItemList::enter_region() {
  cuts_.clear();
  counts_.clear();
  number_.assign(order_.size(), 0);
  const Shape ranges = plan_.mode == ReadMode::ranges ? range_shape() : Shape();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    cuts_.push_back(plan_.mode == ReadMode::ranges ? range_cuts(i, ranges[i]) : unit_cuts(i));
    counts_.push_back(cuts_.back().count());
  }
}

RegionCuts ItemList::unit_cuts(std::size_t dimension) const {
  const PassProblem& problem = plan_.problem;
  const CutDimension cut{problem.shape[dimension], problem.source.chunk[dimension], problem.source.unit[dimension]};
  const Interval region = region_interval(dimension);
  return {region, cut.unit_interval(cut.unit_at(region.lo)).lo, cut.chunk, cut.unit};
}

RegionCuts ItemList::range_cuts(std::size_t dimension, std::int64_t extent) const {
  const Interval region = region_interval(dimension);
  return {region, region.lo, plan_.problem.source.chunk[dimension], extent};
}

Interval ItemList::region_interval(std::size_t dimension) const {
  const Interval tile = tile_interval(static_cast<std::int64_t>(region_[dimension]), plan_.region[dimension]);
  return {tile.lo, std::min(tile.hi, plan_.problem.shape[dimension])};
}

Shape ItemList::range_shape() const {
  Shape shape;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    shape.push_back(std::min(plan_.problem.source.chunk[i], region_interval(i).size()));
  }
  std::int64_t room = std::max<std::int64_t>(1, most_range_bytes / plan_.problem.element_size);
  for (std::size_t i = shape.size(); i-- > 0;) {
    std::int64_t& extent = shape[plan_.problem.source.order[i]];
    extent = std::min(extent, room);
    room = std::max<std::int64_t>(1, room / extent);
  }
  return shape;
}

}  // namespace retile::files
