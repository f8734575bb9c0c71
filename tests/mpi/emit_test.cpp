// Code that is emitted for MPI, compiled and run. All programs of a test are one, each in a namespace of its own, so
// that the compiler and mpirun start once.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "retile/emission/emission.h"
#include "retile/emission/mpi_sends.h"
#include "retile/schedule/stage.h"
#include "retile/types/text.h"
#include "tests/mpi/launch.h"
#include "tests/support/documents.h"
#include "tests/support/layouts.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  for (std::size_t i = at; i != std::string::npos; i = text.find(from, i + to.size())) text.replace(i, from.size(), to);
}

class Programs {
 public:
  void add(const Problem& problem, PlannerKind planner) {
    PlanOptions options;
    options.planner = planner;
    const Plan plan = make_plan(problem, options);
    std::string code = emission::emit(plan, problem.element_type(), emission::Target::mpi);
    code.erase(0, code.find("using Element"));
    replace(code, "int main(int argument_count, char** arguments) {\n  MPI_Init(&argument_count, &arguments);\n",
            "int check() {\n");
    replace(code, "  MPI_Finalize();\n", "");
    replace(code, "MPI_COMM_WORLD", "comms[rank_count]");
    code_ += fmt::format("\nnamespace program_{} {{  // {}\n{}}}\n", count_, describe(problem), code);
    calls_ += fmt::format(
        "  if (rank < program_{0}::rank_count && program_{0}::check() != 0) "
        "std::printf(\"program {0} is wrong\\n\"), wrong = 1;\n",
        count_);
    const std::string rule = "shared(tiles_0, tiles_1, rank)";
    if (count_of(rule, code) > 0) add_check_of_rule(plan);
    ++count_;
  }

  int shared_count() const { return shared_count_; }

  int count() const { return count_; }

  std::string text() const {
    return fmt::format(R"(#include <mpi.h>
#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <vector>

MPI_Comm comms[9];  // of the first ranks, so many
{}
int main(int argument_count, char** arguments) {{
  MPI_Init(&argument_count, &arguments);
  int rank, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i <= 8; ++i) MPI_Comm_split(MPI_COMM_WORLD, rank < i ? 0 : MPI_UNDEFINED, rank, &comms[i]);
{}  MPI_Finalize();
  return wrong;
}}
)",
                       code_, calls_);
  }

 private:
  // Nobody sends much more by the rule than the most that a device sends in the plan's first stage.
  void add_check_of_rule(const Plan& plan) {
    const std::vector<std::int64_t> sent = emission::sends_of(make_schedule(plan.movement).front()).sent;
    calls_ += fmt::format(
        "  for (int i = 0; i < program_{0}::rank_count; ++i) {{\n"
        "    long long sent = 0;\n"
        "    for (const auto& one : program_{0}::shared(program_{0}::tiles_0, program_{0}::tiles_1, i)) {{\n"
        "      if (one.from == i && one.to != i) sent += program_{0}::size(one.box);\n"
        "    }}\n"
        "    if (sent * 20 > 21LL * {1}) std::printf(\"program {0} is wrong: %d sends %lld\\n\", i, sent), wrong = 1;\n"
        "  }}\n",
        count_, *std::max_element(sent.begin(), sent.end()));
    ++shared_count_;
  }

  std::string code_;
  std::string calls_;
  int count_ = 0;
  int shared_count_ = 0;
};

void expect_right(const Programs& programs, const std::string& name) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path + ".cpp") << programs.text();
  const ProcessResult compiled =
      run_process({RETILE_MPI_COMPILER, "-std=c++17", "-O0", "-Wall", "-Wextra", "-Wno-cast-function-type", "-Werror",
                   path + ".cpp", "-o", path + ".out"});
  ASSERT_EQ(compiled.status, 0) << compiled.errors.substr(0, 3000);
  const ProcessResult result = run_job(8, {path + ".out"});
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, ::testing::Not(::testing::HasSubstr("wrong")));
  EXPECT_EQ(count_of("verified on ", result.output), programs.count()) << result.output;
}

TEST(EmittedMpi, moves_types_by_every_planner) {
  Programs programs;
  RandomProblems random(7);
  for (const char* axes : {"x=2,y=2,z=2", "x=8", "x=2,y=3"}) {
    for (int i = 0; i < (is_sweep() ? 3 : 2); ++i) {
      const Problem problem = random.problem(parse_mesh(axes), random.shape(3, {6, 8, 12, 24}));
      for (const PlannerKind planner :
           {PlannerKind::wide, PlannerKind::paper, PlannerKind::direct, PlannerKind::gather_slice}) {
        programs.add(problem, planner);
      }
    }
  }
  expect_right(programs, "emitted_types");
}

