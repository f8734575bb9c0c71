#include "retile/planner/relabelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/list.h"
#include "retile/grids/box_index.h"
#include "retile/plan/text.h"
#include "retile/planner/periods.h"
#include "retile/planner/transport.h"

namespace retile {
namespace {

// The devices of a target, one for each of its places: in row-major order of the mesh, or those that hold listed boxes.
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

// The target with the tile of each place on this device.
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

// Devices that hold the same boxes, each class by itself.
class TileClasses {
 public:
  TileClasses(const Placement& placement, const std::vector<Device>& devices) {
    std::map<std::vector<std::pair<Shape, Shape>>, std::size_t> numbers;
    for (const Device device : devices) {
      std::vector<std::pair<Shape, Shape>> corners;
      for (const Part& part : placement.parts(device)) corners.emplace_back(part.box.lo, part.box.hi);
      std::sort(corners.begin(), corners.end());
      const auto [found, is_new] = numbers.try_emplace(std::move(corners), boxes_.size());
      if (is_new) {
        boxes_.emplace_back();
        for (const auto& [lo, hi] : found->first) boxes_.back().push_back({lo, hi});
        sizes_.push_back(0);
      }
      class_of_.push_back(found->second);
      ++sizes_[found->second];
    }
  }

  std::size_t count() const { return boxes_.size(); }
  const std::vector<Box>& boxes(std::size_t number) const { return boxes_[number]; }
  std::size_t of(std::size_t place) const { return class_of_[place]; }  // by index into the devices
  const std::vector<std::int64_t>& sizes() const { return sizes_; }     // devices of each class

 private:
  std::vector<std::vector<Box>> boxes_;
  std::vector<std::size_t> class_of_;
  std::vector<std::int64_t> sizes_;
};

// What each class of holders has of each class of wanted tiles, in elements, where it has some.
std::vector<TransportGain> overlaps(const TileClasses& held, const TileClasses& wanted) {
  struct HeldBox {
    Box box;
    std::size_t holder;
  };
  std::vector<HeldBox> boxes;
  for (std::size_t row = 0; row < held.count(); ++row) {
    for (const Box& box : held.boxes(row)) boxes.push_back({box, row});
  }
  const BoxIndex index(boxes);
  std::vector<TransportGain> gains;
  std::vector<std::int64_t> shared_by(held.count());
  std::vector<std::size_t> holders;  // with an entry above 0
  for (std::size_t column = 0; column < wanted.count(); ++column) {
    for (const Box& box : wanted.boxes(column)) {
      index.visit_shared(box, [&](std::size_t number, const Box& shared) {
        const std::size_t row = boxes[number].holder;
        if (shared_by[row] == 0) holders.push_back(row);
        shared_by[row] += volume(shared);
      });
    }
    std::sort(holders.begin(), holders.end());
    for (const std::size_t row : holders) gains.push_back({row, column, std::exchange(shared_by[row], 0)});
    holders.clear();
  }
  return gains;
}

// Places are tiles of the target, each with a device that the problem gives it. Devices that hold the same are one row
// of a transport problem, places with equal tiles one column, and a unit that is shipped is a device that gets a tile.
class TileAssignment {
 public:
  // Throws InputError where the elements of all target tiles do not fit in 61 bits.
  explicit TileAssignment(const Problem& problem)
      : devices_(devices_of(problem.target())),
        ends_(distinct_ends(problem.source(), problem.target(), problem.device_count(), find_periods(problem))),
        held_(ends_.source, devices_),
        wanted_(ends_.target, devices_),
        wanted_elements_(count_elements(wanted_)),
        transport_problem_{held_.sizes(), wanted_.sizes(), overlaps(held_, wanted_)} {
    for (std::size_t place = 0; place < devices_.size(); ++place) {
      const std::optional<std::size_t> entry = find_entry(place);
      if (!entry) continue;
      ++transport_problem_.gains[*entry].first;
      kept_before_ += transport_problem_.gains[*entry].gain;
    }
    transport_ = best_transport(transport_problem_);
    ensure(is_proved(transport_problem_, transport_), "prices prove that no other order keeps more");
  }

  // Elements of all target tiles; those of them that devices hold beforehand, at most and as given.
  std::int64_t wanted() const { return wanted_elements_; }
  std::int64_t kept() const { return transport_.total; }
  std::int64_t kept_before() const { return kept_before_; }

  // The device of each place. As many places as the transport allows keep theirs.
  std::vector<Device> devices() const {
    std::vector<std::int64_t> units = transport_.units;
    std::vector<std::optional<Device>> chosen(devices_.size());
    std::vector<bool> is_used(devices_.size());  // devices, by the place that they had
    const auto choose = [&](std::size_t place, std::size_t from) {
      chosen[place] = devices_[from];
      is_used[from] = true;
    };
    for (std::size_t place = 0; place < devices_.size(); ++place) {
      const std::optional<std::size_t> entry = find_entry(place);
      if (!entry || units[*entry] == 0) continue;
      --units[*entry];
      choose(place, place);
    }
    ship_rest(units, chosen, is_used, choose);
    for (std::size_t place = 0; place < devices_.size(); ++place) {
      if (!chosen[place] && !is_used[place]) choose(place, place);
    }
    std::size_t from = 0;
    for (std::size_t place = 0; place < devices_.size(); ++place) {
      if (chosen[place]) continue;
      while (is_used[from]) ++from;
      choose(place, from);
    }
    std::vector<Device> devices;
    for (const std::optional<Device>& device : chosen) devices.push_back(*device);
    return devices;
  }

