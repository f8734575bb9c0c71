#include "retile/planner/relabelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/list.h"
#include "retile/plan/text.h"
#include "retile/planner/best_order.h"
#include "retile/planner/periods.h"

namespace retile {
namespace {

// The device of each place of a target: places are numbered in row-major order of the mesh, or by the devices that hold
// listed boxes.
std::vector<Device> devices_of(const Layout& target) {
  if (const BoxLayout* listed = target.listed()) {
    std::vector<Device> devices;
    for (std::size_t device = 0; device < listed->boxes.size(); ++device) {
      if (!listed->boxes[device].empty()) devices.push_back(static_cast<Device>(device));
    }
    return devices;
  }
  MeshLayout cuts = *target.cuts();
  if (!cuts.devices.empty()) return std::move(cuts.devices);
  return numbers_below<Device>(static_cast<std::size_t>(cuts.mesh.device_count()));
}

// The target with each place's tile on the given device.
Layout with_devices(const Layout& target, const std::vector<Device>& devices) {
  if (const BoxLayout* listed = target.listed()) {
    BoxLayout boxes = *listed;
    const std::vector<Device> places = devices_of(target);
    for (std::size_t i = 0; i < places.size(); ++i) at(boxes.boxes, devices[i]) = at(listed->boxes, places[i]);
    return Layout(std::move(boxes));
  }
  MeshLayout cuts = *target.cuts();
  const bool are_in_order = devices == numbers_below<Device>(devices.size());
  cuts.devices = are_in_order ? std::vector<Device>() : devices;
  return Layout(std::move(cuts));
}

// The elements of all tiles. Throws InputError where they do not fit in 61 bits.
std::int64_t count_elements(const TileClasses& tiles) {
  std::optional<std::int64_t> elements = 0;
  for (std::size_t i = 0; i < tiles.count(); ++i) {
    const std::optional<std::int64_t> all = checked_multiply(tiles.elements(i), tiles.sizes()[i]);
    elements = elements && all ? checked_add(*elements, *all) : std::nullopt;
  }
  if (elements && checked_multiply(*elements, 4)) return *elements;
  throw InputError("the elements of all target tiles are too many to be relabelled", "at most 2^61 are");
}

// The order in which all links together are busy for the least time.
struct LinkOrder {
  std::vector<Device> devices;  // by place
  double least_busy = 0;        // some link is busy at least so many seconds, in every order
};

// Finds orders of the target's devices, and bounds over all orders.
class Relabeller {
 public:
  Relabeller(const Problem& problem, const PlanOptions& options)
      : problem_(problem),
        options_(options),
        given_(devices_of(problem.target())),
        ends_(distinct_ends(problem.source(), problem.target(), problem.device_count(), find_periods(problem))),
        wanted_(ends_.target, given_),
        wanted_elements_(count_elements(wanted_)),
        most_kept_(best_order(given_, given_)) {}

  Relabelling find() const {
    Choice best{{problem_, false, most_kept_.gained_before(), most_kept_.gained_before(), wanted_elements_, {}},
                given_,
                cost_of(problem_)};
    const std::optional<std::int64_t> cost_before = best.cost;
    if (most_kept_.gained() > most_kept_.gained_before()) offer(most_kept_.devices(), best);
    double least_busy = 0;
    if (has_links()) {
      LinkOrder order = find_link_order();
      least_busy = order.least_busy;
      offer(order.devices, best);
    }
    if (is_timed() && best.cost && cost_before) {
      const std::int64_t least = least_time(least_busy);
      if (has_links()) swap_devices(least, best);
      best.relabelling.time = OrderTime{*best.cost, *cost_before, std::min(*best.cost, least)};
    }
    return std::move(best.relabelling);
  }

 private:
  struct Choice {
    Relabelling relabelling;
    std::vector<Device> order;         // by place
    std::optional<std::int64_t> cost;  // of the order's plan; nothing where there is none
  };

  bool is_timed() const { return options_.cost_model == options_.machine; }
  bool has_links() const { return is_timed() && options_.machine->machine().hosts.size() > 1 && !given_.empty(); }

  // The best order of `devices` at places. `places` names each place by its device in the given order.
  BestOrder best_order(const std::vector<Device>& places, const std::vector<Device>& devices) const {
    TileClasses held(ends_.source, devices);
    TileClasses wanted(ends_.target, places);
    std::vector<TransportGain> gains = overlaps(held, wanted);
    return {devices, std::move(held), std::move(wanted), std::move(gains)};
  }

