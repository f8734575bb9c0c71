// The weak versions of lem:peak and lem:edges, where it does not matter which axis is which.
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "tests/support/weak.h"

namespace retile::test {
namespace {

using Steps = std::vector<WeakStep>;

// allgather(i; m), then dynslice(j; n).
Steps rewrite_peak(const WeakStep& gather, const WeakStep& slice) {
  if (gather.factor != slice.factor) return {slice, gather};
  if (gather.dimension == slice.dimension) return {};
  return {weak_alltoall(gather.dimension, slice.dimension, slice.factor)};
}

// allgather(i; m), then alltoall(k, l; n).
Steps rewrite_rising(const WeakStep& gather, const WeakStep& move) {
  const bool cut_again = gather.dimension == move.to && gather.factor == move.factor;
  if (cut_again) return {weak_gather(move.dimension, gather.factor)};
  return {move, gather};
}

// alltoall(k, l; n), then dynslice(j; m).
Steps rewrite_falling(const WeakStep& move, const WeakStep& slice) {
  const bool cut_again = slice.dimension == move.dimension && slice.factor == move.factor;
  if (cut_again) return {weak_slice(move.to, slice.factor)};
  return {slice, move};
}

std::optional<Steps> rewrite_pair(const WeakStep& first, const WeakStep& second) {
  const bool rises = first.kind == CollectiveKind::allgather;
  const bool falls = second.kind == CollectiveKind::dynslice;
  if (rises && falls) return rewrite_peak(first, second);
  if (rises && second.kind == CollectiveKind::alltoall) return rewrite_rising(first, second);
  if (falls && first.kind == CollectiveKind::alltoall) return rewrite_falling(first, second);
  return std::nullopt;
}

Steps split(const WeakSequence& sequence) {
  Steps single;
  for (const WeakStep& step : sequence.steps()) {
    for (const std::int64_t prime : prime_factors(step.factor)) {
      single.push_back(step);
      single.back().factor = prime;
    }
  }
  return single;
}

// One step of the combined factor instead of neighbours that differ in nothing else.
Steps merge(const Steps& steps) {
  Steps merged;
  for (const WeakStep& step : steps) {
    const bool joins = !merged.empty() && merged.back().kind == step.kind &&
                       merged.back().dimension == step.dimension && merged.back().to == step.to;
    if (joins) {
      merged.back().factor *= step.factor;
    } else {
      merged.push_back(step);
    }
  }
  return merged;
}

}  // namespace

WeakSequence normalize(const WeakSequence& sequence) {
  WeakSequence current(sequence.mesh(), sequence.source(), split(sequence));
  for (std::size_t i = 0; i + 1 < current.size();) {
    const auto replacement = rewrite_pair(current.steps()[i], current.steps()[i + 1]);
    if (!replacement) {
      ++i;
      continue;
    }
    Steps steps = current.steps();
    const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(i);
    steps.insert(steps.erase(begin, begin + 2), replacement->begin(), replacement->end());
    current = WeakSequence(sequence.mesh(), sequence.source(), steps);
    i = i == 0 ? 0 : i - 1;
  }
  current = WeakSequence(sequence.mesh(), sequence.source(), merge(current.steps()));
  ensure(is_normal_form(current), "the weak rewriting ends in normal form");
  ensure(current.target() == sequence.target(), "the weak rewriting keeps the end of the sequence");
  return current;
}

}  // namespace retile::test
