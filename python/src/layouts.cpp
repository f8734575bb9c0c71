// Meshes and layouts. Frameworks' own are read in Python, or by the library's readers of their texts.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arguments.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

// --- Meshes.

Mesh mesh_of(const nb::dict& sizes) {
  std::vector<Axis> axes;
  for (const auto& [name, size] : sizes) {
    Axis axis;
    if (!nb::try_cast(name, axis.name)) refuse("the name of an axis", taken<std::string>, name);
    if (!nb::try_cast(size, axis.size)) refuse("the size of axis " + axis.name, taken<std::int64_t>, size);
    axes.push_back(std::move(axis));
  }
  return Mesh(std::move(axes));
}

nb::dict axes_of(const Mesh& mesh) {
  nb::dict axes;
  for (const Axis& axis : mesh.axes()) axes[axis.name.c_str()] = axis.size;
  return axes;
}

std::string repr_of(const Mesh& mesh) { return "Mesh(" + std::string(nb::repr(axes_of(mesh)).c_str()) + ")"; }

// --- Layouts.

// The mesh of a layout. Listed boxes have no axes: for them, one axis with all devices.
Mesh mesh_of(const Layout& layout) {
  if (const std::optional<MeshLayout> cuts = layout.cuts()) return cuts->mesh;
  return Mesh({{"device", layout.device_count()}});
}

AxisPart find_axis(const Mesh& mesh, const std::string& name) {
  const std::optional<int> axis = mesh.find_axis(name);
  if (axis) return mesh.whole(*axis);
  const Fault fault = unknown_axis(mesh, name);
  throw InputError(fault);
}

std::vector<AxisPart> find_axes(const Mesh& mesh, const std::vector<std::string>& names) {
  std::vector<AxisPart> parts;
  for (const std::string& name : names) parts.push_back(find_axis(mesh, name));
  return parts;
}

PythonLayout cut(Argument<"mesh", Mesh> mesh, Argument<"shape", Shape> shape,
                 Argument<"axes", std::vector<std::vector<std::string>>> axes, Argument<"uneven", std::string> uneven,
                 Argument<"sum", std::vector<std::string>> sum, Argument<"devices", std::vector<Device>> devices) {
  if (axes->size() != shape->size()) {
    throw InputError("there are axes for " + count_of(static_cast<std::int64_t>(axes->size()), "dimension") +
                         " of an array of rank " + std::to_string(shape->size()),
                     "give a list for each dimension, empty where it is not cut");
  }
  MeshLayout layout{*mesh, {}, UnevenRule::ceiling, {}, Reduction::sum, *devices};
  for (std::size_t i = 0; i < shape->size(); ++i) layout.view.push_back({{(*shape)[i], find_axes(*mesh, (*axes)[i])}});
  layout.rule = require(find_uneven_rule(*uneven), "rule for uneven cuts", *uneven, uneven_rule_names);
  layout.partial = find_axes(*mesh, *sum);
  return Layout(std::move(layout));
}

using BoxCorners = std::pair<Shape, Shape>;

std::vector<BoxCorners> boxes_of(const PythonLayout& self, Device device) {
  const std::int64_t count = self.layout.device_count();
  if (device < 0 || device >= count) throw nb::index_error("there is no such device");
  std::vector<BoxCorners> boxes;
  for (const Part& part : self.layout.placement().parts(device)) boxes.emplace_back(part.box.lo, part.box.hi);
  return boxes;
}

// --- Layouts of other systems.

std::pair<PythonLayout, PythonLayout> read_ends(Argument<"source", std::string> source,
                                                Argument<"target", std::string> target, Argument<"shape", Shape> shape,
                                                Argument<"mesh", MeshOrText> mesh) {
  interchange::Ends ends =
      interchange::parse_ends({"source", *source}, {"target", *target}, *shape, placed_mesh(*mesh, {}));
  return {PythonLayout(std::move(ends.source)), PythonLayout(std::move(ends.target))};
}

PythonLayout read_layout(Argument<"text", std::string> text, Argument<"shape", Shape> shape,
                         Argument<"mesh", MeshOrText> mesh, Argument<"devices", std::vector<Device>> devices) {
  const SourceText source{"layout", *text};
  return interchange::parse_ends(source, source, *shape, placed_mesh(*mesh, *devices)).source;
}

// A placement of DTensor: "replicate", "shard", "sum", "max" or "min"; the sharded dimension, and its split factor.
using PythonPlacement = std::tuple<std::string, std::int64_t, std::int64_t>;

interchange::DTensorPlacement to_placement(const PythonPlacement& given) {
  using Kind = interchange::DTensorPlacement::Kind;
  const auto& [kind, dimension, split_factor] = given;
  if (kind == "replicate") return {};
  if (kind == "shard") return {Kind::shard, dimension, split_factor};
  return {Kind::partial, 0, 1, require(find_reduction(kind), "placement", kind, "replicate, shard, sum, max, min")};
}

