#include "evaluation/xla_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/base/scanner.h"
#include "retile/planner/planner.h"

namespace retile::evaluation {
namespace {

// Skips a layout such as {1,0} or {1,0:T(8,128)}, which says how a tensor lies in memory, not what it holds.
void skip_layout(Scanner& scanner) {
  while (!scanner.at_end() && !scanner.looking_at("}")) {
    const bool read = scanner.accept(",") || scanner.accept(":") || scanner.accept("(") || scanner.accept(")");
    if (read) continue;
    if (scanner.looking_at_name()) {
      scanner.name("a part of the layout");
    } else {
      scanner.index("a part of the layout");
    }
  }
  scanner.expect("}", "at the end of a layout");
}

// tensor ::= name '[' [ size { ',' size } ] ']' [ '{' layout '}' ]
Shape scan_tensor(Scanner& scanner) {
  const std::size_t begin = scanner.next_position();
  scanner.name("an element type");
  scanner.expect("[", "after the element type");
  Shape shape;
  if (!scanner.looking_at("]")) {
    do {
      shape.push_back(scanner.size("a size"));
    } while (scanner.accept(","));
  }
  scanner.expect("]", "or ',' after a size");
  if (!checked_product(shape)) {
    scanner.fail({begin, scanner.last().end}, "the number of elements does not fit in 63 bits");
  }
  if (scanner.accept("{")) skip_layout(scanner);
  return shape;
}

// out ::= tensor | '(' tensor { ',' tensor } ')'
std::vector<Shape> parse_out(const SourceText& text) {
  Scanner scanner(text);
  std::vector<Shape> shapes;
  const bool tuple = scanner.accept("(");
  do {
    shapes.push_back(scan_tensor(scanner));
  } while (tuple && scanner.accept(","));
  if (tuple) scanner.expect(")", "or ',' after a part of the tuple");
  scanner.expect_end("the output of a collective");
  return shapes;
}

// The number of elements; nothing where it does not fit in 63 bits.
std::optional<std::int64_t> total_size(const std::vector<Shape>& shapes) {
  std::int64_t total = 0;
  for (const Shape& shape : shapes) {
    const auto sum = checked_add(total, product(shape));
    if (!sum) return std::nullopt;
    total = *sum;
  }
  return total;
}

XlaStep read_step(const JsonReader& reader) {
  const JsonReader name = reader.member("op");
  const auto op = find_xla_op(name.string());
  if (!op) {
    name.fail(fmt::format("unknown collective \"{}\"", name.string()), fmt::format("use one of {}", xla_op_names));
  }
  const JsonReader out = reader.member("out");
  XlaStep step{*op, out.parse_text(parse_out)};
  if (!total_size(step.out)) out.fail("the number of elements does not fit in 63 bits");
  return step;
}

Plan plan_with(const Problem& problem, PlannerKind planner) {
  PlanOptions options;
  options.planner = planner;
  return make_plan(problem, options);
}

class RatioCollector {
 public:
  void add(std::int64_t xla, std::int64_t ours) {
    const double ratio = static_cast<double>(xla) / static_cast<double>(ours);
    if (count_ == 0) ratios_.largest = ratios_.smallest = ratio;
    ratios_.largest = std::max(ratios_.largest, ratio);
    ratios_.smallest = std::min(ratios_.smallest, ratio);
    ratios_.xla_cheaper += xla < ours ? 1 : 0;
    ratios_.xla_dearer += xla > ours ? 1 : 0;
    log_sum_ += std::log(ratio);
    ++count_;
  }

  CostRatios ratios() const {
    CostRatios ratios = ratios_;
    if (count_ > 0) ratios.geometric_mean = std::exp(log_sum_ / count_);
    return ratios;
  }

