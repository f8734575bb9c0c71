// The paper's cost model (fig:cost-model): elements per device that take part in a step, own parts counted.
#include "retile/base/error.h"
#include "retile/costs/cost_model.h"

namespace retile {
namespace {

class PaperModel final : public CostModel {
 public:
  const char* name() const override { return "paper"; }

  std::int64_t cost(const StepWork& work) const override {
    switch (work.op) {
      case StepOp::dynslice:
      case StepOp::reduce:
        return 0;
      case StepOp::alltoall:
      case StepOp::allpermute:
      case StepOp::allgather:
      case StepOp::exchange:
        return work.after;
    }
    throw InternalError("unknown step");
  }

  std::int64_t least_cost(std::int64_t received) const override { return received; }
  bool counts_received() const override { return false; }
  bool has_proofs() const override { return true; }
};

}  // namespace

const CostModel& paper_model() {
  static const PaperModel model;
  return model;
}

}  // namespace retile
