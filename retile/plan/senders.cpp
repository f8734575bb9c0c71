#include "retile/plan/senders.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile {
namespace {

// The largest weight: cuts between senders are as exact as this.
constexpr double most_weight = 1024;

// What is sent by each unit of weight.
class Weights {
 public:
  explicit Weights(const SenderWeights& weights) : weights_(weights) {}

  std::int64_t of(std::size_t device) const { return weights_.empty() ? 1 : weights_[device]; }
  std::int64_t of(const std::vector<Device>& devices) const {
    std::int64_t sum = 0;
    for (const Device device : devices) sum += of(static_cast<std::size_t>(device));
    return sum;
  }
  // The most that a device sends where every unit of weight sends at most `limit`.
  std::int64_t limit_of(std::size_t device, std::int64_t limit) const {
    return checked_multiply(limit, of(device)).value_or(INT64_MAX);
  }

 private:
  const SenderWeights& weights_;
};

// A flow of bytes from demands to their holders, each of which takes at most a limit, times its weight. Dinic's
// algorithm; raising the limit keeps the flow found so far.
class SenderFlow {
 public:
  SenderFlow(const std::vector<SenderDemand>& demands, std::int64_t device_count, const SenderWeights& weights)
      : demands_(demands),
        weights_(weights),
        edges_at_(static_cast<std::size_t>(device_count)),
        sent_(edges_at_.size()) {
    for (std::size_t i = 0; i < demands.size(); ++i) {
      first_edge_.push_back(edges_.size());
      for (const Device device : demands[i].holders) {
        edges_at_[index(device)].push_back(edges_.size());
        edges_.push_back({i, index(device), 0});
      }
      left_.push_back(demands[i].amount);
    }
    first_edge_.push_back(edges_.size());
  }

  // Starts with shares by weight, as far as the limit allows. What division leaves over goes to the first holders.
  void start(std::int64_t limit) {
    for (std::size_t i = 0; i < demands_.size(); ++i) {
      const std::int64_t all = weights_.of(demands_[i].holders);
      const std::int64_t whole = demands_[i].amount / all;
      const std::int64_t rest = demands_[i].amount % all;
      std::int64_t left = rest;
      for (const Device device : demands_[i].holders) left -= rest * weights_.of(index(device)) / all;
      for (std::size_t edge = first_edge_[i]; edge < first_edge_[i + 1]; ++edge, --left) {
        const std::int64_t weight = weights_.of(edges_[edge].device);
        push(edge, std::min(whole * weight + rest * weight / all + (left > 0 ? 1 : 0), room_at(edge, limit)));
      }
    }
  }

  // Whether all bytes can be sent with no device sending more than the limit.
  bool fill(std::int64_t limit) {
    while (find_levels(limit)) {
      next_edge_.assign(demands_.size(), 0);
      next_back_.assign(sent_.size(), 0);
      for (std::size_t i = 0; i < demands_.size(); ++i) {
        while (left_[i] > 0 && send_on(i, left_[i], limit) > 0) {
        }
      }
    }
    return std::all_of(left_.begin(), left_.end(), [](std::int64_t bytes) { return bytes == 0; });
  }

  // A lower bound after fill() has failed: what is held only by the devices that it could not relieve, divided evenly.
  // Above the limit.
  std::int64_t least_limit() const {
    std::int64_t bytes = 0;
    std::int64_t devices = 0;
    for (std::size_t i = 0; i < demands_.size(); ++i) bytes += demand_level_[i] >= 0 ? demands_[i].amount : 0;
    for (std::size_t i = 0; i < sent_.size(); ++i) devices += device_level_[i] >= 0 ? weights_.of(i) : 0;
    return divide_up(bytes, devices);
  }

  std::vector<std::vector<std::int64_t>> shares() const {
    std::vector<std::vector<std::int64_t>> shares(demands_.size());
    for (const Edge& edge : edges_) shares[edge.demand].push_back(edge.bytes);
    return shares;
  }

 private:
  struct Edge {
    std::size_t demand;
    std::size_t device;
    std::int64_t bytes;
  };

  static std::size_t index(Device device) { return static_cast<std::size_t>(device); }

  // What the edge's device may still send.
  std::int64_t room_at(std::size_t edge, std::int64_t limit) const {
    const std::size_t device = edges_[edge].device;
    return weights_.limit_of(device, limit) - sent_[device];
  }

  void push(std::size_t edge, std::int64_t bytes) {
    edges_[edge].bytes += bytes;
    sent_[edges_[edge].device] += bytes;
    left_[edges_[edge].demand] -= bytes;
  }

