#include "retile/drawing/scene.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/plan/lists.h"
#include "retile/plan/text.h"
#include "retile/schedule/stage.h"
#include "retile/types/text.h"

namespace retile::drawing {
namespace {

// --- Dimensions.

std::vector<SceneDimension> dimensions_of(const Plan& plan) {
  const Shape& shape = plan.movement.source.global_shape();
  std::vector<SceneDimension> dimensions;
  if (!plan.view.empty()) {
    for (const Shape& factors : plan.view) {
      for (const std::int64_t factor : factors) {
        dimensions.push_back({fmt::format("dimension {}", dimensions.size()), factor});
      }
    }
    return dimensions;
  }
  const std::size_t stacked = shape.size() - plan.source.global_shape().size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::string label = fmt::format("dimension {}", i);
    if (i < stacked)
      label = fmt::format("parts along {}", to_string(plan.source.cuts()->mesh, plan.source.partial()[i]));
    dimensions.push_back({std::move(label), shape[i], i < stacked});
  }
  return dimensions;
}

// A text such as "dimension 0 of the array is 3 × 16 × 128, here dimensions 0 to 2".
std::string describe_view(const Plan& plan) {
  std::vector<std::string> parts;
  std::size_t first = 0;
  for (std::size_t i = 0; i < plan.view.size(); ++i) {
    const std::size_t last = first + plan.view[i].size() - 1;
    if (last > first) {
      parts.push_back(fmt::format("dimension {} of the array is seen as {}, here dimensions {} to {}", i,
                                  fmt::join(plan.view[i], " × "), first, last));
    }
    first = last + 1;
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

// --- Frames.

// Lifts boxes of a frame to all dimensions of the scene.
class BoxLift {
 public:
  BoxLift(const std::vector<SceneDimension>& scene, const std::vector<int>& kept) : kept_(kept) {
    for (const SceneDimension& dimension : scene) {
      whole_.lo.push_back(0);
      whole_.hi.push_back(dimension.size);
    }
  }

  Box operator()(const Box& box) const {
    Box lifted = whole_;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      at(lifted.lo, kept_[i]) = box.lo[i];
      at(lifted.hi, kept_[i]) = box.hi[i];
    }
    return lifted;
  }

 private:
  std::vector<int> kept_;
  Box whole_;
};

SceneFrame make_frame(const std::vector<SceneDimension>& dimensions, std::vector<int> kept, std::string layout,
                      const Placement& placement) {
  SceneFrame frame{std::move(layout), std::move(kept), {}, placement.local_size(), 0};
  const BoxLift lift(dimensions, frame.dimensions);
  std::vector<bool> is_idle(static_cast<std::size_t>(placement.device_count()), true);
  for (HeldBox& held : held_boxes(placement)) {
    for (const Device device : held.holders) at(is_idle, device) = false;
    frame.boxes.push_back({lift(held.box), std::move(held.holders)});
  }
  frame.idle_devices = std::count(is_idle.begin(), is_idle.end(), true);
  return frame;
}

std::vector<int> without(std::vector<int> kept, const StepOperation& operation) {
  const auto* reduce = std::get_if<ReduceStep>(&operation);
  if (reduce == nullptr) return kept;
  for (std::size_t i = reduce->dimensions.size(); i-- > 0;) kept.erase(kept.begin() + reduce->dimensions[i]);
  return kept;
}

// --- Steps.

TrafficTable empty_traffic(std::int64_t devices) {
  TrafficTable traffic;
  traffic.devices_per_entry = divide_up(devices, TrafficTable::most_side);
  traffic.side = divide_up(devices, traffic.devices_per_entry);
  traffic.elements.resize(static_cast<std::size_t>(traffic.side * traffic.side));
  return traffic;
}

// Counts all pieces, and lists those of the first receivers. A receiver's pieces are listed all or not at all.
void count_pieces(const Stage& stage, const BoxLift& lift, SceneStep& step) {
  const Device devices = stage.after().device_count();
  step.received.resize(static_cast<std::size_t>(devices));
  step.sent.resize(static_cast<std::size_t>(devices));
  step.traffic = empty_traffic(devices);
  step.listed_devices = devices;
  const std::int64_t width = step.traffic.devices_per_entry;
  const auto count = [&](const Piece& piece) {
    if (piece.from == piece.to) return;
    const std::int64_t elements = volume(piece.box);
    at(step.received, piece.to) += elements;
    at(step.sent, piece.from) += elements;
    at(step.traffic.elements, piece.from / width * step.traffic.side + piece.to / width) += elements;
    if (piece.to < step.listed_devices) step.pieces.push_back({piece.from, piece.to, lift(piece.box)});
    if (step.pieces.size() <= SceneStep::most_pieces) return;
    step.listed_devices = piece.to;
    std::erase_if(step.pieces, [&](const Piece& other) { return other.to >= piece.to; });
  };
  if (stage.reduction()) return;  // nothing is sent: every device holds the parts that it combines
  for (Device device = 0; device < devices; ++device) stage.visit_received(device, count);
}

std::int64_t held_at_once(const StepOperation& operation, const Placement& before, const Placement& after) {
  const bool is_view = std::holds_alternative<SliceStep>(operation);
  std::int64_t most = 0;
  for (Device device = 0; device < before.device_count(); ++device) {
    most = std::max(most, before.size(device) + (is_view ? 0 : after.size(device)));
  }
  return most;
}

// A step of the plan. `listed` is the plan's movement with short lists of devices.
SceneStep make_step(const Plan& plan, const Movement& listed, std::size_t index, const BoxLift& lift) {
  const Placement& before = listed.before(index);
  const Step& taken = listed.steps[index];
  SceneStep step;
  step.operation = to_string(taken);
  if (index < plan.cost.steps.size()) step.cost = cost_text(plan.cost, plan.cost.steps[index]);
  if (const Groups* groups = groups_of(taken.operation)) step.groups = order_groups(*groups, before);
  count_pieces(Stage(listed, {index, index}, {}, 1), lift, step);
  step.held = held_at_once(taken.operation, before, taken.after);
  return step;
}

// --- Sentences.

// An amount such as "192 bytes", "at most 192 bytes".
std::string amount(const Scene& scene, const std::vector<std::int64_t>& by_device) {
  const bool is_equal =
      std::adjacent_find(by_device.begin(), by_device.end(), std::not_equal_to<>()) == by_device.end();
  return (is_equal ? "" : "at most ") + quantity(scene, most(by_device));
}

// The most devices that one of the listed receivers receives from.
std::int64_t count_senders(const SceneStep& step) {
  std::int64_t senders = 0;
  for (std::size_t i = 0; i < step.pieces.size();) {
    std::vector<Device> from;
    const Device to = step.pieces[i].to;
    for (; i < step.pieces.size() && step.pieces[i].to == to; ++i) from.push_back(step.pieces[i].from);
    std::sort(from.begin(), from.end());
    senders = std::max<std::int64_t>(senders, std::unique(from.begin(), from.end()) - from.begin());
  }
  return senders;
}

std::string grouped(const SceneStep& step) {
  const std::size_t largest =
      std::max_element(step.groups.begin(), step.groups.end(), [](const auto& a, const auto& b) {
        return a.size() < b.size();
      })->size();
  if (step.groups.size() == 1) return fmt::format("All {} devices", largest);
  return fmt::format("In {} groups of {}, devices", group_digits(static_cast<std::int64_t>(step.groups.size())),
                     largest);
}

const char* verb_of(Reduction reduction) {
  if (reduction == Reduction::sum) return "adds up";
  return reduction == Reduction::max ? "takes the largest of" : "takes the smallest of";
}

std::string sentence_of(const Scene& scene, const SceneStep& step, const SceneFrame& before, const SceneFrame& after,
                        const StepOperation& operation) {
  const std::int64_t receivers =
      std::count_if(step.received.begin(), step.received.end(), [](auto n) { return n > 0; });
  if (const auto* reduce = std::get_if<ReduceStep>(&operation)) {
    return fmt::format("Every device {} the parts that it holds: {} become {}. Nothing is sent.",
                       verb_of(reduce->reduction), quantity(scene, before.elements), quantity(scene, after.elements));
  }
  if (std::holds_alternative<SliceStep>(operation)) {
    return fmt::format("Every device keeps a part of its tile: {} of {}. Nothing is sent.",
                       quantity(scene, after.elements), quantity(scene, before.elements));
  }
  if (receivers == 0) return "Every device has what it needs already. Nothing is sent.";
  if (std::holds_alternative<GatherStep>(operation)) {
    return fmt::format("{} gather each other's tiles: each gets {} and then holds {}.", grouped(step),
                       amount(scene, step.received), quantity(scene, after.elements));
  }
  if (std::holds_alternative<AllToAllStep>(operation)) {
    return fmt::format("{} cut their tiles anew: each sends {} and gets {}.", grouped(step), amount(scene, step.sent),
                       amount(scene, step.received));
  }
  if (std::holds_alternative<PermuteStep>(operation)) {
    return fmt::format("{} of {} tiles change owners, {} each.", group_digits(receivers), group_digits(scene.devices),
                       quantity(scene, most(step.received)));
  }
  const std::string who =
      receivers == scene.devices
          ? "Every device gets what it lacks"
          : fmt::format("{} of {} get what they lack", group_digits(receivers), count_of(scene.devices, "device"));
  return fmt::format("{} and nothing else: {}, from up to {}.", who, amount(scene, step.received),
                     count_of(count_senders(step), "other device"));
}

// A sentence such as " It takes 6.4 s, 6.4 s of it host 0's link out."; empty where a step takes no time.
std::string time_sentence(const StepTime& time) {
  if (time.picoseconds == 0) return "";
  return fmt::format(" It takes {}, {} of it {}.", duration_text(time.picoseconds),
                     duration_text(time.wait.picoseconds), to_string(time.wait));
}

// The number of intervals that the boxes of a frame cut a dimension into.
std::int64_t count_cuts(const SceneFrame& frame, int dimension) {
  const auto i = static_cast<std::size_t>(dimension);
  std::vector<std::int64_t> edges;
  for (const HeldBox& held : frame.boxes) edges.insert(edges.end(), {held.box.lo[i], held.box.hi[i]});
  std::sort(edges.begin(), edges.end());
  return std::max<std::int64_t>(1, std::unique(edges.begin(), edges.end()) - edges.begin() - 1);
}

View choose_view(const Scene& scene) {
  const auto rank = static_cast<int>(scene.dimensions.size());
  std::vector<std::int64_t> cuts(scene.dimensions.size(), 1);
  std::vector<int> order = numbers_below<int>(scene.dimensions.size());
  for (const int dimension : order) {
    for (const SceneFrame& frame : scene.frames) {
      auto& count = at(cuts, dimension);
      count = std::max(count, count_cuts(frame, dimension));
    }
  }
  const auto cuts_of = [&](int dimension) { return at(cuts, dimension); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cuts_of(a) > cuts_of(b); });
  if (rank > static_cast<int>(View::most_dimensions)) {
    order.resize(View::most_dimensions);
    if (cuts_of(order.back()) == 1) order.pop_back();  // two suffice if no more are cut
  }
  std::sort(order.begin(), order.end());
  if (order.size() == View::most_dimensions) {
    const auto layers = std::min_element(order.begin(), order.end(), [&](int a, int b) {
      const auto rank_of = [&](int dimension) {
        const bool is_stack = at(scene.dimensions, dimension).is_stack;
        return std::pair(!is_stack, is_stack ? 0 : cuts_of(dimension));
      };
      return rank_of(a) < rank_of(b);
    });
    std::rotate(order.begin(), layers, layers + 1);
  }
  return {order};
}

}  // namespace

