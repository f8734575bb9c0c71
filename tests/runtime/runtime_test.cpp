#include "retile/runtime/runtime.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "retile/base/error.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/language/memory.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/error_of.h"
#include "tests/support/heap.h"
#include "tests/support/programs.h"
#include "tests/support/split_engine.h"

namespace retile::test {
namespace {

using language::LoweredProgram;
using runtime::ProgramRun;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- Statements.

TEST(Runtime, results_may_be_parameters_and_may_repeat) {
  const LoweredProgram program =
      program_of("mesh {x: 2}\nfn main(a : [2{x}4], b : i32[3]) -> i32[3], [2{x}4], [2{x}4] {\n  return b, a, a\n}\n");
  const ProgramRun result = run_everywhere(program);
  EXPECT_EQ(global_array(program, result, 0), global_argument(program, 1));
  EXPECT_EQ(global_array(program, result, 1), global_argument(program, 0));
  EXPECT_EQ(global_array(program, result, 2), global_argument(program, 0));
}

TEST(Runtime, spmd_ops_run_on_every_tile_and_know_their_device) {
  const LoweredProgram program = program_of(R"(mesh {x: 2, y: 3}
fn main(a : i32[1{x}2, 1{y}3]) -> i32[1{x}2, 1{y}3], i32[1{x}2, 1{y}3] {
  number, same = spmd_op a (tile : i32[1, 1]) {
      n = coordinate x * 10 + coordinate y
      return broadcast n [1, 1], tile
    } as i32[1{x}2, 1{y}3], i32[1{x}2, 1{y}3]
  return number, same
}
)");
  const ProgramRun result = run_everywhere(program);
  EXPECT_THAT(global_array(program, result, 0), ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_EQ(global_array(program, result, 1), global_argument(program, 0));
}

TEST(Runtime, redistributions_keep_the_global_array) {
  const LoweredProgram program = program_of(R"(mesh {x: 2, y: 3}
fn main(a : f64[12, 6]) -> f64[2{x,y}12, 6], f64[12, 6] {
  b = distribute a as f64[6{x}12, 2{y}6]
  c = redistribute b as f64[4{y}12, 3{x}6]
  d = redistribute c as f64[2{x,y}12, 6]
  e = redistribute d as f64[2{x,y}12, 6]
  f = undistribute b
  return e, f
}
)");
  const ProgramRun result = run_everywhere(program);
  EXPECT_EQ(global_array(program, result, 0), global_argument(program, 0));
  EXPECT_EQ(global_array(program, result, 1), global_argument(program, 0));
}

TEST(Runtime, collectives_move_as_their_types_say) {
  const LoweredProgram program = program_of(R"(mesh {x: 2, y: 2}
fn main(a : i32[4{x}8, 4]) -> i32[4{y}8, 2{x}4] {
  b = dynslice(1: 2) a as i32[4{x}8, 2{y}4]
  c = alltoall(0 -> 1: 2) b as i32[8, 1{x,y}4]
  d = allgather(1: 2) c as i32[8, 2{y}4]
  e = dynslice(0: 2) d as i32[4{x}8, 2{y}4]
  f = allpermute e as i32[4{y}8, 2{x}4]
  return f
}
)");
  EXPECT_EQ(global_array(program, run_everywhere(program)), global_argument(program, 0));
}

TEST(Runtime, exchanges_lead_to_placements_that_no_type_has) {
  const LoweredProgram program = program_of(R"(mesh {x: 3}
fn main(a : i32[2{x}6]) -> i32[2{x}6] {
  b = exchange a as i32[2 of 6] at [4] [0] [2]
  c = exchange b as i32[2{x}6]
  return c
}
)");
  EXPECT_EQ(global_array(program, run_everywhere(program)), global_argument(program, 0));
}

TEST(Runtime, functions_are_called_again_and_again) {
  const LoweredProgram program = program_of(R"(mesh {x: 4}
fn turn(a : f64[2{x}8, 8]) -> f64[2{x}8, 8] {
  b = redistribute a as f64[8, 2{x}8]
  c = spmd_op b (t : f64[8, 2]) { return transpose t [1, 0] } as f64[2{x}8, 8]
  return c
}
fn twice(a : f64[2{x}8, 8]) -> f64[2{x}8, 8], f64[2{x}8, 8] {
  b = turn(a)
  c = turn(b)
  return b, c
}
fn add(a : f64[2{x}8, 8], b : f64[2{x}8, 8]) -> f64[2{x}8, 8] {
  c = spmd_op a b (s : f64[2, 8], t : f64[2, 8]) { return s + t } as f64[2{x}8, 8]
  return c
}
fn main(a : f64[2{x}8, 8]) -> f64[2{x}8, 8], f64[2{x}8, 8], f64[2{x}8, 8] {
  turned, back = twice(a)
  doubled = add(a, a)
  return turned, back, doubled
}
)");
  const ProgramRun result = run_everywhere(program);
  const std::vector<double> a = global_argument(program, 0);
  std::vector<double> turned(64);
  std::vector<double> doubled(64);
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) turned[j * 8 + i] = a[i * 8 + j];
  }
  for (std::size_t i = 0; i < 64; ++i) doubled[i] = 2 * a[i];
  EXPECT_EQ(global_array(program, result, 0), turned);
  EXPECT_EQ(global_array(program, result, 1), a);
  EXPECT_EQ(global_array(program, result, 2), doubled);
}

// --- Allreduce.

// Partial sums that are not exact, over every set of axes.
TEST(AllReduce, adds_in_order_of_the_coordinates_whether_the_tile_divides_or_not) {
  for (const int size : {1, 5, 6, 12}) {
    for (const char* element : {"f32", "f64", "i32"}) {
      for (const char* axes : {"x", "y", "z", "x, y", "x, z", "y, z", "x, y, z"}) {
        const std::string type = fmt::format("{}[{}]", element, size);
        const LoweredProgram program = program_of(fmt::format(R"(mesh {{x: 2, y: 3, z: 1}}
fn main(a : {0}) -> {0} {{
  s = spmd_op a (t : {0}) {{
      n = coordinate {1} * 7 + 1
      return (t + broadcast (convert n {2}) [{3}]) / 3
    }} as {0} sum {{ {4} }}
  b = allreduce s as {0}
  return b
}}
)",
                                                              type, axes[0], element, size, axes));
        SCOPED_TRACE(type + " over " + axes);
        run_everywhere(program);
      }
    }
  }
}

