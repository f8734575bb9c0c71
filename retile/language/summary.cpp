#include "retile/language/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/language/function_checker.h"
#include "retile/language/memory.h"
#include "retile/language/memory_meter.h"
#include "retile/language/syntax.h"
#include "retile/planner/cost_model.h"

namespace retile::language {
namespace {

std::string operation_name(const Statement& statement) {
  if (const auto* op = std::get_if<Redistribute>(&statement.operation)) return name_of(op->kind);
  if (const auto* op = std::get_if<StepStatement>(&statement.operation)) return retile::name_of(op->step.op);
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

// Costs and memory throw RuntimeError where they do not fit.
MovementFigures figures_of(const Movements& movements, CostModel model, std::int64_t element_size) {
  MovementFigures figures;
  for (const auto& movement : movements) {
    figures.steps += static_cast<std::int64_t>(movement->steps.size());
    for (std::size_t i = 0; i < movement->steps.size(); ++i) {
      const Step& step = movement->steps[i];
      const Placement& before = movement->before(i);
      const auto received = checked_multiply(step_cost(CostModel::volume, step, before), element_size);
      figures.cost = fitting(checked_add(figures.cost, step_cost(model, step, before)));
      figures.received_bytes = add_bytes(figures.received_bytes, fitting(received));
    }
  }
  figures.peak_bytes = peak_of_movements(movements, element_size, TileUse::donated);
  return figures;
}

struct PlacedMovement {
  std::size_t position;
  MovementSummary summary;
};

PlacedMovement summarize(const LoweredProgram& lowered, const Function& function, const Statement& statement,
                         const Movements& movements) {
  const Mesh& mesh = lowered.program.mesh;
  const Value& operand = operand_of(function, statement);
  const Value& result = result_of(function, statement);
  try {
    return {statement.range.begin,
            {function.name, result.name, 0, operation_name(statement), describe(mesh, operand.type),
             describe(mesh, result.type),
             figures_of(movements, lowered.options.cost_model, bytes_of(operand.type.element))}};
  } catch (const RuntimeError&) {
    throw InputError(diagnose(*lowered.program.source, statement.range,
                              "the cost or memory of this statement does not fit in 63 bits"));
  }
}

std::vector<PlacedMovement> movements_of(const LoweredProgram& lowered) {
  std::vector<PlacedMovement> placed;
  for (std::size_t f = 0; f < lowered.statements.size(); ++f) {
    const Function& function = lowered.program.functions[f];
    for (std::size_t i = 0; i < function.statements.size(); ++i) {
      const Movements& movements = lowered.statements[f][i].movements;
      if (!movements.empty()) placed.push_back(summarize(lowered, function, function.statements[i], movements));
    }
  }
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
  return placed;
}

std::string name_of(const Function& function, int number) {
  if (number < 0) return {};
  const auto index = static_cast<std::size_t>(number);
  if (index == function.statements.size()) return "return";
  std::string names;
  for (const int result : function.statements[index].results) {
    names += (names.empty() ? "" : ", ") + function.values[static_cast<std::size_t>(result)].name;
  }
  return names;
}

void set_peak(ProgramSummary& summary, const LoweredProgram& lowered) {
  const MemoryPeak peak = find_memory_peak(lowered);
  const Function& function = lowered.program.functions[static_cast<std::size_t>(peak.function)];
  summary.peak_bytes = peak.bytes;
  summary.peak_function = function.name;
  summary.peak_statement = name_of(function, peak.statement);
  summary.peak_line = LineCounter(*lowered.program.source).line_at(place_of(peak, lowered.program).begin);
}

}  // namespace

ProgramSummary summarize(const LoweredProgram& lowered) {
  ProgramSummary summary;
  summary.planner = retile::name_of(lowered.options.planner);
  summary.cost_model = retile::name_of(lowered.options.cost_model);
  LineCounter lines(*lowered.program.source);
  for (PlacedMovement& movement : movements_of(lowered)) {
    movement.summary.line = lines.line_at(movement.position);
    summary.movements.push_back(std::move(movement.summary));
  }
  set_peak(summary, lowered);
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
