// retile._retile: the library's values for Python. What frameworks call things is translated in Python (python/retile).
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "retile/retile.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

// --- Errors.

std::string text_of(const Diagnostic& diagnostic) {
  std::string text = to_string(diagnostic);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void raise(const char* kind, const Diagnostic& diagnostic) {
  PyErr_SetString(nb::module_::import_("retile._errors").attr(kind).ptr(), text_of(diagnostic).c_str());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const MemoryLimitError& error) {
    raise("MemoryLimitError", error.diagnostic());
  } catch (const InputError& error) {
    raise("InputError", error.diagnostic());
  }
}

template <typename Value>
Value require(const std::optional<Value>& value, const char* what, const std::string& given, std::string_view known) {
  if (value) return *value;
  throw InputError("'" + given + "' is no " + what, "one of: " + std::string(known));
}

// --- Meshes.

Mesh mesh_of(const nb::dict& sizes) {
  std::vector<Axis> axes;
  for (const auto& [name, size] : sizes) axes.push_back({nb::cast<std::string>(name), nb::cast<std::int64_t>(size)});
  return Mesh(std::move(axes));
}

nb::dict axes_of(const Mesh& mesh) {
  nb::dict axes;
  for (const Axis& axis : mesh.axes()) axes[axis.name.c_str()] = axis.size;
  return axes;
}

std::string repr_of(const Mesh& mesh) { return "Mesh(" + std::string(nb::repr(axes_of(mesh)).c_str()) + ")"; }

// --- Layouts: they are keys of caches, so their text is made once.

struct PythonLayout {
  Layout layout;
  std::string text;
  std::size_t hash;

  // NOLINTNEXTLINE(*-explicit-*): the same value
  PythonLayout(Layout given)
      : layout(std::move(given)), text(to_string(layout)), hash(std::hash<std::string>{}(text)) {}
  bool operator==(const PythonLayout& other) const {
    return hash == other.hash && text == other.text && layout == other.layout;
  }
};

// Boxes alone know no axes: there, one axis of all devices.
Mesh mesh_of(const Layout& layout) {
  if (const std::optional<MeshLayout> cuts = layout.cuts()) return cuts->mesh;
  return Mesh({{"device", layout.device_count()}});
}

AxisPart find_axis(const Mesh& mesh, const std::string& name) {
  const std::optional<int> axis = mesh.find_axis(name);
  if (axis) return mesh.whole(*axis);
  const Fault fault = unknown_axis(mesh, name);
  throw InputError(fault.message, fault.hint);
}

std::vector<AxisPart> find_axes(const Mesh& mesh, const std::vector<std::string>& names) {
  std::vector<AxisPart> parts;
  for (const std::string& name : names) parts.push_back(find_axis(mesh, name));
  return parts;
}

PythonLayout cut(const Mesh& mesh, const Shape& shape, const std::vector<std::vector<std::string>>& axes,
                 const std::string& uneven, const std::vector<std::string>& sum, const std::vector<Device>& devices) {
  if (axes.size() != shape.size()) {
    throw InputError("there are axes for " + count_of(static_cast<std::int64_t>(axes.size()), "dimension") +
                         " of an array of rank " + std::to_string(shape.size()),
                     "give a list for each dimension, empty where it is not cut");
  }
  MeshLayout layout{mesh, {}, UnevenRule::ceiling, {}, Reduction::sum, devices};
  for (std::size_t i = 0; i < shape.size(); ++i) layout.view.push_back({{shape[i], find_axes(mesh, axes[i])}});
  layout.rule = require(find_uneven_rule(uneven), "rule for uneven cuts", uneven, uneven_rule_names);
  layout.partial = find_axes(mesh, sum);
  return Layout(std::move(layout));
}

// Layouts of frameworks' own are read in Python.
nb::object translated(const char* function, const nb::args& args, const nb::kwargs& kwargs) {
  return nb::module_::import_("retile._shardings").attr(function)(*args, **kwargs);
}

using BoxCorners = std::pair<Shape, Shape>;

std::vector<BoxCorners> boxes_of(const PythonLayout& self, Device device) {
  const std::int64_t count = self.layout.device_count();
  if (device < 0 || device >= count) throw nb::index_error("there is no such device");
  std::vector<BoxCorners> boxes;
  for (const Part& part : self.layout.placement().parts(device)) boxes.emplace_back(part.box.lo, part.box.hi);
  return boxes;
}

// --- Plans.

