#include "retile/costs/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "retile/base/arithmetic.h"
#include "retile/base/list.h"
#include "retile/planner/problem.h"
#include "retile/schedule/stream_plan.h"

namespace retile {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t bytes_of_element = 256;

// So many devices on hosts, and the map of them.
struct Machines {
  std::vector<std::vector<Device>> hosts;
  std::vector<std::int64_t> host_of;

  explicit Machines(std::vector<std::vector<Device>> of_hosts) : hosts(std::move(of_hosts)) {
    std::size_t count = 0;
    for (const auto& devices : hosts) count += devices.size();
    host_of.resize(count);
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      for (const Device device : hosts[host]) at(host_of, device) = static_cast<std::int64_t>(host);
    }
  }
  HostMap map(SenderWeights weights = {}) const { return {hosts, host_of, std::move(weights)}; }
};

struct Ends {
  Placement before;
  Placement after;
};

Ends ends_of(const char* mesh, const char* source, const char* target) {
  const Problem problem = parse_problem({"mesh", mesh}, {"source", source}, {"target", target});
  const std::int64_t devices = problem.device_count();
  return {problem.source().placement(devices), problem.target().placement(devices)};
}

TEST(Traffic, of_rows_to_columns_on_two_hosts) {
  // Each of 4 devices holds 2 of 8 rows and wants 2 of 8 columns: 16 elements, of which it has 4.
  const Ends ends = ends_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]");
  const Machines machines({{0, 1}, {2, 3}});
  const StageTraffic traffic = find_traffic(ends.before, ends.after, machines.map());
  // A host wants 4 columns: 32 elements, and holds 4 rows, half of them.
  EXPECT_THAT(traffic.hosts, ElementsAre(HostTraffic{16, 16, 16}, HostTraffic{16, 16, 16}));
  for (const DeviceTraffic& device : traffic.devices) {
    EXPECT_EQ(device.written, 16);
    EXPECT_EQ(device.received, 4);
    EXPECT_EQ(device.sent, 4);
    EXPECT_EQ(device.entered, 8);
    EXPECT_EQ(device.passed_received, 0);
    EXPECT_EQ(device.messages, 1);
    EXPECT_EQ(device.crossing_messages, 2);
  }
}

TEST(Traffic, of_a_gather_crosses_once_and_is_passed_on) {
  const Ends ends = ends_of("x=4", "[2{x}8]", "[8]");
  const Machines machines({{0, 1}, {2, 3}});
  const StageTraffic traffic = find_traffic(ends.before, ends.after, machines.map());
  EXPECT_THAT(traffic.hosts, ElementsAre(HostTraffic{4, 4, 4}, HostTraffic{4, 4, 4}));
  EXPECT_EQ(traffic.devices[0].received, 2);  // from device 1
  EXPECT_EQ(traffic.devices[0].entered, 2);   // half of what the other host holds
  EXPECT_EQ(traffic.devices[0].passed_received, 2);
  EXPECT_EQ(traffic.devices[0].passed_sent, 2);
  EXPECT_EQ(traffic.devices[0].passed_messages, 1);
}

TEST(Traffic, goes_to_holders_on_the_own_host_first) {
  // Both hosts hold all of it.
  const Ends ends = ends_of("x=2,y=2", "[2{y}4]", "[2{x}4]");
  const Machines machines({{0, 1}, {2, 3}});
  const StageTraffic traffic = find_traffic(ends.before, ends.after, machines.map());
  EXPECT_THAT(traffic.hosts, ElementsAre(HostTraffic{}, HostTraffic{}));
  EXPECT_EQ(traffic.devices[1].received, 2);
  EXPECT_EQ(traffic.devices[0].received, 0);
}

TEST(Traffic, of_holders_that_share_receivers_is_two_messages_for_some) {
  // Three devices hold each half, and two others want some of it: the second sends the ends of both parts.
  const Ends ends = ends_of("x=3,y=2", "[3{y}6]", "[2{x}6]");
  const Machines machines({{0}, {1}, {2}, {3}, {4}, {5}});
  const StageTraffic traffic = find_traffic(ends.before, ends.after, machines.map());
  EXPECT_EQ(traffic.devices[0].crossing_messages, 2);
}