// Sums, largest and smallest, of even and uneven arrays, to every kind of target.
TEST(Redistribution, of_sums_to_any_target_gives_the_same_bits_everywhere) {
  for (const char* kind : {"sum", "max", "min"}) {
    for (const char* element : {"f32", "f64", "i32"}) {
      for (const char* target : {"[5, 4]", "[3{{x}}5, 4]", "[1{{y,x}}5, 4] nested", "[2{{y}}5, 2{{x}}4] balanced",
                                 "[5, 2*1{{x}}2]", "[5, 4] {} {{y}}"}) {
        const std::string type = fmt::format(fmt::runtime(target), kind);
        const std::string text = fmt::format(R"(mesh {{x: 2, y: 3}}
fn main(a : {0}[3{{x}}5, 4]) -> {0}[5, 4] {{
  w = redistribute a as {0}[5, 4]
  s = spmd_op w (t : {0}[5, 4]) {{
      return (t * 7 + convert (coordinate x * 5 + coordinate y) {0}) / 3
    }} as {0}[5, 4] {1} {{x, y}}
  b = redistribute s as {0}{2}
  c = redistribute b as {0}[5, 4]
  return c
}}
)",
                                             element, kind, type);
        SCOPED_TRACE(text);
        run_everywhere(program_of(text));
      }
    }
  }
}