  // Swaps pairs of devices while that makes the plan faster: the order with the least sum over all links need not have
  // the least time on its busiest link. Stops if no swap helps, the time is proved to be the least, or enough orders
  // were tried.
  void swap_devices(std::int64_t least, Choice& best) const {
    std::size_t left = most_tried / (given_.size() * given_.size());
    for (bool is_better = true; is_better;) {
      is_better = false;
      for (std::size_t i = 0; i < given_.size(); ++i) {
        for (std::size_t j = i + 1; j < given_.size(); ++j) {
          if (*best.cost <= least || left-- == 0) return;
          std::vector<Device> order = best.order;
          std::swap(order[i], order[j]);
          is_better = offer(order, best) || is_better;
        }
      }
    }
  }

  // Takes the order if its plan costs less, or costs the same and devices keep more. Returns whether it was taken.
  bool offer(const std::vector<Device>& order, Choice& best) const {
    const std::int64_t kept = most_kept_.gain_of(order);
    Problem problem(problem_.id(), problem_.source(), with_devices(problem_.target(), order), problem_.element_type());
    const std::optional<std::int64_t> cost = cost_of(problem);
    const auto rank = [](const std::optional<std::int64_t>& of_plan, std::int64_t kept_elements) {
      return std::tuple(!of_plan, of_plan.value_or(0), -kept_elements);
    };
    if (rank(cost, kept) >= rank(best.cost, best.relabelling.kept)) return false;
    best = {{std::move(problem), true, kept, best.relabelling.kept_before, wanted_elements_, {}}, order, cost};
    return true;
  }

