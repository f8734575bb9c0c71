"""retile's plans inside PyTorch: `redistribute(dt, placements)` where you have `dt.redistribute(…)`.

Every rank of the meshes calls it. Messages go from rank to rank over a process group, the default one unless another is given,
whatever its backend. Ranks that do not make the same call get an AgreementError that says who did what.

    from torch.distributed.tensor import Shard, distribute_tensor

    rows = distribute_tensor(tensor, mesh, [Shard(0), Shard(0)])
    columns = retile.torch.redistribute(rows, [Shard(1), Shard(1)])
    other = retile.torch.redistribute(rows, other_mesh, [Shard(0)])
    with retile.torch.enabled():    # DTensor's own, explicit and implicit, and what flows back
        loss = model(x).sum()
        loss.backward()
"""

import collections
import contextlib
import dataclasses
import functools
import inspect
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, _redistribute
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor.placement_types import Placement
from torch.utils._python_dispatch import _disable_current_modes

from retile import _agreement, _point_to_point, _retile
from retile._agreement import TIME_LIMIT, AgreementError, Subject, named
from retile._elements import element_type
from retile._errors import InputError
from retile._retile import Layout, Plan
from retile._shardings import device_mesh_values, dtensor_layout, placement_values

__all__ = ["AgreementError", "Statistics", "enabled", "explain", "plan_of", "redistribute", "statistics"]

OLDEST_VERSION = (2, 6)
# What an exchange takes, relative to a collective in which devices receive as much: here all steps are messages from
# tile to tile, and one step is better than two.
EXCHANGE_WEIGHT = 0.5


# --- What moves: a problem as values, which torch.compile carries as a constant text.


@dataclasses.dataclass(frozen=True)
class _End:
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

    def layout(self, shape: Sequence[int]) -> Layout:
        values = [("sum", 0, 1) if kind in ("avg", "norm") else (kind, *rest) for kind, *rest in self.placements]
        return dtensor_layout(*self.mesh, values, shape)

    def without_sums(self) -> "_End":
        """What flows back to a part of a sum is what flows back to the sum."""
        kept = [one if one[0] == "shard" else ("replicate", 0, 1) for one in self.placements]
        return dataclasses.replace(self, placements=tuple(kept))

    def local_shape(self, shape: Sequence[Any], rank: int) -> list[Any]:
        """Of a rank's tile, where sizes are symbols: nested ceilings. Where they are numbers, `layout` knows it."""
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
        placements = ", ".join(map(_placement_text, self.placements))
        return f"({placements}{',' if len(self.placements) == 1 else ''})"

    def mesh_text(self) -> str:
        axes = ", ".join(f"{name}: {size}" for name, size in zip(self.names, self.sizes, strict=True))
        return f"mesh {{{axes}}} of {named(self.ranks)}"


def _values_of(placement: Any) -> tuple[str, int, float]:
    """What it is, of a shard its dimension and split factor, of a norm its exponent. Averages and norms are sums inside."""
    if type(placement) is Partial and placement.reduce_op == "avg":
        return "avg", 0, 1
    if type(placement).__name__ == "_NormPartial":
        return "norm", 0, float(placement.norm_type)
    if type(placement).__name__ == "_MaskPartial" and placement.reduce_op == "sum":
        return "sum", 0, 1  # of tiles that are masked before (_masked)
    return placement_values(placement)


def _placement_text(values: tuple[str, int, float]) -> str:
    kind, dim, factor = values
    if kind == "shard":
        return f"Shard(dim={dim})" if factor == 1 else f"_StridedShard(dim={dim}, sf={factor})"
    return {"replicate": "Replicate()", "norm": f"_NormPartial({factor:g})"}.get(kind, f"Partial({kind})")


_meshes: dict[tuple[Any, ...], DeviceMesh] = {}  # by their values: the last ones, whose groups are there already


# Meshes are equal if their ranks are. What depends on a mesh's groups is cached by identity too: groups may be destroyed,
# and made again for an equal mesh. An entry keeps its mesh alive, and so its identity.


@functools.lru_cache(maxsize=4096)
def _end_of(mesh: DeviceMesh, placements: tuple[Placement, ...], _identity: int) -> _End:
    with _disable_current_modes():
        end = _End(*device_mesh_values(mesh), tuple(map(_values_of, placements)))
    _meshes[end.mesh] = mesh
    return end


