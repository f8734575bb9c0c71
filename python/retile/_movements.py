"""Movements of DTensors: from a mesh and placements to others, as one rank plans and carries them out.

A request asks for a movement. It has a text form, so that torch.compile can carry it as a constant.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _register_work
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial
from torch.distributed.tensor.placement_types import Placement
from torch.utils._python_dispatch import _disable_current_modes

from retile import _agreement, _point_to_point, _process_groups, _retile
from retile._agreement import TIME_LIMIT, Subject
from retile._elements import element_type
from retile._errors import InputError
from retile._process_groups import named
from retile._retile import Layout, Machine, Plan
from retile._shardings import device_mesh_values, dtensor_layout, placement_values

# The time of an exchange, relative to a collective in which devices receive as much. All steps are messages from tile
# to tile here, so that one step is better than two.
EXCHANGE_WEIGHT = 0.5


# --- Problems as values, which torch.compile carries as constant texts.


@dataclasses.dataclass(frozen=True)
class End:
    """A DeviceMesh, and the placements of a tensor on it."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]
    placements: tuple[tuple[str, int, float], ...]

    @property
    def mesh(self) -> tuple[Any, ...]:
        return self.names, self.sizes, self.ranks

    @property
    def is_sum(self) -> bool:
        return any(kind not in ("replicate", "shard") for kind, *_ in self.placements)

    @property
    def copies(self) -> int:
        """The number of ranks that hold an element, or parts of it."""
        return math.prod(size for size, (kind, *_) in zip(self.sizes, self.placements, strict=True) if kind != "shard")

    def layout(self, shape: Sequence[int]) -> Layout:
        values = [("sum", 0, 1) if kind in ("avg", "norm") else (kind, *rest) for kind, *rest in self.placements]
        return dtensor_layout(*self.mesh, values, shape)

    def without_sums(self) -> "End":
        """The end of gradients: the gradient of a part of a sum is the gradient of the sum."""
        kept = [one if one[0] == "shard" else ("replicate", 0, 1) for one in self.placements]
        return dataclasses.replace(self, placements=tuple(kept))

    def local_shape(self, shape: Sequence[Any], rank: int) -> list[Any]:
        """The shape of a rank's tile by nested ceilings, for sizes that are symbols. For numbers, `layout` gives it."""
        if rank not in self.ranks:
            return [0] * len(shape)
        local, position = list(shape), self.ranks.index(rank)
        for axis, (size, (kind, dim, factor)) in enumerate(zip(self.sizes, self.placements, strict=True)):
            coordinate = position // math.prod(self.sizes[axis + 1 :]) % size
            if kind == "shard" and factor != 1:
                raise InputError("a strided shard of a shape that is not known when the graph is made")
            if kind == "shard":
                part = (local[dim] + size - 1) // size
                local[dim] = torch.sym_min(part, torch.sym_max(local[dim] - part * coordinate, 0))
        return local

    def __str__(self) -> str:
        placements = ", ".join(map(placement_text, self.placements))
        return f"({placements}{',' if len(self.placements) == 1 else ''})"

    def mesh_text(self) -> str:
        axes = ", ".join(f"{name}: {size}" for name, size in zip(self.names, self.sizes, strict=True))
        return f"mesh {{{axes}}} of {named(self.ranks)}"


def values_of(placement: Any) -> tuple[str, int, float]:
    """The kind of a placement, and the dimension and split factor of a shard, or the exponent of a norm. Averages and
    norms are moved as sums."""
    if type(placement) is Partial and placement.reduce_op == "avg":
        return "avg", 0, 1
    if type(placement).__name__ == "_NormPartial":
        return "norm", 0, float(placement.norm_type)
    if type(placement).__name__ == "_MaskPartial" and placement.reduce_op == "sum":
        return "sum", 0, 1  # tiles are masked before (_masked)
    return placement_values(placement)