 private:
  static std::int64_t count_elements(const TileClasses& tiles) {
    std::optional<std::int64_t> elements = 0;
    for (std::size_t i = 0; i < tiles.count(); ++i) {
      std::int64_t size = 0;
      for (const Box& box : tiles.boxes(i)) size += volume(box);
      const std::optional<std::int64_t> all = checked_multiply(size, tiles.sizes()[i]);
      elements = elements && all ? checked_add(*elements, *all) : std::nullopt;
    }
    if (elements && checked_multiply(*elements, 4)) return *elements;
    throw InputError("the elements of all target tiles are too many to be relabelled", "at most 2^61 are");
  }

  // Index of the gain of the place and the device that it was given; nothing where that holds nothing of the tile.
  std::optional<std::size_t> find_entry(std::size_t place) const {
    const std::pair key(wanted_.of(place), held_.of(place));
    const std::vector<TransportGain>& gains = transport_problem_.gains;  // by column, then by row
    const auto key_of = [](const TransportGain& entry) { return std::pair(entry.column, entry.row); };
    const auto found =
        std::lower_bound(gains.begin(), gains.end(), key,
                         [&](const TransportGain& entry, const auto& wanted) { return key_of(entry) < wanted; });
    if (found == gains.end() || key_of(*found) != key) return std::nullopt;
    return static_cast<std::size_t>(found - gains.begin());
  }

  // Gives the units that are left to the first devices of their rows and places of their columns that are free.
  template <typename Choose>
  void ship_rest(const std::vector<std::int64_t>& units, const std::vector<std::optional<Device>>& chosen,
                 const std::vector<bool>& is_used, Choose choose) const {
    std::vector<std::vector<std::size_t>> free_devices(held_.count());
    std::vector<std::vector<std::size_t>> free_places(wanted_.count());
    for (std::size_t i = devices_.size(); i-- > 0;) {  // the first at the back
      if (!is_used[i]) free_devices[held_.of(i)].push_back(i);
      if (!chosen[i]) free_places[wanted_.of(i)].push_back(i);
    }
    for (std::size_t i = 0; i < units.size(); ++i) {
      std::vector<std::size_t>& from = free_devices[transport_problem_.gains[i].row];
      std::vector<std::size_t>& to = free_places[transport_problem_.gains[i].column];
      for (std::int64_t unit = 0; unit < units[i]; ++unit) {
        choose(to.back(), from.back());
        to.pop_back();
        from.pop_back();
      }
    }
  }

  std::vector<Device> devices_;  // by place, as they were given
  DistinctEnds ends_;
  TileClasses held_;    // of the devices, by place
  TileClasses wanted_;  // of the places
  std::int64_t wanted_elements_;
  TransportProblem transport_problem_;
  Transport transport_;
  std::int64_t kept_before_ = 0;
};

void require_relabellable(const Problem& problem) {
  if (problem.source().is_partial()) {
    throw InputError(fmt::format("a {} is not relabelled", name_of(problem.source().cuts()->reduction)),
                     "redistribute it to tiles first, then relabel these");
  }
  if (problem.device_count() > most_relabelled) {
    throw InputError(fmt::format("{} devices are too many to be relabelled", problem.device_count()),
                     fmt::format("at most {} are", most_relabelled));
  }
}

// What the problem's plan costs; nothing where it has none.
std::optional<std::int64_t> cost_of(const Problem& problem, const PlanOptions& options) {
  try {
    return make_plan(problem, options).cost.total;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool is_dearer(const Problem& problem, const Problem& given, const PlanOptions& options) {
  const std::optional<std::int64_t> before = cost_of(given, options);
  const std::optional<std::int64_t> after = before ? cost_of(problem, options) : std::nullopt;
  return before && (!after || *after > *before);
}

}  // namespace

Relabelling relabel(const Problem& problem, const PlanOptions& options) {
  require_relabellable(problem);
  const TileAssignment assignment(problem);
  Relabelling given{problem, assignment.kept_before(), assignment.kept_before(), assignment.wanted()};
  if (assignment.kept() == assignment.kept_before()) return given;
  Problem found(problem.id(), problem.source(), with_devices(problem.target(), assignment.devices()),
                problem.element_type());
  if (is_dearer(found, problem, options)) return given;
  return {std::move(found), assignment.kept(), assignment.kept_before(), assignment.wanted()};
}

std::string to_string(const Relabelling& relabelling) {
  const std::string id = relabelling.problem.id().empty() ? "" : relabelling.problem.id() + ": ";
  const std::string wanted = count_of(relabelling.wanted, "element");
  if (relabelling.kept == relabelling.kept_before) {
    return fmt::format("{}not relabelled: {} of {} stay on their devices in the order that was given", id,
                       group_digits(relabelling.kept), wanted);
  }
  return fmt::format("{}relabelled to {}: {} of {} stay on their devices, {} in the order that was given", id,
                     to_string(relabelling.problem.target()), group_digits(relabelling.kept), wanted,
                     group_digits(relabelling.kept_before));
}

}  // namespace retile
