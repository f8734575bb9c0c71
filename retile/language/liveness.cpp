#include "retile/language/liveness.h"

#include <algorithm>

#include "retile/base/arithmetic.h"
#include "retile/plan/memory_meter.h"

namespace retile::language {

std::vector<int> last_uses(const Function& function) {
  std::vector<int> last(function.values.size(), -1);
  const auto use = [&](const std::vector<int>& values, std::size_t statement) {
    for (const int value : values) at(last, value) = static_cast<int>(statement);
  };
  for (std::size_t i = 0; i < function.statements.size(); ++i) {
    use(operands_of(function.statements[i]), i);
    use(function.statements[i].results, i);
  }
  use(function.results, function.statements.size());
  return last;
}

LocalLiveness local_liveness(const LocalFunction& function) {
  LocalLiveness liveness;
  const auto use = [&](int array, std::size_t instruction) {
    const int owner = at(liveness.owners, array);
    at(liveness.last_uses, owner) = static_cast<int>(instruction);
  };
  for (std::size_t i = 0; i < function.instructions.size(); ++i) {
    const LocalInstruction& instruction = function.instructions[i];
    const bool is_view = instruction.op == LocalOp::reshape;
    liveness.owners.push_back(is_view ? at(liveness.owners, instruction.operands[0]) : static_cast<int>(i));
    liveness.last_uses.push_back(static_cast<int>(i));
    for (const int operand : instruction.operands) use(operand, i);
    use(static_cast<int>(i), i);
  }
  for (const int result : function.results) use(result, function.instructions.size());
  return liveness;
}

std::int64_t local_peak_bytes(const LocalFunction& function) {
  const LocalLiveness liveness = local_liveness(function);
  const auto bytes = [&](std::size_t index) { return bytes_of(function.instructions[index].type); };
  std::vector<std::int64_t> freed(function.instructions.size() + 1);  // bytes, by the last instruction that needs them
  MemoryMeter meter;
  for (std::size_t i = 0; i < function.instructions.size(); ++i) {
    const bool makes_array = liveness.owners[i] == static_cast<int>(i);
    if (makes_array && function.instructions[i].op != LocalOp::parameter) {
      meter.add(bytes(i));
      at(freed, liveness.last_uses[i]) += bytes(i);
    }
    meter.remove(freed[i]);
  }
  MemoryMeter results;
  for (const int result : function.results) results.add(bytes(static_cast<std::size_t>(result)));
  return std::max(meter.peak(), results.peak());
}

}  // namespace retile::language
