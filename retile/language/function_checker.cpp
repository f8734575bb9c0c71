#include "retile/language/function_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/language/local_checker.h"
#include "retile/language/step_rules.h"
#include "retile/language/type_text.h"
#include "retile/plan/text.h"
#include "retile/planner/problem.h"
#include "retile/types/text.h"

namespace retile::language {
namespace {

std::string count_of(std::size_t count, const char* noun) {
  return retile::count_of(static_cast<std::int64_t>(count), noun);
}

bool is_replicated(const Placement& placement) {
  if (placement.is_even()) return placement.local_shape() == placement.global_shape();
  for (Device device = 0; device < placement.device_count(); ++device) {
    if (placement.size(device) != product(placement.global_shape())) return false;
  }
  return true;
}

// The local type of a type's tiles. Uneven dimensions refer to entries of `cuts`, which are added as needed.
LocalType tile_of(const ArrayType& type, std::vector<UnevenCut>& cuts) {
  LocalType tile{type.element, tile_shape(type), {}};
  for (std::optional<UnevenCut>& cut : uneven_cuts(type)) {
    if (!cut) {
      tile.cuts.push_back(-1);
      continue;
    }
    const auto found = std::find(cuts.begin(), cuts.end(), *cut);
    tile.cuts.push_back(static_cast<int>(found - cuts.begin()));
    if (found == cuts.end()) cuts.push_back(std::move(*cut));
  }
  return tile;
}

class FunctionChecker {
 public:
  FunctionChecker(const FunctionSyntax& function, const Signature& signature, const ProgramScope& scope,
                  DiagnosticList& diagnostics)
      : syntax_(function), signature_(signature), scope_(scope), diagnostics_(diagnostics) {}

  std::optional<Function> check() {
    for (const StatementSyntax& statement : syntax_.statements) {
      for (const Name& name : statement.results) later_names_.try_emplace(name.text, name.place);
    }
    for (std::size_t i = 0; i < syntax_.parameters.size(); ++i) {
      declare(syntax_.parameters[i].name, signature_.parameters[i]);
    }
    for (const StatementSyntax& statement : syntax_.statements) check_statement(statement);
    check_results();
    return finish();
  }

 private:
  // --- Values.

  struct CheckedValue {
    Name name;
    std::optional<ArrayType> type;  // nothing after a fault
  };

  int declare(const Name& name, std::optional<ArrayType> type) {
    const int index = static_cast<int>(values_.size());
    values_.push_back({name, std::move(type)});
    const auto [entry, is_new] = names_.try_emplace(name.text, index);
    if (unknown_.erase(name.text) > 0) {
      entry->second = index;  // its earlier use was reported
    } else if (!is_new) {
      diagnostics_.add(name.place, fmt::format("{} is declared twice", name.text), "a name is assigned once");
      note_declaration(entry->second);
    }
    return index;
  }

  int find(const Name& name) {
    const auto entry = names_.find(name.text);
    if (entry != names_.end()) return entry->second;
    const auto later = later_names_.find(name.text);
    const bool is_later = later != later_names_.end();
    diagnostics_.add(name.place,
                     is_later ? fmt::format("{} is used before it is declared", name.text)
                              : fmt::format("there is no value {}", name.text),
                     is_later ? "" : "values are parameters, and what earlier statements of the function declare");
    if (is_later) diagnostics_.note(later->second, fmt::format("{} is declared here", name.text));
    const int index = declare(name, std::nullopt);
    unknown_.insert(name.text);  // so that the fault is reported once
    return index;
  }

  std::vector<int> find_all(const std::vector<Name>& names) {
    std::vector<int> indices;
    indices.reserve(names.size());
    for (const Name& name : names) indices.push_back(find(name));
    return indices;
  }

  const std::optional<ArrayType>& type_of(int value) const { return at(values_, value).type; }

  void note_declaration(int value) {
    const CheckedValue& declared = at(values_, value);
    diagnostics_.note(declared.name.place, declared.type ? fmt::format("{} is declared here, as {}", declared.name.text,
                                                                       describe(scope_.mesh, *declared.type))
                                                         : fmt::format("{} is declared here", declared.name.text));
  }

  std::string text_of(const ArrayType& type) const { return describe(scope_.mesh, type); }

  // --- Statements.

  void check_statement(const StatementSyntax& statement) {
    statement_ = Statement{};
    statement_.range = statement.place;
    result_types_.assign(statement.results.size(), std::nullopt);
    std::visit([&](const auto& operation) { check_operation(operation, statement); }, statement.operation);
    result_types_.resize(statement.results.size());
    for (std::size_t i = 0; i < statement.results.size(); ++i) {
      statement_.results.push_back(declare(statement.results[i], result_types_[i]));
    }
    statements_.push_back(std::move(statement_));
  }

