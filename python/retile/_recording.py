"""Recorded loaders: which box of which array a loader of weights copies to which place of a model's memory.

The loader runs on tensors without data. Their views know offsets and strides, so that a copy into a parameter shows
which elements it takes; copies, casts and joined tensors are traced back to the tensors that they are made of.
"""

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from retile._errors import InputError

aten = torch.ops.aten

MOST_BOXES = 1 << 16  # per copy
COPIES = (aten.clone.default, aten._to_copy.default, aten.contiguous.default, aten.lift_fresh_copy.default)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


class Crossing(Exception):
    """Raised if a dimension of a view continues in the next dimension of its base, but not at that one's beginning; it
    has the number of steps before."""

    def __init__(self, dimension: int, steps: int):
        super().__init__()
        self.dimension, self.steps = dimension, steps


class Run:
    """A dimension of a view that stays inside one dimension of its base: the number of steps, their distance in the
    base, and their distance in the memory that it is copied to."""

    def __init__(self, dimension: int, count: int, step: int, stride: int):
        self.dimension, self.count, self.step, self.stride = dimension, count, step, stride


def _runs(view: torch.Tensor, base: torch.Tensor, strides: Sequence[int], start: Sequence[int]) -> Iterator[Run]:
    """The runs of a view on a base without gaps. `strides` are those of the memory; `start` is the view's first element
    in the base."""
    order = sorted((i for i in range(base.dim()) if base.shape[i] > 1), key=lambda i: (base.stride(i), -i))
    for i, (count, step, stride) in enumerate(zip(view.shape, view.stride(), strides, strict=True)):
        below = 1  # steps of the view per step of this run
        while count > 1:
            inside = [i for i in order if base.stride(i) <= step]
            if not inside or step % base.stride(inside[-1]) != 0:
                raise InputError("a view steps over elements as no box does")
            dimension = inside[-1]
            own = step // base.stride(dimension)
            left = base.shape[dimension] - start[dimension]  # elements left in the dimension
            if (count - 1) * own < left:
                yield Run(dimension, count, own, stride)
                break
            length = base.shape[dimension] // own
            if base.shape[dimension] % own != 0 or start[dimension] >= own or count % length != 0:
                raise Crossing(i, below * -(-left // own))
            yield Run(dimension, length, own, stride)
            count, step, stride, below = count // length, step * length, stride * length, below * length


def _first_element(view: torch.Tensor, base: torch.Tensor) -> list[int]:
    start, rest = [0] * base.dim(), view.storage_offset() - base.storage_offset()
    for i in sorted(range(base.dim()), key=lambda i: -base.stride(i)):
        if base.shape[i] > 1:
            start[i], rest = divmod(rest, base.stride(i))
    return start


def boxes_of(view: torch.Tensor, base: torch.Tensor, memory: torch.Tensor) -> Iterator[tuple[Any, Any, torch.Tensor]]:
    """The boxes of the base that make up a view of it: their corners, and their parts of the memory, which has the
    view's shape."""
    if 0 in view.shape:
        return
    start = _first_element(view, base)
    try:
        runs = sorted(_runs(view, base, memory.stride(), start), key=lambda run: run.step)
    except Crossing as crossing:
        i, steps = crossing.dimension, crossing.steps
        for first, count in ((0, steps), (steps, view.shape[i] - steps)):
            yield from boxes_of(view.narrow(i, first, count), base, memory.narrow(i, first, count))
        return
    lengths, strides, listed = [1] * base.dim(), [0] * base.dim(), []
    for run in runs:
        i = run.dimension
        if run.step == lengths[i] and (lengths[i] == 1 or run.stride == lengths[i] * strides[i]):
            strides[i] = run.stride if lengths[i] == 1 else strides[i]
            lengths[i] *= run.count
        else:
            listed.append(run)
    if math.prod(run.count for run in listed) > MOST_BOXES:
        raise InputError(f"a view is made of more than {MOST_BOXES} boxes")
    for steps in itertools.product(*(range(run.count) for run in listed)):
        lo, offset = list(start), memory.storage_offset()
        for run, step in zip(listed, steps, strict=True):
            lo[run.dimension] += step * run.step
            offset += step * run.stride
        hi = [first + length for first, length in zip(lo, lengths, strict=True)]
        yield tuple(lo), tuple(hi), memory.as_strided(lengths, strides, offset)


class Recorder(TorchDispatchMode):
    """Records what is copied from its weights into the given tensors."""

    def __init__(self, arrays: Iterable[tuple[str, Sequence[int], torch.dtype]], tensors: Iterable[torch.Tensor]):
        super().__init__()
        self.weights = [(name, torch.empty(tuple(shape), dtype=dtype, device="meta")) for name, shape, dtype in arrays]
        self.copies: list[tuple[str, Any, torch.Tensor]] = []  # array, corners of the box, memory
        self._names = {_storage(tensor): name for name, tensor in self.weights}
        self._bases = {_storage(tensor): tensor for _, tensor in self.weights}
        # By tensor that the loader made, what it is made of: boxes, and views of other tensors.
        self._parts: dict[int, list[tuple[Any, Any, torch.Tensor]]] = {}
        self._numbers: dict[int | float, torch.Tensor] = {}  # by number that stands for it, an element of a weight
        self._filled: set[int | float] = set()
        self._rooms = {_storage(_local(tensor)) for tensor in tensors}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is aten.fill_.Scalar and args[1] in self._numbers:
            self._filled.add(args[1])
            return self._fill(args[0], self._numbers[args[1]])
        traced = [one for one in tree_flatten((args, kwargs))[0] if self._is_traced(one)]
        if not traced:
            self._require_no_number(func, args, kwargs)
            return func(*args, **kwargs)
        if func is aten.copy_.default:
            return self._copy(args[0], args[1])
        if func is aten.fill_.Tensor and self._is_traced(args[1]):
            return self._fill(args[0], args[1])
        if func is aten._local_scalar_dense.default:
            return self._number_of(args[0])
        if func in COPIES:
            return self._made_of(self._copied(func, args[0], kwargs), [args[0]], None)
        if func in (aten.cat.default, aten.stack.default):
            dimension = args[1] if len(args) > 1 else kwargs.get("dim", 0)
            parts = list(args[0])
            self._require_traced(parts)
            if func is aten.stack.default:
                dimension %= parts[0].dim() + 1
                parts = [part.unsqueeze(dimension) for part in parts]
            return self._made_of(torch.cat(parts, dimension), parts, dimension % parts[0].dim())
        if all(one.device.type == "meta" for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)):
            result = func(*args, **kwargs)
            tensors = [one for one in tree_flatten(result)[0] if isinstance(one, torch.Tensor)]
            if not func._schema.is_mutable and all(self._is_traced(one) for one in tensors):
                return result  # a view
        name = self._name_of(traced[0])
        raise InputError(f'the loader computes with "{name}" ({func.name()}): only what it copies can be recorded')

    def _require_no_number(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises where an operation may write to the model what the loader computed with a number that stands for an
        element: only 0 and 1 are surely constants."""
        if not self._numbers or not func._schema.is_mutable:
            return
        if func is aten.zero_.default or (func is aten.fill_.Scalar and args[1] in (0, 1)):
            return
        if any(self._is_room(one) for one in tree_flatten((args, kwargs))[0]):
            name = self._name_of(next(reversed(self._numbers.values())))
            raise InputError(
                f'the loader writes to the model what it may have computed with a number of "{name}" ({func.name()}): '
                "only what it copies can be recorded"
            )

    def _is_room(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and _storage(_local(value)) in self._rooms

    def _is_traced(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == "meta" and _storage(value) in self._bases

    def _name_of(self, tensor: torch.Tensor) -> str:
        key = _storage(tensor)
        return self._names[key] if key in self._names else self._name_of(self._parts[key][0][2])

    def _copied(self, func: Any, tensor: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
        dtype = kwargs.get("dtype") or tensor.dtype
        is_wider = tensor.dtype.is_floating_point and dtype.is_floating_point and dtype.itemsize > tensor.itemsize
        if dtype != tensor.dtype and not is_wider:
            raise InputError(f'the loader converts "{self._name_of(tensor)}" to {dtype}, which may lose bits')
        return torch.empty_like(tensor, dtype=dtype, memory_format=kwargs.get("memory_format") or torch.preserve_format)

    def _require_traced(self, parts: list[torch.Tensor]) -> None:
        if not all(self._is_traced(part) for part in parts):
            traced = next(part for part in parts if self._is_traced(part))
            raise InputError(f'the loader joins "{self._name_of(traced)}" with a tensor that has data')

    def _made_of(self, result: torch.Tensor, parts: list[torch.Tensor], dimension: int | None) -> torch.Tensor:
        """A new tensor that is made of others side by side along a dimension, or of one."""
        self._bases[_storage(result)] = result
        made, first = [], 0
        for part in parts:
            lo, hi = [0] * result.dim(), list(result.shape)
            if dimension is not None:
                lo[dimension], hi[dimension] = first, first + part.shape[dimension]
                first = hi[dimension]
            made.append((lo, hi, part))
        self._parts[_storage(result)] = made
        return result

    def _copy(self, memory: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        if not self._is_traced(view):
            raise InputError(f'the loader writes to "{self._name_of(memory)}"')
        name = self._name_of(view)
        room = _local(memory)
        if room.device.type == "meta" or not self._is_room(room):
            raise InputError(f'the loader copies "{name}" to memory that is none of the model\'s')
        if room.shape != view.shape:
            raise InputError(f'the loader copies "{name}" of shape {list(view.shape)} to shape {list(room.shape)}')
        try:
            self._trace(room.detach(), view)
        except InputError as error:
            raise InputError(f'the loader copies "{name}": {error}') from None
        return memory

    def _number_of(self, view: torch.Tensor) -> int | float:
        """A number that stands for the element. Only what fills memory with this very number is a copy of it."""
        if view.dtype == torch.bool or view.dtype.is_complex:
            raise InputError(f'the loader takes a number of {view.dtype} from "{self._name_of(view)}"')
        number = random.SystemRandom().getrandbits(52) + 2**52
        self._numbers[number] = view
        return float(number) if view.dtype.is_floating_point else number

    def _fill(self, memory: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        return self._copy(memory, view.reshape(memory.shape) if memory.numel() == 1 else view)

    def unfilled_faults(self) -> list[str]:
        """A fault for each number that the loader took from a weight and filled nothing with."""
        unfilled = (view for number, view in self._numbers.items() if number not in self._filled)
        names = dict.fromkeys(map(self._name_of, unfilled))
        return [f'the loader computes with a number of "{name}": only what it copies can be recorded' for name in names]

    def _trace(self, memory: torch.Tensor, view: torch.Tensor) -> None:
        key = _storage(view)
        for lo, hi, room in boxes_of(view, self._bases[key], memory):
            if key in self._names:
                self.copies.append((self._names[key], (lo, hi), room))
                continue
            for part_lo, part_hi, part in self._parts[key]:
                first, last = list(map(max, lo, part_lo)), list(map(min, hi, part_hi))
                if all(a < b for a, b in zip(first, last, strict=True)):
                    self._trace(_narrowed(room, lo, first, last), _narrowed(part, part_lo, first, last))


def _narrowed(tensor: torch.Tensor, corner: Sequence[int], lo: Sequence[int], hi: Sequence[int]) -> torch.Tensor:
    """The part from `lo` to `hi`, in an array's indices, of a tensor whose first element is at `corner` of that
    array."""
    for i, origin in enumerate(corner):
        tensor = tensor.narrow(i, lo[i] - origin, hi[i] - lo[i])
    return tensor
