#include "retile/tensors/tensor_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "retile/base/arithmetic.h"

namespace retile::tensors {
namespace {

// The parts of a value that come from other members of a group.
std::int64_t from_others(const Statement& statement, const Groups& groups) {
  const auto members = static_cast<std::int64_t>(groups.front().size());
  return product(statement.shape) / members * (members - 1);
}

// JAX's name of a collective; null of other operations.
const char* collective_name(const Operation& operation) {
  if (std::holds_alternative<GatherOp>(operation)) return "all_gather";
  if (std::holds_alternative<AllToAllOp>(operation)) return "all_to_all";
  return std::holds_alternative<PermuteOp>(operation) ? "ppermute" : nullptr;
}

}  // namespace

const Groups* groups_of(const Operation& operation) {
  if (const auto* gather = std::get_if<GatherOp>(&operation)) return &gather->groups;
  if (const auto* alltoall = std::get_if<AllToAllOp>(&operation)) return &alltoall->groups;
  return nullptr;
}

std::vector<Statement> TensorProgram::statements() const {
  std::vector<Statement> all;
  for (const ProgramStage& stage : stages) all.insert(all.end(), stage.statements.begin(), stage.statements.end());
  return all;
}

ProgramCosts costs_of(const TensorProgram& program) {
  ProgramCosts costs;
  std::int64_t by_groups = 0;             // the same for all devices
  std::vector<std::int64_t> by_messages;  // by device
  for (const ProgramStage& stage : program.stages) {
    std::int64_t rounds = 0;
    for (const Statement& statement : stage.statements) {
      if (const Groups* groups = groups_of(statement.operation)) by_groups += from_others(statement, *groups);
      const auto* permute = std::get_if<PermuteOp>(&statement.operation);
      if (permute == nullptr) continue;
      ++rounds;
      by_messages.resize(permute->senders.size());
      for (std::size_t device = 0; device < by_messages.size(); ++device) {
        if (permute->senders[device] != static_cast<Device>(device)) by_messages[device] += product(statement.shape);
      }
    }
    costs.rounds = std::max(costs.rounds, rounds);
  }
  const auto most = std::max_element(by_messages.begin(), by_messages.end());
  costs.received = by_groups + (most == by_messages.end() ? 0 : *most);
  return costs;
}

std::string collectives_text(const TensorProgram& program) {
  std::vector<std::pair<std::string, int>> runs;
  for (const Statement& statement : program.statements()) {
    const char* name = collective_name(statement.operation);
    if (name == nullptr) continue;
    if (runs.empty() || runs.back().first != name) runs.emplace_back(name, 0);
    ++runs.back().second;
  }
  std::string text;
  for (const auto& [name, count] : runs) {
    if (!text.empty()) text += ", ";
    text += count == 1 ? name : fmt::format("{} {}", count, name);
  }
  return text;
}

}  // namespace retile::tensors
