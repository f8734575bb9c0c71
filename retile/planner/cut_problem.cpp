#include "retile/planner/cut_problem.h"

#include <algorithm>

namespace retile {
namespace {

int exponent_of(std::int64_t prime, std::int64_t number) {
  int exponent = 0;
  for (; number % prime == 0; number /= prime) ++exponent;
  return exponent;
}

}  // namespace

std::int64_t CutProblem::tiles(std::span<const std::int8_t> cuts, int dimension) const {
  std::int64_t count = 1;
  for (std::size_t p = 0; p < primes.size(); ++p) {
    for (std::int8_t i = cuts[at(p, dimension)]; i > 0; --i) count *= primes[p];
  }
  return count;
}

Shape CutProblem::grid(std::span<const std::int8_t> cuts) const {
  Shape counts(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) counts[static_cast<std::size_t>(i)] = tiles(cuts, i);
  return counts;
}

std::int64_t CutProblem::held(std::span<const std::int8_t> cuts) const {
  std::int64_t size = 1;
  for (int i = 0; i < rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    size *= std::min(global[at] / tiles(cuts, i), array[at]);
  }
  return size;
}

int CutProblem::deepest(std::size_t prime) const {
  int room = 0;
  for (int i = 0; i < rank; ++i) room += capacity[at(prime, i)];
  return std::min(supply[prime], room);
}

CutProblem cut_problem_of(const TypedProblem& problem) {
  CutProblem cuts;
  cuts.rank = problem.source().rank();
  cuts.global = problem.source().global_shape();
  cuts.array = cuts.global;
  cuts.source_size = problem.source().local_size();
  cuts.target_size = problem.target().local_size();
  cuts.device_count = problem.mesh().device_count();
  cuts.element_size = problem.element_size();
  for (const AxisPart& part : problem.mesh().prime_parts()) {
    const auto found = std::lower_bound(cuts.primes.begin(), cuts.primes.end(), part.size);
    const auto index = found - cuts.primes.begin();
    if (found == cuts.primes.end() || *found != part.size) {
      cuts.primes.insert(found, part.size);
      cuts.supply.insert(cuts.supply.begin() + index, 0);
    }
    ++cuts.supply[static_cast<std::size_t>(index)];
  }
  const std::size_t width = cuts.primes.size() * static_cast<std::size_t>(cuts.rank);
  cuts.source.resize(width);
  cuts.target.resize(width);
  cuts.capacity.resize(width);
  cuts.source_total.resize(cuts.primes.size());
  cuts.target_total.resize(cuts.primes.size());
  for (std::size_t p = 0; p < cuts.primes.size(); ++p) {
    for (int i = 0; i < cuts.rank; ++i) {
      const auto count = [&](const DistributedType& type) {
        return exponent_of(cuts.primes[p], type.dimension(i).global / type.dimension(i).tile);
      };
      const int from = count(problem.source());
      const int to = count(problem.target());
      // More cuts than the mesh has axes are never needed.
      const int most = std::min(exponent_of(cuts.primes[p], problem.source().dimension(i).global), cuts.supply[p]);
      cuts.source[cuts.at(p, i)] = static_cast<std::int8_t>(from);
      cuts.target[cuts.at(p, i)] = static_cast<std::int8_t>(to);
      cuts.capacity[cuts.at(p, i)] = static_cast<std::int8_t>(most);
      cuts.source_total[p] += from;
      cuts.target_total[p] += to;
    }
  }
  return cuts;
}

}  // namespace retile
