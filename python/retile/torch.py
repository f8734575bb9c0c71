"""retile's plans inside PyTorch: `redistribute(dt, placements)` where you have `dt.redistribute(…)`.

Every rank of the meshes calls it. Messages go from rank to rank over a process group (the default one if omitted), with
any backend. Ranks that do not make the same call get an AgreementError, which says who did what.

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
import re
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, _redistribute
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor.placement_types import Placement

from retile import _process_groups
from retile._agreement import AgreementError
from retile._calibration import CALLS, calibrated
from retile._errors import InputError
from retile._machines import require_machine
from retile._movements import (
    Movement,
    Options,
    begin,
    carry_out,
    has_fast_gather,
    is_watched,
    move_tile,
    movement_of,
    operation,
    request_text,
    values_of,
)
from retile._retile import Machine, Plan
from retile._shardings import annotated

__all__ = [
    "AgreementError",
    "Statistics",
    "Transfer",
    "calibrate",
    "enabled",
    "explain",
    "manifest",
    "plan_of",
    "redistribute",
    "statistics",
]

OLDEST_VERSION = (2, 6)


# --- Cached movements.


@functools.lru_cache(maxsize=4096)
def _known(
    source: DTensorSpec, placements: tuple[Placement, ...], options: tuple[Any, ...], _identity: int, _group: Any
) -> tuple[Movement, DTensorSpec]:
    """The movement of a tensor on one mesh, and its spec afterwards. Checked, and cached for tensors that come
    again."""
    mesh, placements = _check(source, placements, None, options)
    request = request_text(mesh, source.placements, mesh, placements, options)
    movement = movement_of(request, tuple(source.shape), source.tensor_meta.dtype)
    return movement, DTensorSpec(mesh, placements, tensor_meta=source.tensor_meta)


def _may_be_known(dt: DTensor, placements: tuple[Any, ...]) -> bool:
    is_plain = not is_watched() and type(dt._local_tensor) is torch.Tensor and not _is_masked(dt)
    return is_plain and all(isinstance(placement, Placement) for placement in placements)


def _is_masked(dt: DTensor | DTensorSpec) -> bool:
    """Whether it is a sum of embedding rows, of which each rank is to mask those that it lacks."""
    return any(type(placement).__name__ == "_MaskPartial" for placement in dt.placements)


def _masked(tile: torch.Tensor, placements: Sequence[Placement]) -> torch.Tensor:
    """The tile, masked as _MaskPartial does before it adds up."""
    for placement in placements:
        if hasattr(placement, "mask_buffer"):
            placement.mask_buffer.apply_mask(tile)
            placement.mask_buffer.release_mask()
    return tile


# --- Bad input.


def _faults(dt: DTensor | DTensorSpec, placements: tuple[Any, ...], mesh: Any, options: Options) -> Iterator[str]:
    """Everything that is wrong with the input."""
    if options.memory_limit is not None and (
        not isinstance(options.memory_limit, int) or isinstance(options.memory_limit, bool)
    ):
        yield f"memory_limit is a whole number of bytes, not {options.memory_limit!r}"
    if options.time_limit is not None and not (isinstance(options.time_limit, (int, float)) and options.time_limit > 0):
        yield f"time_limit is a number of seconds above 0, not {options.time_limit!r}"
    if _has_own_order(dt):
        yield "the source's shards are in an order of their own (shard_order), which retile does not know"
    if _is_masked(dt) and is_watched():
        yield "the source is a masked sum, which cannot be moved in a graph"
    for placement in (*dt.placements, *placements):
        try:
            values_of(placement)
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
    """Whether shards are in another order than their placements say, as newer versions of PyTorch allow."""
    if torch.compiler.is_compiling():
        return False
    spec = getattr(dt, "_spec", dt)
    return getattr(spec, "shard_order", None) != _usual_order(spec.mesh, spec.placements)


def _check(
    dt: DTensor | DTensorSpec, placements: tuple[Any, ...], mesh: DeviceMesh | None, options: tuple[Any, ...]
) -> tuple[DeviceMesh, tuple[Placement, ...]]:
    mesh = dt.device_mesh if mesh is None else mesh
    faults = dict.fromkeys(_faults(dt, placements, mesh, Options(*options)))
    if faults:
        raise InputError("\n".join(faults))
    return mesh, tuple(_from_the_front(placement, dt.ndim) for placement in placements)


def _from_the_front(placement: Placement, rank: int) -> Placement:
    if getattr(placement, "dim", 0) >= 0:
        return placement
    factor = {"split_factor": placement.split_factor} if hasattr(placement, "split_factor") else {}
    return type(placement)(placement.dim + rank, **factor)


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether placements are the same. In some versions a strided shard equals one that is not strided."""
    return [(type(one), one) for one in some] == [(type(one), one) for one in others]