def placement_text(values: tuple[str, int, float]) -> str:
    kind, dim, factor = values
    if kind == "shard":
        return f"Shard(dim={dim})" if factor == 1 else f"_StridedShard(dim={dim}, sf={factor})"
    return {"replicate": "Replicate()", "norm": f"_NormPartial({factor:g})"}.get(kind, f"Partial({kind})")


_meshes: dict[tuple[Any, ...], DeviceMesh] = {}  # by values: the last such mesh, whose groups exist already


# Meshes are equal if their ranks are. What depends on a mesh's groups is also cached by identity, because groups may be
# destroyed and made again for an equal mesh. An entry keeps its mesh alive, and so its identity.


@functools.lru_cache(maxsize=4096)
def end_of(mesh: DeviceMesh, placements: tuple[Placement, ...], _identity: int) -> End:
    with _disable_current_modes():
        end = End(*device_mesh_values(mesh), tuple(map(values_of, placements)))
    _meshes[end.mesh] = mesh
    return end


@dataclasses.dataclass(frozen=True)
class Options:
    """How a tensor is moved. `group` is the name of a process group; '' is the default one."""

    planner: str = "auto"
    memory_limit: int | None = None
    group: str = ""
    time_limit: float | None = None  # seconds; default: TIME_LIMIT
    machine: str | None = None  # as JSON

    def process_group(self) -> dist.ProcessGroup:
        return dist.distributed_c10d._resolve_process_group(self.group) if self.group else dist.group.WORLD


@dataclasses.dataclass(frozen=True)
class Request:
    """The mesh and placements that a tensor has and shall have, and the options of its movement."""

    source: End
    target: End
    options: Options

    @functools.cached_property
    def text(self) -> str:
        return json.dumps(dataclasses.astuple(self))

    @functools.cached_property
    def back(self) -> str:
        """The request for gradients, as text."""
        return Request(self.target.without_sums(), self.source.without_sums(), self.options).text


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> Request:
    def read(names: list, sizes: list, ranks: list, placements: list) -> End:
        return End(tuple(names), tuple(sizes), tuple(ranks), tuple(map(tuple, placements)))

    source, target, options = json.loads(text)
    return Request(read(*source), read(*target), Options(*options))


@torch.compiler.assume_constant_result
def request_text(
    source: DeviceMesh,
    source_placements: tuple[Placement, ...],
    target: DeviceMesh,
    target_placements: tuple[Placement, ...],
    options: tuple[Any, ...],
) -> str:
    ends = end_of(source, source_placements, id(source)), end_of(target, target_placements, id(target))
    return Request(*ends, Options(*options)).text


