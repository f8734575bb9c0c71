// What is proved of plans whose grids reach beyond the array, against plain searches over clipped placements.
#include "retile/planner/clipped_bound.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "retile/planner/frame.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/layouts.h"
#include "tests/support/problems.h"
#include "tests/support/step_search.h"

namespace retile::test {
namespace {

struct Counts {
  int problems = 0;
  int proved = 0;
  int dearer = 0;  // than the cheapest

  bool operator==(const Counts&) const = default;
};
void PrintTo(const Counts& counts, std::ostream* out) {
  *out << counts.problems << " problems, " << counts.proved << " proved, " << counts.dearer << " dearer";
}

class ClippedBounds : public testing::Test {
 protected:
  // All pairs of layouts that ceilings cut along the mesh's prime parts, where they have a frame larger than the array.
  void check_all(const Mesh& mesh, const Shape& array, StepSet steps) {
    std::vector<Layout> layouts;
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, static_cast<int>(array.size())))) {
      View view;
      for (std::size_t i = 0; i < array.size(); ++i) view.push_back({{array[i], type.dimensions()[i].axes}});
      layouts.emplace_back(MeshLayout{mesh, std::move(view), UnevenRule::ceiling, {}, Reduction::sum, {}});
    }
    for (const Layout& source : layouts) {
      for (const Layout& target : layouts) {
        if (const Problem problem("", source, target); const auto frame = find_frame(problem)) {
          if (frame->source.global_shape() != array) check(problem, *frame, steps);
        }
        if (HasFailure()) return;
      }
    }
  }

  void check(const Problem& problem, const Frame& frame, StepSet steps) {
    const Planning planning = steps == StepSet::narrow ? paper_planning()
                              : steps == StepSet::wide ? wide_planning()
                                                       : portable_planning();
    const Plan plan = make_plan(problem, planning.options);
    if (plan.cost.floor == 0) {  // no grid is needed for that
      EXPECT_EQ(plan.cost.total, 0) << planning.name << ": " << describe(problem) << ": " << steps_of(plan);
      return;
    }
    const std::int64_t devices = problem.device_count();
    const StepSearch& search =
        searches_
            .try_emplace({steps, devices, frame.source.global_shape(), frame.shape, frame.source.local_shape()},
                         weaken(frame.source), frame.shape, devices, steps)
            .first->second;
    const std::int64_t cheapest = search.cheapest(Placement(frame.source), Placement(frame.target));
    EXPECT_LE(plan.cost.lower_bound, cheapest) << planning.name << ": " << describe(problem);
    EXPECT_GE(plan.cost.total, cheapest) << planning.name << ": " << describe(problem) << ": " << steps_of(plan);
    ++counts_.problems;
    counts_.proved += plan.cost.optimal ? 1 : 0;
    counts_.dearer += plan.cost.total > cheapest ? 1 : 0;
  }

  Counts check_small(StepSet steps) {
    for (const char* text : {"a=2", "a=3", "a=4", "a=2,b=2", "a=2,b=3", "a=6"}) {
      for (const Shape& array :
           {Shape{1}, Shape{3}, Shape{5}, Shape{7}, Shape{11}, Shape{1, 3}, Shape{3, 5}, Shape{2, 7}, Shape{5, 11},
            Shape{7, 7}, Shape{4, 11}, Shape{3, 3, 3}, Shape{2, 5, 7}}) {
        check_all(parse_mesh(text), array, steps);
      }
    }
    return counts_;
  }

  // With more tiles that lie beyond the array on the way.
  void check_more(StepSet steps) {
    for (const char* text : {"a=4", "a=2,b=2", "a=6", "a=2,b=3", "a=5"}) {
      for (const Shape& array : {Shape{9, 9}, Shape{10, 5}, Shape{21, 5}, Shape{21, 21}, Shape{17, 3}, Shape{13, 7},
                                 Shape{22, 4}, Shape{9, 6, 5}, Shape{6, 7, 11}, Shape{21, 9, 2}, Shape{10, 10, 4}}) {
        check_all(parse_mesh(text), array, steps);
      }
    }
    for (const Shape& array :
         {Shape{7}, Shape{15}, Shape{3, 7}, Shape{7, 15}, Shape{1, 7}, Shape{8, 7}, Shape{21, 5}}) {
      check_all(parse_mesh("a=2,b=2,c=2"), array, steps);
    }
  }

  std::map<std::tuple<StepSet, std::int64_t, Shape, Shape, Shape>, StepSearch> searches_;
  Counts counts_;
};

// Plans are made for the whole grid: some are dearer than others would be once they are clipped, and none of those is
// called optimal.
TEST_F(ClippedBounds, of_the_papers_collectives) { EXPECT_EQ(check_small(StepSet::narrow), (Counts{3941, 2969, 438})); }

TEST_F(ClippedBounds, of_wide_plans) { EXPECT_EQ(check_small(StepSet::wide), (Counts{3941, 3455, 346})); }

TEST_F(ClippedBounds, of_wide_plans_without_exchange) {
  EXPECT_EQ(check_small(StepSet::wide_without_exchange), (Counts{3941, 3287, 348}));
}

TEST_F(ClippedBounds, sweep) {
  if (!is_sweep()) GTEST_SKIP() << "make sweep runs it";
  for (const StepSet steps : {StepSet::narrow, StepSet::wide, StepSet::wide_without_exchange}) check_more(steps);
  EXPECT_GT(counts_.problems, 40000);
}

// --- By hand.

TEST(ClippedBound, is_the_bound_where_tiles_are_no_longer_than_the_array) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2{a,b}8, 4]", mesh);
  const DistributedType target = parse_type("[4{a}8, 2{b}4]", mesh);
  const TypedProblem problem(source, target);
  EXPECT_EQ(clipped_bound(problem, {8, 4}, 16), 16);
  EXPECT_EQ(clipped_bound(problem, {8, 4}, 11), 16) << "steps cost 8, 16 or 32";
}

TEST(ClippedBound, counts_what_is_left_of_the_tiles) {
  // Two steps on tiles of 2 x 4 before clipping: to the target, and to any grid of that size.
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[8, 1{a,b}4]", mesh);
  const DistributedType target = parse_type("[2{a,b}8, 4]", mesh);
  const TypedProblem problem(source, target);
  EXPECT_EQ(clipped_bound(problem, {7, 4}, 16), 15) << "2 x 4 and 7 x 1";
  EXPECT_EQ(clipped_bound(problem, {8, 3}, 16), 6) << "some devices hold nothing: one step is sure";
}

TEST(ClippedBound, sees_that_nothing_need_move) {
  // Four tiles of which the array fills one, and the same device has it.
  const Plan plan = make_plan(problem_of({"a=2,b=2", "[1{a,b}1, 4]", "a=2,b=2", "[1{b,a}1, 4]"}));
  EXPECT_EQ(plan.cost.total, 0);
  EXPECT_TRUE(plan.steps().empty());
  EXPECT_EQ(steps_of(make_plan(problem_of({"a=2,b=3", "[1{a}1, 3]", "a=2,b=3", "[1, 1{b,a}3]"}))), "dynslice");
}

}  // namespace
}  // namespace retile::test