PythonLayout dtensor_layout(const Mesh& mesh, const std::vector<Device>& devices,
                            const std::vector<PythonPlacement>& placements, const Shape& shape) {
  std::vector<interchange::DTensorPlacement> values;
  for (const PythonPlacement& placement : placements) values.push_back(to_placement(placement));
  return interchange::dtensor_layout({mesh, devices}, values, shape);
}

// Calls a reader in Python: objects of frameworks are read there.
nb::object translated(const char* function, const nb::args& args, const nb::kwargs& kwargs) {
  return nb::module_::import_("retile._shardings").attr(function)(*args, **kwargs);
}

void bind_mesh(nb::module_& module) {
  nb::class_<Mesh>(module, "Mesh",
                   "Devices in a grid of named axes, numbered row-major: the first axis varies slowest.\n\n"
                   ">>> Mesh({'x': 2, 'y': 4}).size\n8")
      .def(
          "__init__", [](Mesh* self, Argument<"axes", nb::dict> axes) { new (self) Mesh(mesh_of(*axes)); },
          "axes"_argument, nb::sig("def __init__(self, axes: dict[str, int]) -> None"))
      .def_prop_ro(
          "axes", [](const Mesh& self) { return axes_of(self); }, nb::sig("def axes(self) -> dict[str, int]"),
          "The sizes of the axes, in order.")
      .def_prop_ro("size", &Mesh::device_count, "The number of devices.")
      .def("__repr__", [](const Mesh& self) { return repr_of(self); })
      .def(
          "__eq__", [](const Mesh& self, const Mesh& other) { return self == other; }, nb::is_operator())
      .def("__hash__", [](const Mesh& self) { return std::hash<std::string>{}(to_string(self)); })
      .def("__reduce__",
           [](const Mesh& self) { return nb::make_tuple(nb::type<Mesh>(), nb::make_tuple(axes_of(self))); });
}