def _arguments(dt: Any, device_mesh: Any, placements: Any, mesh: Any) -> tuple[DeviceMesh | None, tuple[Any, ...]]:
    """The mesh and placements, given in either order. Raises where it is unclear what is given."""
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


def _json_of(machine: Machine | None) -> str | None:
    require_machine(machine)
    return None if machine is None else machine.to_json()


# --- Public functions.


def redistribute(
    dt: DTensor,
    device_mesh: DeviceMesh | Sequence[Placement] | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    mesh: DeviceMesh | None = None,
    memory_limit: int | None = None,
    planner: str = "auto",
    machine: Machine | None = None,
    group: dist.ProcessGroup | None = None,
    time_limit: float | None = None,
    forward_dtype: torch.dtype | None = None,
    backward_dtype: torch.dtype | None = None,
    async_op: bool = False,
    max_bytes: int | None = None,
) -> DTensor:
    """Moves a tensor to other placements, and to another mesh if one is given, like `dt.redistribute`, but by a plan.

    `redistribute(dt, placements)`, or `redistribute(dt, mesh, placements)` as in DTensor's own. Every rank of both
    meshes calls it, with the same arguments. Messages go over `group`, which must contain all of those ranks; the
    default group if omitted. Ranks that disagree, or do not come within `time_limit` seconds (default: 60), are named
    in an AgreementError, after which the group's connections are broken. Over NCCL, ranks wait for each other only when
    they move something for the first time; a later disagreement is logged, and raised by the next call.

    It is differentiable: gradients take the way back, and replicated gradients stay replicated and are not added up.
    `forward_dtype` and `backward_dtype` are the types that tensor and gradient are cast to before they are moved. With
    `async_op`, a thread moves tensors in the host's memory, and the result is waited for when it is used, as with
    DTensor; not with a memory limit. `torch.compile(fullgraph=True)` sees one operation.

    A plan that would hold more than `memory_limit` bytes on a rank (tiles and staging) is not used: MemoryLimitError
    names the smallest limit that works; `max_bytes` is its older name. With a `machine`, the plan that is predicted to
    be the fastest on it is used. All faults of the input are listed in one InputError.
    """
    mesh, placements = _arguments(dt, device_mesh, placements, mesh)
    memory_limit = max_bytes if memory_limit is None else memory_limit
    options = planner, memory_limit, _group_name(group), time_limit, _json_of(machine)
    is_differentiated = dt.requires_grad and torch.is_grad_enabled()
    is_cast = forward_dtype not in (None, dt.dtype)
    if not is_differentiated and not is_cast and mesh in (None, dt.device_mesh):
        if _are_same(placements, dt.placements):
            return dt.redistribute(placements=placements)  # the same tile, as DTensor's own returns it
        if (mesh is None or mesh is dt.device_mesh) and _may_be_known(dt, placements):
            process_group = dist.group.WORLD if group is None else group
            movement, spec = _known(dt._spec, placements, options, id(dt.device_mesh), process_group)
            _statistics.moved += 1
            tile = (begin if async_op else carry_out)(movement, dt._local_tensor)
            return DTensor(tile, spec, requires_grad=False)
    mesh, placements = _check(dt, placements, mesh, options)
    dtypes = forward_dtype or dt.dtype, backward_dtype or dt.dtype
    if torch.compiler.is_compiling():
        return _compiled(dt, mesh, placements, options, *dtypes)
    return _Redistribute.apply(dt, mesh, placements, options, *dtypes, async_op)