@dataclasses.dataclass(frozen=True)
class _Options:
    """How a tensor is moved. `group` is the name of a process group, '' of the default one."""

    planner: str = "auto"
    memory_limit: int | None = None
    group: str = ""
    time_limit: float | None = None  # seconds; TIME_LIMIT unless told

    def process_group(self) -> dist.ProcessGroup:
        return dist.distributed_c10d._resolve_process_group(self.group) if self.group else dist.group.WORLD


@dataclasses.dataclass(frozen=True)
class _Request:
    """Where a tensor is, where it shall be, and how it gets there."""

    source: _End
    target: _End
    options: _Options

    @functools.cached_property
    def text(self) -> str:
        return json.dumps(dataclasses.astuple(self))

    @functools.cached_property
    def back(self) -> str:
        """The way that gradients take, as text."""
        return _Request(self.target.without_sums(), self.source.without_sums(), self.options).text


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> _Request:
    def end_of(names: list, sizes: list, ranks: list, placements: list) -> _End:
        return _End(tuple(names), tuple(sizes), tuple(ranks), tuple(map(tuple, placements)))

    source, target, options = json.loads(text)
    return _Request(end_of(*source), end_of(*target), _Options(*options))


@torch.compiler.assume_constant_result
def _request_text(
    source: DeviceMesh,
    source_placements: tuple[Placement, ...],
    target: DeviceMesh,
    target_placements: tuple[Placement, ...],
    options: tuple[Any, ...],
) -> str:
    ends = _end_of(source, source_placements, id(source)), _end_of(target, target_placements, id(target))
    return _Request(*ends, _Options(*options)).text


@dataclasses.dataclass(frozen=True)
class _Movement:
    """From one layout to another, as one rank does it."""

    request: _Request
    shape: tuple[int, ...]
    dtype: torch.dtype

    @functools.cached_property
    def layouts(self) -> tuple[Layout, Layout]:
        return self.request.source.layout(self.shape), self.request.target.layout(self.shape)

    @functools.cached_property
    def plan(self) -> Plan:
        options, element = self.request.options, element_type(self.dtype)
        return _retile.plan(
            *self.layouts, element, options.planner, "volume", options.memory_limit, True, self.staging, EXCHANGE_WEIGHT
        )

    @property
    def is_limited(self) -> bool:
        return self.request.options.memory_limit is not None

    @functools.cached_property
    def message(self) -> int:
        return _point_to_point.message_bytes(*self.layouts, self.dtype.itemsize, self.is_limited)

    @functools.cached_property
    def staging(self) -> int:
        return _point_to_point.staging_bytes(self.message, self.is_limited)

    @functools.cached_property
    def ranks(self) -> tuple[int, ...]:
        """Those that take part."""
        return tuple(sorted({*self.request.source.ranks, *self.request.target.ranks}))

    @functools.cached_property
    def subject(self) -> Subject:
        source, target, options = self.request.source, self.request.target, self.request.options
        where = f" on {source.mesh_text()}" if source.mesh != target.mesh else ""
        planner = f", planner {options.planner}" if options.planner != "auto" else ""
        limit = f", memory_limit {options.memory_limit}" if options.memory_limit is not None else ""
        name = str(self.dtype).removeprefix("torch.")
        ends = f"from {source}{where} to {target} on {target.mesh_text()}"
        return Subject(f"{name}{list(self.shape)} {ends}{planner}{limit}")

    @functools.cached_property
    def divisor(self) -> int:
        """Of the sum, where it is an average."""
        source, target = self.request.source, self.request.target
        sizes = zip(source.sizes, source.placements, strict=True)
        kept = target.placements if source.mesh == target.mesh else ()
        return math.prod(
            size for axis, (size, one) in enumerate(sizes) if one[0] == "avg" and one not in kept[axis : axis + 1]
        )

    @functools.cached_property
    def norm(self) -> float | None:
        """The exponent, where the sum is one of powers."""
        return next((factor for kind, _, factor in self.request.source.placements if kind == "norm"), None)

    @functools.cached_property
    def gathered_axis(self) -> int | None:
        """The mesh's dimension along which tiles are to be gathered one after the other, where that is all to do."""
        mesh = _meshes[self.request.source.mesh]
        steps = _retile.plan(*self.layouts, element_type(self.dtype), "auto", "paper", None, True, 0).steps
        if len(steps) != 1 or steps[0].op != "allgather" or steps[0].local_in[1:] != steps[0].local_out[1:]:
            return None
        groups = sorted(steps[0].groups)
        if any(len({self.layouts[0].tile_shape(rank) for rank in group}) > 1 for group in groups):
            return None
        for axis, size in enumerate(mesh.shape):
            ranks = mesh.mesh.movedim(axis, -1).reshape(-1, size)
            is_in_order = groups == ranks.sort().values.tolist()  # groups of PyTorch know no other
            if is_in_order and groups == sorted(ranks.tolist()):
                return axis
        return None

    @functools.cached_property
    def local_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of this rank's tiles: source and target."""
        rank = dist.get_rank()
        return self.layouts[0].tile_shape(rank), self.layouts[1].tile_shape(rank)

    @functools.cached_property
    def are_boxes_single(self) -> bool:
        """Whether this rank's tile of the source is one box, whose elements may lie apart."""
        rank = dist.get_rank()
        return rank >= self.layouts[0].device_count or len(self.layouts[0].boxes(rank)) <= 1

    @functools.cached_property
    def participants(self) -> _agreement.Participants | None:
        """None on a rank that no mesh names."""
        group = self.request.options.process_group()
        return _agreement.participants_of(group, self.ranks) if dist.get_rank() in self.ranks else None

    def stages(self, strides: tuple[int, ...]) -> tuple[_point_to_point.Stage, ...]:
        """What this rank does with a tile of these strides; none where it is packed."""
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
        """What is wrong with this rank's tile of the source; a rank outside its mesh has none."""
        expected = self.local_shapes[0]
        if tile.shape == expected or dist.get_rank() not in self.request.source.ranks:
            return ""
        return f"this rank's tile has shape {list(tile.shape)}, and {self.request.source} makes it {list(expected)}"


