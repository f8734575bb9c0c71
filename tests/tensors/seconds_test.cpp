// What programs are priced by, and how long they take on machines whose figures are easy to add up.
#include "retile/tensors/seconds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/tensors/lowering.h"
#include "tests/support/layouts.h"
#include "tests/support/problems.h"

namespace retile::tensors {

// For failures.
void PrintTo(const Work& work, std::ostream* out) {
  *out << "{" << static_cast<int>(work.kind) << ", " << work.size << ", " << work.bytes << "}";
}

namespace {

using test::problem_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto permute = Work::Kind::permute;
constexpr auto gather = Work::Kind::gather;
constexpr auto all_to_all = Work::Kind::all_to_all;
constexpr auto copy = Work::Kind::copy;

TensorProgram lower_wide(const Problem& problem, ProgramForm form) {
  PlanOptions options;
  options.planner = PlannerKind::wide;
  return lower(make_plan(problem, options), 4, options_for(form));
}

// Of all stages.
std::vector<Work> all_work(const Problem& problem, ProgramForm form = ProgramForm::collectives) {
  std::vector<Work> all;
  for (const std::vector<Work>& stage : work_of(lower_wide(problem, form), 4)) {
    all.insert(all.end(), stage.begin(), stage.end());
  }
  return all;
}

// Eight devices. A run starts in a second, collectives take 2 to 7 before their bytes.
const Machine machine = parse_machine({"machine", R"({"name": "slow", "hosts": [[0, 1, 2, 3, 4, 5, 6, 7]],
  "inside": {"rate": 1}, "copy": [[4, 1], [16, 4]],
  "programs": {"start": 1, "permute": {"latency": [[8, 2]], "rate": [[1, 10]]},
    "gather": {"latency": [[2, 3], [4, 5]], "rate": [[128, 10], [512, 40]]},
    "all_to_all": {"latency": [[4, 7]], "rate": [[1, 5]]}}})"});

double seconds_of(const Problem& problem, ProgramForm form = ProgramForm::collectives) {
  return 1e-12 * static_cast<double>(program_time(lower_wide(problem, form), 0, 4, machine).total);
}

const Problem timed_exchange = problem_of("x=2,y=4", "[1{y,x}8, 8]", "[2{y}8, 4{x}8]");
const Problem timed_alltoall = problem_of("x=2,y=4", "[8, 2{y}8]", "[2{y}8, 8]");
const Problem timed_inner_gather = problem_of("x=2,y=4", "[8, 2{y}8]", "[8, 8]");
const Problem timed_outer_gather = problem_of("x=2,y=4", "[4{x}8, 8]", "[8, 8]");

TEST(ProgramSeconds, are_of_bytes_that_lie_outermost) {
  EXPECT_THAT(all_work(timed_outer_gather), ElementsAre(Work{gather, 2, 256}));
  EXPECT_DOUBLE_EQ(seconds_of(timed_outer_gather), 1 + 3 + 256. / 20);  // the rate is half way from 10 to 40
}

TEST(ProgramSeconds, are_of_transpositions_around_collectives_along_inner_dimensions) {
  EXPECT_THAT(all_work(timed_inner_gather), ElementsAre(Work{gather, 4, 256}, Work{copy, 4, 64 + 256}));
  EXPECT_DOUBLE_EQ(seconds_of(timed_inner_gather), 1 + 5 + 256. / 20 + 320. / 1);
  EXPECT_THAT(all_work(timed_alltoall), ElementsAre(Work{all_to_all, 4, 64}, Work{copy, 8, 64}));
  EXPECT_DOUBLE_EQ(seconds_of(timed_alltoall), 1 + 7 + 64. / 5 + 64. / 2);
}

TEST(ProgramSeconds, are_of_boxes_that_are_cut_sent_stacked_and_picked) {
  EXPECT_THAT(all_work(timed_exchange),
              ElementsAre(Work{copy, 16, 16}, Work{permute, 8, 16}, Work{copy, 16, 16}, Work{permute, 8, 16},
                          Work{copy, 16, 16}, Work{copy, 16, 16}, Work{copy, 16, 32}));
  EXPECT_DOUBLE_EQ(seconds_of(timed_exchange), 1 + 2 * (2 + 16. / 10) + 6 * 16. / 4);
}

TEST(ProgramSeconds, are_of_the_dearest_branch) {
  EXPECT_THAT(all_work(timed_alltoall, ProgramForm::fast),
              ElementsAre(Work{copy, 16, 16}, Work{permute, 8, 16}, Work{copy, 16, 16}, Work{permute, 8, 16},
                          Work{copy, 16, 16}, Work{permute, 8, 16}, Work{copy, 16, 16}, Work{copy, 16, 16},
                          Work{copy, 16, 16}, Work{copy, 16, 16}, Work{copy, 8, 64}));
}

TEST(ProgramSeconds, are_none_where_nothing_is_done) {
  const Problem same = problem_of("x=4", "[2{x}8]", "[2{x}8]");
  EXPECT_THAT(all_work(same), IsEmpty());
  EXPECT_EQ(seconds_of(same), 0);
}

TEST(ProgramSeconds, are_given_by_step_with_what_takes_the_longest) {
  const TensorProgram program = lower_wide(problem_of("x=2,y=4", "[4{x}8, 2{y}8]", "[8, 8]"), ProgramForm::collectives);
  const PlanTime time = program_time(program, 56, 4, machine);
  ASSERT_EQ(time.steps.size(), program.movement.steps.size());
  std::int64_t total = 0;
  for (const StepTime& step : time.steps) total += step.picoseconds;
  EXPECT_EQ(time.total, total);
  EXPECT_EQ(time.machine, "slow");
  EXPECT_EQ(time.steps.back().wait.kind, Wait::Kind::copying);
  // A start, the shortest latency, and the bytes at the best rate.
  EXPECT_EQ(time.lower_bound.picoseconds, std::int64_t{1000000000000} * (10 + 20 + 56) / 10);
}

TEST(ProgramSeconds, are_no_less_than_those_of_any_program) {
  test::RandomProblems random(7);
  for (int i = 0; i < 200; ++i) {
    const Problem problem = test::any_problem(random);
    for (const ProgramForm form : {ProgramForm::collectives, ProgramForm::fast, ProgramForm::lean}) {
      try {
        PlanOptions options;
        const Plan plan = make_plan(problem, options);
        const TensorProgram program = lower(plan, 4, options_for(form));
        const PlanTime time = program_time(program, plan.cost.floor, 4, machine);
        EXPECT_LE(time.lower_bound.picoseconds, time.total);
        EXPECT_EQ(time.total == 0, program.stages.empty());
      } catch (const InputError&) {  // tiles that are not alike
      }
    }
  }
}

}  // namespace
}  // namespace retile::tensors
