#include "retile/plan/json.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "retile/plan/lists.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

Plan read(const std::string& text) { return parse_plan({"plan.json", text}).plan; }

Plan gather_slice_plan(const Mesh& mesh, const char* source, const char* target) {
  Plan plan = test::gather_slice_plan(parse_type(source, mesh), parse_type(target, mesh));
  plan.id = "p1";
  plan.planning_ns = 0;
  return plan;
}

// The corners before the allgather are 0, 2, 1, 3.
TEST(PlanJson, is_the_public_format) {
  const Plan plan = gather_slice_plan(parse_mesh("b=2,a=2"), "[1{b,a}4, 6]", "[4, 3{a}6]");
  EXPECT_EQ(
      to_json(plan),
      R"({"format":1,"id":"p1","mesh":{"b":2,"a":2},"source":"[1{b,a}4, 6]","target":"[4, 3{a}6]","planner":"gather-slice",)"
      R"("cost":{"model":"paper","total":24,"lower_bound":12,"floor":9,"optimal":false,"over":"all plans"},)"
      R"("memory":{"source":6,"target":12,"bound":24,"peak":24},"planning_ns":0,"steps":[)"
      R"({"op":"allgather","moves":[{"dim":0,"factor":4}],"groups":[[0,2,1,3]],"local_in":[1,6],"local_out":[4,6],)"
      R"("cost":24,"offsets":[[0,0],[0,0],[0,0],[0,0]]},)"
      R"({"op":"dynslice","moves":[{"dim":1,"factor":2}],"local_in":[4,6],"local_out":[4,3],)"
      R"("cost":0,"offsets":[[0,0],[0,3],[0,0],[0,3]]}]})");
}

TEST(PlanJson, of_an_alltoall_has_both_dimensions) {
  const auto samples = test::sample_plans();
  EXPECT_EQ(
      nlohmann::ordered_json::parse(to_json(test::sample_plan(samples, "wide alltoall"))).at("steps").at(0).dump(),
      R"({"op":"alltoall","moves":[{"from":0,"to":2,"factor":2},{"from":1,"to":2,"factor":2}],)"
      R"("groups":[[0,1,2,3]],"local_in":[2,2,4],"local_out":[4,4,1],"cost":16,)"
      R"("offsets":[[0,0,0],[0,0,2],[0,0,1],[0,0,3]]})");
}

TEST(PlanJson, of_an_allpermute_has_pairs_and_no_groups) {
  const auto samples = test::sample_plans();
  EXPECT_EQ(nlohmann::ordered_json::parse(to_json(test::sample_plan(samples, "allpermute"))).at("steps").at(0).dump(),
            R"({"op":"allpermute","pairs":[[0,0],[2,1],[1,2],[3,3]],"local_in":[2,4],"local_out":[2,4],"cost":8,)"
            R"("offsets":[[0,0],[2,0],[0,0],[2,0]]})");
}

TEST(PlanJson, of_an_exchange_has_transfers) {
  const auto samples = test::sample_plans();
  EXPECT_EQ(nlohmann::ordered_json::parse(to_json(test::sample_plan(samples, "exchange"))).at("steps").at(0).dump(),
            R"({"op":"exchange","groups":[[0,2,1,3]],"transfers":[[2,0,[1,0],[2,2]],[0,1,[0,2],[1,4]],)"
            R"([2,1,[1,2],[2,4]],[1,2,[2,0],[3,2]],[3,2,[3,0],[4,2]],[1,3,[2,2],[3,4]]],)"
            R"("local_in":[1,4],"local_out":[2,2],"cost":4,"offsets":[[0,0],[0,2],[2,0],[2,2]]})");
}

TEST(PlanJson, without_steps_has_an_empty_list) {
  const auto samples = test::sample_plans();
  EXPECT_EQ(to_json(test::sample_plan(samples, "nothing")),
            R"({"format":1,"id":"test","mesh":{"a":2,"b":2},"source":"[2{a}4]","target":"[2{a}4]","planner":"test",)"
            R"("cost":{"model":"paper","total":0,"lower_bound":0,"floor":0,"optimal":true},)"
            R"("memory":{"source":2,"target":2,"bound":2,"peak":2},"planning_ns":0,"steps":[]})");
}

