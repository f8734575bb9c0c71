"""What moves an array of JAX from one sharding to another: programs of plans, and XLA's own, and the choice between them."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import retile
from retile import _retile
from retile._collectives import run_program
from retile._elements import element_type
from retile._errors import InputError, MemoryLimitError
from retile._retile import Layout, Plan, TensorProgram

# How an array is moved: by a plan's tensor program in one of three forms, or by XLA's own reshard.
FORMS = ("collectives", "fast", "lean", "xla")


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

    def best_form(self) -> str:
        """Of a plan, on these devices."""
        mesh = self.source.mesh
        platform = jax.default_backend() if isinstance(mesh, AbstractMesh) else mesh.devices.flat[0].platform
        return _retile.form_for(platform)

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
    """What there is to choose from where memory is short, the cheapest first."""
    yield plan_for(movement)
    source, target = movement.layouts()
    for options in ({"exchange": False}, {"planner": "paper"}, {"planner": "lean"}):
        with contextlib.suppress(InputError):  # there is no plan of this kind
            yield retile.plan(source, target, dtype=movement.dtype, **options)


def plan_for(movement: Movement) -> Plan:
    return _retile.tensor_plan(*movement.layouts(), element_type(movement.dtype))


def _lowered(plan: Plan, movement: Movement, form: str) -> TensorProgram:
    return _retile.lower(plan, movement.dtype.itemsize, form)


@dataclasses.dataclass(frozen=True)
class Program:
    """How an array is moved: by a plan in one of the forms, or by XLA's own reshard."""

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
        return _per_device(self.on_tile, source.mesh, source.spec, out_spec)

    def on_tile(self, tile: jax.Array) -> jax.Array:
        """Inside `shard_map`."""
        return run_program(self.tensors, self.movement.source.mesh.axis_names, tile)

    @functools.cached_property
    def tensors(self) -> TensorProgram:
        return _lowered(self.plan, self.movement, self.form)

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

    def explain(self) -> str:
        by = "XLA's own reshard"
        if self.form != "xla":
            by = f"these steps, in the {self.form} form: {self.tensors.collectives or 'nothing is sent'}"
        text = f"{self.plan.explain()}// moved by {by}\n"
        if (
            self.movement.source.mesh == self.movement.target.mesh
            and retile.explain(*self.movement.layouts()).rematerializes
        ):
            text += "// XLA's own reshard makes the whole array on every device (involuntary full rematerialization)\n"
        return text


def _per_device(function: Callable, mesh: Any, in_spec: PartitionSpec, out_spec: PartitionSpec) -> Callable:
    return jax.shard_map(function, mesh=mesh, in_specs=in_spec, out_specs=out_spec, check_vma=False)


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What the caller asks of a program: bytes per device at most, and a form."""

    memory_limit: int | None = None
    form: str | None = None


@functools.lru_cache(maxsize=4096)
def program_for(movement: Movement, wishes: Wishes = Wishes()) -> Program:  # noqa: B008
    programs = _programs(movement, wishes.form)
    if wishes.memory_limit is None:
        return next(programs)
    tried = []
    for program in programs:
        tried.append(program.bytes)
        if tried[-1] <= wishes.memory_limit:
            return program
    raise MemoryLimitError(
        f"a memory limit of {wishes.memory_limit} bytes per device is too small\n"
        f"hint: the smallest limit that works is {min(tried)} bytes"
    )


def _programs(movement: Movement, form: str | None) -> Iterator[Program]:
    """What there is to choose from, the best first."""
    plan = plan_for(movement)
    if form is None:
        best = Program(movement, movement.best_form(), plan)
        if _is_left_to_xla(best):
            yield Program(movement, "xla", plan)
        yield best
    if form in (None, "lean"):
        yield from (Program(movement, "lean", plan) for plan in _plans(movement))
    else:
        yield Program(movement, form, plan)


def _is_left_to_xla(program: Program) -> bool:
    """Whether XLA does as well by itself, by the model of its rules: on one mesh alone, where it has rules."""
    movement = program.movement
    if movement.source.mesh != movement.target.mesh:
        return False
    xla = _retile.xla_program(*movement.layouts())
    return xla is not None and program.tensors.is_left_to_compiler(xla)


# --- XLA's own.


def is_explicit(mesh: Any) -> bool:
    return bool(mesh.axis_types) and all(kind == AxisType.Explicit for kind in mesh.axis_types)


def constrained(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    if is_explicit(sharding.mesh):
        return jax.sharding.reshard(x, sharding)
    return jax.lax.with_sharding_constraint(x, sharding)
