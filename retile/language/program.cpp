#include "retile/language/program.h"

#include "retile/base/arithmetic.h"

namespace retile::language {

std::int64_t bytes_of(const ArrayType& type) { return type.placement.local_size() * retile::bytes_of(type.element); }
std::int64_t bytes_of(const LocalType& type) { return product(type.shape) * retile::bytes_of(type.element); }

const Function& main_of(const Program& program) { return at(program.functions, program.main); }

std::vector<int> operands_of(const Statement& statement) {
  return std::visit(
      [](const auto& operation) -> std::vector<int> {
        if constexpr (requires { operation.operands; }) {
          return operation.operands;
        } else {
          return {operation.operand};
        }
      },
      statement.operation);
}

bool moves_data(const Statement& statement) {
  return !std::holds_alternative<SpmdOp>(statement.operation) && !std::holds_alternative<Call>(statement.operation);
}

const Value& operand_of(const Function& function, const Statement& statement) {
  return at(function.values, operands_of(statement).front());
}

const Value& result_of(const Function& function, const Statement& statement) {
  return at(function.values, statement.results.front());
}

}  // namespace retile::language
