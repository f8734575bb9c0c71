// Problems for planners: those of tests/data, and random ones that are the same in every run.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile::test {

// The lines of a file in tests/data.
std::vector<SourceText> data_lines(const std::string& name);

// tests/data/problems.jsonl.
std::vector<Problem> file_problems();

// "a=2,b=2", "[1{a}2]", "[1{b}2]".
Problem problem_of(const char* mesh, const char* source, const char* target);

// "[1{a}2] to [1{b}2] on {a: 2, b: 2}".
std::string describe(const Problem& problem);

class RandomProblems {
 public:
  explicit RandomProblems(std::uint32_t seed) : engine_(seed) {}

  // From 0 to below `end`.
  std::size_t number(std::size_t end) { return engine_() % end; }
  template <typename Value>
  const Value& pick(const std::vector<Value>& values) {
    return values[number(values.size())];
  }
  Shape shape(int rank, const std::vector<std::int64_t>& sizes);
  // Prime parts of the mesh, in random order, cut random dimensions that divide by them, or none.
  DistributedType type(const Mesh& mesh, const Shape& global);
  Problem problem(const Mesh& mesh, const Shape& global);
  std::vector<std::int64_t> permutation(std::size_t size);

 private:
  std::mt19937 engine_;
};

// The planners that keep to a memory bound, or claim to be cheapest, each with a name.
struct Planning {
  std::string name;
  PlanOptions options;
};
Planning paper_planning(const CostModel& model = paper_model());
Planning wide_planning(const CostModel& model = paper_model());
Planning portable_planning(const CostModel& model = paper_model());  // wide, with ExchangeUse::avoided
Planning direct_planning(const CostModel& model = paper_model());
std::vector<Planning> all_plannings(const CostModel& model = paper_model());

// One character per step: s(lice), a(lltoall), p(ermute), e(xchange), g(ather), r(educe).
std::string kinds(const Plan& plan);

// "dynslice(0; 2) alltoall(0 -> 1; 2)".
std::string steps_of(const Plan& plan);

// Whether larger sweeps are to run: where the environment has RETILE_SWEEP=1, as under `make sweep`.
bool is_sweep();

}  // namespace retile::test
