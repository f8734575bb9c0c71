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

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import retile
from retile._collectives import Lowering
from retile._errors import InputError, MemoryLimitError
from retile._retile import Layout, Plan

__all__ = ["explain", "lower_text", "plan_of", "reshard"]

# Exchanges of more rounds than this are slower than the collectives that avoid them.
MOST_ROUNDS = 4
# Temporaries up to a page are the program's own, whatever it moves.
OWN_BYTES = 4096


# --- What is to be moved.


@dataclasses.dataclass(frozen=True)
class _Movement:
    """An array of this shape, from one sharding to another over the same devices."""

    source: NamedSharding
    target: NamedSharding
    shape: tuple[int, ...]
    dtype: np.dtype

    def argument(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.shape, self.dtype, sharding=self.source)

    def target_devices(self) -> list[int] | None:
        """Their numbers, counted in the order of the source's mesh. None where the two have different devices."""
        meshes = self.source.mesh, self.target.mesh
        if any(isinstance(mesh, AbstractMesh) for mesh in meshes):  # all that is known is how many
            return list(range(meshes[0].size)) if meshes[0].size == meshes[1].size else None
        numbers = {device: number for number, device in enumerate(meshes[0].devices.flat)}
        found = [numbers.get(device) for device in meshes[1].devices.flat]
        return None if None in found or len(found) != len(numbers) else found

    def is_in_one_order(self) -> bool:
        return self.target_devices() == list(range(self.source.mesh.size))

    def reversed(self) -> "_Movement":
        return dataclasses.replace(self, source=self.target, target=self.source)

    def batched(self, size: int) -> "_Movement":
        return _Movement(_batched(self.source), _batched(self.target), (size, *self.shape), self.dtype)

    def layouts(self) -> tuple[Layout, Layout]:
        return (
            Layout.from_sharding(self.source, self.shape),
            Layout.from_sharding(self.target, self.shape, self.target_devices()),
        )

    def larger_tile(self) -> int:
        return max(layout.local_size for layout in self.layouts())

    def is_even(self) -> bool:
        """Whether every device has an equal tile, which is what JAX's own arrays have."""
        return all(
            length > 0 and length % math.prod(side.mesh.shape[axis] for axis in _axes(entry)) == 0
            for side in (self.source, self.target)
            for length, entry in zip(self.shape, side.spec, strict=False)
        )

    def faults(self) -> list[str]:
        faults = []
        for what, side in (("source", self.source), ("target", self.target)):
            if len(side.spec) > len(self.shape):
                faults.append(
                    f"the {what}'s {side.spec} names {len(side.spec)} dimensions of an array of {len(self.shape)}"
                )
        if self.target_devices() is None:
            faults.append(f"source and target are on different devices: {self.source.mesh} and {self.target.mesh}")
        return faults


def _batched(sharding: NamedSharding) -> NamedSharding:
    return NamedSharding(sharding.mesh, PartitionSpec(None, *sharding.spec))


def _axes(entry: Any) -> tuple[str, ...]:
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


# --- What would move it.


def _plans(movement: _Movement) -> Iterator[Plan]:
    """What there is to choose from, the cheapest first."""
    source, target = movement.layouts()
    for options in ({}, {"exchange": False}, {"planner": "paper"}, {"planner": "lean"}):
        try:
            yield retile.plan(source, target, dtype=movement.dtype, **options)
        except InputError:  # there is no plan of this kind
            if not options:
                raise


def _plan(movement: _Movement) -> Plan:
    few_rounds = (plan for plan in _plans(movement) if _exchange_rounds(plan) <= MOST_ROUNDS)
    return next(few_rounds, None) or next(_plans(movement))


def _exchange_rounds(plan: Plan) -> int:
    exchanges = [i for i, step in enumerate(plan.steps) if step.op == "exchange"]
    return max((len(plan._rounds(i, i)[2]) for i in exchanges), default=0)


