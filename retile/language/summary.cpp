#include "retile/language/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "retile/language/function_checker.h"
#include "retile/language/syntax.h"

namespace retile::language {
namespace {

std::string operation_name(const Statement& statement) {
  if (const auto* op = std::get_if<Redistribute>(&statement.operation)) return name_of(op->kind);
  if (const auto* op = std::get_if<Collective>(&statement.operation)) return retile::name_of(op_of(op->step));
  return "allreduce";
}

// Lines of places that come in ascending order, in one pass over the text.
class LineCounter {
 public:
  explicit LineCounter(const SourceText& source) : text_(source.text), line_(source.first_line) {}

  int line_at(std::size_t position) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(position_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
    position_ = position;
    return line_;
  }

 private:
  std::string_view text_;
  std::size_t position_ = 0;
  int line_;
};

struct PlacedMovement {
  std::size_t position;
  MovementSummary summary;
};

std::vector<PlacedMovement> movements_of(ProgramPlanner& planner) {
  const Mesh& mesh = planner.program().mesh;
  std::vector<PlacedMovement> movements;
  for (const Function& function : planner.program().functions) {
    for (const Statement& statement : function.statements) {
      if (!moves_data(statement)) continue;
      const Value& operand = operand_of(function, statement);
      const Value& result = result_of(function, statement);
      movements.push_back({statement.range.begin,
                           {function.name, result.name, 0, operation_name(statement), describe(mesh, operand.type),
                            describe(mesh, result.type), planner.figures(function, statement)}});
    }
  }
  std::stable_sort(movements.begin(), movements.end(),
                   [](const auto& a, const auto& b) { return a.position < b.position; });
  return movements;
}

void set_peak(ProgramSummary& summary, const Program& program, const MemoryPeak& peak) {
  const Function& function = program.functions[static_cast<std::size_t>(peak.function)];
  summary.peak_bytes = peak.bytes;
  summary.peak_function = function.name;
  SourceRange place = function.range;
  if (peak.statement >= 0) {
    const Statement& statement = function.statements[static_cast<std::size_t>(peak.statement)];
    place = statement.range;
    for (const int result : statement.results) {
      summary.peak_statement +=
          (summary.peak_statement.empty() ? "" : ", ") + function.values[static_cast<std::size_t>(result)].name;
    }
  }
  summary.peak_line = LineCounter(*program.source).line_at(place.begin);
}

}  // namespace

ProgramSummary summarize(ProgramPlanner& planner) {
  ProgramSummary summary;
  summary.planner = name_of(planner.options().planner);
  summary.cost_model = planner.options().cost_model->name();
  LineCounter lines(*planner.program().source);
  for (PlacedMovement& movement : movements_of(planner)) {
    movement.summary.line = lines.line_at(movement.position);
    summary.movements.push_back(std::move(movement.summary));
  }
  set_peak(summary, planner.program(), find_memory_peak(planner));
  return summary;
}

std::string to_json(const ProgramSummary& summary) {
  using Json = nlohmann::ordered_json;
  Json movements = Json::array();
  for (const MovementSummary& movement : summary.movements) {
    movements.push_back({{"function", movement.function},
                         {"name", movement.name},
                         {"line", movement.line},
                         {"operation", movement.operation},
                         {"from", movement.from},
                         {"to", movement.to},
                         {"steps", movement.figures.steps},
                         {"cost", movement.figures.cost},
                         {"received_bytes_max", movement.figures.received_bytes},
                         {"peak_bytes", movement.figures.peak_bytes}});
  }
  const Json json{{"planner", summary.planner},
                  {"cost_model", summary.cost_model},
                  {"movements", movements},
                  {"peak",
                   {{"bytes", summary.peak_bytes},
                    {"function", summary.peak_function},
                    {"statement", summary.peak_statement},
                    {"line", summary.peak_line}}}};
  return json.dump();
}

}  // namespace retile::language
