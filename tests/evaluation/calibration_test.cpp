// Calibration of machines that are known: runs take what the machine says, and a little more or less.
#include "evaluation/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/threads/threads.h"
#include "retile/schedule/stage.h"

namespace retile::evaluation {
namespace {

// What a run does on a device or a host.
struct Work {
  double sent = 0;
  double received = 0;
  double inside_sent = 0;
  double inside_received = 0;
  double copied = 0;
  double copy_seconds = 0;
  int inside_messages = 0;
  int link_messages = 0;
  std::set<std::size_t> peers;  // hosts
};

struct SimulatedClock {
  double taken = 0;    // seconds, of all
  double running = 0;  // of runs
};

class SimulatedTrack final : public Track {
 public:
  SimulatedTrack(const Machine& machine, const Movement& movement, double noise, double put_aside, double crowded_share,
                 SimulatedClock& clock)
      : crowded_share_(crowded_share),
        clock_(clock),
        machine_(machine),
        devices_(machine.host_numbers().size()),
        hosts_(machine.hosts.size()),
        noise_(noise),
        put_aside_(put_aside) {
    const std::vector<std::int64_t> host_of = machine.host_numbers();
    for (const Stage& stage : make_schedule(movement)) {
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        const auto device = static_cast<Device>(i);
        stage.visit_received(device, [&](const Piece& piece) {
          const auto bytes = static_cast<double>(volume(piece.box));
          devices_[i].copied += bytes;
          const std::int64_t run = piece.box.hi.back() - piece.box.lo.back();
          const Box tile = stage.after().part_around(device, piece.box)->box;
          const bool is_spread = tile.hi.back() - tile.lo.back() > run;
          devices_[i].copy_seconds += bytes / (is_spread ? machine.spread_rate(run) : machine.copy_rate(run));
        });
        std::map<Device, double> sent;
        stage.visit_sent(device, [&](const Piece& piece) { sent[piece.to] += static_cast<double>(volume(piece.box)); });
        for (const auto& [to, bytes] : sent) {
          add(i, static_cast<std::size_t>(to), static_cast<std::size_t>(host_of[i]),
              static_cast<std::size_t>(host_of[static_cast<std::size_t>(to)]), bytes);
        }
      }
    }
  }

  double run() override {
    double longest = 0;
    int inside = 0;
    int across = 0;
    const auto busy = static_cast<std::size_t>(
        std::count_if(devices_.begin(), devices_.end(), [](const Work& device) { return device.copied > 0; }));
    const double speed = busy <= hosts_.size() ? machine_.alone : 1;
    for (const Work& device : devices_) {
      longest = std::max({longest, std::max(device.inside_sent, device.inside_received) / machine_.inside_rate / speed,
                          device.copy_seconds / speed});
      inside = std::max(inside, device.inside_messages);
      across = std::max(across, device.link_messages);
    }
    for (std::size_t host = 0; host < hosts_.size(); ++host) longest = std::max(longest, link_seconds(host));
    return passed(noisy(longest + inside * machine_.inside_latency + across * machine_.link_latency + machine_.step));
  }

  std::vector<double> run_on_hosts() override {
    std::vector<double> seconds;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      double longest = link_seconds(host);
      for (const std::size_t peer : hosts_[host].peers) longest = std::max(longest, link_seconds(peer));
      seconds.push_back(noisy(longest + machine_.link_latency + machine_.step));
    }
    passed(*std::max_element(seconds.begin(), seconds.end()));
    return seconds;
  }

 private:
  void add(std::size_t from, std::size_t to, std::size_t from_host, std::size_t to_host, double bytes) {
    if (from_host == to_host) {
      devices_[from].inside_sent += bytes;
      devices_[to].inside_received += bytes;
      ++devices_[from].inside_messages;
      return;
    }
    hosts_[from_host].sent += bytes;
    hosts_[to_host].received += bytes;
    hosts_[from_host].peers.insert(to_host);
    hosts_[to_host].peers.insert(from_host);
    ++devices_[from].link_messages;
  }

  double link_seconds(std::size_t host) const {
    if (machine_.links.empty()) return 0;
    const bool is_crowded =
        std::all_of(hosts_.begin(), hosts_.end(), [](const Work& all) { return all.peers.size() > 2; });
    return std::max(hosts_[host].sent / machine_.links[host].out, hosts_[host].received / machine_.links[host].in) /
           (is_crowded ? crowded_share_ : 1);
  }

  double passed(double seconds) {
    clock_.taken += seconds;
    clock_.running += seconds;
    return seconds;
  }

  double noisy(double seconds) {
    if (std::uniform_real_distribution(0.0, 1.0)(random_) < put_aside_) seconds *= 20;
    return seconds * std::uniform_real_distribution(1 - noise_, 1 + noise_)(random_);
  }

  const double crowded_share_;
  SimulatedClock& clock_;
  const Machine machine_;
  std::vector<Work> devices_;
  std::vector<Work> hosts_;
  double noise_;
  double put_aside_;
  std::mt19937 random_{7};
};

