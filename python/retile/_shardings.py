"""Layouts from frameworks' objects. They are recognised by their attributes: no framework is imported here."""

from collections.abc import Mapping, Sequence
from typing import Any

from retile._errors import InputError
from retile._retile import Layout, Mesh, Plan
from retile._retile import dtensor_layout as _dtensor_layout


def mesh_of(mesh: Any) -> Mesh:
    """The mesh of a mesh of JAX (concrete or abstract), of a mapping of names to sizes, or of retile's own."""
    if isinstance(mesh, Mesh):
        return mesh
    return Mesh(dict(mesh if isinstance(mesh, Mapping) else mesh.shape))


def from_partition_spec(spec: Any, mesh: Any, shape: Sequence[int], devices: Sequence[int] = ()) -> Layout:
    if getattr(spec, "unreduced", None):
        raise InputError(f"{spec} leaves a sum open")
    entries = tuple(spec)
    if len(entries) > len(shape):
        raise InputError(f"{spec} names {len(entries)} dimensions, but the array has {len(shape)}")
    axes = []
    for entry in entries + (None,) * (len(shape) - len(entries)):
        if entry is not None and not isinstance(entry, (str, tuple)):
            raise InputError(f"{spec} leaves a dimension open")
        # JAX lists axes from major to minor, retile from minor to major.
        axes.append([] if entry is None else [entry] if isinstance(entry, str) else list(reversed(entry)))
    return Layout.cut(mesh_of(mesh), list(shape), axes, devices=unless_in_order(devices))


def from_sharding(sharding: Any, shape: Sequence[int], devices: Sequence[int] = ()) -> Layout:
    if not hasattr(sharding, "spec") or not hasattr(sharding, "mesh"):
        raise InputError(f"{type(sharding).__name__} has no mesh and no spec: only a NamedSharding is a layout")
    return from_partition_spec(sharding.spec, sharding.mesh, shape, devices)


def from_placements(device_mesh: Any, placements: Sequence[Any], shape: Sequence[int]) -> Layout:
    return dtensor_layout(*device_mesh_values(device_mesh), [placement_values(one) for one in placements], shape)


def dtensor_layout(
    names: Sequence[str],
    sizes: Sequence[int],
    ranks: Sequence[int],
    placements: Sequence[tuple[str, int, int]],
    shape: Sequence[int],
) -> Layout:
    """The layout of the values of a DeviceMesh and of placements."""
    mesh = Mesh(dict(zip(names, sizes, strict=True)))
    return _dtensor_layout(mesh, unless_in_order(ranks), list(placements), list(shape))


def placement_values(placement: Any) -> tuple[str, int, int]:
    """The kind of a placement (replicate, shard, or how parts are combined), and the dimension and split factor of a
    shard."""
    kind = type(placement).__name__
    if kind == "Shard":
        return "shard", placement.dim, 1
    if kind == "_StridedShard":
        return "shard", placement.dim, int(placement.split_factor)
    if kind == "Partial" and placement.reduce_op in ("sum", "max", "min"):
        return placement.reduce_op, 0, 1
    if kind == "Replicate":
        return "replicate", 0, 1
    raise InputError(f"{placement!r} is no placement that retile knows")


def device_mesh_values(device_mesh: Any) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    """The names and sizes of a DeviceMesh's dimensions, and its ranks in row-major order."""
    names = device_mesh.mesh_dim_names or [f"dim_{i}" for i in range(device_mesh.ndim)]
    return tuple(names), tuple(device_mesh.mesh.shape), tuple(device_mesh.mesh.reshape(-1).tolist())


def unless_in_order(devices: Sequence[int]) -> list[int]:
    """The devices, or an empty list for 0, 1, 2, …"""
    return [] if list(devices) == list(range(len(devices))) else list(devices)


def annotated(plan: Plan, ends: Sequence[Any], mesh: Mesh, notation: str) -> list[str]:
    """The lines of a plan, each type with what a framework calls it. `ends` are the framework's own source and target.
    A type that the notation cannot express stays as it is. The plan's peak is called the largest tile."""
    lines = plan.explain().splitlines()
    stops = [number for number, line in enumerate(lines) if line.startswith("  [")]
    for number in stops:
        if number in (stops[0], stops[-1]):
            name = str(ends[number == stops[-1]])
        else:
            name = _name_of(lines[number].split("//")[0].strip(), mesh, notation)
        lines[number] += f", {name}" if name else ""
    return [line.replace("// peak ", "// largest tile ", 1) if line.startswith("// peak ") else line for line in lines]


def _name_of(type_text: str, mesh: Mesh, notation: str) -> str:
    try:
        return Layout(type_text, mesh).to_notation(notation)[1].replace("PartitionSpec", "P")
    except InputError:
        return ""
