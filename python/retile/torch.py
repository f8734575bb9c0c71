"""retile's plans inside PyTorch: `redistribute(dt, placements)` where you have `dt.redistribute(…)`.

Every rank of the meshes calls it. Messages go from rank to rank over the default process group, whatever its backend.

    from torch.distributed.tensor import Shard, distribute_tensor

    rows = distribute_tensor(tensor, mesh, [Shard(0), Shard(0)])
    columns = retile.torch.redistribute(rows, [Shard(1), Shard(1)])
    other = retile.torch.redistribute(rows, [Shard(0)], mesh=other_mesh)
    with retile.torch.enabled():    # DTensor's own, explicit and implicit, and what flows back
        loss = model(x).sum()
        loss.backward()
"""

import contextlib
import dataclasses
import functools
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, _redistribute
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import Placement
from torch.utils._python_dispatch import _disable_current_modes

from retile import _point_to_point, _retile
from retile._elements import element_type
from retile._errors import InputError
from retile._retile import Layout, Plan
from retile._shardings import device_mesh_values, dtensor_layout, placement_values

__all__ = ["Transfer", "enabled", "explain", "plan_of", "redistribute"]

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
    placements: tuple[tuple[str, int, int], ...]

    @property
    def mesh(self) -> tuple[Any, ...]:
        return self.names, self.sizes, self.ranks

    @property
    def is_sum(self) -> bool:
        return any(kind not in ("replicate", "shard") for kind, *_ in self.placements)

    def layout(self, shape: Sequence[int]) -> Layout:
        return dtensor_layout(*self.mesh, self.placements, shape)

    def without_sums(self) -> "_End":
        """What flows back to a part of a sum is what flows back to the sum."""
        kept = [one if one[0] == "shard" else ("replicate", 0, 1) for one in self.placements]
        return dataclasses.replace(self, placements=tuple(kept))

    def text(self) -> str:
        return json.dumps(dataclasses.astuple(self))


@functools.lru_cache(maxsize=4096)
def _end_of(text: str) -> _End:
    names, sizes, ranks, placements = json.loads(text)
    return _End(tuple(names), tuple(sizes), tuple(ranks), tuple(map(tuple, placements)))


_meshes: dict[tuple[Any, ...], DeviceMesh] = {}  # by their values: the last ones, whose groups are there already


# Meshes are equal if their ranks are. What depends on a mesh's groups is cached by identity too: groups may be destroyed,
# and made again for an equal mesh. An entry keeps its mesh alive, and so its identity.


@functools.lru_cache(maxsize=4096)
def _cached_text(mesh: DeviceMesh, placements: tuple[Placement, ...], _identity: int) -> str:
    with _disable_current_modes():
        end = _End(*device_mesh_values(mesh), tuple(map(placement_values, placements)))
    _meshes[end.mesh] = mesh
    return end.text()


@torch.compiler.assume_constant_result
def _text_of(mesh: DeviceMesh, placements: tuple[Placement, ...]) -> str:
    return _cached_text(mesh, placements, id(mesh))


@dataclasses.dataclass(frozen=True)
class _Movement:
    """From one layout to another, as one rank does it."""

    source: _End
    target: _End
    shape: tuple[int, ...]
    dtype: torch.dtype
    planner: str
    memory_limit: int | None

    @functools.cached_property
    def layouts(self) -> tuple[Layout, Layout]:
        return self.source.layout(self.shape), self.target.layout(self.shape)

    @functools.cached_property
    def plan(self) -> Plan:
        element = element_type(self.dtype)
        return _retile.plan(
            *self.layouts, element, self.planner, "volume", self.memory_limit, True, self.staging, EXCHANGE_WEIGHT
        )

    @functools.cached_property
    def message(self) -> int:
        return _point_to_point.message_bytes(*self.layouts, self.dtype.itemsize, self.memory_limit is not None)

    @property
    def staging(self) -> int:
        return _point_to_point.STAGED_MESSAGES * self.message

    @property
    def mesh(self) -> DeviceMesh:
        """The source's."""
        return _meshes[self.source.mesh]

    @functools.cached_property
    def gathered_axis(self) -> int | None:
        """The mesh's dimension along which tiles are to be gathered one after the other, where that is all to do."""
        mesh = self.mesh
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

    def local_shape(self, rank: int) -> tuple[int, ...]:
        """Of the target's tile."""
        return self.layouts[1].tile_shape(rank)


@functools.lru_cache(maxsize=4096)
def _movement(
    source: str, target: str, shape: tuple[int, ...], dtype: torch.dtype, planner: str, memory_limit: int | None
) -> _Movement:
    movement = _Movement(_end_of(source), _end_of(target), shape, dtype, planner, memory_limit)
    _ = movement.plan  # which may be refused
    return movement


@functools.lru_cache(maxsize=4096)
def _stages(movement: _Movement, rank: int, strides: tuple[int, ...]) -> tuple[_point_to_point.Stage, ...]:
    if rank >= max(layout.device_count for layout in movement.layouts):  # no mesh names it
        return ()
    return _point_to_point.schedule(movement.plan, rank, movement.dtype.itemsize, movement.message, strides)