TEST(Uneven, arrays_are_computed_on_as_on_their_tiles) {
  const LoweredProgram program = program_of(R"(mesh {x: 4, y: 2}
fn main(a : f64[2{x}5, 6], b : f64[6, 2{y}3], p : f64[2*1{y}2*5, 1]) -> f64[2{x}5, 2{y}3], f64[3], f64[1{y,x}5], f64[20, 1] {
  c = spmd_op a b (s : f64[2, 6], t : f64[6, 2]) { return matmul s t } as f64[2{x}5, 2{y}3]
  d = spmd_op c (t : f64[2, 2]) { return reduce_sum t [0] } as f64[2{y}3] sum {x}
  e = redistribute d as f64[3]
  f = spmd_op c (t : f64[2, 2]) { return reduce_max t [1] } as f64[2{x}5] max {y}
  g = redistribute f as f64[1{y,x}5]
  q = spmd_op p (t : f64[10, 1]) { return t * 2 } as f64[2*1{y}2*5, 1]
  r = redistribute q as f64[20, 1]
  return c, e, g, r
}
)");
  const runtime::ProgramRun run = run_everywhere(program);
  const std::vector<double> a = global_argument(program, 0);
  const std::vector<double> b = global_argument(program, 1);
  std::vector<double> product(15);
  std::vector<double> sums(3);
  std::vector<double> largest(5, -1e9);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t k = 0; k < 6; ++k) product[i * 3 + j] += a[i * 6 + k] * b[k * 3 + j];
      sums[j] += product[i * 3 + j];
      largest[i] = std::max(largest[i], product[i * 3 + j]);
    }
  }
  std::vector<double> doubled = global_argument(program, 2);
  for (double& number : doubled) number *= 2;
  EXPECT_EQ(global_array(program, run, 0), product);
  EXPECT_EQ(global_array(program, run, 1), sums);
  EXPECT_EQ(global_array(program, run, 2), largest);
  EXPECT_EQ(global_array(program, run, 3), doubled);
}

template <typename Number>
Number sum_in_order(const std::vector<Number>& numbers) {
  Number sum = numbers[0];
  for (std::size_t i = 1; i < numbers.size(); ++i) sum += numbers[i];
  return sum;
}

TEST(AllReduce, of_several_axes_adds_row_major_in_one_sum) {
  const LoweredProgram program = program_of(R"(mesh {x: 2, y: 3}
fn main() -> f32[6] {
  s = spmd_op () {
      n = convert (coordinate x * 3 + coordinate y) f32
      return exp (iota 0 [6] * 0.7 + n * 1.3)
    } as [6] sum {x, y}
  b = allreduce s as [6]
  return b
}
)");
  std::vector<double> expected;
  for (int i = 0; i < 6; ++i) {
    std::vector<float> partial;
    for (int n = 0; n < 6; ++n) {
      partial.push_back(std::exp(static_cast<float>(i) * 0.7F + static_cast<float>(n) * 1.3F));
    }
    expected.push_back(double{sum_in_order(partial)});
  }
  EXPECT_EQ(global_array(program, run_everywhere(program)), expected);
}

TEST(AllReduce, one_axis_after_the_other) {
  const LoweredProgram program = program_of(R"(mesh {x: 2, y: 3}
fn main() -> i32[2] {
  s = spmd_op () {
      return broadcast (coordinate x * 10 + coordinate y) [2]
    } as i32[2] sum {x, y}
  b = allreduce s as i32[2] sum {x}
  c = allreduce b as i32[2]
  return c
}
)");
  EXPECT_THAT(global_array(program, run_everywhere(program)), ElementsAre(36, 36));
}

TEST(AllReduce, leaves_cut_dimensions_alone) {
  const LoweredProgram program = program_of(R"(mesh {x: 2, y: 2}
fn multiply(a : f64[4, 3{x}6], b : f64[3{x}6, 2{y}4]) -> f64[4, 2{y}4] sum {x} {
  c = spmd_op a b (s : f64[4, 3], t : f64[3, 2]) { return matmul s t } as f64[4, 2{y}4] sum {x}
  return c
}
fn main(a : f64[4, 3{x}6], b : f64[3{x}6, 2{y}4]) -> f64[4, 2{y}4] {
  c = multiply(a, b)
  d = allreduce c as f64[4, 2{y}4]
  return d
}
)");
  const std::vector<double> a = global_argument(program, 0);
  const std::vector<double> b = global_argument(program, 1);
  std::vector<double> product(16);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      for (std::size_t k = 0; k < 6; ++k) product[i * 4 + j] += a[i * 6 + k] * b[k * 4 + j];
    }
  }
  EXPECT_EQ(global_array(program, run_everywhere(program)), product);
}

// --- Replicas.

