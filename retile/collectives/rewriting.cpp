#include "retile/collectives/rewriting.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

using Steps = std::vector<Collective>;

// What a lemma puts in the place of two neighbouring collectives.
struct Replacement {
  std::string rule;
  Steps steps;
};

const AxisPart& single_axis(const Collective& step) {
  const std::vector<AxisPart>& axes = axes_of(step);
  ensure(axes.size() == 1, "the rewriting works on single prime axes");
  return axes.front();
}

Steps swap(const Collective& first, const Collective& second) { return {second, first}; }

DistributedType with_cut(const DistributedType& type, int dimension, const AxisPart& part) {
  return type_after(type, DynSlice{dimension, {part}});
}

// A free prime axis of the size: `preferred` where it is free, otherwise the first.
AxisPart free_axis(const DistributedType& type, const AxisPart& preferred) {
  if (!type.uses(preferred)) return preferred;
  for (const AxisPart& part : type.free_primes()) {
    if (part.size == preferred.size) return part;
  }
  throw InternalError("equal local shapes use equally many axes of each size");
}

// lem:peak: allgather(i) on y : m, then dynslice(j, x : n).
Replacement rewrite_peak(const DistributedType& start, const AllGather& gather, const DynSlice& slice) {
  const AxisPart y = single_axis(gather);
  const AxisPart x = single_axis(slice);
  const DistributedType end = type_after(type_after(start, gather), slice);
  if (gather.dimension == slice.dimension) {
    if (x == y) return {"lem:peak, case 1 (i = j, x = y)", {}};
    if (x.size == y.size) return {"lem:peak, case 2 (i = j, x != y, m = n)", {AllPermute{end}}};
    const DistributedType swapped = with_cut(end, slice.dimension, y);  // c/n{y, x, …}
    return {"lem:peak, case 2 (i = j, x != y, m != n)", {slice, AllPermute{swapped}, gather}};
  }
  if (x == y) return {"lem:peak, case 3 (i != j, x = y)", {AllToAll{gather.dimension, slice.dimension, {x}}}};
  return {"lem:peak, case 4 (i != j, x != y)", swap(gather, slice)};
}

// lem:edges, rising: allgather(i) on x : m, then alltoall(k, l) on y : n.
Replacement rewrite_rising(const DistributedType& start, const AllGather& gather, const AllToAll& move) {
  const AxisPart x = single_axis(gather);
  const AxisPart y = single_axis(move);
  const int i = gather.dimension;
  const DistributedType end = type_after(type_after(start, gather), move);
  if (i == move.from) {
    const DistributedType without = type_after(type_after(start, gather), AllGather{i, {y}});
    const DistributedType swapped = with_cut(with_cut(without, i, x), i, y);  // c{y, x, …}
    return {"lem:edges, rising, case 1 (i = k)", {AllPermute{swapped}, move, gather}};
  }
  if (i == move.to) {
    if (x.size == y.size) {
      const DistributedType swapped = with_cut(end, move.from, x);
      return {"lem:edges, rising, case 2 (i = l, m = n)", {AllPermute{swapped}, AllGather{move.from, {x}}}};
    }
    const DistributedType swapped = with_cut(end, i, x);  // c/n{x, y, …}
    return {"lem:edges, rising, case 2 (i = l, m != n)", {move, AllPermute{swapped}, gather}};
  }
  return {"lem:edges, rising, case 3 (i != k, i != l)", swap(gather, move)};
}

// lem:edges, rising: allgather(i) on x, then allpermute. Equal local shapes use equally many axes of
// each size, so the end leaves one free to gather along.
Replacement rewrite_rising(const DistributedType&, const AllGather& gather, const AllPermute& permute) {
  const AxisPart z = free_axis(permute.result, single_axis(gather));
  return {"lem:edges, rising, allpermute",
          {AllPermute{with_cut(permute.result, gather.dimension, z)}, AllGather{gather.dimension, {z}}}};
}