// Lists of devices that the planner left to be worked out are there, always.
Plan with_lists(Plan plan) {
  bool is_listed = true;
  for (const Step& step : plan.steps()) {
    if (const auto* all = std::get_if<AllToAllStep>(&step.operation)) is_listed &= all->groups.has_value();
    if (const auto* gather = std::get_if<GatherStep>(&step.operation)) is_listed &= gather->groups.has_value();
    if (const auto* permute = std::get_if<PermuteStep>(&step.operation)) is_listed &= permute->pairs.has_value();
    if (const auto* exchange = std::get_if<ExchangeStep>(&step.operation)) is_listed &= exchange->transfers.has_value();
  }
  if (is_listed) return plan;
  return parse_plan({"plan", to_json(plan, PlanLists::always)}).plan;
}

class PythonPlan {
 public:
  explicit PythonPlan(Plan plan) : plan_(std::move(plan)) {}

  const Plan& plan() const { return plan_; }

  std::shared_ptr<const Plan> listed() const {
    const std::scoped_lock lock(mutex_);
    if (!listed_) listed_ = std::make_shared<const Plan>(with_lists(plan_));
    return listed_;
  }

  // Equal plans have equal keys, whatever time they took to find.
  const std::string& key() const {
    const std::scoped_lock lock(mutex_);
    if (key_.empty()) {
      Plan timeless = plan_;
      timeless.planning_ns = 0;
      key_ = to_json(timeless, PlanLists::always);
    }
    return key_;
  }

 private:
  Plan plan_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Plan> listed_;
  mutable std::string key_;
};

std::unique_ptr<PythonPlan> plan(const PythonLayout& source, const PythonLayout& target,
                                 const std::string& element_type, const std::string& planner, const std::string& cost,
                                 std::optional<std::int64_t> memory_limit, bool exchange) {
  PlanOptions options;
  options.planner = require(find_planner(planner), "planner", planner, planner_names);
  const CostModel* model = find_cost_model(cost);
  if (model == nullptr) throw InputError("'" + cost + "' is no cost model", "one of: " + cost_model_names());
  options.cost_model = model;
  options.exchange = exchange ? ExchangeUse::allowed : ExchangeUse::avoided;
  options.memory_limit = memory_limit;
  const ElementType type = require(find_element_type(element_type), "element type", element_type, element_type_names);
  return std::make_unique<PythonPlan>(make_plan(Problem("", source.layout, target.layout, type), options));
}

std::unique_ptr<PythonPlan> plan_from_json(const std::string& text) {
  return std::make_unique<PythonPlan>(parse_plan({"plan", text}).plan);
}

// A step and the plan that it belongs to.
struct PythonStep {
  std::shared_ptr<const Plan> plan;
  std::size_t index;

  const Step& step() const { return plan->steps()[index]; }
  template <typename Operation>
  const Operation* as() const {
    return std::get_if<Operation>(&step().operation);
  }
};

std::vector<Shape> offsets_of(const Placement& placement) {
  std::vector<Shape> offsets;
  for (Device device = 0; device < placement.device_count(); ++device) offsets.push_back(placement.box(device).lo);
  return offsets;
}

std::vector<PythonStep> steps_of(const PythonPlan& self) {
  std::vector<PythonStep> steps;
  for (std::size_t i = 0; i < self.plan().steps().size(); ++i) steps.push_back({self.listed(), i});
  return steps;
}

using PythonRound = std::tuple<std::vector<Device>, std::vector<Shape>, std::vector<Shape>>;
using PythonRounds = std::tuple<Shape, std::vector<PythonRound>, std::vector<PythonRound>>;

std::vector<PythonRound> to_python(const std::vector<Round>& rounds) {
  std::vector<PythonRound> result;
  for (const Round& round : rounds) result.emplace_back(round.senders, round.taken_from, round.written_to);
  return result;
}

std::optional<PythonRounds> rounds_of(const PythonPlan& self, std::size_t first, std::size_t last) {
  const Movement& movement = self.plan().movement;
  const std::optional<Rounds> rounds = find_rounds(movement.before(first), movement.before(last + 1));
  if (!rounds) return std::nullopt;
  return PythonRounds{rounds->cell, to_python(rounds->own), to_python(rounds->exchanged)};
}

// --- Runs.

// Where an array lies: the address of its first element, its shape, and bytes from an element to the next one.
using PythonArray = std::tuple<std::uintptr_t, Shape, Strides>;

struct ArraysInMemory {
  std::vector<MemoryLayout> layouts;
  std::vector<std::pair<std::byte*, std::size_t>> spans;
};