@dataclasses.dataclass(frozen=True)
class Movement:
    """A movement from one layout to another, as one rank carries it out."""

    request: Request
    shape: tuple[int, ...]
    dtype: torch.dtype

    @functools.cached_property
    def layouts(self) -> tuple[Layout, Layout]:
        return self.request.source.layout(self.shape), self.request.target.layout(self.shape)

    @functools.cached_property
    def plan(self) -> Plan:
        options, element = self.request.options, element_type(self.dtype)
        machine = None if options.machine is None else Machine(json.loads(options.machine))
        cost = "volume" if machine is None else "seconds"
        return _retile.plan(
            *self.layouts,
            element,
            options.planner,
            cost,
            options.memory_limit,
            True,
            self.staging,
            EXCHANGE_WEIGHT,
            machine=machine,
        )

    @property
    def is_limited(self) -> bool:
        return self.request.options.memory_limit is not None

    @functools.cached_property
    def message(self) -> int:
        return _point_to_point.message_bytes(*self.layouts, self.dtype.itemsize, self.is_limited, self.is_batched)

    @functools.cached_property
    def staging(self) -> int:
        return _point_to_point.staging_bytes(self.message, self.is_limited, self.is_batched)

    @functools.cached_property
    def is_batched(self) -> bool:
        """Whether all messages to a peer are one, and the more of them go at once: over backends without tags, unless
        memory is limited."""
        if self.is_limited or self.participants is None:
            return False
        with contextlib.suppress(InputError):  # a backend without messages is refused when something moves
            group, device_type = self.participants.group, _meshes[self.request.source.mesh].device_type
            return not _process_groups.has_tags(group, device_type)
        return False

    @functools.cached_property
    def is_one_batch(self) -> bool:
        """Whether all messages of a stage fit the staging at once, on every rank. It receives a tile at most."""
        return self.is_batched and (self.plan.peak + self.most_sent) * self.dtype.itemsize <= self.staging

    @functools.cached_property
    def most_sent(self) -> int:
        """A bound of the elements that a rank sends in a stage. Where tiles are equal, all ranks send as much; where they
        are not, one may send its tile to all that want it."""
        source, target = self.request.source, self.request.target
        equal = -(-len(target.ranks) // len(source.ranks)) * self.plan.peak
        ends = zip((source, target), self.layouts, strict=True)
        if all(layout.local_size * len(end.ranks) == math.prod(self.shape) * end.copies for end, layout in ends):
            return equal
        return max(equal, self.layouts[0].local_size * target.copies)

    @functools.cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that take part."""
        return tuple(sorted({*self.request.source.ranks, *self.request.target.ranks}))

    @functools.cached_property
    def subject(self) -> Subject:
        source, target, options = self.request.source, self.request.target, self.request.options
        where = f" on {source.mesh_text()}" if source.mesh != target.mesh else ""
        planner = f", planner {options.planner}" if options.planner != "auto" else ""
        limit = f", memory_limit {options.memory_limit}" if options.memory_limit is not None else ""
        machine = f", machine {options.machine}" if options.machine is not None else ""
        name = str(self.dtype).removeprefix("torch.")
        ends = f"from {source}{where} to {target} on {target.mesh_text()}"
        return Subject(f"{name}{list(self.shape)} {ends}{planner}{limit}{machine}")

    @functools.cached_property
    def divisor(self) -> int:
        """The divisor of the sum, where it is an average."""
        source, target = self.request.source, self.request.target
        sizes = zip(source.sizes, source.placements, strict=True)
        kept = target.placements if source.mesh == target.mesh else ()
        return math.prod(
            size for axis, (size, one) in enumerate(sizes) if one[0] == "avg" and one not in kept[axis : axis + 1]
        )

    @functools.cached_property
    def norm(self) -> float | None:
        """The exponent, where the sum is of powers."""
        return next((factor for kind, _, factor in self.request.source.placements if kind == "norm"), None)

    @functools.cached_property
    def gathered_axis(self) -> int | None:
        """The mesh's dimension along which tiles are gathered one after the other, if the movement is only that."""
        mesh = _meshes[self.request.source.mesh]
        steps = _retile.plan(*self.layouts, element_type(self.dtype), "auto", "paper", None, True, 0).steps
        if len(steps) != 1 or steps[0].op != "allgather" or steps[0].local_in[1:] != steps[0].local_out[1:]:
            return None
        groups = sorted(steps[0].groups)
        if any(len({self.layouts[0].tile_shape(rank) for rank in group}) > 1 for group in groups):
            return None
        for axis, size in enumerate(mesh.shape):
            ranks = mesh.mesh.movedim(axis, -1).reshape(-1, size)
            is_in_order = groups == ranks.sort().values.tolist()  # groups of PyTorch have no other order
            if is_in_order and groups == sorted(ranks.tolist()):
                return axis
        return None

    @functools.cached_property
    def local_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of this rank's tiles of source and target."""
        rank = dist.get_rank()
        return self.layouts[0].tile_shape(rank), self.layouts[1].tile_shape(rank)

    @functools.cached_property
    def are_boxes_single(self) -> bool:
        """Whether this rank's tile of the source is one box; its elements may lie apart."""
        rank = dist.get_rank()
        return rank >= self.layouts[0].device_count or len(self.layouts[0].boxes(rank)) <= 1

    @functools.cached_property
    def participants(self) -> _process_groups.Participants | None:
        """The participants; None on a rank that is in neither mesh."""
        group = self.request.options.process_group()
        return _process_groups.participants_of(group, self.ranks) if dist.get_rank() in self.ranks else None

    def stages(self, strides: tuple[int, ...]) -> tuple[_point_to_point.Stage, ...]:
        """The stages of this rank for a tile of these strides (none where it is packed)."""
        found = self.known_stages.get(strides)
        if found is None:
            found = self.known_stages[strides] = _point_to_point.schedule(
                self.plan, dist.get_rank(), self.dtype.itemsize, self.message, strides
            )
        return found

    @functools.cached_property
    def known_stages(self) -> dict[tuple[int, ...], tuple[_point_to_point.Stage, ...]]:
        return {}

    def find_tile_fault(self, tile: torch.Tensor) -> str:
        """What is wrong with this rank's tile of the source; empty if nothing is, and on ranks outside its mesh."""
        expected = self.local_shapes[0]
        if tile.shape == expected or dist.get_rank() not in self.request.source.ranks:
            return ""
        return f"this rank's tile has shape {list(tile.shape)}, and {self.request.source} makes it {list(expected)}"


@functools.lru_cache(maxsize=4096)
def known_movement(request: str, shape: tuple[int, ...], dtype: torch.dtype, _group: Any) -> Movement:
    """The movement of a request. Raises InputError where there is none. `_group` is the process group: part of the key,
    because it may be made anew."""
    movement = Movement(parsed(request), shape, dtype)
    source = {kind for kind, *_ in movement.request.source.placements} - {"replicate", "shard"}
    if movement.norm is not None and len(source) > 1:
        raise InputError("a norm and another sum cannot be open at once")
    if movement.divisor != 1 and not (dtype.is_floating_point or dtype.is_complex):
        raise InputError(f"{movement.request.source} of {dtype} is no average of such elements")
    _ = movement.plan  # made here because it may be refused
    _ = movement.participants
    return movement


def movement_of(request: str, shape: tuple[int, ...], dtype: torch.dtype) -> Movement:
    return known_movement(request, shape, dtype, parsed(request).options.process_group())


# --- Moving: an operation on this rank's tile.


def carry_out(movement: Movement, tile: torch.Tensor, result: torch.Tensor | None = None) -> torch.Tensor:
    """Moves this rank's tile, and returns its tile of the target, in `result` if that is given."""
    if movement.participants is None:
        return tile.new_empty(movement.local_shapes[1])
    if movement.norm is not None:
        tile = tile**movement.norm
    result = _moved(movement, tile, result)
    if movement.divisor != 1:
        result /= movement.divisor
    return result if movement.norm is None else result.pow_(1 / movement.norm)


def begin(movement: Movement, tile: torch.Tensor) -> torch.Tensor:
    """Starts to move, and returns this rank's tile of the target, which a thread fills: PyTorch waits for it when it is
    used. Without such a thread it is complete on return: on GPUs, whose streams wait, and with a memory limit, under
    which the target is not allocated from the beginning."""
    participants = movement.participants
    if (
        participants is None
        or movement.is_limited
        or not _process_groups.has_thread(participants.group, tile.device.type)
    ):
        return carry_out(movement, tile)
    result = tile.new_empty(movement.local_shapes[1])
    arrival = _process_groups.call_later(participants.group, torch.no_grad()(carry_out), movement, tile, result)
    _register_work(result, _Arrival(result, arrival))
    return AsyncCollectiveTensor(result)


class _Arrival(dist._Work):
    """The work that PyTorch waits for. Raises a failure every time that the result is used."""

    def __init__(self, result: torch.Tensor, arrival: concurrent.futures.Future) -> None:
        super().__init__()
        self.result, self.arrival = result, arrival

    def wait(self, timeout: Any = None) -> bool:
        if self.arrival.exception() is not None:
            _register_work(self.result, self)
        self.arrival.result()
        return True


def _moved(movement: Movement, tile: torch.Tensor, result: torch.Tensor | None) -> torch.Tensor:
    participants, kind = movement.participants, tile.device.type
    _meet_first(tile.device, participants.group)
    time_limit, fault = movement.request.options.time_limit or TIME_LIMIT, movement.find_tile_fault(tile)
    with _agreement.calling(participants, movement.subject, time_limit, kind, fault) as call:
        is_gathered = has_fast_gather(tile.device, participants.group) and movement.gathered_axis is not None
        if is_gathered or movement.request.source.is_sum or not movement.are_boxes_single:
            tile = tile.contiguous()
        if is_gathered:
            return _gathered(movement, tile)
        stages = movement.stages(() if tile.is_contiguous() else tile.stride())
        place = movement.local_shapes[1], movement.staging, call, result, movement.is_one_batch
        return _point_to_point.move(tile, stages, *place)


def _gathered(movement: Movement, tile: torch.Tensor) -> torch.Tensor:
    result = tile.new_empty(movement.local_shapes[1])
    ends = (_point_to_point.as_bytes(end.view(-1)) for end in (result, tile))
    group = _meshes[movement.request.source.mesh].get_group(movement.gathered_axis)
    dist.all_gather_into_tensor(*ends, group=group)
    return result


_SCHEMA = "(Tensor tile, str request, SymInt[] shape, ScalarType dtype, ScalarType gradient_dtype) -> Tensor"


@torch.library.custom_op("retile::redistribute", mutates_args=(), schema=_SCHEMA)
def operation(
    tile: torch.Tensor, request: str, shape: Sequence[int], dtype: torch.dtype, gradient_dtype: torch.dtype
) -> torch.Tensor:
    """Casts a tile, then moves it; gradients likewise on their way back."""
    return carry_out(movement_of(request, tuple(shape), dtype), tile.to(dtype))


@operation.register_fake
def _(tile, request, shape, dtype, gradient_dtype):
    if any(isinstance(length, torch.SymInt) for length in shape):
        return tile.new_empty(parsed(request).target.local_shape(shape, dist.get_rank()), dtype=dtype)
    return tile.new_empty(movement_of(request, tuple(shape), dtype).local_shapes[1], dtype=dtype)


def _keep(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    tile, ctx.request, ctx.shape, _, ctx.gradient_dtype = inputs
    ctx.dtype = tile.dtype


def _move_back(ctx: Any, gradient: torch.Tensor) -> tuple:
    moved = operation(gradient, parsed(ctx.request).back, ctx.shape, ctx.gradient_dtype, gradient.dtype)
    return moved.to(ctx.dtype), None, None, None, None


operation.register_autograd(_move_back, setup_context=_keep)


def is_watched() -> bool:
    """Whether a compiler or a dispatch mode is active: it must see one operation, not its parts."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def move_tile(tile: torch.Tensor, request: str, shape: tuple[int, ...], is_async: bool = False) -> torch.Tensor:
    if is_watched() or type(tile) is not torch.Tensor:
        return operation(tile, request, shape, tile.dtype, tile.dtype)
    return (begin if is_async else carry_out)(movement_of(request, shape, tile.dtype), tile)


def has_fast_gather(device: torch.device, group: dist.ProcessGroup) -> bool:
    """Whether the backend gathers faster than messages do: NCCL does; over gloo, messages are as fast."""
    return device.type == "cuda" and "nccl" in _process_groups.backend_of(group, device.type)


@functools.lru_cache
def _meet_first(device: torch.device, group: dist.ProcessGroup) -> None:
    """Makes all ranks of an NCCL group take part in its first operation, as NCCL requires."""
    if has_fast_gather(device, group):
        dist.all_reduce(torch.zeros(1, device=device), group=group)
