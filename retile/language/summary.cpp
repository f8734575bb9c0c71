#include "retile/language/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/costs/cost_model.h"
#include "retile/language/function_checker.h"
#include "retile/language/memory.h"
#include "retile/language/syntax.h"
#include "retile/plan/memory_meter.h"

namespace retile::language {
namespace {

std::string operation_name(const Statement& statement) {
  if (const auto* op = std::get_if<Redistribute>(&statement.operation)) return name_of(op->kind);
  return retile::name_of(op_of(std::get<StepStatement>(statement.operation).step));
}

// Finds the lines of places that come in ascending order, in one pass over the text.
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

// The figures of a movement. Throws RuntimeError where one does not fit in 63 bits.
MovementFigures figures_of(const Movement& movement, const CostModel& model, std::int64_t element_size) {
  MovementFigures figures;
  figures.steps = static_cast<std::int64_t>(movement.steps.size());
  for (std::size_t i = 0; i < movement.steps.size(); ++i) {
    const Step& step = movement.steps[i];
    const Placement& before = movement.before(i);
    const auto received = checked_multiply(step_cost(volume_model(), step, before, element_size), element_size);
    figures.cost = fitting(checked_add(figures.cost, step_cost(model, step, before, element_size)));
    figures.received_bytes = add_bytes(figures.received_bytes, fitting(received));
  }
  figures.peak_bytes = peak_of_movement(movement, element_size, TileUse::donated);
  return figures;
}

MovementFigures figures_of(const LoweredProgram& lowered, const Statement& statement, const Movement& movement,
                           ElementType element) {
  try {
    return figures_of(movement, *lowered.options.cost_model, bytes_of(element));
  } catch (const RuntimeError&) {
    throw InputError(diagnose(*lowered.program.source, statement.range,
                              "the cost or memory of this statement does not fit in 63 bits"));
  }
}

// Adds the movements of the function with this number.
void add_movements(const LoweredProgram& lowered, std::size_t number, LineCounter& lines,
                   std::vector<MovementSummary>& summaries) {
  const Mesh& mesh = lowered.program.mesh;
  const Function& function = lowered.program.functions[number];
  for (std::size_t i = 0; i < function.statements.size(); ++i) {
    const Statement& statement = function.statements[i];
    const auto& movement = lowered.statements[number][i].movement;
    if (movement == nullptr) continue;
    const Value& operand = operand_of(function, statement);
    const Value& result = result_of(function, statement);
    summaries.push_back({function.name, result.name, lines.line_at(statement.range.begin), operation_name(statement),
                         describe(mesh, operand.type), describe(mesh, result.type),
                         figures_of(lowered, statement, *movement, operand.type.element)});
  }
}

std::vector<std::size_t> in_source_order(const std::vector<Function>& functions) {
  std::vector<std::size_t> order = numbers_below(functions.size());
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return functions[a].range.begin < functions[b].range.begin; });
  return order;
}

std::string name_of(const Function& function, int number) {
  if (number < 0) return {};
  const auto index = static_cast<std::size_t>(number);
  if (index == function.statements.size()) return "return";
  std::string names;
  for (const int result : function.statements[index].results) {
    names += (names.empty() ? "" : ", ") + at(function.values, result).name;
  }
  return names;
}

void set_peak(ProgramSummary& summary, const LoweredProgram& lowered) {
  const MemoryPeak peak = find_memory_peak(lowered);
  const Function& function = at(lowered.program.functions, peak.function);
  summary.peak_bytes = peak.bytes;
  summary.peak_function = function.name;
  summary.peak_statement = name_of(function, peak.statement);
  summary.peak_line = LineCounter(*lowered.program.source).line_at(place_of(peak, lowered.program).begin);
}

}  // namespace

ProgramSummary summarize(const LoweredProgram& lowered) {
  ProgramSummary summary;
  summary.planner = retile::name_of(lowered.options.planner);
  summary.cost_model = lowered.options.cost_model->name();
  LineCounter lines(*lowered.program.source);
  for (const std::size_t function : in_source_order(lowered.program.functions)) {
    add_movements(lowered, function, lines, summary.movements);
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
  const Json json{{"format", json_format},
                  {"planner", summary.planner},
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
