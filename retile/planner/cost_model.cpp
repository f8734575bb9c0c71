#include "retile/planner/cost_model.h"

#include <algorithm>
#include <map>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/error.h"

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
      return std::any_of(step.pairs.begin(), step.pairs.end(), moved) ? in : 0;
    }
    case StepOp::exchange:
      return most_received(step.transfers);
  }
  throw InternalError("unknown step");
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

void price(Plan& plan, CostModel model) {
  plan.cost.model = name_of(model);
  plan.cost.total = 0;
  for (Step& step : plan.steps) {
    step.cost = step_cost(model, step);
    const auto sum = checked_add(plan.cost.total, step.cost);
    if (!sum) throw InputError("the cost of the plan does not fit in 63 bits", {});
    plan.cost.total = *sum;
  }
}

std::int64_t received_floor(const DistributedType& source, const DistributedType& target) {
  const std::int64_t wanted = target.local_size();
  Shape from(static_cast<std::size_t>(source.rank()));
  Shape to(from.size());
  std::int64_t least_kept = wanted;
  for (Device device = 0; device < source.mesh().device_count(); ++device) {
    source.base_offset(device, from);
    target.base_offset(device, to);
    std::int64_t kept = 1;
    for (int i = 0; i < source.rank(); ++i) {
      const auto d = static_cast<std::size_t>(i);
      const std::int64_t lo = std::max(from[d], to[d]);
      const std::int64_t hi = std::min(from[d] + source.dimension(i).tile, to[d] + target.dimension(i).tile);
      kept *= std::max<std::int64_t>(0, hi - lo);
    }
    least_kept = std::min(least_kept, kept);
  }
  return wanted - least_kept;
}

}  // namespace retile
