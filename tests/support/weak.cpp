#include "tests/support/weak.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/collectives/notation.h"
#include "retile/types/text.h"

namespace retile::test {
namespace {

Shape local_after(const WeakType& type, const WeakStep& step) {
  Shape local = type.local;
  const auto at = [&](int dimension) -> std::int64_t& { return local[static_cast<std::size_t>(dimension)]; };
  switch (step.kind) {
    case CollectiveKind::dynslice:
      at(step.dimension) /= step.factor;
      break;
    case CollectiveKind::allgather:
      at(step.dimension) *= step.factor;
      break;
    case CollectiveKind::alltoall:
      at(step.dimension) *= step.factor;
      at(step.to) /= step.factor;
      break;
    case CollectiveKind::allpermute:
      throw InternalError("a weak step is never a permutation");
  }
  return local;
}

}  // namespace

WeakType weaken(const DistributedType& type) { return {type.global_shape(), type.local_shape()}; }

std::int64_t local_size(const WeakType& type) { return product(type.local); }

bool is_supplied(const Mesh& mesh, const WeakType& type) {
  std::map<std::int64_t, int> supply;
  for (const AxisPart& prime : mesh.prime_parts()) ++supply[prime.size];
  for (std::size_t i = 0; i < type.global.size(); ++i) {
    if (type.local[i] < 1 || type.global[i] % type.local[i] != 0) return false;
    std::int64_t cuts = type.global[i] / type.local[i];
    for (auto& [prime, left] : supply) {
      for (; cuts % prime == 0 && left > 0; cuts /= prime) --left;
    }
    if (cuts != 1) return false;
  }
  return true;
}

WeakStep weak_slice(int dimension, std::int64_t factor) {
  return {CollectiveKind::dynslice, dimension, dimension, factor};
}

WeakStep weak_gather(int dimension, std::int64_t factor) {
  return {CollectiveKind::allgather, dimension, dimension, factor};
}

WeakStep weak_alltoall(int from, int to, std::int64_t factor) { return {CollectiveKind::alltoall, from, to, factor}; }

std::optional<Fault> find_fault(const Mesh& mesh, const WeakType& type, const WeakStep& step) {
  const int rank = static_cast<int>(type.local.size());
  const bool in_range = step.dimension >= 0 && step.dimension < rank && step.to >= 0 && step.to < rank;
  if (!in_range || step.factor < 1) return Fault{"a weak step outside the type", {}};
  const bool moves = step.kind == CollectiveKind::alltoall;
  if (moves == (step.dimension == step.to)) return Fault{"alltoall needs two different dimensions", {}};

  const std::size_t from = static_cast<std::size_t>(step.dimension);
  const std::size_t to = static_cast<std::size_t>(step.to);
  const bool merges = step.kind != CollectiveKind::dynslice;
  const bool cuts = step.kind != CollectiveKind::allgather;
  if (merges && (type.global[from] / type.local[from]) % step.factor != 0) {
    return Fault{fmt::format("dimension {} is not cut by {}", step.dimension, step.factor), {}};
  }
  if (cuts && type.local[to] % step.factor != 0) {
    return Fault{
        fmt::format("the local size {} of dimension {} does not divide by {}", type.local[to], step.to, step.factor),
        {}};
  }
  if (!is_supplied(mesh, {type.global, local_after(type, step)})) {
    return Fault{"the mesh has no axes left for this cut", {}};
  }
  return std::nullopt;
}

WeakType type_after(const Mesh& mesh, const WeakType& type, const WeakStep& step) {
  if (auto fault = find_fault(mesh, type, step)) throw InputError(std::move(fault->message), std::move(fault->hint));
  return {type.global, local_after(type, step)};
}

WeakSequence::WeakSequence(Mesh mesh, WeakType source) : mesh_(std::move(mesh)), types_{std::move(source)} {
  ensure(is_supplied(mesh_, types_.front()), "a weak sequence starts at a weak type of its mesh");
}

WeakSequence::WeakSequence(const Mesh& mesh, const WeakType& source, const std::vector<WeakStep>& steps)
    : WeakSequence(mesh, source) {
  for (const WeakStep& step : steps) append(step);
}

void WeakSequence::append(const WeakStep& step) {
  types_.push_back(type_after(mesh_, target(), step));
  steps_.push_back(step);
}

WeakSequence weaken(const Sequence& sequence) {
  WeakSequence weak(sequence.mesh(), weaken(sequence.source()));
  for (const Collective& step : sequence.steps()) {
    const std::int64_t factor = factor_of(step);
    if (const auto* slice = std::get_if<DynSlice>(&step)) weak.append(weak_slice(slice->dimension, factor));
    if (const auto* move = std::get_if<AllToAll>(&step)) weak.append(weak_alltoall(move->from, move->to, factor));
    if (const auto* gather = std::get_if<AllGather>(&step)) weak.append(weak_gather(gather->dimension, factor));
  }
  return weak;
}

std::int64_t height(const WeakSequence& sequence) {
  std::int64_t largest = 0;
  for (const WeakType& type : sequence.types()) largest = std::max(largest, local_size(type));
  return largest;
}

std::int64_t cost(const WeakSequence& sequence) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const auto sum = checked_add(total, cost(sequence.steps()[i].kind, local_size(sequence.types()[i + 1])));
    if (!sum) throw InputError("the cost of the sequence does not fit in 63 bits", {});
    total = *sum;
  }
  return total;
}

bool is_normal_form(const WeakSequence& sequence) {
  std::vector<CollectiveKind> kinds;
  for (const WeakStep& step : sequence.steps()) kinds.push_back(step.kind);
  return is_normal_form(kinds);
}

std::string to_string(const WeakSequence& sequence) {
  std::string out = to_string(sequence.source().local);
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const WeakStep& step = sequence.steps()[i];
    const StepChange change{step.dimension, step.to, step.factor};
    out +=
        fmt::format(" -> {} {}", step_text(name_of(step.kind), {&change, 1}), to_string(sequence.types()[i + 1].local));
  }
  return out;
}

}  // namespace retile::test