@functools.lru_cache(maxsize=4096)
def _movement(request: str, shape: tuple[int, ...], dtype: torch.dtype, _group: Any) -> _Movement:
    """Throws InputError where there is no such movement. `_group` is the process group, which may be made anew."""
    movement = _Movement(_parsed(request), shape, dtype)
    source = {kind for kind, *_ in movement.request.source.placements} - {"replicate", "shard"}
    if movement.norm is not None and len(source) > 1:
        raise InputError("a norm and another sum cannot be open at once")
    if movement.divisor != 1 and not (dtype.is_floating_point or dtype.is_complex):
        raise InputError(f"{movement.request.source} of {dtype} is no average of such elements")
    _ = movement.plan  # which may be refused
    _ = movement.participants
    return movement


def _movement_of(request: str, shape: tuple[int, ...], dtype: torch.dtype) -> _Movement:
    return _movement(request, shape, dtype, _parsed(request).options.process_group())


# --- Moving it: an operation on this rank's tile.


def _carry_out(movement: _Movement, tile: torch.Tensor) -> torch.Tensor:
    if movement.participants is None:
        return tile.new_empty(movement.local_shapes[1])
    if movement.norm is not None:
        tile = tile**movement.norm
    result = _moved(movement, tile)
    if movement.divisor != 1:
        result /= movement.divisor
    return result if movement.norm is None else result ** (1 / movement.norm)


def _moved(movement: _Movement, tile: torch.Tensor) -> torch.Tensor:
    participants, kind = movement.participants, tile.device.type
    _meet_first(tile.device, participants.group)
    time_limit = movement.request.options.time_limit
    with _agreement.calling(participants, movement.subject, time_limit or TIME_LIMIT, kind) as call:
        fault = movement.find_tile_fault(tile)
        if fault:
            raise InputError(fault)
        is_gathered = _has_fast_gather(tile.device, participants.group) and movement.gathered_axis is not None
        if is_gathered or movement.request.source.is_sum or not movement.are_boxes_single:
            tile = tile.contiguous()
        if is_gathered:
            return _gathered(movement, tile)
        stages = movement.stages(() if tile.is_contiguous() else tile.stride())
        return _point_to_point.move(tile, stages, movement.local_shapes[1], movement.staging, call)


def _gathered(movement: _Movement, tile: torch.Tensor) -> torch.Tensor:
    result = tile.new_empty(movement.local_shapes[1])
    ends = (_point_to_point.as_bytes(end.view(-1)) for end in (result, tile))
    group = _meshes[movement.request.source.mesh].get_group(movement.gathered_axis)
    dist.all_gather_into_tensor(*ends, group=group)
    return result


