// The volume that moves: the most elements that any device receives in a step.
#include "retile/costs/cost_model.h"

namespace retile {
namespace {

class VolumeModel final : public CostModel {
 public:
  const char* name() const override { return "volume"; }
  std::int64_t cost(const StepWork& work) const override { return work.received(); }
  std::int64_t least_cost(std::int64_t received, std::int64_t /*target_size*/) const override { return received; }
  bool has_proofs() const override { return false; }
};

}  // namespace

const CostModel& volume_model() {
  static const VolumeModel model;
  return model;
}

}  // namespace retile