Scene make_scene(const Plan& plan, std::optional<ElementType> element) {
  if (plan.device_count() > most_listed_devices) {
    throw InputError(fmt::format("{} devices are too many for a picture", group_digits(plan.device_count())),
                     fmt::format("at most {} are drawn", group_digits(most_listed_devices)));
  }
  Scene scene{plan.id,
              to_string(plan.source),
              to_string(plan.target),
              describe_meshes(plan),
              plan.planner,
              describe_view(plan),
              plan.device_count(),
              element,
              dimensions_of(plan),
              {},
              {},
              {},
              0,
              height(plan.movement),
              {}};
  if (!plan.cost.model.empty()) scene.cost = plan.cost;
  std::vector<int> kept = numbers_below<int>(scene.dimensions.size());
  scene.frames.push_back(make_frame(scene.dimensions, kept, scene.from, plan.movement.source));
  const Movement listed = with_short_lists(plan.movement);
  for (std::size_t i = 0; i < plan.steps().size(); ++i) {
    const Step& step = plan.steps()[i];
    scene.steps.push_back(make_step(plan, listed, i, BoxLift(scene.dimensions, kept)));
    kept = without(std::move(kept), step.operation);
    const bool is_last = i + 1 == plan.steps().size();
    scene.frames.push_back(
        make_frame(scene.dimensions, kept, is_last ? scene.to : to_string(plan.mesh(), step.after), step.after));
    scene.steps.back().sentence =
        sentence_of(scene, scene.steps.back(), scene.frames[i], scene.frames[i + 1], step.operation) +
        (plan.time ? time_sentence(plan.time->steps[i]) : "");
  }
  scene.bound = std::max(scene.source().elements, scene.target().elements);
  scene.view = choose_view(scene);
  return scene;
}

