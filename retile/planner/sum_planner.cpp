// Plans for sums, maxima and minima: parts are redistributed until every device holds all parts of a piece of its own,
// combined there, and the pieces go on to the target.
#include "retile/planner/sum_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/planner/lowering.h"

namespace retile {
namespace {

bool contains_part(const std::vector<AxisPart>& parts, const AxisPart& part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// How the array is cut into pieces where its parts are combined, and which parts are.
class SumProblem {
 public:
  explicit SumProblem(const Problem& problem) : source_(*problem.source().cuts()), kept_(problem.target().partial()) {
    for (const AxisPart& part : source_.partial) {
      if (!contains_part(kept_, part)) combined_.push_back(part);
    }
  }

  const std::vector<AxisPart>& combined() const { return combined_; }

  // The dimensions of the stacked parts that are combined, ascending.
  std::vector<int> combined_dimensions() const {
    std::vector<int> dimensions;
    for (std::size_t i = 0; i < source_.partial.size(); ++i) {
      if (!contains_part(kept_, source_.partial[i])) dimensions.push_back(static_cast<int>(i));
    }
    return dimensions;
  }

  // Layouts of pieces, with all of their parts or with combined parts.
  Layout all_parts(const MeshLayout& pieces) const { return with_parts(pieces, source_.partial); }
  Layout combined_parts(const MeshLayout& pieces) const { return with_parts(pieces, kept_); }

  // Ways to cut the array into pieces: the source as it is; and source and target cut further along all axes that cut
  // nothing there, for the source also only along those that are combined. The further cuts are in one dimension, or
  // for each prime where the target is cut deepest. A device holds one box of each, so what it combines lies together.
  std::vector<MeshLayout> candidates(const Layout& target) const {
    const MeshLayout source = plain_source();
    std::vector<MeshLayout> layouts{source};
    if (source.view.empty()) return layouts;
    const std::vector<AxisPart> more = unused_parts(source);
    const std::vector<AxisPart> combined = split_into_primes(source_.mesh, combined_);
    std::vector<AxisPart> only_combined;
    std::copy_if(more.begin(), more.end(), std::back_inserter(only_combined),
                 [&](const AxisPart& part) { return contains_part(combined, part); });
    add_finer(layouts, source, more, target);
    if (only_combined != more) add_finer(layouts, source, only_combined, target);
    if (const auto wanted = plain_target(target)) add_finer(layouts, *wanted, unused_parts(*wanted), target);
    return layouts;
  }

  // The target's tiles as pieces; nothing where a device of the source's mesh would not hold one box.
  std::optional<MeshLayout> plain_target(const Layout& target) const {
    std::optional<MeshLayout> layout = target.cuts();
    if (!layout || layout->devices != source_.devices || layout->mesh != source_.mesh) return std::nullopt;
    const bool has_single_boxes = std::all_of(layout->view.begin(), layout->view.end(),
                                              [](const std::vector<Factor>& factors) { return factors.size() == 1; });
    if (!has_single_boxes) return std::nullopt;
    layout->partial.clear();
    return layout;
  }

 private:
  // The source without its parts. Dimensions that are seen in factors are cut as a whole along the same axes.
  MeshLayout plain_source() const {
    MeshLayout layout = source_;
    layout.partial.clear();
    for (std::vector<Factor>& factors : layout.view) {
      Factor whole;
      for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
        whole.size *= factor->size;
        whole.axes.insert(whole.axes.end(), factor->axes.begin(), factor->axes.end());
      }
      factors = {std::move(whole)};
    }
    return layout;
  }

  Layout with_parts(const MeshLayout& pieces, const std::vector<AxisPart>& parts) const {
    MeshLayout layout = pieces;
    layout.view.clear();
    for (const AxisPart& part : parts) {
      layout.view.push_back({{part.size, {}}});
      if (contains_part(kept_, part)) layout.view.back().front().axes = {part};
    }
    layout.view.insert(layout.view.end(), pieces.view.begin(), pieces.view.end());
    return Layout(std::move(layout));
  }

  // The prime parts of the mesh, major to minor, that neither cut the array nor separate parts that are kept.
  std::vector<AxisPart> unused_parts(const MeshLayout& layout) const {
    std::vector<AxisPart> used = split_into_primes(source_.mesh, kept_);
    for (const std::vector<Factor>& factors : layout.view) {
      for (const Factor& factor : factors) {
        for (const AxisPart& part : split_into_primes(source_.mesh, factor.axes)) used.push_back(part);
      }
    }
    std::vector<AxisPart> unused;
    for (const AxisPart& part : source_.mesh.prime_parts()) {
      if (!contains_part(used, part)) unused.push_back(part);
    }
    return unused;
  }

  static void add_finer(std::vector<MeshLayout>& layouts, const MeshLayout& base, const std::vector<AxisPart>& more,
                        const Layout& target) {
    for (std::size_t i = 0; i < base.view.size(); ++i) {
      layouts.push_back(base);
      for (const AxisPart& part : more) cut_further(layouts.back(), i, part);
    }
    layouts.push_back(toward(target, base, more));
  }

  // Cuts the dimension further along the part, as the innermost axis.
  static void cut_further(MeshLayout& layout, std::size_t dimension, const AxisPart& part) {
    std::vector<AxisPart>& axes = layout.view[dimension].front().axes;
    axes.insert(axes.begin(), part);
  }

  static MeshLayout toward(const Layout& target, MeshLayout layout, const std::vector<AxisPart>& more) {
    const std::optional<MeshLayout> wanted = target.cuts();
    for (const AxisPart& part : more) {
      std::size_t best = 0;
      double most = -1;
      for (std::size_t i = 0; i < layout.view.size(); ++i) {
        const double have = tiles_of(layout.view[i]);
        const double left = size_of(layout.view[i]) / have;
        const double lacked = wanted ? tiles_of(wanted->view[i]) / have : 1;
        const double worth = (left >= 2 ? 1e6 : 0) + lacked * 1e3 + left * 1e-9;
        if (worth > most) best = i;
        most = std::max(most, worth);
      }
      cut_further(layout, best, part);
    }
    return layout;
  }

  static double tiles_of(const std::vector<Factor>& factors) {
    double tiles = 1;
    for (const Factor& factor : factors) tiles *= static_cast<double>(tile_count(factor.axes));
    return tiles;
  }
  static double size_of(const std::vector<Factor>& factors) {
    double size = 1;
    for (const Factor& factor : factors) size *= static_cast<double>(factor.size);
    return size;
  }

  const MeshLayout source_;
  const std::vector<AxisPart> kept_;
  std::vector<AxisPart> combined_;
};

}  // namespace

std::int64_t sum_floor(const Problem& problem) {
  const std::int64_t parts = tile_count(problem.source().partial());
  const std::int64_t kept = tile_count(problem.target().partial());
  const Placement target = problem.target().placement(problem.device_count());
  // In doubles, because the array's size times its parts need not fit; rounded down.
  const auto elements = static_cast<double>(product(problem.source().global_shape()));
  double arriving = elements * static_cast<double>(parts - kept) - elements * static_cast<double>(kept);
  std::int64_t most = 0;
  // The number of devices to inspect: 1 if all hold equally much.
  const Device distinct = target.is_even() ? 1 : problem.device_count();
  for (Device device = 0; device < distinct; ++device) {
    arriving += static_cast<double>(target.size(device)) *
                (static_cast<double>(problem.device_count()) / static_cast<double>(distinct));
    most = std::max(most, target.size(device));
  }
  const double average = arriving / static_cast<double>(problem.device_count());
  return std::max(most, static_cast<std::int64_t>(std::ceil(average * (1 - 1e-12))));
}

// The last step before the parts are combined leads to all parts of a piece. Either the pieces contain the target's
// tiles then, or the last step of the plan leads to these.
std::int64_t sum_bound(const Problem& problem) {
  const MeshLayout source = *problem.source().cuts();
  const std::int64_t kept = tile_count(problem.target().partial());
  const std::int64_t combined = tile_count(source.partial) / kept;
  if (combined == 1) return 0;
  const auto parts = static_cast<double>(combined);  // a double, because products need not fit
  const auto elements = static_cast<double>(product(problem.source().global_shape())) * static_cast<double>(kept);
  const double piece = std::ceil(elements / static_cast<double>(source.mesh.device_count()) * (1 - 1e-12));
  const auto target = static_cast<double>(problem.target().local_size());
  return static_cast<std::int64_t>(std::min(parts * std::max(piece, target), parts * piece + target));
}

SumPlan plan_sum(const Problem& problem, const PlanPart& plan_part) {
  const SumProblem sum(problem);
  if (sum.combined().empty()) {  // nothing is combined
    return {plan_part(problem.source().stacked(), problem.target().stacked()), {}, {}};
  }
  const ReduceStep reduce{sum.combined_dimensions(), problem.source().cuts()->reduction, problem.element_type()};
  std::vector<MeshLayout> candidates = sum.candidates(problem.target());
  const std::int64_t bound = std::max(problem.source().local_size(), problem.target().local_size());
  if (auto straight = sum.plain_target(problem.target())) {
    if (problem.target().local_size() <= bound / tile_count(sum.combined())) candidates.push_back(std::move(*straight));
  }
  // Pieces that divide come first. On large meshes others are tried only where those do not suffice, and not at all
  // where they cannot be listed.
  const auto divides = [&](const MeshLayout& pieces) {
    return !Layout::find_fault(pieces) && Layout(pieces).type() != nullptr;
  };
  const auto uneven = std::stable_partition(candidates.begin(), candidates.end(), divides);
  const bool is_large = problem.device_count() > most_tabled_devices;
  std::optional<SumPlan> best;
  std::pair<std::int64_t, std::int64_t> least;  // elements above the bound (if tiles do not divide), then cost
  for (auto candidate = candidates.begin(); candidate != candidates.end(); ++candidate) {
    const MeshLayout& pieces = *candidate;
    if (Layout::find_fault(pieces)) continue;
    const bool has_better = best && ((is_large && least.first == 0) || problem.device_count() > most_listed_world);
    if (candidate >= uneven && has_better) continue;
    SumPlan plan{plan_part(problem.source().stacked(), sum.all_parts(pieces)),
                 plan_part(sum.combined_parts(pieces), problem.target().stacked()), reduce};
    const std::int64_t peak = std::max(height(plan.first.movement), height(plan.second->movement));
    const std::pair rank(std::max<std::int64_t>(0, peak - bound), plan.first.cost.total + plan.second->cost.total);
    if (best && rank >= least) continue;
    least = rank;
    best = std::move(plan);
  }
  if (best) return std::move(*best);
  throw InternalError(
      fmt::format("there is no plan from {} to {}", to_string(problem.source()), to_string(problem.target())));
}

}  // namespace retile
