"""What moves an array of JAX from one sharding to another: programs of plans, and XLA's own, and the choice between them."""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import retile
from retile._collectives import Lowering
from retile._errors import InputError, MemoryLimitError
from retile._retile import Layout, Plan

# Exchanges of more rounds than this are slower than the collectives that avoid them.
MOST_ROUNDS = 4
# Temporaries up to a page are the program's own, whatever it moves.
OWN_BYTES = 4096


# --- What is to be moved.


@dataclasses.dataclass(frozen=True)
class Movement:
    """An array of this shape, from one sharding to another over the same devices, all in their own memory.

    There is no source, and nothing to plan from, where the array has no NamedSharding or XLA has yet to choose it.
    """

    source: NamedSharding | None
    target: NamedSharding
    shape: tuple[int, ...]
    dtype: Any  # of NumPy, or one that only JAX has

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

    def reversed(self) -> "Movement":
        return dataclasses.replace(self, source=self.target, target=self.source)

    def batched(self, size: int) -> "Movement":
        return Movement(batched_sharding(self.source), batched_sharding(self.target), (size, *self.shape), self.dtype)

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
            length > 0 and length % math.prod(side.mesh.shape[axis] for axis in axes_of(entry)) == 0
            for side in (self.source, self.target)
            for length, entry in zip(self.shape, side.spec, strict=False)
        )


def batched_sharding(sharding: NamedSharding) -> NamedSharding:
    return NamedSharding(sharding.mesh, PartitionSpec(None, *sharding.spec))


def axes_of(entry: Any) -> tuple[str, ...]:
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


# --- What would move it.


def _plans(movement: Movement) -> Iterator[Plan]:
    """What there is to choose from, the cheapest first."""
    source, target = movement.layouts()
    for options in ({}, {"exchange": False}, {"planner": "paper"}, {"planner": "lean"}):
        try:
            yield retile.plan(source, target, dtype=movement.dtype, **options)
        except InputError:  # there is no plan of this kind
            if not options:
                raise


def plan_for(movement: Movement) -> Plan:
    few_rounds = (plan for plan in _plans(movement) if _exchange_rounds(plan) <= MOST_ROUNDS)
    return next(few_rounds, None) or next(_plans(movement))


def _exchange_rounds(plan: Plan) -> int:
    exchanges = [i for i, step in enumerate(plan.steps) if step.op == "exchange"]
    return max((len(plan._rounds(i, i)[2]) for i in exchanges), default=0)


@dataclasses.dataclass(frozen=True)
class Program:
    """How an array is moved: by a plan, in the `fast` or the `lean` form, or by XLA's own reshard."""

    movement: Movement
    form: str
    plan: Plan

    def __call__(self, x: jax.Array) -> jax.Array:
        """Inside `jit`."""
        source, target = self.movement.source, self.movement.target
        if self.form == "xla":
            return constrained(x, target)
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

    def is_as_good_as(self, other: "Program") -> bool:
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
def program_for(movement: Movement, memory_limit: int | None = None) -> Program:
    plan = plan_for(movement)
    fast, xla = (Program(movement, form, plan) for form in ("fast", "xla"))
    is_simple = movement.source.mesh == movement.target.mesh and _is_xlas_too(plan)
    first = xla if is_simple or (_can_compare(movement) and xla.is_as_good_as(fast)) else fast
    if memory_limit is None:
        return first
    programs = [first, fast] + [Program(movement, "lean", plan) for plan in _plans(movement)]
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


def _can_compare(movement: Movement) -> bool:
    """Whether XLA's own program may be compiled and looked at: its compiler aborts on some meshes of other sizes."""
    mesh = movement.source.mesh
    is_known = not isinstance(mesh, AbstractMesh) and mesh == movement.target.mesh
    return is_known and all(size & (size - 1) == 0 for size in mesh.shape.values())


# --- XLA's own.


def is_explicit(mesh: Any) -> bool:
    return bool(mesh.axis_types) and all(kind == AxisType.Explicit for kind in mesh.axis_types)


def constrained(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    if is_explicit(sharding.mesh):
        return jax.sharding.reshard(x, sharding)
    return jax.lax.with_sharding_constraint(x, sharding)