# --- Moving it: an operation on this rank's tile.


def _move_now(
    tile: torch.Tensor, source: str, target: str, shape: Sequence[int], planner: str, memory_limit: int | None
) -> torch.Tensor:
    return _carry_out(_movement(source, target, tuple(shape), tile.dtype, planner, memory_limit), tile)


def _carry_out(movement: _Movement, tile: torch.Tensor) -> torch.Tensor:
    rank = dist.get_rank()
    is_strided = not tile.is_contiguous()
    if is_strided and movement.source.is_sum:
        tile, is_strided = tile.contiguous(), False
    if not is_strided and _has_fast_gather(tile.device) and movement.gathered_axis is not None:
        result = tile.new_empty(movement.local_shape(rank))
        ends = (_point_to_point.as_bytes(end.view(-1)) for end in (result, tile))
        dist.all_gather_into_tensor(*ends, group=movement.mesh.get_group(movement.gathered_axis))
        return result
    stages = _stages(movement, rank, tile.stride() if is_strided else ())
    _meet_first(tile.device, dist.group.WORLD)
    return _point_to_point.move(tile, stages, movement.local_shape(rank), movement.staging)


_SCHEMA = "(Tensor tile, str source, str target, SymInt[] shape, str planner, SymInt? memory_limit) -> Tensor"


@torch.library.custom_op("retile::redistribute", mutates_args=(), schema=_SCHEMA)
def _operation(
    tile: torch.Tensor, source: str, target: str, shape: Sequence[int], planner: str, memory_limit: int | None
) -> torch.Tensor:
    return _move_now(tile, source, target, shape, planner, memory_limit)


@_operation.register_fake
def _(tile, source, target, shape, planner, memory_limit):
    if any(isinstance(length, torch.SymInt) for length in shape):  # plans are for one shape
        raise InputError("the shape is not known when the graph is made: use torch.compile(…, dynamic=False)")
    movement = _movement(source, target, tuple(shape), tile.dtype, planner, memory_limit)
    return tile.new_empty(movement.local_shape(dist.get_rank()))


