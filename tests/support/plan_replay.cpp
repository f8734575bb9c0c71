#include "tests/support/plan_replay.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "retile/types/layout.h"

namespace retile::test {
namespace {

using nlohmann::json;

// Which elements of the global array there are, by their row-major number.
using Elements = std::vector<bool>;

struct Wrong {
  std::string reason;
};

class Replay {
 public:
  explicit Replay(const json& plan)
      : plan_(plan), source_(read_end("source", "mesh")), target_(read_end("target", "dst_mesh")) {
    devices_ = std::max(source_.device_count(), target_.device_count());
    global_ = source_.stacked().global_shape();
    parts_ = source_.partial();
    held_ = elements_of(source_);
    if (!plan.contains("view")) return;
    const Shape array = global_;
    global_.clear();
    for (const json& factors : plan.at("view")) {
      std::int64_t size = 1;
      for (const json& factor : factors) {
        global_.push_back(factor.get<std::int64_t>());
        size *= global_.back();
      }
      seen_.push_back(size);
    }
    for (Elements& elements : held_) elements = renumbered(elements, array, seen_);
  }

  void run() {
    for (const json& step : plan_.at("steps")) run_step(step);
    if (parts_ != target_.partial()) throw Wrong{"the plan ends in another sum than its target"};
    global_ = target_.stacked().global_shape();
    if (seen_.size() == global_.size()) {
      for (Elements& elements : held_) elements = renumbered(elements, seen_, global_);
    }
    if (held_ != elements_of(target_)) throw Wrong{"the plan does not end in its target"};
  }

 private:
  // The elements' numbers in an array of other sizes, without those that are outside it.
  static Elements renumbered(const Elements& elements, const Shape& from, const Shape& to) {
    std::int64_t count = 1;
    for (const std::int64_t size : to) count *= size;
    Elements result(static_cast<std::size_t>(count));
    for (std::size_t number = 0; number < elements.size(); ++number) {
      auto rest = static_cast<std::int64_t>(number);
      std::int64_t place = 0;
      std::int64_t stride = 1;
      bool is_inside = elements[number];
      for (std::size_t i = from.size(); i-- > 0; rest /= from[i], stride *= to[i]) {
        is_inside = is_inside && rest % from[i] < to[i];
        place += rest % from[i] * stride;
      }
      if (is_inside) result[static_cast<std::size_t>(place)] = true;
    }
    return result;
  }

  Layout read_end(const char* end, const char* mesh) const {
    const json sizes = plan_.value(mesh, plan_.value("mesh", json::object()));
    std::vector<Axis> axes;
    for (const auto& [name, size] : sizes.items()) {
      axes.push_back({name, size.get<std::int64_t>()});
    }
    return parse_layout(plan_.at(end).get<std::string>(), Mesh(axes));
  }

  std::size_t element_count() const {
    std::int64_t size = 1;
    for (const std::int64_t extent : global_) size *= extent;
    return static_cast<std::size_t>(size);
  }

  Elements box(const Shape& lo, const Shape& hi) const {
    for (std::size_t i = 0; i < global_.size(); ++i) {
      if (lo[i] < 0 || lo[i] >= hi[i] || hi[i] > global_[i]) throw Wrong{"a box outside the array"};
    }
    Elements elements(element_count());
    for (std::size_t number = 0; number < elements.size(); ++number) {
      auto rest = static_cast<std::int64_t>(number);
      bool inside = true;
      for (std::size_t i = global_.size(); i-- > 0;) {
        const std::int64_t coordinate = rest % global_[i];
        inside = inside && coordinate >= lo[i] && coordinate < hi[i];
        rest /= global_[i];
      }
      elements[number] = inside;
    }
    return elements;
  }

  Elements tile(const Shape& corner, const Shape& local) const {
    Shape hi = corner;
    for (std::size_t i = 0; i < hi.size(); ++i) {
      if (corner[i] < 0 || corner[i] > global_[i]) throw Wrong{"a corner outside the array"};
      hi[i] += local[i];
    }
    return box(corner, hi);
  }

  std::vector<Elements> elements_of(const Layout& layout) const {
    std::vector<Elements> all;
    for (Device device = 0; device < devices_; ++device) {
      Elements& held = all.emplace_back(element_count());
      for (const Part& part : layout.placement(devices_).parts(device)) add(held, box(part.box.lo, part.box.hi));
    }
    return all;
  }

