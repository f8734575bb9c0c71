#include "bench/simgrid/platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>

#include "retile/base/list.h"

namespace retile::bench {
namespace {

namespace s4u = simgrid::s4u;

// Messages of a device that are under way at once. More change little, and take long to simulate.
constexpr std::size_t most_under_way = 16;

// Rates as they are: no windows of TCP, no factors for its headers, no acknowledgements.
std::unique_ptr<s4u::Engine> make_engine() {
  std::vector<std::string> words{"simgrid_replay", "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",
                                 "--cfg=network/crosstraffic:0", "--log=root.thresh:warning"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  auto count = static_cast<int>(arguments.size());
  return std::make_unique<s4u::Engine>(&count, arguments.data());
}

// Receivers in turn, from the one after the sender, so that not all begin with the same.
std::vector<SentBytes> in_turn(std::vector<SentBytes> sent) {
  const auto next = std::partition_point(sent.begin(), sent.end(),
                                         [](const SentBytes& message) { return message.to < message.from; });
  std::rotate(sent.begin(), next, sent.end());
  return sent;
}

// The ends of a device: for messages inside its host, and between hosts.
struct Ends {
  s4u::Host* inside = nullptr;
  s4u::Host* between = nullptr;
};

}  // namespace

struct Platform::Simulation {
  explicit Simulation(Machine given)
      : machine(std::move(given)), engine(make_engine()), host_of(machine.host_numbers()), ends(host_of.size()) {
    s4u::NetZone* zone = s4u::create_star_zone("machine");
    for (std::size_t device = 0; device < ends.size(); ++device) {
      const std::string name = fmt::format("device-{}", device);
      ends[device].inside = zone->create_host(name, 1e9);
      connect(*zone, *ends[device].inside, make_link(*zone, name + "-out", machine.inside_rate),
              make_link(*zone, name + "-in", machine.inside_rate));
    }
    for (std::size_t host = 0; machine.hosts.size() > 1 && host < machine.hosts.size(); ++host) {
      const std::string name = fmt::format("host-{}", host);
      const s4u::LinkInRoute out = make_link(*zone, name + "-out", machine.links[host].out);
      const s4u::LinkInRoute in = make_link(*zone, name + "-in", machine.links[host].in);
      for (const Device device : machine.hosts[host]) {
        s4u::Host*& end = at(ends, device).between;
        end = zone->create_host(fmt::format("device-{}-between", device), 1e9);
        connect(*zone, *end, out, in);
      }
    }
    zone->seal();
  }

  static s4u::LinkInRoute make_link(s4u::NetZone& zone, const std::string& name, double rate) {
    return s4u::LinkInRoute(zone.create_link(name, rate)->set_latency(0)->seal());
  }

  static void connect(s4u::NetZone& zone, s4u::Host& end, const s4u::LinkInRoute& out, const s4u::LinkInRoute& in) {
    end.seal();
    zone.add_route(end.get_netpoint(), nullptr, nullptr, nullptr, {out}, false);
    zone.add_route(nullptr, end.get_netpoint(), nullptr, nullptr, {in}, false);
  }

  bool is_inside(const SentBytes& message) const { return at(host_of, message.from) == at(host_of, message.to); }

  s4u::CommPtr start(const SentBytes& message) const {
    s4u::Host* Ends::*end = is_inside(message) ? &Ends::inside : &Ends::between;
    return s4u::Comm::sendto_async(at(ends, message.from).*end, at(ends, message.to).*end,
                                   static_cast<std::uint64_t>(message.bytes));
  }

  void send(const std::vector<SentBytes>& messages) const {
    std::vector<s4u::CommPtr> under_way;
    for (const SentBytes& message : in_turn(messages)) {
      if (under_way.size() == most_under_way) under_way.erase(under_way.begin() + s4u::Comm::wait_any(under_way));
      s4u::this_actor::sleep_for(is_inside(message) ? machine.inside_latency : machine.link_latency);
      under_way.push_back(start(message));
    }
    for (const s4u::CommPtr& message : under_way) message->wait();
  }

  void run(const Phase& phase) const {
    if (phase.begins_step) s4u::this_actor::sleep_for(machine.step);
    std::vector<s4u::ActorPtr> senders;
    for (auto begin = phase.messages.begin(); begin != phase.messages.end();) {
      const auto end = std::find_if(begin, phase.messages.end(),
                                    [&](const SentBytes& message) { return message.from != begin->from; });
      senders.push_back(s4u::Actor::create("sender", at(ends, begin->from).inside,
                                           [this, messages = std::vector(begin, end)] { send(messages); }));
      begin = end;
    }
    for (const s4u::ActorPtr& sender : senders) sender->join();
  }

  const Machine machine;
  std::unique_ptr<s4u::Engine> engine;
  const std::vector<std::int64_t> host_of;
  std::vector<Ends> ends;
};

Platform::Platform(const Machine& machine) : simulation_(std::make_unique<Simulation>(machine)) {}
Platform::~Platform() = default;

std::vector<double> Platform::simulate(const std::vector<std::vector<Phase>>& runs) {
  std::vector<double> seconds;
  s4u::Actor::create("conductor", simulation_->ends.front().inside, [&] {
    for (const std::vector<Phase>& run : runs) {
      const double start = s4u::Engine::get_clock();
      for (const Phase& phase : run) simulation_->run(phase);
      seconds.push_back(s4u::Engine::get_clock() - start);
    }
  });
  simulation_->engine->run();
  return seconds;
}

}  // namespace retile::bench