def _keep(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.arguments = inputs[1:]


def _move_back(ctx: Any, gradient: torch.Tensor) -> tuple:
    source, target, *rest = ctx.arguments
    back = (_end_of(end).without_sums().text() for end in (target, source))
    return _move(gradient, *back, *rest), *(None,) * len(ctx.arguments)


_operation.register_autograd(_move_back, setup_context=_keep)


def _is_watched() -> bool:
    """Whether a compiler looks on, or a mode: they are to see an operation, not what it does."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def _move(tile: torch.Tensor, *arguments: Any) -> torch.Tensor:
    is_plain = not _is_watched() and type(tile) is torch.Tensor and not tile.requires_grad
    return (_move_now if is_plain else _operation)(tile, *arguments)


@functools.lru_cache(maxsize=4096)
def _known(
    source: DTensorSpec, placements: tuple[Placement, ...], planner: str, memory_limit: int | None, _identity: int
) -> tuple[_Movement, DTensorSpec]:
    """On one mesh: how a tensor moves, and what it is then. Checked, and found at once for tensors that come again."""
    mesh, placements = _check(source, placements, None, memory_limit)
    ends = _text_of(mesh, source.placements), _text_of(mesh, placements)
    movement = _movement(*ends, tuple(source.shape), source.tensor_meta.dtype, planner, memory_limit)
    return movement, DTensorSpec(mesh, placements, tensor_meta=source.tensor_meta)


def _may_be_known(dt: DTensor, placements: tuple[Any, ...]) -> bool:
    is_plain = not _is_watched() and type(dt._local_tensor) is torch.Tensor
    return is_plain and all(isinstance(placement, Placement) for placement in placements)


def _has_fast_gather(device: torch.device) -> bool:
    """NCCL has; over gloo, messages are as fast."""
    return device.type == "cuda" and "nccl" in dist.get_backend()


@functools.lru_cache
def _meet_first(device: torch.device, _: dist.ProcessGroup) -> None:
    """All ranks of an NCCL group have to take part in the first thing that it does."""
    if _has_fast_gather(device):
        dist.all_reduce(torch.zeros(1, device=device))


# --- Bad input.


def _faults(
    dt: DTensor | DTensorSpec, placements: tuple[Any, ...], mesh: Any, memory_limit: int | None
) -> Iterator[str]:
    """Everything that is wrong with what was given."""
    if memory_limit is not None and not isinstance(memory_limit, int):
        yield f"memory_limit is a whole number of bytes, not {memory_limit!r}"
    if _has_own_order(dt):
        yield "the source's shards are in an order of their own (shard_order), which retile does not know"
    for placement in (*dt.placements, *placements):
        try:
            placement_values(placement)
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
    dt: DTensor | DTensorSpec, placements: tuple[Any, ...], mesh: DeviceMesh | None, memory_limit: int | None
) -> tuple[DeviceMesh, tuple[Placement, ...]]:
    mesh = dt.device_mesh if mesh is None else mesh
    faults = dict.fromkeys(_faults(dt, placements, mesh, memory_limit))
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


def _arguments(dt: Any, placements: Any) -> tuple[Any, ...]:
    """The placements. Throws where it is not even clear what is given."""
    if not isinstance(dt, DTensor):
        raise InputError(f"{type(dt).__name__} is no DTensor")
    if isinstance(placements, Placement) or not isinstance(placements, Iterable):
        raise InputError(f"{placements!r} is no list of placements, one for each dimension of the mesh")
    return tuple(placements)


# --- What users call.


def redistribute(
    dt: DTensor,
    placements: Sequence[Placement],
    *,
    mesh: DeviceMesh | None = None,
    memory_limit: int | None = None,
    planner: str = "auto",
    max_bytes: int | None = None,
) -> DTensor:
    """The same tensor in other placements, and on another mesh where one is given: like `dt.redistribute`, by a plan.

    It can be differentiated: what flows back takes the way back, and what is replicated stays so, and is not added up.
    `torch.compile(fullgraph=True)` sees one operation. A plan that would hold more than `memory_limit` bytes on a rank
    (tiles and staging) is not used: MemoryLimitError names the smallest limit that works; `max_bytes` is its older name.
    What is wrong with the input is one InputError that lists it all, before anything moves.
    """
    placements = _arguments(dt, placements)
    memory_limit = max_bytes if memory_limit is None else memory_limit
    is_differentiated = dt.requires_grad and torch.is_grad_enabled()
    if not is_differentiated and mesh in (None, dt.device_mesh) and _are_same(placements, dt.placements):
        return dt.redistribute(placements=placements)  # the same tile, as of DTensor's own
    if not is_differentiated and mesh is None and _may_be_known(dt, placements):
        movement, spec = _known(dt._spec, placements, planner, memory_limit, id(dt.device_mesh))
        return DTensor(_carry_out(movement, dt._local_tensor), spec, requires_grad=False)
    mesh, placements = _check(dt, placements, mesh, memory_limit)
    kept = tuple(Replicate() if isinstance(one, Partial) else one for one in dt.placements)
    tile = _move(
        dt.to_local(grad_placements=kept),
        _text_of(dt.device_mesh, tuple(dt.placements)),
        _text_of(mesh, placements),
        dt.shape,
        planner,
        memory_limit,
    )
    return DTensor.from_local(tile, mesh, placements, run_check=False, shape=dt.shape, stride=dt.stride())


def plan_of(
    dt: DTensor,
    placements: Sequence[Placement],
    *,
    mesh: DeviceMesh | None = None,
    memory_limit: int | None = None,
    planner: str = "auto",
    max_bytes: int | None = None,
) -> Plan:
    """The plan by which `redistribute` would move a tensor. Nothing moves."""
    memory_limit = max_bytes if memory_limit is None else memory_limit
    mesh, placements = _check(dt, _arguments(dt, placements), mesh, memory_limit)
    ends = _text_of(dt.device_mesh, tuple(dt.placements)), _text_of(mesh, placements)
    return _movement(*ends, tuple(dt.shape), dt.dtype, planner, memory_limit).plan


def explain(dt: DTensor, placements: Sequence[Placement], **options: Any) -> str:
    """What `redistribute` would do, as text."""
    return plan_of(dt, placements, **options).explain()


# --- Inside DTensor.


def _moved_by_plan(local_tensor: torch.Tensor, current: Any, target: Any) -> torch.Tensor | None:
    """Nothing where DTensor should do it: what retile does not know, or has no plan for."""
    shape = tuple(current.shape)
    if any(isinstance(length, torch.SymInt) for length in shape) or dist.get_rank() not in current.mesh.mesh:
        return None
    ends = [(spec.mesh, tuple(spec.placements)) for spec in (current, target)]
    if ends[0] == ends[1] or _has_own_order(current) or _has_own_order(target):
        return None
    try:
        texts = [_text_of(*end) for end in ends]
        _movement(*texts, shape, local_tensor.dtype, "auto", None)
    except InputError:
        return None
    return _move(local_tensor, *texts, shape, "auto", None)


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
def enabled() -> Iterator[None]:
    """DTensor's own redistributions go by plans: explicit ones, those that operations need, and those that flow back.

    What retile does not know stays with DTensor. All ranks have to be in this context, or none. Throws InputError where
    the version of PyTorch is not one that retile knows.
    """
    faults = _version_faults()
    if faults:
        raise InputError("\n".join(faults))
    originals = [(module, module.redistribute_local_tensor) for module in _patched_modules()]

    def replacing(original: Any) -> Any:
        @functools.wraps(original)
        def redistribute_local_tensor(local_tensor, current_spec, target_spec, **options):
            moved = _moved_by_plan(local_tensor, current_spec, target_spec)
            return original(local_tensor, current_spec, target_spec, **options) if moved is None else moved

        return redistribute_local_tensor

    for module, original in originals:
        module.redistribute_local_tensor = replacing(original)
    try:
        yield
    finally:
        for module, original in originals:
            module.redistribute_local_tensor = original


from retile._torch_transfer import Transfer