void add_beside(Comparison& comparison, Scene scene) {
  if (scene.dimensions == comparison.front().dimensions) scene.view = comparison.front().view;
  comparison.push_back(std::move(scene));
}

std::optional<ViewFault> find_fault(const Scene& scene, const View& view) {
  const auto rank = static_cast<int>(scene.dimensions.size());
  for (std::size_t i = 0; i < view.dimensions.size(); ++i) {
    const int dimension = view.dimensions[i];
    const auto begin = view.dimensions.begin();
    if (i == View::most_dimensions) {
      return ViewFault{
          i, {"these are more than three dimensions", "three are drawn at a time; the page lets you choose others"}};
    }
    if (dimension < 0 || dimension >= rank) {
      return ViewFault{
          i,
          {fmt::format("there is no dimension {}", dimension), fmt::format("the plan has {}, counted from 0", rank)}};
    }
    if (std::count(begin, begin + static_cast<std::ptrdiff_t>(i), dimension) > 0) {
      return ViewFault{i, {fmt::format("dimension {} is named twice", dimension), {}}};
    }
  }
  return std::nullopt;
}

std::string quantity(const Scene& scene, std::int64_t elements) {
  if (!scene.element) return count_of(elements, "element");
  const auto bytes = static_cast<double>(elements) * static_cast<double>(bytes_of(*scene.element));
  constexpr std::pair<const char*, double> units[] = {
      {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}};
  for (const auto& [name, size] : units) {
    const double count = bytes / size;
    if (count >= 10 || (count >= 1 && count == std::floor(count * 100) / 100)) {
      return fmt::format("{:.{}f} {}", count, count == std::floor(count) ? 0 : count < 100 ? 2 : 1, name);
    }
  }
  return count_of(static_cast<std::int64_t>(bytes), "byte");
}

Box own_box(const SceneFrame& frame, const Box& box) {
  Box own;
  for (const int dimension : frame.dimensions) {
    own.lo.push_back(at(box.lo, dimension));
    own.hi.push_back(at(box.hi, dimension));
  }
  return own;
}

std::int64_t most(const std::vector<std::int64_t>& numbers) {
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
}

std::string list_devices(const std::vector<Device>& devices, std::size_t most) {
  if (devices.size() <= most) return fmt::format("{}", fmt::join(devices, " "));
  return fmt::format("{} +{}", fmt::join(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(most), " "),
                     devices.size() - most);
}

std::string describe_peak(const Scene& scene) {
  return fmt::format("peak {} per device, {}", quantity(scene, scene.peak),
                     compare_peak({scene.bound, scene.bound, scene.bound, scene.peak}));
}

}  // namespace retile::drawing
