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
// cost 8 (paper, optimal), floor 8
// peak 8 elements per device, no more than the larger of source and target
// moved by these steps, in the fast form
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from retile._collectives import Lowering
from retile._errors import InputError
from retile._programs import Movement, batched_sharding, constrained, is_explicit, plan_for, program_for
from retile._retile import Plan

__all__ = ["explain", "lower_text", "plan_of", "reshard"]


# --- Moving it.


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _moved(x: jax.Array, movement: Movement, memory_limit: int | None) -> jax.Array:
    """Inside `jit`. What flows back goes the way back; a batch is one more dimension, not cut."""

    @custom_vmap
    def move(x: jax.Array) -> jax.Array:
        return program_for(movement, memory_limit)(x)

    @move.def_vmap
    def move_batch(size: int, _: Any, batch: jax.Array) -> tuple[jax.Array, bool]:
        return _moved(batch, movement.batched(size), memory_limit), True

    return move(x)


def _moved_back(movement: Movement, memory_limit: int | None, _: None, x: jax.Array) -> tuple[jax.Array]:
    if not is_explicit(movement.target.mesh):
        x = constrained(x, movement.target)
    return (_moved(x, movement.reversed(), memory_limit),)


_moved.defvjp(lambda x, movement, memory_limit: (_moved(x, movement, memory_limit), None), _moved_back)
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
            return mesh, Lowering(plan_for(movement), mesh.axis_names, "fast"), target, (source,)
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
def _jitted(movement: Movement, memory_limit: int | None, donate: bool) -> Callable:
    program = program_for(movement, memory_limit)
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


def _find_source(x: Any, given: NamedSharding | None) -> NamedSharding | None:
    """The sharding of an array; nothing where it has none that we can plan from, or XLA has yet to choose it."""
    sharding = given or getattr(x, "sharding", None)
    if isinstance(x, jax.core.Tracer) and given is None:
        sharding = jax.typeof(x).sharding
        if not is_explicit(sharding.mesh):
            return None
    return sharding if isinstance(sharding, NamedSharding) and sharding.mesh.axis_names else None


def _target(sharding: Any, is_traced: bool) -> NamedSharding:
    if isinstance(sharding, PartitionSpec):
        mesh = jax.sharding.get_abstract_mesh() if is_traced else jax.sharding.get_mesh()
        if mesh.empty:
            raise InputError(f"{sharding} needs a mesh\nhint: with jax.set_mesh(mesh): …, or give a NamedSharding")
        return NamedSharding(mesh, sharding)
    if not isinstance(sharding, NamedSharding):
        raise InputError(f"{type(sharding).__name__} is no NamedSharding and no PartitionSpec")
    return sharding


def _movement(x: Any, sharding: Any, source: NamedSharding | None = None) -> Movement | None:
    """Nothing where there is nothing to plan from. Throws where what is asked for cannot be."""
    target = _target(sharding, isinstance(x, jax.core.Tracer))
    found = _find_source(x, source)
    if found is None:
        if len(target.spec) > x.ndim:
            raise InputError(f"the target's {target.spec} names {len(target.spec)} dimensions of an array of {x.ndim}")
        return None
    if isinstance(found.mesh, AbstractMesh) and target.mesh.abstract_mesh == found.mesh:
        found = NamedSharding(target.mesh, found.spec)
    movement = Movement(found, target, tuple(x.shape), np.dtype(x.dtype))
    faults = movement.faults()
    if faults:
        raise InputError("\n".join(faults))
    return movement


def _require_movement(x: Any, sharding: Any) -> Movement:
    movement = _movement(x, sharding)
    if movement is None:
        raise InputError(
            f"{type(getattr(x, 'sharding', None)).__name__} is no NamedSharding: there is nothing to plan from"
        )
    return movement


def _reshard_one(
    x: Any, sharding: Any, source: NamedSharding | None, memory_limit: int | None, donate: bool
) -> jax.Array:
    movement = _movement(x, sharding, source)
    if not isinstance(x, jax.core.Tracer):
        if movement is None or not movement.is_even():
            return jax.device_put(x, _target(sharding, is_traced=False), donate=donate)
        return _jitted(movement, memory_limit, donate)(x)
    target = _target(sharding, is_traced=True)
    if movement is None:
        if memory_limit is not None:
            raise InputError("inside jit, a memory limit needs the sharding that the array comes in: give it as source")
        return _moved_later(x, target) if x.ndim else constrained(x, target)
    if not movement.is_even():
        return constrained(x, target)
    if not movement.is_in_one_order():
        raise InputError("inside jit, both meshes must list their devices in the same order")
    if is_explicit(movement.source.mesh) and movement.source.mesh != movement.target.mesh:
        raise InputError("inside jit, an array with explicit axes stays on its mesh")
    if source is not None and not is_explicit(source.mesh):
        x = constrained(x, source)
    return _moved_in_jit(x, movement, memory_limit)


def reshard(
    x: Any,
    sharding: Any,
    *,
    source: Any = None,
    memory_limit: int | None = None,
    donate: bool = False,
) -> Any:
    """The same arrays in other shardings: like `jax.device_put`, but by a plan.

    `x` is an array or a pytree of them, `sharding` a NamedSharding, a PartitionSpec under `jax.set_mesh`, or a pytree
    of these that is a prefix of `x`. It works inside `jit` and outside, and can be differentiated; what flows back
    takes the way back. A program that would hold more than `memory_limit` bytes on a device (source, target and
    temporaries as XLA counts them) is not used: MemoryLimitError names the smallest limit that works. `donate` gives
    up `x`.

    Inside `jit`, arrays on meshes with explicit axes know their sharding. On other meshes XLA chooses it later, and the
    plan is made then, unless it is named (`source`): a memory limit needs that, and so do plans for what flows back.
    """
    prefix = jax.tree.map(lambda one, part: jax.tree.map(lambda _: one, part), sharding, x, is_leaf=_is_sharding)
    sources = jax.tree.map(lambda one, part: jax.tree.map(lambda _: one, part), source, x, is_leaf=_is_sharding)
    leaves, tree = jax.tree.flatten(x)
    shardings = jax.tree.leaves(prefix, is_leaf=_is_sharding)
    sources = jax.tree.leaves(sources, is_leaf=_is_sharding)
    faults = []
    for number, one in enumerate(zip(leaves, shardings, sources, strict=True)):
        try:
            _movement(*one)
        except InputError as error:
            faults.append(f"array {number}: {error}" if len(leaves) > 1 else str(error))
    if faults:
        raise InputError("\n".join(faults))
    moved = [_reshard_one(*one, memory_limit, donate) for one in zip(leaves, shardings, sources, strict=True)]
    return jax.tree.unflatten(tree, moved)


def _is_sharding(value: Any) -> bool:
    return value is None or isinstance(value, (jax.sharding.Sharding, PartitionSpec))


def plan_of(x: Any, sharding: Any, *, memory_limit: int | None = None) -> Plan:
    """The plan by which `reshard` would move an array, or a `jax.ShapeDtypeStruct` with a sharding."""
    return program_for(_require_movement(x, sharding), memory_limit).plan


def explain(x: Any, sharding: Any, *, memory_limit: int | None = None) -> str:
    """What `reshard` would do, as text."""
    return program_for(_require_movement(x, sharding), memory_limit).explain()


def lower_text(x: Any, sharding: Any, *, memory_limit: int | None = None) -> str:
    """The program that `reshard` would run, as XLA compiled it."""
    return program_for(_require_movement(x, sharding), memory_limit).compiled.as_text()