class SimulatedLaboratory final : public Laboratory {
 public:
  // Runs vary by the noise, and a share of them takes much longer.
  explicit SimulatedLaboratory(Machine machine, double noise = 0.01, double put_aside = 0)
      : machine_(std::move(machine)), noise_(noise), put_aside_(put_aside) {}

  std::string name() const override { return "simulated"; }
  std::vector<std::vector<Device>> hosts() const override { return machine_.hosts; }
  double elapsed() override { return clock_.taken; }
  std::unique_ptr<Track> prepare(const Movement& movement) override {
    clock_.taken += preparing_seconds;
    return std::make_unique<SimulatedTrack>(machine_, movement, noise_, put_aside_, crowded_share, clock_);
  }

  double preparing_seconds = 0;  // of each movement
  double crowded_share = 1;      // of their rates that links reach where every host sends to three others
  double running_seconds() const { return clock_.running; }

 private:
  SimulatedClock clock_;
  const Machine machine_;
  const double noise_;
  const double put_aside_;
};

Machine one_host() {
  Machine machine;
  machine.hosts = {{0, 1, 2, 3}};
  machine.inside_rate = 4e9;
  machine.inside_latency = 2e-6;
  machine.copy = {{4, 3e8}, {16, 5e8}, {64, 2e9}, {256, 4e9}, {1024, 8e9}, {8192, 1.6e10}, {65536, 1.6e10}};
  machine.step = 2e-5;
  return machine;
}

Machine four_hosts() {
  Machine machine = one_host();
  machine.hosts = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  machine.links = {{1.25e7, 1.25e7}, {2.5e7, 2.5e7}, {5e7, 5e7}, {6e7, 6e7}};
  machine.link_latency = 5e-5;
  return machine;
}

void expect_near(double value, double expected, double tolerance, const std::string& what) {
  EXPECT_NEAR(value / expected, 1, tolerance) << what << ": " << value << " instead of " << expected;
}

TEST(Calibration, finds_the_figures_of_a_host) {
  const Machine machine = one_host();
  SimulatedLaboratory laboratory(machine);
  std::vector<double> progress;
  const Calibration found = calibrate(laboratory, {4, 2}, [&](double share) { progress.push_back(share); });
  EXPECT_EQ(found.machine.hosts, machine.hosts);
  EXPECT_TRUE(found.machine.links.empty());
  expect_near(found.machine.step, machine.step, 0.05, "step");
  expect_near(found.machine.inside_latency, machine.inside_latency, 0.2, "latency inside");
  expect_near(found.machine.inside_rate, machine.inside_rate, 0.05, "rate inside");
  ASSERT_EQ(found.machine.copy.size(), machine.copy.size());
  expect_near(found.machine.copy[1].rate, machine.copy[1].rate, 0.05, "copies of 16 bytes");
  expect_near(found.machine.copy[2].rate, machine.copy[2].rate, 0.05, "copies of 64 bytes");
  EXPECT_LT(found.median_residual, 0.05);
  EXPECT_LT(found.spread, most_spread);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_LE(progress.back(), 1);
  EXPECT_GT(progress.back(), 0.9);
}

TEST(Calibration, finds_how_fast_rows_are_spread_and_a_device_is_alone) {
  Machine machine = one_host();
  machine.inside_rate = 1e12;
  machine.spread = {{4, 1e8}, {64, 4e8}, {256, 2e9}, {8192, 8e9}};
  machine.alone = 2.5;
  SimulatedLaboratory laboratory(machine);
  const Machine found = calibrate(laboratory, {4, 2}).machine;
  ASSERT_EQ(found.spread.size(), found.copy.size());
  expect_near(found.spread_rate(4), 1e8, 0.05, "4 bytes, spread");
  expect_near(found.spread_rate(64), 4e8, 0.05, "64 bytes, spread");
  expect_near(found.copy_rate(64), 2e9, 0.05, "64 bytes");
  expect_near(found.alone, 2.5, 0.1, "alone");
}

TEST(Calibration, warns_where_the_machine_is_noisy) {
  Calibration calibration;
  calibration.spread = 0.25;
  calibration.noisiest = "all to all";
  EXPECT_EQ(find_warning(calibration), std::nullopt);
  calibration.spread = 0.5;
  EXPECT_EQ(
      find_warning(calibration),
      "this machine is noisy: repetitions of the same run (all to all) differ by 50 %; calibrate when it is idle");
}

TEST(Calibration, is_not_misled_where_short_runs_are_put_aside) {
  Machine machine = one_host();
  machine.inside_rate = 4e12;
  machine.copy.clear();
  SimulatedLaboratory laboratory(machine, 0.01, 0.3);
  const Calibration found = calibrate(laboratory, {4, 2});
  expect_near(found.machine.step, machine.step, 0.1, "step");
  EXPECT_LT(found.spread, most_spread) << found.noisiest;
}

