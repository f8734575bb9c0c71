// Runs of all devices on threads, and the work of one device where somebody else carries messages.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "plans.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

// --- On threads.

void redistribute_arrays(const PythonPlan& plan, std::int64_t element_size, const std::vector<PythonArray>& sources,
                         const std::vector<PythonArray>& targets) {
  const ArraysInMemory from(sources, element_size);
  const ArraysInMemory to(targets, element_size);
  RedistributeOptions options;
  options.sources = from.layouts;
  options.targets = to.layouts;
  ByteRedistribution redistribution(plan.plan(), element_size, options);
  redistribution.run(from.sources(), to.spans);
}

// --- One device of many.

using PythonRegion = std::tuple<std::int64_t, Shape, Strides>;
using PythonCopy = std::tuple<PythonRegion, PythonRegion>;
using PythonMessage = std::tuple<Device, std::int64_t, std::vector<PythonRegion>>;
using PythonMessageRound = std::tuple<std::optional<PythonMessage>, std::optional<PythonMessage>>;
using PythonStage =
    std::tuple<std::int64_t, std::vector<PythonCopy>, std::vector<PythonMessageRound>, std::optional<std::string>>;

PythonRegion to_python(const Region& region) { return {region.offset, region.shape, region.strides}; }

std::optional<PythonMessage> to_python(const std::optional<Message>& message) {
  if (!message) return std::nullopt;
  std::vector<PythonRegion> regions;
  for (const Region& region : message->regions) regions.push_back(to_python(region));
  return PythonMessage{message->peer, message->bytes, std::move(regions)};
}

PythonStage to_python(const DeviceStage& stage) {
  PythonStage result;
  auto& [elements, copies, rounds, reduction] = result;
  elements = stage.elements;
  for (const RegionCopy& copy : stage.copies) copies.emplace_back(to_python(copy.from), to_python(copy.to));
  for (const MessageRound& round : stage.rounds) rounds.emplace_back(to_python(round.send), to_python(round.receive));
  if (stage.reduction) reduction = name_of(stage.reduction->reduction);
  return result;
}

std::vector<PythonStage> schedule_of(const PythonPlan& plan, Device device, std::int64_t element_size,
                                     std::int64_t message_bytes, const Strides& source, const Strides& target) {
  std::vector<PythonStage> stages;
  for (const DeviceStage& stage : device_schedule(plan.plan(), device, {element_size, message_bytes, source, target})) {
    stages.push_back(to_python(stage));
  }
  return stages;
}

// Combines rows. Addresses are those of packed arrays that the caller keeps alive.
void combine_parts(const std::string& reduction, const std::string& element_type, std::int64_t rows,
                   std::int64_t row_elements, std::uintptr_t source, std::uintptr_t target) {
  combine_rows(require(find_reduction(reduction), "reduction", reduction, "sum, max, min"),
               require(find_element_type(element_type), "element type", element_type, element_type_names), rows,
               // NOLINTNEXTLINE(*-reinterpret-cast): frameworks give addresses as numbers
               row_elements, reinterpret_cast<const std::byte*>(source), reinterpret_cast<std::byte*>(target));
}

}  // namespace

void bind_runs(nb::module_& module) {
  module.def("redistribute", &redistribute_arrays, "plan"_a, "element_size"_a, "sources"_a, "targets"_a,
             nb::call_guard<nb::gil_scoped_release>());
  module.def(
      "schedule", &schedule_of, "plan"_a, "device"_a, "element_size"_a, "message_bytes"_a, "source"_a = Strides(),
      "target"_a = Strides(), nb::call_guard<nb::gil_scoped_release>(),
      "The stages of one device, each with the elements of its tile afterwards, copies (from, to), rounds (send\n"
      "or None, receive or None) and, for a reduction, its name. A message is a peer, bytes and\n"
      "regions; a region is an offset, a shape and strides, in bytes from the first element of the tile. Strides of\n"
      "the device's own arrays are in bytes; an empty list where they are packed.");
  module.def("combine", &combine_parts, "reduction"_a, "element_type"_a, "rows"_a, "row_elements"_a, "source"_a,
             "target"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Carries out a stage's reduction: combines rows that lie one after the other at the address `source`, in\n"
             "order, into one at the address `target`. The bits are those of every engine.");
}

}  // namespace retile::python
