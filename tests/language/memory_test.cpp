#include "retile/language/memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>

#include "retile/language/summary.h"
#include "tests/language/programs.h"
#include "tests/support/diagnostic_of.h"

namespace retile::test {
namespace {

using namespace language;

struct Found {
  std::int64_t bytes;
  std::string place;  // "main", "main: b"

  bool operator==(const Found&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Found& found) { return out << found.bytes << " at " << found.place; }

// By wide plans, which have tiles between.
Found peak_of(const std::string& text) {
  PlanOptions options;
  options.planner = PlannerKind::wide;
  const ProgramSummary summary = summarize(lower_program(checked(text).program, options));
  const std::string statement = summary.peak_statement.empty() ? "" : ": " + summary.peak_statement;
  return {summary.peak_bytes, summary.peak_function + statement};
}

std::string main_of(const std::string& parameters, const std::string& statements, const std::string& results,
                    const std::string& types) {
  return "mesh {x: 4}\nfn main(" + parameters + ") -> " + types + " {\n" + statements + "\n  return " + results +
         "\n}\n";
}

// --- By hand. 16 bytes are a tile of [4].

TEST(MemoryPeak, parameters_are_there_when_the_program_starts) {
  EXPECT_EQ(peak_of(main_of("a: [4], b: f64[4{x}16], c: i32[]", "", "a", "[4]")), (Found{16 + 32 + 4, "main"}));
}

TEST(MemoryPeak, spmd_op_holds_operands_and_results) {
  EXPECT_EQ(peak_of(main_of("a: [4]", "b = spmd_op a (t: [4]) { return t + t } as [4]", "b", "[4]")),
            (Found{16 + 16, "main: b"}));
}

TEST(MemoryPeak, returned_parameters_are_copied) {
  EXPECT_EQ(peak_of(main_of("a: [4]", "b, c = spmd_op a (t: [4]) { return t, t } as [4], [4]", "b", "[4]")),
            (Found{16 + 32, "main: b, c"}));
}

TEST(MemoryPeak, intermediate_results_die_after_their_last_use) {
  // u and v, then v and w: two tiles beside the operand, and a broadcast of 64 bytes at once with w.
  EXPECT_EQ(peak_of(main_of("a: [4]", R"(b = spmd_op a (t: [4]) {
    u = t + t
    v = exp u
    w = tanh v
    z = broadcast w [4, 4]
    return reduce_sum z [0]
  } as [4])",
                            "b", "[4]")),
            (Found{16 + 16 + 64, "main: b"}));
}

TEST(MemoryPeak, a_donated_operand_is_one_of_the_tiles) {
  // [1{x}4] to [4]: 4 and 16 bytes.
  EXPECT_EQ(peak_of(main_of("a: [1{x}4]", "b = undistribute a", "b", "[4]")), (Found{4 + 16, "main: b"}));
}

// A redistribution of `a`, which is perhaps returned beside its result.
std::string redistribution(const std::string& mesh, const std::string& from, const std::string& to, bool keeps_a) {
  return "mesh " + mesh + "\nfn main(a: " + from + ") -> " + to + (keeps_a ? ", " + from : "") +
         " {\n  b = redistribute a as " + to + "\n  return b" + (keeps_a ? ", a" : "") + "\n}\n";
}

// 64 bytes, of which a slice looks at half, gathered to 128.
TEST(MemoryPeak, a_slice_is_a_view) {
  EXPECT_EQ(peak_of(redistribution("{x: 4, y: 2}", "[2{x}8, 8]", "[8, 4{y}8]", false)), (Found{64 + 128, "main: b"}));
}

// 16 bytes, 16 after an alltoall and 32 gathered: the first are freed on the way, or not.
TEST(MemoryPeak, an_operand_that_lives_on_stays_beside) {
  for (const bool keeps_a : {false, true}) {
    EXPECT_EQ(peak_of(redistribution("{x: 2, y: 2}", "[1{x,y}4, 4]", "[4, 2{x}4]", keeps_a)),
              (Found{(keeps_a ? 16 : 0) + 16 + 32, "main: b"}));
  }
}

TEST(MemoryPeak, collectives_are_counted_like_plans_of_one_step) {
  EXPECT_EQ(peak_of(main_of("a: [1{x}4]", "b = allgather(0: 4) a as [4]", "b", "[4]")), (Found{20, "main: b"}));
  EXPECT_EQ(peak_of(main_of("a: [1{x}4]", "b = allgather(0: 4) a as [4]", "b, a", "[4], [1{x}4]")),
            (Found{20, "main: b"}));
}

TEST(MemoryPeak, an_all_reduce_scatters_and_gathers) {
  // 4 elements: [4] to [4 x 1] (16 + 16), added (16 + 4), gathered (4 + 16).
  EXPECT_EQ(peak_of(main_of("a: [4] sum {x}", "b = allreduce a as [4]", "b", "[4]")), (Found{32, "main: b"}));
  // 3 elements do not divide by 4: three devices get the 4 parts of one each.
  EXPECT_EQ(peak_of(main_of("a: [3] sum {x}", "b = allreduce a as [3]", "b", "[3]")), (Found{12 + 16, "main: b"}));
}

TEST(MemoryPeak, unused_values_die_at_once) {
  EXPECT_EQ(peak_of(main_of("a: [1{x}4], unused: [100]", R"(b = undistribute a
  c = undistribute a
  d = undistribute a)",
                            "a", "[1{x}4]")),
            (Found{4 + 400, "main"}));
}

