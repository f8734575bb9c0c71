#include "retile/costs/seconds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/plan/json.h"
#include "retile/plan/text.h"
#include "retile/plan/verify.h"
#include "retile/planner/planner.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/machines.h"

namespace retile {
namespace {

using test::RandomMachines;

Machine machine_of(const std::string& text) { return parse_machine({"machine", text}); }

// Two hosts of two devices: 10 bytes a second across, 100 inside, and no latency.
Machine two_hosts() {
  return machine_of(R"({"name": "two hosts", "hosts": [[0, 1], [2, 3]], "link": {"out": 10, "in": 10},
    "inside": {"rate": 100}})");
}

Problem problem_of(const char* mesh, const char* source, const char* target) {
  return parse_problem({"mesh", mesh}, {"source", source}, {"target", target});
}

PlanTime time_of(const Problem& problem, const Machine& machine, PlannerKind planner = PlannerKind::direct) {
  PlanOptions options = on_machine(machine);
  options.planner = planner;
  return *make_plan(problem, options).time;
}

constexpr std::int64_t second = 1'000'000'000'000;

TEST(Seconds, of_rows_to_columns_wait_for_links) {
  // 16 elements of 4 bytes leave and enter each host (traffic_test.cpp): 6.4 s. Inside, 4 elements: 0.16 s.
  const PlanTime time = time_of(problem_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"), two_hosts());
  EXPECT_EQ(time.total, 64 * second / 10);
  EXPECT_EQ(time.lower_bound.picoseconds, time.total);
  ASSERT_EQ(time.steps.size(), 1U);
  EXPECT_EQ(time.steps[0].wait, (Wait{Wait::Kind::link_out, 0, time.total}));
  EXPECT_EQ(describe_time(time),
            "takes 6.4 s on two hosts, 6.4 s of it host 0's link out; no plan takes less than 6.4 s");
}

TEST(Seconds, of_a_gather_are_those_of_both_parts) {
  // 4 elements cross, 1.6 s; then each device passes on 2, 0.08 s.
  const PlanTime time = time_of(problem_of("x=4", "[2{x}8]", "[8]"), two_hosts());
  EXPECT_EQ(time.total, 168 * second / 100);
  // A device lacks 6 elements, 24 bytes, for which it has 110 bytes a second; 16 enter its host.
  EXPECT_EQ(time.lower_bound.picoseconds, 16 * second / 10);
}

TEST(Seconds, have_unequal_links) {
  const Machine machine = machine_of(R"({"hosts": [[0, 1], [2, 3]], "link": {"out": 10, "in": [10, 5]},
    "inside": {"rate": 100}})");
  const PlanTime time = time_of(problem_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"), machine);
  EXPECT_EQ(time.total, 128 * second / 10);
  EXPECT_EQ(to_string(time.steps[0].wait), "host 1's link in");
}

TEST(Seconds, have_latencies_and_steps) {
  const Machine machine = machine_of(R"({"hosts": [[0, 1], [2, 3]], "link": {"out": 1e12, "in": 1e12, "latency": 0.5},
    "inside": {"rate": 1e12, "latency": 0.25}, "step": 2})");
  const PlanTime time = time_of(problem_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"), machine);
  // One message inside and two across, and a step; bytes take almost nothing.
  EXPECT_EQ(duration_text(time.total), "3.25 s");
  EXPECT_EQ(to_string(time.steps[0].wait), "what a step takes by itself");
  EXPECT_EQ(duration_text(time.lower_bound.picoseconds), "2.5 s");
}

TEST(Seconds, are_those_of_bytes_that_flow_while_messages_are_prepared) {
  const auto total = [](double latency) {
    Machine machine = two_hosts();
    machine.link_latency = latency;
    return duration_text(time_of(problem_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"), machine).total);
  };
  EXPECT_EQ(total(0.5), "6.9 s");  // 6.4 s of bytes after the first message
  EXPECT_EQ(total(10), "22.1 s");  // two messages across, then the last of three messages' part of the bytes
  EXPECT_EQ(total(0), "6.4 s");
}

TEST(Seconds, of_copies_depend_on_the_length_of_rows) {
  const auto total = [](const char* source, const char* target) {
    const Machine machine =
        machine_of(R"({"hosts": [[0, 1]], "inside": {"rate": 1e15}, "copy": [[16, 16], [128, 128]]})");
    return duration_text(time_of(problem_of("x=2", source, target), machine).total);
  };
  EXPECT_EQ(total("[4{x}8, 8]", "[8, 4{x}8]"), "8 s");  // 128 bytes in rows of 4 elements
  EXPECT_EQ(total("[4{x}8, 32]", "[8, 32]"), "8 s");    // 1,024 bytes in rows of 4 x 32
  EXPECT_EQ(total("[4{x}8, 4]", "[8, 4]"), "2 s");      // 128 bytes in rows of 4 x 4: 64 bytes a second
}

TEST(Seconds, of_copies_depend_on_whether_rows_lie_apart_in_the_target) {
  const auto total = [](const char* source, const char* target) {
    const Machine machine =
        machine_of(R"({"hosts": [[0, 1]], "inside": {"rate": 1e15}, "copy": [[16, 16]], "spread": [[16, 4]]})");
    return duration_text(time_of(problem_of("x=2", source, target), machine).total);
  };
  EXPECT_EQ(total("[4{x}8, 8]", "[8, 4{x}8]"),
            "8 s");  // 128 bytes in rows that a target's tile has one after the other
  EXPECT_EQ(total("[8, 4{x}8]", "[4{x}8, 8]"), "32 s");  // and in rows that are halves of its own
  EXPECT_EQ(total("[4{x}8, 8]", "[8, 8]"), "64 s");      // 256 bytes
}

// Device 0 gets all of it, and may be twice as fast as where all devices are busy.
TEST(Seconds, of_a_device_alone_are_less) {
  const auto total = [](const char* alone, const char* target) {
    const Machine machine =
        machine_of(std::string(R"({"hosts": [[0, 1]], "inside": {"rate": 1e15}, "copy": [[16, 16]])") + alone + "}");
    const Problem problem = parse_problem({"mesh", "x=2"}, {"source", "[4{x}8, 8]"}, {"target", target},
                                          ElementType::f32, SourceText{"target mesh", "y=1"});
    return time_of(problem, machine);
  };
  EXPECT_EQ(duration_text(total("", "[8, 8] on [0]").total), "16 s");
  const PlanTime twice = total(R"(, "alone": 2)", "[8, 8] on [0]");
  EXPECT_EQ(duration_text(twice.total), "8 s");
  EXPECT_EQ(to_string(twice.steps[0].wait), "device 0's copies");
  EXPECT_EQ(twice.lower_bound.picoseconds, twice.total);
  // Two devices that share the work are no faster than at their rates.
  EXPECT_EQ(duration_text(total(R"(, "alone": 8)", "[8, 8] on [0]").total), "8 s");
}

// Both devices hold all of it, cut it in halves, and get the other one's. On one host an engine reads the cut tiles;
// between hosts it sees that nothing has to move.
TEST(Seconds, of_a_stage_are_those_of_what_its_slices_leave) {
  const Problem cut = problem_of("x=2", "[8]", "[4{x}8]");
  const Problem swapped = problem_of("x=2", "[8]", "[4{x}8] on [1, 0]");
  const Movement movement{world_mesh(2),
                          cut.source().placement(2),
                          {{SliceStep{}, cut.target().placement(2)}, {ExchangeStep{}, swapped.target().placement(2)}}};
  const auto total = [&](const char* hosts) {
    const SecondsModel model(machine_of(std::string(R"({"link": {"out": 10, "in": 10}, "inside": {"rate": 100}, )") +
                                        R"("hosts": )" + hosts + "}"));
    return model.time(movement, 0, 4).total;
  };
  EXPECT_EQ(total("[[0, 1]]"), 16 * second / 100);
  EXPECT_EQ(total("[[0], [1]]"), 0);
}

// What is sent is shared by the links out: of 9 parts, the fast host sends 8.
TEST(Seconds, of_replicas_on_hosts_of_unequal_links_are_those_of_links_that_end_together) {
  const Machine machine = machine_of(R"({"hosts": [[0], [1], [2]], "link": {"out": [10, 80, 10], "in": 90},
    "inside": {"rate": 1000}})");
  const Problem problem = parse_problem({"mesh", "x=2"}, {"source", "[900] on [0, 1]"}, {"target", "[900] on [2]"},
                                        ElementType::f32, SourceText{"target mesh", "y=1"});
  EXPECT_EQ(duration_text(time_of(problem, machine).total), "40 s");
}

TEST(Seconds, of_nothing_are_none) {
  const PlanTime time = time_of(problem_of("x=4", "[2{x}8]", "[2{x}8]"), two_hosts());
  EXPECT_EQ(time.total, 0);
  EXPECT_EQ(time.lower_bound.picoseconds, 0);
  EXPECT_EQ(describe_time(time), "takes 0 s on two hosts; no plan takes less than 0 s");
}

TEST(Seconds, are_beside_other_costs) {
  PlanOptions options;
  options.machine = &seconds_model(two_hosts());
  const Plan plan = make_plan(problem_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"), options);
  EXPECT_EQ(plan.cost.model, "paper");
  EXPECT_EQ(to_string(plan), R"(mesh {x: 4}  // planner wide
  [2{x}8, 8]  // 16 elements per device
    -> alltoall(0 -> 1; 4)  // cost 16, 6.4 s: host 0's link out
  [8, 2{x}8]  // 16
// cost 16 (paper, optimal over all plans), floor 12
// takes 6.4 s on two hosts, 6.4 s of it host 0's link out; no plan takes less than 6.4 s
// peak 16 elements per device, no more than the larger of source and target
)");
}

TEST(Seconds, alone_are_printed_once) {
  const Plan plan = make_plan(problem_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"), on_machine(two_hosts()));
  EXPECT_EQ(plan.cost.model, "seconds");
  EXPECT_EQ(plan.cost.total, plan.time->total);
  EXPECT_TRUE(plan.cost.optimal);
  EXPECT_EQ(to_string(plan), R"(mesh {x: 4}  // planner direct
  [2{x}8, 8]  // 16 elements per device
    -> exchange  // 6.4 s: host 0's link out
  [8, 2{x}8]  // 16
// takes 6.4 s on two hosts, 6.4 s of it host 0's link out; no plan takes less than 6.4 s
// peak 16 elements per device, no more than the larger of source and target
)");
}

TEST(Seconds, are_in_the_plan_s_json) {
  const Plan plan = make_plan(problem_of("x=4", "[2{x}8]", "[8]"), on_machine(two_hosts()));
  const std::string text = to_json(plan, PlanLists::always);
  EXPECT_NE(text.find(R"("seconds":{"machine":"two hosts","total":1.68,"lower_bound":1.6,)"
                      R"("waits_for":"host 0's link out","bound_by":"host 0's link in"})"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("seconds":1.68,"waits_for":"host 0's link out")"), std::string::npos) << text;
  const StatedPlan again = parse_plan({"plan", text});
  EXPECT_TRUE(find_faults(again.plan, again.statements).empty());
}

TEST(SecondsFault, a_machine_of_other_devices) {
  EXPECT_EQ(test::diagnostic_of([] { return make_plan(problem_of("x=2", "[2{x}4]", "[4]"), on_machine(two_hosts())); }),
            R"(machine:1:32: error: the machine has 4 devices, and the problem 2
    1 | {"name": "two hosts", "hosts": [[0, 1], [2, 3]], "link": {"out": 10, "in": 10},
      |                                ^~~~~~~~~~~~~~~~
)");
}

TEST(SecondsFault, a_time_that_does_not_fit) {
  const Machine machine = machine_of(R"({"hosts": [[0, 1, 2, 3]], "inside": {"rate": 1e-9}})");
  EXPECT_EQ(test::diagnostic_of([&] { return make_plan(problem_of("x=4", "[2{x}8]", "[8]"), on_machine(machine)); }),
            "error: the time of the plan does not fit in 63 bits\nhint: times are counted in picoseconds\n");
}

TEST(Seconds, of_equal_machines_are_one_model) {
  EXPECT_EQ(&seconds_model(two_hosts()), &seconds_model(two_hosts()));
  Machine other = two_hosts();
  other.step = 1;
  EXPECT_NE(&seconds_model(two_hosts()), &seconds_model(other));
}

// --- Properties, over random machines and problems.

std::vector<Problem> some_problems() {
  return {
      problem_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"),
      problem_of("x=4", "[256{x}1024, 64]", "[1024, 16{x}64]"),
      problem_of("x=4,y=2", "[1{x,y}8, 8, 64]", "[8, 2{x}8, 32{y}64]"),
      problem_of("x=4,y=2", "[128{x}512, 4{y}8]", "[256{y}512, 8]"),
      problem_of("x=2,y=2,z=2", "[64, 4{z}8]", "[8{x,y,z}64, 8]"),
      problem_of("x=6", "[20{x}120]", "[120]"),
      problem_of("x=2,y=3", "[60{x}120, 60]", "[40{y}120, 30{x}60]"),
      problem_of("x=3,y=2", "[34{x}100, 60]", "[100, 30{y}60]"),
      problem_of("x=4", "[4{x}16]", "[4{x}16 halo 1]"),
      problem_of("x=4", "[16 cyclic 2{x}]", "[4{x}16]"),
      problem_of("x=4", "[16] sum {x}", "[4{x}16]"),
      problem_of("x=2,y=2", "[8{x}16, 8]", "[4{x,y}16, 8]"),
  };
}

constexpr PlannerKind all_kinds[] = {PlannerKind::automatic, PlannerKind::wide, PlannerKind::paper,
                                     PlannerKind::direct,    PlannerKind::lean, PlannerKind::gather_slice,
                                     PlannerKind::two_level};

TEST(Seconds, of_no_plan_are_below_the_bound_and_of_none_below_those_of_auto) {
  RandomMachines machines;
  for (const Problem& problem : some_problems()) {
    for (int i = 0; i < 25; ++i) {
      const Machine machine = machines.next(problem.device_count());
      SCOPED_TRACE(to_string(problem) + "\n" + to_json(machine));
      for (const auto transport : {Executor::Transport::messages, Executor::Transport::collectives}) {
        PlanOptions options = on_machine(machine);
        options.executor.transport = transport;
        std::optional<std::int64_t> automatic;
        for (const PlannerKind kind : all_kinds) {
          const bool exchanges = kind == PlannerKind::direct || kind == PlannerKind::two_level;
          if (transport == Executor::Transport::collectives && exchanges) continue;
          options.planner = kind;
          std::optional<Plan> plan;
          try {
            plan = make_plan(problem, options);
          } catch (const InputError&) {
            continue;  // no plan without an exchange
          }
          EXPECT_LE(plan->time->lower_bound.picoseconds, plan->time->total);
          EXPECT_EQ(plan->cost.total, plan->time->total);
          EXPECT_THAT(find_faults(*plan), ::testing::IsEmpty());
          if (kind == PlannerKind::automatic) automatic = plan->time->total;
          EXPECT_LE(automatic.value_or(0), plan->time->total) << name_of(kind);
        }
      }
    }
  }
}

TEST(Seconds, fall_where_rates_rise) {
  RandomMachines machines;
  for (const Problem& problem : some_problems()) {
    for (int i = 0; i < 10; ++i) {
      const Machine machine = machines.next(problem.device_count());
      Machine faster = machine;
      faster.inside_rate *= 2;
      for (LinkRates& link : faster.links) link = {link.out * 2, link.in * 2};
      for (CopyRate& copy : faster.copy) copy.rate *= 2;
      for (CopyRate& copy : faster.spread) copy.rate *= 2;
      faster.link_latency /= 2;
      faster.inside_latency /= 2;
      for (const PlannerKind kind : {PlannerKind::wide, PlannerKind::direct, PlannerKind::gather_slice}) {
        EXPECT_LE(time_of(problem, faster, kind).total, time_of(problem, machine, kind).total);
        EXPECT_LE(time_of(problem, faster, kind).lower_bound.picoseconds,
                  time_of(problem, machine, kind).lower_bound.picoseconds);
      }
    }
  }
}

TEST(Seconds, of_a_step_without_placements_are_no_more_than_with_them) {
  RandomMachines machines;
  for (const Problem& problem : some_problems()) {
    const Machine machine = machines.next(problem.device_count());
    const SecondsModel& model = seconds_model(machine);
    for (const PlannerKind kind : {PlannerKind::wide, PlannerKind::direct, PlannerKind::gather_slice}) {
      PlanOptions options;
      options.planner = kind;
      const Plan plan = make_plan(problem, options);
      for (std::size_t i = 0; i < plan.steps().size(); ++i) {
        const StepWork placed(plan.steps()[i], plan.movement.before(i), 4);
        const StepWork sizes(placed.op(), placed.before(), placed.after(), placed.received(), 4);
        EXPECT_LE(model.cost(sizes), model.cost(placed) + 1) << to_string(plan);
      }
    }
  }
}

}  // namespace
}  // namespace retile
