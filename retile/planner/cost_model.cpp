#include "retile/planner/cost_model.h"

#include <algorithm>
#include <map>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/plan/groups.h"

namespace retile {
namespace {

std::int64_t paper_cost(const Step& step) {
  switch (step.op) {
    case StepOp::dynslice:
      return 0;
    case StepOp::alltoall:
    case StepOp::allpermute:
      return product(step.local_in);
    case StepOp::allgather:
    case StepOp::exchange:
      return product(step.local_out());
  }
  throw InternalError("unknown step");
}

std::int64_t group_size(const Step& step) {
  std::int64_t size = 1;
  for (const Move& move : step.moves) size *= move.factor;
  return size;
}

std::int64_t most_received(const std::vector<Transfer>& transfers) {
  std::map<Device, std::int64_t> received;
  std::int64_t most = 0;
  for (const Transfer& transfer : transfers) most = std::max(most, received[transfer.to] += volume(transfer.box));
  return most;
}

std::int64_t volume_cost(const Step& step) {
  const std::int64_t in = product(step.local_in);
  switch (step.op) {
    case StepOp::dynslice:
      return 0;
    case StepOp::alltoall:  // all but the piece that a device keeps
      return in - in / group_size(step);
    case StepOp::allgather:
      return product(step.local_out()) - in;
    case StepOp::allpermute: {
      const auto moved = [](const DevicePair& pair) { return pair.source != pair.target; };
      return step.symbolic || std::any_of(step.pairs.begin(), step.pairs.end(), moved) ? in : 0;
    }
    case StepOp::exchange:
      return most_received(step.transfers);
  }
  throw InternalError("unknown step");
}

// The prime digits that cut a dimension, major to minor.
std::vector<AxisPart> digits_of(const DistributedType& type, int dimension) {
  std::vector<AxisPart> digits = split_into_primes(type.mesh(), type.dimension(dimension).axes);
  std::erase_if(digits, [](const AxisPart& digit) { return digit.size == 1; });
  std::reverse(digits.begin(), digits.end());
  return digits;
}

// What an exchange whose transfers are not listed lets devices receive at most: what they lack.
std::int64_t unlisted_volume(const Placement& before, const Placement& after) {
  if (before.type() != nullptr && after.type() != nullptr) return received_floor(*before.type(), *after.type());
  return most_received(balanced_transfers(before, after));
}

}  // namespace

const char* name_of(CostModel model) { return model == CostModel::paper ? "paper" : "volume"; }

std::optional<CostModel> find_cost_model(std::string_view name) {
  for (const CostModel model : {CostModel::paper, CostModel::volume}) {
    if (name == name_of(model)) return model;
  }
  return std::nullopt;
}

std::int64_t step_cost(CostModel model, const Step& step) {
  return model == CostModel::paper ? paper_cost(step) : volume_cost(step);
}

std::int64_t step_cost(CostModel model, const Step& step, const Placement& before) {
  const bool unlisted = model == CostModel::volume && step.symbolic && step.op == StepOp::exchange;
  return unlisted ? unlisted_volume(before, step.after) : step_cost(model, step);
}

void price(Plan& plan, CostModel model) {
  plan.cost.model = name_of(model);
  plan.cost.total = 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    Step& step = plan.steps[i];
    step.cost = step_cost(model, step, plan.before(i));
    const auto sum = checked_add(plan.cost.total, step.cost);
    if (!sum) throw InputError("the cost of the plan does not fit in 63 bits", {});
    plan.cost.total = *sum;
  }
}

// As long as both are cut along the same digits they are in the same part; where the digits differ, they are free to be
// in disjoint ones.
bool always_nest(const DistributedType& source, const DistributedType& target, int dimension) {
  const std::vector<AxisPart> from = digits_of(source, dimension);
  const std::vector<AxisPart> to = digits_of(target, dimension);
  const auto differ = std::mismatch(from.begin(), from.end(), to.begin(), to.end());
  return differ.first == from.end() || differ.second == to.end();
}

std::int64_t received_floor(const DistributedType& source, const DistributedType& target) {
  std::int64_t kept = 1;
  for (int i = 0; i < source.rank(); ++i) {
    if (!always_nest(source, target, i)) return target.local_size();
    kept *= std::min(source.dimension(i).tile, target.dimension(i).tile);
  }
  return target.local_size() - kept;
}

}  // namespace retile
