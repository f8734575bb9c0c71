#include "evaluation/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "evaluation/sampler.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"

namespace retile::evaluation {
namespace {

const std::vector<std::string> all_names{"paper", "wide", "direct", "gather-slice", "xla", "memcpy"};

TEST(Measure, runs_every_contender_on_sampled_problems) {
  const auto engine = make_threads_engine({});
  for (int i = 0; i < 20; ++i) {
    const Problem problem = scale_problem(sample_problem({}, i), 1e-4);
    std::vector<Contender> contenders;
    for (const std::string& name : all_names) contenders.push_back(make_contender(name, problem));
    MeasureOptions options;
    options.repetitions = 3;
    const std::vector<Measurement> measurements = measure(problem, contenders, *engine, options);
    ASSERT_EQ(measurements.size(), all_names.size());
    for (std::size_t k = 0; k < measurements.size(); ++k) {
      EXPECT_EQ(measurements[k].skipped, std::nullopt) << problem.id() << " " << all_names[k];
      EXPECT_EQ(measurements[k].seconds.size(), 3U);
      EXPECT_LE(measurements[k].statistics.peak_measured, measurements[k].statistics.peak_predicted);
    }
    EXPECT_EQ(measurements.back().statistics.received_max, 0) << "the floor receives nothing";
  }
}

// Counts the tiles that it is asked for. With memory of a device, bytes are other ones there: a host that reads or
// writes tiles by itself gets them wrong.
class CountingEngine final : public Engine {
 public:
  explicit CountingEngine(bool has_host_memory = true) : has_host_memory_(has_host_memory) {}
  const char* name() const override { return engine_->name(); }
  std::vector<Device> devices(std::int64_t device_count) const override { return engine_->devices(device_count); }
  Buffer allocate(std::size_t bytes) override {
    ++allocated;
    return engine_->allocate(bytes);
  }
  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    return engine_->prepare(movement, element_size, strides);
  }

  bool has_host_memory() const override { return has_host_memory_; }
  void load(const std::byte* tile, std::span<std::byte> to) const override {
    std::transform(tile, tile + to.size(), to.begin(), [](std::byte byte) { return ~byte; });
  }
  void store(std::span<const std::byte> from, std::byte* tile) const override {
    std::transform(from.begin(), from.end(), tile, [](std::byte byte) { return ~byte; });
  }

  int allocated = 0;

 private:
  const bool has_host_memory_;
  const std::unique_ptr<Engine> engine_ = make_reference_engine();
};

TEST(Measure, asks_the_engine_for_what_is_in_memory_of_a_device) {
  const Problem problem = scale_problem(adversarial_problems().front(), 1e-3);
  CountingEngine engine(false);
  EXPECT_EQ(measure(problem, {make_contender("wide", problem)}, engine, {}).front().skipped, std::nullopt);
}

TEST(Measure, has_tiles_in_the_memory_that_is_asked_for) {
  const Problem problem = scale_problem(adversarial_problems().front(), 1e-3);
  const std::vector<Contender> contenders{make_contender("wide", problem)};
  for (const auto& [owner, allocated] : {std::pair{TileOwner::engine, 16}, {TileOwner::caller, 0}}) {
    CountingEngine engine;
    MeasureOptions options;
    options.owner = owner;
    EXPECT_EQ(measure(problem, contenders, engine, options).front().skipped, std::nullopt);
    EXPECT_EQ(engine.allocated, allocated);
  }
}

// What a contender finds in the caches depends on the one before it.
TEST(Measure, has_every_contender_after_every_other_one) {
  const auto engine = make_reference_engine();
  const Problem problem = scale_problem(adversarial_problems().front(), 1e-3);
  const Contender contender = make_contender("wide", problem);
  std::vector<std::size_t> runs;
  struct Noted : PreparedRun {
    Noted(std::unique_ptr<PreparedRun> run, std::size_t number, std::vector<std::size_t>& runs)
        : run_(std::move(run)), number_(number), runs_(runs) {}
    RunStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
      runs_.push_back(number_);
      return run_->execute(sources, targets);
    }
    RunStatistics execute(Tiles& tiles) override { return run_->execute(tiles); }
    const std::unique_ptr<PreparedRun> run_;
    const std::size_t number_;
    std::vector<std::size_t>& runs_;
  };
  std::vector<Contender> contenders(4, contender);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    contenders[i].prepare = [&, i](Engine& on) { return std::make_unique<Noted>(contender.prepare(on), i, runs); };
  }
  MeasureOptions options;
  options.repetitions = 40;
  (void)measure(problem, contenders, *engine, options);
  std::set<std::pair<std::size_t, std::size_t>> followed;
  std::set<std::size_t> first;
  for (std::size_t i = contenders.size(); i < runs.size(); ++i) {  // after the runs that are not timed
    if (i % contenders.size() == 0) {
      first.insert(runs[i]);
    } else {
      followed.emplace(runs[i - 1], runs[i]);
    }
  }
  EXPECT_EQ(first.size(), 4U);
  EXPECT_EQ(followed.size(), 12U);
}

TEST(Measure, skips_a_contender_that_is_wrong) {
  const auto engine = make_reference_engine();
  const Problem problem = scale_problem(adversarial_problems().front(), 1e-3);
  std::vector<Contender> contenders{make_contender("wide", problem), make_contender("paper", problem)};
  // Does nothing, and leaves the target as it was.
  struct Idle : PreparedRun {
    RunStatistics execute(std::span<const std::byte* const>, std::span<std::byte* const>) override { return {}; }
    RunStatistics execute(Tiles&) override { return {}; }
  };
  contenders[1].prepare = [](Engine&) { return std::make_unique<Idle>(); };
  const std::vector<Measurement> measurements = measure(problem, contenders, *engine, {});
  EXPECT_EQ(measurements[0].skipped, std::nullopt);
  EXPECT_EQ(measurements[0].seconds.size(), 5U);
  ASSERT_TRUE(measurements[1].skipped.has_value());
  EXPECT_EQ(measurements[1].skipped->substr(0, 21), "the result is wrong: ");
  EXPECT_TRUE(measurements[1].seconds.empty());
}

TEST(Measure, skips_what_does_not_fit_in_memory) {
  const auto engine = make_reference_engine();
  const Problem problem = scale_problem(adversarial_problems().front(), 1e-3);
  Contender huge = make_contender("paper", problem);
  SampleOptions options;
  options.least_bytes = options.most_bytes / 2;
  options.most_bytes = std::int64_t{1} << 50U;
  options.least_bytes = options.most_bytes / 2;
  huge.plan = make_contender("paper", sample_problem(options, 0)).plan;
  const std::vector<Measurement> measurements = measure(problem, {huge}, *engine, {});
  ASSERT_TRUE(measurements[0].skipped.has_value());
  EXPECT_EQ(measurements[0].skipped->substr(0, 14), "the run needs ");
}

}  // namespace
}  // namespace retile::evaluation