  // Checks that the statement declares as many names as its operation has results.
  bool check_result_count(const StatementSyntax& statement, std::size_t count, const std::string& what) {
    if (statement.results.size() == count) return true;
    diagnostics_.add(
        statement.results.back().place,
        fmt::format("{} for {} of {}", count_of(statement.results.size(), "name"), count_of(count, "result"), what));
    return false;
  }

  void check_operation(const Gap& /*gap*/, const StatementSyntax& /*statement*/) {}

  // Checks an spmd_op by rule t-spmd of fig:spmd.
  void check_operation(const SpmdOpSyntax& syntax, const StatementSyntax& statement) {
    SpmdOp op{find_all(syntax.operands), {}};
    LocalScope local{scope_.mesh, {}, {}, {}, {}};
    check_operands(syntax, op.operands, local);
    result_types_.clear();
    std::vector<std::optional<ElementType>> elements;
    for (const TypeSyntax& type : syntax.types) {
      result_types_.push_back(scope_.resolve(type));
      elements.push_back(result_types_.back() ? std::optional(result_types_.back()->element) : std::nullopt);
    }
    local.find_outside = [&](const std::string& name) -> std::optional<SourceRange> {
      const auto entry = names_.find(name);
      if (entry == names_.end()) return std::nullopt;
      return at(values_, entry->second).name.place;
    };
    LocalCheckResult body = check_local_function(syntax, elements, local, diagnostics_);
    check_result_count(statement, syntax.types.size(), "spmd_op");
    if (!syntax.has_gap) check_local_results(syntax, body.result_types, local.cuts);
    op.body = std::move(body.function);
    statement_.operation = std::move(op);
  }

  // Finds the tiles of the parameters, and which parameters are faulty.
  void check_operands(const SpmdOpSyntax& syntax, const std::vector<int>& operands, LocalScope& local) {
    for (const LocalParameter& parameter : syntax.parameters) local.tiles.push_back(parameter.type.type);
    local.faulty.resize(syntax.parameters.size());
    for (std::size_t i = 0; i < operands.size(); ++i) refuse_sum(syntax.operands[i], operands[i], "spmd_op");
    if (operands.size() != syntax.parameters.size()) {
      const Place place = syntax.operands.empty() ? syntax.parameters.front().name.place : syntax.operands.back().place;
      diagnostics_.add(place, fmt::format("{} for {} of spmd_op", count_of(operands.size(), "operand"),
                                          count_of(syntax.parameters.size(), "parameter")));
      return;
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::optional<ArrayType>& type = type_of(operands[i]);
      if (!type) continue;
      local.tiles[i] = tile_of(*type, local.cuts);
      local.faulty[i] = !check_parameter(syntax.parameters[i], operands[i], local.tiles[i]);
    }
  }

  bool check_parameter(const LocalParameter& parameter, int operand, const LocalType& tile) {
    const LocalType& written = parameter.type.type;
    if (tile.element == written.element && tile.shape == written.shape) return true;
    diagnostics_.add(parameter.type.place, fmt::format("the tiles of {} are {}, not {}", value_name(operand),
                                                       to_string(tile), to_string(written)));
    note_declaration(operand);
    return false;
  }

  const std::string& value_name(int value) const { return at(values_, value).name.text; }

  void check_local_results(const SpmdOpSyntax& syntax, const std::vector<std::optional<LocalType>>& types,
                           std::vector<UnevenCut>& cuts) {
    if (types.size() != syntax.types.size()) {
      diagnostics_.add(
          syntax.types.front().place,
          fmt::format("{} for {} of spmd_op", count_of(syntax.types.size(), "type"), count_of(types.size(), "result")));
      return;
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::optional<ArrayType>& type = result_types_[i];
      if (!type || !types[i]) continue;
      const LocalType tile = tile_of(*type, cuts);
      if (tile == *types[i]) continue;
      const bool differs_on_some = tile.element == types[i]->element && tile.shape == types[i]->shape;
      diagnostics_.add(
          syntax.types[i].place,
          differs_on_some
              ? Fault{fmt::format("not on every device tiles of this type are as large as what is "
                                  "returned, at most {}",
                                  to_string(tile)),
                      "dimensions that do not divide are cut as those of an operand"}
              : Fault{fmt::format("tiles of this type are {}, not {}", to_string(tile), to_string(*types[i])), {}});
      diagnostics_.note(syntax.results[i].place, fmt::format("{} is returned here", to_string(*types[i])));
    }
  }

  // --- Redistributions. Each sets the type of its one result, even if the operand is faulty.

