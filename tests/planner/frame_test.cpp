#include "retile/planner/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/base/arithmetic.h"
#include "retile/plan/verify.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/layouts.h"
#include "tests/support/problems.h"

namespace retile {
namespace {

using test::ProblemText;
using test::RandomProblems;

// "[12{a}24] to [8{b}24]", and the view where there is one.
std::string frame_of(const Problem& problem) {
  const auto frame = find_frame(problem);
  if (!frame) return "none";
  std::string text = to_string(frame->source) + " to " + to_string(frame->target);
  if (!(frame->source.mesh() == problem.source().cuts()->mesh)) text += " on " + to_string(frame->source.mesh());
  for (std::size_t i = 0; i < frame->view.size(); ++i) text += (i == 0 ? " of " : " x ") + to_string(frame->view[i]);
  return text;
}
std::string frame_of(const char* mesh, const char* source, const char* target) {
  return frame_of(test::problem_of({mesh, source, mesh, target}));
}

void expect_same_boxes(const Frame& frame, const Problem& problem) {
  const MovedArray array{{}, frame.view};
  const std::int64_t world = problem.device_count();
  EXPECT_EQ(Placement(frame.shape, frame.source), problem.source().placement(world, array));
  EXPECT_EQ(Placement(frame.shape, frame.target), problem.target().placement(world, array));
}

TEST(Frames, pad_sizes_that_both_ends_cut_alike) {
  EXPECT_EQ(frame_of("a=2,b=3", "[12{a}23]", "[8{b}23]"), "[12{a}24] to [8{b}24]");
  EXPECT_EQ(frame_of("a=2", "[9{a}17, 23]", "[17, 12{a}23]"), "[9{a}18, 24] to [18, 12{a}24]");
  EXPECT_EQ(frame_of("a=2,b=2", "[2{a,b}7, 3]", "[4{a}7, 2{b}3]"), "[2{a,b}8, 4] to [4{a}8, 2{b}4]");
}

TEST(Frames, are_not_there_where_paddings_differ) {
  EXPECT_EQ(frame_of("a=2,b=3", "[4{a}7]", "[3{b}7]"), "none");
  EXPECT_EQ(frame_of("a=2,b=2", "[3{a}5]", "[2{a,b}5]"), "none");
}

TEST(Frames, take_other_rules_where_their_tiles_are_those_of_ceilings) {
  EXPECT_EQ(frame_of("a=2", "[9{a}17] balanced", "[17]"), "[9{a}18] to [18]");
  EXPECT_EQ(frame_of("a=3", "[6{a}17] nested", "[17]"), "[6{a}18] to [18]");
  EXPECT_EQ(frame_of("a=4", "[2{a}5] balanced", "[5]"), "none");
  EXPECT_EQ(frame_of("a=2,b=2", "[2{a,b}5] nested", "[5]"), "none");
}

TEST(Frames, refine_views_as_far_as_both_need_it) {
  EXPECT_EQ(frame_of("a=2", "[3*2{a}4*5]", "[60]"), "[3, 10{a}20] to [3, 20] of [3, 20]");
  EXPECT_EQ(frame_of("a=2", "[3*2{a}4*5]", "[30{a}60]"), "none") << "30 is half of 3 x 4 x 5, and 3 is odd";
  EXPECT_EQ(frame_of("a=2", "[4*2{a}4]", "[8{a}16]"), "[4, 2{a}4] to [2{a}4, 4] of [4, 4]");
  EXPECT_EQ(frame_of("a=2", "[2*3{a}6]", "[3*2{a}4]"), "none") << "6 and 4 have no common refinement in 12";
  EXPECT_EQ(frame_of("a=2", "[2*3]", "[3{a}6]"), "[6] to [3{a}6]") << "no cut needs the view";
  EXPECT_EQ(frame_of("a=2,b=2", "[1{a}2*4, 5]", "[8, 3{b}5]"), "[4{a}8, 6] to [8, 3{b}6]");
}

TEST(Frames, join_meshes_of_other_shapes_over_the_same_devices) {
  EXPECT_EQ(frame_of(test::problem_of({"a=2,b=4", "[8{a}16, 8]", "c=4,d=2", "[16, 2{c}8]"})),
            "[8{a}16, 8] to [16, 2{b:(1)2,a}8]");
  EXPECT_EQ(frame_of(test::problem_of({"a=6", "[2{a}12]", "b=2,c=3", "[4{c}12]"})), "[2{a}12] to [4{a:(2)3}12]");
  EXPECT_EQ(frame_of(test::problem_of({"a=6", "[2{a}12]", "b=3,c=2", "[4{b}12]"})), "none") << "3 x 2 is not 2 x 3";
}

TEST(Frames, join_lists_of_devices_that_digits_number) {
  // Devices column by column: b is the slow axis of the world.
  EXPECT_EQ(frame_of(test::problem_of({"a=2,b=2", "[2{a}4, 4]", "a=2,b=2", "[4, 2{a}4] on [0, 2, 1, 3]"})),
            "[2{a}4, 4] to [4, 2{b}4]");
  EXPECT_EQ(frame_of(test::problem_of({"a=2,b=2", "[2{a}4, 4] on [0, 2, 1, 3]", "c=4", "[1{c}4, 4]"})),
            "[2{c:(2)2}4, 4] to [1{c}4, 4] on {c: 4}");
  EXPECT_EQ(
      frame_of(test::problem_of({"a=2,b=2", "[2{a}4, 4] on [0, 2, 1, 3]", "a=2,b=2", "[1{b,a}4, 4] on [0, 2, 1, 3]"})),
      "[2{digit0}4, 4] to [1{digit1,digit0}4, 4] on {digit1: 2, digit0: 2}");
  EXPECT_EQ(frame_of(test::problem_of({"a=4", "[1{a}4]", "a=4", "[1{a}4] on [0, 2, 3, 1]"})), "none");
  EXPECT_EQ(frame_of(test::problem_of({"a=2", "[2{a}4]", "a=2", "[2{a}4] on [2, 3]"})), "none") << "other devices";
}

TEST(Frames, are_not_there_for_listed_boxes_and_empty_arrays) {
  EXPECT_EQ(frame_of(test::problem_of({"a=2", "[4] boxes {[0:2]; [2:4]}", "a=2", "[2{a}4]"})), "none");
  EXPECT_EQ(frame_of("a=2", "[0{a}0]", "[0]"), "none");
}

TEST(Frames, show_the_boxes_of_the_problem) {
  RandomProblems random(21);
  const std::vector<const char*> meshes{"a=2",     "a=3",         "a=4",  "a=2,b=2", "a=2,b=3",
                                        "a=4,b=2", "a=2,b=2,c=2", "a=12", "a=1,b=2"};
  int found = 0;
  for (int i = 0; i < 4000; ++i) {
    const Shape shape = random.shape(static_cast<int>(random.number(3)), {1, 2, 3, 4, 5, 6, 8, 11, 12, 16});
    const Mesh mesh = parse_mesh(random.pick(meshes));
    const auto layout = [&] {
      return random.number(2) == 0 ? test::uneven_layout(random, mesh, shape)
                                   : test::viewed_layout(random, mesh, shape);
    };
    const Problem problem("", layout(), layout());
    const auto frame = find_frame(problem);
    if (!frame) continue;
    ++found;
    SCOPED_TRACE(test::describe(problem) + ": " + frame_of(problem));
    expect_same_boxes(*frame, problem);
  }
  EXPECT_GT(found, 500);
}

TEST(Frames, of_other_meshes_show_the_boxes_of_the_problem) {
  RandomProblems random(22);
  const std::vector<const char*> meshes{"a=8", "a=2,b=4", "a=4,b=2", "a=2,b=2,c=2"};
  const std::vector<std::vector<Device>> orders{
      {}, {0, 4, 2, 6, 1, 5, 3, 7}, {0, 2, 4, 6, 1, 3, 5, 7}, {0, 1, 4, 5, 2, 3, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}};
  int found = 0;
  for (int i = 0; i < 2000; ++i) {
    const Shape shape = random.shape(2, {3, 4, 7, 8, 16});
    const auto layout = [&] {
      MeshLayout cuts = *test::uneven_layout(random, parse_mesh(random.pick(meshes)), shape).cuts();
      cuts.devices = random.pick(orders);
      return Layout(std::move(cuts));
    };
    const Problem problem("", layout(), layout());
    const auto frame = find_frame(problem);
    if (!frame) continue;
    ++found;
    SCOPED_TRACE(test::describe(problem) + ": " + frame_of(problem));
    expect_same_boxes(*frame, problem);
  }
  EXPECT_GT(found, 300);
}

// On the frame all tiles of a path are equally large; in the array one on the way is larger than both ends, unless
// another path is taken.
TEST(Frames, keep_the_papers_plans_below_the_larger_end) {
  const Plan plan =
      make_plan(test::problem_of("x=2,y=2", "[4, 3, 2*1{y,x}2]", "[4, 2{y}3, 2{x}4]"), test::paper_planning().options);
  EXPECT_EQ(find_faults(plan), std::vector<std::string>());
  EXPECT_EQ(plan.memory.source, 24);
  EXPECT_EQ(plan.memory.peak, 24);
}

TEST(Frames, make_plans_of_typed_steps) {
  const auto steps = [](const ProblemText& text) { return test::steps_of(make_plan(test::problem_of(text))); };
  EXPECT_EQ(steps({"a=2,b=4", "[8{a}16, 8]", "c=4,d=2", "[16, 2{c}8]"}), "dynslice(1; 2) exchange");
  EXPECT_EQ(steps({"a=2,b=2", "[2{a}4, 4]", "a=2,b=2", "[4, 2{a}4] on [0, 2, 1, 3]"}),
            "dynslice(1; 2) allgather(0; 2)");
  EXPECT_EQ(steps({"a=2", "[9{a}17, 23]", "a=2", "[17, 12{a}23]"}), "alltoall(0 -> 1; 2)");
  EXPECT_EQ(steps({"a=2,b=2", "[3*2{a}4*2]", "a=2,b=2", "[3*1{a,b}4*2]"}), "dynslice(1; 2) exchange");
}

}  // namespace
}  // namespace retile
