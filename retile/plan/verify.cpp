#include "retile/plan/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/plan/true_costs.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// Thrown when enough faults were found, or the rest cannot be judged.
struct Stop {};

class Verifier {
 public:
  Verifier(const Movement& movement, std::size_t most) : movement_(movement), most_(most) {}

  std::vector<std::string> judge_steps() {
    try {
      check_steps();
    } catch (const Stop&) {
    }
    return std::move(faults_);
  }

  // Judges the plan, whose movement this is.
  std::vector<std::string> judge_plan(const Plan& plan, const PlanStatements& statements) {
    try {
      check_ends(plan);
      check_steps();
      check_result(plan);
      check_statements(statements);
      if (statements.memory) check_memory(plan);
      if (statements.cost) check_cost(plan);
    } catch (const Stop&) {
    }
    return std::move(faults_);
  }

 private:
  template <typename... Arguments>
  void report(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    faults_.push_back(fmt::format(format, std::forward<Arguments>(arguments)...));
    if (faults_.size() >= most_) throw Stop{};
  }

  template <typename... Arguments>
  void report_step(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const std::string fault = fmt::format(format, std::forward<Arguments>(arguments)...);
    report("step {} ({}): {}", step_index_, name_of(op_of(movement_.steps[step_index_])), fault);
  }

  // Reports a fault after which boxes have no meaning, and stops.
  template <typename... Arguments>
  [[noreturn]] void stop_at_step(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    report_step(format, std::forward<Arguments>(arguments)...);
    throw Stop{};
  }

  std::int64_t device_count() const { return movement_.mesh.device_count(); }

  void check_steps() {
    for (step_index_ = 0; step_index_ < movement_.steps.size(); ++step_index_) {
      check_step(movement_.steps[step_index_]);
    }
  }

  void check_ends(const Plan& plan) {
    if (plan.source.global_shape() != plan.target.global_shape()) {
      report("source and target have different global shapes: {} and {}", to_string(plan.source.global_shape()),
             to_string(plan.target.global_shape()));
      throw Stop{};
    }
    if (std::max(plan.source.device_count(), plan.target.device_count()) != device_count()) {
      report("source and target are on {} and {} devices, and the steps on {}", plan.source.device_count(),
             plan.target.device_count(), device_count());
      throw Stop{};
    }
    array_ = moved_array(plan.target, plan.view);
    check_end(plan.source.inside(device_count(), array_), movement_.source, "before the first step", "source");
  }

  void check_result(const Plan& plan) {
    check_end(plan.target.placement(device_count(), array_), movement_.target(), "after the last step", "target");
  }

  // Checks that the devices hold, at an end of the plan, what that end's layout says.
  void check_end(const Placement& wanted, const Placement& actual, const char* when, const char* name) {
    if (actual.type() != nullptr && actual == wanted) return;  // takes no time per device
    if (actual.is_even() && wanted.is_even() && actual.local_shape() != wanted.local_shape()) {
      report("{} the local shape is {}, and the {} has {}", when, to_string(actual.local_shape()), name,
             to_string(wanted.local_shape()));
      return;
    }
    for (Device device = 0; device < device_count(); ++device) {
      if (same_elements(held_boxes(actual, device), held_boxes(wanted, device))) continue;
      report("{} device {} holds {}, and its {} is {}", when, device, list_of(held_boxes(actual, device)), name,
             list_of(held_boxes(wanted, device)));
    }
  }

  // Whether the boxes of both lists contain the same elements, however they are cut. `others` do not overlap.
  static bool same_elements(std::vector<Box> some, std::vector<Box> others) {
    const auto by_corner = [](const Box& a, const Box& b) { return a.lo < b.lo; };
    std::sort(some.begin(), some.end(), by_corner);
    std::sort(others.begin(), others.end(), by_corner);
    if (some == others) return true;
    return elements_of(some) == elements_of(others) && std::all_of(others.begin(), others.end(), [&](const Box& box) {
             return !find_uncovered(box, some).has_value();
           });
  }