  // Finds distances from demands with bytes left, along edges and back along edges that carry something. Returns
  // whether a device with room is reached.
  bool find_levels(std::int64_t limit) {
    demand_level_.assign(demands_.size(), -1);
    device_level_.assign(sent_.size(), -1);
    std::deque<std::size_t> demands;
    for (std::size_t i = 0; i < demands_.size(); ++i) {
      if (left_[i] == 0) continue;
      demand_level_[i] = 0;
      demands.push_back(i);
    }
    bool has_room = false;
    for (; !demands.empty(); demands.pop_front()) {
      const std::size_t demand = demands.front();
      for (std::size_t edge = first_edge_[demand]; edge < first_edge_[demand + 1]; ++edge) {
        const std::size_t device = edges_[edge].device;
        if (device_level_[device] >= 0) continue;
        device_level_[device] = demand_level_[demand] + 1;
        has_room = has_room || room_at(edge, limit) > 0;
        for (const std::size_t back : edges_at_[device]) {
          if (edges_[back].bytes == 0 || demand_level_[edges_[back].demand] >= 0) continue;
          demand_level_[edges_[back].demand] = device_level_[device] + 1;
          demands.push_back(edges_[back].demand);
        }
      }
    }
    return has_room;
  }

  // Sends bytes of the demand along rising levels. Where a device is full, bytes of another demand are sent by others
  // to make room. Returns the number of bytes sent. `left_` of demands that only pass bytes on does not change.
  std::int64_t send_on(std::size_t demand, std::int64_t bytes, std::int64_t limit) {
    const std::size_t count = first_edge_[demand + 1] - first_edge_[demand];
    for (std::size_t& next = next_edge_[demand]; next < count; ++next) {
      const std::size_t edge = first_edge_[demand] + next;
      const std::size_t device = edges_[edge].device;
      if (device_level_[device] != demand_level_[demand] + 1) continue;
      std::int64_t sent = std::min(bytes, room_at(edge, limit));
      if (sent <= 0) sent = relieve(device, bytes, limit);
      if (sent <= 0) continue;
      push(edge, sent);
      return sent;
    }
    return 0;
  }

  // Makes a full device send less of another demand, and other devices send that instead.
  std::int64_t relieve(std::size_t device, std::int64_t bytes, std::int64_t limit) {
    for (std::size_t& next = next_back_[device]; next < edges_at_[device].size(); ++next) {
      const std::size_t back = edges_at_[device][next];
      const std::size_t demand = edges_[back].demand;
      if (edges_[back].bytes == 0 || demand_level_[demand] != device_level_[device] + 1) continue;
      const std::int64_t sent = send_on(demand, std::min(bytes, edges_[back].bytes), limit);
      if (sent == 0) continue;
      push(back, -sent);
      return sent;
    }
    return 0;
  }

  const std::vector<SenderDemand>& demands_;
  const Weights weights_;
  std::vector<Edge> edges_;              // demand by demand, in the order of its holders
  std::vector<std::size_t> first_edge_;  // by demand, and the end
  std::vector<std::vector<std::size_t>> edges_at_;
  std::vector<std::int64_t> sent_;  // by device
  std::vector<std::int64_t> left_;  // by demand
  std::vector<int> demand_level_;   // -1: not reached
  std::vector<int> device_level_;
  std::vector<std::size_t> next_edge_;
  std::vector<std::size_t> next_back_;
};

// A lower bound: all bytes divided among all devices that hold any, and each demand divided among its holders.
std::int64_t simple_bound(const std::vector<SenderDemand>& demands, std::int64_t device_count, const Weights& weights) {
  std::vector<bool> holds(static_cast<std::size_t>(device_count));
  std::int64_t bytes = 0;
  std::int64_t bound = 0;
  for (const SenderDemand& demand : demands) {
    ensure(!demand.holders.empty(), "somebody holds what is sent");
    if (demand.amount == 0) continue;
    bytes += demand.amount;
    bound = std::max(bound, divide_up(demand.amount, weights.of(demand.holders)));
    for (const Device device : demand.holders) at(holds, device) = true;
  }
  if (bytes == 0) return 0;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < holds.size(); ++i) all += holds[i] ? weights.of(i) : 0;
  return std::max(bound, divide_up(bytes, all));
}

}  // namespace

SenderWeights sender_weights(const std::vector<double>& rates) {
  SenderWeights weights;
  const auto [slowest, fastest] = std::minmax_element(rates.begin(), rates.end());
  if (rates.empty() || *slowest == *fastest) return weights;
  for (const double rate : rates) {
    weights.push_back(std::max<std::int64_t>(1, std::llround(most_weight * rate / *fastest)));
  }
  return weights;
}

SenderShares share_sending(const std::vector<SenderDemand>& demands, std::int64_t device_count,
                           const SenderWeights& weights) {
  SenderFlow flow(demands, device_count, weights);
  std::int64_t bound = simple_bound(demands, device_count, Weights(weights));
  flow.start(bound);
  while (!flow.fill(bound)) bound = flow.least_limit();
  return {bound, flow.shares()};
}

}  // namespace retile
