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
  [1{y,x}8, 8]    // 8 elements per device
    -> exchange  // cost 8
  [2{y}8, 4{x}8]  // 8
// cost 8 (paper, optimal over all plans), floor 8
// peak 8 elements per device, no more than the larger of source and target
// moved by these steps, in the fast form: 2 ppermute
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from retile._errors import InputError, MemoryLimitError
from retile._programs import (
    FORMS,
    Movement,
    Program,
    Wishes,
    batched_sharding,
    constrained,
    is_explicit,
    program_for,
)
from retile._retile import Plan

__all__ = ["explain", "lower_text", "plan_of", "reshard"]

NOT_KNOWN = "inside jit its sharding is not known\nhint: give it as source"


# --- Moving it.


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _moved(x: jax.Array, movement: Movement, wishes: Wishes) -> jax.Array:
    """Inside `jit`. What flows back goes the way back; a batch is one more dimension, not cut."""

    @custom_vmap
    def move(x: jax.Array) -> jax.Array:
        return program_for(movement, wishes)(x)

    @move.def_vmap
    def move_batch(size: int, _: Any, batch: jax.Array) -> tuple[jax.Array, bool]:
        return _moved(batch, movement.batched(size), wishes), True

    return move(x)


def _moved_back(movement: Movement, wishes: Wishes, _: None, x: jax.Array) -> tuple[jax.Array]:
    if not is_explicit(movement.target.mesh):
        x = constrained(x, movement.target)
    return (_moved(x, movement.reversed(), wishes),)


_moved.defvjp(lambda x, movement, wishes: (_moved(x, movement, wishes), None), _moved_back)
_moved_in_jit = jax.jit(_moved, static_argnums=(1, 2))


# Inside `jit`, XLA chooses shardings on automatic axes after JAX has traced. So the plan is made when XLA has chosen:
# this is the array itself until then, and says nothing of how its sharding before has to do with the one after.


@custom_partitioning
def _to_be_moved(x: jax.Array) -> jax.Array:
    return x


def _move_when_known(mesh: Any, arguments: Any, result: Any) -> Any:
    source, target = arguments[0].sharding, result.sharding
    if isinstance(source, NamedSharding) and isinstance(target, NamedSharding):
        movement = Movement(source, target, tuple(result.shape), np.dtype(result.dtype))
        if movement.is_even():
            return mesh, program_for(movement, Wishes(form=movement.best_form())).on_tile, target, (source,)
    return mesh, lambda tile: tile, target, (target,)


def _no_relation(_: Any, arguments: Any, results: Any) -> str:
    sides = [" ".join(f"{letter}{i}" for i in range(len(results[0].shape))) for letter in "ir"]
    return " -> ".join(sides)