TEST(Traffic, on_one_host_is_all_inside) {
  const Ends ends = ends_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]");
  const Machines machines({{0, 1, 2, 3}});
  const StageTraffic traffic = find_traffic(ends.before, ends.after, machines.map());
  EXPECT_THAT(traffic.hosts, ElementsAre(HostTraffic{}));
  for (const DeviceTraffic& device : traffic.devices) {
    EXPECT_EQ(device.received, 12);
    EXPECT_EQ(device.sent, 12);
    EXPECT_EQ(device.messages, 3);
  }
}

TEST(Traffic, of_tiles_that_overlap_says_so) {
  const Ends ends = ends_of("x=2", "[4{x}8]", "[4{x}8 halo 1]");
  const Machines machines({{0}, {1}});
  const StageTraffic traffic = find_traffic(ends.before, ends.after, machines.map());
  EXPECT_FALSE(traffic.are_tiles_apart);
  EXPECT_THAT(traffic.hosts, ElementsAre(HostTraffic{1, 1, 1}, HostTraffic{1, 1, 1}));
}

// The hosts of machines with so many devices, in order and interleaved, of equal sizes and not.
std::vector<Machines> machines_of(std::int64_t devices, std::mt19937& random) {
  std::vector<Device> order = numbers_below<Device>(static_cast<std::size_t>(devices));
  std::vector<Machines> all;
  all.push_back(Machines({order}));
  for (const bool is_shuffled : {false, true}) {
    if (is_shuffled) std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{4}}) {
      std::vector<std::vector<Device>> hosts;
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (i % size == 0) hosts.emplace_back();
        hosts.back().push_back(order[i]);
      }
      all.push_back(Machines(std::move(hosts)));
    }
  }
  return all;
}

TEST(Traffic, of_grids_is_what_their_cells_say) {
  std::mt19937 random(7);
  const std::vector<Ends> all{
      ends_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"),
      ends_of("x=4,y=2", "[2{x}8, 4{y}8]", "[4{y}8, 8]"),
      ends_of("x=4,y=2", "[1{x,y}8, 8]", "[2{x}8, 4{y}8]"),
      ends_of("x=2,y=2,z=2", "[8, 4{z}8]", "[1{x,y,z}8, 8]"),
      ends_of("x=6", "[2{x}12]", "[12]"),
      ends_of("x=2,y=3", "[6{x}12, 6]", "[4{y}12, 3{x}6]"),
      ends_of("x=3,y=2", "[4{x}10, 6]", "[10, 3{y}6]"),  // tiles that are clipped
      ends_of("x=8", "[2{x}16]", "[2{x}16]"),
  };
  for (const Ends& ends : all) {
    for (const Machines& machines : machines_of(ends.before.device_count(), random)) {
      const StageTraffic fast = find_traffic(ends.before, ends.after, machines.map());
      const StageTraffic cells = find_cell_traffic(ends.before, ends.after, machines.map());
      ASSERT_EQ(fast.hosts.size(), cells.hosts.size());
      for (std::size_t i = 0; i < fast.hosts.size(); ++i) {
        EXPECT_NEAR(fast.hosts[i].in, cells.hosts[i].in, 1e-9);
        EXPECT_NEAR(fast.hosts[i].out, cells.hosts[i].out, 1e-9);
        EXPECT_NEAR(fast.hosts[i].only, cells.hosts[i].only, 1e-9);
      }
      for (std::size_t i = 0; i < fast.devices.size(); ++i) {
        EXPECT_NEAR(fast.devices[i].written, cells.devices[i].written, 1e-9);
        EXPECT_NEAR(fast.devices[i].received, cells.devices[i].received, 1e-9);
        EXPECT_NEAR(fast.devices[i].sent, cells.devices[i].sent, 1e-9);
        EXPECT_NEAR(fast.devices[i].entered, cells.devices[i].entered, 1e-9);
        EXPECT_NEAR(fast.devices[i].passed_received, cells.devices[i].passed_received, 1e-9);
        EXPECT_NEAR(fast.devices[i].passed_sent, cells.devices[i].passed_sent, 1e-9);
      }
    }
  }
}