// lem:edges, falling: alltoall(k, l) on y : n, then dynslice(j, x : m).
Replacement rewrite_falling(const DistributedType& start, const AllToAll& move, const DynSlice& slice) {
  const AxisPart y = single_axis(move);
  const AxisPart x = single_axis(slice);
  const DistributedType end = type_after(type_after(start, move), slice);
  if (slice.dimension == move.to) {
    return {"lem:edges, falling, case 1 (j = l)", {slice, move, AllPermute{end}}};
  }
  if (slice.dimension == move.from) {
    if (x.size == y.size) {
      return {"lem:edges, falling, case 2 (j = k, m = n)", {DynSlice{move.to, {x}}, AllPermute{end}}};
    }
    const DistributedType without = type_after(start, AllGather{move.from, {y}});
    const DistributedType swapped = with_cut(with_cut(without, move.from, x), move.from, y);  // c/m{y, x, …}
    return {"lem:edges, falling, case 2 (j = k, m != n)", {slice, AllPermute{swapped}, move}};
  }
  return {"lem:edges, falling, case 3 (j != k, j != l)", swap(move, slice)};
}

// lem:edges, falling: allpermute, then dynslice(j, x).
Replacement rewrite_falling(const DistributedType& start, const AllPermute& permute, const DynSlice& slice) {
  const AxisPart z = free_axis(start, single_axis(slice));
  return {"lem:edges, falling, allpermute",
          {DynSlice{slice.dimension, {z}}, AllPermute{type_after(permute.result, slice)}}};
}

// The lemma that applies to two neighbours, if they are out of order.
std::optional<Replacement> rewrite_pair(const DistributedType& start, const Collective& first,
                                        const Collective& second) {
  if (const auto* gather = std::get_if<AllGather>(&first)) {
    if (const auto* slice = std::get_if<DynSlice>(&second)) return rewrite_peak(start, *gather, *slice);
    if (const auto* move = std::get_if<AllToAll>(&second)) return rewrite_rising(start, *gather, *move);
    if (const auto* permute = std::get_if<AllPermute>(&second)) return rewrite_rising(start, *gather, *permute);
  }
  if (const auto* slice = std::get_if<DynSlice>(&second)) {
    if (const auto* move = std::get_if<AllToAll>(&first)) return rewrite_falling(start, *move, *slice);
    if (const auto* permute = std::get_if<AllPermute>(&first)) return rewrite_falling(start, *permute, *slice);
  }
  return std::nullopt;
}

// Without axes of size 1: they cut nothing, and have no primes.
DistributedType without_unit_axes(const DistributedType& type) {
  std::vector<Dimension> dimensions = type.dimensions();
  for (Dimension& dimension : dimensions) {
    std::erase_if(dimension.axes, [](const AxisPart& part) { return part.size == 1; });
  }
  return {type.mesh(), std::move(dimensions)};
}

// The step as steps on single prime axes. An alltoall of several moves the most minor first, which
// turns their order around: a permutation turns it back.
Steps split(const DistributedType& after, const Collective& step) {
  if (const auto* permute = std::get_if<AllPermute>(&step)) return {AllPermute{without_unit_axes(permute->result)}};
  std::vector<AxisPart> primes = split_into_primes(after.mesh(), axes_of(step));
  std::erase_if(primes, [](const AxisPart& part) { return part.size == 1; });
  Steps steps;
  if (const auto* slice = std::get_if<DynSlice>(&step)) {
    std::reverse(primes.begin(), primes.end());
    for (const AxisPart& part : primes) steps.emplace_back(DynSlice{slice->dimension, {part}});
  }
  if (const auto* gather = std::get_if<AllGather>(&step)) {
    for (const AxisPart& part : primes) steps.emplace_back(AllGather{gather->dimension, {part}});
  }
  if (const auto* move = std::get_if<AllToAll>(&step)) {
    for (const AxisPart& part : primes) steps.emplace_back(AllToAll{move->from, move->to, {part}});
    if (primes.size() > 1) steps.emplace_back(AllPermute{without_unit_axes(after)});
  }
  return steps;
}

std::vector<AxisPart> concatenate(std::vector<AxisPart> minor, const std::vector<AxisPart>& major) {
  minor.insert(minor.end(), major.begin(), major.end());
  return minor;
}

// Records every change, and checks that each leaves the end as it was.
class Rewriter {
 public:
  explicit Rewriter(const Sequence& sequence) : normalization_{sequence, {}} {}

  Normalization run() {
    split_all();
    while (apply_lemma() || drop_idle_permutation()) {
    }
    while (drop_idle_permutation() || merge_neighbours_of_a_kind()) {
    }
    ensure(is_normal_form(current()), "the rewriting ends in normal form");
    return std::move(normalization_);
  }

 private:
  const Sequence& current() const { return normalization_.result(); }
  const Steps& steps() const { return current().steps(); }