 private:
  CostRatios ratios_;
  double log_sum_ = 0;
  int count_ = 0;
};

std::optional<XlaOp> collective_of(StepOp op) {
  switch (op) {
    case StepOp::allgather:
      return XlaOp::all_gather;
    case StepOp::alltoall:
      return XlaOp::all_to_all;
    case StepOp::allpermute:
      return XlaOp::collective_permute;
    case StepOp::dynslice:
    case StepOp::exchange:
    case StepOp::reduce:
      return std::nullopt;
  }
  throw InternalError("unknown step");
}

}  // namespace

std::optional<XlaOp> find_xla_op(std::string_view name) {
  if (name == "all-gather") return XlaOp::all_gather;
  if (name == "all-to-all") return XlaOp::all_to_all;
  if (name == "collective-permute") return XlaOp::collective_permute;
  return std::nullopt;
}

std::int64_t XlaStep::out_size() const { return total_size(out).value(); }

XlaPlan parse_xla_plan(const SourceText& line) {
  const JsonValue root = parse_json(line);
  const JsonReader reader(line, root, "the plan");
  XlaPlan plan;
  for (const JsonReader& step : reader.member("ops").elements()) plan.steps.push_back(read_step(step));
  plan.id = reader.has("id") ? reader.member("id").string() : fmt::format("line-{}", line.first_line);
  return plan;
}

std::int64_t cost_of(const XlaPlan& plan) {
  std::int64_t cost = 0;
  for (const XlaStep& step : plan.steps) {
    const auto sum = checked_add(cost, step.out_size());
    if (!sum) throw InputError("the cost of the plan does not fit in 63 bits", {});
    cost = *sum;
  }
  return cost;
}

std::int64_t peak_of(const XlaPlan& plan, const Problem& problem) {
  std::int64_t peak = std::max(problem.source().local_size(), problem.target().local_size());
  for (const XlaStep& step : plan.steps) peak = std::max(peak, step.out_size());
  return peak;
}

XlaComparison compare_with_xla(const Problem& problem, const XlaPlan& plan) {
  const Plan paper = plan_with(problem, PlannerKind::paper);
  const Plan wide = plan_with(problem, PlannerKind::wide);
  return {problem.id(),
          cost_of(plan),
          peak_of(plan, problem),
          paper.cost.total,
          wide.cost.total,
          std::max(paper.memory.peak, wide.memory.peak),
          std::max(problem.source().local_size(), problem.target().local_size())};
}

XlaSummary summarize(std::span<const XlaComparison> comparisons) {
  XlaSummary summary;
  RatioCollector paper;
  RatioCollector wide;
  for (const XlaComparison& comparison : comparisons) {
    ++summary.problems;
    summary.xla_above_bound += comparison.xla_peak > comparison.bound ? 1 : 0;
    summary.ours_above_bound += comparison.our_peak > comparison.bound ? 1 : 0;
    summary.largest_peak = std::max(summary.largest_peak,
                                    static_cast<double>(comparison.xla_peak) / static_cast<double>(comparison.bound));
    if (!comparison.moves_data()) {
      const bool costs = comparison.xla_cost > 0 || comparison.paper_cost > 0 || comparison.wide_cost > 0;
      summary.one_sided += costs ? 1 : 0;
      continue;
    }
    ++summary.moving;
    paper.add(comparison.xla_cost, comparison.paper_cost);
    wide.add(comparison.xla_cost, comparison.wide_cost);
  }
  summary.paper = paper.ratios();
  summary.wide = wide.ratios();
  return summary;
}

bool has_collectives_of(const Plan& plan, const XlaPlan& recorded) {
  std::vector<std::pair<XlaOp, std::int64_t>> planned;
  for (const Step& step : plan.steps()) {
    if (const auto op = collective_of(op_of(step))) planned.emplace_back(*op, step.after.local_size());
  }
  const auto is_same = [](const auto& ours, const XlaStep& step) {
    return ours.first == step.op && ours.second == step.out_size();
  };
  return std::equal(planned.begin(), planned.end(), recorded.steps.begin(), recorded.steps.end(), is_same);
}

}  // namespace retile::evaluation