TEST(PlanJson, keeps_odd_names) {
  const Mesh mesh({{"b \"1\"", 2}, {"größe", 2}});
  Plan plan = gather_slice_plan(mesh, "[2{\"größe\"}4]", "[2{\"b \\\"1\\\"\"}4]");
  plan.id = "line\n\"2\"";
  const Plan again = read(to_json(plan));
  EXPECT_EQ(again.id, plan.id);
  EXPECT_EQ(again.mesh(), mesh);
  EXPECT_EQ(again.source, plan.source);
  EXPECT_EQ(to_json(again), to_json(plan));
}

TEST(PlanJson, replaces_what_is_not_utf8_in_an_id) {
  Plan plan = gather_slice_plan(parse_mesh("a=2"), "[2{a}4]", "[4]");
  plan.id = "caf\xe9";
  EXPECT_EQ(read(to_json(plan)).id, "caf\xef\xbf\xbd");
}

TEST(PlanJson, reads_back_what_it_writes) {
  for (const test::SamplePlan& sample : test::sample_plans()) {
    const std::string text = to_json(sample.plan);
    const Plan again = read(text);
    EXPECT_EQ(to_json(again), text) << sample.name;
    EXPECT_EQ(again.cost, sample.plan.cost);
    EXPECT_EQ(again.memory, sample.plan.memory);
    ASSERT_EQ(again.steps().size(), sample.plan.steps().size());
    for (std::size_t i = 0; i < again.steps().size(); ++i) {
      const Step& step = again.steps()[i];
      const Step& original = sample.plan.steps()[i];
      EXPECT_EQ(step.after, original.after);
      const Groups* groups = groups_of(original.operation);
      if (groups == nullptr) {
        EXPECT_EQ(step, original) << sample.name;
        continue;
      }
      EXPECT_EQ(without_lists(step.operation), without_lists(original.operation)) << sample.name;
      EXPECT_EQ(*groups_of(step.operation), order_groups(*groups, sample.plan.movement.before(i))) << sample.name;
    }
  }
}

RC_GTEST_PROP(PlanJson, reads_back_random_plans, ()) {
  const Plan plan = *test::arbitrary_plan();
  const std::string text = to_json(plan);
  RC_ASSERT(to_json(read(text)) == text);
}

TEST(PlanJson, leaves_out_lists_above_the_limit) {
  const Plan at_limit = gather_slice_plan(parse_mesh("a=4096"), "[1{a}4096]", "[4096]");
  EXPECT_NE(to_json(at_limit).find("\"offsets\""), std::string::npos);

  const Plan above = gather_slice_plan(parse_mesh("a=4097"), "[1{a}4097]", "[4097]");
  EXPECT_EQ(
      to_json(above),
      R"({"format":1,"id":"p1","mesh":{"a":4097},"source":"[1{a}4097]","target":"[4097]","planner":"gather-slice",)"
      R"("cost":{"model":"paper","total":4097,"lower_bound":4097,"floor":4096,"optimal":true,"over":"all plans"},)"
      R"("memory":{"source":1,"target":4097,"bound":4097,"peak":4097},"planning_ns":0,)"
      R"("steps":[{"op":"allgather","moves":[{"dim":0,"factor":4097}],"local_in":[1],"local_out":[4097],"cost":4097}]})");
  const auto full = nlohmann::json::parse(to_json(above, PlanLists::always));
  EXPECT_EQ(full.at("steps").at(0).at("offsets").size(), 4097U);
  EXPECT_EQ(full.at("steps").at(0).at("groups").at(0).size(), 4097U);
  EXPECT_EQ(to_json(read(full.dump()), PlanLists::always), to_json(above, PlanLists::always));
}

