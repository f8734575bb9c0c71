#include "retile/language/lowered_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "retile/base/error.h"
#include "retile/language/type_text.h"
#include "retile/plan/lists.h"
#include "retile/plan/text.h"
#include "retile/types/text.h"

namespace retile::language {
namespace {

// The most groups and devices that comments list.
constexpr std::size_t most_shown_groups = 8;
constexpr std::size_t most_shown_devices = 64;

// A text such as "[0, 1] [2, 3] and 6 more".
std::string shown_groups(const std::vector<std::vector<Device>>& groups) {
  std::string out;
  std::size_t shown = 0;
  std::size_t devices = 0;
  for (; shown < groups.size() && shown < most_shown_groups; ++shown) {
    devices += groups[shown].size();
    if (devices > most_shown_devices) break;
    out += (shown == 0 ? "" : " ") + retile::to_string(groups[shown]);
  }
  if (shown == groups.size()) return out;
  return shown == 0 ? fmt::format("{} of {} devices each", groups.size(), groups.front().size())
                    : fmt::format("{} and {} more", out, groups.size() - shown);
}

std::string shown_pairs(const std::vector<DevicePair>& pairs) {
  std::vector<DevicePair> moved = pairs;
  std::erase_if(moved, [](const DevicePair& pair) { return pair.source == pair.target; });
  std::string out;
  for (std::size_t i = 0; i < std::min(moved.size(), most_shown_groups); ++i) {
    out += fmt::format("{}{} -> {}", i == 0 ? "" : ", ", moved[i].source, moved[i].target);
  }
  if (moved.size() > most_shown_groups) out += fmt::format(" and {} more", moved.size() - most_shown_groups);
  return out;
}

// The devices that take part in the step together, as text; empty where every device acts alone.
std::string participants(const Mesh& mesh, const Placement& before, const Step& step) {
  if (op_of(step) == StepOp::dynslice) return {};
  if (mesh.device_count() > most_listed_devices) return fmt::format("among {} devices", mesh.device_count());
  Step listed{without_lists(step.operation), step.after};  // as the lowered program has it
  list_devices(listed, before);
  if (const auto* permute = std::get_if<PermuteStep>(&listed.operation)) {
    return "tiles move " + shown_pairs(*permute->pairs);
  }
  if (const auto* exchange = std::get_if<ExchangeStep>(&listed.operation)) {
    return fmt::format("{} transfers, groups {}", exchange->pieces->size(),
                       shown_groups(exchange_groups(*exchange->pieces, before)));
  }
  return "groups " + shown_groups(*groups_of(listed.operation));
}

class FunctionLowering {
 public:
  FunctionLowering(const LoweredProgram& lowered, std::size_t function)
      : function_(lowered.program.functions[function]),
        lowered_(lowered.statements[function]),
        mesh_(lowered.program.mesh) {
    for (const Value& value : function_.values) taken_.insert(value.name);
  }

  FunctionSyntax lower(FunctionSyntax syntax) {
    for (std::size_t i = 0; i < syntax.statements.size(); ++i) lower_statement(std::move(syntax.statements[i]), i);
    syntax.statements = std::move(statements_);
    put_pending(syntax.return_surroundings);
    for (Name& name : syntax.results) rename(name);
    return syntax;
  }

 private:
  void lower_statement(StatementSyntax syntax, std::size_t number) {
    std::visit([&](auto& operation) { rename_operands(operation); }, syntax.operation);
    if (!std::holds_alternative<RedistributeSyntax>(syntax.operation)) {
      put_pending(syntax.surroundings);
      statements_.push_back(std::move(syntax));
      return;
    }
    const Plan& plan = *lowered_[number].plan;
    const ArrayType& from = operand_of(function_, function_.statements[number]).type;
    const ArrayType& to = result_of(function_, function_.statements[number]).type;
    const auto is_plain = [](const ArrayType& type) { return !type.layout && type.partial.empty(); };
    if (!is_plain(from) || !is_plain(to)) {
      describe_steps(std::move(syntax), plan);
    } else if (plan.steps().empty()) {
      drop(std::move(syntax));
    } else {
      replace(std::move(syntax), plan, to.element);
    }
  }

  // --- Names.

  void rename(Name& name) const {
    const auto entry = renamed_.find(name.text);
    if (entry != renamed_.end()) name.text = entry->second;
  }

  static void rename_operands(Gap& /*gap*/) { throw InternalError("a tree with gaps is not lowered"); }
  void rename_operands(SpmdOpSyntax& op) const { rename_all(op.operands); }
  void rename_operands(CallSyntax& op) const { rename_all(op.operands); }
  template <typename Operation>
  void rename_operands(Operation& op) const {
    rename(op.operand);
  }
  void rename_all(std::vector<Name>& names) const {
    for (Name& name : names) rename(name);
  }

  std::string fresh_name(const std::string& name, std::size_t step) {
    std::string fresh = fmt::format("{}_{}", name, step + 1);
    while (!taken_.insert(fresh).second) fresh += "_";
    return fresh;
  }

  // --- Statements.