const char* const disagreeing = R"(mesh {x: 2, y: 2}
fn main(a : [2{x}4]) -> [2{x}4] {
  b = spmd_op a (t : [2]) {
      return t * 0.0 + convert (coordinate y) f32
    } as [2{x}4]
  return b
}
)";

TEST(Disagreement, fails_the_run_at_the_statement) {
  for (const auto& engine : all_engines()) {
    EXPECT_EQ(failure_of(program_of(disagreeing), *engine),
              "test.spmd:3:3: error: devices 0 and 1 hold the same part of 'b' and disagree: element [0] is 0 on "
              "device 0 and 1 on device 1\n"
              "    3 |   b = spmd_op a (t : [2]) {\n"
              "      |   ^\n"
              "hint: these devices differ along y: either cut a dimension of the result along it, or sum over it, or "
              "compute the same on both");
  }
}

TEST(Disagreement, fails_in_all_processes_alike) {
  const LoweredProgram program = program_of(disagreeing);
  std::vector<std::string> failures(4);
  run_split(4, [&](int process, Engine& engine) {
    failures[static_cast<std::size_t>(process)] = failure_of(program, engine);
  });
  EXPECT_THAT(failures[0], HasSubstr("element [0] is 0 on device 0 and 1 on device 1"));
  for (const std::string& failure : failures) EXPECT_EQ(failure, failures[0]);
}

TEST(Disagreement, is_found_in_every_result_and_call) {
  EXPECT_THAT(failure_of(program_of(R"(mesh {x: 2}
fn f(a : [4]) -> [4] {
  right, wrong = spmd_op a (t : [4]) { return t, t + convert (coordinate x) f32 } as [4], [4]
  return right
}
fn main(a : [4]) -> [4] {
  b = f(a)
  return b
}
)"),
                         *make_threads_engine()),
              HasSubstr("test.spmd:3:10: error: devices 0 and 1 hold the same part of 'wrong'"));
}

// --- Other failures.

TEST(Failures, the_first_device_that_divides_by_zero_is_named) {
  const LoweredProgram program = program_of(R"(mesh {x: 8}
fn main(a : i32[1000{x}8000]) -> i32[1000{x}8000] {
  b = spmd_op a (t : i32[1000]) {
      // zero from device 2 on; enough work for several threads
      c = max (2 - coordinate x) 0
      d = t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t * t
      e = d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d * d
      f = e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e * e
      g = f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f * f
      h = g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g * g
      return h / broadcast c [1000]
    } as i32[1000{x}8000]
  return b
}
)");
  for (int i = 0; i < 5; ++i) {
    for (const auto& engine : all_engines()) {
      EXPECT_THAT(failure_of(program, *engine),
                  ::testing::StartsWith("test.spmd:11:14: error: device 2 divides by zero at [0] of its tile\n"));
    }
  }
}

TEST(Failures, of_one_process_end_the_others) {
  const LoweredProgram program = program_of(R"(mesh {x: 4}
fn main(a : i32[1{x}4]) -> i32[4] {
  b = spmd_op a (t : i32[1]) { return t / broadcast (3 - coordinate x) [1] } as i32[1{x}4]
  c = undistribute b
  return c
}
)");
  run_split(2, [&](int, Engine& engine) {
    EXPECT_THAT(failure_of(program, engine), HasSubstr("device 3 divides by zero at [0] of its tile"));
  });
}

TEST(Failures, arguments_that_do_not_fit_are_refused) {
  const LoweredProgram program = program_of("mesh {x: 2}\nfn main(a : [2{x}4], b : [4]) -> [4] {\n  return b\n}\n");
  const auto engine = make_reference_engine();
  const auto failure = [&](std::vector<runtime::TileBuffers> arguments) {
    return test::error_of([&] { runtime::run_program(program, *engine, std::move(arguments)); });
  };
  std::vector<runtime::TileBuffers> arguments = made_up_arguments(program, {0, 1});
  EXPECT_EQ(failure(arguments), "");
  EXPECT_EQ(failure({arguments[0]}), "the arguments do not fit the program: one for each parameter");
  EXPECT_EQ(failure({arguments[0], {Buffer(16)}}), "the arguments do not fit the program: one tile for each device");
  EXPECT_EQ(failure({arguments[0], arguments[0]}),
            "the arguments do not fit the program: tiles as long as their types say");
}

