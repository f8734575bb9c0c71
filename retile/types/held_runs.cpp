#include "retile/types/held_runs.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

namespace retile {
namespace {

// A run, or several equal runs, as a box of factors, major to minor.
struct ViewedRun {
  std::vector<Interval> intervals;
  std::int64_t start = 0;
  Shape steps;
};

// The interval that a run covers in one period, in elements of the period, and the step between its elements.
using Inside = std::pair<std::pair<std::int64_t, std::int64_t>, std::int64_t>;

// The periods that runs go through, as runs of the outer factors, keyed by the interval that they cover in each period.
class Periods {
 public:
  explicit Periods(std::int64_t period) : period_(period) {}

  // Adds a run as at most three pieces: whole periods, and parts of one period before and after them.
  void add(const HeldRun& run) {
    auto [lo, hi] = run.interval;
    const auto piece = [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t round = begin / period_;
      const std::int64_t rounds = std::max<std::int64_t>(1, (end - begin) / period_);
      const std::int64_t inside = begin - round * period_;
      const HeldRun outer{{round, round + rounds},
                          run.start + (begin - run.interval.lo) * run.step,
                          std::min(period_, end - begin) * run.step};
      add(outer, {{inside, inside + std::min(period_, end - begin)}, run.step});
    };
    if (const std::int64_t begun = lo % period_; begun > 0) {
      const std::int64_t head = lo + std::min(hi - lo, period_ - begun);
      piece(lo, head);
      lo = head;
    }
    if (const std::int64_t tail = hi / period_ * period_; tail > lo) {
      piece(lo, tail);
      lo = tail;
    }
    if (hi > lo) piece(lo, hi);
  }

  const std::map<Inside, std::vector<HeldRun>>& runs() const { return runs_; }

 private:
  void add(const HeldRun& run, const Inside& inside) {
    std::vector<HeldRun>& runs = runs_[inside];
    if (!runs.empty() && runs.back().interval.hi == run.interval.lo) {
      HeldRun& last = runs.back();
      const std::int64_t step = (run.start - last.start) / last.interval.size();
      const bool goes_on = last.start + step * last.interval.size() == run.start &&
                           (last.interval.size() == 1 || last.step == step) &&
                           (run.interval.size() == 1 || run.step == step);
      if (goes_on) {
        last = {{last.interval.lo, run.interval.hi}, last.start, step};
        return;
      }
    }
    runs.push_back(run);
  }

  const std::int64_t period_;
  std::map<Inside, std::vector<HeldRun>> runs_;
};

std::vector<ViewedRun> viewed_runs(const std::vector<HeldRun>& runs, std::span<const std::int64_t> factors) {
  std::vector<ViewedRun> viewed;
  if (factors.size() == 1) {
    for (const HeldRun& run : runs) viewed.push_back({{run.interval}, run.start, {run.step}});
    return viewed;
  }
  Periods periods(factors.back());
  for (const HeldRun& run : runs) periods.add(run);
  for (const auto& [inside, outer] : periods.runs()) {
    for (ViewedRun& run : viewed_runs(outer, factors.first(factors.size() - 1))) {
      run.intervals.push_back({inside.first.first, inside.first.second});
      run.steps.push_back(inside.second);
      viewed.push_back(std::move(run));
    }
  }
  return viewed;
}

// The distance between neighbouring elements along each dimension of the device's own array.
Shape strides_of(const LocalArray& array, const std::vector<int>& order) {
  Shape strides(array.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    const std::size_t dimension = order.empty() ? i : static_cast<std::size_t>(order[i]);
    strides[dimension] = stride;
    stride *= array.shape[dimension];
  }
  return strides;
}

}  // namespace

std::vector<HeldRun> joined_runs(const std::vector<Interval>& intervals) {
  std::vector<HeldRun> runs;
  std::int64_t start = 0;
  for (const Interval& interval : intervals) {
    if (interval.size() == 0) continue;
    runs.push_back({interval, start, 1});
    start += interval.size();
  }
  return runs;
}

std::vector<Part> parts_of(const LocalArray& array, const std::vector<int>& order, const std::vector<Shape>& view) {
  const Shape strides = strides_of(array, order);
  std::vector<Part> parts{{{}, array.offset, {}}};
  for (std::size_t i = 0; i < array.runs.size(); ++i) {
    const Shape whole{0};
    std::vector<Part> longer;
    const std::vector<ViewedRun> runs = viewed_runs(array.runs[i], view.empty() ? whole : view[i]);
    for (const Part& part : parts) {
      for (const ViewedRun& run : runs) {
        Part& more = longer.emplace_back(part);
        more.offset += run.start * strides[i];
        for (const Interval& interval : run.intervals) {
          more.box.lo.push_back(interval.lo);
          more.box.hi.push_back(interval.hi);
        }
        for (const std::int64_t step : run.steps) more.strides.push_back(step * strides[i]);
      }
    }
    parts = std::move(longer);
  }
  if (!view.empty()) {
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.box.lo < b.box.lo; });
  }
  return parts;
}

}  // namespace retile