TEST(EmittedMpi, moves_any_layout) {
  Programs programs;
  RandomProblems random(11);
  for (int i = 0; i < (is_sweep() ? 24 : 12); ++i) programs.add(any_problem(random), PlannerKind::automatic);
  const Mesh mesh = parse_mesh("x=2,y=4");
  for (const ElementType element : {ElementType::i32, ElementType::u64, ElementType::f64, ElementType::c64}) {
    for (const char* source : {"[8, 16] sum {x}", "[7, 5] sum {x,y}", "[8, 2{y}8] sum {x}"}) {
      const Layout from = parse_layout(source, mesh);
      const Shape shape = from.global_shape();
      const Layout to = parse_layout(fmt::format("[{}{{y}}{}, {}]", (shape[0] + 3) / 4, shape[0], shape[1]), mesh);
      programs.add({"", from, to, element}, PlannerKind::automatic);
    }
  }
  for (const ElementType element : {ElementType::boolean, ElementType::f8e5m2, ElementType::bf16, ElementType::i16}) {
    programs.add({"", parse_layout("[8, 2{y}7]", mesh), parse_layout("[2{y}8, 7]", mesh), element},
                 PlannerKind::automatic);
  }
  programs.add({"", parse_layout("[8, 16] max {x}", mesh), parse_layout("[8, 4{y}16]", mesh)}, PlannerKind::automatic);
  programs.add({"", parse_layout("[8, 16] sum {x,y}", mesh), parse_layout("[8, 16] sum {y}", mesh)},
               PlannerKind::automatic);
  expect_right(programs, "emitted_layouts");
}

// Each program checks arrays without gaps, and arrays of the caller's strides, in which nothing else is written.
TEST(EmittedMpi, moves_uneven_tiles_blocks_and_halos_with_strides) {
  struct Case {
    const char* axes;
    const char* source;
    const char* target;
  };
  const Case cases[] = {
      {"x=2", "[7{x}13, 5] balanced", "[13, 3{x}5]"},
      {"x=3", "[1{x}2, 7] last", "[2, 3{x}7] balanced"},
      {"x=5", "[3{x}11, 9] balanced", "[11 cyclic 2{x} from 3, 9]"},
      {"x=7", "[23 cyclic 2{x}, 6]", "[23, 6 cyclic 4{x}]"},
      {"x=2,y=2", "[13{x}25, 24] balanced", "[25, 12{x}24] balanced"},
      {"x=2,y=2", "[8{x}16 halo (2,1), 6{y}11 halo 1]", "[8{x}16 halo 1 wrap, 6{y}11 halo 1]"},
      {"x=2,y=3", "[20 cyclic 3{x}, 19 cyclic 2{y} from 1]", "[10{x}20, 7{y}19] balanced"},
      {"x=2,y=3", "[20 cyclic 3{x}, 19]", "[20, 19 cyclic 4{x}]"},
      {"x=2,y=3", "[20 cyclic 3{x}, 19]", "[20, 19 cyclic 4{y}]"},  // holders share what two ranks lack
      {"x=4,y=2", "[21 cyclic 4{x}, 18 cyclic 3{y}] order [1, 0]", "[21 cyclic 2{y}, 18 cyclic 5{x}] order [1, 0]"},
      {"x=4,y=2", "[64 cyclic 4{x}, 64 cyclic 4{y}]", "[16{x}64, 32{y}64]"},  // boxes of a view
      {"x=4,y=2", "[7{x}25, 9] nested", "[13{y}25, 3{x}9] last"},
      {"x=8", "[2{x}16, 6]", "[2{x}16, 6] order [1, 0]"},
      {"x=8", "[40 cyclic 3{x}, 6]", "[40, 1{x}6]"},
  };
  Programs programs;
  for (const Case& one : cases) {
    const Problem problem = problem_of(one.axes, one.source, one.target);
    programs.add({"", problem.source(), problem.target(), ElementType::f64}, PlannerKind::automatic);
  }
  EXPECT_EQ(count_of("is_padded ? source_strides.data() : nullptr", programs.text()), programs.count());
  EXPECT_EQ(count_of("transfers = {", programs.text()), 0);
  EXPECT_GT(programs.shared_count(), 0);
  expect_right(programs, "emitted_strides");
}

TEST(EmittedMpi, is_a_program_by_itself) {
  const std::string path = ::testing::TempDir() + "emitted.cpp";
  ASSERT_EQ(
      run_process({RETILE_COMMAND, "emit", "--as", "mpi", "--mesh", "x=4", "[3{x}11, 8]", "[11, 2{x}8]", "--out", path})
          .status,
      0);
  const ProcessResult compiled = run_process({RETILE_MPI_COMPILER, "-std=c++17", "-Wall", "-Wextra",
                                              "-Wno-cast-function-type", "-Werror", path, "-o", path + ".out"});
  ASSERT_EQ(compiled.status, 0) << compiled.errors;
  EXPECT_EQ(run_job(4, {path + ".out"}).output, "verified on 4 ranks\n");
  const ProcessResult refused = run_job(2, {path + ".out"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, ::testing::HasSubstr("start 4 ranks, not 2\n"));
}

TEST(MpiDocument, shows_what_its_commands_print) {
  // As root, as in a container, and with more ranks than cores; MPICH looks at none of these.
  const std::string environment =
      "export PATH=\"$(dirname " RETILE_COMMAND "):$(dirname " RETILE_MPI_COMPILER
      "):$PATH\" OMPI_ALLOW_RUN_AS_ROOT=1 "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 "
      "ASAN_OPTIONS=detect_leaks=0; ";
  int count = 0;
  for (const ShownCommand& command : commands_in("docs/from-mpi.md")) {
    if (!command.needs("mpirun")) continue;
    ++count;
    const ProcessResult result =
        run_process({"/bin/bash", "-c", environment + command.text}, {"", ::testing::TempDir()});
    EXPECT_TRUE(matches_shown(result.output, command.output)) << command.place << " prints\n"
                                                              << result.output << result.errors;
  }
  EXPECT_EQ(count, 2);
}

}  // namespace
}  // namespace retile::test
