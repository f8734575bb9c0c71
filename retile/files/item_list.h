// The items that a pass reads, in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/engines/processes.h"
#include "retile/files/cut_dimension.h"
#include "retile/files/rechunk_plan.h"

namespace retile::files {

// The next of all combinations of numbers below `counts`, the last dimension of `order` fastest. False after the last.
bool next_combination(std::vector<std::size_t>& numbers, const std::vector<std::size_t>& counts,
                      const DimensionOrder& order);

// A part of the array that is read at once.
struct Item {
  Box unit;    // what is decoded; may reach beyond the array
  Box wanted;  // of it
};

// The pieces of one dimension of a region that are read. Pieces end where chunks do, and every chunk is cut anew.
class RegionCuts {
 public:
  RegionCuts() = default;
  // `start` is where the first piece begins, at or before the region.
  RegionCuts(Interval region, std::int64_t start, std::int64_t chunk, std::int64_t extent)
      : region_(region),
        start_(start),
        first_end_((start / chunk + 1) * chunk),
        first_pieces_(divide_up(first_end_ - start_, extent)),
        cut_{0, chunk, extent} {}

  std::size_t count() const { return static_cast<std::size_t>(piece_at(region_.hi - 1) + 1); }

  // All elements of a piece, those beyond the region included.
  Interval piece(std::size_t number) const {
    const auto at = static_cast<std::int64_t>(number);
    if (at >= first_pieces_) {
      const Interval later = cut_.unit_interval(at - first_pieces_);
      return {first_end_ + later.lo, first_end_ + later.hi};
    }
    const std::int64_t begin = start_ + at * cut_.unit;
    return {begin, std::min(begin + cut_.unit, first_end_)};
  }
  Interval wanted(std::size_t number) const { return intersect(piece(number), region_); }

  // Pieces that meet elements, some of which are in the region.
  std::int64_t count_meeting(Interval elements) const {
    const Interval shared = intersect(elements, region_);
    return piece_at(shared.hi - 1) - piece_at(shared.lo) + 1;
  }

 private:
  std::int64_t piece_at(std::int64_t element) const {
    return element < first_end_ ? (element - start_) / cut_.unit : first_pieces_ + cut_.unit_at(element - first_end_);
  }

  Interval region_;
  std::int64_t start_ = 0;
  std::int64_t first_end_ = 0;     // of the chunk that holds the start
  std::int64_t first_pieces_ = 0;  // of that chunk
  CutDimension cut_;               // of the chunks behind it
};

// The items of a process's share of a pass: region by region, and in a region along the swept dimension first.
class ItemList {
 public:
  ItemList(const PassPlan& plan, const Processes& processes);

  bool is_over() const { return is_over_; }
  Item current() const;
  void advance() {
    if (!next_combination(number_, counts_, order_)) next_region();
  }

  // Items of the current region that meet these elements, which are some of it.
  std::int64_t count_meeting(const Box& box) const;

 private:
  // Shares go to processes in turn.
  bool is_mine() const;
  void next_region();
  void enter_region();
  RegionCuts unit_cuts(std::size_t dimension) const;
  RegionCuts range_cuts(std::size_t dimension, std::int64_t extent) const;
  Interval region_interval(std::size_t dimension) const;
  // Extents of ranges that are read at once: as large as may be, cut along the outermost dimensions of the source.
  Shape range_shape() const;

  const PassPlan& plan_;
  int rank_;
  int ranks_;
  DimensionOrder order_;      // of items in a region, outermost first
  DimensionOrder row_major_;  // of regions
  std::vector<std::size_t> region_counts_;
  std::vector<std::size_t> region_;
  std::vector<RegionCuts> cuts_;  // of the current region, by dimension
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> number_;
  bool is_over_ = false;
};

}  // namespace retile::files