// --- Calls.

TEST(MemoryPeak, a_callees_peak_is_the_callers) {
  EXPECT_EQ(peak_of(main_of("a: [1{x}4], k: [25]", "b = f(a)", "b, k", "[4], [25]") +
                    "fn f(a: [1{x}4]) -> [4] {\n  c = undistribute a\n  return c\n}\n"),
            (Found{100 + 20, "f: c"}));
}

// The redistribution of 48 or 64 bytes from above, in a function of its own.
const char* const turns = R"(mesh {x: 2, y: 2}
fn g(a: [1{x,y}4, 4]) -> [4, 2{x}4] {
  c = redistribute a as [4, 2{x}4]
  return c
}
fn f(a: [1{x,y}4, 4]) -> [4, 2{x}4] {
  b = g(a)
  return b
}
fn same(a: [1{x,y}4, 4], b: [1{x,y}4, 4]) -> [1{x,y}4, 4], [1{x,y}4, 4] {
  return b, b
}
)";

TEST(MemoryPeak, operands_that_the_caller_needs_are_kept) {
  const std::string head = "fn main(a: [1{x,y}4, 4]) -> ";
  EXPECT_EQ(peak_of(turns + head + "[4, 2{x}4] { b = g(a) return b }"), (Found{48, "g: c"}));
  EXPECT_EQ(peak_of(turns + head + "[4, 2{x}4], [1{x,y}4, 4] { b = g(a) return b, a }"), (Found{64, "g: c"}));
}

TEST(MemoryPeak, what_callers_of_callers_need_is_kept_too) {
  const std::string head = "fn main(a: [1{x,y}4, 4]) -> ";
  EXPECT_EQ(peak_of(turns + head + "[4, 2{x}4] { b = f(a) return b }"), (Found{48, "g: c"}));
  EXPECT_EQ(peak_of(turns + head + "[4, 2{x}4], [1{x,y}4, 4] { b = f(a) return b, a }"), (Found{64, "g: c"}));
}

// Two names of one array: it is counted once, and is donated only where neither is needed any longer.
TEST(MemoryPeak, values_may_share_an_array) {
  const std::string head = "fn main(a: [1{x,y}4, 4]) -> ";
  EXPECT_EQ(peak_of(turns + head + "[4, 2{x}4] { p, q = same(a, a) b = g(p) return b }"), (Found{48, "g: c"}));
  EXPECT_EQ(peak_of(turns + head + "[4, 2{x}4], [1{x,y}4, 4] { p, q = same(a, a) b = g(p) return b, q }"),
            (Found{64, "g: c"}));
  EXPECT_EQ(peak_of(turns + head +
                    "[4, 2{x}4], [1{x,y}4, 4] { p = redistribute a as [1{x,y}4, 4] b = g(p) "
                    "return b, a }"),
            (Found{64, "g: c"}));
  EXPECT_EQ(peak_of(turns + head + "[1{x,y}4, 4], [1{x,y}4, 4], [1{x,y}4, 4] { p, q = same(a, a) return p, q, a }"),
            (Found{48, "main: return"}));
}

TEST(MemoryPeak, calls_of_exponential_number_are_counted_once) {
  std::string text = "mesh {x: 4}\nfn main(a: [4]) -> [4] { b = c1(a) c = c1(b) return c }\n";
  for (int i = 1; i < 200; ++i) {
    const std::string next = "c" + std::to_string(i + 1);
    text += "fn c" + std::to_string(i) + "(a: [4]) -> [4] { b = " + next + "(a) c = " + next + "(b) return c }\n";
  }
  EXPECT_EQ(peak_of(text + "fn c200(a: [4]) -> [4] { b = spmd_op a (t: [4]) { return t } as [4] return b }\n"),
            (Found{32, "c200: b"}));
}