@dataclasses.dataclass(frozen=True)
class _Program:
    """How an array is moved: by a plan, in the `fast` or the `lean` form, or by XLA's own reshard."""

    movement: _Movement
    form: str
    plan: Plan

    def __call__(self, x: jax.Array) -> jax.Array:
        """Inside `jit`."""
        source, target = self.movement.source, self.movement.target
        if self.form == "xla":
            return _constrained(x, target)
        if source.mesh == target.mesh:
            return self.per_device(target.spec)(x)
        # Tiles one after the other, in the order of the devices, are the same array on both meshes.
        in_order = PartitionSpec(target.mesh.axis_names)
        return _per_device(lambda tile: tile, target.mesh, in_order, target.spec)(self.tiles(x))

    def tiles(self, x: jax.Array) -> jax.Array:
        """Inside `jit`: the target's tiles one after the other, in the order of the source's devices."""
        return self.per_device(PartitionSpec(self.movement.source.mesh.axis_names))(x)

    def per_device(self, out_spec: PartitionSpec) -> Callable[[jax.Array], jax.Array]:
        source = self.movement.source
        return _per_device(Lowering(self.plan, source.mesh.axis_names, self.form), source.mesh, source.spec, out_spec)

    @functools.cached_property
    def compiled(self) -> Any:
        return jax.jit(self).lower(self.movement.argument()).compile()

    @property
    def temporaries(self) -> int:
        """What a device holds beside source and target, in bytes, as XLA counts it."""
        return self.compiled.memory_analysis().temp_size_in_bytes

    @property
    def bytes(self) -> int:
        memory = self.compiled.memory_analysis()
        return memory.argument_size_in_bytes + memory.output_size_in_bytes + self.temporaries

    @property
    def sent(self) -> int:
        """Bytes that a device's collectives give it."""
        pattern = r"= (.*?) (?:all-gather|all-to-all|all-reduce|collective-permute|reduce-scatter)(?:-done)?\("
        results = " ".join(re.findall(pattern, self.compiled.as_text()))
        arrays = re.findall(r"([a-z]+)(\d*)\w*\[([\d,]*)\]", results)
        return sum(int(bits or 8) * math.prod(int(n) for n in shape.split(",") if n) // 8 for _, bits, shape in arrays)

    @property
    def cut(self) -> int:
        """Bytes of a slice that its plan begins with, and that it gathers again: they are copied before they are sent."""
        first, last = self.plan.steps[0], self.plan.steps[-1]
        is_gathered = first.op == "dynslice" and last.op == "allgather"
        return math.prod(first.local_out) * self.movement.dtype.itemsize if is_gathered else 0

    def is_as_good_as(self, other: "_Program") -> bool:
        """No more temporaries; and what is sent more, if anything, is made up for by what is held less.

        Or it sends no more than the other cuts and sends, which is faster in whole tiles; it may hold a tile for that.
        """
        more_sent = self.sent - other.sent
        if (
            0 < more_sent <= other.cut
            and self.temporaries <= self.movement.larger_tile() * self.movement.dtype.itemsize
        ):
            return True
        less_held = max(other.temporaries, OWN_BYTES) - max(self.temporaries, OWN_BYTES)
        return less_held > max(0, more_sent) or (less_held == max(0, more_sent) and not self.gathers_inside())

    def gathers_inside(self) -> bool:
        """Whether tiles are gathered along inner dimensions alone, which XLA does more slowly, all else being equal."""
        gathers = [step for step in self.plan.steps if step.op == "allgather"]
        return any(step.local_in[0] == step.local_out[0] for step in gathers)

    def makes_whole_array(self) -> bool:
        """Whether some device holds all of an array that no device has before or after."""
        whole = math.prod(self.movement.shape)
        arrays = re.findall(r"[a-z]\w*\[([\d,]+)\]", self.compiled.as_text())
        largest = max((math.prod(map(int, shape.split(","))) for shape in arrays), default=0)
        return largest >= whole > self.movement.larger_tile()

    def explain(self) -> str:
        by = "XLA's own reshard, which is as good" if self.form == "xla" else f"these steps, in the {self.form} form"
        text = f"{self.plan.explain()}// moved by {by}\n"
        if _can_compare(self.movement) and dataclasses.replace(self, form="xla").makes_whole_array():
            text += "// XLA's own reshard makes the whole array on every device (involuntary full rematerialization)\n"
        return text


def _per_device(function: Callable, mesh: Any, in_spec: PartitionSpec, out_spec: PartitionSpec) -> Callable:
    return jax.shard_map(function, mesh=mesh, in_specs=in_spec, out_specs=out_spec, check_vma=False)


@functools.lru_cache(maxsize=4096)
def _program(movement: _Movement, memory_limit: int | None = None) -> _Program:
    plan = _plan(movement)
    fast, xla = (_Program(movement, form, plan) for form in ("fast", "xla"))
    is_simple = movement.source.mesh == movement.target.mesh and _is_xlas_too(plan)
    first = xla if is_simple or (_can_compare(movement) and xla.is_as_good_as(fast)) else fast
    if memory_limit is None:
        return first
    programs = [first, fast] + [_Program(movement, "lean", plan) for plan in _plans(movement)]
    for program in programs:
        if program.bytes <= memory_limit:
            return program
    raise MemoryLimitError(
        f"a memory limit of {memory_limit} bytes per device is too small\n"
        f"hint: the smallest limit that works is {min(program.bytes for program in programs)} bytes"
    )


def _is_xlas_too(plan: Plan) -> bool:
    """Whether XLA's rules are known to find the same: nothing, a slice, or whole tiles gathered one after the other."""
    steps = plan.steps
    is_simple = [s.op == "dynslice" or (s.op == "allgather" and s.local_in[1:] == s.local_out[1:]) for s in steps]
    return len(steps) < 2 and all(is_simple)


def _can_compare(movement: _Movement) -> bool:
    """Whether XLA's own program may be compiled and looked at: its compiler aborts on some meshes of other sizes."""
    mesh = movement.source.mesh
    is_known = not isinstance(mesh, AbstractMesh) and mesh == movement.target.mesh
    return is_known and all(size & (size - 1) == 0 for size in mesh.shape.values())


# --- Moving it.


def _is_explicit(mesh: Any) -> bool:
    return bool(mesh.axis_types) and all(kind == AxisType.Explicit for kind in mesh.axis_types)


def _constrained(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    if _is_explicit(sharding.mesh):
        return jax.sharding.reshard(x, sharding)
    return jax.lax.with_sharding_constraint(x, sharding)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _moved(x: jax.Array, movement: _Movement, memory_limit: int | None) -> jax.Array:
    """Inside `jit`. What flows back goes the way back; a batch is one more dimension, not cut."""

    @custom_vmap
    def move(x: jax.Array) -> jax.Array:
        return _program(movement, memory_limit)(x)

    @move.def_vmap
    def move_batch(size: int, _: Any, batch: jax.Array) -> tuple[jax.Array, bool]:
        return _moved(batch, movement.batched(size), memory_limit), True

    return move(x)


def _moved_back(movement: _Movement, memory_limit: int | None, _: None, x: jax.Array) -> tuple[jax.Array]:
    if not _is_explicit(movement.target.mesh):
        x = _constrained(x, movement.target)
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
        movement = _Movement(source, target, tuple(result.shape), np.dtype(result.dtype))
        if movement.is_even():
            return mesh, Lowering(_plan(movement), mesh.axis_names, "fast"), target, (source,)
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
        return _constrained(_to_be_moved(x), target)

    @move.def_vmap
    def move_batch(_: int, __: Any, batch: jax.Array) -> tuple[jax.Array, bool]:
        return _moved_later(batch, _batched(target)), True

    return move(x)


# What flows back is left to XLA, which alone knows where to.
_moved_later.defvjp(lambda x, target: (_moved_later(x, target), None), lambda _, __, x: (x,))


@functools.lru_cache(maxsize=4096)
def _jitted(movement: _Movement, memory_limit: int | None, donate: bool) -> Callable:
    program = _program(movement, memory_limit)
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
        if not _is_explicit(sharding.mesh):
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


def _movement(x: Any, sharding: Any, source: NamedSharding | None = None) -> _Movement | None:
    """Nothing where there is nothing to plan from. Throws where what is asked for cannot be."""
    target = _target(sharding, isinstance(x, jax.core.Tracer))
    found = _find_source(x, source)
    if found is None:
        if len(target.spec) > x.ndim:
            raise InputError(f"the target's {target.spec} names {len(target.spec)} dimensions of an array of {x.ndim}")
        return None
    if isinstance(found.mesh, AbstractMesh) and target.mesh.abstract_mesh == found.mesh:
        found = NamedSharding(target.mesh, found.spec)
    movement = _Movement(found, target, tuple(x.shape), np.dtype(x.dtype))
    faults = movement.faults()
    if faults:
        raise InputError("\n".join(faults))
    return movement


def _require_movement(x: Any, sharding: Any) -> _Movement:
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
        return _moved_later(x, target) if x.ndim else _constrained(x, target)
    if not movement.is_even():
        return _constrained(x, target)
    if not movement.is_in_one_order():
        raise InputError("inside jit, both meshes must list their devices in the same order")
    if _is_explicit(movement.source.mesh) and movement.source.mesh != movement.target.mesh:
        raise InputError("inside jit, an array with explicit axes stays on its mesh")
    if source is not None and not _is_explicit(source.mesh):
        x = _constrained(x, source)
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
    return _program(_require_movement(x, sharding), memory_limit).plan


def explain(x: Any, sharding: Any, *, memory_limit: int | None = None) -> str:
    """What `reshard` would do, as text."""
    return _program(_require_movement(x, sharding), memory_limit).explain()


def lower_text(x: Any, sharding: Any, *, memory_limit: int | None = None) -> str:
    """The program that `reshard` would run, as XLA compiled it."""
    return _program(_require_movement(x, sharding), memory_limit).compiled.as_text()
