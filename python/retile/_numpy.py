"""NumPy arrays, moved by threads; between processes by MPI (_mpi.py)."""

from collections.abc import Sequence
from typing import Any

from retile._elements import ELEMENT_TYPES
from retile._errors import InputError
from retile._retile import Layout, Plan
from retile._retile import redistribute as _redistribute


def array_faults(array: Any, what: str) -> list[str]:
    """The reasons why an array cannot be moved as it lies."""
    import numpy

    if not isinstance(array, numpy.ndarray):
        return [f"{what} is of type {type(array).__name__}, not an array of NumPy"]
    if isinstance(array, numpy.ma.MaskedArray):
        return [f"{what} is a masked array, whose mask would be lost"]
    if array.dtype.hasobject:
        return [f"{what} has Python objects, which cannot be moved as bytes"]
    return []


def is_on_gpu(array: Any) -> bool:
    """Whether an array is on a GPU: in DLPack, 2 and 13 are memory of CUDA. Arrays of JAX, which are never written,
    become NumPy arrays as usual."""
    device = getattr(array, "__dlpack_device__", None)
    is_of_jax = type(array).__module__.partition(".")[0] in ("jax", "jaxlib")
    return device is not None and not is_of_jax and device()[0] in (2, 13)


def _faults(arrays: Sequence[Any], layout: Layout, devices: int, what: str) -> list[str]:
    if len(arrays) != devices:
        return [f"there are {len(arrays)} {what}s for {devices} devices"]
    faults = [fault for i, array in enumerate(arrays) for fault in array_faults(array, f"the {what} of device {i}")]
    if faults:
        return faults
    for device, array in enumerate(arrays):
        expected = layout.tile_shape(device)
        if tuple(array.shape) != expected:
            faults.append(f"the {what} of device {device} has shape {list(array.shape)}, not {list(expected)}")
        if array.dtype != arrays[0].dtype:
            faults.append(
                f"the {what} of device {device} has elements of {array.dtype}, the first of {arrays[0].dtype}"
            )
    return faults


def _target_faults(sources: Sequence[Any], targets: Sequence[Any]) -> list[str]:
    import numpy

    faults = [f"the target of device {i} is read-only" for i, array in enumerate(targets) if not array.flags.writeable]
    if targets[0].dtype != sources[0].dtype:
        faults.append(f"targets have elements of {targets[0].dtype}, sources of {sources[0].dtype}")
    others = [("source", device, array) for device, array in enumerate(sources)]
    for device, target in enumerate(targets):
        found = [f"the {what} of device {i}" for what, i, array in others if numpy.shares_memory(target, array)]
        faults += [f"the target of device {device} overlaps {name}" for name in found[:1]]
        others.append(("target", device, target))
    return faults


def _listed(arrays: Any, what: str) -> list[Any]:
    try:
        return list(arrays)
    except TypeError:
        raise InputError(f"{what} must be arrays, one for each device, not {type(arrays).__name__}") from None


def redistribute(tiles: Any, plan: Plan, out: Any = None, *, comm: Any = None) -> Any:
    """Moves the tiles of all devices by the plan, and returns those of its target: `out`, or new arrays.

    Arrays may have any strides and are moved as they lie; `out` must overlap neither `tiles` nor itself. With a
    communicator of mpi4py, ranks are devices: all of them call it, each with its own tile, and each gets its own.
    Arrays of PyTorch and CuPy on a GPU are moved there, on the current stream.

    >>> import numpy as np, retile
    >>> mesh = retile.Mesh({"x": 2})
    >>> rows, columns = retile.Layout("[2{x}4, 4]", mesh), retile.Layout("[4, 2{x}4]", mesh)
    >>> array = np.arange(16).reshape(4, 4)
    >>> left, right = retile.redistribute([array[:2], array[2:]], retile.plan(rows, columns, dtype=array.dtype))
    >>> right.tolist()
    [[2, 3], [6, 7], [10, 11], [14, 15]]
    """
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be a retile.Plan, not {type(plan).__name__}\nhint: redistribute(tiles, plan)")
    if comm is not None:
        from retile._mpi import redistribute as redistribute_own

        return redistribute_own(tiles, plan, out, comm)
    if getattr(tiles, "shape", None) == tuple(plan.source.shape):
        raise InputError("tiles is the whole array\nhint: give a list with the tile of each device")
    tiles = _listed(tiles, "tiles")
    if any(map(is_on_gpu, tiles)):
        from retile._gpu import redistribute as redistribute_on_gpu

        return redistribute_on_gpu(tiles, plan, None if out is None else _listed(out, "out"))
    import numpy

    source, target = plan.source, plan.target
    devices = max(source.device_count, target.device_count)
    sources = [numpy.asanyarray(tile) for tile in tiles]
    faults = _faults(sources, source, devices, "source")
    if faults:
        raise InputError("\n".join(faults))
    dtype = sources[0].dtype
    if out is None:
        targets = [numpy.empty(target.tile_shape(device), dtype) for device in range(devices)]
    else:
        targets = _listed(out, "out")
        faults = _faults(targets, target, devices, "target") or _target_faults(sources, targets)
        if faults:
            raise InputError("\n".join(faults))
    sides = (sources, source), (targets, target)
    if plan._combined not in (None, ELEMENT_TYPES.get(str(dtype))):  # dtype.name hides the byte order
        raise InputError(f"the plan adds up elements of {plan._combined}, and the arrays have {dtype}")
    _redistribute(plan, dtype.itemsize, *(list(map(_in_memory, side, [layout] * devices)) for side, layout in sides))
    return targets


def _in_memory(array: Any, layout: Layout) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Address, shape and strides (none where it is packed). The parts of a sum lie along dimensions in front."""
    front = len(layout.partial)
    strides = () if array.flags.c_contiguous else (array.nbytes,) * front + array.strides
    return array.ctypes.data, (1,) * front + array.shape, strides
