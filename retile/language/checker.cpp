#include "retile/language/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "retile/base/error.h"
#include "retile/language/function_checker.h"
#include "retile/language/parser.h"

namespace retile::language {
namespace {

// The most functions of a cycle that a message names.
constexpr std::size_t most_named = 8;

void sort_by_place(std::vector<Diagnostic>& diagnostics) {
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.range.begin < b.range.begin; });
}

class ProgramChecker {
 public:
  explicit ProgramChecker(const SyntaxTree& tree) : tree_(tree), diagnostics_(*tree.source) {}

  CheckResult check() {
    if (!tree_.mesh) return {};
    find_abbreviations();
    read_heads();
    std::vector<std::optional<Function>> functions = check_functions();
    const std::vector<int> order = callees_first();
    const std::optional<int> main = find_main();
    CheckResult result;
    const bool whole = std::all_of(functions.begin(), functions.end(), [](const auto& f) { return f.has_value(); });
    if (diagnostics_.empty() && whole && main) result.program = assemble(std::move(functions), order, *main);
    result.diagnostics = diagnostics_.take();
    sort_by_place(result.diagnostics);
    return result;
  }

 private:
  // --- Abbreviations.

  struct Abbreviation {
    std::optional<std::size_t> declaration;  // nothing for a missing one, which was reported
    Place place;
    std::optional<ArrayType> type;
  };

  void find_abbreviations() {
    for (declaration_ = 0; declaration_ < tree_.declarations.size(); ++declaration_) {
      const auto* declared = std::get_if<TypeDeclaration>(&tree_.declarations[declaration_]);
      if (declared == nullptr) continue;
      const auto [entry, is_new] = abbreviations_.try_emplace(
          declared->name.text, Abbreviation{declaration_, declared->name.place, std::nullopt});
      if (is_new) continue;
      diagnostics_.add(declared->name.place, fmt::format("type {} is declared twice", declared->name.text));
      diagnostics_.note(entry->second.place, fmt::format("{} is declared here", declared->name.text));
    }
  }

  // Resolves a type in the declaration that is being read, which may use the abbreviations above it.
  std::optional<ArrayType> resolve(const TypeSyntax& type) {
    if (const auto* spelled = std::get_if<ArrayType>(&type.type)) return *spelled;
    const auto* name = std::get_if<Name>(&type.type);
    if (name == nullptr) return std::nullopt;
    const auto entry = abbreviations_.find(name->text);
    if (entry == abbreviations_.end()) {
      diagnostics_.add(name->place, fmt::format("there is no type {}", name->text),
                       fmt::format("declare it above, as in type {} = [8, 8]", name->text));
      // So that the fault is reported once.
      abbreviations_.emplace(name->text, Abbreviation{std::nullopt, name->place, std::nullopt});
      return std::nullopt;
    }
    if (entry->second.declaration && *entry->second.declaration >= declaration_) {
      diagnostics_.add(name->place, fmt::format("type {} is not declared yet", name->text),
                       "declare types above their uses");
      diagnostics_.note(entry->second.place, fmt::format("{} is declared here", name->text));
      return std::nullopt;
    }
    return entry->second.type;
  }

  // --- Functions.

  // Reads types and the heads of functions, in the order of the text.
  void read_heads() {
    for (declaration_ = 0; declaration_ < tree_.declarations.size(); ++declaration_) {
      if (const auto* declared = std::get_if<TypeDeclaration>(&tree_.declarations[declaration_])) {
        Abbreviation& abbreviation = abbreviations_.at(declared->name.text);
        const std::optional<ArrayType> type = resolve(declared->type);
        if (abbreviation.declaration == declaration_) abbreviation.type = type;
      } else {
        read_head(std::get<FunctionSyntax>(tree_.declarations[declaration_]));
      }
    }
  }

  void read_head(const FunctionSyntax& function) {
    Signature signature{function.name, {}, {}, function.has_head_gap};
    for (const Parameter& parameter : function.parameters) signature.parameters.push_back(resolve(parameter.type));
    for (const TypeSyntax& type : function.result_types) signature.results.push_back(resolve(type));
    const int index = static_cast<int>(signatures_.size());
    signatures_.push_back(std::move(signature));
    syntax_.push_back(&function);
    declarations_.push_back(declaration_);
    if (function.name.text.empty()) return;  // a fault that was reported
    const auto [entry, is_new] = function_index_.try_emplace(function.name.text, index);
    if (is_new) return;
    diagnostics_.add(function.name.place, fmt::format("function {} is declared twice", function.name.text));
    diagnostics_.note(at(syntax_, entry->second)->name.place, fmt::format("{} is declared here", function.name.text));
  }

  std::optional<int> find_function(const Name& name) {
    const auto entry = function_index_.find(name.text);
    if (entry == function_index_.end()) {
      diagnostics_.add(name.place, fmt::format("there is no function {}", name.text));
      return std::nullopt;
    }
    calls_.back().push_back({entry->second, name.place});
    return entry->second;
  }

