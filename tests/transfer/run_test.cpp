#include "retile/transfer/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/base/error.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "tests/support/layouts.h"
#include "tests/support/manifests.h"

namespace retile::transfer {
namespace {

TEST(TransferRun, gives_every_device_its_slices) {
  const auto engine = make_threads_engine({3});
  test::RandomProblems random(11);
  for (int i = 0; i < 200; ++i) {
    const TransferPlan plan(test::any_manifest(random), 1 << 20);
    const TransferReport report = run_transfer(plan, *engine, {static_cast<std::uint64_t>(i), 2});
    ASSERT_EQ(report.difference, std::nullopt) << i;
    std::int64_t received = 0;
    std::int64_t tiles = 0;
    for (const DeviceLoad& load : plan.loads()) {
      received = std::max(received, load.received);
      tiles = std::max(tiles, load.source + load.target);
    }
    ASSERT_EQ(report.received_bytes_max, received);
    ASSERT_EQ(report.staging_bytes_max, 0);
    ASSERT_EQ(report.peak_bytes_measured, tiles);
    ASSERT_EQ(report.seconds.size(), 2U);
  }
}

TEST(TransferRun, passes_on_what_has_come_into_a_host) {
  const auto engine = make_threads_engine({3});
  test::RandomProblems random(12);
  int relays = 0;
  for (int i = 0; i < 100; ++i) {
    Manifest manifest = test::any_manifest(random);
    const Hosts hosts = even_hosts(manifest.device_count(), 2);
    const TransferPlan plan(std::move(manifest), 1 << 20, hosts);
    relays += plan.has_relays() ? 1 : 0;
    const TransferReport report = run_transfer(plan, *engine);
    ASSERT_EQ(report.difference, std::nullopt) << i;
    std::int64_t received = 0;
    for (const DeviceLoad& load : plan.loads()) received = std::max(received, load.received);
    ASSERT_EQ(report.received_bytes_max, received) << i;
  }
  EXPECT_GT(relays, 20);
}

TEST(TransferRun, cuts_large_pieces_for_its_workers) {
  const auto engine = make_threads_engine({4});
  const Manifest manifest =
      make_manifest({{"a", test::problem_of({"x=2,y=2", "[512{x}1024, 512{y}1024]", "x=4", "[1024, 256{x}1024]"})},
                     {"b", test::problem_of({"x=4", "[4096, 300{x}1200]", "x=4", "[1024{x}4096, 1200]"})}});
  EXPECT_EQ(run_transfer(TransferPlan(manifest, 1 << 16), *engine).difference, std::nullopt);
}

// Says that it has moved everything.
class IdleEngine final : public Engine {
 public:
  const char* name() const override { return "idle"; }
  std::vector<Device> devices(std::int64_t count) const override { return all_devices(count); }
  std::unique_ptr<PreparedRun> prepare(const Movement&, std::int64_t, const BufferStrides&) override { return nullptr; }
  std::unique_ptr<PreparedRun> prepare_transfer(std::vector<Streams>) override {
    class Idle final : public PreparedRun {
      RunStatistics execute(std::span<const std::byte* const>, std::span<std::byte* const>) override { return {}; }
      RunStatistics execute(Tiles&) override { return {}; }
    };
    return std::make_unique<Idle>();
  }
};

TEST(TransferRun, says_which_array_is_wrong_and_where) {
  IdleEngine engine;
  const Manifest manifest = make_manifest({{"w", test::problem_of({"x=2", "[4{x}8]", "x=2", "[8]"})}});
  EXPECT_THAT(run_transfer(TransferPlan(manifest, 64), engine).difference.value_or(""),
              ::testing::StartsWith("array \"w\", device 0, element [0]: "));
}

TEST(TransferRun, is_refused_by_engines_of_single_arrays) {
  const auto engine = make_reference_engine();
  const Manifest manifest = make_manifest({{"w", test::problem_of({"x=2", "[4{x}8]", "x=2", "[8]"})}});
  try {
    run_transfer(TransferPlan(manifest, 64), *engine);
    FAIL();
  } catch (const RuntimeError& error) {
    EXPECT_STREQ(error.what(), "the reference engine moves one array at a time");
  }
}

TEST(TransferRun, that_does_not_fit_the_machine_is_refused_before_it_starts) {
  const auto engine = make_threads_engine({1});
  const Manifest manifest =
      make_manifest({{"w", test::problem_of({"x=2", "[1099511627776{x}2199023255552]", "x=2", "[2199023255552]"})}});
  EXPECT_THROW(run_transfer(TransferPlan(manifest, 1 << 20), *engine), RuntimeError);
}

}  // namespace
}  // namespace retile::transfer
