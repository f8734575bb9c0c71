#include "retile/engines/mpi/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "retile/plan/text.h"
#include "retile/types/text.h"

namespace retile::mpi {
namespace {

constexpr Device most_described = 256;

class Hash {
 public:
  void add(std::int64_t value) {
    state_ = (state_ ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15U;
    state_ ^= state_ >> 29U;
  }
  // With its length, so that neighbouring lists cannot be taken for others.
  void add(std::span<const std::int64_t> values) {
    add(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) add(value);
  }
  void add(const Placement& placement) {
    add(placement.global_shape());
    add(placement.local_shape());
    for (Device device = 0; device < placement.device_count(); ++device) {
      add(placement.offset(device));
      if (placement.is_even()) continue;
      for (const Part& part : placement.parts(device)) {
        add(part.box.lo);
        add(part.box.hi);
        add(part.offset);
      }
    }
  }
  void add(const Step& step) {
    add(static_cast<std::int64_t>(op_of(step)));
    std::visit([&](const auto& operation) { add_lists(operation); }, step.operation);
    add(step.after);
  }
  std::int64_t value() const { return static_cast<std::int64_t>(state_ >> 1U); }

 private:
  void add_lists(const SliceStep& /*step*/) {}
  void add_lists(const ReduceStep& step) {
    for (const int dimension : step.dimensions) add(dimension);
    add(static_cast<std::int64_t>(step.reduction));
    add(static_cast<std::int64_t>(step.element));
  }
  void add_lists(const PermuteStep& step) {
    for (const DevicePair& pair : *step.pairs) {
      add(pair.source);
      add(pair.target);
    }
  }
  void add_lists(const ExchangeStep& step) {
    if (!step.pieces) return add(-1);  // they follow from the boxes
    for (const Piece& transfer : *step.pieces) {
      add(transfer.from);
      add(transfer.to);
      add(transfer.box.lo);
      add(transfer.box.hi);
    }
  }
  template <typename Grouped>
  void add_lists(const Grouped& step) {
    for (const std::vector<Device>& group : *step.groups) add(group);
  }

  std::uint64_t state_ = 0;
};

}  // namespace

std::int64_t fingerprint(const Movement& movement, std::int64_t element_size) {
  Hash hash;
  hash.add(element_size);
  hash.add(movement.source);
  for (const Step& step : movement.steps) hash.add(step);
  return hash.value();
}

std::vector<Processes::Named> describe(const Movement& movement, std::int64_t element_size) {
  std::vector<Processes::Named> named{{"the size of an element", fmt::format("{} bytes", element_size)},
                                      {"the number of devices", std::to_string(movement.source.device_count())},
                                      {"the shape of the array", to_string(movement.source.global_shape())}};
  const auto add_boxes = [&](const Placement& placement, const std::string& when) {
    for (Device device = 0; device < std::min(placement.device_count(), most_described); ++device) {
      std::string boxes;
      for (const Part& part : placement.parts(device)) boxes += (boxes.empty() ? "" : " ") + to_string(part.box);
      named.push_back({fmt::format("what device {} holds {}", device, when), boxes.empty() ? "nothing" : boxes});
    }
  };
  add_boxes(movement.source, "at first");
  for (std::size_t i = 0; i < movement.steps.size(); ++i) {
    named.push_back({fmt::format("step {}", i), to_string(movement.steps[i])});
    add_boxes(movement.steps[i].after, fmt::format("after step {}", i));
  }
  named.push_back(
      {"the list of who sends to whom", fmt::format("one of number {}", fingerprint(movement, element_size))});
  return named;
}

}  // namespace retile::mpi
