#include "retile/drawing/scene.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "retile/plan/json.h"
#include "retile/plan/lists.h"
#include "tests/drawing/drawings.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/layouts.h"
#include "tests/support/plans.h"

namespace retile::test {
namespace {

using drawing::Scene;
using drawing::SceneDimension;
using drawing::SceneFrame;
using drawing::SceneStep;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Scene, has_who_holds_what_and_who_sends_what) {
  const Scene scene = scene_of("x=2", "[2{x}4, 4]", "[4, 2{x}4]");
  EXPECT_EQ(scene.mesh, "{x: 2}");
  EXPECT_EQ(scene.planner, "wide");
  EXPECT_EQ(scene.devices, 2);
  EXPECT_EQ(scene.bound, 8);
  EXPECT_EQ(scene.peak, 8);
  EXPECT_THAT(scene.dimensions, ElementsAre(SceneDimension{"dimension 0", 4}, SceneDimension{"dimension 1", 4}));
  ASSERT_EQ(scene.frames.size(), 2U);
  EXPECT_EQ(scene.source().layout, "[2{x}4, 4]");
  EXPECT_EQ(scene.target().layout, "[4, 2{x}4]");
  EXPECT_THAT(scene.source().boxes, ElementsAre(HeldBox{{{0, 0}, {2, 4}}, {0}}, HeldBox{{{2, 0}, {4, 4}}, {1}}));
  EXPECT_THAT(scene.target().boxes, ElementsAre(HeldBox{{{0, 0}, {4, 2}}, {0}}, HeldBox{{{0, 2}, {4, 4}}, {1}}));
  ASSERT_EQ(scene.steps.size(), 1U);
  const SceneStep& step = scene.steps[0];
  EXPECT_EQ(step.operation, "alltoall(0 -> 1; 2)");
  EXPECT_EQ(step.cost, "8");
  EXPECT_THAT(step.groups, ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(step.pieces, ElementsAre(Piece{1, 0, {{2, 0}, {4, 2}}}, Piece{0, 1, {{0, 2}, {2, 4}}}));
  EXPECT_EQ(step.listed_devices, 2);
  EXPECT_THAT(step.received, ElementsAre(4, 4));
  EXPECT_THAT(step.sent, ElementsAre(4, 4));
  EXPECT_EQ(step.held, 16);
  EXPECT_EQ(step.traffic.side, 2);
  EXPECT_THAT(step.traffic.elements, ElementsAre(0, 4, 4, 0));
  EXPECT_EQ(step.sentence, "All 2 devices cut their tiles anew: each sends 16 bytes and gets 16 bytes.");
}

TEST(Scene, says_in_words_what_each_step_does) {
  const Scene scene = scene_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]", by(PlannerKind::paper));
  ASSERT_EQ(scene.steps.size(), 4U);
  EXPECT_EQ(scene.steps[0].sentence, "Every device keeps a part of its tile: 256 bytes of 1 KiB. Nothing is sent.");
  EXPECT_EQ(scene.steps[1].sentence,
            "In 16 groups of 2, devices cut their tiles anew: each sends 128 bytes and gets 128 bytes.");
  EXPECT_EQ(scene.steps[3].sentence,
            "In 8 groups of 4, devices gather each other's tiles: each gets 768 bytes and then holds 1 KiB.");
  EXPECT_EQ(scene_of("x=2,y=2", "[2{x}4, 2{y}4]", "[2{y}4, 2{x}4]", by(PlannerKind::paper)).steps[0].sentence,
            "2 of 4 tiles change owners, 16 bytes each.");
  EXPECT_EQ(scene_of("x=2,y=2", "[2{x}4, 2{y}4]", "[2{y}4, 2{x}4]").steps[0].sentence,
            "2 of 4 devices get what they lack and nothing else: at most 16 bytes, from up to 1 other device.");
  EXPECT_EQ(scene_of("x=3", "[2{x}6, 6]", "[6, 2{x}6]", by(PlannerKind::direct)).steps[0].sentence,
            "Every device gets what it lacks and nothing else: 32 bytes, from up to 2 other devices.");
}

TEST(Scene, lists_replicas_once) {
  const Scene scene = scene_of("x=2,y=2", "[2{x}4]", "[1{y,x}4]");
  EXPECT_THAT(scene.source().boxes, ElementsAre(HeldBox{{{0}, {2}}, {0, 1}}, HeldBox{{{2}, {4}}, {2, 3}}));
  EXPECT_THAT(scene.steps[0].pieces, IsEmpty());
  EXPECT_EQ(scene.steps[0].held, 2);  // a slice is a view
}

TEST(Scene, shows_parts_of_a_sum_along_a_dimension_that_vanishes) {
  const Scene scene = scene_of("x=2", "[4] sum {x}", "[2{x}4]");
  EXPECT_THAT(scene.dimensions,
              ElementsAre(SceneDimension{"parts along x", 2, true}, SceneDimension{"dimension 1", 4}));
  ASSERT_EQ(scene.frames.size(), 3U);
  EXPECT_THAT(scene.frames[1].dimensions, ElementsAre(0, 1));
  EXPECT_THAT(scene.target().dimensions, ElementsAre(1));
  EXPECT_THAT(scene.target().boxes, ElementsAre(HeldBox{{{0, 0}, {2, 2}}, {0}}, HeldBox{{{0, 2}, {2, 4}}, {1}}));
  EXPECT_EQ(scene.steps[1].sentence,
            "Every device adds up the parts that it holds: 16 bytes become 8 bytes. Nothing is sent.");
}

TEST(Scene, sees_the_factors_of_a_view_as_dimensions) {
  const Scene scene = scene_of("x=2", "[3*2{x}4*8, 4]", "[96, 2{x}4]");
  EXPECT_EQ(scene.factors, "dimension 0 of the array is seen as 3 × 32, here dimensions 0 to 1");
  EXPECT_THAT(scene.dimensions, ElementsAre(SceneDimension{"dimension 0", 3}, SceneDimension{"dimension 1", 32},
                                            SceneDimension{"dimension 2", 4}));
  EXPECT_THAT(scene.view.dimensions, ElementsAre(0, 1, 2));
}

TEST(Scene, counts_devices_that_hold_nothing) {
  const Scene scene = scene_of(problem_of({"x=2", "[2{x}4]", "x=2", "[2{x}4] on [2, 3]"}));
  EXPECT_EQ(scene.devices, 4);
  EXPECT_EQ(scene.source().idle_devices, 2);
  EXPECT_THAT(scene.target().boxes, ElementsAre(HeldBox{{{0}, {2}}, {2}}, HeldBox{{{2}, {4}}, {3}}));
  EXPECT_THAT(scene.steps[0].received, ElementsAre(0, 0, 2, 2));
}

TEST(Scene, of_uneven_empty_and_rankless_arrays) {
  EXPECT_THAT(scene_of("x=2", "[3{x}5]", "[5]").source().boxes,
              ElementsAre(HeldBox{{{0}, {3}}, {0}}, HeldBox{{{3}, {5}}, {1}}));
  EXPECT_THAT(scene_of("x=2", "[0, 4]", "[0, 2{x}4]").source().boxes, IsEmpty());
  EXPECT_THAT(scene_of("x=2", "[]", "[]").source().boxes, ElementsAre(HeldBox{{{}, {}}, {0, 1}}));
}

TEST(Scene, leaves_out_pieces_of_whole_receivers_where_there_are_many) {
  const Scene scene = scene_of("x=256", "[1{x}256, 256]", "[256, 1{x}256]", by(PlannerKind::direct));
  const SceneStep& step = scene.steps[0];
  EXPECT_EQ(step.listed_devices, 64);
  EXPECT_EQ(step.pieces.size(), 64U * 255U);
  EXPECT_THAT(step.received, ::testing::Each(255));
  EXPECT_THAT(step.sent, ::testing::Each(255));
  EXPECT_EQ(step.traffic.side, 64);
  EXPECT_EQ(step.traffic.devices_per_entry, 4);
  EXPECT_EQ(step.traffic.elements[1], 16);
  EXPECT_EQ(step.traffic.elements[0], 12);
}

TEST(Scene, is_refused_for_too_many_devices) {
  EXPECT_EQ(diagnostic_of([] { return scene_of("x=8192", "[1{x}8192]", "[8192]"); }),
            "error: 8,192 devices are too many for a picture\nhint: at most 4,096 are drawn\n");
}

TEST(View, is_what_is_cut_the_most_with_the_least_cut_as_layers) {
  EXPECT_THAT(scene_of("x=4,y=2", "[2{x}8, 4{y}8, 8]", "[2{x}8, 8, 4{y}8]").view.dimensions, ElementsAre(1, 0, 2));
  EXPECT_THAT(scene_of("x=4,y=2", "[8, 2{x}8, 8, 4{y}8]", "[8, 2{x}8, 8, 8]").view.dimensions, ElementsAre(1, 3));
  EXPECT_THAT(scene_of("x=2", "[4, 4] sum {x}", "[2{x}4, 4]").view.dimensions, ElementsAre(0, 1, 2));
  EXPECT_THAT(scene_of("x=2", "[]", "[]").view.dimensions, IsEmpty());
}

TEST(View, must_be_of_the_plan) {
  const Scene scene = scene_of("x=2", "[2{x}4, 4, 4, 4]", "[4, 2{x}4, 4, 4]");
  EXPECT_FALSE(find_fault(scene, {{3, 0, 1}}));
  EXPECT_EQ(find_fault(scene, {{0, 4}})->index, 1U);
  EXPECT_EQ(find_fault(scene, {{0, 4}})->fault.message, "there is no dimension 4");
  EXPECT_EQ(find_fault(scene, {{0, 1, 0}})->fault.message, "dimension 0 is named twice");
  EXPECT_EQ(find_fault(scene, {{0, 1, 2, 3}})->fault.message, "these are more than three dimensions");
}

TEST(Quantity, is_in_bytes_where_the_element_type_is_known) {
  Scene scene;
  EXPECT_EQ(quantity(scene, 1), "1 element");
  EXPECT_EQ(quantity(scene, 1234567), "1,234,567 elements");
  scene.element = ElementType::f32;
  EXPECT_EQ(quantity(scene, 48), "192 bytes");
  EXPECT_EQ(quantity(scene, 256), "1 KiB");
  EXPECT_EQ(quantity(scene, 257), "1,028 bytes");
  EXPECT_EQ(quantity(scene, 3 << 17), "1.50 MiB");
  EXPECT_EQ(quantity(scene, 3333333), "12.72 MiB");
}

// What a device gets and what it keeps make up what it holds, each element once.
void expect_whole(const Scene& scene, std::size_t index) {
  const SceneStep& step = scene.steps[index];
  if (scene.frames[index].dimensions != scene.frames[index + 1].dimensions) return;  // reduced
  const auto boxes_of = [&](const SceneFrame& frame, Device device) {
    std::vector<Box> boxes;
    for (const HeldBox& held : frame.boxes) {
      if (std::count(held.holders.begin(), held.holders.end(), device) > 0) boxes.push_back(held.box);
    }
    return boxes;
  };
  for (Device device = 0; device < scene.devices; ++device) {
    std::vector<Box> pieces;
    std::int64_t got = 0;
    for (const Piece& piece : step.pieces) {
      if (piece.to != device) continue;
      pieces.push_back(piece.box);
      got += volume(piece.box);
    }
    EXPECT_EQ(got, step.received[static_cast<std::size_t>(device)]);
    const std::vector<Box> before = boxes_of(scene.frames[index], device);
    for (const Box& wanted : boxes_of(scene.frames[index + 1], device)) {
      std::vector<Box> there;
      for (const std::vector<Box>& some : {pieces, before}) {
        for (const Box& box : some) {
          if (auto part = intersect(box, wanted)) there.push_back(*part);
        }
      }
      EXPECT_EQ(find_uncovered(wanted, there), std::nullopt) << step.operation << " device " << device;
    }
  }
}

TEST(Scene, of_any_problem_accounts_for_every_element) {
  RandomProblems random(20260);
  for (int i = 0; i < 300; ++i) {
    const Problem problem = any_problem(random);
    const Scene scene = scene_of(problem);
    SCOPED_TRACE(describe(problem));
    ASSERT_EQ(scene.frames.size(), scene.steps.size() + 1);
    for (std::size_t step = 0; step < scene.steps.size(); ++step) {
      const auto sum = [](const std::vector<std::int64_t>& numbers) {
        return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
      };
      EXPECT_EQ(sum(scene.steps[step].sent), sum(scene.steps[step].received));
      EXPECT_EQ(sum(scene.steps[step].traffic.elements), sum(scene.steps[step].received));
      expect_whole(scene, step);
    }
  }
}

TEST(Scene, is_the_same_of_a_plan_that_was_written_and_read) {
  for (const SamplePlan& sample : sample_plans()) {
    const Scene scene = drawing::make_scene(sample.plan, ElementType::f32);
    const Scene read = drawing::make_scene(parse_plan({"plan", to_json(sample.plan)}).plan, ElementType::f32);
    ASSERT_EQ(read.steps.size(), scene.steps.size()) << sample.name;
    for (std::size_t i = 0; i < scene.steps.size(); ++i) {
      EXPECT_EQ(read.frames[i + 1].boxes, scene.frames[i + 1].boxes) << sample.name;
      EXPECT_EQ(read.steps[i].sentence, scene.steps[i].sentence) << sample.name;
      EXPECT_EQ(read.steps[i].received, scene.steps[i].received) << sample.name;
    }
  }
}

TEST(Scene, has_the_pieces_of_an_exchange_between_meshes_that_lists_none) {
  const Plan plan = make_plan(problem_of(ProblemText{"a=64", "[2{a}96, 96]", "a=16,b=3", "[96, 2{a,b}96]"}));
  ASSERT_FALSE(is_listed(plan.steps().at(0).operation));
  const Scene scene = drawing::make_scene(plan, ElementType::f32);
  const Scene read = drawing::make_scene(parse_plan({"plan", to_json(plan)}).plan, ElementType::f32);
  EXPECT_EQ(scene.steps.at(0).received.at(0), 188);
  EXPECT_EQ(scene.steps.at(0).received, read.steps.at(0).received);
  EXPECT_EQ(scene.steps.at(0).sent, read.steps.at(0).sent);
}

}  // namespace
}  // namespace retile::test