_SCHEMA = "(Tensor tile, str request, SymInt[] shape, ScalarType dtype, ScalarType gradient_dtype) -> Tensor"


@torch.library.custom_op("retile::redistribute", mutates_args=(), schema=_SCHEMA)
def _operation(
    tile: torch.Tensor, request: str, shape: Sequence[int], dtype: torch.dtype, gradient_dtype: torch.dtype
) -> torch.Tensor:
    """Cast, then moved; gradients likewise on their way back."""
    return _carry_out(_movement_of(request, tuple(shape), dtype), tile.to(dtype))


@_operation.register_fake
def _(tile, request, shape, dtype, gradient_dtype):
    if any(isinstance(length, torch.SymInt) for length in shape):
        return tile.new_empty(_parsed(request).target.local_shape(shape, dist.get_rank()), dtype=dtype)
    return tile.new_empty(_movement_of(request, tuple(shape), dtype).local_shapes[1], dtype=dtype)


def _keep(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    tile, ctx.request, ctx.shape, _, ctx.gradient_dtype = inputs
    ctx.dtype = tile.dtype


def _move_back(ctx: Any, gradient: torch.Tensor) -> tuple:
    moved = _operation(gradient, _parsed(ctx.request).back, ctx.shape, ctx.gradient_dtype, gradient.dtype)
    return moved.to(ctx.dtype), None, None, None, None


_operation.register_autograd(_move_back, setup_context=_keep)


def _is_watched() -> bool:
    """Whether a compiler looks on, or a mode: they are to see an operation, not what it does."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def _move(tile: torch.Tensor, request: str, shape: tuple[int, ...]) -> torch.Tensor:
    if _is_watched() or type(tile) is not torch.Tensor:
        return _operation(tile, request, shape, tile.dtype, tile.dtype)
    return _carry_out(_movement_of(request, shape, tile.dtype), tile)


@functools.lru_cache(maxsize=4096)
def _known(
    source: DTensorSpec, placements: tuple[Placement, ...], options: tuple[Any, ...], _identity: int, _group: Any
) -> tuple[_Movement, DTensorSpec]:
    """On one mesh: how a tensor moves, and what it is then. Checked, and found at once for tensors that come again."""
    mesh, placements = _check(source, placements, None, options)
    request = _request_text(mesh, source.placements, mesh, placements, options)
    movement = _movement_of(request, tuple(source.shape), source.tensor_meta.dtype)
    return movement, DTensorSpec(mesh, placements, tensor_meta=source.tensor_meta)


def _may_be_known(dt: DTensor, placements: tuple[Any, ...]) -> bool:
    is_plain = not _is_watched() and type(dt._local_tensor) is torch.Tensor and not _is_masked(dt)
    return is_plain and all(isinstance(placement, Placement) for placement in placements)


def _is_masked(dt: DTensor | DTensorSpec) -> bool:
    """Whether it is a sum of rows of an embedding, of which each rank is to mask those that it has not."""
    return any(hasattr(placement, "mask_buffer") for placement in dt.placements)


def _masked(tile: torch.Tensor, placements: Sequence[Placement]) -> torch.Tensor:
    """As _MaskPartial does it before it adds up."""
    for placement in placements:
        if hasattr(placement, "mask_buffer"):
            placement.mask_buffer.apply_mask(tile)
            placement.mask_buffer.release_mask()
    return tile


def _has_fast_gather(device: torch.device, group: dist.ProcessGroup) -> bool:
    """NCCL has; over gloo, messages are as fast."""
    return device.type == "cuda" and "nccl" in _agreement.backend_of(group, device.type)


@functools.lru_cache
def _meet_first(device: torch.device, group: dist.ProcessGroup) -> None:
    """All ranks of an NCCL group have to take part in the first thing that it does."""
    if _has_fast_gather(device, group):
        dist.all_reduce(torch.zeros(1, device=device), group=group)


# --- Bad input.


def _faults(dt: DTensor | DTensorSpec, placements: tuple[Any, ...], mesh: Any, options: _Options) -> Iterator[str]:
    """Everything that is wrong with what was given."""
    if options.memory_limit is not None and (
        not isinstance(options.memory_limit, int) or isinstance(options.memory_limit, bool)
    ):
        yield f"memory_limit is a whole number of bytes, not {options.memory_limit!r}"
    if options.time_limit is not None and not (isinstance(options.time_limit, (int, float)) and options.time_limit > 0):
        yield f"time_limit is a number of seconds above 0, not {options.time_limit!r}"
    if _has_own_order(dt):
        yield "the source's shards are in an order of their own (shard_order), which retile does not know"
    if _is_masked(dt) and _is_watched():
        yield "the source is a masked sum, which cannot be moved in a graph"
    for placement in (*dt.placements, *placements):
        try:
            _values_of(placement)
        except InputError as error:
            yield str(error)
    if isinstance(mesh, DeviceMesh) and len(placements) != mesh.ndim:
        yield f"there are {len(placements)} placements for a mesh of {mesh.ndim} dimensions"
    for placement in placements:
        dim = getattr(placement, "dim", None)
        if isinstance(dim, int) and not -dt.ndim <= dim < dt.ndim:
            yield f"{placement!r} cuts a dimension that a tensor of {dt.ndim} dimensions has not"
    if not isinstance(mesh, DeviceMesh):
        yield f"mesh is a DeviceMesh, not {mesh!r}"
        return
    partial = [placement for placement in placements if isinstance(placement, Partial)]
    if partial and (mesh != dt.device_mesh or any(p not in dt.placements for p in partial)):
        yield f"{partial[0]!r} cannot be a target: the source is no such sum on this mesh"
    if mesh.device_type != dt.device_mesh.device_type:
        yield f"the source is on {dt.device_mesh.device_type}, the target on {mesh.device_type}"


@functools.lru_cache(maxsize=4096)
def _usual_order(mesh: DeviceMesh, placements: tuple[Placement, ...]) -> Any:
    return getattr(DTensorSpec(mesh, placements), "shard_order", None)


def _has_own_order(dt: DTensor | DTensorSpec) -> bool:
    """Whether shards are in another order than their placements say; newer versions of PyTorch know such."""
    if torch.compiler.is_compiling():
        return False
    spec = getattr(dt, "_spec", dt)
    return getattr(spec, "shard_order", None) != _usual_order(spec.mesh, spec.placements)


def _check(
    dt: DTensor | DTensorSpec, placements: tuple[Any, ...], mesh: DeviceMesh | None, options: tuple[Any, ...]
) -> tuple[DeviceMesh, tuple[Placement, ...]]:
    mesh = dt.device_mesh if mesh is None else mesh
    faults = dict.fromkeys(_faults(dt, placements, mesh, _Options(*options)))
    if faults:
        raise InputError("\n".join(faults))
    return mesh, tuple(_from_the_front(placement, dt.ndim) for placement in placements)


def _from_the_front(placement: Placement, rank: int) -> Placement:
    if getattr(placement, "dim", 0) >= 0:
        return placement
    factor = {"split_factor": placement.split_factor} if hasattr(placement, "split_factor") else {}
    return type(placement)(placement.dim + rank, **factor)


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """A strided shard equals one that is not, in some versions."""
    return [(type(one), one) for one in some] == [(type(one), one) for one in others]


def _arguments(dt: Any, device_mesh: Any, placements: Any, mesh: Any) -> tuple[DeviceMesh | None, tuple[Any, ...]]:
    """Mesh and placements, from either order. Throws where it is not even clear what is given."""
    if not isinstance(dt, DTensor):
        raise InputError(f"{type(dt).__name__} is no DTensor")
    if placements is None and not isinstance(device_mesh, DeviceMesh):
        device_mesh, placements = None, device_mesh
    if isinstance(placements, Placement) or not isinstance(placements, Iterable):
        raise InputError(f"{placements!r} is no list of placements, one for each dimension of the mesh")
    if device_mesh is not None and mesh is not None:
        raise InputError("the mesh is given twice")
    return (device_mesh if mesh is None else mesh), tuple(placements)


@torch.compiler.assume_constant_result
def _group_name(group: dist.ProcessGroup | None) -> str:
    if group is not None and not isinstance(group, dist.ProcessGroup):
        raise InputError("group is no process group that this rank is in")
    return "" if group is None or group is dist.group.WORLD else group.group_name


# --- What users call.


def redistribute(
    dt: DTensor,
    device_mesh: DeviceMesh | Sequence[Placement] | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    mesh: DeviceMesh | None = None,
    memory_limit: int | None = None,
    planner: str = "auto",
    group: dist.ProcessGroup | None = None,
    time_limit: float | None = None,
    forward_dtype: torch.dtype | None = None,
    backward_dtype: torch.dtype | None = None,
    async_op: bool = False,
    max_bytes: int | None = None,
) -> DTensor:
    """The same tensor in other placements, and on another mesh where one is given: like `dt.redistribute`, by a plan.

    `redistribute(dt, placements)`, or `redistribute(dt, mesh, placements)` as in DTensor's own. Every rank of both meshes
    calls it, with the same arguments. Messages go over `group`, which has all of those ranks; the default group unless told.
    Ranks that do not agree, or do not come within `time_limit` seconds, are named in an AgreementError, after which the group's
    connections are broken (over NCCL, ranks are compared when they move something for the first time). It is 60 unless told.

    It can be differentiated: what flows back takes the way back, and what is replicated stays so, and is not added up.
    `forward_dtype` and `backward_dtype` are what tensor and gradient are cast to before they are moved. The result is complete
    on return, also with `async_op`. `torch.compile(fullgraph=True)` sees one operation.

    A plan that would hold more than `memory_limit` bytes on a rank (tiles and staging) is not used: MemoryLimitError names the
    smallest limit that works; `max_bytes` is its older name. What is wrong with the input is one InputError that lists it all.
    """
    mesh, placements = _arguments(dt, device_mesh, placements, mesh)
    memory_limit = max_bytes if memory_limit is None else memory_limit
    options = planner, memory_limit, _group_name(group), time_limit
    is_differentiated = dt.requires_grad and torch.is_grad_enabled()
    is_cast = forward_dtype not in (None, dt.dtype)
    if not is_differentiated and not is_cast and mesh in (None, dt.device_mesh):
        if _are_same(placements, dt.placements):
            return dt.redistribute(placements=placements)  # the same tile, as of DTensor's own
        if (mesh is None or mesh is dt.device_mesh) and _may_be_known(dt, placements):
            process_group = dist.group.WORLD if group is None else group
            movement, spec = _known(dt._spec, placements, options, id(dt.device_mesh), process_group)
            _statistics.moved += 1
            return DTensor(_carry_out(movement, dt._local_tensor), spec, requires_grad=False)
    mesh, placements = _check(dt, placements, mesh, options)
    dtypes = forward_dtype or dt.dtype, backward_dtype or dt.dtype
    if torch.compiler.is_compiling():
        return _compiled(dt, mesh, placements, options, *dtypes)
    return _Redistribute.apply(dt, mesh, placements, options, *dtypes)


def _compiled(
    dt: DTensor,
    mesh: DeviceMesh,
    placements: tuple[Placement, ...],
    options: tuple[Any, ...],
    dtype: torch.dtype,
    gradient_dtype: torch.dtype,
) -> DTensor:
    """For a compiler that knows no functions of DTensors: an operation on tiles. Gradients are never parts of sums here."""
    kept = tuple(Replicate() if isinstance(one, Partial) else one for one in dt.placements)
    request = _request_text(dt.device_mesh, tuple(dt.placements), mesh, placements, options)
    tile = _operation(dt.to_local(grad_placements=kept), request, dt.shape, dtype, gradient_dtype)
    return DTensor.from_local(tile, mesh, placements, run_check=False, shape=dt.shape, stride=dt.stride())


def plan_of(
    dt: DTensor,
    device_mesh: DeviceMesh | Sequence[Placement] | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    mesh: DeviceMesh | None = None,
    memory_limit: int | None = None,
    planner: str = "auto",
    max_bytes: int | None = None,
) -> Plan:
    """The plan by which `redistribute` would move a tensor. Nothing moves."""
    memory_limit = max_bytes if memory_limit is None else memory_limit
    return _movement_to(dt, device_mesh, placements, mesh, _Options(planner, memory_limit)).plan


def _movement_to(dt: DTensor, device_mesh: Any, placements: Any, mesh: Any, options: _Options) -> _Movement:
    values = dataclasses.astuple(options)
    mesh, placements = _check(dt, *reversed(_arguments(dt, device_mesh, placements, mesh)), values)
    request = _request_text(dt.device_mesh, tuple(dt.placements), mesh, placements, values)
    return _movement_of(request, tuple(dt.shape), dt.dtype)


def explain(
    dt: DTensor,
    device_mesh: DeviceMesh | Sequence[Placement] | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    mesh: DeviceMesh | None = None,
    memory_limit: int | None = None,
    planner: str = "auto",
    max_bytes: int | None = None,
) -> str:
    """What `redistribute` would do, as text: the plan with placements beside its types, and what this rank sends."""
    memory_limit = max_bytes if memory_limit is None else memory_limit
    movement = _movement_to(dt, device_mesh, placements, mesh, _Options(planner, memory_limit))
    return _explained(movement, dt._local_tensor)


def _explained(movement: _Movement, tile: torch.Tensor) -> str:
    lines = movement.plan.explain().splitlines()
    stops = [number for number, line in enumerate(lines) if line.startswith("  [")]
    for number in stops:
        end = {stops[0]: movement.request.source, stops[-1]: movement.request.target}.get(number)
        placements = _placements_of(lines[number], movement) if end is None else str(end)
        lines[number] += f", {placements}" if placements else ""
    return "\n".join([*lines, *_traffic(movement, tile)]) + "\n"


def _placements_of(line: str, movement: _Movement) -> str:
    """Of a type between source and target; nothing where DTensor cannot say it."""
    try:
        return Layout(line.split("//")[0].strip(), movement.layouts[0].mesh).to_notation("dtensor")[1]
    except InputError:
        return ""


def _traffic(movement: _Movement, tile: torch.Tensor) -> Iterator[str]:
    """What this rank does in the plan."""
    rank, itemsize = dist.get_rank(), movement.dtype.itemsize
    if movement.participants is None:
        yield f"// rank {rank} takes no part"
        return
    if _has_fast_gather(tile.device, movement.participants.group) and movement.gathered_axis is not None:
        yield f"// by all_gather_into_tensor along {movement.request.source.names[movement.gathered_axis]}"
        return
    rounds = [one for stage in movement.stages(()) for one in stage.rounds]
    ways = [[one.send for one in rounds if one.send], [one.receive for one in rounds if one.receive]]
    sent, received = (
        f"{sum(one.elements for one in way) * itemsize:,} bytes in {len(way)} message{'s' * (len(way) != 1)}"
        for way in ways
    )
    yield f"// rank {rank} sends {sent}, and receives {received}"


class _Redistribute(torch.autograd.Function):
    """Of a DTensor: what flows back takes the way back, at gradients' own placements, as in DTensor's own."""

    @staticmethod
    def forward(ctx, dt, mesh, placements, options, forward_dtype, backward_dtype):
        ctx.source, ctx.options = dt._spec, options
        ctx.dtypes = dt.dtype, backward_dtype
        tile = dt._local_tensor.to(forward_dtype)
        meta = TensorMeta(dt.shape, dt.stride(), forward_dtype)
        if dt.device_mesh != mesh or not _are_same(dt.placements, placements):
            request = _request_text(dt.device_mesh, tuple(dt.placements), mesh, placements, options)
            _statistics.moved += 1
            tile = _move(_masked(tile, dt.placements), request, tuple(dt.shape))
        return DTensor(tile, DTensorSpec(mesh, placements, tensor_meta=meta), requires_grad=dt.requires_grad)

    @staticmethod
    def backward(ctx, gradient):
        own_dtype, dtype = ctx.dtypes
        mesh, placements = ctx.source.mesh, _flowing_back(gradient, ctx.source)
        try:
            _check(gradient, placements, mesh, ctx.options)
            moved = _Redistribute.apply(gradient, mesh, placements, ctx.options, dtype, gradient.dtype)
        except InputError:
            if gradient.device_mesh != mesh:
                raise
            moved = gradient.redistribute(mesh, placements)
        return moved.to(own_dtype), None, None, None, None, None


def _flowing_back(gradient: DTensor, source: DTensorSpec) -> tuple[Placement, ...]:
    """What flows back to a part of a sum is what flows back to the sum, unless it is a part of a sum itself."""
    is_same = gradient.device_mesh == source.mesh
    arriving = gradient.placements if is_same else (Replicate(),) * len(source.placements)
    return tuple(
        Replicate() if own.is_partial() and not one.is_partial() else own
        for own, one in zip(source.placements, arriving, strict=True)
    )


# --- What was done.


@dataclasses.dataclass
class Statistics:
    """Redistributions of this process: how many went by plans, and how many were left to DTensor, by reason."""

    moved: int = 0
    left: dict[str, int] = dataclasses.field(default_factory=collections.Counter)

    def __str__(self) -> str:
        lines = [f"{self.moved} by plans, {sum(self.left.values())} left to DTensor"]
        return "\n".join(lines + [f"  {count}: {reason}" for reason, count in sorted(self.left.items())])


_statistics = Statistics()


def statistics() -> Statistics:
    """Of all redistributions since the process began, a copy."""
    return Statistics(_statistics.moved, dict(_statistics.left))


# --- Inside DTensor.


def _find_obstacle(tile: torch.Tensor, current: Any, target: Any, is_async: bool) -> str:
    """Why DTensor should do it; nothing where a plan can be tried."""
    if type(tile).__name__ == "LocalTensor" or not isinstance(dist.get_rank(), int):
        return "ranks are simulated in one process"
    if any(isinstance(length, torch.SymInt) for length in current.shape):
        return "a shape that is not known when a graph is made"
    if is_async:
        return "async_op"
    if current.mesh != target.mesh:
        return "another mesh"
    if _has_own_order(current) or _has_own_order(target):
        return "shards in an order of their own"
    sums = [(own, one) for own, one in zip(current.placements, target.placements, strict=True) if one.is_partial()]
    if any(own != one for own, one in sums) or _is_masked(target):
        return "a target that is a sum, to which nothing is moved"
    if _is_watched() and _is_masked(current):
        return "a masked sum, of which a graph is made"
    return ""


def _moved_by_plan(
    tile: torch.Tensor, current: Any, target: Any, options: tuple[Any, ...], is_async: bool
) -> torch.Tensor | None:
    """Nothing where DTensor should do it: what retile does not know, or has no plan for."""
    ends = (current.mesh, tuple(current.placements)), (target.mesh, tuple(target.placements))
    if ends[0] == ends[1]:
        return None
    reason = _find_obstacle(tile, current, target, is_async)
    if not reason:
        try:
            request = _request_text(*ends[0], *ends[1], options)
            movement = _movement_of(request, tuple(current.shape), tile.dtype)
            if movement.participants is None:
                return None
            _agreement.backend_of(movement.participants.group, current.mesh.device_type)
        except InputError as error:
            reason = str(error).splitlines()[0]
    if reason:
        _statistics.left[reason] = _statistics.left.get(reason, 0) + 1
        return None
    _statistics.moved += 1
    return _move(_masked(tile, current.placements), request, tuple(current.shape))


def _patched_modules() -> list[Any]:
    from torch.distributed.tensor import _api, _dispatch

    return [module for module in (_redistribute, _dispatch, _api) if hasattr(module, "redistribute_local_tensor")]


def _version_faults() -> list[str]:
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    faults = []
    if version < OLDEST_VERSION:
        faults.append(f"PyTorch {torch.__version__} is older than {'.'.join(map(str, OLDEST_VERSION))}")
    function = getattr(_redistribute, "redistribute_local_tensor", None)
    names = list(inspect.signature(function).parameters)[:3] if function else []
    if names != ["local_tensor", "current_spec", "target_spec"]:
        faults.append(f"PyTorch {torch.__version__} redistributes in a way that retile does not know")
    return faults


@contextlib.contextmanager
def enabled(*, group: dist.ProcessGroup | None = None, time_limit: float | None = None) -> Iterator[None]:
    """DTensor's own redistributions go by plans: explicit ones, those that operations need, and those that flow back.

    What retile does not know stays with DTensor (`statistics()` counts it). All ranks have to be in this context, or none: a
    rank that is not is named in an AgreementError after `time_limit` seconds. Throws InputError where the version of PyTorch
    is not one that retile knows.
    """
    faults = _version_faults()
    if faults:
        raise InputError("\n".join(faults))
    originals = [(module, module.redistribute_local_tensor) for module in _patched_modules()]
    options = "auto", None, _group_name(group), time_limit

    def replacing(original: Any) -> Any:
        @functools.wraps(original)
        def redistribute_local_tensor(local_tensor, current_spec, target_spec, **keywords):
            is_async = keywords.get("async_op", False)
            moved = _moved_by_plan(local_tensor, current_spec, target_spec, options, is_async)
            return original(local_tensor, current_spec, target_spec, **keywords) if moved is None else moved

        return redistribute_local_tensor

    for module, original in originals:
        module.redistribute_local_tensor = replacing(original)
    try:
        yield
    finally:
        for module, original in originals:
            module.redistribute_local_tensor = original