// Elements that a plan of streams moves, as traffic.
StageTraffic traffic_of_streams(const StreamPlan& plan, const Machines& machines) {
  StageTraffic traffic;
  traffic.hosts.resize(machines.hosts.size());
  traffic.devices.resize(machines.host_of.size());
  for (const StreamPlan::Stream& stream : plan.streams()) {
    const auto elements = static_cast<double>(stream.bytes) / bytes_of_element;
    const std::int64_t from = at(machines.host_of, stream.from);
    const std::int64_t to = at(machines.host_of, stream.to);
    DeviceTraffic& receiver = at(traffic.devices, stream.to);
    if (from != to) {
      at(traffic.hosts, from).out += elements;
      at(traffic.hosts, to).in += elements;
      receiver.entered += elements;
    } else if (stream.phase == StreamPhase::passed_on) {
      receiver.passed_received += elements;
    } else {
      receiver.received += elements;
      at(traffic.devices, stream.from).sent += elements;
    }
  }
  return traffic;
}

double busiest_link(const StageTraffic& traffic, const SenderWeights& weights) {
  double most = 0;
  for (std::size_t host = 0; host < traffic.hosts.size(); ++host) {
    most = std::max(most, traffic.hosts[host].out / static_cast<double>(weights[host]));
  }
  return most;
}

// Cuts between senders are moved to where rows begin.
constexpr double cut_tolerance = 0.01;

TEST(Traffic, is_what_engines_move) {
  std::mt19937 random(8);
  const std::vector<Ends> all{
      ends_of("x=4", "[128{x}512, 512]", "[512, 128{x}512]"),
      ends_of("x=4,y=2", "[128{x}512, 256{y}512]", "[256{y}512, 512]"),
      ends_of("x=2,y=2,z=2", "[512, 128{z}256]", "[64{x,y,z}512, 256]"),
      ends_of("x=2,y=2,z=2", "[256{x}512, 256]", "[512, 128{y}256]"),
      ends_of("x=2,y=3", "[360{x}720, 60]", "[240{y}720, 30{x}60]"),
      ends_of("x=2,y=3", "[720, 60]", "[240{y}720, 60]"),
      ends_of("x=3,y=2", "[240{x}720, 60]", "[720, 30{y}60]"),
      ends_of("x=3,y=2", "[234{x}700, 62]", "[700, 31{y}62]"),  // tiles that are clipped
      ends_of("x=4,y=2", "[128{x}512, 512]", "[128{x}512 halo 8, 512]"),
  };
  for (const Ends& ends : all) {
    for (const Machines& machines : machines_of(ends.before.device_count(), random)) {
      if (machines.hosts.size() == 1) continue;
      std::vector<double> rates;
      for (std::size_t i = 0; i < machines.hosts.size(); ++i)
        rates.push_back(1e8 * static_cast<double>(1 + random() % 8));
      MessageForm form;
      for (const std::int64_t host : machines.host_of) form.link_rates.push_back(at(rates, host));
      const SenderWeights weights = sender_weights(rates);
      const StreamPlan plan({{ends.before, ends.after, bytes_of_element, {0}}}, ends.before.device_count(),
                            no_memory_limit, machines.host_of, TileUse::kept, form);
      const StageTraffic moved = traffic_of_streams(plan, machines);
      const StageTraffic found = find_traffic(ends.before, ends.after, machines.map(weights));
      const double some = cut_tolerance * static_cast<double>(product(ends.before.global_shape()));
      for (std::size_t host = 0; host < found.hosts.size(); ++host) {
        EXPECT_NEAR(found.hosts[host].in, moved.hosts[host].in, 1e-9);
      }
      const SenderWeights compared = weights.empty() ? SenderWeights(rates.size(), 1) : weights;
      EXPECT_NEAR(busiest_link(found, compared), busiest_link(moved, compared),
                  cut_tolerance * busiest_link(moved, compared));
      for (std::size_t i = 0; i < found.devices.size(); ++i) {
        EXPECT_NEAR(found.devices[i].received, moved.devices[i].received, 1e-9);
        EXPECT_NEAR(found.devices[i].entered, moved.devices[i].entered, some);
        EXPECT_NEAR(found.devices[i].passed_received, moved.devices[i].passed_received, some);
      }
    }
  }
}

}  // namespace
}  // namespace retile
