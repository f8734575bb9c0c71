#include "evaluation/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/base/list.h"
#include "retile/costs/seconds.h"
#include "retile/plan/text.h"

namespace retile::evaluation {
namespace {

// --- The movements.

// A message of so many bytes from one device to another.
struct Message {
  Device from = 0;
  Device to = 0;
  std::int64_t bytes = 0;
};

// One exchange of these messages. The array is bytes, one message after the other.
Movement movement_of(std::int64_t devices, const std::vector<Message>& messages) {
  std::vector<std::vector<Part>> sources(static_cast<std::size_t>(devices));
  std::vector<std::vector<Part>> targets(sources.size());
  std::vector<std::int64_t> source_ends(sources.size());
  std::vector<std::int64_t> target_ends(sources.size());
  std::int64_t end = 0;
  for (const Message& message : messages) {
    Part part = packed_part({{end}, {end + message.bytes}});
    part.offset = at(source_ends, message.from);
    at(sources, message.from).push_back(part);
    part.offset = at(target_ends, message.to);
    at(targets, message.to).push_back(part);
    at(source_ends, message.from) += message.bytes;
    at(target_ends, message.to) += message.bytes;
    end += message.bytes;
  }
  const Shape shape{end};
  return {world_mesh(devices),
          Placement(shape, std::move(sources)),
          {{ExchangeStep{}, Placement(shape, std::move(targets))}}};
}

// What a transposition makes of rows.
enum class Transposed { to_columns, to_rows };

// A transposition in each group: its devices have rows of a matrix of bytes and get columns, or the other way round.
// Each receives, from every other, `rows` runs of `run` bytes, which lie apart in its tile where it gets rows. A group
// of one keeps a part of its columns, or gets rows that have room beside them.
Movement transposition(std::int64_t devices, const std::vector<std::vector<Device>>& groups, std::int64_t rows,
                       std::int64_t run, Transposed transposed = Transposed::to_columns) {
  std::vector<std::vector<Part>> sources(static_cast<std::size_t>(devices));
  std::vector<std::vector<Part>> targets(sources.size());
  Shape shape{static_cast<std::int64_t>(groups.size()), 0, 0};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto group = static_cast<std::int64_t>(i);
    const auto members = static_cast<std::int64_t>(groups[i].size());
    const std::int64_t columns = std::max<std::int64_t>(2, members) * run;
    for (std::int64_t member = 0; member < members; ++member) {
      const Device device = at(groups[i], member);
      at(sources, device) = {packed_part({{group, member * rows, 0}, {group + 1, (member + 1) * rows, columns}})};
      at(targets, device) = {packed_part({{group, 0, member * run}, {group + 1, members * rows, (member + 1) * run}})};
    }
    shape[1] = std::max(shape[1], members * rows);
    shape[2] = std::max(shape[2], columns);
  }
  if (transposed == Transposed::to_rows) std::swap(sources, targets);
  return {world_mesh(devices),
          Placement(shape, std::move(sources)),
          {{ExchangeStep{}, Placement(shape, std::move(targets))}}};
}

// --- Timing.

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

struct Sample {
  double seconds = 0;  // the median
  double spread = 0;   // see Calibration
};

Sample sample_of(const std::vector<double>& seconds) {
  const double median = quantile(seconds, 0.5);
  return {median, (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / median};
}

// A movement between memory of the engine.
class EngineTrack final : public Track {
 public:
  EngineTrack(Engine& engine, const Movement& movement, const std::vector<std::vector<Device>>& hosts)
      : engine_(engine), run_(engine.prepare(movement, 1)) {
    const std::vector<Device> devices = engine.devices(movement.source.device_count());
    for (const std::vector<Device>& host : hosts) {
      is_here_.push_back(std::any_of(host.begin(), host.end(), [&](Device device) {
        return std::binary_search(devices.begin(), devices.end(), device);
      }));
    }
    for (const Device device : devices) {
      sources_.push_back(make_tile(movement.source.size(device)));
      targets_.push_back(make_tile(movement.target().size(device)));
    }
  }

  double run() override { return run_->execute(sources_, targets_).seconds; }

  std::vector<double> run_on_hosts() override {
    (void)engine_.processes().least(0);  // waits until all are ready
    const auto start = std::chrono::steady_clock::now();
    run_->run(sources_, targets_);
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - start;
    std::vector<std::int64_t> slowest;
    for (const bool is_here : is_here_) slowest.push_back(is_here ? taken.count() : 0);
    engine_.processes().most(slowest);
    std::vector<double> seconds;
    for (const std::int64_t nanoseconds : slowest) seconds.push_back(static_cast<double>(nanoseconds) * 1e-9);
    return seconds;
  }

 private:
  std::byte* make_tile(std::int64_t bytes) {
    Buffer& tile = tiles_.emplace_back(engine_.allocate(static_cast<std::size_t>(bytes)));
    std::fill(tile.begin(), tile.end(), std::byte{1});  // touches pages before anything is timed
    return tile.data();
  }

  Engine& engine_;
  std::unique_ptr<PreparedRun> run_;
  std::vector<Buffer> tiles_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  std::vector<bool> is_here_;  // by host: whether this process has devices there
};

class EngineLaboratory final : public Laboratory {
 public:
  EngineLaboratory(Engine& engine, std::int64_t devices) : engine_(engine) {
    std::vector<std::int64_t> numbers = engine.hosts(devices);
    numbers.resize(static_cast<std::size_t>(devices));  // empty: one host
    std::map<std::int64_t, std::vector<Device>> hosts;
    for (Device device = 0; device < devices; ++device) hosts[at(numbers, device)].push_back(device);
    for (auto& [number, host] : hosts) hosts_.push_back(std::move(host));
    std::sort(hosts_.begin(), hosts_.end());  // by their first devices
  }

  std::string name() const override { return fmt::format("{} engine", engine_.name()); }
  std::vector<std::vector<Device>> hosts() const override { return hosts_; }
  double elapsed() override {
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - start_;
    std::vector<std::int64_t> longest{taken.count()};
    engine_.processes().most(longest);
    return 1e-9 * static_cast<double>(longest[0]);
  }
  std::unique_ptr<Track> prepare(const Movement& movement) override {
    return std::make_unique<EngineTrack>(engine_, movement, hosts_);
  }

 private:
  Engine& engine_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<std::vector<Device>> hosts_;
};

// --- From times to figures.

double require_rate(double bytes, double seconds, const std::string& what) {
  const double rate = bytes / seconds;
  if (std::isfinite(rate) && rate > 0) return rate;
  throw RuntimeError(
      fmt::format("{} makes no sense: {:.0f} bytes more take {:.3g} s; is the machine busy?", what, bytes, seconds));
}

// The line through the points, by least squares.
struct Line {
  double start = 0;
  double slope = 0;
};

Line line_through(const std::vector<std::pair<double, double>>& points) {
  double x = 0;
  double y = 0;
  for (const auto& [a, b] : points) x += a, y += b;
  x /= static_cast<double>(points.size());
  y /= static_cast<double>(points.size());
  double products = 0;
  double squares = 0;
  for (const auto& [a, b] : points) {
    products += (a - x) * (b - y);
    squares += (a - x) * (a - x);
  }
  const double slope = squares > 0 ? products / squares : 0;
  return {y - slope * x, slope};
}

// --- What is measured, in this order.

constexpr std::int64_t small_bytes = 8;
// Beyond the caches, as the arrays are that plans are made for.
constexpr std::int64_t tile_bytes = std::int64_t{16} << 20U;
constexpr std::int64_t run_lengths[] = {4, 16, 64, 256, 1024, 8192, 65536};
constexpr std::int64_t usual_run = 8192;
constexpr int least_repetitions = 3;           // however long they take
constexpr double repetition_seconds = 2e-3;    // of consecutive runs whose median is one repetition
constexpr double spare_share = 0.3;            // of the time, for unstable samples
constexpr double link_share = 2;               // of a figure's time, for the rate of a link
constexpr double least_stream_seconds = 5e-3;  // of a run that a link's rate is taken from, however little time is left
constexpr std::size_t most_pairings = 4;       // of hosts, each in both directions
constexpr std::size_t most_fans = 4;           // the most hosts that are timed with several others at once
constexpr double most_stream_bytes = 256e6;
// A run of three times the bytes takes at least this share of its time longer: two thirds if bytes are all that takes
// time. Where it does not, bytes are doubled.
constexpr double least_gain = 0.4;
constexpr double near = 0.15;  // rates that differ by less are taken to be equal

class Calibrator {
 public:
  Calibrator(Laboratory& laboratory, const CalibrationOptions& options, const std::function<void(double)>& progress)
      : laboratory_(laboratory), options_(options), progress_(progress), spare_(spare_share * options.seconds) {
    machine_.hosts = laboratory.hosts();
    for (const std::vector<Device>& host : machine_.hosts) most_members_ = std::max(most_members_, host.size());
    const std::size_t hosts = machine_.hosts.size();
    const std::size_t links =
        hosts > 1 ? 2 * std::min(hosts - 1, most_pairings) + 2 * std::min(hosts, most_fans) + 1 : 0;
    const std::size_t tables = most_members_ > 1 ? 2 : 1;
    const auto figures = static_cast<double>(3 + tables * std::size(run_lengths) + 3 + (hosts > 1 ? 3 : 0));
    all_shares_ = figures + link_share * static_cast<double>(links);
  }

  Calibration run() {
    measure_messages();
    measure_copies();
    if (most_members_ > 1) {
      measure_spreading();
      measure_alone();
    }
    if (machine_.hosts.size() > 1) measure_links();
    check_together();
    return finish();
  }

 private:
  // Sets the budget of the next figure: the planned one, or less where the figures before it took longer.
  void begin_figure() {
    const double left = std::max(0.0, options_.seconds - laboratory_.elapsed());
    const double shares_left = std::max(1.0, all_shares_ - done_);
    budget_ = std::min((1 - spare_share) * options_.seconds / all_shares_, left / shares_left);
    spare_ = std::min(spare_, left);
  }

  void advance(double share) {
    done_ += share;
    if (progress_) progress_(std::min(1.0, done_ / all_shares_));
  }

  // --- Samples.

  struct Observation {
    std::string name;
    Movement movement;  // of bytes
    Sample sample;
  };

  // A sample from repetitions that take about the budget together, and more where they are unstable and time is left.
  // Several short runs form one repetition: some of them take much longer if a process is descheduled for a moment.
  Sample sample(Track& track) {
    begin_figure();
    track.run();
    const double first = track.run();
    const auto runs = static_cast<int>(std::clamp(repetition_seconds / first, 1.0, 50.0));
    const auto count = static_cast<int>(std::clamp(budget_ / (first * runs), 5.0, 50.0));
    std::vector<double> seconds;
    const auto repeat = [&] {
      double taken = 0;
      for (int i = 0; i < count && (i < least_repetitions || taken < 2 * budget_); ++i) {
        std::vector<double> repetition;
        for (int j = 0; j < runs; ++j) repetition.push_back(track.run());
        seconds.push_back(quantile(repetition, 0.5));
        taken += seconds.back() * runs;
      }
      return taken;
    };
    repeat();
    // All processes have the same measurements, so they decide alike.
    while (sample_of(seconds).spread > most_spread && spare_ > 0) spare_ -= repeat();
    advance(1);
    return sample_of(seconds);
  }

  Sample observe(std::string name, Movement movement) {
    const std::unique_ptr<Track> track = laboratory_.prepare(movement);
    observations_.push_back({std::move(name), std::move(movement), sample(*track)});
    return observations_.back().sample;
  }

  // --- Steps and messages: every device sends a few bytes to several others.

  void measure_messages() {
    std::vector<std::pair<double, double>> inside;
    for (std::size_t count = 1; count <= 3 && count < most_members_; ++count)
      inside.push_back(time_messages(count, true));
    std::vector<std::pair<double, double>> across;
    const std::size_t others = static_cast<std::size_t>(options_.devices) - most_members_;
    for (std::size_t count = 1; count <= 3 && count <= others; ++count) across.push_back(time_messages(count, false));
    fit_messages(inside, across);
  }

  std::pair<double, double> time_messages(std::size_t count, bool is_inside) {
    std::vector<Message> messages;
    for (std::size_t host = 0; host < machine_.hosts.size(); ++host) {
      const std::vector<Device> others = is_inside ? machine_.hosts[host] : devices_beyond(host);
      const std::vector<Device>& own = machine_.hosts[host];
      for (std::size_t i = 0; i < own.size(); ++i) {
        for (std::size_t k = 1; k <= count && k < others.size() + (is_inside ? 0 : 1); ++k) {
          messages.push_back({own[i], others[(i + k) % others.size()], small_bytes});
        }
      }
    }
    const Sample sample = observe(
        fmt::format("{} {}", count_of(static_cast<std::int64_t>(count), "message"), is_inside ? "inside" : "across"),
        movement_of(options_.devices, messages));
    return {static_cast<double>(count), sample.seconds};
  }

  std::vector<Device> devices_beyond(std::size_t host) const {
    std::vector<Device> devices;
    for (std::size_t i = 1; i < machine_.hosts.size(); ++i) {
      const std::vector<Device>& other = machine_.hosts[(host + i) % machine_.hosts.size()];
      devices.insert(devices.end(), other.begin(), other.end());
    }
    return devices;
  }

  // Fits the seconds of a run to a step and a number of latencies. Figures below 0, within the noise, become 0.
  void fit_messages(const std::vector<std::pair<double, double>>& inside,
                    const std::vector<std::pair<double, double>>& across) {
    const Line line = line_through(inside.empty() ? across : inside);
    machine_.step = std::max(0.0, line.start);
    machine_.inside_latency = inside.empty() ? 0 : std::max(0.0, line.slope);
    double latency = 0;
    for (const auto& [count, seconds] : across) latency += std::max(0.0, seconds - machine_.step) / count;
    if (!across.empty()) machine_.link_latency = latency / static_cast<double>(across.size());
  }

  // --- Inside hosts: devices of a host transpose a matrix, in runs of several lengths.

  std::int64_t rows_of(std::int64_t run) const {
    return std::max<std::int64_t>(1, tile_bytes / (run * static_cast<std::int64_t>(most_members_)));
  }

  // The bytes that a device of the largest host writes in a second.
  double copying_rate(const std::string& name, std::int64_t run, Transposed transposed) {
    const auto members = static_cast<std::int64_t>(most_members_);
    const Sample sample = observe(name, transposition(options_.devices, machine_.hosts, rows_of(run), run, transposed));
    // The bytes wait only for the first message.
    const double seconds = sample.seconds - machine_.step - (members > 1 ? machine_.inside_latency : 0);
    return require_rate(static_cast<double>(members * rows_of(run) * run), seconds, "copying in " + name);
  }

  void measure_copies() {
    const auto members = static_cast<double>(most_members_);
    for (const std::int64_t run : run_lengths) {
      const double rate = copying_rate(fmt::format("runs of {} bytes", run), run, Transposed::to_columns);
      machine_.copy.push_back({run, rate});
      // All but its own part is received.
      machine_.inside_rate = std::max(machine_.inside_rate, members > 1 ? rate * (members - 1) / members : rate);
    }
  }

  void measure_spreading() {
    for (const std::int64_t run : run_lengths) {
      const double rate = copying_rate(fmt::format("runs of {} bytes that lie apart", run), run, Transposed::to_rows);
      machine_.spread.push_back({run, rate});
    }
  }

  // One device of each host copies a part of its tile, and the others have nothing to do.
  void measure_alone() {
    std::vector<std::vector<Device>> first;
    for (const std::vector<Device>& host : machine_.hosts) first.push_back({host[0]});
    const std::int64_t rows = tile_bytes / usual_run;
    const Sample sample = observe("a device alone", transposition(options_.devices, first, rows, usual_run));
    const double at_rate = static_cast<double>(rows * usual_run) / machine_.copy_rate(usual_run);
    const double seconds = std::max(sample.seconds - machine_.step, at_rate / static_cast<double>(most_members_));
    machine_.alone = std::max(1.0, at_rate / seconds);
  }

  // --- Links.

  // Adds messages that divide so many bytes from one host to another among their devices.
  void add_stream(std::size_t from, std::size_t to, double bytes, std::vector<Message>& messages) const {
    const std::vector<Device>& senders = machine_.hosts[from];
    const std::vector<Device>& receivers = machine_.hosts[to];
    const std::size_t count = std::max(senders.size(), receivers.size());
    const auto share = static_cast<std::int64_t>(std::max(1.0, bytes / static_cast<double>(count)));
    for (std::size_t i = 0; i < count; ++i) {
      messages.push_back({senders[i % senders.size()], receivers[i % receivers.size()], share});
    }
  }

  // The seconds of each host in a run of these messages: the least of a few repetitions. Nothing makes a link faster
  // than it is, and much makes a run slower. The first run connects processes, and is not counted.
  std::vector<double> host_seconds(const std::vector<Message>& messages, int repetitions) {
    const std::unique_ptr<Track> track = laboratory_.prepare(movement_of(options_.devices, messages));
    std::vector<double> least = track->run_on_hosts();
    for (int i = 0; i < repetitions; ++i) {
      const std::vector<double> taken = track->run_on_hosts();
      for (std::size_t host = 0; host < least.size(); ++host) {
        least[host] = i == 0 ? taken[host] : std::min(least[host], taken[host]);
      }
    }
    return least;
  }

  // A stream of bytes between two hosts.
  struct Stream {
    std::size_t from = 0;
    std::size_t to = 0;
    double share = 1;  // of the bytes
  };

  // Streams that run at once and are timed together; the rate is for the link of `host`. stream_rates() returns the
  // bytes a second of each group. It raises sizes until runs take a part of the budget. A rate is that of the
  // additional bytes of a longer run, so that neither the time before the first byte counts nor what links let pass
  // before they are limited.
  struct StreamGroup {
    std::size_t host = 0;
    std::vector<Stream> streams;
  };

  // A sender may be done before what it sent has left its link: receivers tell when all is there.
  static double seconds_of(const StreamGroup& group, const std::vector<double>& seconds) {
    double longest = 0;
    for (const Stream& stream : group.streams) longest = std::max(longest, seconds[stream.to]);
    return longest;
  }

  std::vector<double> stream_rates(const std::vector<StreamGroup>& groups) {
    begin_figure();
    const double wanted = std::max(link_share * budget_ / 9, least_stream_seconds);
    std::vector<double> bytes(groups.size(), 1 << 18U);
    const auto run = [&](double factor, int repetitions) {
      std::vector<Message> messages;
      for (std::size_t i = 0; i < groups.size(); ++i) {
        for (const Stream& stream : groups[i].streams) {
          add_stream(stream.from, stream.to, stream.share * bytes[i] * factor, messages);
        }
      }
      return host_seconds(messages, repetitions);
    };
    for (int attempt = 0; attempt < 5; ++attempt) {
      const std::vector<double> seconds = run(1, 1);
      bool is_enough = true;
      for (std::size_t i = 0; i < groups.size(); ++i) {
        const double factor = std::clamp(wanted / seconds_of(groups[i], seconds), 0.25, 16.0);
        is_enough = is_enough && factor < 1.5;
        if (factor > 1) bytes[i] = std::min(bytes[i] * factor, most_stream_bytes);
      }
      if (is_enough) break;
    }
    std::vector<double> all = run(1, 5);
    std::vector<double> third = run(1.0 / 3, 5);
    for (int attempt = 0; attempt < 3; ++attempt) {
      bool is_clear = true;
      for (std::size_t i = 0; i < groups.size(); ++i) {
        const double longer = seconds_of(groups[i], all);
        if (longer - seconds_of(groups[i], third) > least_gain * longer) continue;
        is_clear = false;
        bytes[i] = std::min(2 * bytes[i], most_stream_bytes);
      }
      if (is_clear) break;
      all = run(1, 5);
      third = run(1.0 / 3, 5);
    }
    advance(link_share);
    std::vector<double> rates;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      rates.push_back(require_rate(bytes[i] * 2 / 3, seconds_of(groups[i], all) - seconds_of(groups[i], third),
                                   fmt::format("the link of host {}", groups[i].host)));
    }
    return rates;
  }

  void measure_links() {
    machine_.links.resize(machine_.hosts.size());
    measure_pairs();
    measure_fans();
    for (double LinkRates::*side : {&LinkRates::out, &LinkRates::in}) even_out(side);
    measure_all_links();
  }

  // Measures hosts in pairs, one sending to the other: the rate is that of the slower of two links. Every host meets
  // several others, as in a tournament.
  void measure_pairs() {
    const std::size_t hosts = machine_.hosts.size();
    const std::size_t places = hosts + hosts % 2;  // one may be empty
    std::vector<std::vector<double>> out(hosts);
    std::vector<std::vector<double>> in(hosts);
    for (std::size_t round = 0; round < std::min(places - 1, most_pairings); ++round) {
      std::vector<StreamGroup> groups;
      std::vector<StreamGroup> back;
      for (std::size_t i = 0; i < places / 2; ++i) {
        const auto player = [&](std::size_t place) { return place == 0 ? 0 : 1 + (place - 1 + round) % (places - 1); };
        const std::size_t a = player(i);
        const std::size_t b = player(places - 1 - i);
        if (a >= hosts || b >= hosts) continue;
        groups.push_back({b, {{a, b}}});
        back.push_back({a, {{b, a}}});
      }
      for (const std::vector<StreamGroup>& direction : {groups, back}) {
        const std::vector<double> rates = stream_rates(direction);
        for (std::size_t i = 0; i < rates.size(); ++i) {
          const Stream& stream = direction[i].streams[0];
          out[stream.from].push_back(rates[i]);
          in[stream.to].push_back(rates[i]);
        }
      }
    }
    for (std::size_t host = 0; host < hosts; ++host) machine_.links[host] = {highest(out[host]), highest(in[host])};
  }

  // The mean of the rates near the highest one, which alone may be an accident.
  static double highest(const std::vector<double>& rates) {
    const double most = *std::max_element(rates.begin(), rates.end());
    double sum = 0;
    double count = 0;
    for (const double rate : rates) {
      if (rate < (1 - near) * most) continue;
      sum += rate;
      ++count;
    }
    return sum / count;
  }

  // Measures links that were as fast as the fastest link at the other end, and may be faster. Such a link is used with
  // several others at once, each at its known rate.
  void measure_fans() {
    const std::vector<LinkRates> known = machine_.links;
    const std::size_t hosts = known.size();
    if (hosts < 3) return;
    for (std::size_t host = 0, fans = 0; host < hosts && fans < most_fans; ++host) {
      double most_in = 0;
      double most_out = 0;
      double all_in = 0;
      double all_out = 0;
      for (std::size_t other = 0; other < hosts; ++other) {
        if (other == host) continue;
        most_in = std::max(most_in, known[other].in);
        most_out = std::max(most_out, known[other].out);
        all_in += known[other].in;
        all_out += known[other].out;
      }
      if (known[host].out < (1 - near) * most_in && known[host].in < (1 - near) * most_out) continue;
      ++fans;
      StreamGroup out{host, {}};
      StreamGroup in{host, {}};
      for (std::size_t other = 0; other < hosts; ++other) {
        if (other == host) continue;
        out.streams.push_back({host, other, known[other].in / all_in});
        in.streams.push_back({other, host, known[other].out / all_out});
      }
      machine_.links[host].out = std::max(machine_.links[host].out, stream_rates({out})[0]);
      machine_.links[host].in = std::max(machine_.links[host].in, stream_rates({in})[0]);
    }
  }

  // Uses all links at once, out and in, as most plans do: they may be slower together than each by itself. Every host
  // sends to every other in proportion to both links.
  void measure_all_links() {
    const std::size_t hosts = machine_.hosts.size();
    std::vector<LinkRates> loads(hosts);  // shares of all bytes
    StreamGroup all;
    double sum = 0;
    for (const LinkRates& from : machine_.links) {
      for (const LinkRates& to : machine_.links) sum += &from == &to ? 0 : from.out * to.in;
    }
    for (std::size_t from = 0; from < hosts; ++from) {
      for (std::size_t to = 0; to < hosts; ++to) {
        if (from == to) continue;
        const double share = machine_.links[from].out * machine_.links[to].in / sum;
        all.streams.push_back({from, to, share});
        loads[from].out += share;
        loads[to].in += share;
      }
    }
    double longest = 0;  // seconds for each byte of all
    for (std::size_t host = 0; host < hosts; ++host) {
      const double seconds =
          std::max(loads[host].out / machine_.links[host].out, loads[host].in / machine_.links[host].in);
      if (seconds > longest) all.host = host;
      longest = std::max(longest, seconds);
    }
    const double share_reached = std::min(1.0, stream_rates({all})[0] * longest);
    for (LinkRates& link : machine_.links) link = {link.out * share_reached, link.in * share_reached};
  }

  // Makes rates equal that hardly differ.
  void even_out(double LinkRates::*side) {
    std::vector<double> rates;
    for (const LinkRates& link : machine_.links) rates.push_back(link.*side);
    const double median = quantile(rates, 0.5);
    const auto is_near = [&](double rate) { return std::abs(rate / median - 1) < near; };
    if (!std::all_of(rates.begin(), rates.end(), is_near)) return;
    for (LinkRates& link : machine_.links) link.*side = median;
  }

  // --- The fit of the model: all devices transpose a matrix, from which no figure was taken.

  void check_together() {
    begin_figure();
    std::vector<Device> all = numbers_below<Device>(static_cast<std::size_t>(options_.devices));
    const std::int64_t count = options_.devices;
    double slowest = machine_.inside_rate;
    for (const LinkRates& link : machine_.links) slowest = std::min({slowest, link.out, link.in});
    const double most = budget_ / 8 * slowest / static_cast<double>(count);  // bytes per device
    const std::int64_t run = 1024;
    const auto rows =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(most) / (run * count), 1, tile_bytes / (run * count) + 1);
    observe("all to all", transposition(count, {all}, rows, run));
  }