// call0 calls nobody, call1 calls call0, and so on; main calls the last.
std::string nested_calls(int count) {
  std::string text = "mesh {x: 1}\nfn call0(a : [2]) -> [2] {\n  return a\n}\n";
  for (int i = 1; i < count; ++i) {
    text += fmt::format("fn call{}(a : [2]) -> [2] {{\n  b = call{}(a)\n  return b\n}}\n", i, i - 1);
  }
  return text + fmt::format("fn main(a : [2]) -> [2] {{\n  b = call{}(a)\n  return b\n}}\n", count - 1);
}

TEST(Failures, calls_that_nest_too_deep_are_refused) {
  run_everywhere(program_of(nested_calls(999)));
  EXPECT_THAT(diagnostic_of([] { return failure_of(program_of(nested_calls(1000)), *make_reference_engine()); }),
              HasSubstr("error: calls nest deeper than 1000\n"));
}

// --- Memory.

// Measured, and predicted to the byte.
std::int64_t peak_of(const std::string& text) {
  const LoweredProgram program = program_of(text);
  const auto engine = make_threads_engine();
  runtime::ProgramRunner runner(program, *engine);
  const std::int64_t predicted = find_memory_peak(program, engine->memory()).bytes;
  const std::int64_t measured =
      runner.run(made_up_arguments(program, all_devices(program.program.mesh.device_count()))).peak_bytes;
  EXPECT_EQ(predicted, measured);
  return measured;
}

TEST(Memory, of_dead_values_is_reused) {
  const std::string chain = R"(mesh {x: 4}
fn main(a : f64[100{x}400]) -> f64[100{x}400] {
  b = spmd_op a (t : f64[100]) { return t + 1 } as f64[100{x}400]
  c = spmd_op b (t : f64[100]) { return t + 1 } as f64[100{x}400]
  d = spmd_op c (t : f64[100]) { return t + 1 } as f64[100{x}400]
  e = spmd_op d (t : f64[100]) { return t + 1 } as f64[100{x}400]
  return e
}
)";
  EXPECT_EQ(peak_of(chain), 3 * 800);  // the operand, the constant and the result
}

TEST(Memory, of_values_that_are_still_used_is_kept) {
  const std::string all_used = R"(mesh {x: 4}
fn main(a : f64[100{x}400]) -> f64[100{x}400], f64[100{x}400], f64[100{x}400] {
  b = spmd_op a (t : f64[100]) { return -t } as f64[100{x}400]
  c = spmd_op b (t : f64[100]) { return -t } as f64[100{x}400]
  return a, b, c
}
)";
  EXPECT_EQ(peak_of(all_used), 3 * 800);
}

// One tile of `a` is 1600 bytes, and so is one of what it becomes.
TEST(Memory, of_an_operand_that_dies_is_given_to_the_redistribution) {
  const std::string program = R"(mesh {{x: 2}}
fn main(a : f64[100{{x}}200, 2]) -> f64[200, 1{{x}}2]{} {{
  b = redistribute a as f64[200, 1{{x}}2]
  c = spmd_op b (t : f64[200, 1]) {{ return -t }} as f64[200, 1{{x}}2]
  return c{}
}}
)";
  EXPECT_EQ(peak_of(fmt::format(fmt::runtime(program), "", "")), 2 * 1600);
  EXPECT_EQ(peak_of(fmt::format(fmt::runtime(program), ", f64[100{x}200, 2]", ", a")), 3 * 1600);
}

// Partial sums and their parts, then the parts and the whole.
TEST(Memory, of_partial_sums_is_freed_once_they_are_added) {
  const std::string program = R"(mesh {x: 4}
fn main(a : f64[100{x}400]) -> f64[100] {
  b = spmd_op a (t : f64[100]) { return t } as f64[100] sum {x}
  c = allreduce b as f64[100]
  return c
}
)";
  EXPECT_EQ(peak_of(program), 2 * 800);
}

// --- What is prepared once.

// Counts what it is asked to prepare.
class CountingEngine final : public Engine {
 public:
  const char* name() const override { return "counting"; }
  std::vector<Device> devices(std::int64_t count) const override { return engine_->devices(count); }
  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    ++prepared;
    return engine_->prepare(movement, element_size, strides);
  }
  int prepared = 0;

 private:
  std::unique_ptr<Engine> engine_ = make_reference_engine();
};

