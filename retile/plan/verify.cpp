#include "retile/plan/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/plan/groups.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// Thrown when enough faults were found, or the rest cannot be judged.
struct Stop {};

class Verifier {
 public:
  Verifier(Movement movement, std::size_t most) : movement_(std::move(movement)), most_(most) {}

  std::vector<std::string> judge_steps() {
    try {
      check_steps();
    } catch (const Stop&) {
    }
    return std::move(faults_);
  }

  // The plan whose movement this is.
  std::vector<std::string> judge_plan(const Plan& plan) {
    try {
      check_ends(plan);
      check_steps();
      check_result(plan);
      check_memory(plan);
      check_cost(plan);
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
    report("step {} ({}): {}", step_index_, name_of(movement_.steps[step_index_].op), fault);
  }

  // For faults after which boxes have no meaning.
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
    if (plan.source.mesh() != plan.target.mesh()) {
      report("source and target are on different meshes");
      throw Stop{};
    }
    if (plan.source.global_shape() != plan.target.global_shape()) {
      report("source and target have different global shapes: {} and {}", to_string(plan.source.global_shape()),
             to_string(plan.target.global_shape()));
      throw Stop{};
    }
  }

  void check_result(const Plan& plan) {
    const Placement last = movement_.before(movement_.steps.size());
    const Placement target(plan.target);
    if (last.local_shape() != target.local_shape()) {
      report("the plan ends with local shape {}, and the target has {}", to_string(last.local_shape()),
             to_string(target.local_shape()));
      return;
    }
    for (Device device = 0; device < device_count(); ++device) {
      if (last.offset(device) == target.offset(device)) continue;
      report("after the last step device {} holds {}, and its target is {}", device, to_string(last.box(device)),
             to_string(target.box(device)));
    }
  }

  void check_step(Step& step) {
    const Placement before = movement_.before(step_index_);
    check_shapes(step, before);
    list(step, before);
    switch (step.op) {
      case StepOp::dynslice:
        return check_dynslice(step, before);
      case StepOp::allgather:
        return check_allgather(step, before);
      case StepOp::alltoall:
        return check_alltoall(step, before);
      case StepOp::allpermute:
        return check_allpermute(step, before);
      case StepOp::exchange:
        return check_exchange(step, before);
    }
  }

  void list(Step& step, const Placement& before) {
    if (!step.symbolic) return;
    try {
      list_devices(step, before);
    } catch (const RuntimeError& error) {
      stop_at_step("{}", error.what());
    }
  }

  void check_shapes(const Step& step, const Placement& before) {
    const Placement& after = step.after;
    if (after.global_shape() != before.global_shape() || after.device_count() != device_count()) {
      stop_at_step("the boxes after it do not cover the same array on {} devices", device_count());
    }
    check_grid(after);
    if (step.local_in != before.local_shape()) {
      report_step("local_in is {}, and the devices hold {}", to_string(step.local_in), to_string(before.local_shape()));
    }
    const bool shaped_by_moves = step.op != StepOp::exchange && step.op != StepOp::allpermute;
    const std::optional<Shape> expected = shaped_by_moves ? shape_after_moves(step, before) : after.local_shape();
    if (expected && *expected != after.local_shape()) {
      report_step("its moves lead to local shape {}, and local_out is {}", to_string(*expected),
                  to_string(after.local_shape()));
    }
    if (!is_balanced(after)) report_step("some tiles have more holders than others");
  }