TEST(PlanJson, leaves_out_pairs_and_transfers_above_the_limit) {
  const Mesh mesh = parse_mesh("a=2,b=4096");
  const DistributedType source = parse_type("[2{a}4]", mesh);
  const DistributedType target = parse_type("[1{a,b:(1)2}4]", mesh);
  const DistributedType middle = parse_type("[2{b:(1)2}4]", mesh);
  const Plan plan = test::finish_plan(source, middle, {test::permute_step(Placement(source), Placement(middle))});
  const auto keys = [](const std::string& text) {
    const auto json = nlohmann::ordered_json::parse(text);
    std::vector<std::string> result;
    for (const auto& [key, value] : json.at("steps").at(0).items()) result.push_back(key);
    return result;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys(to_json(plan)), (Keys{"op", "local_in", "local_out", "cost"}));
  EXPECT_EQ(keys(to_json(plan, PlanLists::always)), (Keys{"op", "pairs", "local_in", "local_out", "cost", "offsets"}));

  const Plan other = test::finish_plan(source, target, {{ExchangeStep{}, Placement(target)}});
  EXPECT_EQ(keys(to_json(other)), (Keys{"op", "local_in", "local_out", "cost"}));
  EXPECT_EQ(keys(to_json(other, PlanLists::always)),
            (Keys{"op", "groups", "transfers", "local_in", "local_out", "cost", "offsets"}));
}

// Lists that a plan leaves out are worked out where they are written.
TEST(PlanJson, is_the_same_with_and_without_lists) {
  const auto samples = test::sample_plans();
  for (const char* name : {"allgather", "wide allgather", "alltoall", "wide alltoall", "allpermute"}) {
    Plan plan = test::sample_plan(samples, name);
    const std::string text = to_json(plan);
    plan.movement = test::without_lists(plan.movement);
    EXPECT_EQ(to_json(plan), text) << name;
  }
}

// --- What is said of a plan besides its steps.

TEST(PlanJson, needs_mesh_source_target_and_steps_alone) {
  const StatedPlan stated = parse_plan({"plan", R"({"mesh": {"a": 2}, "source": "[2{a}4]", "target": "[4]",
      "steps": [{"op": "exchange", "transfers": [[1, 0, [2], [4]], [0, 1, [0], [2]]], "local_out": [4],
                 "offsets": [[0], [0]]}]})"});
  EXPECT_FALSE(stated.statements.cost);
  EXPECT_FALSE(stated.statements.memory);
  ASSERT_EQ(stated.statements.steps.size(), 1U);
  EXPECT_FALSE(stated.statements.steps[0].local_in);
  EXPECT_FALSE(stated.statements.steps[0].groups);
  EXPECT_EQ(stated.plan.id, "");
  EXPECT_EQ(stated.plan.planner, "");
  EXPECT_TRUE(stated.plan.cost.steps.empty());
  EXPECT_EQ(stated.plan.planning_ns, 0);
  EXPECT_EQ(find_faults(stated.plan, stated.statements), std::vector<std::string>());
}

TEST(PlanJson, keeps_what_is_said_of_a_plan_with_its_steps) {
  const auto samples = test::sample_plans();
  const StatedPlan exchange = parse_plan({"plan", to_json(test::sample_plan(samples, "exchange"))});
  EXPECT_TRUE(exchange.statements.cost);
  EXPECT_TRUE(exchange.statements.memory);
  ASSERT_EQ(exchange.statements.steps.size(), 1U);
  EXPECT_EQ(exchange.statements.steps[0].local_in, (Shape{1, 4}));
  EXPECT_EQ(exchange.statements.steps[0].groups, (Groups{{0, 2, 1, 3}}));
  const StatedPlan gather = parse_plan({"plan", to_json(test::sample_plan(samples, "allgather"))});
  EXPECT_FALSE(gather.statements.steps[0].groups) << "these are the step's own";
}

TEST(PlanJson, writes_a_plan_with_faults_too) {
  const auto samples = test::sample_plans();
  Plan plan = test::sample_plan(samples, "allgather");
  std::get<GatherStep>(plan.movement.steps[0].operation).groups = Groups{{0, 99}, {}, {-1}};
  const std::string text = to_json(plan);
  EXPECT_NE(text.find(R"("groups":[[],[-1],[99,0]])"), std::string::npos) << text;
  EXPECT_EQ(to_json(read(text)), text);
}

}  // namespace
}  // namespace retile