TEST(Preparation, happens_once_per_statement_however_often_it_runs) {
  const LoweredProgram program = program_of(R"(mesh {x: 2}
fn turn(a : [2{x}4, 4]) -> [4, 2{x}4] {
  b = redistribute a as [4, 2{x}4]
  return b
}
fn back(a : [4, 2{x}4]) -> [2{x}4, 4] {
  b = redistribute a as [2{x}4, 4]
  return b
}
fn main(a : [2{x}4, 4]) -> [2{x}4, 4] {
  b = turn(a)
  c = back(b)
  d = turn(c)
  e = back(d)
  f = redistribute e as [2{x}4, 4]
  return f
}
)");
  CountingEngine engine;
  runtime::ProgramRunner runner(program, engine);
  for (int i = 0; i < 3; ++i) runner.run(made_up_arguments(program, {0, 1}));
  EXPECT_EQ(engine.prepared, 2);
}

TEST(Preparation, statements_are_counted_through_calls) {
  std::string text = "mesh {x: 2}\nfn call0(a : [2]) -> [2] {\n  b = redistribute a as [2]\n  return b\n}\n";
  for (int i = 1; i <= 70; ++i) {
    text +=
        fmt::format("fn call{0}(a : [2]) -> [2] {{\n  b = call{1}(a)\n  c = call{1}(b)\n  return c\n}}\n", i, i - 1);
  }
  const auto with_main = [&](int called) {
    return program_of(text + fmt::format("fn main(a : [2]) -> [2] {{\n  b = call{}(a)\n  return b\n}}\n", called));
  };
  const LoweredProgram eight = with_main(3);
  EXPECT_EQ(runtime::count_statements(eight.program), 8);
  EXPECT_EQ(runtime::count_statements(with_main(70).program), INT64_MAX);
  int count = 0;
  const auto engine = make_reference_engine();
  runtime::run_program(eight, *engine, made_up_arguments(eight, {0, 1}), [&] { ++count; });
  EXPECT_EQ(count, 8);
}

// --- Memory.

// Between statements there are values alone: what a prepared run keeps beside its tiles would not be predicted.
TEST(RuntimeMemory, of_scratch_is_given_back_after_each_statement) {
  if (!test::heap_can_be_measured) GTEST_SKIP();
  PlanOptions options;
  options.planner = PlannerKind::wide;  // which has a tile between
  const LoweredProgram program = program_of(R"(mesh {a: 2, b: 2, c: 2}
fn main(v : f32[128{b}256, 128{a}256, 32{c}64]) ->
    f32[128{b}256, 128{a}256, 32{c}64], f32[128{c}256, 128{b}256, 64], f32[128{a}256, 128{c}256, 64] {
  x = redistribute v as f32[128{c}256, 128{b}256, 64]
  y = redistribute v as f32[128{a}256, 128{c}256, 64]
  return v, x, y
}
)",
                                            options);
  constexpr std::int64_t tile = 128 * 128 * 64 * 4;  // of x and y, bytes
  const Movement& movement = *program.statements[0][0].movement;
  ASSERT_GE(predict_peak_bytes(movement, 4, TileUse::kept), tile / 2 + tile + tile / 2)
      << "otherwise there is no scratch";
  const auto engine = make_threads_engine();
  std::vector<std::int64_t> held;
  runtime::ProgramRunner runner(program, *engine, [&] { held.push_back(test::heap_bytes()); });
  std::vector<runtime::TileBuffers> arguments = made_up_arguments(program, engine->devices(8));
  const std::int64_t before = test::heap_bytes();
  const ProgramRun run = runner.run(std::move(arguments));
  ASSERT_EQ(held.size(), 2U);
  constexpr std::int64_t lists = 1 << 20;  // and all else that is small
  EXPECT_LE(held[0] - before, 8 * tile + lists);
  EXPECT_LE(held[1] - before, 2 * 8 * tile + lists);
  EXPECT_LE(test::heap_bytes() - before, 2 * 8 * tile + lists);
}

}  // namespace
}  // namespace retile::test
