#include <utility>

#include "retile/runtime/transport.h"

namespace retile::runtime {
namespace {

using language::ArrayType;
using language::Statement;

class PredictingTransport final : public Transport {
 public:
  PredictingTransport(const language::Program& program, const Engine& engine, MovementPlanner& planner,
                      MemoryMeter& meter)
      : mesh_(program.mesh), engine_(engine), planner_(planner), meter_(meter) {}

  const std::vector<Device>& devices() const override { return devices_; }

  Value move(const Statement& statement, const ArrayType& from, const ArrayType& to, Value operand) override {
    const std::vector<Movement> movements = planner_.plan(mesh_, statement, from, to);
    const std::int64_t element_size = bytes_of(from.element);
    Value value = execute(movements.front(), element_size, std::move(operand));
    if (movements.size() == 1) return value;
    Value sums = make_array(movements.back().source, element_size);  // beside what is added up
    value.reset();
    return execute(movements.back(), element_size, std::move(sums));
  }

  std::optional<Diagnostic> find_disagreement(const language::Value&, const Array&) override { return std::nullopt; }

 private:
  Value execute(const Movement& movement, std::int64_t element_size, Value operand) {
    if (movement.steps.empty()) return operand;
    const bool donated = operand.use_count() == 1;
    if (donated) operand.reset();
    const std::int64_t counted = donated ? 0 : checked_bytes(movement.source.local_size(), element_size);
    const TileUse use = donated ? TileUse::donated : TileUse::kept;
    meter_.note(engine_.predict_peak_bytes(movement, element_size, use) - counted);
    return make_array(movement.target(), element_size);
  }

  Value make_array(const Placement& placement, std::int64_t element_size) {
    return std::make_shared<Array>(meter_, checked_bytes(placement.local_size(), element_size), TileBuffers());
  }

  const Mesh mesh_;
  const Engine& engine_;
  MovementPlanner& planner_;
  MemoryMeter& meter_;
  const std::vector<Device> devices_;  // none
};

}  // namespace

std::unique_ptr<Transport> make_predicting_transport(const language::Program& program, const Engine& engine,
                                                     MovementPlanner& planner, MemoryMeter& meter) {
  return std::make_unique<PredictingTransport>(program, engine, planner, meter);
}

}  // namespace retile::runtime