  std::optional<std::int64_t> cost_of(const Problem& problem) const {
    try {
      return make_plan(problem, options_).cost.total;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  // First chooses which host gets which tile, so that links are busy for the least time, then which of its devices, so
  // that they keep the most. What a host lacks of a tile enters by its link, and leaves another host by a link that is
  // no faster than the fastest.
  LinkOrder find_link_order() const {
    const Machine& machine = options_.machine->machine();
    const std::vector<std::int64_t> host_of = machine.host_numbers();
    TileClasses hosts(ends_.source, given_, host_of);
    const std::vector<std::vector<double>> busy = busy_seconds(hosts, host_of);
    std::vector<double> longest;  // by column
    double all = 0;
    for (std::size_t column = 0; column < busy.size(); ++column) {
      longest.push_back(*std::max_element(busy[column].begin(), busy[column].end()));
      all += longest.back() * static_cast<double>(wanted_.sizes()[column]);
    }
    const double scale = all > 0 ? most_gained / all : 0;
    std::vector<TransportGain> gains;  // seconds saved against the slowest host, scaled
    for (std::size_t column = 0; column < busy.size(); ++column) {
      for (std::size_t row = 0; row < hosts.count(); ++row) {
        const auto gain = static_cast<std::int64_t>((longest[column] - busy[column][row]) * scale);
        if (gain > 0) gains.push_back({row, column, gain});
      }
    }
    const std::vector<std::int64_t> host_sizes = hosts.sizes();
    const BestOrder order(given_, std::move(hosts), wanted_, std::move(gains));
    // Several copies of a tile on one host enter it only once, and gains were rounded down: both only lower the bound.
    const std::int64_t sharing = std::min(largest(host_sizes), largest(wanted_.sizes()));
    const double rounded = static_cast<double>(order.gained()) + static_cast<double>(given_.size());
    const double least = scale > 0 ? std::max(0.0, all - rounded / scale) : 0;
    const double links = 2 * static_cast<double>(machine.hosts.size());
    return {inside_hosts(order.devices(), host_of), least / static_cast<double>(sharing) / links};
  }

  // Seconds that links are busy, in and out together, if a device of the host (row) gets the tile (column). Indexed
  // [column][row].
  std::vector<std::vector<double>> busy_seconds(const TileClasses& hosts,
                                                const std::vector<std::int64_t>& host_of) const {
    const Machine& machine = options_.machine->machine();
    const auto element_size = static_cast<double>(bytes_of(problem_.element_type()));
    double fastest_out = 0;
    for (const LinkRates& link : machine.links) fastest_out = std::max(fastest_out, link.out);
    std::vector<double> of_element;  // by row
    for (std::size_t row = 0; row < hosts.count(); ++row) {
      const LinkRates& link = at(machine.links, at(host_of, hosts.first_device(row)));
      of_element.push_back(element_size * (1 / link.in + 1 / fastest_out));
    }
    std::vector<std::vector<double>> busy;
    for (std::size_t column = 0; column < wanted_.count(); ++column) {
      const auto elements = static_cast<double>(wanted_.elements(column));
      std::vector<double>& of_tile = busy.emplace_back();
      for (const double seconds : of_element) of_tile.push_back(elements * seconds);
    }
    for (const TransportGain& held : overlaps(hosts, wanted_)) {
      busy[held.column][held.row] -= static_cast<double>(held.gain) * of_element[held.row];
    }
    return busy;
  }

  // The order with devices permuted inside each host so that they keep the most.
  std::vector<Device> inside_hosts(std::vector<Device> order, const std::vector<std::int64_t>& host_of) const {
    std::map<std::int64_t, std::vector<std::size_t>> places_of;  // by host
    for (std::size_t place = 0; place < order.size(); ++place) places_of[at(host_of, order[place])].push_back(place);
    for (const auto& [host, places] : places_of) {
      std::vector<Device> tiles;
      std::vector<Device> devices;
      for (const std::size_t place : places) {
        tiles.push_back(given_[place]);
        devices.push_back(order[place]);
      }
      const std::vector<Device> best = best_order(tiles, devices).devices();
      for (std::size_t i = 0; i < places.size(); ++i) order[places[i]] = best[i];
    }
    return order;
  }

  // A lower bound, in picoseconds, on the plans of all orders.
  std::int64_t least_time(double link_busy) const {
    const std::int64_t lacking = wanted_elements_ - most_kept_.gained();
    if (lacking == 0) return 0;
    LeastTraffic least;
    least.received = divide_up(lacking, static_cast<std::int64_t>(given_.size()));
    for (std::size_t i = 0; i < wanted_.count(); ++i) least.written = std::max(least.written, wanted_.elements(i));
    least.link_seconds = link_busy;
    return options_.machine->least_time(least, bytes_of(problem_.element_type())).picoseconds;
  }

  static std::int64_t largest(const std::vector<std::int64_t>& sizes) {
    return *std::max_element(sizes.begin(), sizes.end());
  }

  // The number of orders tried is this divided by the number of pairs of devices, since planning takes longer with more
  // devices.
  static constexpr std::size_t most_tried = 1 << 15;

  // The most that all gains add up to, so that sums of prices fit in 63 bits.
  static constexpr double most_gained = static_cast<double>(std::int64_t{1} << 58U);

  const Problem& problem_;
  const PlanOptions& options_;
  const std::vector<Device> given_;  // by place
  const DistinctEnds ends_;
  const TileClasses wanted_;
  const std::int64_t wanted_elements_;
  const BestOrder most_kept_;
};

void require_relabellable(const Problem& problem, const PlanOptions& options) {
  if (options.machine != nullptr) require_devices(options.machine->machine(), problem.device_count());
  if (problem.source().is_partial()) {
    throw InputError(fmt::format("a {} is not relabelled", name_of(problem.source().cuts()->reduction)),
                     "redistribute it to tiles first, then relabel these");
  }
  if (problem.device_count() > most_relabelled) {
    throw InputError(fmt::format("{} devices are too many to be relabelled", problem.device_count()),
                     fmt::format("at most {} are", most_relabelled));
  }
}

}  // namespace

Relabelling relabel(const Problem& problem, const PlanOptions& options) {
  require_relabellable(problem, options);
  return Relabeller(problem, options).find();
}

std::string to_string(const Relabelling& relabelling) {
  const bool is_found = relabelling.is_found;
  const std::string id = relabelling.problem.id().empty() ? "" : relabelling.problem.id() + ": ";
  const std::string order =
      is_found ? "relabelled to " + to_string(relabelling.problem.target()) : std::string("not relabelled");
  if (const std::optional<OrderTime>& time = relabelling.time) {
    const std::string before = is_found ? fmt::format("{}, {}", duration_text(time->total), duration_text(time->before))
                                        : duration_text(time->total);
    return fmt::format("{}{}: takes {} in the order that was given; no order takes less than {}", id, order, before,
                       duration_text(time->least));
  }
  const std::string wanted = count_of(relabelling.wanted, "element");
  const std::string before = is_found ? fmt::format(", {}", group_digits(relabelling.kept_before)) : "";
  return fmt::format("{}{}: {} of {} stay on their devices{} in the order that was given", id, order,
                     group_digits(relabelling.kept), wanted, before);
}

}  // namespace retile
