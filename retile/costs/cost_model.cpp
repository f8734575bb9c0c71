#include "retile/costs/cost_model.h"

#include <algorithm>
#include <array>
#include <map>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/grids/box_index.h"
#include "retile/plan/lists.h"
#include "retile/plan/step_traits.h"

namespace retile {
namespace {

const std::array<const CostModel*, 2>& all_models() {
  static const std::array<const CostModel*, 2> models{&paper_model(), &volume_model()};
  return models;
}

// Sums up without overflow: one box may be sent many times over.
std::int64_t most_received(const std::vector<Piece>& pieces) {
  std::map<Device, std::int64_t> received;
  std::int64_t most = 0;
  for (const Piece& piece : pieces) {
    std::int64_t& sum = received[piece.to];
    sum = checked_add(sum, volume(piece.box)).value_or(INT64_MAX);
    most = std::max(most, sum);
  }
  return most;
}

// What an exchange whose pieces are not listed lets devices receive at most: what they lack.
std::int64_t unlisted_volume(const Placement& before, const Placement& after) {
  if (!before.is_even() || !after.is_even()) return received_floor(before, after);
  if (before.type() != nullptr && after.type() != nullptr) return received_floor(*before.type(), *after.type());
  return after.local_size() - least_kept(before.global_shape(), tile_table(before), tile_table(after));
}

// Elements that two lists of disjoint parts share.
std::int64_t shared_size(const std::vector<Part>& some, const std::vector<Part>& others) {
  if (some.empty() || others.empty()) return 0;
  std::int64_t shared_elements = 0;
  const auto add = [&](std::size_t /*part*/, const Box& shared) { shared_elements += volume(shared); };
  if (some.size() == 1 && others.size() == 1) {
    const auto shared = intersect(some[0].box, others[0].box);
    return shared ? volume(*shared) : 0;
  }
  const BoxIndex index(some);
  for (const Part& part : others) index.visit_shared(part.box, add);
  return shared_elements;
}

// Where tiles differ: every device takes what it has not, a permuted tile as a whole.
std::int64_t most_received_unevenly(const Step& step, const Placement& before) {
  const auto* permute = std::get_if<PermuteStep>(&step.operation);
  if (permute == nullptr || !permute->pairs) return received_floor(before, step.after);
  std::int64_t most = 0;
  for (const DevicePair& pair : *permute->pairs) {
    if (pair.source != pair.target) most = std::max(most, step.after.size(pair.target));
  }
  return most;
}

std::int64_t most_received(const Step& step, const Placement& before) {
  const std::int64_t in = before.local_size();
  if (!traits_of(step).moves) return 0;
  const bool is_even = before.is_even() && step.after.is_even();
  if (!is_even && !std::holds_alternative<ExchangeStep>(step.operation)) return most_received_unevenly(step, before);
  if (std::holds_alternative<AllToAllStep>(step.operation)) return in - in / group_size(step.operation);
  if (std::holds_alternative<GatherStep>(step.operation)) return step.after.local_size() - in;
  if (const auto* permute = std::get_if<PermuteStep>(&step.operation)) {
    const auto& pairs = permute->pairs;
    const auto stays = [](const DevicePair& pair) { return pair.source == pair.target; };
    return (pairs ? std::all_of(pairs->begin(), pairs->end(), stays) : before == step.after) ? 0 : in;
  }
  const auto& pieces = std::get<ExchangeStep>(step.operation).pieces;
  return pieces ? most_received(*pieces) : unlisted_volume(before, step.after);
}

// The prime digits that cut a dimension, major to minor.
std::vector<AxisPart> digits_of(const DistributedType& type, int dimension) {
  std::vector<AxisPart> digits = prime_digits(type.mesh(), type.dimension(dimension).axes);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace

std::string cost_model_names() {
  std::string names;
  for (const CostModel* model : all_models()) names += std::string(names.empty() ? "" : ", ") + model->name();
  return names;
}

const CostModel* find_cost_model(std::string_view name) {
  for (const CostModel* model : all_models()) {
    if (name == model->name()) return model;
  }
  return nullptr;
}

StepWork::StepWork(StepOp op, std::int64_t before, std::int64_t after, std::int64_t received, std::int64_t element_size)
    : op_(op), before_(before), after_(after), element_size_(element_size), received_(received) {}

StepWork::StepWork(const Step& step, const Placement& before, std::int64_t element_size)
    : op_(op_of(step)),
      before_(before.local_size()),
      after_(step.after.local_size()),
      element_size_(element_size),
      step_(&step),
      placement_before_(&before) {}

std::int64_t StepWork::received() const {
  if (!received_) received_ = most_received(*step_, *placement_before_);
  return *received_;
}

std::optional<StepOperation> StepWork::listed() const {
  if (step_ == nullptr) return std::nullopt;
  Step step = *step_;
  list_devices(step, *placement_before_);
  return std::move(step.operation);
}

std::int64_t step_cost(const CostModel& model, const Step& step, const Placement& before, std::int64_t element_size) {
  return model.cost(StepWork(step, before, element_size));
}

std::vector<std::int64_t> CostModel::costs(const Movement& movement, std::int64_t element_size) const {
  std::vector<std::int64_t> costs;
  costs.reserve(movement.steps.size());
  for (std::size_t i = 0; i < movement.steps.size(); ++i) {
    costs.push_back(step_cost(*this, movement.steps[i], movement.before(i), element_size));
  }
  return costs;
}

PlanCost price(const CostModel& model, const Movement& movement, std::int64_t element_size) {
  PlanCost cost;
  cost.model = model.name();
  cost.steps = model.costs(movement, element_size);
  for (const std::int64_t step : cost.steps) {
    const auto sum = checked_add(cost.total, step);
    if (!sum) throw InputError("the cost of the plan does not fit in 63 bits", {});
    cost.total = *sum;
  }
  return cost;
}

// As long as both are cut along the same digits they are in the same part; where the digits differ, they are free to be
// in disjoint ones.
bool always_nest(const DistributedType& source, const DistributedType& target, int dimension) {
  if (source.dimension(dimension).axes.empty() || target.dimension(dimension).axes.empty()) return true;
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

std::int64_t received_floor(const Placement& source, const Placement& target) {
  std::int64_t most = 0;
  for (Device device = 0; device < target.device_count(); ++device) {
    most = std::max(most, target.size(device) - shared_size(source.parts(device), target.parts(device)));
  }
  return most;
}

}  // namespace retile
