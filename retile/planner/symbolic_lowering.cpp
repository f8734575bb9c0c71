#include "retile/planner/symbolic_lowering.h"

#include <algorithm>
#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

std::int64_t prime_of(const Problem& problem) {
  const std::vector<AxisPart>& digits = problem.mesh().prime_parts();
  return digits.empty() ? 2 : digits.front().size;
}

std::size_t depth_of(const Problem& problem, std::int64_t tiles) {
  std::size_t depth = 0;
  for (; tiles > 1; tiles /= prime_of(problem)) ++depth;
  return depth;
}

std::vector<bool> used_digits(const Problem& problem, const DigitTable& table) {
  std::vector<bool> used(problem.mesh().prime_parts().size());
  for (const std::vector<int>& levels : table) {
    for (const int digit : levels) used[static_cast<std::size_t>(digit)] = true;
  }
  return used;
}

std::int64_t power(std::int64_t prime, std::size_t exponent) {
  std::int64_t result = 1;
  for (; exponent > 0; --exponent) result *= prime;
  return result;
}

void add_slices(const Problem& problem, const DigitTable& before, const DigitTable& after, std::vector<Step>& steps) {
  DigitTable current = before;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].size() == after[i].size()) continue;
    DigitTable next = current;
    next[i] = after[i];
    const std::int64_t factor = power(prime_of(problem), after[i].size() - before[i].size());
    steps.push_back(symbolic_step(problem, StepOp::dynslice, {{-1, static_cast<int>(i), factor}}, current, next));
    current = std::move(next);
  }
}

// Small factors first: what is gathered early is gathered again with every later step.
void add_gathers(const Problem& problem, const DigitTable& before, const DigitTable& after, std::vector<Step>& steps) {
  std::vector<std::size_t> dimensions;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].size() != after[i].size()) dimensions.push_back(i);
  }
  const auto levels = [&](std::size_t i) { return before[i].size() - after[i].size(); };
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [&](std::size_t a, std::size_t b) { return levels(a) < levels(b); });
  DigitTable current = before;
  for (const std::size_t i : dimensions) {
    DigitTable next = current;
    next[i] = after[i];
    const std::int64_t factor = power(prime_of(problem), levels(i));
    steps.push_back(symbolic_step(problem, StepOp::allgather, {{static_cast<int>(i), -1, factor}}, current, next));
    current = std::move(next);
  }
}

}  // namespace

void fill_digits(const Problem& problem, const Shape& grid, const DigitTable& wish, DigitTable& table) {
  std::vector<bool> used = used_digits(problem, table);
  // First what is wished for, so that no other place takes it.
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::size_t depth = std::min(depth_of(problem, grid[i]), wish[i].size());
    while (table[i].size() < depth && !used[static_cast<std::size_t>(wish[i][table[i].size()])]) {
      const int digit = wish[i][table[i].size()];
      table[i].push_back(digit);
      used[static_cast<std::size_t>(digit)] = true;
    }
  }
  for (std::size_t i = 0; i < table.size(); ++i) {
    while (table[i].size() < depth_of(problem, grid[i])) {
      const auto free = std::find(used.begin(), used.end(), false);
      ensure(free != used.end(), "the mesh supplies the cuts of a path");
      *free = true;
      table[i].push_back(static_cast<int>(free - used.begin()));
    }
  }
}

DigitTable join_digits(const Problem& problem, const DigitTable& first, const DigitTable& second, const Shape& grid,
                       const DigitTable& wish) {
  DigitTable stage = first;  // a level that is in both layers has one digit
  for (std::size_t i = 0; i < stage.size(); ++i) {
    if (second[i].size() > stage[i].size()) stage[i] = second[i];
  }
  fill_digits(problem, grid, wish, stage);
  return stage;
}

std::vector<DigitTable> routed_digits(const Problem& problem, const NormalPath& path,
                                      const std::vector<DigitTable>& layers) {
  const DigitTable target = digit_table(problem.target());
  std::vector<DigitTable> stages{layers.front()};
  Shape grid = path.sliced;
  for (std::size_t k = 0; k + 1 < layers.size(); ++k) {
    stages.push_back(join_digits(problem, layers[k], layers[k + 1], grid, target));
    if (k < path.moves.size()) grid = grid_after(grid, path.moves[k]);
  }
  stages.push_back(target);
  if (layers.size() == 1) stages.push_back(target);
  return stages;
}

std::vector<DigitTable> permuted_digits(const Problem& problem, const NormalPath& path) {
  const DigitTable target = digit_table(problem.target());
  std::vector<DigitTable> stages{digit_table(problem.source())};
  DigitTable current = stages.front();
  fill_digits(problem, path.sliced, target, current);
  stages.push_back(current);
  for (const CutMove& move : path.moves) {
    std::vector<int>& from = current[static_cast<std::size_t>(move.from)];
    std::vector<int>& to = current[static_cast<std::size_t>(move.to)];
    const auto first = from.end() - static_cast<std::ptrdiff_t>(depth_of(problem, move.factor));
    to.insert(to.end(), first, from.end());
    from.erase(first, from.end());
    stages.push_back(current);
  }
  if (path.moved != path.target) {
    DigitTable dealt = target;
    fill_digits(problem, path.moved, current, dealt);
    stages.push_back(std::move(dealt));
  }
  stages.push_back(target);
  return stages;
}

std::vector<Step> symbolic_narrow_steps(const Problem& problem, const NormalPath& path,
                                        const std::vector<DigitTable>& stages) {
  std::vector<Step> steps;
  add_slices(problem, stages[0], stages[1], steps);
  std::size_t stage = 1;
  for (const CutMove& move : path.moves) {
    steps.push_back(symbolic_step(problem, StepOp::alltoall, {{move.from, move.to, move.factor}}, stages[stage],
                                  stages[stage + 1]));
    ++stage;
  }
  if (path.permuted) {
    if (stages[stage] != stages[stage + 1]) {
      steps.push_back(symbolic_step(problem, StepOp::allpermute, {}, stages[stage], stages[stage + 1]));
    }
    ++stage;
  }
  if (stage + 1 < stages.size()) add_gathers(problem, stages[stage], stages[stage + 1], steps);
  return steps;
}

Step symbolic_step(const Problem& problem, StepOp op, std::vector<Move> moves, const DigitTable& before,
                   const DigitTable& after) {
  const Shape local_in = type_of(problem, before).local_shape();
  return {op, std::move(moves), {}, {}, {}, local_in, Placement(type_of(problem, after)), 0, true};
}

}  // namespace retile