  // The number of elements in the boxes; nothing where it exceeds 63 bits.
  static std::optional<std::int64_t> elements_of(const std::vector<Box>& boxes) {
    std::optional<std::int64_t> elements = 0;
    for (const Box& box : boxes) elements = elements ? checked_add(*elements, volume(box)) : std::nullopt;
    return elements;
  }

  static std::string list_of(const std::vector<Box>& boxes) {
    std::string text;
    for (std::size_t i = 0; i < boxes.size() && i < 4; ++i) text += (i == 0 ? "" : ", ") + to_string(boxes[i]);
    if (boxes.size() > 4) text += fmt::format(" and {} more", boxes.size() - 4);
    return boxes.empty() ? "nothing" : text;
  }

  void check_step(const Step& step) {
    const Placement& before = movement_.before(step_index_);
    check_shapes(step, before);
    std::visit([&](const auto& operation) { check(operation, before, step.after); }, step.operation);
  }

  void check_shapes(const Step& step, const Placement& before) {
    const Placement& after = step.after;
    Shape global = before.global_shape();
    if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) {
      if (!can_be_combined(reduce->element)) stop_at_step("parts of {} cannot be combined", name_of(reduce->element));
      if (is_complex(reduce->element) && reduce->reduction != Reduction::sum) {
        stop_at_step("complex numbers have no {}", name_of(reduce->reduction));
      }
      for (const int dimension : reduce->dimensions) {
        if (dimension < 0 || dimension >= before.rank()) stop_at_step("there is no dimension {}", dimension);
      }
      global = without_dimensions(global, reduce->dimensions);
    }
    if (after.global_shape() != global || after.device_count() != device_count()) {
      stop_at_step("the boxes after it do not cover the same array on {} devices", device_count());
    }
    const bool is_judged_by_boxes =
        op_of(step) == StepOp::reduce || !before.is_even() || (!after.is_even() && after.is_listed());
    // Only planners make grids that reach beyond the array; corners from elsewhere must lie inside it.
    const bool has_corners = !after.is_listed() && after.grid_extent() == global && product(global) > 0;
    if (has_corners || !is_judged_by_boxes) check_grid(after);
    if (is_judged_by_boxes) return require_single_boxes(step, before);
    const std::optional<Shape> expected =
        std::visit([&](const auto& operation) { return shape_after(operation, before); }, step.operation);
    if (expected && *expected != after.local_shape()) {
      report_step("its moves lead to local shape {}, and local_out is {}", to_string(*expected),
                  to_string(after.local_shape()));
    }
    if (!is_balanced(after)) report_step("some tiles have more holders than others");
  }

  // Checks that devices hold single boxes, except for exchanges, and for slices that keep some of several boxes.
  void require_single_boxes(const Step& step, const Placement& before) {
    const bool takes_any = op_of(step) == StepOp::exchange || op_of(step) == StepOp::dynslice;
    if (takes_any || (before.has_single_boxes() && step.after.has_single_boxes())) return;
    stop_at_step("some device holds several boxes, which only an exchange or a slice can take");
  }

  void check_grid(const Placement& after) {
    if (is_on_grid(after)) return;
    const Shape& global = after.global_shape();
    const Shape& local = after.tile_shape();
    for (Device device = 0; device < device_count(); ++device) {
      const Shape corner = after.offset(device);
      for (std::size_t i = 0; i < global.size(); ++i) {
        if (local[i] < 1 || global[i] % local[i] != 0) {
          stop_at_step("tiles of {} do not divide the array's shape {}", to_string(local), to_string(global));
        }
        if (corner[i] < 0 || corner[i] >= global[i]) {
          stop_at_step("device {} has offset {}, outside the array's shape {}", device, to_string(corner),
                       to_string(global));
        }
        if (corner[i] % local[i] != 0) {
          stop_at_step("device {} has offset {}, which is not on the grid of tiles of {}", device, to_string(corner),
                       to_string(local));
        }
      }
    }
  }

  // --- The local shape that a step's moves lead to; nothing where they determine none, or are at fault.

  std::optional<Shape> shape_after(const SliceStep& step, const Placement& before) {
    std::optional<Shape> local = before.local_shape();
    for (const DimensionFactor& slice : step.slices) shorten(local, slice.dimension, slice.factor);
    return local;
  }
  std::optional<Shape> shape_after(const AllToAllStep& step, const Placement& before) {
    std::optional<Shape> local = before.local_shape();
    for (const Move& move : step.moves) {
      lengthen(local, move.from, move.factor);
      shorten(local, move.to, move.factor);
    }
    return local;
  }
  std::optional<Shape> shape_after(const GatherStep& step, const Placement& before) {
    std::optional<Shape> local = before.local_shape();
    for (const DimensionFactor& gather : step.gathers) lengthen(local, gather.dimension, gather.factor);
    return local;
  }
  template <typename Operation>
  static std::optional<Shape> shape_after(const Operation& /*without moves*/, const Placement& /*before*/) {
    return std::nullopt;
  }

  // The size that a move changes; null where there is none, which is reported.
  std::int64_t* size_to_change(std::optional<Shape>& local, int dimension, std::int64_t factor) {
    if (!local) return nullptr;
    if (factor > 0 && dimension >= 0 && static_cast<std::size_t>(dimension) < local->size()) {
      return &(*local)[static_cast<std::size_t>(dimension)];
    }
    report_step("a move that does not fit its kind");
    local.reset();
    return nullptr;
  }

  void lengthen(std::optional<Shape>& local, int dimension, std::int64_t factor) {
    std::int64_t* size = size_to_change(local, dimension, factor);
    if (size == nullptr) return;
    const auto grown = checked_multiply(*size, factor);
    if (!grown) stop_at_step("a move by {} does not fit in 63 bits", factor);
    *size = *grown;
  }

  void shorten(std::optional<Shape>& local, int dimension, std::int64_t factor) {
    std::int64_t* size = size_to_change(local, dimension, factor);
    if (size == nullptr) return;
    if (*size % factor == 0) {
      *size /= factor;
      return;
    }
    report_step("local size {} of dimension {} does not divide by {}", *size, dimension, factor);
    local.reset();
  }

  // --- What each kind of step may do. Without lists, it is checked that suitable ones exist: every tile has equally
  // many holders before and after, so they exist if devices get what lies in the right place (König's theorem).

  void check(const SliceStep& /*step*/, const Placement& before, const Placement& after) {
    for (Device device = 0; device < device_count(); ++device) {
      report_lack(device, held_boxes(after, device), held_boxes(before, device), "it held");
    }
  }

  void check(const GatherStep& step, const Placement& before, const Placement& after) {
    if (!step.groups) return check_gather_without_groups(before, after);
    for (const std::vector<Device>& group : sized_groups(*step.groups, step.gathers)) {
      const std::vector<Box> held_by_group = boxes(group, before);
      std::optional<Box> gathered;  // a box that the group is known to hold, because a member wanted it
      for (const Device device : group) {
        const Box wanted = after.box(device);
        if (wanted == gathered) continue;
        if (!report_lack(device, {wanted}, held_by_group, "its group held")) gathered = wanted;
      }
    }
  }

  void check_gather_without_groups(const Placement& before, const Placement& after) {
    for (Device device = 0; device < device_count(); ++device) {
      if (volume(before.box(device)) == 0 || contains(after.box(device), before.box(device))) continue;
      report_step("device {} gathers {}, and it held {}", device, to_string(after.box(device)),
                  to_string(before.box(device)));
    }
  }

  // The group's boxes make up a box that is cut anew: each member gets a piece of its own, and every member sends
  // equally much to every member. That the union is a box follows, because pieces are boxes and each takes from all.
  // Pairs are inspected only to say what is wrong.
  void check(const AllToAllStep& step, const Placement& before, const Placement& after) {
    if (!step.groups) return check_alltoall_without_groups(step, before, after);
    for (const std::vector<Device>& group : sized_groups(*step.groups, step.moves)) {
      if (before.is_even() && after.is_even() && cuts_a_box_anew(group, before, after)) continue;
      const std::vector<Box> held_by_group = boxes(group, before);
      for (const Device device : group) {
        const Box wanted = after.box(device);
        if (report_lack(device, {wanted}, held_by_group, "its group held")) continue;
        const Device twin = first_with_box(group, after, wanted);
        if (twin != device && volume(wanted) > 0) {
          report_step("devices {} and {} both get {}, and an alltoall gives each piece to one", twin, device,
                      to_string(wanted));
        }
        if (before.is_even() && after.is_even()) check_equal_pieces(group, held_by_group, device, wanted);
      }
    }
  }

  void check_equal_pieces(const std::vector<Device>& group, const std::vector<Box>& held_by_group, Device device,
                          const Box& wanted) {
    const std::int64_t piece = volume(wanted) / static_cast<std::int64_t>(group.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::optional<Box> shared = intersect(wanted, held_by_group[i]);
      const std::int64_t sent = shared ? volume(*shared) : 0;
      if (sent == piece) continue;
      report_step("device {} sends device {} {} elements, and an alltoall sends {} to each", group[i], device, sent,
                  piece);
      break;
    }
  }

  // Whether the group's tiles, one for each member, make up one box before and after, each dimension of which is as
  // long as the longer of both tiles. Any two tiles then share equally much: the shorter length in each dimension.
  static bool cuts_a_box_anew(const std::vector<Device>& group, const Placement& before, const Placement& after) {
    const auto members = static_cast<std::int64_t>(group.size());
    Shape box(before.local_shape());
    for (std::size_t i = 0; i < box.size(); ++i) {
      box[i] = std::max(box[i], after.local_shape()[i]);
      if (box[i] % before.local_shape()[i] != 0 || box[i] % after.local_shape()[i] != 0) return false;
    }
    const std::int64_t size = product(box);
    if (size / before.local_size() != members || size / after.local_size() != members) return false;
    const Shape first = before.offset(group.front());
    for (const Placement* placement : {&before, &after}) {
      std::set<Shape> corners;
      for (const Device device : group) {
        const Shape corner = placement->offset(device);
        for (std::size_t i = 0; i < box.size(); ++i) {
          if (corner[i] / box[i] != first[i] / box[i]) return false;
        }
        if (!corners.insert(corner).second) return false;
      }
    }
    return true;
  }

  // Checks that dimensions only grow or shrink. A box that is cut anew is then as long as the longer of both tiles, and
  // devices stay in it.
  void check_alltoall_without_groups(const AllToAllStep& step, const Placement& before, const Placement& after) {
    const Shape& from_tile = before.tile_shape();
    const Shape& to_tile = after.tile_shape();
    if (before.is_listed() || after.is_listed()) stop_at_step("its groups are not listed");
    Shape merged(from_tile);
    for (std::size_t i = 0; i < merged.size(); ++i) {
      merged[i] = std::max(from_tile[i], to_tile[i]);
      if (merged[i] % from_tile[i] == 0 && merged[i] % to_tile[i] == 0) continue;
      stop_at_step("tiles of {} and {} along dimension {} do not nest", from_tile[i], to_tile[i], i);
    }
    const std::int64_t members = product(merged) / product(from_tile);
    if (members != size_needed(step.moves)) {
      report_step("its groups have {} members, and its moves need {}", members, size_needed(step.moves));
    }
    for (Device device = 0; device < device_count(); ++device) {
      const Shape from = before.offset(device);
      const Shape to = after.offset(device);
      for (std::size_t i = 0; i < merged.size(); ++i) {
        if (from[i] / merged[i] == to[i] / merged[i]) continue;
        report_step("device {} goes from {} to {}, out of what its group holds", device, to_string(before.box(device)),
                    to_string(after.box(device)));
        break;
      }
    }
  }

  static Device first_with_box(const std::vector<Device>& group, const Placement& placement, const Box& box) {
    return *std::find_if(group.begin(), group.end(), [&](Device device) { return placement.box(device) == box; });
  }

  void check(const PermuteStep& step, const Placement& before, const Placement& after) {
    const bool is_even = before.is_even() && after.is_even();
    if (is_even && after.local_shape() != before.local_shape()) {
      stop_at_step("a permutation keeps the local shape, and {} is not {}", to_string(after.local_shape()),
                   to_string(before.local_shape()));
    }
    if (!step.pairs) return;
    std::set<Device> sources;
    std::set<Device> targets;
    for (const DevicePair& pair : *step.pairs) {
      check_device(pair.source);
      check_device(pair.target);
      if (!sources.insert(pair.source).second) report_step("device {} sends its tile twice", pair.source);
      if (!targets.insert(pair.target).second) report_step("device {} is sent two tiles", pair.target);
      report_lack(pair.target, {after.box(pair.target)}, {before.box(pair.source)},
                  fmt::format("device {} held", pair.source).c_str());
      if (!is_even && volume(after.box(pair.target)) != volume(before.box(pair.source))) {
        report_step("device {} gets {}, and a permutation keeps tiles as they are: device {} held {}", pair.target,
                    to_string(after.box(pair.target)), pair.source, to_string(before.box(pair.source)));
      }
    }
    if (static_cast<std::int64_t>(step.pairs->size()) != device_count()) {
      report_step("{} pairs for {} devices", step.pairs->size(), device_count());
    }
  }

  void check(const ExchangeStep& step, const Placement& before, const Placement& after) {
    if (!step.pieces) return;
    std::map<Device, std::vector<Box>> received;
    for (const Piece& piece : *step.pieces) {
      check_device(piece.from);
      check_device(piece.to);
      check_box(piece.box);
      if (piece.from == piece.to) report_step("device {} sends to itself", piece.from);
      if (!before.part_around(piece.from, piece.box)) {
        report_step("device {} sends {}, and it held {}", piece.from, to_string(piece.box),
                    list_of(held_boxes(before, piece.from)));
      }
      if (!after.part_around(piece.to, piece.box)) {
        report_step("device {} is sent {}, which is not in its box {}", piece.to, to_string(piece.box),
                    list_of(held_boxes(after, piece.to)));
      }
      received[piece.to].push_back(piece.box);
    }
    for (Device device = 0; device < device_count(); ++device) {
      std::vector<Box> sources = std::move(received[device]);
      report_repetition(device, before, after, sources);
      for (Box& box : held_boxes(before, device)) sources.push_back(std::move(box));
      report_lack(device, held_boxes(after, device), sources, "it held or was sent");
    }
  }

  // Checks that every device holds all parts of its box. They lie along the first dimensions of what it holds, except
  // for dimensions of one element.
  void check(const ReduceStep& step, const Placement& before, const Placement& after) {
    if (step.dimensions.empty()) stop_at_step("it combines nothing");
    for (Device device = 0; device < device_count(); ++device) {
      Box held = before.box(device);
      if (volume(held) == 0 && volume(after.box(device)) == 0) continue;
      for (auto dimension = step.dimensions.rbegin(); dimension != step.dimensions.rend(); ++dimension) {
        const auto at = static_cast<std::size_t>(*dimension);
        if (held.lo[at] != 0 || held.hi[at] != before.global_shape()[at]) {
          report_step("device {} holds {}, not all parts along dimension {}", device, to_string(held), at);
          return;
        }
        held.lo.erase(held.lo.begin() + *dimension);
        held.hi.erase(held.hi.begin() + *dimension);
      }
      for (int i = 0; i < step.dimensions.back() + 1 - static_cast<int>(step.dimensions.size()); ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (held.hi[at] - held.lo[at] <= 1) continue;
        report_step("device {} holds {}: parts are in front of all that is longer than one element", device,
                    to_string(before.box(device)));
        return;
      }
      if (held == after.box(device)) continue;
      report_step("device {} has the parts of {}, and ends with {}", device, to_string(held),
                  to_string(after.box(device)));
    }
  }

  // Reports elements that a device is sent twice: they are sent in vain.
  void report_repetition(Device device, const Placement& before, const Placement& after, std::vector<Box> received) {
    std::erase_if(received, [&](const Box& box) { return !after.part_around(device, box); });  // reported already
    std::int64_t elements = 0;
    for (const Box& box : received) elements = checked_add(elements, volume(box)).value_or(INT64_MAX);
    if (elements <= lacked_elements(before, after, device)) return;  // no more than are lacking
    for (const Box& box : held_boxes(after, device)) {
      const std::optional<Box> repeated = find_covered_twice(box, received);
      if (repeated) return report_step("device {} is sent {} twice", device, to_string(*repeated));
    }
  }

  // --- Statements about steps.

  void check_statements(const PlanStatements& statements) {
    for (step_index_ = 0; step_index_ < statements.steps.size(); ++step_index_) {
      const PlanStatements::OfStep& stated = statements.steps[step_index_];
      check_local_shape("local_in", stated.local_in, movement_.before(step_index_));
      check_local_shape("local_out", stated.local_out, movement_.steps[step_index_].after);
      const auto* exchange = std::get_if<ExchangeStep>(&movement_.steps[step_index_].operation);
      if (stated.groups && exchange != nullptr && exchange->pieces) {
        check_connected_groups(*stated.groups, *exchange->pieces);
      }
    }
  }

  // Checks a stated local shape. Empty boxes may have any shape.
  void check_local_shape(const char* name, const std::optional<Shape>& stated, const Placement& placement) {
    const Shape& held = placement.local_shape();
    const auto is_empty = [](const Shape& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); };
    if (!stated || *stated == held || (is_empty(*stated) && is_empty(held))) return;
    report_step("{} is {}, and the devices hold {}", name, to_string(*stated), to_string(held));
  }

  // Checks that the stated groups of an exchange are the sets of devices that its pieces connect.
  void check_connected_groups(const Groups& stated, const std::vector<Piece>& pieces) {
    std::vector<Device> parent(static_cast<std::size_t>(device_count()));
    std::iota(parent.begin(), parent.end(), Device{0});
    const auto at = [&](Device device) -> Device& { return parent[static_cast<std::size_t>(device)]; };
    const auto root = [&](Device device) {
      while (at(device) != device) device = at(device) = at(at(device));
      return device;
    };
    for (const Piece& piece : pieces) at(root(piece.from)) = root(piece.to);

    const Groups groups = partitioned_groups(stated);
    std::set<Device> connected;
    for (const std::vector<Device>& group : groups) {
      connected.insert(root(group.front()));
      for (const Device device : group) {
        if (root(device) == root(group.front())) continue;
        report_step("devices {} and {} share a group, and no transfers connect them", group.front(), device);
      }
    }
    if (connected.size() < groups.size()) report_step("transfers connect devices of different groups");
  }

  // Reports the first part of the wanted boxes that none of the sources contains. Returns whether there is one.
  bool report_lack(Device device, const std::vector<Box>& wanted, const std::vector<Box>& sources, const char* holder) {
    for (const Box& box : wanted) {
      if (volume(box) == 0) continue;
      const std::optional<Box> missing = find_uncovered(box, sources);
      if (!missing) continue;
      report_step("device {} lacks {} of its box {}; {} {}", device, to_string(*missing), list_of(wanted), holder,
                  list_of(sources));
      return true;
    }
    return false;
  }

  void check_device(Device device) {
    if (device < 0 || device >= device_count()) stop_at_step("there is no device {}", device);
  }

  void check_box(const Box& box) {
    const Shape& global = movement_.before(step_index_).global_shape();
    bool inside = box.lo.size() == global.size() && box.hi.size() == global.size();
    for (std::size_t i = 0; inside && i < global.size(); ++i) {
      inside = box.lo[i] >= 0 && box.lo[i] < box.hi[i] && box.hi[i] <= global[i];
    }
    if (!inside) stop_at_step("{} is no box of the array", to_string(box));
  }

  // The groups that have members. Checks that every device is in exactly one.
  Groups partitioned_groups(Groups groups) {
    std::erase_if(groups, [](const std::vector<Device>& group) { return group.empty(); });
    std::vector<bool> seen(static_cast<std::size_t>(device_count()));
    for (const std::vector<Device>& group : groups) {
      for (const Device device : group) {
        check_device(device);
        if (seen[static_cast<std::size_t>(device)]) stop_at_step("device {} is in two groups", device);
        seen[static_cast<std::size_t>(device)] = true;
      }
    }
    const auto missing = std::find(seen.begin(), seen.end(), false);
    if (missing != seen.end()) stop_at_step("device {} is in no group", missing - seen.begin());
    return groups;
  }

  template <typename Change>
  static std::int64_t size_needed(const std::vector<Change>& changes) {
    std::int64_t size = 1;
    for (const Change& change : changes) size = checked_multiply(size, change.factor).value_or(INT64_MAX);
    return size;
  }

  // The groups of partitioned_groups(), of the size that the moves require.
  template <typename Change>
  Groups sized_groups(const Groups& listed, const std::vector<Change>& changes) {
    const std::int64_t size = size_needed(changes);
    Groups groups = partitioned_groups(listed);
    for (const std::vector<Device>& group : groups) {
      if (static_cast<std::int64_t>(group.size()) == size) continue;
      stop_at_step("the group of device {} has {} members, and its moves need {}", group.front(), group.size(), size);
    }
    return groups;
  }

  static std::vector<Box> boxes(const std::vector<Device>& group, const Placement& placement) {
    std::vector<Box> result;
    result.reserve(group.size());
    for (const Device device : group) result.push_back(placement.box(device));
    return result;
  }

  void check_memory(const Plan& plan) {
    const auto check_size = [&](const char* name, std::int64_t stated, std::int64_t actual) {
      if (stated != actual) report("memory: {} is {}, not {}", name, actual, stated);
    };
    check_size("source", plan.memory.source, plan.source.local_size());
    check_size("target", plan.memory.target, plan.target.local_size());
    check_size("peak", plan.memory.peak, height(movement_));
    if (plan.memory.peak > plan.memory.bound) {
      report("memory: the peak of {} is above the bound of {}", plan.memory.peak, plan.memory.bound);
    }
  }

  void check_cost(const Plan& plan) {
    if (plan.cost.steps.size() != movement_.steps.size()) {
      return report("cost: {} costs for {} steps", plan.cost.steps.size(), movement_.steps.size());
    }
    std::optional<std::int64_t> total = 0;
    for (step_index_ = 0; step_index_ < movement_.steps.size(); ++step_index_) {
      const std::int64_t stated = plan.cost.steps[step_index_];
      const std::optional<std::int64_t> expected = true_cost(plan.cost.model, movement_, step_index_);
      if (expected && *expected != stated) report_step("it costs {}, not {}", *expected, stated);
      if (total) total = checked_add(*total, stated);
    }
    if (!total) report("cost: the sum of the steps does not fit in 63 bits");
    if (total && *total != plan.cost.total) report("cost: the steps sum up to {}, not {}", *total, plan.cost.total);
    if (plan.cost.lower_bound > plan.cost.total) {
      report("cost: the lower bound {} is above the total {}", plan.cost.lower_bound, plan.cost.total);
    }
    if (plan.cost.optimal && plan.cost.lower_bound < plan.cost.total) {
      report("cost: called optimal, with a lower bound of {} below {}", plan.cost.lower_bound, plan.cost.total);
    }
    if (!plan.cost.optimal && plan.cost.lower_bound == plan.cost.total) {
      report("cost: not called optimal, and its total is the lower bound, {}", plan.cost.total);
    }
    const std::int64_t floor = true_floor(plan);
    if (plan.cost.floor != floor) report("cost: the floor is {}, not {}", floor, plan.cost.floor);
  }

  const Movement& movement_;
  std::size_t most_;
  MovedArray array_;  // the array that the plan moves
  std::size_t step_index_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> find_faults(const Plan& plan, const PlanStatements& statements, std::size_t most) {
  return Verifier(plan.movement, most).judge_plan(plan, statements);
}

std::vector<std::string> find_faults(const Movement& movement, std::size_t most) {
  return Verifier(movement, most).judge_steps();
}

}  // namespace retile
