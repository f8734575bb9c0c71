#include "retile/collectives/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/types/text.h"

namespace retile {

Sequence::Sequence(DistributedType source) : types_{std::move(source)} {}

Sequence::Sequence(DistributedType source, const std::vector<Collective>& steps) : Sequence(std::move(source)) {
  for (const Collective& step : steps) append(step);
}

void Sequence::append(Collective step) {
  types_.push_back(type_after(target(), step));
  steps_.push_back(std::move(step));
}

std::int64_t height(const Sequence& sequence) {
  std::int64_t largest = 0;
  for (const DistributedType& type : sequence.types()) largest = std::max(largest, type.local_size());
  return largest;
}

std::int64_t cost(const Sequence& sequence) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const auto sum = checked_add(total, cost(kind_of(sequence.steps()[i]), sequence.types()[i + 1].local_size()));
    if (!sum) throw InputError("the cost of the sequence does not fit in 63 bits", {});
    total = *sum;
  }
  return total;
}

bool is_normal_form(const std::vector<CollectiveKind>& kinds) {
  const auto stage = [](CollectiveKind kind) {
    return kind == CollectiveKind::dynslice ? 0 : kind == CollectiveKind::allgather ? 2 : 1;
  };
  return std::is_sorted(kinds.begin(), kinds.end(),
                        [&](CollectiveKind a, CollectiveKind b) { return stage(a) < stage(b); });
}

bool is_normal_form(const Sequence& sequence) {
  std::vector<CollectiveKind> kinds;
  for (const Collective& step : sequence.steps()) kinds.push_back(kind_of(step));
  return is_normal_form(kinds);
}

std::string to_string(const Sequence& sequence) {
  std::string out = fmt::format("mesh {}\n{}\n", to_string(sequence.mesh()), to_string(sequence.source()));
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    out +=
        fmt::format("-> {} {}\n", to_string(sequence.mesh(), sequence.steps()[i]), to_string(sequence.types()[i + 1]));
  }
  return out;
}

}  // namespace retile