  void check_grid(const Placement& after) {
    if (is_on_grid(after)) return;
    const Shape& global = after.global_shape();
    const Shape& local = after.local_shape();
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

  // Nothing where a move is not one of its step's kind.
  std::optional<Shape> shape_after_moves(const Step& step, const Placement& before) {
    Shape local = before.local_shape();
    const auto in_range = [&](int dimension) { return dimension >= 0 && dimension < before.rank(); };
    for (const Move& move : step.moves) {
      const bool needs_from = step.op != StepOp::dynslice;
      const bool needs_to = step.op != StepOp::allgather;
      const bool fits = move.factor > 0 && (needs_from ? in_range(move.from) : move.from == -1) &&
                        (needs_to ? in_range(move.to) : move.to == -1);
      if (!fits) {
        report_step("a move that does not fit its kind");
        return std::nullopt;
      }
      if (needs_from) {
        std::int64_t& size = local[static_cast<std::size_t>(move.from)];
        const auto grown = checked_multiply(size, move.factor);
        if (!grown) stop_at_step("a move by {} does not fit in 63 bits", move.factor);
        size = *grown;
      }
      if (needs_to) {
        std::int64_t& size = local[static_cast<std::size_t>(move.to)];
        if (size % move.factor != 0) {
          report_step("local size {} of dimension {} does not divide by {}", size, move.to, move.factor);
          return std::nullopt;
        }
        size /= move.factor;
      }
    }
    return local;
  }

  void check_dynslice(const Step& step, const Placement& before) {
    for (Device device = 0; device < device_count(); ++device) {
      report_lack(device, step.after.box(device), {before.box(device)}, "it held");
    }
  }

  void check_allgather(const Step& step, const Placement& before) {
    for (const std::vector<Device>& group : sized_groups(step)) {
      const std::vector<Box> held = boxes(group, before);
      std::optional<Box> gathered;  // a box that the group is known to hold: its members want the same
      for (const Device device : group) {
        const Box wanted = step.after.box(device);
        if (wanted == gathered) continue;
        if (!report_lack(device, wanted, held, "its group held")) gathered = wanted;
      }
    }
  }

  // The union of a group's boxes is cut anew, each member gets a piece of its own, and every member sends
  // every member as much. That the union is a box follows: the pieces are boxes, and each takes from all.
  void check_alltoall(const Step& step, const Placement& before) {
    for (const std::vector<Device>& group : sized_groups(step)) {
      const std::vector<Box> held = boxes(group, before);
      const std::int64_t piece = before.local_size() / static_cast<std::int64_t>(group.size());
      for (const Device device : group) {
        const Box wanted = step.after.box(device);
        if (report_lack(device, wanted, held, "its group held")) continue;
        const Device twin = first_with_box(group, step.after, wanted);
        if (twin != device) {
          report_step("devices {} and {} both get {}, and an alltoall gives each piece to one", twin, device,
                      to_string(wanted));
        }
        for (std::size_t i = 0; i < group.size(); ++i) {
          const std::optional<Box> shared = intersect(wanted, held[i]);
          const std::int64_t sent = shared ? volume(*shared) : 0;
          if (sent != piece) {
            report_step("device {} sends device {} {} elements, and an alltoall sends {} to each", group[i], device,
                        sent, piece);
            break;
          }
        }
      }
    }
  }

  static Device first_with_box(const std::vector<Device>& group, const Placement& placement, const Box& box) {
    return *std::find_if(group.begin(), group.end(), [&](Device device) { return placement.box(device) == box; });
  }

  void check_allpermute(const Step& step, const Placement& before) {
    if (step.after.local_shape() != before.local_shape()) {
      stop_at_step("a permutation keeps the local shape, and {} is not {}", to_string(step.after.local_shape()),
                   to_string(before.local_shape()));
    }
    std::set<Device> sources;
    std::set<Device> targets;
    for (const DevicePair& pair : step.pairs) {
      check_device(pair.source);
      check_device(pair.target);
      if (!sources.insert(pair.source).second) report_step("device {} sends its tile twice", pair.source);
      if (!targets.insert(pair.target).second) report_step("device {} is sent two tiles", pair.target);
      report_lack(pair.target, step.after.box(pair.target), {before.box(pair.source)},
                  fmt::format("device {} held", pair.source).c_str());
    }
    if (static_cast<std::int64_t>(step.pairs.size()) != device_count()) {
      report_step("{} pairs for {} devices", step.pairs.size(), device_count());
    }
  }

  void check_exchange(const Step& step, const Placement& before) {
    std::map<Device, std::vector<Box>> received;
    for (const Transfer& transfer : step.transfers) {
      check_device(transfer.from);
      check_device(transfer.to);
      check_box(transfer.box);
      if (transfer.from == transfer.to) report_step("device {} sends to itself", transfer.from);
      const Box held = before.box(transfer.from);
      if (!contains(held, transfer.box)) {
        report_step("device {} sends {}, and it held {}", transfer.from, to_string(transfer.box), to_string(held));
      }
      if (!contains(step.after.box(transfer.to), transfer.box)) {
        report_step("device {} is sent {}, which is not in its box {}", transfer.to, to_string(transfer.box),
                    to_string(step.after.box(transfer.to)));
      }
      received[transfer.to].push_back(transfer.box);
    }
    for (Device device = 0; device < device_count(); ++device) {
      std::vector<Box> sources = received[device];
      sources.push_back(before.box(device));
      report_lack(device, step.after.box(device), sources, "it held or was sent");
    }
    check_connected_groups(step);
  }

  // The groups of an exchange are the sets of devices that its transfers connect.
  void check_connected_groups(const Step& step) {
    std::vector<Device> parent(static_cast<std::size_t>(device_count()));
    std::iota(parent.begin(), parent.end(), Device{0});
    const auto at = [&](Device device) -> Device& { return parent[static_cast<std::size_t>(device)]; };
    const auto root = [&](Device device) {
      while (at(device) != device) device = at(device) = at(at(device));
      return device;
    };
    for (const Transfer& transfer : step.transfers) at(root(transfer.from)) = root(transfer.to);

    const std::vector<std::vector<Device>> groups = partitioned_groups(step);
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

  // True, and a fault reported, where part of the wanted box is in none of the sources.
  bool report_lack(Device device, const Box& wanted, const std::vector<Box>& sources, const char* holder) {
    std::vector<Box> missing{wanted};
    for (const Box& source : sources) {
      std::vector<Box> rest;
      for (const Box& part : missing) {
        for (Box& left : subtract(part, source)) rest.push_back(std::move(left));
      }
      missing = std::move(rest);
      if (missing.empty()) return false;
    }
    std::string held;
    for (std::size_t i = 0; i < sources.size() && i < 4; ++i) held += (i == 0 ? "" : ", ") + to_string(sources[i]);
    if (sources.size() > 4) held += fmt::format(" and {} more", sources.size() - 4);
    report_step("device {} lacks {} of its box {}; {} {}", device, to_string(missing.front()), to_string(wanted),
                holder, held);
    return true;
  }

  void check_device(Device device) {
    if (device < 0 || device >= device_count()) stop_at_step("there is no device {}", device);
  }

  void check_box(const Box& box) {
    const Shape& global = movement_.source.global_shape();
    bool inside = box.lo.size() == global.size() && box.hi.size() == global.size();
    for (std::size_t i = 0; inside && i < global.size(); ++i) {
      inside = box.lo[i] >= 0 && box.lo[i] < box.hi[i] && box.hi[i] <= global[i];
    }
    if (!inside) stop_at_step("{} is no box of the array", to_string(box));
  }

  // The groups, every device in exactly one.
  std::vector<std::vector<Device>> partitioned_groups(const Step& step) {
    std::vector<std::vector<Device>> groups = step.groups.list(movement_.mesh);
    std::vector<bool> seen(static_cast<std::size_t>(device_count()));
    for (const std::vector<Device>& group : groups) {
      if (group.empty()) stop_at_step("a group without members");
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

  // As above, and of the size that the moves ask for.
  std::vector<std::vector<Device>> sized_groups(const Step& step) {
    std::int64_t size = 1;
    for (const Move& move : step.moves) size = checked_multiply(size, move.factor).value_or(INT64_MAX);
    std::vector<std::vector<Device>> groups = partitioned_groups(step);
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
    std::int64_t peak = plan.source.local_size();
    for (const Step& step : movement_.steps) peak = std::max(peak, step.after.local_size());
    const auto check = [&](const char* name, std::int64_t stated, std::int64_t actual) {
      if (stated != actual) report("memory: {} is {}, not {}", name, actual, stated);
    };
    check("source", plan.memory.source, plan.source.local_size());
    check("target", plan.memory.target, plan.target.local_size());
    check("peak", plan.memory.peak, peak);
  }

  void check_cost(const Plan& plan) {
    std::optional<std::int64_t> total = 0;
    for (step_index_ = 0; step_index_ < movement_.steps.size(); ++step_index_) {
      const Step& step = movement_.steps[step_index_];
      const std::optional<std::int64_t> expected = expected_cost(plan, step);
      if (expected && *expected != step.cost) report_step("it costs {}, not {}", *expected, step.cost);
      if (total) total = checked_add(*total, step.cost);
    }
    if (!total) report("cost: the sum of the steps does not fit in 63 bits");
    if (total && *total != plan.cost.total) report("cost: the steps sum up to {}, not {}", *total, plan.cost.total);
    if (plan.cost.lower_bound > plan.cost.total) {
      report("cost: the lower bound {} is above the total {}", plan.cost.lower_bound, plan.cost.total);
    }
    if (plan.cost.optimal && plan.cost.lower_bound < plan.cost.total) {
      report("cost: called optimal, with a lower bound of {} below {}", plan.cost.lower_bound, plan.cost.total);
    }
    const std::int64_t floor = actual_floor(plan);
    if (plan.cost.floor != floor) report("cost: the floor is {}, not {}", floor, plan.cost.floor);
  }

  // Under the models that are known here; nothing under others.
  std::optional<std::int64_t> expected_cost(const Plan& plan, const Step& step) const {
    if (plan.cost.model == "paper") return paper_cost(step);
    if (plan.cost.model == "volume") return most_received(step);
    return std::nullopt;
  }

  std::int64_t paper_cost(const Step& step) const {
    switch (step.op) {
      case StepOp::dynslice:
        return 0;
      case StepOp::allgather:
      case StepOp::exchange:
        return step.after.local_size();
      case StepOp::alltoall:
      case StepOp::allpermute:
        return movement_.before(step_index_).local_size();  // local_in may be wrong, and too large to multiply
    }
    return 0;
  }

  std::int64_t most_received(const Step& step) const {
    const Placement before = movement_.before(step_index_);
    std::vector<std::int64_t> received(static_cast<std::size_t>(device_count()));
    const auto at = [&](Device device) -> std::int64_t& { return received[static_cast<std::size_t>(device)]; };
    if (step.op == StepOp::exchange) {
      // One box may be sent many times over: beyond 63 bits it is only known to be too much.
      for (const Transfer& transfer : step.transfers) {
        at(transfer.to) = checked_add(at(transfer.to), volume(transfer.box)).value_or(INT64_MAX);
      }
    } else if (step.op == StepOp::allpermute) {
      for (const DevicePair& pair : step.pairs) at(pair.target) = pair.source == pair.target ? 0 : before.local_size();
    } else {
      for (Device device = 0; device < device_count(); ++device) at(device) = lack(before, step.after, device);
    }
    return *std::max_element(received.begin(), received.end());
  }

  static std::int64_t lack(const Placement& before, const Placement& after, Device device) {
    const Box wanted = after.box(device);
    const std::optional<Box> own = intersect(wanted, before.box(device));
    return volume(wanted) - (own ? volume(*own) : 0);
  }

  static std::int64_t actual_floor(const Plan& plan) {
    const Placement source(plan.source);
    const Placement target(plan.target);
    std::int64_t floor = 0;
    for (Device device = 0; device < source.device_count(); ++device) {
      floor = std::max(floor, lack(source, target, device));
    }
    return floor;
  }

  Movement movement_;  // lists are worked out as steps are checked
  std::size_t most_;
  std::size_t step_index_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> find_faults(const Plan& plan, std::size_t most) {
  return Verifier(movement_of(plan), most).judge_plan(plan);
}

std::vector<std::string> find_faults(const Movement& movement, std::size_t most) {
  return Verifier(movement, most).judge_steps();
}

}  // namespace retile