TEST(Calibration, sees_links_that_differ) {
  const Machine machine = four_hosts();
  SimulatedLaboratory laboratory(machine);
  const Calibration found = calibrate(laboratory, {8, 4});
  EXPECT_EQ(found.machine.hosts, machine.hosts);
  ASSERT_EQ(found.machine.links.size(), 4U);
  for (std::size_t host = 0; host < 4; ++host) {
    expect_near(found.machine.links[host].out, machine.links[host].out, 0.1, "out of " + std::to_string(host));
    expect_near(found.machine.links[host].in, machine.links[host].in, 0.1, "into " + std::to_string(host));
  }
  expect_near(found.machine.link_latency, machine.link_latency, 0.15, "latency of links");
  EXPECT_LT(found.median_residual, 0.05);
}

TEST(Calibration, takes_links_that_hardly_differ_for_equal) {
  Machine machine = four_hosts();
  machine.links = {{5e7, 4e7}, {5.2e7, 4e7}, {4.9e7, 4.1e7}, {5e7, 4e7}};
  SimulatedLaboratory laboratory(machine);
  const Machine found = calibrate(laboratory, {8, 4}).machine;
  for (const LinkRates& link : found.links) EXPECT_EQ(link, found.links[0]);
  expect_near(found.links[0].in, 4e7, 0.1, "in");
}

// Preparing takes most of the time: figures have the fewest runs that they can be taken from.
TEST(Calibration, takes_fewer_runs_where_time_runs_out) {
  SimulatedLaboratory idle(four_hosts());
  calibrate(idle, {8, 8});
  EXPECT_LT(idle.elapsed(), 8 * 1.25);
  SimulatedLaboratory busy(four_hosts());
  busy.preparing_seconds = 0.5;
  const Calibration found = calibrate(busy, {8, 8});
  EXPECT_LT(busy.running_seconds(), 0.75 * idle.running_seconds());
  expect_near(found.machine.links[0].out, 1.25e7, 0.1, "out");
}

// Where all hosts send at once, links reach seven tenths of their rates.
TEST(Calibration, takes_links_for_what_they_are_together) {
  const Machine machine = four_hosts();
  SimulatedLaboratory laboratory(machine);
  laboratory.crowded_share = 0.7;
  const Calibration found = calibrate(laboratory, {8, 4});
  for (std::size_t host = 0; host < 4; ++host) {
    expect_near(found.machine.links[host].out, 0.7 * machine.links[host].out, 0.1, "out of " + std::to_string(host));
  }
}

TEST(Calibration, of_hosts_with_one_device_each_has_figures_of_copies) {
  Machine machine = four_hosts();
  machine.hosts = {{0}, {1}};
  machine.links = {{5e7, 5e7}, {5e7, 5e7}};
  machine.inside_rate = 1e12;
  SimulatedLaboratory laboratory(machine);
  const Machine found = calibrate(laboratory, {2, 2}).machine;
  expect_near(found.copy[1].rate, machine.copy[1].rate, 0.05, "copies of 16 bytes");
  expect_near(found.links[1].out, 5e7, 0.1, "out");
  EXPECT_GT(found.inside_rate, 0);
}

TEST(Calibration, tells_how_noisy_a_machine_is) {
  SimulatedLaboratory laboratory(one_host(), 0.8);
  try {
    const Calibration found = calibrate(laboratory, {4, 2});
    EXPECT_GT(found.spread, most_spread);
    EXPECT_NE(found.noisiest, "");
  } catch (const RuntimeError& error) {
    EXPECT_NE(std::string(error.what()).find("makes no sense"), std::string::npos);
  }
}

// Every run takes as long as any other, whatever it moves.
class StuckClock final : public Laboratory {
 public:
  std::string name() const override { return "stuck"; }
  double elapsed() override { return 0; }
  std::vector<std::vector<Device>> hosts() const override { return {{0}, {1}}; }
  std::unique_ptr<Track> prepare(const Movement& /*movement*/) override { return std::make_unique<StuckTrack>(); }

 private:
  class StuckTrack final : public Track {
   public:
    double run() override { return 1e-3; }
    std::vector<double> run_on_hosts() override { return {1e-3, 1e-3}; }
  };
};

TEST(Calibration, refuses_what_makes_no_sense) {
  StuckClock laboratory;
  try {
    calibrate(laboratory, {2, 1});
    FAIL() << "nothing was refused";
  } catch (const RuntimeError& error) {
    EXPECT_NE(std::string(error.what()).find(" makes no sense: "), std::string::npos) << error.what();
  }
}

TEST(Calibration, of_threads_is_a_machine_that_can_be_read) {
  const std::unique_ptr<Engine> engine = make_threads_engine({2, no_memory_limit});
  const Machine machine = calibrate(*engine, {4, 0.2}).machine;
  EXPECT_EQ(parse_machine({"machine", to_json(machine)}).hosts, (std::vector<std::vector<Device>>{{0, 1, 2, 3}}));
}

}  // namespace
}  // namespace retile::evaluation
