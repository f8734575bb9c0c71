#include "retile/transfer/seconds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/transfer/message_plan.h"
#include "retile/transfer/plan.h"
#include "retile/transfer/verify.h"
#include "tests/support/layouts.h"
#include "tests/support/manifests.h"

namespace retile::transfer {
namespace {

using ::testing::IsEmpty;

constexpr std::int64_t mebibyte = 1 << 20;

// Two hosts of two devices each.
Machine machine_of(double link_rate, double inside_rate) {
  Machine machine;
  machine.hosts = {{0, 1}, {2, 3}};
  machine.links = {{link_rate, link_rate}, {link_rate, link_rate}};
  machine.link_latency = 1e-5;
  machine.inside_rate = inside_rate;
  machine.inside_latency = 2e-6;
  return machine;
}

Machine fast_machine() { return machine_of(1e11, 4e11); }

Manifest large_manifest() {
  return make_manifest({{"w", test::problem_of("x=4", "[4096{x}16384, 16384]", "[16384, 4096{x}16384]")}});
}

double seconds_over_least(const StreamPlan& plan, const Machine& machine) {
  const TransferTime time = predict_time(plan, seconds_model(machine));
  return static_cast<double>(time.predicted.picoseconds) / static_cast<double>(time.lower_bound.picoseconds);
}

TEST(MessageForm, is_as_without_a_machine_on_slow_links) {
  const MessageForm usual;
  const MessageForm form = message_form(machine_of(1e8, 8e9));
  EXPECT_EQ(form.most_bytes, usual.most_bytes);
  EXPECT_EQ(form.most_crossing, usual.most_crossing);
  EXPECT_EQ(form.least_crossing, usual.least_crossing);
}

// Devices share the link of their host.
TEST(MessageForm, has_messages_whose_bytes_take_longer_than_latencies) {
  const MessageForm form = message_form(fast_machine(), {.header_bytes = 24, .most_bytes = 1000});
  EXPECT_EQ(form.header_bytes, 24);
  EXPECT_EQ(form.most_bytes, 6400000);
  EXPECT_EQ(form.least_crossing, 4000000);
  EXPECT_EQ(form.most_crossing, 4000000);
}

TEST(MessageForm, hides_latencies_that_short_messages_would_wait_for) {
  const Machine machine = fast_machine();
  const Hosts hosts = machine.host_numbers();
  const TransferPlan cut_short(large_manifest(), 64 * mebibyte, hosts);
  const TransferPlan plan(large_manifest(), 64 * mebibyte, hosts, TileUse::kept, message_form(machine));
  EXPECT_THAT(find_faults(plan), IsEmpty());
  EXPECT_GT(seconds_over_least(cut_short, machine), 2);
  EXPECT_LT(seconds_over_least(plan, machine), 1.05);
}

TEST(MessageForm, keeps_the_cap) {
  const TransferPlan plan(large_manifest(), mebibyte, fast_machine().host_numbers(), TileUse::kept,
                          message_form(fast_machine()));
  EXPECT_THAT(find_faults(plan), IsEmpty());
  for (const DeviceLoad& load : plan.loads()) EXPECT_LE(load.staging, mebibyte);
}

TEST(MessageForm, is_that_of_messages_which_a_caller_carries) {
  const test::ProblemText text{"x=4", "[4096{x}16384, 16384]", "x=4", "[16384, 4096{x}16384]"};
  const Problem problem = problem_of(text);
  const MovedArray array = moved_array(problem.target());
  const ArrayKind kind{problem.source().placement(4, array), problem.target().placement(4, array)};
  const auto rounds_on = [&](const SecondsModel* machine) {
    MessageOptions options;
    options.most_message_bytes = 64 << 10;
    options.hosts = {0, 0, 1, 1};
    options.machine = machine;
    return MessagePlan({kind}, {{"w", 0}}, 4, options).rounds();
  };
  EXPECT_GT(rounds_on(nullptr), 10 * rounds_on(&seconds_model(fast_machine())));
}

}  // namespace
}  // namespace retile::transfer
