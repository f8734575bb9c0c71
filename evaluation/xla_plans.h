// Recorded plans of the XLA compiler: the collectives that it printed for a problem, and their cost and memory by the
// paper's measures.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/plan/plan.h"
#include "retile/planner/problem.h"

namespace retile::evaluation {

enum class XlaOp { all_gather, all_to_all, collective_permute };

constexpr std::string_view xla_op_names = "all-gather, all-to-all, collective-permute";

std::optional<XlaOp> find_xla_op(std::string_view name);

struct XlaStep {
  XlaOp op = XlaOp::collective_permute;
  std::vector<Shape> out;  // local; several for a tuple

  // The number of elements in all outputs together. It is also the paper's cost of every collective (fig:cost-model):
  // an all-to-all and a permutation return as much as they take.
  std::int64_t out_size() const;
};

struct XlaPlan {
  std::string id;
  std::vector<XlaStep> steps;  // only communication: slices cost nothing and never hold more than before
};

// Parses a line of JSON: {"id": "p1", "ops": [{"op": "all-gather", "out": "f32[8,4]{1,0}"}, …]}. Other members are
// ignored. A plan without "id" is named after its line. Throws InputError.
XlaPlan parse_xla_plan(const SourceText& line);

// These throw InputError where a sum does not fit in 63 bits.
std::int64_t cost_of(const XlaPlan& plan);
// The largest local tensor on the way, source and target included.
std::int64_t peak_of(const XlaPlan& plan, const Problem& problem);

// Whether the plan has the recorded collectives in the same order, with outputs of the same sizes. Slices are ignored:
// the records have none.
bool has_collectives_of(const Plan& plan, const XlaPlan& recorded);

// XLA's plan of one problem compared with ours, in elements per device.
struct XlaComparison {
  std::string id;
  std::int64_t xla_cost = 0;
  std::int64_t xla_peak = 0;
  std::int64_t paper_cost = 0;
  std::int64_t wide_cost = 0;
  std::int64_t our_peak = 0;  // the larger of the two planners' peaks
  std::int64_t bound = 0;     // the larger of source and target

  bool moves_data() const { return xla_cost > 0 && paper_cost > 0 && wide_cost > 0; }
};

XlaComparison compare_with_xla(const Problem& problem, const XlaPlan& plan);

// Ratios of XLA's costs to those of one planner.
struct CostRatios {
  double geometric_mean = 1;
  double largest = 1;
  double smallest = 1;
  int xla_cheaper = 0;  // number of problems
  int xla_dearer = 0;
};

struct XlaSummary {
  int problems = 0;
  int moving = 0;     // problems that move data on both sides; ratios are over these
  int one_sided = 0;  // problems that cost something on one side only
  CostRatios paper;
  CostRatios wide;
  int xla_above_bound = 0;
  int ours_above_bound = 0;
  double largest_peak = 1;  // XLA's, over the bound
};

XlaSummary summarize(std::span<const XlaComparison> comparisons);

}  // namespace retile::evaluation
