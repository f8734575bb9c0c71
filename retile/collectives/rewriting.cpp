#include "retile/collectives/rewriting.h"

#include <algorithm>
#include <map>
#include <optional>
#include <type_traits>
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
  std::vector<AxisPart> primes = prime_digits(after.mesh(), axes_of(step));
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

std::optional<Replacement> merge(const DynSlice& first, const DynSlice& second) {
  if (first.dimension > second.dimension) return Replacement{"order dynslices by dimension", swap(first, second)};
  if (first.dimension != second.dimension) return std::nullopt;
  return Replacement{"merge neighbouring dynslices", {DynSlice{first.dimension, concatenate(second.axes, first.axes)}}};
}

std::optional<Replacement> merge(const AllGather& first, const AllGather& second) {
  if (first.dimension > second.dimension) return Replacement{"order allgathers by dimension", swap(first, second)};
  if (first.dimension != second.dimension) return std::nullopt;
  return Replacement{"merge neighbouring allgathers",
                     {AllGather{first.dimension, concatenate(first.axes, second.axes)}}};
}

std::optional<Replacement> merge(const AllToAll& first, const AllToAll& second) {
  if (first.from != second.from || first.to != second.to) return std::nullopt;
  return Replacement{"merge neighbouring alltoalls",
                     {AllToAll{first.from, first.to, concatenate(first.axes, second.axes)}}};
}

std::optional<Replacement> merge(const AllPermute&, const AllPermute& second) {
  return Replacement{"merge neighbouring allpermutes", {second}};
}

// What two neighbours of a kind become. One alltoall keeps the order of its axes, two turn it around: a permutation
// that follows takes up the difference.
std::optional<Replacement> merge_pair(const Collective& first, const Collective& second, const Collective* third) {
  if (kind_of(first) != kind_of(second)) return std::nullopt;
  const bool permuted = third != nullptr && kind_of(*third) == CollectiveKind::allpermute;
  if (kind_of(first) == CollectiveKind::alltoall && !permuted) return std::nullopt;
  return std::visit([&](const auto& step) { return merge(step, std::get<std::decay_t<decltype(step)>>(second)); },
                    first);
}

// A sequence with a gap, where it changes: what is before the gap and what is after it are stacks, so that a change
// takes as long as what it changes. Every change is typed anew, and leaves the type at its end as it was; what follows
// then needs no second look.
class Rewriter {
 public:
  Rewriter(const Sequence& sequence, const std::function<void(const Rewriting&)>& visit)
      : source_(sequence.source()), visit_(visit) {
    insert(sequence);
    heights_.add(source_.local_size());
    split_all(sequence);
  }

  Sequence run() {
    remove_peaks();
    merge_neighbours_of_a_kind();
    move_to(0);
    Sequence result(source_);
    for (; !after_.empty(); after_.pop_back()) result.append(std::move(after_.back().step));
    ensure(is_normal_form(result), "the rewriting ends in normal form");
    return result;
  }

 private:
  struct Item {
    Collective step;
    DistributedType end;  // the type after it
  };

  // The largest of the local sizes on the way.
  class Heights {
   public:
    void add(std::int64_t size) { ++counts_[size]; }
    void remove(std::int64_t size) {
      if (--counts_[size] == 0) counts_.erase(size);
    }
    std::int64_t largest() const { return counts_.rbegin()->first; }

   private:
    std::map<std::int64_t, std::int64_t> counts_;
  };

  const DistributedType& type_here() const { return before_.empty() ? source_ : before_.back().end; }
  const Collective& ahead(std::size_t count) const { return after_[after_.size() - 1 - count].step; }

  void move_to(std::size_t index) {
    for (; before_.size() > index; before_.pop_back()) after_.push_back(std::move(before_.back()));
    for (; before_.size() < index; after_.pop_back()) before_.push_back(std::move(after_.back()));
  }
  void step_back(std::size_t count) { move_to(before_.size() - std::min(count, before_.size())); }

  // Puts the steps behind the gap.
  void insert(const Sequence& added) {
    for (std::size_t i = added.size(); i-- > 0;) {
      heights_.add(added.types()[i + 1].local_size());
      after_.push_back({added.steps()[i], added.types()[i + 1]});
    }
  }