ArraysInMemory in_memory(const std::vector<PythonArray>& arrays, std::int64_t element_size) {
  ArraysInMemory result;
  for (const auto& [address, shape, strides] : arrays) {
    const std::optional<Reach> reach = reach_of({box_at(Shape(shape.size()), shape), strides}, element_size);
    if (!reach) throw RuntimeError("an array reaches beyond 62 bits");
    result.layouts.push_back({-reach->begin, strides});
    // NOLINTNEXTLINE(*-reinterpret-cast): NumPy gives addresses as numbers
    result.spans.emplace_back(reinterpret_cast<std::byte*>(address) + reach->begin,
                              static_cast<std::size_t>(reach->end - reach->begin));
  }
  return result;
}

void redistribute_arrays(const PythonPlan& plan, std::int64_t element_size, const std::vector<PythonArray>& sources,
                         const std::vector<PythonArray>& targets) {
  const ArraysInMemory from = in_memory(sources, element_size);
  const ArraysInMemory to = in_memory(targets, element_size);
  RedistributeOptions options;
  options.sources = from.layouts;
  options.targets = to.layouts;
  ByteRedistribution redistribution(plan.plan(), element_size, options);
  std::vector<std::span<const std::byte>> source_spans;
  std::vector<std::span<std::byte>> target_spans;
  for (const auto& [data, size] : from.spans) source_spans.emplace_back(data, size);
  for (const auto& [data, size] : to.spans) target_spans.emplace_back(data, size);
  redistribution.run(source_spans, target_spans);
}

// --- The module.

void bind_mesh(nb::module_& module) {
  nb::class_<Mesh>(module, "Mesh",
                   "Devices in a grid of named axes, numbered row-major: the first axis varies slowest.\n\n"
                   ">>> Mesh({'x': 2, 'y': 4}).size\n8")
      .def(
          "__init__", [](Mesh* self, const nb::dict& axes) { new (self) Mesh(mesh_of(axes)); }, "axes"_a,
          nb::sig("def __init__(self, axes: dict[str, int]) -> None"))
      .def_prop_ro(
          "axes", [](const Mesh& self) { return axes_of(self); }, nb::sig("def axes(self) -> dict[str, int]"),
          "Sizes of the axes, in order.")
      .def_prop_ro("size", &Mesh::device_count, "How many devices there are.")
      .def("__repr__", [](const Mesh& self) { return repr_of(self); })
      .def(
          "__eq__", [](const Mesh& self, const Mesh& other) { return self == other; }, nb::is_operator())
      .def("__hash__", [](const Mesh& self) { return std::hash<std::string>{}(to_string(self)); })
      .def("__reduce__",
           [](const Mesh& self) { return nb::make_tuple(nb::type<Mesh>(), nb::make_tuple(axes_of(self))); });
}