void bind_layout(nb::module_& module) {
  nb::class_<PythonLayout>(module, "Layout",
                           "A layout: which boxes of an array each device holds.\n\n"
                           ">>> mesh = Mesh({'x': 2, 'y': 4})\n"
                           ">>> rows = Layout('[4{y,x}32, 6]', mesh)   # y varies fastest\n"
                           ">>> rows == Layout.cut(mesh, (32, 6), [['y', 'x'], []])\nTrue\n"
                           ">>> rows.boxes(1)\n[([4, 0], [8, 6])]",
                           nb::is_final())
      .def(
          "__init__",
          [](PythonLayout* self, Argument<"text", std::string> text, Argument<"mesh", Mesh> mesh) {
            new (self) PythonLayout(parse_layout(SourceText{"layout", *text}, *mesh));
          },
          "text"_argument, "mesh"_argument, nb::sig("def __init__(self, text: str, mesh: Mesh) -> None"))
      .def_static("cut", &cut, "mesh"_argument, "shape"_argument, "axes"_argument, nb::kw_only(),
                  "uneven"_argument = "ceil", "sum"_argument = std::vector<std::string>(),
                  "devices"_argument = std::vector<Device>(),
                  nb::sig("def cut(mesh: Mesh, shape: collections.abc.Sequence[int], axes: "
                          "collections.abc.Sequence[collections.abc.Sequence[str]], *, uneven: str = 'ceil', sum: "
                          "collections.abc.Sequence[str] = (), devices: collections.abc.Sequence[int] = ()) -> Layout"),
                  "The layout of an array of this shape, cut along axes: a list for each dimension, minor to major.\n\n"
                  "`uneven` is the rule for sizes that do not divide: 'ceil' (XLA), 'nested' (DTensor), 'balanced'\n"
                  "(numpy.array_split), 'last' (2DECOMP&FFT). Devices along the axes in `sum` hold parts that are to "
                  "be added up. `devices`\n"
                  "are those of the mesh, in its order; 0, 1, 2, … by default.")
      .def_static(
          "from_text", &read_layout, "text"_argument, "shape"_argument, "mesh"_argument = nb::none(),
          "devices"_argument = std::vector<Device>(),
          nb::sig("def from_text(text: str, shape: collections.abc.Sequence[int], mesh: Mesh | str | None = None, "
                  "devices: collections.abc.Sequence[int] = ()) -> Layout"),
          "The layout in a text that XLA, JAX, Shardy, DTensor, MLIR or retile print for an array's sharding. Some\n"
          "notations need a mesh: as they print it, or retile's with its devices.\n\n"
          ">>> Layout.from_text('{devices=[4,1,2]<=[8] last_tile_dim_replicate}', (32, 6)).text\n"
          "'[8{a}32, 6]'\n"
          ">>> Layout.from_text('(Shard(dim=0), Replicate())', (5, 6), Mesh({'dp': 2, 'tp': 2})).text\n"
          "'[3{dp}5, 6]'")
      .def_static(
          "from_partition_spec",
          [](nb::args args, nb::kwargs kwargs) { return translated("from_partition_spec", args, kwargs); },
          nb::sig("def from_partition_spec(spec: typing.Any, mesh: typing.Any, shape: "
                  "collections.abc.Sequence[int], devices: collections.abc.Sequence[int] = ()) -> Layout"),
          "The layout of a jax.sharding.PartitionSpec (or a tuple like one) for an array of this shape.\n\n"
          ">>> Layout.from_partition_spec((('x', 'y'), None), {'x': 2, 'y': 4}, (32, 6)).text\n"
          "'[4{y,x}32, 6]'")
      .def_static(
          "from_sharding", [](nb::args args, nb::kwargs kwargs) { return translated("from_sharding", args, kwargs); },
          nb::sig("def from_sharding(sharding: typing.Any, shape: collections.abc.Sequence[int], "
                  "devices: collections.abc.Sequence[int] = ()) -> Layout"),
          "The layout of a jax.sharding.NamedSharding. `devices` are the numbers of its mesh's devices, in order.")
      .def_static(
          "from_placements",
          [](nb::args args, nb::kwargs kwargs) { return translated("from_placements", args, kwargs); },
          nb::sig("def from_placements(device_mesh: typing.Any, placements: "
                  "collections.abc.Sequence[typing.Any], shape: collections.abc.Sequence[int]) -> Layout"),
          "The layout of a DTensor with these placements on a DeviceMesh of PyTorch.")
      .def_prop_ro("text", [](const PythonLayout& self) { return self.text; })
      .def_prop_ro("mesh", [](const PythonLayout& self) { return mesh_of(self.layout); })
      .def_prop_ro(
          "shape", [](const PythonLayout& self) { return nb::tuple(nb::cast(self.layout.global_shape())); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Of the whole array.")
      .def_prop_ro("device_count", [](const PythonLayout& self) { return self.layout.device_count(); })
      .def_prop_ro(
          "devices",
          [](const PythonLayout& self) {
            const std::optional<MeshLayout> cuts = self.layout.cuts();
            return cuts && !cuts->devices.empty() ? cuts->devices : all_devices(self.layout.device_count());
          },
          "The devices of the mesh, in its order.")
      .def(
          "to_notation",
          [](const PythonLayout& self, Argument<"notation", std::string> notation) {
            const interchange::NotationText text = interchange::to_notation(
                self.layout,
                require(interchange::find_notation(*notation), "notation", *notation, interchange::notation_names));
            return std::make_pair(text.mesh, text.layout);
          },
          "notation"_argument, nb::sig("def to_notation(self, notation: str) -> tuple[str, str]"),
          "The texts of mesh and layout as xla, jax, shardy, dtensor or mlir print them; no mesh where the layout's "
          "text defines it.\n\n"
          ">>> Layout('[4{y,x}32, 6]', Mesh({'x': 2, 'y': 4})).to_notation('jax')\n"
          "(\"Mesh('x': 2, 'y': 4)\", \"PartitionSpec(('x', 'y'), None)\")")
      .def_prop_ro(
          "partial",
          [](const PythonLayout& self) {
            std::vector<std::string> axes;
            for (const AxisPart& part : self.layout.partial()) axes.push_back(to_string(mesh_of(self.layout), part));
            return axes;
          },
          "The axes along which devices hold parts of a sum or the like.")
      .def(
          "tile_shape",
          [](const PythonLayout& self, Argument<"device", Device> device) {
            return nb::tuple(nb::cast(self.layout.local_shape(*device)));
          },
          "device"_argument, nb::sig("def tile_shape(self, device: int) -> tuple[int, ...]"),
          "The shape of the array that the device holds; for several listed boxes, the number of elements.")
      .def_prop_ro(
          "local_size", [](const PythonLayout& self) { return self.layout.local_size(); },
          "The number of elements on the device that holds the most.")
      .def(
          "boxes", [](const PythonLayout& self, Argument<"device", Device> device) { return boxes_of(self, *device); },
          "device"_argument, nb::sig("def boxes(self, device: int) -> list[tuple[list[int], list[int]]]"),
          "The corners (the first element, and beyond the last) of the boxes that the device holds.")
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

}  // namespace

std::optional<interchange::PlacedMesh> placed_mesh(const MeshOrText& mesh, const std::vector<Device>& devices) {
  if (!mesh) return std::nullopt;
  if (const auto* own = std::get_if<Mesh>(&*mesh)) return interchange::PlacedMesh{*own, devices};
  return interchange::parse_placed_mesh({"mesh", std::get<std::string>(*mesh)});
}

void bind_layouts(nb::module_& module) {
  bind_mesh(module);
  bind_layout(module);
  module.def("parse_ends", &read_ends, "source"_argument, "target"_argument, "shape"_argument, "mesh"_argument,
             nb::sig("def parse_ends(source: str, target: str, shape: collections.abc.Sequence[int], "
                     "mesh: Mesh | str | None) -> tuple[Layout, Layout]"));
  module.def("dtensor_layout", &dtensor_layout, "mesh"_a, "devices"_a, "placements"_a, "shape"_a,
             "The layout of placements of DTensor, each as replicate, shard, sum, max or min, a dimension and a split\n"
             "factor. `devices` are those of the mesh, in its order; an empty list means 0, 1, 2, …");
}

}  // namespace retile::python
