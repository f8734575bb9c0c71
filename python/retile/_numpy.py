"""Arrays of NumPy, moved on threads."""

import math
from collections.abc import Sequence
from typing import Any

from retile._errors import InputError
from retile._retile import Layout, Plan
from retile._retile import redistribute as _redistribute


def _tile_shape(layout: Layout, device: int) -> tuple[int, ...]:
    """What lies in a device's array: its box, or the elements of its boxes one after the other where it has several."""
    boxes = layout.boxes(device)
    sizes = [tuple(hi - lo for lo, hi in zip(*box, strict=True)) for box in boxes]
    if len(sizes) == 1:
        return sizes[0]
    if not sizes:
        return (0,) * len(layout.shape)
    return (sum(math.prod(size) for size in sizes),)


def _faults(arrays: Sequence[Any], layout: Layout, devices: int, what: str) -> list[str]:
    if len(arrays) != devices:
        return [f"there are {len(arrays)} {what}s for {devices} devices"]
    faults = []
    for device, array in enumerate(arrays):
        expected = _tile_shape(layout, device)
        if tuple(array.shape) != expected:
            faults.append(f"the {what} of device {device} has shape {list(array.shape)}, not {list(expected)}")
        if array.dtype != arrays[0].dtype:
            faults.append(
                f"the {what} of device {device} has elements of {array.dtype}, the first of {arrays[0].dtype}"
            )
    return faults


def redistribute(tiles: Sequence[Any], plan: Plan, out: Sequence[Any] | None = None) -> list[Any]:
    """Moves the tiles of all devices by the plan, and returns those of its target: `out`, or new arrays.

    Arrays may be strided in any way and are moved as they lie; `out` must not overlap `tiles`.

    >>> import numpy as np, retile
    >>> mesh = retile.Mesh({"x": 2})
    >>> rows, columns = retile.Layout("[2{x}4, 4]", mesh), retile.Layout("[4, 2{x}4]", mesh)
    >>> array = np.arange(16).reshape(4, 4)
    >>> left, right = retile.redistribute([array[:2], array[2:]], retile.plan(rows, columns, dtype=array.dtype))
    >>> right.tolist()
    [[2, 3], [6, 7], [10, 11], [14, 15]]
    """
    import numpy

    source, target = plan.source, plan.target
    devices = max(source.device_count, target.device_count)
    sources = [numpy.asarray(tile) for tile in tiles]
    faults = _faults(sources, source, devices, "source")
    if faults:
        raise InputError("\n".join(faults))
    dtype = sources[0].dtype
    if out is None:
        targets = [numpy.empty(_tile_shape(target, device), dtype) for device in range(devices)]
    else:
        targets = list(out)
        faults = _faults(targets, target, devices, "target")
        faults += [f"the target of device {i} is read-only" for i, a in enumerate(targets) if not a.flags.writeable]
        if targets and targets[0].dtype != dtype:
            faults.append(f"targets have elements of {targets[0].dtype}, sources of {dtype}")
        if faults:
            raise InputError("\n".join(faults))
    if dtype.hasobject:
        raise InputError("arrays of Python objects cannot be moved as bytes")
    _redistribute(
        plan, dtype.itemsize, *([(a.ctypes.data, a.shape, a.strides) for a in side] for side in (sources, targets))
    )
    return targets