  // Puts comments of removed statements above the next statement.
  void put_pending(Surroundings& surroundings) {
    surroundings.above.insert(surroundings.above.begin(), pending_.begin(), pending_.end());
    pending_.clear();
  }

  void drop(StatementSyntax syntax) {
    const auto& operation = std::get<RedistributeSyntax>(syntax.operation);
    const std::string& name = syntax.results.front().text;
    renamed_[name] = operation.operand.text;
    for (Comment& comment : syntax.surroundings.above) pending_.push_back(std::move(comment));
    pending_.push_back({fmt::format("// {} {}: nothing to do, {} is {}.", name_of(operation.kind),
                                    operation.operand.text, name, operation.operand.text),
                        syntax.surroundings.after_blank});
    if (!syntax.surroundings.beside.empty()) pending_.push_back({std::move(syntax.surroundings.beside), false});
  }

  // Describes the steps of a redistribution that stays one statement, because types do not describe them. If the
  // program was lowered before, the comments are there already.
  void describe_steps(StatementSyntax syntax, const Plan& plan) {
    put_pending(syntax.surroundings);
    std::vector<Comment>& above = syntax.surroundings.above;
    Surroundings said{{}, above.empty() && syntax.surroundings.after_blank, {}};
    put_plan(said, std::get<RedistributeSyntax>(syntax.operation), plan);
    for (std::size_t i = 0; i < plan.steps().size(); ++i) {
      said.above.push_back(
          {fmt::format("//   {}, cost {}", retile::to_string(plan.steps()[i]), plan.cost.steps[i]), false});
    }
    const auto same_text = [](const Comment& a, const Comment& b) { return a.text == b.text; };
    const bool is_said = above.size() >= said.above.size() &&
                         std::equal(said.above.rbegin(), said.above.rend(), above.rbegin(), same_text);
    if (!is_said) above.insert(above.end(), said.above.begin(), said.above.end());
    syntax.surroundings.after_blank = false;
    statements_.push_back(std::move(syntax));
  }

  void replace(StatementSyntax syntax, const Plan& plan, ElementType element) {
    const auto operation = std::get<RedistributeSyntax>(syntax.operation);
    Name operand = operation.operand;
    put_pending(syntax.surroundings);
    for (std::size_t i = 0; i < plan.steps().size(); ++i) {
      const bool is_last = i + 1 == plan.steps().size();
      StatementSyntax step = step_statement(plan, i, operand, element);
      step.place = syntax.place;
      step.results = {is_last ? syntax.results.front()
                              : Name{fresh_name(syntax.results.front().text, i), syntax.place}};
      if (is_last && operation.type) std::get<StepSyntax>(step.operation).type = *operation.type;
      if (i == 0) put_first(step.surroundings, operation, syntax.surroundings, plan);
      if (is_last) step.surroundings.beside = syntax.surroundings.beside;
      operand = step.results.front();
      statements_.push_back(std::move(step));
    }
  }

  // Puts the comments of the whole plan before those of its first step.
  static void put_first(Surroundings& surroundings, const RedistributeSyntax& operation, const Surroundings& written,
                        const Plan& plan) {
    Surroundings first{written.above, written.after_blank, {}};
    put_plan(first, operation, plan);
    surroundings.above.insert(surroundings.above.begin(), first.above.begin(), first.above.end());
  }

  static void put_plan(Surroundings& surroundings, const RedistributeSyntax& operation, const Plan& plan) {
    surroundings.above.push_back(
        {fmt::format("// {} {} from {}: cost {} ({}{}), peak {} elements.", name_of(operation.kind),
                     operation.operand.text, retile::to_string(plan.source), plan.cost.total, plan.cost.model,
                     plan.cost.optimal ? ", " + retile::describe_proof(plan.cost) : "", plan.memory.peak),
         surroundings.after_blank});
  }

  StatementSyntax step_statement(const Plan& plan, std::size_t index, const Name& operand, ElementType element) const {
    const Step& step = plan.steps()[index];
    const Placement& before = plan.movement.before(index);
    StatementSyntax statement;
    statement.operation = StepSyntax{without_lists(step.operation), operand, {with_type(step.after, element), {}}};
    statement.surroundings.above.push_back({fmt::format("// {} to {}, cost {}", retile::to_string(before.local_shape()),
                                                        retile::to_string(step.local_out()), plan.cost.steps[index]),
                                            false});
    const std::string who = participants(mesh_, before, step);
    if (!who.empty()) statement.surroundings.above.back().text += "; " + who;
    return statement;
  }

  ArrayType with_type(const Placement& placement, ElementType element) const {
    const auto type = find_type(mesh_, placement);
    return {element, type ? Placement(*type) : placement};
  }

  const Function& function_;
  const std::vector<LoweredStatement>& lowered_;  // by statement of function_
  const Mesh& mesh_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::string> renamed_;  // results of removed statements, and their operands' names
  std::vector<StatementSyntax> statements_;
  std::vector<Comment> pending_;
};

}  // namespace

FunctionSyntax lower_function(FunctionSyntax syntax, const LoweredProgram& lowered, std::size_t function) {
  return FunctionLowering(lowered, function).lower(std::move(syntax));
}

}  // namespace retile::language