  std::vector<std::optional<Function>> check_functions() {
    const ProgramScope scope{*tree_.mesh, [this](const TypeSyntax& type) { return resolve(type); },
                             [this](const Name& name) { return find_function(name); }, signatures_};
    std::vector<std::optional<Function>> functions;
    for (std::size_t i = 0; i < syntax_.size(); ++i) {
      declaration_ = declarations_[i];
      calls_.emplace_back();
      functions.push_back(check_function(*syntax_[i], signatures_[i], scope, diagnostics_));
    }
    return functions;
  }

  std::optional<int> find_main() {
    if (const auto entry = function_index_.find("main"); entry != function_index_.end()) return entry->second;
    if (signatures_.size() == 1) return 0;
    if (signatures_.empty()) {
      const std::size_t end = tree_.source->text.size();
      diagnostics_.add({end, end}, "there is no function", "as in fn main(x: [8]) -> [8] { return x }");
    } else {
      diagnostics_.add(signatures_.front().name.place, "there is no function main",
                       "a program of several functions starts with main");
    }
    return std::nullopt;
  }

  // --- Order.

  struct CallSite {
    int callee;
    Place place;
  };

  // A function on the path of the search, and the index of its next call.
  struct Visit {
    int function;
    std::size_t next_call = 0;
  };

  // The functions, callees before callers. Depth first without recursion, because chains of calls may be as long as the
  // text. Reports cycles.
  std::vector<int> callees_first() {
    enum class State { unseen, open, done };
    std::vector<State> states(signatures_.size(), State::unseen);
    std::vector<int> order;
    for (int root = 0; root < static_cast<int>(signatures_.size()); ++root) {
      if (at(states, root) != State::unseen) continue;
      std::vector<Visit> path{{root}};
      at(states, root) = State::open;
      while (!path.empty()) {
        Visit& visit = path.back();
        const std::vector<CallSite>& calls = at(calls_, visit.function);
        if (visit.next_call == calls.size()) {
          at(states, visit.function) = State::done;
          order.push_back(visit.function);
          path.pop_back();
          continue;
        }
        const CallSite& call = calls[visit.next_call++];
        State& state = at(states, call.callee);
        if (state == State::open) report_cycle(path, call);
        if (state != State::unseen) continue;
        state = State::open;
        path.push_back({call.callee});
      }
    }
    return order;
  }

  void report_cycle(const std::vector<Visit>& path, const CallSite& call) {
    const auto first =
        std::find_if(path.begin(), path.end(), [&](const Visit& visit) { return visit.function == call.callee; });
    std::string names;
    const auto count = static_cast<std::size_t>(path.end() - first);
    for (std::size_t i = 0; i < std::min(count, most_named); ++i) {
      names += at(signatures_, (first + static_cast<std::ptrdiff_t>(i))->function).name.text + ", ";
    }
    if (count > most_named) names += fmt::format("{} more, ", count - most_named);
    const std::string& callee = at(signatures_, call.callee).name.text;
    diagnostics_.add(call.place, fmt::format("{} calls itself: {}{}", callee, names, callee),
                     "functions do not call themselves, directly or not");
  }

  Program assemble(std::vector<std::optional<Function>> functions, const std::vector<int>& order, int main) const {
    std::vector<int> position(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) at(position, order[i]) = static_cast<int>(i);
    Program program{tree_.source, *tree_.mesh, {}, at(position, main)};
    for (const int index : order) {
      Function function = std::move(*at(functions, index));
      for (Statement& statement : function.statements) {
        if (auto* call = std::get_if<Call>(&statement.operation)) call->function = at(position, call->function);
      }
      program.functions.push_back(std::move(function));
    }
    return program;
  }

  const SyntaxTree& tree_;
  DiagnosticList diagnostics_;
  std::unordered_map<std::string, Abbreviation> abbreviations_;
  std::size_t declaration_ = 0;  // the one being read
  // Both are by function, in the order of the text.
  std::vector<Signature> signatures_;
  std::vector<const FunctionSyntax*> syntax_;
  std::vector<std::size_t> declarations_;
  std::vector<std::vector<CallSite>> calls_;
  std::unordered_map<std::string, int> function_index_;
};

}  // namespace

CheckResult check_program(const SyntaxTree& tree) { return ProgramChecker(tree).check(); }

CheckedProgram read_program(SourceText source) {
  ParseResult parsed = parse_program(std::move(source));
  CheckResult checked = check_program(parsed.tree);
  std::vector<Diagnostic>& all = parsed.diagnostics;
  all.insert(all.end(), std::make_move_iterator(checked.diagnostics.begin()),
             std::make_move_iterator(checked.diagnostics.end()));
  sort_by_place(all);
  if (!all.empty()) throw ProgramError(std::move(all));
  ensure(checked.program.has_value(), "a program without diagnostics has no gaps");
  return {std::move(parsed.tree), std::move(*checked.program)};
}

}  // namespace retile::language
