#include "retile/runtime/program_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/base/error.h"
#include "retile/engines/reference/reference.h"
#include "tests/support/programs.h"
#include "tests/support/split_engine.h"

namespace retile::test {
namespace {

using language::LoweredProgram;
using runtime::ProgramReport;
using runtime::ProgramRunOptions;

const char* const turn = R"(mesh {x: 2, y: 2}
fn main(a : [4{x}8, 4]) -> [8, 2{x}4] {
  b = redistribute a as [8, 2{x}4]
  return b
}
)";

// Another engine, which changes the last byte of the last device's tile in every movement.
class FaultyEngine final : public Engine {
 public:
  explicit FaultyEngine(Engine& engine) : engine_(engine) {}

  const char* name() const override { return "faulty"; }
  std::vector<Device> devices(std::int64_t count) const override { return engine_.devices(count); }
  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    const std::int64_t count = movement.mesh.device_count();
    const std::vector<Device> mine = engine_.devices(count);
    return std::make_unique<Run>(engine_.prepare(movement, element_size, strides),
                                 !mine.empty() && mine.back() == count - 1);
  }
  const Processes& processes() const override { return engine_.processes(); }

 private:
  class Run final : public PreparedRun {
   public:
    Run(std::unique_ptr<PreparedRun> run, bool has_last) : run_(std::move(run)), has_last_(has_last) {}
    RunStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
      return run_->execute(sources, targets);
    }
    RunStatistics execute(Tiles& tiles) override {
      const RunStatistics statistics = run_->execute(tiles);
      if (has_last_) *(tiles.back().bytes.end() - 1) ^= std::byte{0x80};
      return statistics;
    }

   private:
    std::unique_ptr<PreparedRun> run_;
    bool has_last_;
  };

  Engine& engine_;
};

TEST(ProgramReport, verification_finds_what_an_engine_does_wrong) {
  const auto right = make_reference_engine();
  FaultyEngine engine(*right);
  ProgramRunOptions options;
  EXPECT_EQ(run_and_report(program_of(turn), engine, options).difference, std::nullopt);
  options.verify = true;
  const ProgramReport report = run_and_report(program_of(turn), engine, options);
  EXPECT_FALSE(report.verified);
  EXPECT_THAT(report.difference.value_or(""),
              ::testing::MatchesRegex("element \\[7, 3\\] of 'b' on device 3 is -?[0-9.]+ instead of -?[0-9.]+"));
  EXPECT_THAT(to_json(report), ::testing::HasSubstr(R"("verified":false)"));
}

TEST(ProgramReport, verification_fails_in_all_processes) {
  ProgramRunOptions options;
  options.verify = true;
  run_split(2, [&](int, Engine& split) {
    FaultyEngine engine(split);
    EXPECT_THAT(run_and_report(program_of(turn), engine, options).difference.value_or(""),
                ::testing::HasSubstr("element [7, 3] of 'b' on device 3"));
  });
}

TEST(ProgramReport, is_the_same_in_every_process) {
  ProgramRunOptions options;
  options.verify = true;
  options.repetitions = 2;
  const auto engine = make_reference_engine();
  const ProgramReport expected = run_and_report(program_of(turn), *engine, options);
  EXPECT_TRUE(expected.verified);
  EXPECT_EQ(expected.seconds.size(), 2U);
  run_split(3, [&](int, Engine& split) {
    const ProgramReport report = run_and_report(program_of(turn), split, options);
    EXPECT_TRUE(report.verified);
    ASSERT_EQ(report.results.size(), 1U);
    EXPECT_EQ(report.results[0].checksum, expected.results[0].checksum);
    EXPECT_EQ(report.results[0].elements, expected.results[0].elements);
    EXPECT_EQ(report.peak_bytes_predicted, expected.peak_bytes_predicted);
  });
}

TEST(ProgramReport, statements_of_repetitions_and_verification_are_counted) {
  ProgramRunOptions options;
  options.repetitions = 3;
  options.verify = true;
  int count = 0;
  options.after_statement = [&] { ++count; };
  const auto engine = make_reference_engine();
  run_and_report(program_of(turn), *engine, options);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(runtime::count_statements(program_of(turn).program, options), 4);
}

TEST(ProgramReport, parameters_get_different_numbers) {
  const LoweredProgram program =
      program_of("mesh {x: 1}\nfn main(a : [99], b : [99]) -> [99], [99] {\n  return a, b\n}\n");
  const auto engine = make_reference_engine();
  const ProgramReport report = runtime::run_and_report(program, *engine);
  EXPECT_NE(report.results[0].checksum, report.results[1].checksum);
}

}  // namespace
}  // namespace retile::test
