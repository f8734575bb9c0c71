#include "retile/language/step_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "retile/base/arithmetic.h"
#include "retile/collectives/notation.h"
#include "retile/costs/cost_model.h"
#include "retile/types/text.h"

namespace retile::language {
namespace {

// A dimension that grows, and one that shrinks; -1 for none.
struct Change {
  int grows = -1;
  int shrinks = -1;
  std::int64_t factor = 1;
};

std::vector<Change> size_changes(const StepOperation& operation) {
  std::vector<Change> changes;
  const StepOp op = op_of(operation);
  for (const StepChange& change : changes_of(operation)) {
    changes.push_back(
        {op == StepOp::dynslice ? -1 : change.from, op == StepOp::allgather ? -1 : change.to, change.factor});
  }
  return changes;
}

std::optional<Fault> dimension_fault(const std::vector<Change>& changes, int rank) {
  std::vector<bool> grows(static_cast<std::size_t>(rank));
  for (const Change& change : changes) {
    const int largest = std::max(change.grows, change.shrinks);
    if (largest >= rank) {
      return Fault{fmt::format("there is no dimension {}", largest),
                   fmt::format("the array has {} dimensions, counted from 0", rank)};
    }
    if (change.grows >= 0) at(grows, change.grows) = true;
  }
  for (const Change& change : changes) {
    if (change.shrinks < 0 || !at(grows, change.shrinks)) continue;
    return Fault{fmt::format("dimension {} is both gathered and cut", change.shrinks),
                 "in one step a dimension grows or shrinks"};
  }
  return std::nullopt;
}

// The local shape after the changes; nothing where a size does not divide or fit.
std::optional<Shape> shape_after(const std::vector<Change>& changes, Shape local) {
  for (const Change& change : changes) {
    if (change.grows >= 0) {
      std::int64_t& size = at(local, change.grows);
      const std::optional<std::int64_t> grown = checked_multiply(size, change.factor);
      if (!grown) return std::nullopt;
      size = *grown;
    }
    if (change.shrinks >= 0) {
      std::int64_t& size = at(local, change.shrinks);
      if (size % change.factor != 0) return std::nullopt;
      size /= change.factor;
    }
  }
  return local;
}

// Whether, in this dimension, one of every device's tiles before and after contains the other.
bool nest(const Placement& before, const Placement& after, int dimension) {
  if (before.type() != nullptr && after.type() != nullptr) {
    return always_nest(*before.type(), *after.type(), dimension);
  }
  const auto i = static_cast<std::size_t>(dimension);
  const std::int64_t coarse = std::max(before.local_shape()[i], after.local_shape()[i]);
  const std::int64_t fine = std::min(before.local_shape()[i], after.local_shape()[i]);
  if (coarse % fine != 0) return false;
  for (Device device = 0; device < before.device_count(); ++device) {
    if (before.offset(device)[i] / coarse != after.offset(device)[i] / coarse) return false;
  }
  return true;
}

// Checks that boxes nest, which suffices for all three kinds: the tiles that make up a gathered tile, and the pieces of
// a box that an alltoall deals out, have equally many holders, so that groups exist (König's theorem).
std::optional<Fault> nesting_fault(StepOp op, const Placement& before, const Placement& after) {
  for (int dimension = 0; dimension < before.rank(); ++dimension) {
    if (nest(before, after, dimension)) continue;
    const char* why = op == StepOp::dynslice    ? "some device's new tile is not part of what it held"
                      : op == StepOp::allgather ? "some device's new tile does not hold what it held"
                                                : "some device's new tile is not in the part that its group holds";
    return Fault{fmt::format("in dimension {} {}", dimension, why),
                 fmt::format("{} keeps devices where they are; an allpermute or exchange moves them", name_of(op))};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Fault> find_step_fault(const StepOperation& operation, const Placement& before, const Placement& after) {
  const StepOp op = op_of(operation);
  const std::vector<Change> changes = size_changes(operation);
  if (before.global_shape() != after.global_shape()) {
    return Fault{fmt::format("the operand has global shape {} and the result {}",
                             retile::to_string(before.global_shape()), retile::to_string(after.global_shape())),
                 fmt::format("{} keeps the global shape", name_of(op))};
  }
  if (op == StepOp::exchange) return std::nullopt;
  if (auto fault = dimension_fault(changes, before.rank())) return fault;
  const std::optional<Shape> local = shape_after(changes, before.local_shape());
  if (!local || *local != after.local_shape()) {
    const std::string leads =
        local ? "leads to tiles of " + retile::to_string(*local) : "does not divide or fit its tiles";
    return Fault{fmt::format("{} of tiles of {} {}, and the result has {}", name_of(op),
                             retile::to_string(before.local_shape()), leads, retile::to_string(after.local_shape())),
                 {}};
  }
  return op == StepOp::allpermute ? std::nullopt : nesting_fault(op, before, after);
}

}  // namespace retile::language