  // Where the tiles are all alike, their corners are listed, else boxes.
  std::vector<Elements> elements_after(const json& step) const {
    std::vector<Elements> after;
    if (step.contains("offsets")) {
      for (const json& offset : step.at("offsets")) {
        after.push_back(tile(offset.get<Shape>(), step.at("local_out").get<Shape>()));
      }
      return after;
    }
    for (const json& boxes : step.at("boxes")) {
      Elements& held = after.emplace_back(element_count());
      for (const json& one : boxes) {
        const auto lo = one.at(0).get<Shape>();
        const auto hi = one.at(1).get<Shape>();
        bool is_empty = false;
        for (std::size_t i = 0; i < lo.size(); ++i) is_empty = is_empty || lo[i] == hi[i];
        if (!is_empty) add(held, box(lo, hi));
      }
    }
    return after;
  }

  std::size_t device(const json& number) const {
    const auto value = number.get<std::int64_t>();
    if (value < 0 || value >= devices_) throw Wrong{"there is no such device"};
    return static_cast<std::size_t>(value);
  }

  static void add(Elements& to, const Elements& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = to[i] || from[i];
  }

  static void require(const Elements& wanted, const Elements& available, const char* reason) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] && !available[i]) throw Wrong{reason};
    }
  }

  // What each device can build its new tile from.
  std::vector<Elements> available_in(const json& step) const {
    if (step.at("op") == "dynslice") return held_;
    if (step.at("op") == "allpermute") {
      std::vector<Elements> available(held_.size(), Elements(held_.front().size()));
      for (const json& pair : step.at("pairs")) add(available[device(pair.at(1))], held_[device(pair.at(0))]);
      return available;
    }
    std::vector<Elements> available = held_;
    if (step.at("op") == "exchange") {
      for (const json& transfer : step.at("transfers")) {
        const Elements sent = box(transfer.at(2).get<Shape>(), transfer.at(3).get<Shape>());
        require(sent, held_[device(transfer.at(0))], "a device sends what it does not hold");
        add(available[device(transfer.at(1))], sent);
      }
      return available;
    }
    for (const json& group : step.at("groups")) {
      for (const json& to : group) {
        for (const json& from : group) add(available[device(to)], held_[device(from)]);
      }
    }
    return available;
  }

  // Every device can combine the elements of which it holds all parts. The first dimensions are those of parts.
  std::vector<Elements> combined_in(const json& step) {
    const Shape stacked = global_;
    std::vector<bool> goes(global_.size());
    for (const json& dimension : step.at("dims")) {
      const auto at = dimension.get<std::int64_t>();
      if (at < 0 || at >= static_cast<std::int64_t>(parts_.size()) || goes[static_cast<std::size_t>(at)]) {
        throw Wrong{"there are no such parts"};
      }
      goes[static_cast<std::size_t>(at)] = true;
    }
    for (std::size_t i = goes.size(); i-- > 0;) {
      if (!goes[i]) continue;
      global_.erase(global_.begin() + static_cast<std::ptrdiff_t>(i));
      parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::vector<Elements> available(held_.size(), Elements(element_count(), true));
    for (std::size_t part = 0; part < held_.front().size(); ++part) {
      std::size_t number = 0;  // of what it is a part of
      std::size_t rest = part;
      std::size_t stride = 1;
      for (std::size_t i = stacked.size(); i-- > 0;) {
        const auto extent = static_cast<std::size_t>(stacked[i]);
        if (!goes[i]) number += rest % extent * std::exchange(stride, stride * extent);
        rest /= extent;
      }
      for (std::size_t d = 0; d < held_.size(); ++d) available[d][number] = available[d][number] && held_[d][part];
    }
    return available;
  }

  void run_step(const json& step) {
    const std::vector<Elements> available = step.at("op") == "reduce" ? combined_in(step) : available_in(step);
    std::vector<Elements> after = elements_after(step);
    for (std::size_t i = 0; i < after.size(); ++i) require(after[i], available[i], "a device lacks part of its box");
    held_ = std::move(after);
  }

  const json& plan_;
  Layout source_;
  Layout target_;
  std::int64_t devices_ = 0;
  Shape seen_;    // the array's dimensions as the view has them, which may be longer; none without a view
  Shape global_;  // of the array, in the view of the steps; before it a dimension for each of
  std::vector<AxisPart> parts_;
  std::vector<Elements> held_;  // by device
};

}  // namespace

std::optional<std::string> replay_plan(const nlohmann::json& plan) {
  try {
    Replay(plan).run();
  } catch (const Wrong& wrong) {
    return wrong.reason;
  }
  return std::nullopt;
}

}  // namespace retile::test
