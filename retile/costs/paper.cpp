// The paper's cost model (fig:cost-model): elements per device that take part in a step, own parts counted.
#include <algorithm>

#include "retile/collectives/collective.h"
#include "retile/costs/cost_model.h"
#include "retile/plan/step_traits.h"

namespace retile {
namespace {

class PaperModel final : public CostModel {
 public:
  const char* name() const override { return "paper"; }

  std::int64_t cost(const StepWork& work) const override {
    return paper_cost(traits_of(work.op()).moves, work.after());
  }

  // After the last step that moves anything, tiles only become smaller: that step leads to tiles of the target's size
  // or larger ones.
  std::int64_t least_cost(std::int64_t received, std::int64_t target_size) const override {
    return received == 0 ? 0 : std::max(received, target_size);
  }
  bool has_proofs() const override { return true; }
};

}  // namespace

const CostModel& paper_model() {
  static const PaperModel model;
  return model;
}

}  // namespace retile