  // Replaces steps behind the gap.
  void replace(std::string rule, std::size_t count, const Steps& by) {
    Rewriting rewriting{std::move(rule), before_.size(), count, Sequence(type_here(), by), heights_.largest(), 0};
    ensure(keeps_end(rewriting.added.target(), count), "a rewriting keeps the end of what it replaces");
    for (std::size_t i = 0; i < count; ++i, after_.pop_back()) heights_.remove(after_.back().end.local_size());
    clean_ = std::min(clean_, after_.size());
    insert(rewriting.added);
    rewriting.height_after = heights_.largest();
    if (visit_) visit_(rewriting);
  }

  // A permutation that follows leads to its type from any other of the same shapes.
  bool keeps_end(const DistributedType& end, std::size_t count) const {
    if (end == after_[after_.size() - count].end) return true;
    return after_.size() > count && kind_of(ahead(count)) == CollectiveKind::allpermute &&
           !find_fault(end, ahead(count));
  }

  void split_all(const Sequence& sequence) {
    Steps single;
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      const Steps part = split(sequence.types()[i + 1], sequence.steps()[i]);
      single.insert(single.end(), part.begin(), part.end());
    }
    const Sequence result(without_unit_axes(source_), single);
    if (to_string(result) == to_string(sequence)) return;
    ensure(same_placement(result.target(), sequence.target()), "splitting keeps the end of the sequence");
    after_.clear();
    const std::int64_t height_before = heights_.largest();
    heights_ = {};
    source_ = result.source();
    heights_.add(source_.local_size());
    insert(result);
    if (visit_) visit_({"split into single prime axes", 0, sequence.size(), result, height_before, heights_.largest()});
  }

  // Until no lemma applies and no permutation is idle; the lemmas first, and from the left.
  void remove_peaks() {
    std::size_t no_idle_before = 0;
    for (;;) {
      while (after_.size() > std::max<std::size_t>(1, clean_)) {
        if (const auto found = rewrite_pair(type_here(), ahead(0), ahead(1))) {
          no_idle_before = std::min(no_idle_before, before_.size());
          replace(found->rule, 2, found->steps);
          step_back(1);
        } else {
          move_to(before_.size() + 1);
        }
      }
      clean_ = before_.size() + after_.size();
      for (move_to(no_idle_before); !after_.empty() && !is_idle_here();) move_to(before_.size() + 1);
      no_idle_before = before_.size();
      if (after_.empty()) return;
      drop_idle();
      step_back(1);
    }
  }

  void merge_neighbours_of_a_kind() {
    clean_ = 0;
    for (move_to(0); !after_.empty();) {
      const auto merged =
          after_.size() < 2 ? std::nullopt : merge_pair(ahead(0), ahead(1), after_.size() > 2 ? &ahead(2) : nullptr);
      if (!merged) {
        move_to(before_.size() + 1);
        continue;
      }
      replace(merged->rule, 2, merged->steps);
      for (int changed = 0; changed < 2 && !after_.empty(); ++changed) {
        if (is_idle_here()) {
          drop_idle();
        } else {
          move_to(before_.size() + 1);
        }
      }
      step_back(4);  // to two steps before the change: alltoalls merge by what comes two steps after them
    }
  }

  bool is_idle_here() const {
    return kind_of(ahead(0)) == CollectiveKind::allpermute && type_here() == after_.back().end;
  }
  void drop_idle() { replace("drop an allpermute that does nothing", 1, {}); }

  DistributedType source_;
  std::vector<Item> before_;
  std::vector<Item> after_;  // the next one last
  std::size_t clean_ = 0;    // to no pair of the last so many steps a lemma applies
  Heights heights_;
  const std::function<void(const Rewriting&)>& visit_;
};

}  // namespace

Sequence normalize(const Sequence& sequence, const std::function<void(const Rewriting&)>& visit) {
  Sequence result = Rewriter(sequence, visit).run();
  ensure(same_placement(result.target(), sequence.target()), "the rewriting keeps the end of the sequence");
  return result;
}

}  // namespace retile