// Each function calls the next twice, and which parameters are needed after the call doubles with every level.
TEST(MemoryPeak, ways_to_call_a_function_are_bounded) {
  constexpr int width = 20;
  std::string parameters;
  std::string rotated;
  std::string names;
  for (int i = 0; i < width; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    parameters += comma + "p" + std::to_string(i) + ": [4]";
    names += comma + "p" + std::to_string(i);
    rotated += comma + "p" + std::to_string((i + 1) % width);
  }
  std::string text = "mesh {x: 4}\n";
  for (int i = 0; i < 40; ++i) {
    const std::string next = "c" + std::to_string(i + 1);
    text += "fn " + (i == 0 ? "main" : "c" + std::to_string(i)) + "(" + parameters + ") -> [4] {\n  a = " + next + "(" +
            rotated + ")\n  b = " + next + "(" + names +
            ")\n  c = spmd_op p0 (t: [4]) { return t } as [4]\n  return c\n}\n";
  }
  text += "fn c40(" + parameters + ") -> [4] { return p3 }\n";
  const std::int64_t bytes = peak_of(text).bytes;
  EXPECT_GE(bytes, 16 * width);
  EXPECT_LE(bytes, 16 * width * 41);
}

// --- Limits and large numbers.

std::string excess_of(const std::string& text, std::int64_t limit) {
  PlanOptions options;
  options.memory_limit = limit;
  return diagnostic_of([&] { return lower_program(checked(text).program, options); });
}

// 64 bytes by way of a tile between, 48 by an exchange.
TEST(Excess, is_planned_away_where_the_planner_is_free) {
  const std::string text = redistribution("{x: 2, y: 2}", "[1{x,y}4, 4]", "[4, 2{x}4]", true);
  PlanOptions options;
  options.executor.exchange_weight = 2;  // so that the tile between is cheaper
  options.memory_limit = 48;
  const LoweredProgram lowered = lower_program(checked(text).program, options);
  EXPECT_EQ(lowered.options.planner, PlannerKind::lean);
  EXPECT_EQ(find_memory_peak(lowered).bytes, 48);
  options.planner = PlannerKind::wide;
  EXPECT_THROW(lower_program(checked(text).program, options), InputError);
}

TEST(Excess, names_the_statement_and_the_smallest_limit) {
  EXPECT_EQ(excess_of(main_of("a: [1{x}4]", "  b = undistribute a", "b", "[4]"), 19),
            "program:3:3: error: 20 bytes per device are needed here, and the limit is 19\n"
            "    3 |   b = undistribute a\n"
            "      |   ^~~~~~~~~~~~~~~~~~\n"
            "hint: the smallest limit that works is 20 bytes; to need less, cut arrays along more axes or use values "
            "for the last time earlier\n");
}

TEST(Excess, names_the_function_where_its_parameters_are_too_large) {
  EXPECT_EQ(excess_of(main_of("a: [4]", "", "a", "[4]"), 15),
            "program:2:4: error: 16 bytes per device are needed here, and the limit is 15\n"
            "    2 | fn main(a: [4]) -> [4] {\n"
            "      |    ^~~~\n"
            "hint: the smallest limit that works is 16 bytes; to need less, cut arrays along more axes or use values "
            "for the last time earlier\n");
}

TEST(Excess, names_the_return_where_results_are_copied) {
  EXPECT_EQ(excess_of(main_of("a: [4]", "", "a, a", "[4], [4]"), 31),
            "program:4:3: error: 32 bytes per device are needed here, and the limit is 31\n"
            "    4 |   return a, a\n"
            "      |   ^~~~~~~~~~~\n"
            "hint: the smallest limit that works is 32 bytes; to need less, cut arrays along more axes or use values "
            "for the last time earlier\n");
}

TEST(MemoryPeak, sums_that_do_not_fit_are_reported) {
  const std::string large = "f64[1000000000000000000]";
  const CheckedProgram program = checked(main_of("a: " + large + ", b: " + large, "", "a", large));
  EXPECT_EQ(diagnostic_of([&] { return find_memory_peak(lower_program(program.program)); }),
            "program:2:4: error: the memory that is needed here does not fit in 63 bits\n"
            "    2 | fn main(a: f64[1000000000000000000], b: f64[1000000000000000000]) -> f64[1000000000000000000] {\n"
            "      |    ^~~~\n");
}

TEST(Summary, lists_what_moves) {
  const CheckedProgram program = checked(read_source("examples/paper/chain.spmd"));
  EXPECT_EQ(to_json(summarize(lower_program(program.program))),
            R"({"format":1,"planner":"auto","cost_model":"paper","movements":[{"function":"main","name":"z","line":9,)"
            R"("operation":"redistribute","from":"[32, 64{devs}2048]","to":"[1{devs}32, 2048]","steps":1,"cost":2048,)"
            R"("received_bytes_max":7936,"peak_bytes":16384}],)"
            R"("peak":{"bytes":2498560,"function":"main","statement":"y","line":6}})");
}

// The tiles at y: x, w1 and w2, and the result of the product.
TEST(Summary, peak_of_the_chain_by_hand) { EXPECT_EQ(2498560, 4 * (32 * 1024 + 1024 * 64 + 2048 * 256 + 32 * 64)); }

}  // namespace
}  // namespace retile::test
