#include "retile/transfer/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "retile/plan/senders.h"
#include "retile/schedule/cells.h"
#include "retile/transfer/verify.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/layouts.h"
#include "tests/support/manifests.h"

namespace retile::transfer {
namespace {

using test::RandomProblems;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t plenty = std::int64_t{1} << 40U;

std::int64_t busiest(const TransferPlan& plan) {
  std::int64_t most = 0;
  for (const DeviceLoad& load : plan.loads()) most = std::max(most, load.sent);
  return most;
}

Manifest manifest_of(const std::vector<test::ProblemText>& texts, int layers = 1) {
  std::vector<std::pair<std::string, Problem>> arrays;
  for (const test::ProblemText& text : texts) {
    for (int i = 0; i < layers; ++i) arrays.emplace_back(std::to_string(arrays.size()), problem_of(text));
  }
  return make_manifest(arrays);
}

TEST(TransferPlan, delivers_everything_once_whatever_the_layouts) {
  RandomProblems random(1);
  for (int i = 0; i < 400; ++i) {
    const TransferPlan plan(test::any_manifest(random), plenty);
    ASSERT_THAT(find_faults(plan), IsEmpty()) << i;
  }
}

TEST(TransferPlan, receives_what_is_lacking_and_nothing_else) {
  RandomProblems random(2);
  for (int i = 0; i < 200; ++i) {
    const TransferPlan plan(test::any_manifest(random), plenty);
    const std::vector<std::int64_t> lacking = test::lacking_bytes(plan.manifest());
    for (std::size_t device = 0; device < lacking.size(); ++device) {
      ASSERT_EQ(plan.loads()[device].received, lacking[device]) << i;
      ASSERT_EQ(plan.loads()[device].lacking, lacking[device]) << i;
    }
  }
}

TEST(TransferPlan, busiest_sender_is_at_the_bound_that_all_sets_of_devices_give) {
  RandomProblems random(3);
  for (int i = 0; i < 200; ++i) {
    const TransferPlan plan(test::any_manifest(random), plenty);
    ASSERT_EQ(plan.sent_bound(), test::least_busiest(plan.manifest())) << i;
    // Pieces are cut between elements, of up to 16 bytes here, at two ends of each share.
    const auto rounding = static_cast<std::int64_t>(16 * plan.streams().size());
    ASSERT_LE(busiest(plan), plan.sent_bound() + std::max(rounding, plan.sent_bound() / 100)) << i;
    ASSERT_GE(busiest(plan), plan.sent_bound()) << i;
  }
}

TEST(TransferPlan, cuts_large_arrays_within_a_thousandth_of_the_bound) {
  const TransferPlan plan(manifest_of({{"x=3", "[1001, 1001]", "a=5", "[201{a}1001, 1001] on [3, 4, 5, 6, 7]"},
                                       {"x=2,y=2", "[32{x}64, 64]", "a=2", "[32{a}64, 64] on [5, 6]"}},
                                      7),
                          plenty);
  EXPECT_LE(busiest(plan), plan.sent_bound() + plan.sent_bound() / 1000);
  EXPECT_THAT(find_faults(plan), IsEmpty());
}

std::size_t count_pieces(const TransferPlan& plan) {
  std::size_t count = 0;
  for (const StreamPlan::Stream& stream : plan.streams()) {
    plan.visit_pieces(stream, [&](const StreamPlan::Piece&) { ++count; });
  }
  return count;
}

// As many boxes as one period has, however often it is repeated.
TEST(TransferPlan, does_not_grow_with_blocks_in_turn) {
  const auto plan_of = [](const char* source, const char* target, TileUse sources) {
    return TransferPlan(manifest_of({{"p=2,q=2", source, "p=2,q=2", target}}), plenty, {}, sources);
  };
  const auto small = plan_of("[480 cyclic 4{p}, 480 cyclic 4{q}]", "[480 cyclic 6{p}, 480 cyclic 6{q}]", TileUse::kept);
  const auto large =
      plan_of("[4800 cyclic 4{p}, 4800 cyclic 4{q}]", "[4800 cyclic 6{p}, 4800 cyclic 6{q}]", TileUse::kept);
  EXPECT_THAT(find_faults(large), IsEmpty());
  EXPECT_EQ(count_pieces(small), count_pieces(large));
  EXPECT_LT(count_pieces(large), std::size_t{500});
  const auto by_block =
      plan_of("[480 cyclic 4{p}, 480 cyclic 4{q}]", "[480 cyclic 6{p}, 480 cyclic 6{q}]", TileUse::donated);
  EXPECT_THAT(find_faults(by_block), IsEmpty());
  EXPECT_GT(count_pieces(by_block), 100 * count_pieces(small)) << "memory is given back block by block";
}

TEST(TransferPlan, holders_that_send_one_array_leave_another_to_its_other_holders) {
  // Device 0 alone holds the first array; the second, as large, can come from device 1.
  const TransferPlan plan(
      manifest_of({{"x=1", "[64] on [0]", "a=1", "[64] on [2]"}, {"x=2", "[64] on [0, 1]", "a=1", "[64] on [2]"}}),
      plenty);
  EXPECT_EQ(plan.sent_bound(), 256);
  EXPECT_EQ(plan.loads()[0].sent, 256);
  EXPECT_EQ(plan.loads()[1].sent, 256);
}

TEST(TransferPlan, keeps_to_any_cap_that_it_accepts) {
  RandomProblems random(4);
  for (int i = 0; i < 200; ++i) {
    const Manifest manifest = test::any_manifest(random);
    for (std::int64_t cap = 1; cap < 3000; cap = cap * 3 + 1) {
      try {
        ASSERT_THAT(find_faults(TransferPlan(manifest, cap)), IsEmpty()) << i;
      } catch (const InputError& error) {
        const std::string said = error.what();
        const std::string last_words = "the smallest that works is ";
        const std::int64_t smallest = std::stoll(said.substr(said.find(last_words) + last_words.size()));
        ASSERT_LT(cap, smallest);
        ASSERT_THAT(find_faults(TransferPlan(manifest, smallest)), IsEmpty()) << i;
        ASSERT_THROW(TransferPlan(manifest, smallest - 1), InputError);
      }
    }
  }
}

TEST(TransferPlan, names_the_smallest_cap) {
  const Manifest manifest = manifest_of({{"x=2", "[4{x}8]", "x=2", "[8]"}});
  EXPECT_EQ(test::diagnostic_of([&] { return TransferPlan(manifest, 3).rounds(); }),
            "error: a cap of 3 bytes per device is too small for the messages of a round: the smallest that works is 4 "
            "bytes\n");
  EXPECT_EQ(test::diagnostic_of([&] { return TransferPlan(manifest, 1).rounds(); }),
            "error: a cap of 1 byte per device is too small for the messages of a round: the smallest that works is 4 "
            "bytes\n");
  EXPECT_EQ(TransferPlan(manifest, 4).rounds(), 16);
  EXPECT_EQ(TransferPlan(manifest, 63).rounds(), 2);
  EXPECT_EQ(TransferPlan(manifest, 64).rounds(), 1);
}

TEST(TransferPlan, refuses_more_bytes_than_can_be_counted) {
  const Manifest manifest =
      manifest_of({{"x=2", "[1152921504606846976]", "x=2", "[576460752303423488{x}1152921504606846976]"}});
  EXPECT_EQ(test::diagnostic_of([&] { return TransferPlan(manifest, 1).rounds(); }),
            "error: the bytes of all tiles do not fit in 60 bits\n");
}

TEST(TransferPlan, sends_one_message_per_pair_and_round) {
  const TransferPlan plan(manifest_of({{"x=2", "[4{x}8, 64]", "x=2", "[8, 32{x}64]"}}, 100), plenty);
  EXPECT_EQ(plan.streams().size(), 2U);
  EXPECT_EQ(plan.rounds(), 1);
  EXPECT_EQ(plan.messages(), 2);
}

TEST(TransferPlan, of_nothing_that_moves_has_no_rounds) {
  const TransferPlan plan(manifest_of({{"x=2", "[4{x}8]", "x=2", "[4{x}8]"}}), 0);
  EXPECT_EQ(plan.rounds(), 0);
  EXPECT_EQ(plan.messages(), 0);
  EXPECT_THAT(find_faults(plan), IsEmpty());
}

TEST(TransferPlanOfHosts, lets_every_element_cross_into_a_host_once) {
  RandomProblems random(6);
  for (int i = 0; i < 300; ++i) {
    Manifest manifest = test::any_manifest(random);
    const std::vector<std::int64_t> expected = test::lacking_bytes(manifest);
    Hosts hosts;
    for (std::size_t device = 0; device < expected.size(); ++device) {
      hosts.push_back(static_cast<std::int64_t>(random.number(3)) * 10);
    }
    const TransferPlan plan(std::move(manifest), 1000, hosts);
    ASSERT_THAT(find_faults(plan), IsEmpty()) << i;
    ASSERT_EQ(plan.crossing(), test::crossing_bytes(plan.manifest(), hosts)) << i;
    for (std::size_t device = 0; device < expected.size(); ++device) {
      ASSERT_EQ(plan.loads()[device].received, expected[device]) << i;
    }
  }
}

TEST(TransferPlanOfHosts, lets_all_its_devices_take_an_equal_part_across) {
  const Manifest manifest = manifest_of({{"x=1", "[64, 64] on [0]", "a=4", "[64, 64] on [4, 5, 6, 7]"}});
  const TransferPlan plan(manifest, plenty, even_hosts(8, 2));
  EXPECT_EQ(plan.crossing(), (std::vector<std::int64_t>{0, 64 * 64 * 4}));
  EXPECT_TRUE(plan.has_relays());
  for (Device device = 4; device < 8; ++device) {
    EXPECT_EQ(plan.loads()[static_cast<std::size_t>(device)].sent, 3 * 64 * 64);
  }
}

// Every host lacks one tile, which devices of two hosts hold; one of them also sends inside its host, which takes
// nothing of the link.
TEST(TransferPlanOfHosts, lets_hosts_share_what_crosses_whatever_their_devices_send_inside) {
  const Manifest manifest = manifest_of({{"a=2,b=2,c=2", "[16{b}32, 16{c}32]", "a=2,b=2,c=2", "[16{c}32, 16{a}32]"}});
  const TransferPlan plan(manifest, plenty, even_hosts(8, 4));
  std::vector<std::int64_t> out(4);
  for (const StreamPlan::Stream& stream : plan.streams()) {
    if (stream.from / 2 != stream.to / 2) out[static_cast<std::size_t>(stream.from / 2)] += stream.bytes;
  }
  EXPECT_THAT(out, ElementsAre(1024, 1024, 1024, 1024));
}

TEST(TransferPlanOfHosts, is_the_same_without_them_where_all_share_one) {
  const Manifest manifest = manifest_of({{"x=2", "[4{x}8]", "x=2", "[8]"}});
  EXPECT_FALSE(TransferPlan(manifest, plenty, {3, 3}).has_relays());
  EXPECT_EQ(TransferPlan(manifest, plenty, {3, 3}).crossing(), (std::vector<std::int64_t>{0}));
}

TEST(TransferPlanOfHosts, has_hosts_of_equally_many_devices) {
  EXPECT_THAT(even_hosts(7, 3), ElementsAre(0, 0, 0, 1, 1, 2, 2));
}

// The host with the faster link sends more, in proportion.
TEST(TransferPlanOfHosts, lets_hosts_share_what_crosses_by_their_links) {
  const Manifest manifest = manifest_of({{"x=2,y=2", "[512{x}1024, 16] on [0, 1, 2, 3]", "a=1", "[1024, 16] on [4]"}});
  MessageForm form;
  form.link_rates = {1e7, 8e7, 1e7, 8e7, 1};
  const TransferPlan plan(manifest, plenty, {0, 1, 2, 3, 4}, TileUse::kept, form);
  ASSERT_THAT(find_faults(plan), IsEmpty());
  const double all = 512 * 16 * 4;
  for (std::size_t device = 0; device < 4; ++device) {
    EXPECT_NEAR(static_cast<double>(plan.loads()[device].sent), all * (device % 2 == 0 ? 1 : 8) / 9, all / 100);
  }
}

TEST(SharedSending, has_weights_in_proportion_to_rates) {
  EXPECT_THAT(sender_weights({1e8, 8e8, 4e8}), ElementsAre(128, 1024, 512));
  EXPECT_THAT(sender_weights({1, 1e9}), ElementsAre(1, 1024));
  EXPECT_THAT(sender_weights({5, 5}), IsEmpty());
  EXPECT_THAT(sender_weights({}), IsEmpty());
}

TEST(SharedSending, is_by_weights_among_holders_that_are_alike) {
  EXPECT_THAT(share_sending({{{0, 1, 2}, 80}, {{0, 1, 2}, 9}}, 3, {1, 2, 5}).shares,
              ElementsAre(ElementsAre(10, 20, 50), ElementsAre(2, 2, 5)));
}

TEST(SharedSending, is_least_for_demands_of_any_holders) {
  RandomProblems random(5);
  for (int i = 0; i < 500; ++i) {
    SenderWeights weights;
    for (int j = 0; j < (i % 2 == 0 ? 0 : 6); ++j) weights.push_back(1 + static_cast<std::int64_t>(random.number(9)));
    const auto weight = [&](std::size_t device) { return weights.empty() ? 1 : weights[device]; };
    std::vector<SenderDemand> demands;
    for (std::size_t j = 0; j < 1 + random.number(12); ++j) {
      std::vector<Device> holders = random.permutation(6);
      holders.resize(1 + random.number(6));
      demands.push_back({holders, static_cast<std::int64_t>(random.number(1000))});
    }
    const SenderShares shares = share_sending(demands, 6, weights);
    std::vector<std::int64_t> sent(6);
    for (std::size_t j = 0; j < demands.size(); ++j) {
      std::int64_t sum = 0;
      for (std::size_t k = 0; k < demands[j].holders.size(); ++k) {
        ASSERT_GE(shares.shares[j][k], 0);
        sum += shares.shares[j][k];
        sent[static_cast<std::size_t>(demands[j].holders[k])] += shares.shares[j][k];
      }
      ASSERT_EQ(sum, demands[j].amount);
    }
    std::int64_t least = 0;
    for (unsigned set = 1; set < 64; ++set) {
      std::int64_t bytes = 0;
      for (const SenderDemand& demand : demands) {
        const bool is_inside = std::all_of(demand.holders.begin(), demand.holders.end(), [&](Device device) {
          return (set >> static_cast<unsigned>(device) & 1U) == 1;
        });
        bytes += is_inside ? demand.amount : 0;
      }
      std::int64_t all = 0;
      for (std::size_t device = 0; device < 6; ++device) all += (set >> device & 1U) == 1 ? weight(device) : 0;
      least = std::max(least, (bytes + all - 1) / all);
    }
    ASSERT_EQ(shares.bound, least);
    for (std::size_t device = 0; device < 6; ++device) ASSERT_LE(sent[device], least * weight(device));
    if (weights.empty()) {
      ASSERT_EQ(*std::max_element(sent.begin(), sent.end()), least);
    }
  }
}

TEST(SharedSending, is_even_among_holders_that_are_alike) {
  EXPECT_THAT(share_sending({{{0, 1, 2}, 30}, {{0, 1, 2}, 7}}, 3).shares,
              ElementsAre(ElementsAre(10, 10, 10), ElementsAre(3, 2, 2)));
}

TEST(BoxesOfRange, are_few_and_make_up_the_range) {
  const Box box{{2, 5, 1}, {5, 9, 6}};  // 3 x 4 x 5
  for (std::int64_t begin = 0; begin <= 60; ++begin) {
    for (std::int64_t end = begin; end <= 60; ++end) {
      const std::vector<Box> boxes = boxes_of_range(box, begin, end);
      ASSERT_LE(boxes.size(), 5U);
      std::int64_t position = begin;
      for (const Box& part : boxes) {
        const std::int64_t first = ((part.lo[0] - 2) * 4 + part.lo[1] - 5) * 5 + part.lo[2] - 1;
        const std::int64_t last = ((part.hi[0] - 3) * 4 + part.hi[1] - 6) * 5 + part.hi[2] - 2;
        ASSERT_EQ(first, position);
        ASSERT_EQ(last - first + 1, volume(part));
        position = last + 1;
      }
      ASSERT_EQ(position, end);
    }
  }
}

}  // namespace
}  // namespace retile::transfer