_to_be_moved.def_partition(
    partition=_move_when_known,
    infer_sharding_from_operands=lambda mesh, arguments, result: result.sharding,
    sharding_rule=_no_relation,
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _moved_later(x: jax.Array, target: NamedSharding) -> jax.Array:
    @custom_vmap
    def move(x: jax.Array) -> jax.Array:
        return constrained(_to_be_moved(x), target)

    @move.def_vmap
    def move_batch(_: int, __: Any, batch: jax.Array) -> tuple[jax.Array, bool]:
        return _moved_later(batch, batched_sharding(target)), True

    return move(x)


# What flows back is left to XLA, which alone knows where to.
_moved_later.defvjp(lambda x, target: (_moved_later(x, target), None), lambda _, __, x: (x,))


@functools.lru_cache(maxsize=4096)
def _jitted(movement: Movement, wishes: Wishes, donate: bool) -> Callable:
    program = program_for(movement, wishes)
    donated = (0,) if donate else ()
    if program.form == "xla":
        return functools.partial(jax.device_put, device=movement.target, donate=donate)
    if movement.source.mesh == movement.target.mesh:
        return jax.jit(program, donate_argnums=donated)
    # One program has one mesh. So it ends with the tiles, which are then called by their other name.
    jitted = jax.jit(program.tiles, donate_argnums=donated)

    def run(x: jax.Array) -> jax.Array:
        tiles = [shard.data for shard in jitted(x).addressable_shards]
        return jax.make_array_from_single_device_arrays(movement.shape, movement.target, tiles)

    return run


# --- What is asked for, and who does it.


def _movement(x: Any, sharding: Any, source: Any = None) -> Movement:
    """What is asked for, but for kinds of memory. Throws, with all that is at fault, where it cannot be."""
    is_traced = isinstance(x, jax.core.Tracer)
    try:
        array = x if isinstance(x, jax.ShapeDtypeStruct) else jax.typeof(x)
    except TypeError:
        raise InputError(f"{type(x).__name__} is no array") from None
    faults = []
    target = _named("sharding", sharding, is_traced, faults)
    given = None if source is None else _named("source", source, is_traced, faults)
    if not faults:
        found = _find_source(x, given)
        if found is not None and found.mesh.abstract_mesh == target.mesh.abstract_mesh:
            # These are the same axes, and one side may not know of which devices.
            if isinstance(found.mesh, AbstractMesh):
                found = NamedSharding(target.mesh, found.spec)
            elif isinstance(target.mesh, AbstractMesh):
                target = NamedSharding(found.mesh, target.spec)
        movement = Movement(found, target, tuple(array.shape), array.dtype)
        faults = _faults(movement, is_traced)
    if faults:
        raise InputError("\n".join(faults))
    return movement


def _named(what: str, sharding: Any, is_traced: bool, faults: list[str]) -> NamedSharding | None:
    if isinstance(sharding, PartitionSpec):
        mesh = jax.sharding.get_abstract_mesh() if is_traced else jax.sharding.get_mesh()
        if not mesh.empty:
            return NamedSharding(mesh, sharding)
        faults.append(f"{sharding} needs a mesh\nhint: with jax.set_mesh(mesh): …, or give a NamedSharding")
    elif isinstance(sharding, NamedSharding):
        return NamedSharding(sharding.mesh, sharding.spec)
    else:
        faults.append(f"{what}: {type(sharding).__name__} is no NamedSharding and no PartitionSpec")
    return None


def _find_source(x: Any, given: NamedSharding | None) -> NamedSharding | None:
    """What an array has; inside `jit` what is given, if anything is, or else what explicit axes tell."""
    own = getattr(x, "sharding", None)
    if isinstance(x, jax.core.Tracer):
        own = jax.typeof(x).sharding
        if given is not None or not is_explicit(own.mesh):
            return given
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
        if getattr(side.spec, "unreduced", None) or getattr(side.spec, "reduced", None):
            faults.append(f"the {what}'s {side.spec} speaks of sums, which is not supported")
        elif _is_open(side) and not (is_traced and side is target):
            faults.append(f"the {what}'s {side.spec} leaves a dimension open: only a target inside jit may")
    if source is None:
        return faults
    if movement.target_devices() is None:
        devices = (
            f"{mesh.size} of them" if isinstance(mesh, AbstractMesh) else [*map(str, mesh.devices.flat)]
            for mesh in (source.mesh, target.mesh)
        )
        faults.append("source and target are on different devices: {} and {}".format(*devices))
    elif is_traced and not movement.is_in_one_order():
        faults.append("inside jit, both meshes must list their devices in the same order")
    elif is_traced and source.mesh != target.mesh and is_explicit(source.mesh):
        faults.append("inside jit, an array with explicit axes stays on its mesh")
    return faults


def _is_open(sharding: NamedSharding) -> bool:
    return any(entry is PartitionSpec.UNCONSTRAINED for entry in sharding.spec)


def _why_no_plan(x: Any, movement: Movement) -> str | None:
    """Why an array is left to XLA; nothing where a plan moves it."""
    if jax.dtypes.issubdtype(movement.dtype, jax.dtypes.extended):
        return f"its elements are {movement.dtype}"
    if _is_in_host_memory(x):
        return "it is in the host's memory"
    if movement.source is None:
        return NOT_KNOWN if isinstance(x, jax.core.Tracer) else "it has no NamedSharding"
    if _is_open(movement.target):
        return f"{movement.target.spec} leaves a dimension open"
    return None if movement.is_even() else f"{movement.shape} is not cut evenly"


def _is_in_host_memory(x: Any) -> bool:
    if isinstance(x, jax.core.Tracer):
        return getattr(getattr(jax.typeof(x), "memory_space", None), "name", None) == "Host"
    sharding = getattr(x, "sharding", None)
    return isinstance(sharding, NamedSharding) and _names_host_memory(sharding)


def _names_host_memory(sharding: NamedSharding) -> bool:
    devices = [] if isinstance(sharding.mesh, AbstractMesh) else sharding.mesh.local_devices[:1]
    return sharding.memory_kind not in {None, "device", *(device.default_memory().kind for device in devices)}


def _mover(x: Any, sharding: Any, source: Any, wishes: Wishes, donate: bool) -> Callable:
    """Who moves an array: nobody, a plan, a plan that is made later, or XLA. Throws where nobody can."""
    if sharding is None:
        return jax.device_put
    movement = _movement(x, sharding, source)
    target, why_no_plan = movement.target, _why_no_plan(x, movement)
    memory_kind = getattr(sharding, "memory_kind", None)
    asked = target.with_memory_kind(memory_kind) if memory_kind else target
    if why_no_plan and wishes != Wishes():
        wish = "a memory limit cannot be kept" if wishes.memory_limit is not None else "no form can be chosen"
        raise InputError(f"{wish}, since XLA moves this array: {why_no_plan}")
    if not isinstance(x, jax.core.Tracer):
        by_xla = functools.partial(jax.device_put, device=asked, donate=donate)
        move = by_xla if why_no_plan else _jitted(movement, wishes, donate)
    elif why_no_plan is None:
        program_for(movement, wishes)  # throws where nothing fits
        move = functools.partial(_moved_from_source, movement=movement, wishes=wishes)
    elif why_no_plan == NOT_KNOWN and x.ndim and _may_be_on(x, target.mesh):
        move = functools.partial(_moved_later, target=target)
    else:
        move = functools.partial(_moved_by_xla, target=target)
    return lambda x: _as_asked(move(x), asked)


def _moved_from_source(x: jax.Array, movement: Movement, wishes: Wishes) -> jax.Array:
    x = x if is_explicit(movement.source.mesh) else constrained(x, movement.source)
    return _moved_in_jit(x, movement, wishes)


def _may_be_on(x: jax.Array, mesh: Any) -> bool:
    """Whether nothing else is known. Where a plan is made later, JAX wants one mesh in the whole program."""
    own = jax.typeof(x).sharding.mesh
    return own.empty or own == mesh.abstract_mesh


def _moved_by_xla(x: jax.Array, target: NamedSharding) -> jax.Array:
    """Inside `jit`."""
    return constrained(jax.device_put(x, target) if _is_in_host_memory(x) else x, target)


def _as_asked(moved: jax.Array, asked: NamedSharding) -> jax.Array:
    """In the memory asked for, and outside `jit` with the very spec: on explicit axes JAX writes it at full length."""
    is_traced = isinstance(moved, jax.core.Tracer)
    is_as_asked = not _names_host_memory(asked) if is_traced else moved.sharding == asked
    return moved if is_as_asked else jax.device_put(moved, asked)


def reshard(
    x: Any,
    sharding: Any,
    *,
    source: Any = None,
    memory_limit: int | None = None,
    form: str | None = None,
    donate: bool = False,
) -> Any:
    """The same arrays in other shardings: like `jax.device_put`, but by a plan.

    `x` is an array or a pytree of them, `sharding` a NamedSharding, a PartitionSpec under `jax.set_mesh`, None to leave
    arrays alone, or a pytree of these that is a prefix of `x`. It works inside `jit` and outside, and can be
    differentiated; what flows back takes the way back. A program that would hold more than `memory_limit` bytes on a
    device (source, target and temporaries as XLA counts them) is not used: MemoryLimitError names the smallest limit
    that works, and where XLA moves an array, for want of a plan, a limit is refused. `form` is how the plan's steps are
    said to XLA: "collectives" as they are (what is taken on GPUs and TPUs), "fast" (on CPU devices), "lean" (in parts, one
    after the other), or "xla" for XLA's own reshard. `donate` gives up `x`.

    Inside `jit`, arrays on meshes with explicit axes know their sharding. On other meshes XLA chooses it later, and the
    plan is made then, unless it is named (`source`): a memory limit needs that, and so do plans for what flows back.
    """
    wishes = _wishes(memory_limit, form)
    leaves, tree = jax.tree.flatten(x)
    sides = _for_leaves("sharding", sharding, x), _for_leaves("source", source, x)
    movers, errors = [], {}
    for number, one in enumerate(zip(leaves, *sides, strict=True)):
        try:
            movers.append(_mover(*one, wishes, donate))
        except InputError as error:
            errors[number] = error
    if errors:
        kind = MemoryLimitError if all(isinstance(error, MemoryLimitError) for error in errors.values()) else InputError
        names = (f"array {number}: " if len(leaves) > 1 else "" for number in errors)
        raise kind("\n".join(f"{name}{error}" for name, error in zip(names, errors.values(), strict=True)))
    return jax.tree.unflatten(tree, [move(leaf) for move, leaf in zip(movers, leaves, strict=True)])


def _wishes(memory_limit: Any, form: Any) -> Wishes:
    if not isinstance(memory_limit, (int, np.integer, type(None))):
        raise InputError(f"memory_limit is {memory_limit!r}, no whole number of bytes")
    if form is not None and form not in FORMS:
        raise InputError(f"form is {form!r}\nhint: one of: {', '.join(FORMS)}")
    return Wishes(memory_limit, form)


def _for_leaves(what: str, prefix: Any, x: Any) -> list[Any]:
    """What a tree above `x` has for each array of it."""
    found = []

    def add(one: Any, part: Any) -> None:
        found.extend([one] * len(jax.tree.leaves(part)))

    try:
        jax.tree.map(add, prefix, x, is_leaf=_is_sharding)
    except ValueError as error:
        raise InputError(f"{what} is no tree above x: {error}".replace("tree_map tree", what)) from None
    return found


def _is_sharding(value: Any) -> bool:
    return value is None or isinstance(value, (jax.sharding.Sharding, PartitionSpec))


def _planned(x: Any, sharding: Any, memory_limit: int | None, form: str | None) -> Program:
    wishes = _wishes(memory_limit, form)
    movement = _movement(x, sharding)
    why_no_plan = _why_no_plan(x, movement)
    if why_no_plan:
        raise InputError(f"there is no plan for this array: {why_no_plan}")
    return program_for(movement, wishes)


def plan_of(x: Any, sharding: Any, *, memory_limit: int | None = None, form: str | None = None) -> Plan:
    """The plan by which `reshard` would move an array, or a `jax.ShapeDtypeStruct` with a sharding."""
    return _planned(x, sharding, memory_limit, form).plan


def explain(x: Any, sharding: Any, *, memory_limit: int | None = None, form: str | None = None) -> str:
    """What `reshard` would do, as text: the plan, its form and the collectives that it becomes."""
    return _planned(x, sharding, memory_limit, form).explain()


def lower_text(x: Any, sharding: Any, *, memory_limit: int | None = None, form: str | None = None) -> str:
    """The program that `reshard` would run, as XLA compiled it."""
    return _planned(x, sharding, memory_limit, form).compiled.as_text()