  void replace(std::string rule, const DistributedType& source, std::size_t first, std::size_t count, const Steps& by) {
    Steps changed = steps();
    const auto begin = changed.begin() + static_cast<std::ptrdiff_t>(first);
    changed.insert(changed.erase(begin, begin + static_cast<std::ptrdiff_t>(count)), by.begin(), by.end());
    Sequence result(source, changed);
    ensure(same_placement(result.target(), current().target()), "a rewriting keeps the end of the sequence");
    normalization_.rewritings.push_back({std::move(rule), first, count, by.size(), std::move(result)});
  }

  void replace(std::string rule, std::size_t first, std::size_t count, const Steps& by) {
    replace(std::move(rule), current().source(), first, count, by);
  }

  void split_all() {
    Steps single;
    for (std::size_t i = 0; i < current().size(); ++i) {
      const Steps part = split(current().types()[i + 1], steps()[i]);
      single.insert(single.end(), part.begin(), part.end());
    }
    const DistributedType source = without_unit_axes(current().source());
    const bool changes = to_string(Sequence(source, single)) != to_string(current());
    if (changes) replace("split into single prime axes", source, 0, current().size(), single);
  }

  bool apply_lemma() {
    for (std::size_t i = 0; i + 1 < current().size(); ++i) {
      if (const auto found = rewrite_pair(current().types()[i], steps()[i], steps()[i + 1])) {
        replace(found->rule, i, 2, found->steps);
        return true;
      }
    }
    return false;
  }

  bool drop_idle_permutation() {
    for (std::size_t i = 0; i < current().size(); ++i) {
      const bool idle =
          kind_of(steps()[i]) == CollectiveKind::allpermute && current().types()[i] == current().types()[i + 1];
      if (idle) {
        replace("drop an allpermute that does nothing", i, 1, {});
        return true;
      }
    }
    return false;
  }

  bool merge_neighbours_of_a_kind() {
    for (std::size_t i = 0; i + 1 < current().size(); ++i) {
      if (const auto merged = merge(i)) {
        replace(merged->rule, i, 2, merged->steps);
        return true;
      }
    }
    return false;
  }

  std::optional<Replacement> merge(std::size_t i) const {
    const Collective& first = steps()[i];
    const Collective& second = steps()[i + 1];
    if (kind_of(first) != kind_of(second)) return std::nullopt;
    switch (kind_of(first)) {
      case CollectiveKind::dynslice:
        return merge(std::get<DynSlice>(first), std::get<DynSlice>(second));
      case CollectiveKind::allgather:
        return merge(std::get<AllGather>(first), std::get<AllGather>(second));
      case CollectiveKind::allpermute:
        return Replacement{"merge neighbouring allpermutes", {second}};
      case CollectiveKind::alltoall: {
        // One alltoall keeps the order of its axes, two turn it around: a permutation that follows
        // takes up the difference.
        const bool permuted = i + 2 < current().size() && kind_of(steps()[i + 2]) == CollectiveKind::allpermute;
        if (!permuted) return std::nullopt;
        return merge(std::get<AllToAll>(first), std::get<AllToAll>(second));
      }
    }
    return std::nullopt;
  }

  static std::optional<Replacement> merge(const DynSlice& first, const DynSlice& second) {
    if (first.dimension > second.dimension) return Replacement{"order dynslices by dimension", swap(first, second)};
    if (first.dimension != second.dimension) return std::nullopt;
    return Replacement{"merge neighbouring dynslices",
                       {DynSlice{first.dimension, concatenate(second.axes, first.axes)}}};
  }

  static std::optional<Replacement> merge(const AllGather& first, const AllGather& second) {
    if (first.dimension > second.dimension) return Replacement{"order allgathers by dimension", swap(first, second)};
    if (first.dimension != second.dimension) return std::nullopt;
    return Replacement{"merge neighbouring allgathers",
                       {AllGather{first.dimension, concatenate(first.axes, second.axes)}}};
  }

  static std::optional<Replacement> merge(const AllToAll& first, const AllToAll& second) {
    if (first.from != second.from || first.to != second.to) return std::nullopt;
    return Replacement{"merge neighbouring alltoalls",
                       {AllToAll{first.from, first.to, concatenate(first.axes, second.axes)}}};
  }

  Normalization normalization_;
};

}  // namespace

Normalization normalize(const Sequence& sequence) { return Rewriter(sequence).run(); }

}  // namespace retile