  Calibration finish() {
    Calibration calibration;
    std::vector<double> residuals;
    const SecondsModel model(machine_);
    for (const Observation& observation : observations_) {
      const std::vector<std::int64_t> picoseconds = model.costs(observation.movement, 1);
      const double predicted = 1e-12 * static_cast<double>(picoseconds.front());
      residuals.push_back(std::abs(predicted / observation.sample.seconds - 1));
      if (observation.sample.spread <= calibration.spread) continue;
      calibration.spread = observation.sample.spread;
      calibration.noisiest = observation.name;
    }
    calibration.median_residual = quantile(residuals, 0.5);
    calibration.largest_residual = quantile(residuals, 1);
    machine_.name = fmt::format("{} on {}", count_of(options_.devices, "device"),
                                count_of(static_cast<std::int64_t>(machine_.hosts.size()), "host"));
    const std::time_t now = std::time(nullptr);
    char date[16] = "";
    std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
    machine_.source = fmt::format(
        "measured by retile calibrate on {}, {}: messages of {} bytes, transpositions of {} per device, streams "
        "between hosts; residuals {:.0f} % (median), {:.0f} % (largest); repetitions within {:.0f} %",
        date, laboratory_.name(), small_bytes, tile_bytes, 100 * calibration.median_residual,
        100 * calibration.largest_residual, 100 * calibration.spread);
    calibration.machine = machine_;
    return calibration;
  }

  Laboratory& laboratory_;
  const CalibrationOptions options_;
  const std::function<void(double)>& progress_;
  Machine machine_;
  std::size_t most_members_ = 0;  // devices of the largest host
  double budget_ = 0;             // seconds for one figure
  double spare_;                  // seconds that are left over
  double all_shares_ = 0;         // of the time, of all figures
  double done_ = 0;               // of these
  std::vector<Observation> observations_;
};

}  // namespace

std::optional<std::string> find_warning(const Calibration& calibration) {
  if (calibration.spread <= most_spread) return std::nullopt;
  return fmt::format(
      "this machine is noisy: repetitions of the same run ({}) differ by {:.0f} %; calibrate when it is "
      "idle",
      calibration.noisiest, 100 * calibration.spread);
}

Calibration calibrate(Laboratory& laboratory, const CalibrationOptions& options,
                      const std::function<void(double)>& progress) {
  ensure(options.devices >= 2, "calibration takes two devices");
  return Calibrator(laboratory, options, progress).run();
}

Calibration calibrate(Engine& engine, const CalibrationOptions& options, const std::function<void(double)>& progress) {
  EngineLaboratory laboratory(engine, options.devices);
  return calibrate(laboratory, options, progress);
}

}  // namespace retile::evaluation
