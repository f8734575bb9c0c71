"""Arrays on a GPU, of PyTorch, CuPy and other packages that support DLPack, moved on the GPU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from retile import _retile
from retile._errors import InputError
from retile._numpy import is_on_gpu
from retile._retile import Layout, Plan

# Element types, by DLPack's code and bits.
_ELEMENTS = {
    (0, 8): "i8", (0, 32): "i32", (2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16", (5, 64): "c64",
    (5, 128): "c128",
}  # fmt: skip


@dataclass
class _Array:
    gpu: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    element: tuple[int, int]  # code and bits

    @property
    def element_size(self) -> int:
        return self.element[1] // 8

    def in_memory(self, layout: Layout) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Address, shape and strides (none where it is packed). The parts of a sum lie along dimensions in front."""
        front = len(layout.partial)
        packed = [self.element_size]
        for extent in self.shape[:0:-1]:
            packed.append(packed[-1] * extent)
        is_packed = all(n == 1 or s == p for n, s, p in zip(self.shape, self.strides, reversed(packed), strict=False))
        strides = () if is_packed else (self.element_size * math.prod(self.shape),) * front + self.strides
        return self.address, (1,) * front + self.shape, strides


def _look(array: Any) -> _Array:
    if hasattr(array, "detach"):
        array = array.detach()  # PyTorch does not export tensors that require a gradient
    _, gpu, address, shape, strides, code, bits = _retile.describe_array(array)
    return _Array(gpu, address, tuple(shape), tuple(strides), (code, bits))


def _looked_at(arrays: Sequence[Any], layout: Layout, devices: int, what: str, first: _Array | None) -> list[_Array]:
    if len(arrays) != devices:
        raise InputError(f"there are {len(arrays)} {what}s for {devices} devices")
    faults = [f"the {what} of device {i} is not on a GPU" for i, array in enumerate(arrays) if not is_on_gpu(array)]
    seen = [] if faults else [_look(array) for array in arrays]
    for device, array in enumerate(seen):
        first = first or array
        expected = tuple(layout.tile_shape(device))
        if array.shape != expected:
            faults.append(f"the {what} of device {device} has shape {list(array.shape)}, not {list(expected)}")
        if array.element != first.element:
            faults.append(f"the {what} of device {device} has other elements than the first source")
        if array.gpu != first.gpu:
            faults.append(f"the {what} of device {device} is on GPU {array.gpu}, the first source on GPU {first.gpu}")
    if faults:
        raise InputError("\n".join(faults))
    return seen


class _Package:
    """How a package of arrays differs from others. Unknown packages have no streams that can be queried."""

    waits = True

    def stream(self, gpu: int) -> int:
        return 0

    def empty(self, shape: tuple[int, ...], like: Any, gpu: int) -> Any:
        raise InputError(f"out is needed: arrays of {type(like).__module__} are not made here")


class _Torch(_Package):
    waits = False

    def stream(self, gpu: int) -> int:
        import torch

        return torch.cuda.current_stream(gpu).cuda_stream

    def empty(self, shape: tuple[int, ...], like: Any, gpu: int) -> Any:
        import torch

        return torch.empty(shape, dtype=like.dtype, device=like.device)


class _Cupy(_Package):
    waits = False

    def stream(self, gpu: int) -> int:
        import cupy

        return cupy.cuda.get_current_stream(gpu).ptr

    def empty(self, shape: tuple[int, ...], like: Any, gpu: int) -> Any:
        import cupy

        with cupy.cuda.Device(gpu):
            return cupy.empty(shape, like.dtype)


_PACKAGES = {"torch": _Torch, "cupy": _Cupy}


def redistribute(tiles: list[Any], plan: Plan, out: list[Any] | None) -> Any:
    """retile.redistribute for arrays on one GPU."""
    if not _retile.has_cuda:
        raise InputError("arrays on a GPU are not moved: this retile was built without CUDA")
    source, target = plan.source, plan.target
    devices = max(source.device_count, target.device_count)
    sources = _looked_at(tiles, source, devices, "source", None)
    first = sources[0]
    if plan._combined not in (None, _ELEMENTS.get(first.element)):
        raise InputError(f"the plan adds up elements of {plan._combined}, and the arrays have others")
    package = _PACKAGES.get(type(tiles[0]).__module__.partition(".")[0], _Package)()
    results = out or [package.empty(tuple(target.tile_shape(i)), tiles[0], first.gpu) for i in range(devices)]
    targets = _looked_at(results, target, devices, "target", first)
    _retile.redistribute_on_gpu(
        plan,
        first.element_size,
        [array.in_memory(source) for array in sources],
        [array.in_memory(target) for array in targets],
        first.gpu,
        package.stream(first.gpu),
        package.waits,
    )
    return results