  void check_operation(const RedistributeSyntax& syntax, const StatementSyntax& statement) {
    const int operand = find(syntax.operand);
    const std::string word = name_of(syntax.kind);
    check_result_count(statement, 1, word);
    std::optional<ArrayType> target = syntax.type ? scope_.resolve(*syntax.type) : replicated(operand);
    result_types_ = {target};
    statement_.operation = Redistribute{syntax.kind, operand};
    if (!type_of(operand) || !target) return;
    const SourceRange place = syntax.type ? syntax.type->place : syntax.operand.place;
    if (!check_same_array(place, word, operand, *target)) return;
    check_ends(syntax, place, operand, *target);
  }

  std::optional<ArrayType> replicated(int operand) {
    const std::optional<ArrayType>& type = type_of(operand);
    if (!type) return std::nullopt;
    return ArrayType{
        type->element, Placement(DistributedType::replicated(scope_.mesh, type->placement.global_shape())), {}};
  }

  // Checks that element types and global shapes agree.
  bool check_same_array(SourceRange place, const std::string& word, int operand, const ArrayType& target) {
    const ArrayType& source = *type_of(operand);
    if (source.element != target.element) {
      diagnostics_.add(place,
                       fmt::format("{} keeps the element type: {} has {}, and this is {}", word, value_name(operand),
                                   name_of(source.element), name_of(target.element)),
                       "convert elements within an spmd_op");
      note_declaration(operand);
      return false;
    }
    if (source.placement.global_shape() != target.placement.global_shape()) {
      diagnostics_.add(place, fmt::format("{} keeps the global shape: {} has {}, and this is {}", word,
                                          value_name(operand), retile::to_string(source.placement.global_shape()),
                                          retile::to_string(target.placement.global_shape())));
      note_declaration(operand);
      return false;
    }
    return true;
  }

  void check_ends(const RedistributeSyntax& syntax, SourceRange place, int operand, const ArrayType& target) {
    const std::string word = name_of(syntax.kind);
    const ArrayType& source = *type_of(operand);
    const std::optional<Layout> from = layout_of(source);
    const std::optional<Layout> to = layout_of(target);
    if (!from || !to) {
      diagnostics_.add(syntax.operand.place, fmt::format("{} leads from a type to a type", word),
                       "no type describes this placement; only steps of plans and spmd_op do with it");
    } else if (syntax.kind == Redistribute::Kind::distribute && !is_replicated(source.placement)) {
      diagnostics_.add(syntax.operand.place,
                       fmt::format("distribute needs an operand that is not cut, and {} is {}", value_name(operand),
                                   text_of(source)),
                       "redistribute takes any operand");
      note_declaration(operand);
    } else if (syntax.kind == Redistribute::Kind::undistribute &&
               (!is_replicated(target.placement) || !target.partial.empty())) {
      diagnostics_.add(syntax.type->place, "undistribute gives every device all of the array",
                       fmt::format("its result is {}", text_of(*replicated(operand))));
    } else if (syntax.kind != Redistribute::Kind::allreduce || check_all_reduce(syntax, operand, target)) {
      if (auto fault = Problem::find_fault(*from, *to, source.element)) {
        diagnostics_.add(place, *fault);
        note_declaration(operand);
      }
    }
  }

  bool check_all_reduce(const RedistributeSyntax& syntax, int operand, const ArrayType& target) {
    const ArrayType& source = *type_of(operand);
    if (source.partial.empty()) {
      diagnostics_.add(syntax.operand.place, fmt::format("{} is no sum", value_name(operand)),
                       "a sum has a type such as [8] sum {x}");
    } else if (source.placement != target.placement) {
      ArrayType all_reduced = source;
      all_reduced.partial.clear();
      diagnostics_.add(
          syntax.type->place, "allreduce keeps the placement",
          fmt::format("with all sums done the type is {}; redistribute goes elsewhere at once", text_of(all_reduced)));
    } else if (source.partial == target.partial) {
      diagnostics_.add(syntax.type->place, "allreduce sums over some of the operand's axes",
                       "leave those that are summed over out of the type");
    } else {
      return true;
    }
    note_declaration(operand);
    return false;
  }

  void check_operation(const StepSyntax& syntax, const StatementSyntax& statement) {
    const int operand = find(syntax.operand);
    const std::string word = retile::name_of(op_of(syntax.operation));
    check_result_count(statement, 1, word);
    const std::optional<ArrayType> target = scope_.resolve(syntax.type);
    result_types_ = {target};
    const std::optional<ArrayType> source = type_of(operand);
    if (refuse_sum(syntax.operand, operand, word) || !source || !target) return;
    if (!check_same_array(syntax.type.place, word, operand, *target)) return;
    if (source->layout || target->layout || !target->partial.empty()) {
      diagnostics_.add(syntax.type.place, fmt::format("{} leads between types whose tiles are all of one size", word),
                       "redistribute takes others");
      return;
    }
    if (const auto fault = find_step_fault(syntax.operation, source->placement, target->placement)) {
      diagnostics_.add(statement.place, *fault);
      note_declaration(operand);
      return;
    }
    statement_.operation = StepStatement{operand, {syntax.operation, target->placement}};
  }