void bind_layout(nb::module_& module) {
  nb::class_<PythonLayout>(module, "Layout",
                           "Which boxes of an array each device holds.\n\n"
                           ">>> mesh = Mesh({'x': 2, 'y': 4})\n"
                           ">>> rows = Layout('[4{y,x}32, 6]', mesh)   # y varies fastest\n"
                           ">>> rows == Layout.cut(mesh, (32, 6), [['y', 'x'], []])\nTrue\n"
                           ">>> rows.boxes(1)\n[([4, 0], [8, 6])]",
                           nb::is_final())
      .def(
          "__init__",
          [](PythonLayout* self, const std::string& text, const Mesh& mesh) {
            new (self) PythonLayout(parse_layout(SourceText{"layout", text}, mesh));
          },
          "text"_a, "mesh"_a)
      .def_static("cut", &cut, "mesh"_a, "shape"_a, "axes"_a, nb::kw_only(), "uneven"_a = "ceil",
                  "sum"_a = std::vector<std::string>(), "devices"_a = std::vector<Device>(),
                  "An array of this shape, cut along axes: a list for each dimension, minor to major.\n\n"
                  "`uneven` is the rule where sizes do not divide: 'ceil' (XLA), 'nested' (DTensor), 'balanced'\n"
                  "(numpy.array_split). Devices along the axes in `sum` hold parts that are to be added up. `devices`\n"
                  "are those of the mesh, in its order; 0, 1, 2, … unless told.")
      .def_static(
          "from_partition_spec",
          [](nb::args args, nb::kwargs kwargs) { return translated("from_partition_spec", args, kwargs); },
          nb::sig("def from_partition_spec(spec: typing.Any, mesh: typing.Any, shape: "
                  "collections.abc.Sequence[int], devices: collections.abc.Sequence[int] = ()) -> Layout"),
          "What a jax.sharding.PartitionSpec (or a tuple like one) says of an array of this shape.\n\n"
          ">>> Layout.from_partition_spec((('x', 'y'), None), {'x': 2, 'y': 4}, (32, 6)).text\n"
          "'[4{y,x}32, 6]'")
      .def_static(
          "from_sharding", [](nb::args args, nb::kwargs kwargs) { return translated("from_sharding", args, kwargs); },
          nb::sig("def from_sharding(sharding: typing.Any, shape: collections.abc.Sequence[int], "
                  "devices: collections.abc.Sequence[int] = ()) -> Layout"),
          "What a jax.sharding.NamedSharding says. `devices` are the numbers of its mesh's devices, in order.")
      .def_static(
          "from_placements",
          [](nb::args args, nb::kwargs kwargs) { return translated("from_placements", args, kwargs); },
          nb::sig("def from_placements(device_mesh: typing.Any, placements: "
                  "collections.abc.Sequence[typing.Any], shape: collections.abc.Sequence[int]) -> Layout"),
          "What a DeviceMesh of PyTorch and the placements of a DTensor on it say.")
      .def_prop_ro("text", [](const PythonLayout& self) { return self.text; })
      .def_prop_ro("mesh", [](const PythonLayout& self) { return mesh_of(self.layout); })
      .def_prop_ro(
          "shape", [](const PythonLayout& self) { return nb::tuple(nb::cast(self.layout.global_shape())); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Of the whole array.")
      .def_prop_ro("device_count", [](const PythonLayout& self) { return self.layout.device_count(); })
      .def("boxes", &boxes_of, "device"_a,
           "The corners (first and beyond the last) of the boxes that the device holds.")
      .def("__str__", [](const PythonLayout& self) { return self.text; })
      .def(
          "__repr__",
          [](const PythonLayout& self) { return "Layout('" + self.text + "', " + repr_of(mesh_of(self.layout)) + ")"; })
      .def(
          "__eq__", [](const PythonLayout& self, const PythonLayout& other) { return self == other; },
          nb::is_operator())
      .def("__hash__", [](const PythonLayout& self) { return self.hash; })
      .def("__reduce__", [](const PythonLayout& self) {
        return nb::make_tuple(nb::type<PythonLayout>(), nb::make_tuple(self.text, mesh_of(self.layout)));
      });
}

void bind_step(nb::module_& module) {
  nb::class_<PythonStep>(module, "Step", "A step of a plan. Devices are numbers, boxes are pairs of corners.")
      .def_prop_ro(
          "op", [](const PythonStep& self) { return name_of(op_of(self.step())); },
          "dynslice, alltoall, allgather, allpermute or exchange.")
      .def_prop_ro("cost", [](const PythonStep& self) { return self.plan->cost.steps.at(self.index); })
      .def_prop_ro(
          "groups",
          [](const PythonStep& self) {
            const Groups* groups = groups_of(self.step().operation);
            return groups == nullptr ? std::optional<Groups>() : *groups;
          },
          "Of an alltoall or allgather: members in row-major order of the corners that they held.")
      .def_prop_ro(
          "pairs",
          [](const PythonStep& self) {
            using Pairs = std::vector<std::pair<Device, Device>>;
            const auto* permute = self.as<PermuteStep>();
            if (permute == nullptr) return std::optional<Pairs>();
            Pairs pairs;
            for (const DevicePair& pair : *permute->pairs) pairs.emplace_back(pair.source, pair.target);
            return std::optional<Pairs>(std::move(pairs));
          },
          "Of an allpermute: who sends its tile to whom.")
      .def_prop_ro(
          "transfers",
          [](const PythonStep& self) {
            using Transfers = std::vector<std::tuple<Device, Device, Shape, Shape>>;
            const auto* exchange = self.as<ExchangeStep>();
            if (exchange == nullptr) return std::optional<Transfers>();
            Transfers transfers;
            for (const Transfer& one : *exchange->transfers) {
              transfers.emplace_back(one.from, one.to, one.box.lo, one.box.hi);
            }
            return std::optional<Transfers>(std::move(transfers));
          },
          "Of an exchange: sender, receiver, and the corners of the box.")
      .def_prop_ro("local_in",
                   [](const PythonStep& self) { return self.plan->movement.before(self.index).local_shape(); })
      .def_prop_ro("local_out", [](const PythonStep& self) { return self.step().local_out(); })
      .def_prop_ro(
          "offsets_in", [](const PythonStep& self) { return offsets_of(self.plan->movement.before(self.index)); },
          "The corner of each device's tile before the step.")
      .def_prop_ro(
          "offsets_out", [](const PythonStep& self) { return offsets_of(self.step().after); }, "The same after it.")
      .def("__repr__", [](const PythonStep& self) { return to_string(self.step()); });
}

void bind_plan(nb::module_& module) {
  nb::class_<PythonPlan>(module, "Plan",
                         "Steps from one layout to another, what they cost, and what is proved of that. Made by "
                         "`retile.plan`.")
      .def_static("from_json", &plan_from_json, "text"_a, "The plan that to_json() wrote, or anybody else.")
      .def_prop_ro("source", [](const PythonPlan& self) { return PythonLayout(self.plan().source); })
      .def_prop_ro("target", [](const PythonPlan& self) { return PythonLayout(self.plan().target); })
      .def_prop_ro("planner", [](const PythonPlan& self) { return self.plan().planner; })
      .def_prop_ro("steps", &steps_of)
      .def_prop_ro("cost", [](const PythonPlan& self) { return self.plan().cost.total; })
      .def_prop_ro("cost_model", [](const PythonPlan& self) { return self.plan().cost.model; })
      .def_prop_ro(
          "lower_bound", [](const PythonPlan& self) { return self.plan().cost.lower_bound; },
          "No plan of the planner's steps costs less.")
      .def_prop_ro(
          "floor", [](const PythonPlan& self) { return self.plan().cost.floor; },
          "Elements that some device must receive, whatever the plan.")
      .def_prop_ro(
          "optimal", [](const PythonPlan& self) { return self.plan().cost.optimal; },
          "Whether it is proved that no plan of the planner's steps costs less.")
      .def_prop_ro(
          "peak", [](const PythonPlan& self) { return self.plan().memory.peak; },
          "Elements of the largest tile on the way.")
      .def_prop_ro("planning_ns", [](const PythonPlan& self) { return self.plan().planning_ns; })
      .def(
          "explain", [](const PythonPlan& self) { return to_string(self.plan()); },
          "The plan as text: layouts, steps and costs.")
      .def(
          "to_json", [](const PythonPlan& self) { return to_json(self.plan(), PlanLists::always); },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "verify", [](const PythonPlan& self) { return find_faults(self.plan()); },
          nb::call_guard<nb::gil_scoped_release>(),
          "Replays the plan box by box: a sentence for each fault, none where it is right.")
      .def("_rounds", &rounds_of, "first"_a, "last"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Steps first to last as rounds in which each device sends and receives one cell: the cell's shape, the\n"
           "rounds that every device keeps to itself and those between devices, each as the senders to each device,\n"
           "the corners that they take a cell from, and those that it is written to. None where tiles are uneven.")
      .def("__str__", [](const PythonPlan& self) { return to_string(self.plan()); })
      .def("__repr__", [](const PythonPlan& self) { return "Plan.from_json('" + self.key() + "')"; })
      .def(
          "__eq__", [](const PythonPlan& self, const PythonPlan& other) { return self.key() == other.key(); },
          nb::is_operator())
      .def("__hash__", [](const PythonPlan& self) { return std::hash<std::string>{}(self.key()); })
      .def("__getstate__", [](const PythonPlan& self) { return to_json(self.plan(), PlanLists::always); })
      .def("__setstate__", [](PythonPlan& self, const std::string& text) {
        new (&self) PythonPlan(parse_plan({"plan", text}).plan);
      });
}

}  // namespace

NB_MODULE(_retile, module) {
  module.attr("__version__") = RETILE_VERSION;
  nb::register_exception_translator(translate);
  bind_mesh(module);
  bind_layout(module);
  bind_step(module);
  bind_plan(module);
  module.def("plan", &plan, "source"_a, "target"_a, "element_type"_a, "planner"_a, "cost"_a, "memory_limit"_a.none(),
             "exchange"_a, nb::call_guard<nb::gil_scoped_release>());
  module.def(
      "parse_problem",
      [](const std::string& line) {
        const Problem problem = parse_problem(SourceText{"problem", line});
        return std::make_tuple(PythonLayout(problem.source()), PythonLayout(problem.target()),
                               std::string(name_of(problem.element_type())));
      },
      "line"_a);
  module.def("redistribute", &redistribute_arrays, "plan"_a, "element_size"_a, "sources"_a, "targets"_a,
             nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace retile::python
