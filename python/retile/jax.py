"""retile's plans inside JAX: `reshard(x, sharding)` where you have `jax.device_put` or a sharding constraint.

>>> import jax, retile.jax
>>> from jax.sharding import NamedSharding, PartitionSpec as P
>>> mesh = jax.make_mesh((2, 4), ("x", "y"))
>>> rows, columns = NamedSharding(mesh, P(("x", "y"))), NamedSharding(mesh, P("y", "x"))
>>> x = jax.device_put(jax.numpy.arange(64.0).reshape(8, 8), rows)
>>> y = retile.jax.reshard(x, columns)
>>> y.sharding == columns
True
>>> print(retile.jax.explain(x, columns), end="")
mesh {x: 2, y: 4}  // planner wide
  [1{y,x}8, 8]    // 8 elements per device, P(('x', 'y'),)
    -> exchange  // cost 8
  [2{y}8, 4{x}8]  // 8, P('y', 'x')
// cost 8 (paper, optimal over all plans), floor 8
// largest tile 8 elements per device, no more than the larger of source and target
// each device sends, and receives, at most 32 bytes
// moved by these steps, in the collectives form: 2 ppermute
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from retile._errors import InputError
from retile._inside_jit import reshard_inside_jit
from retile._jax_calibration import calibrated_programs
from retile._jax_transfer import Transfer
from retile._machines import require_machine
from retile._programs import (
    FORMS,
    Choice,
    Movement,
    Program,
    Wishes,
    choice_for,
    is_automatic,
    is_explicit,
    is_open,
    moved_by_jax,
    own_reshard,
    program_for,
    run_all,
    speaks_of_sums,
    why_not_by_jax,
)
from retile._retile import Machine, Plan
from retile._trees import for_leaves

try:
    from jax._src.mesh import thread_resources as _entered
except ImportError:  # in other versions of JAX: specs then need `jax.set_mesh`
    _entered = None

__all__ = ["Transfer", "calibrate", "explain", "lower_text", "plan_of", "reshard"]

NOT_KNOWN = "inside jit its sharding is not known\nhint: give it as source"
OTHER_MESH = "inside jit it is on another mesh"


# --- Requests.


@dataclasses.dataclass(frozen=True)
class Request:
    """The request for one array, and who can do it: a plan, unless there is a reason against it."""

    movement: Movement
    asked: NamedSharding  # the target, with its kind of memory
    is_traced: bool
    why_no_plan: str | None  # set where JAX moves the array itself

    def is_planned_later(self) -> bool:
        """Whether the plan is made inside `jit`, once XLA has chosen. Scalars are left to JAX: there is nothing to
        plan."""
        return self.why_no_plan == NOT_KNOWN and bool(self.movement.shape)


def _request(x: Any, sharding: Any, source: Any = None, wishes: Wishes = Wishes()) -> Request:  # noqa: B008
    """The request. Raises, with everything that is at fault, where it is impossible."""
    is_traced = isinstance(x, jax.core.Tracer) or _is_tracing()
    movement = _movement(x, sharding, source, is_traced)
    memory_kind = getattr(sharding, "memory_kind", None)
    asked = movement.target.with_memory_kind(memory_kind) if memory_kind else movement.target
    request = Request(movement, asked, is_traced, _why_no_plan(x, movement, is_traced))
    if request.why_no_plan and movement.shape:  # scalars take part in everything
        if wishes.memory_limit is not None:
            raise InputError(f"a memory limit cannot be kept, since XLA moves this array: {request.why_no_plan}")
        if wishes.machine is not None:
            raise InputError(f"no plan can be made for a machine, since XLA moves this array: {request.why_no_plan}")
        if wishes.form is not None and not request.is_planned_later():
            raise InputError(f"no form can be chosen, since XLA moves this array: {request.why_no_plan}")
    return request


def _is_tracing() -> bool:
    """Whether a call here becomes part of a program, whether or not its arguments are known."""
    try:
        jax.sharding.get_mesh()
    except ValueError:
        return True
    return False


def _movement(x: Any, sharding: Any, source: Any = None, is_traced: bool = False) -> Movement:
    """The requested movement, except for kinds of memory. Raises, with everything that is at fault, where it is
    impossible."""
    try:
        array = x if isinstance(x, jax.ShapeDtypeStruct) else jax.typeof(x)
    except TypeError:
        raise InputError(f"{type(x).__name__} is no array") from None
    faults = []
    target = _named("sharding", sharding, is_traced, faults)
    given = None if source is None else _named("source", source, is_traced, faults)
    if not faults:
        found = _find_source(x, given, is_traced)
        if not is_traced and isinstance(target.mesh, AbstractMesh):
            target = _with_devices(target, jax.sharding.get_mesh() if found is None else found.mesh, faults)
        elif found is not None and found.mesh.abstract_mesh == target.mesh.abstract_mesh:
            # The axes are the same, and one side may not know the devices.
            if isinstance(found.mesh, AbstractMesh):
                found = NamedSharding(target.mesh, found.spec)
            elif isinstance(target.mesh, AbstractMesh):
                target = NamedSharding(found.mesh, target.spec)
        movement = Movement(found, target, tuple(array.shape), array.dtype)
        faults = faults or _faults(movement, is_traced)
    if faults:
        raise InputError("\n".join(faults))
    return movement


def _named(what: str, sharding: Any, is_traced: bool, faults: list[str]) -> NamedSharding | None:
    if isinstance(sharding, PartitionSpec):
        mesh = jax.sharding.get_abstract_mesh() if is_traced else jax.sharding.get_mesh()
        mesh = _entered_mesh() if mesh.empty else mesh
        if not mesh.empty:
            return NamedSharding(mesh, sharding)
        faults.append(f"{sharding} needs a mesh\nhint: with jax.set_mesh(mesh): …, or give a NamedSharding")
    elif isinstance(sharding, NamedSharding):
        return NamedSharding(_as_inside_shard_map(sharding.mesh), sharding.spec)
    else:
        faults.append(f"{what}: {type(sharding).__name__} is no NamedSharding and no PartitionSpec")
    return None


def _with_devices(target: NamedSharding, known: Any, faults: list[str]) -> NamedSharding:
    """The target on the devices of the mesh that is known, in their order."""
    mesh = target.mesh
    if known.empty or known.size != mesh.size:
        faults.append(f"the target's mesh {mesh.shape_tuple} names no devices\nhint: give a mesh of devices")
    elif not isinstance(known, AbstractMesh):
        devices = known.devices.reshape(mesh.axis_sizes)
        return NamedSharding(Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types), target.spec)
    return target


def _entered_mesh() -> Any:
    """The mesh of an enclosing `with mesh:`, which older programs have in the place of `jax.set_mesh`."""
    return AbstractMesh((), ()) if _entered is None else _entered.env.physical_mesh


def _as_inside_shard_map(mesh: Any) -> Any:
    """The mesh, with manual axes where an enclosing `shard_map` has cut arrays along them."""
    here = jax.sharding.get_abstract_mesh()
    return here if _is_partly_manual(here) and dict(here.shape) == dict(mesh.shape) else mesh


def _is_partly_manual(mesh: Any) -> bool:
    return jax.sharding.AxisType.Manual in mesh.axis_types


def _find_source(x: Any, given: NamedSharding | None, is_traced: bool) -> NamedSharding | None:
    """The sharding of an array; inside `jit` the one on explicit axes, otherwise the given one, if any."""
    own = getattr(x, "sharding", None)
    if is_traced:
        own = jax.typeof(x).sharding
        if not is_explicit(own.mesh):
            return given
        if given is not None and given.mesh.abstract_mesh == own.mesh:
            return NamedSharding(given.mesh, own.spec)  # types do not name the devices
    is_named = isinstance(own, NamedSharding) and own.mesh.axis_names
    return NamedSharding(own.mesh, own.spec) if is_named else None


def _faults(movement: Movement, is_traced: bool) -> list[str]:
    source, target, rank = movement.source, movement.target, len(movement.shape)
    faults = []
    for what, side in (("source", source), ("target", target)):
        if side is None:
            continue
        if len(side.spec) > rank:
            faults.append(f"the {what}'s {side.spec} names {len(side.spec)} dimensions of an array of {rank}")
        if is_open(side) and side is not target:
            faults.append(f"the {what}'s {side.spec} leaves a dimension open: only a target may")
    if is_traced and (fault := why_not_by_jax(target)):
        faults.append(f"the target's {fault}")
    if source is None or _is_partly_manual(target.mesh):
        return faults
    if movement.target_devices() is None:
        devices = (
            f"{mesh.size} of them" if isinstance(mesh, AbstractMesh) else [*map(str, mesh.devices.flat)]
            for mesh in (source.mesh, target.mesh)
        )
        faults.append(
            "source and target are on different devices: {} and {} (retile.jax.Transfer moves arrays there)".format(
                *devices
            )
        )
    elif is_traced and not movement.is_in_one_order():
        faults.append("inside jit, both meshes must list their devices in the same order")
    return faults


def _why_no_plan(x: Any, movement: Movement, is_traced: bool) -> str | None:
    """The reason why an array is left to JAX; None where a plan moves it."""
    source, target = movement.source, movement.target
    if jax.dtypes.issubdtype(movement.dtype, jax.dtypes.extended):
        return f"its elements are {movement.dtype}"
    if _is_in_host_memory(x):
        return "it is in the host's memory"
    if summed := next((side for side in (source, target) if side is not None and speaks_of_sums(side)), None):
        return f"{summed.spec} speaks of sums"
    if not movement.has_known_shape():
        return f"its shape {movement.shape} has symbols in it"
    if is_traced and not (is_automatic(target.mesh) or is_explicit(target.mesh)):
        return "the mesh has axes of several types" if not _is_partly_manual(target.mesh) else "it is in a shard_map"
    if source is None:
        return "it has no NamedSharding" if not is_traced else NOT_KNOWN if _may_be_on(x, target) else OTHER_MESH
    if is_traced and is_explicit(source.mesh) and not movement.is_on_one_mesh():
        return OTHER_MESH
    if is_open(target):
        return f"{target.spec} leaves a dimension open"
    return None if movement.is_even() else f"{movement.shape} is not cut evenly"


def _may_be_on(x: Any, target: NamedSharding) -> bool:
    """Whether the array may be on the target's mesh: its type says so, or names no mesh. Where a plan is made later,
    JAX requires one mesh in the whole program."""
    own = jax.typeof(x).sharding.mesh
    return own.empty or own == target.mesh.abstract_mesh


def _is_in_host_memory(x: Any) -> bool:
    if isinstance(x, jax.core.Tracer):
        return getattr(getattr(jax.typeof(x), "memory_space", None), "name", None) == "Host"
    sharding = getattr(x, "sharding", None)
    return isinstance(sharding, NamedSharding) and _names_host_memory(sharding)


def _names_host_memory(sharding: NamedSharding) -> bool:
    devices = [] if isinstance(sharding.mesh, AbstractMesh) else sharding.mesh.local_devices[:1]
    return sharding.memory_kind not in {None, "device", *(device.default_memory().kind for device in devices)}


# --- Moving.


def _move_traced(x: Any, request: Request, wishes: Wishes) -> jax.Array:
    """Moves an array inside `jit`."""
    movement, target = request.movement, request.movement.target
    if request.why_no_plan is None or request.is_planned_later():
        x = x if isinstance(x, jax.Array) else jnp.asarray(x)
        moved = reshard_inside_jit(x, movement.source, target, wishes)
    else:
        moved = moved_by_jax(jax.device_put(x, target) if _is_in_host_memory(x) else x, target)
    return jax.device_put(moved, request.asked) if _names_host_memory(request.asked) else moved


def _move_by_jax(x: Any, asked: NamedSharding, donate: bool) -> jax.Array:
    """Moves an array outside `jit` by JAX."""
    sides = (getattr(x, "sharding", None), asked)
    if any(isinstance(side, NamedSharding) and speaks_of_sums(side) for side in sides):
        return own_reshard(x, asked)
    if is_open(asked):
        return moved_by_jax(x, asked)
    return jax.device_put(x, asked, donate=donate)


def _move_together(arrays: list[jax.Array], programs: list[Program], donate: bool) -> list[jax.Array]:
    """Moves arrays outside `jit` by one program: devices that are given several at once may wait for each other."""
    # The caller's mesh may have other devices, or another order. Without jit, devices would run step by step.
    with jax.set_mesh(programs[0].movement.source.mesh), jax.disable_jit(False):
        moved = _jitted(tuple(programs), donate)(arrays)
    return [_on_target_mesh(program.movement, one) for program, one in zip(programs, moved, strict=True)]


@functools.lru_cache(maxsize=1024)
def _jitted(programs: tuple[Program, ...], donate: bool) -> Callable:
    return jax.jit(functools.partial(run_all, programs), donate_argnums=(0,) if donate else ())


def _on_target_mesh(movement: Movement, moved: jax.Array) -> jax.Array:
    """The array on the target's mesh. A program has one mesh, so it ends with tiles, which are given their sharding
    here."""
    if movement.is_on_one_mesh():
        return moved
    tiles = [shard.data for shard in moved.addressable_shards]
    return jax.make_array_from_single_device_arrays(movement.shape, movement.target, tiles)


def _choices_by_mesh(requests: list[Request | None], wishes: Wishes) -> list[tuple[list[int], Choice]]:
    """For each mesh that arrays start on, the numbers of the arrays that plans move, and how. Raises where they do not
    fit the memory limit, which holds for all of them together."""
    numbers: dict[Any, list[int]] = {}
    for number, request in enumerate(requests):
        if request is not None and request.why_no_plan is None:
            numbers.setdefault(request.movement.source.mesh, []).append(number)
    if len(numbers) > 1 and wishes.memory_limit is not None:
        raise InputError("a memory limit is for arrays that start on one mesh, and these start on several")
    return [
        (some, choice_for(tuple(requests[number].movement for number in some), wishes)) for some in numbers.values()
    ]


def _at(path: Any, error: InputError) -> str:
    """The error's text, with the leaf's path in the tree if there is one."""
    return f"x{jax.tree_util.keystr(path)}: {error}" if path else str(error)


def _move_all(
    paths: list[Any], arrays: list[Any], requests: list[Request | None], wishes: Wishes, donate: bool
) -> list[Any]:
    moved: dict[int, Any] = {}
    for numbers, choice in _choices_by_mesh(requests, wishes):
        programs = dict(zip(numbers, choice.programs, strict=True))
        # Arrays that are left to XLA are copied outside `jit`; how much the copies hold is not known.
        together = [
            number
            for number, program in programs.items()
            if not requests[number].is_traced and (program.form != "xla" or wishes.memory_limit is not None)
        ]
        if together:
            results = _move_together([arrays[n] for n in together], [programs[n] for n in together], donate)
            moved.update(zip(together, results, strict=True))
        wishes = dataclasses.replace(wishes, rank=choice.rank)  # inside `jit`, where a limit implies one mesh
    for number, (array, request) in enumerate(zip(arrays, requests, strict=True)):
        if request is None:
            moved[number] = array if isinstance(array, jax.Array) else jax.device_put(array)
        elif request.is_traced:
            try:
                moved[number] = _move_traced(array, request, wishes)
            except InputError as error:  # while batching, too
                raise type(error)(_at(paths[number], error)) from error
        else:
            one = moved[number] if number in moved else _move_by_jax(array, request.asked, donate)
            # The exact spec and memory that were asked for: on explicit axes JAX writes specs at full length.
            is_done = one.sharding == request.asked or is_open(request.asked)
            moved[number] = one if is_done else jax.device_put(one, request.asked)
    return [moved[number] for number in range(len(arrays))]


def reshard(
    x: Any,
    sharding: Any,
    *,
    source: Any = None,
    memory_limit: int | None = None,
    form: str | None = None,
    machine: Machine | None = None,
    donate: bool = False,
) -> Any:
    """Moves arrays to other shardings, like `jax.device_put`, but by a plan.

    `x` is an array or a pytree of arrays. `sharding` is a NamedSharding, a PartitionSpec under `jax.set_mesh`, None to
    leave arrays alone, or a pytree of these that is a prefix of `x`. It works inside `jit` and outside, and supports
    JAX's transformations: derivatives of all kinds, and `vmap`, which leaves a batch cut as it is.

    A program that would hold more than `memory_limit` bytes on a device is not used. The limit covers everything that
    `reshard` moves in one call: sources, targets and temporaries of all arrays, as XLA counts them. MemoryLimitError
    names a limit that works. If JAX has to move an array, because there is no plan, a limit is refused.

    `form` is how the plan's steps are expressed for XLA: "collectives" as they are (the default inside `jit`, on
    TPUs, and for small tiles or short runs), "fast" (the default outside `jit` on CPU devices and GPUs for tiles of
    256 KiB or more that move in runs of 64 bytes or more), "lean" (in parts, one after the other), or "xla" for XLA's
    own reshard. With a `machine`, the plan is the one that is predicted to be the fastest on it. `donate` gives up `x`.

    Inside `jit`, arrays on meshes with explicit axes know their sharding. On other meshes XLA chooses it later, and the
    plan is made then, unless the sharding is given as `source`. A memory limit or a machine requires `source` there,
    and so do plans for gradients.
    """
    wishes = _wishes(memory_limit, form, machine)
    paths_and_leaves, tree = jax.tree_util.tree_flatten_with_path(x)
    paths, leaves = [path for path, _ in paths_and_leaves], [leaf for _, leaf in paths_and_leaves]
    sides = for_leaves("sharding", sharding, x), for_leaves("source", source, x)
    requests, faults = [], []
    for path, leaf, *given in zip(paths, leaves, *sides, strict=True):
        try:
            is_moved = given[0] is not None and getattr(leaf, "dtype", None) != jax.dtypes.float0  # those have no bytes
            requests.append(_request(leaf, *given, wishes) if is_moved else None)
        except InputError as error:
            faults.append(_at(path, error))
    if faults:
        raise InputError("\n".join(faults))
    if any(request is not None and request.is_traced for request in requests):
        wishes = dataclasses.replace(wishes, is_alone=False)
    return jax.tree.unflatten(tree, _move_all(paths, leaves, requests, wishes, donate))


def calibrate(devices: Sequence[Any] | None = None) -> Machine:
    """The machine on which programs take as long as they do on these devices (default: all of JAX's), from the times of
    some that are compiled for it, in about ten seconds. The devices must belong to one process, and count as one host.
    Pass the result as `machine` afterwards. Raises RuntimeError where the times make no sense."""
    listed = np.array(jax.devices() if devices is None else list(devices))
    if listed.size < 2:
        raise InputError("calibration takes two devices or more")
    if jax.process_count() > 1:
        raise InputError("the devices are of several processes: calibration measures those of one")

    return calibrated_programs(listed)


def _wishes(memory_limit: Any, form: Any, machine: Any) -> Wishes:
    is_number = isinstance(memory_limit, (int, np.integer)) and not isinstance(memory_limit, bool)
    if memory_limit is not None and not (is_number and memory_limit >= 0):
        raise InputError(f"memory_limit is {memory_limit!r}, no whole number of bytes")
    if form is not None and form not in FORMS:
        raise InputError(f"form is {form!r}\nhint: one of: {', '.join(FORMS)}")
    require_machine(machine)
    return Wishes(None if memory_limit is None else int(memory_limit), form, machine)


# --- Descriptions.


def plan_of(
    x: Any,
    sharding: Any,
    *,
    memory_limit: int | None = None,
    form: str | None = None,
    machine: Machine | None = None,
) -> Plan:
    """The plan by which `reshard` would move an array, or a `jax.ShapeDtypeStruct` with a sharding."""
    return _planned(x, sharding, _wishes(memory_limit, form, machine)).plan


def explain(
    x: Any,
    sharding: Any,
    *,
    memory_limit: int | None = None,
    form: str | None = None,
    machine: Machine | None = None,
) -> str:
    """What `reshard` would do, as text: the plan with PartitionSpecs beside its types, its form, the collectives that
    it becomes, the bytes that a device sends, and the collectives inside `jit` if they differ."""
    wishes = _wishes(memory_limit, form, machine)
    return _planned(x, sharding, wishes).explain(_planned(x, sharding, wishes, is_alone=False))


def lower_text(
    x: Any,
    sharding: Any,
    *,
    memory_limit: int | None = None,
    form: str | None = None,
    machine: Machine | None = None,
) -> str:
    """The program that `reshard` would run, as compiled by XLA."""
    return _planned(x, sharding, _wishes(memory_limit, form, machine)).compiled.as_text()


def _planned(x: Any, sharding: Any, wishes: Wishes, is_alone: bool | None = None) -> Program:
    """The program by which `reshard` would move the array: where this is called, or with `is_alone` alone or inside
    `jit`."""
    request = _request(x, sharding)
    if request.why_no_plan:
        raise InputError(f"there is no plan for this array: {request.why_no_plan}")
    is_alone = not request.is_traced if is_alone is None else is_alone
    return program_for(request.movement, dataclasses.replace(wishes, is_alone=is_alone))
