#include "retile/tensors/tensor_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "retile/base/arithmetic.h"

namespace retile::tensors {
namespace {

// The number of a value's elements that come from other members of a group.
std::int64_t from_others(std::int64_t size, const Groups& groups) {
  const auto members = static_cast<std::int64_t>(groups.front().size());
  return size / members * (members - 1);
}

// JAX's name of a collective; null for other operations.
const char* collective_name(const Operation& operation) {
  if (std::holds_alternative<GatherOp>(operation)) return "all_gather";
  if (std::holds_alternative<AllToAllOp>(operation)) return "all_to_all";
  return std::holds_alternative<PermuteOp>(operation) ? "ppermute" : nullptr;
}

// Whether the statement takes no copies and no memory beside its result.
bool is_plain(const Statement& statement) {
  const auto* gather = std::get_if<GatherOp>(&statement.operation);
  return std::holds_alternative<SliceOp>(statement.operation) ||
         std::holds_alternative<PermuteOp>(statement.operation) || (gather != nullptr && gather->dimension == 0);
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
  std::vector<std::int64_t> received(static_cast<std::size_t>(program.movement.mesh.device_count()));
  std::vector<std::int64_t> cut{0};  // elements cut, by value
  costs.largest = product(program.tile());
  for (const ProgramStage& stage : program.stages) {
    std::int64_t rounds = 0;
    for (const Statement& statement : stage.statements) {
      const std::int64_t size = product(statement.shape);
      costs.largest = std::max(costs.largest, size);
      cut.push_back(std::holds_alternative<SliceOp>(statement.operation) ? size : 0);
      if (collective_name(statement.operation) == nullptr) continue;
      ++costs.collectives;
      costs.cut += cut[statement.operands.front()];
      if (const Groups* groups = groups_of(statement.operation)) {
        for (std::int64_t& elements : received) elements += from_others(size, *groups);
        continue;
      }
      ++rounds;
      const std::vector<Device>& senders = std::get<PermuteOp>(statement.operation).senders;
      for (std::size_t device = 0; device < received.size(); ++device) {
        if (senders[device] != static_cast<Device>(device)) received[device] += size;
      }
    }
    costs.rounds = std::max(costs.rounds, rounds);
  }
  costs.received = *std::max_element(received.begin(), received.end());
  return costs;
}

bool is_left_to_compiler(const TensorProgram& compilers, const TensorProgram& ours, Surroundings surroundings) {
  const ProgramCosts theirs = costs_of(compilers);
  const ProgramCosts own = costs_of(ours);
  const std::int64_t ends = std::max(product(ours.tile()), product(ours.movement.target().local_shape()));
  if (theirs.largest > ends) return false;
  if (surroundings == Surroundings::program) {
    return theirs.received <= own.received && theirs.collectives <= own.collectives;
  }
  const std::vector<Statement> statements = compilers.statements();
  return std::all_of(statements.begin(), statements.end(), is_plain) &&
         theirs.received + theirs.cut <= own.received + own.cut;
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
