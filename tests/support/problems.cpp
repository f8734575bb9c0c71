#include "tests/support/problems.h"

#include <cstdlib>
#include <fstream>
#include <numeric>

#include "retile/base/error.h"
#include "retile/types/text.h"

namespace retile::test {
namespace {

Planning planning(std::string name, PlannerKind kind, const CostModel& model) {
  Planning planning{std::move(name), {}};
  planning.options.planner = kind;
  planning.options.cost_model = &model;
  return planning;
}

}  // namespace

std::vector<SourceText> data_lines(const std::string& name) {
  std::ifstream file(RETILE_SOURCE_DIR "/tests/data/" + name);
  ensure(file.good(), "a test's data are there");
  std::vector<SourceText> lines;
  for (std::string text; std::getline(file, text);) lines.push_back({name, text, static_cast<int>(lines.size()) + 1});
  return lines;
}

std::vector<Problem> file_problems() {
  std::vector<Problem> problems;
  for (const SourceText& line : data_lines("problems.jsonl")) problems.push_back(parse_problem(line));
  return problems;
}

Problem problem_of(const char* mesh, const char* source, const char* target) {
  const Mesh parsed = parse_mesh(mesh);
  return {"", parse_layout(source, parsed), parse_layout(target, parsed)};
}

std::string describe(const Problem& problem) {
  const auto mesh_of = [](const Layout& layout) {
    return layout.cuts() ? " on " + to_string(layout.cuts()->mesh) : "";
  };
  const std::string source = mesh_of(problem.source());
  const std::string target = mesh_of(problem.target());
  return to_string(problem.source()) + (source == target ? "" : source) + " to " + to_string(problem.target()) + target;
}

Shape RandomProblems::shape(int rank, const std::vector<std::int64_t>& sizes) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(pick(sizes));
  return shape;
}

DistributedType RandomProblems::type(const Mesh& mesh, const Shape& global) {
  const std::vector<AxisPart>& parts = mesh.prime_parts();
  Shape local = global;
  std::vector<std::vector<AxisPart>> cuts(global.size());
  for (const std::int64_t index : permutation(parts.size())) {
    const AxisPart& part = parts[static_cast<std::size_t>(index)];
    const std::size_t dimension = number(global.size() + 1);
    if (dimension == global.size() || local[dimension] % part.size != 0) continue;
    local[dimension] /= part.size;
    cuts[dimension].push_back(part);
  }
  return DistributedType::cut(mesh, global, cuts);
}

Problem RandomProblems::problem(const Mesh& mesh, const Shape& global) {
  DistributedType source = type(mesh, global);
  return {"", std::move(source), type(mesh, global)};
}

std::vector<std::int64_t> RandomProblems::permutation(std::size_t size) {
  std::vector<std::int64_t> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (std::size_t i = size; i > 1; --i) std::swap(numbers[i - 1], numbers[number(i)]);
  return numbers;
}

Planning paper_planning(const CostModel& model) { return planning("paper", PlannerKind::paper, model); }
Planning wide_planning(const CostModel& model) { return planning("wide", PlannerKind::wide, model); }
Planning portable_planning(const CostModel& model) {
  Planning portable = planning("wide without exchange", PlannerKind::wide, model);
  portable.options.executor.transport = Executor::Transport::collectives;
  return portable;
}
Planning direct_planning(const CostModel& model) { return planning("direct", PlannerKind::direct, model); }

std::vector<Planning> all_plannings(const CostModel& model) {
  return {paper_planning(model), wide_planning(model), portable_planning(model), direct_planning(model)};
}

std::string kinds(const Plan& plan) {
  std::string letters;
  for (const Step& step : plan.steps()) {
    switch (op_of(step)) {
      case StepOp::dynslice:
        letters += 's';
        break;
      case StepOp::alltoall:
        letters += 'a';
        break;
      case StepOp::allpermute:
        letters += 'p';
        break;
      case StepOp::exchange:
        letters += 'e';
        break;
      case StepOp::allgather:
        letters += 'g';
        break;
      case StepOp::reduce:
        letters += 'r';
        break;
    }
  }
  return letters;
}

std::string steps_of(const Plan& plan) {
  std::string text;
  for (const Step& step : plan.steps()) text += (text.empty() ? "" : " ") + to_string(step);
  return text;
}

bool is_sweep() {
  const char* value = std::getenv("RETILE_SWEEP");
  return value != nullptr && std::string(value) == "1";
}

}  // namespace retile::test