  bool refuse_sum(const Name& name, int operand, const std::string& word) {
    const std::optional<ArrayType>& type = type_of(operand);
    if (!type || type->partial.empty()) return false;
    diagnostics_.add(name.place,
                     fmt::format("{} needs the {} of what devices hold, and {} is {}", word, name_of(type->reduction),
                                 name.text, text_of(*type)),
                     "allreduce or redistribute it first");
    note_declaration(operand);
    return true;
  }

  // --- Calls and results.

  void check_operation(const CallSyntax& syntax, const StatementSyntax& statement) {
    Call call{0, find_all(syntax.operands)};
    const std::optional<int> function = scope_.find_function(syntax.function);
    if (!function) return;
    call.function = *function;
    const Signature& signature = at(scope_.signatures, *function);
    if (!signature.has_gap) {
      check_call(syntax, call, signature);
      result_types_ = signature.results;
      if (!check_result_count(statement, signature.results.size(), signature.name.text)) note_function(signature);
    }
    statement_.operation = std::move(call);
  }

  void note_function(const Signature& signature) {
    diagnostics_.note(signature.name.place, fmt::format("{} is declared here", signature.name.text));
  }

  void check_call(const CallSyntax& syntax, const Call& call, const Signature& signature) {
    if (call.operands.size() != signature.parameters.size()) {
      diagnostics_.add(syntax.function.place,
                       fmt::format("{} for {} of {}", count_of(call.operands.size(), "operand"),
                                   count_of(signature.parameters.size(), "parameter"), signature.name.text));
      note_function(signature);
      return;
    }
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      const std::optional<ArrayType>& given = type_of(call.operands[i]);
      const std::optional<ArrayType>& wanted = signature.parameters[i];
      if (!given || !wanted || *given == *wanted) continue;
      diagnostics_.add(syntax.operands[i].place,
                       fmt::format("{} is {}, and {} takes {}", syntax.operands[i].text, text_of(*given),
                                   signature.name.text, text_of(*wanted)),
                       "redistribute it first");
      note_function(signature);
    }
  }

  void check_results() {
    results_ = find_all(syntax_.results);
    if (syntax_.has_return_gap) return;
    if (results_.size() != signature_.results.size()) {
      diagnostics_.add(syntax_.return_place,
                       fmt::format("{} returns {}, and declares {}", syntax_.name.text,
                                   count_of(results_.size(), "value"), signature_.results.size()));
      note_function(signature_);
      return;
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const std::optional<ArrayType>& given = type_of(results_[i]);
      const std::optional<ArrayType>& declared = signature_.results[i];
      if (!given || !declared || *given == *declared) continue;
      diagnostics_.add(syntax_.results[i].place,
                       fmt::format("{} is {}, and {} declares {}", syntax_.results[i].text, text_of(*given),
                                   syntax_.name.text, text_of(*declared)),
                       "redistribute it before it is returned");
      diagnostics_.note(syntax_.result_types[i].place, "the result is declared here");
    }
  }

  std::optional<Function> finish() {
    Function function;
    function.name = syntax_.name.text;
    for (CheckedValue& value : values_) {
      if (!value.type) return std::nullopt;
      function.values.push_back({std::move(value.name.text), std::move(*value.type), value.name.place});
    }
    function.parameter_count = static_cast<int>(syntax_.parameters.size());
    function.statements = std::move(statements_);
    function.results = std::move(results_);
    function.range = syntax_.name.place;
    function.return_range = syntax_.return_place;
    return function;
  }

  const FunctionSyntax& syntax_;
  const Signature& signature_;
  const ProgramScope& scope_;
  DiagnosticList& diagnostics_;
  std::vector<CheckedValue> values_;
  std::unordered_map<std::string, int> names_;
  std::unordered_set<std::string> unknown_;             // names that were used before their declaration
  std::unordered_map<std::string, Place> later_names_;  // names that statements declare, read already or not
  std::vector<Statement> statements_;
  std::vector<int> results_;
  Statement statement_;                                 // the one being checked
  std::vector<std::optional<ArrayType>> result_types_;  // of statement_
};

}  // namespace

std::optional<Function> check_function(const FunctionSyntax& function, const Signature& signature,
                                       const ProgramScope& scope, DiagnosticList& diagnostics) {
  return FunctionChecker(function, signature, scope, diagnostics).check();
}

std::string describe(const Mesh& mesh, const ArrayType& type) {
  if (layout_of(type)) return to_string(mesh, type);
  const char* element = type.element == ElementType::f32 ? "" : name_of(type.element);
  return fmt::format("{}{} of {} at corners of its own", element, retile::to_string(type.placement.local_shape()),
                     retile::to_string(type.placement.global_shape()));
}

}  // namespace retile::language