def calibrate(device_type: str = "cpu") -> Machine:
    """The machine on which plans take as long as `redistribute` takes here, measured over the default group, whose
    ranks must be on one host. All ranks call it, and get the same machine. Pass it as `machine` afterwards. Raises
    RuntimeError where the times make no sense."""
    ranks = dist.get_world_size()
    if ranks < 2:
        raise InputError("calibration takes two ranks or more")
    names: list[Any] = [None] * ranks
    dist.all_gather_object(names, socket.gethostname())
    if len(set(names)) > 1:
        raise InputError("the ranks are on several hosts\nhint: mpirun -n 8 retile calibrate measures links")
    meshes: dict[int, DeviceMesh] = {}

    def trial(group: int, rows: int, run: int) -> float:
        if group not in meshes:
            meshes[group] = init_device_mesh(device_type, (ranks // group, group))
        tile = torch.zeros(1, rows, group * run, dtype=torch.uint8, device=device_type)
        matrix = DTensor.from_local(tile, meshes[group], [Shard(0), Shard(1)], run_check=False)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(CALLS):
            redistribute(matrix, [Shard(0), Shard(2)], planner="direct")
        taken = torch.tensor([(time.perf_counter() - start) / CALLS], dtype=torch.float64, device=device_type)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        return taken.item()

    return calibrated(ranks, trial, f"PyTorch's messages over {dist.get_backend()}")


def _compiled(
    dt: DTensor,
    mesh: DeviceMesh,
    placements: tuple[Placement, ...],
    options: tuple[Any, ...],
    dtype: torch.dtype,
    gradient_dtype: torch.dtype,
) -> DTensor:
    """For compilers that do not support functions of DTensors: an operation on tiles. Gradients are never parts of sums
    here."""
    kept = tuple(Replicate() if isinstance(one, Partial) else one for one in dt.placements)
    request = request_text(dt.device_mesh, tuple(dt.placements), mesh, placements, options)
    tile = operation(dt.to_local(grad_placements=kept), request, dt.shape, dtype, gradient_dtype)
    return DTensor.from_local(tile, mesh, placements, run_check=False, shape=dt.shape, stride=dt.stride())


def plan_of(
    dt: DTensor,
    device_mesh: DeviceMesh | Sequence[Placement] | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    mesh: DeviceMesh | None = None,
    memory_limit: int | None = None,
    planner: str = "auto",
    machine: Machine | None = None,
    group: dist.ProcessGroup | None = None,
    max_bytes: int | None = None,
) -> Plan:
    """The plan by which `redistribute` would move a tensor. Nothing moves."""
    options = _options(planner, memory_limit, machine, group, max_bytes)
    return _planned(dt, *_arguments(dt, device_mesh, placements, mesh), options).plan


def explain(
    dt: DTensor,
    device_mesh: DeviceMesh | Sequence[Placement] | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    mesh: DeviceMesh | None = None,
    memory_limit: int | None = None,
    planner: str = "auto",
    machine: Machine | None = None,
    group: dist.ProcessGroup | None = None,
    max_bytes: int | None = None,
) -> str:
    """What `redistribute` would do, as text: the plan with placements beside its types, and what this rank sends."""
    options = _options(planner, memory_limit, machine, group, max_bytes)
    return _explained(_planned(dt, *_arguments(dt, device_mesh, placements, mesh), options), dt._local_tensor)


def _options(planner: Any, memory_limit: Any, machine: Any, group: Any, max_bytes: Any) -> Options:
    limit = max_bytes if memory_limit is None else memory_limit
    return Options(planner, limit, _group_name(group), machine=_json_of(machine))


def _planned(dt: DTensor, mesh: DeviceMesh | None, placements: tuple[Any, ...], options: Options) -> Movement:
    values = dataclasses.astuple(options)
    mesh, placements = _check(dt, placements, mesh, values)
    request = request_text(dt.device_mesh, tuple(dt.placements), mesh, placements, values)
    return movement_of(request, tuple(dt.shape), dt.dtype)


def _explained(movement: Movement, tile: torch.Tensor) -> str:
    ends = movement.request.source, movement.request.target
    lines = annotated(movement.plan, ends, movement.layouts[0].mesh, "dtensor")
    return "\n".join([*lines, *_traffic(movement, tile)]) + "\n"


def _traffic(movement: Movement, tile: torch.Tensor) -> Iterator[str]:
    """What this rank does in the plan, line by line."""
    rank, itemsize = dist.get_rank(), movement.dtype.itemsize
    if movement.participants is None:
        yield f"// rank {rank} takes no part"
        return
    if has_fast_gather(tile.device, movement.participants.group) and movement.gathered_axis is not None:
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
    """Moves a DTensor. Gradients take the way back, to their own placements, as in DTensor's own."""

    @staticmethod
    def forward(ctx, dt, mesh, placements, options, forward_dtype, backward_dtype, is_async):
        ctx.source, ctx.options, ctx.is_async = dt._spec, options, is_async
        ctx.dtypes = dt.dtype, backward_dtype
        tile = dt._local_tensor.to(forward_dtype)
        meta = TensorMeta(dt.shape, dt.stride(), forward_dtype)
        if dt.device_mesh != mesh or not _are_same(dt.placements, placements):
            request = request_text(dt.device_mesh, tuple(dt.placements), mesh, placements, options)
            _statistics.moved += 1
            tile = move_tile(_masked(tile, dt.placements), request, tuple(dt.shape), is_async)
        return DTensor(tile, DTensorSpec(mesh, placements, tensor_meta=meta), requires_grad=dt.requires_grad)

    @staticmethod
    def backward(ctx, gradient):
        own_dtype, dtype = ctx.dtypes
        mesh, placements = ctx.source.mesh, _flowing_back(gradient, ctx.source)
        try:
            _check(gradient, placements, mesh, ctx.options)
            moved = _Redistribute.apply(gradient, mesh, placements, ctx.options, dtype, gradient.dtype, ctx.is_async)
        except InputError:
            if gradient.device_mesh != mesh:
                raise
            moved = gradient.redistribute(mesh, placements)
        return moved.to(own_dtype), None, None, None, None, None, None


def _flowing_back(gradient: DTensor, source: DTensorSpec) -> tuple[Placement, ...]:
    """The placements of a gradient: that of a part of a sum is that of the sum, unless it is a part of a sum itself."""
    is_same = gradient.device_mesh == source.mesh
    arriving = gradient.placements if is_same else (Replicate(),) * len(source.placements)
    return tuple(
        Replicate() if own.is_partial() and not one.is_partial() else own
        for own, one in zip(source.placements, arriving, strict=True)
    )


# --- Statistics.


@dataclasses.dataclass
class Statistics:
    """Redistributions of this process: how many were done by plans, and how many were left to DTensor, by reason."""

    moved: int = 0
    left: dict[str, int] = dataclasses.field(default_factory=collections.Counter)

    def __str__(self) -> str:
        lines = [f"{self.moved} by plans, {sum(self.left.values())} left to DTensor"]
        return "\n".join(lines + [f"  {count}: {reason}" for reason, count in sorted(self.left.items())])


_statistics = Statistics()


def statistics() -> Statistics:
    """A copy of the statistics of all redistributions since the process began."""
    return Statistics(_statistics.moved, dict(_statistics.left))


# --- Inside DTensor.


def _find_obstacle(tile: torch.Tensor, current: Any, target: Any) -> str:
    """The reason why DTensor should do it; empty where a plan can be tried."""
    if type(tile).__name__ == "LocalTensor" or not isinstance(dist.get_rank(), int):
        return "ranks are simulated in one process"
    if any(isinstance(length, torch.SymInt) for length in current.shape):
        return "a shape that is not known when a graph is made"
    if current.mesh != target.mesh:
        return "another mesh"
    if _has_own_order(current) or _has_own_order(target):
        return "shards in an order of their own"
    sums = [(own, one) for own, one in zip(current.placements, target.placements, strict=True) if one.is_partial()]
    if any(own != one for own, one in sums) or _is_masked(target):
        return "a target that is a sum, to which nothing is moved"
    if is_watched() and _is_masked(current):
        return "a masked sum, of which a graph is made"
    return ""


def _moved_by_plan(
    tile: torch.Tensor, current: Any, target: Any, options: tuple[Any, ...], is_async: bool
) -> torch.Tensor | None:
    """The tile, moved by a plan; None where DTensor should do it, because retile does not support it or has no plan."""
    ends = (current.mesh, tuple(current.placements)), (target.mesh, tuple(target.placements))
    if ends[0] == ends[1]:
        return None
    reason = _find_obstacle(tile, current, target)
    if not reason:
        try:
            request = request_text(*ends[0], *ends[1], options)
            movement = movement_of(request, tuple(current.shape), tile.dtype)
            if movement.participants is None:
                return None
            ways = movement.participants.group, current.mesh.device_type
            _process_groups.backend_of(*ways)
            if is_async and (is_watched() or not _process_groups.has_thread(*ways)):
                reason = "async_op on a GPU or in a graph"
        except InputError as error:
            reason = str(error).splitlines()[0].removeprefix("error: ")
    if reason:
        _statistics.left[reason] = _statistics.left.get(reason, 0) + 1
        return None
    _statistics.moved += 1
    return move_tile(_masked(tile, current.placements), request, tuple(current.shape), is_async)


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
    """A context in which DTensor's own redistributions go by plans: explicit ones, those that operations need, and
    those of gradients.

    What retile does not support stays with DTensor (`statistics()` counts it). All ranks have to be in this context, or
    none: a rank that is not is named in an AgreementError after `time_limit` seconds. Raises InputError where retile
    does not support the version of PyTorch.
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


from retile._torch_transfer import Transfer, manifest
