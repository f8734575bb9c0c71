"""What frameworks call layouts, as layouts. By the shape of their objects: no framework is imported here."""

from collections.abc import Mapping, Sequence
from typing import Any

from retile._errors import InputError
from retile._retile import Layout, Mesh


def mesh_of(mesh: Any) -> Mesh:
    """A mesh of JAX's, concrete or abstract, a mapping of names to sizes, or retile's own."""
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
        # JAX lists axes from major to minor, we from minor to major.
        axes.append([] if entry is None else [entry] if isinstance(entry, str) else list(reversed(entry)))
    return Layout.cut(mesh_of(mesh), list(shape), axes, devices=unless_in_order(devices))


def from_sharding(sharding: Any, shape: Sequence[int], devices: Sequence[int] = ()) -> Layout:
    if not hasattr(sharding, "spec") or not hasattr(sharding, "mesh"):
        raise InputError(f"{type(sharding).__name__} has no mesh and no spec: only a NamedSharding is a layout")
    return from_partition_spec(sharding.spec, sharding.mesh, shape, devices)


def from_placements(device_mesh: Any, placements: Sequence[Any], shape: Sequence[int]) -> Layout:
    return Layout.from_text(placements_text(placements), list(shape), device_mesh_text(device_mesh))


def placements_text(placements: Sequence[Any]) -> str:
    """As PyTorch prints them, whatever its version."""
    return "(" + "".join(placement_text(one) + ", " for one in placements) + ")"


def placement_text(placement: Any) -> str:
    kind = type(placement).__name__
    if kind == "Shard":
        return f"Shard(dim={placement.dim})"
    if kind == "_StridedShard":
        return f"_StridedShard(dim={placement.dim}, sf={int(placement.split_factor)})"
    if kind == "Partial" and placement.reduce_op in ("sum", "max", "min"):
        return f"Partial({placement.reduce_op})"
    if kind == "Replicate":
        return "Replicate()"
    raise InputError(f"{placement!r} is no placement that retile knows")


def device_mesh_text(device_mesh: Any) -> str:
    names = device_mesh.mesh_dim_names or [f"dim_{i}" for i in range(device_mesh.ndim)]
    return f"DeviceMesh({device_mesh.mesh.tolist()}, mesh_dim_names=({''.join(f'{name!r}, ' for name in names)}))"


def unless_in_order(devices: Sequence[int]) -> list[int]:
    """0, 1, 2, … goes without saying."""
    return [] if list(devices) == list(range(len(devices))) else list(devices)
