"""Programs that move an array of JAX from one sharding to another: those of plans and XLA's own, and the choice between
them."""

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import retile
from retile import _retile
from retile._collectives import run_program
from retile._elements import element_type
from retile._errors import InputError, MemoryLimitError
from retile._retile import Layout, Machine, Plan, TensorProgram
from retile._shardings import annotated

# How an array is moved: by a plan's tensor program in one of three forms, or by XLA's own reshard.
FORMS = ("collectives", "fast", "lean", "xla")

try:
    from jax._src.core import remove_explicit_mesh_axis_names as _leaving_batches
except ImportError:
    _leaving_batches = contextlib.nullcontext

# JAX's own functions, as of when retile was imported: programs may replace them by ours.
own_reshard = jax.sharding.reshard
own_constraint = jax.lax.with_sharding_constraint


# --- What is moved.


@dataclasses.dataclass(frozen=True)
class Movement:
    """The movement of an array of this shape from one sharding to another over the same devices, all in their own
    memory.

    If the array has no NamedSharding, or XLA has yet to choose it, there is no source, and nothing to plan from.
    """

    source: NamedSharding | None
    target: NamedSharding
    shape: tuple[int, ...]
    dtype: Any  # of NumPy, or one that only JAX has

    def argument(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.shape, self.dtype, sharding=self.source)

    def target_devices(self) -> list[int] | None:
        """The numbers of the target's devices, counted in the order of the source's mesh; None where the devices
        differ."""
        meshes = self.source.mesh, self.target.mesh
        if any(isinstance(mesh, AbstractMesh) for mesh in meshes):  # only their number is known
            return list(range(meshes[0].size)) if meshes[0].size == meshes[1].size else None
        numbers = {device: number for number, device in enumerate(meshes[0].devices.flat)}
        found = [numbers.get(device) for device in meshes[1].devices.flat]
        return None if None in found or len(found) != len(numbers) else found

    def is_in_one_order(self) -> bool:
        return self.target_devices() == list(range(self.source.mesh.size))

    def is_on_one_mesh(self) -> bool:
        return self.source.mesh == self.target.mesh

    def layouts(self) -> tuple[Layout, Layout]:
        return (
            Layout.from_sharding(self.source, self.shape),
            Layout.from_sharding(self.target, self.shape, self.target_devices()),
        )

    def best_form(self, is_alone: bool) -> str:
        """The best form of a plan on these devices: of a program that does nothing else, or inside one that does."""
        mesh = self.source.mesh
        platform = jax.default_backend() if isinstance(mesh, AbstractMesh) else mesh.devices.flat[0].platform
        elements = max(math.prod(side.shard_shape(self.shape)) for side in (self.source, self.target))
        size = self.dtype.itemsize
        return _retile.form_for(platform, elements * size, self._shortest_run() * size, is_alone)

    def _shortest_run(self) -> int:
        """The elements that lie side by side in tiles of both sides: the inner dimensions, up to one that is cut in
        another way."""
        run = 1
        sides = (entries_of(self.source), entries_of(self.target))
        tiles = (self.source.shard_shape(self.shape), self.target.shard_shape(self.shape))
        for dimension in reversed(range(len(self.shape))):
            run *= min(tile[dimension] for tile in tiles)
            axes = [axes_of(side[dimension]) if dimension < len(side) else () for side in sides]
            if not self.is_on_one_mesh() or axes[0] != axes[1]:
                break
        return run

    def has_known_shape(self) -> bool:
        """Whether all lengths are numbers: in exported programs they may be symbols."""
        return all(isinstance(length, int) for length in self.shape)

    def is_even(self) -> bool:
        """Whether all devices have equal tiles, as arrays of JAX have."""
        return 0 not in self.shape and all(
            length % math.prod(side.mesh.shape[axis] for axis in axes_of(entry)) == 0
            for side in (self.source, self.target)
            for length, entry in zip(self.shape, side.spec, strict=False)
        )


def entries_of(sharding: NamedSharding) -> tuple[Any, ...]:
    """The spec's entry for each dimension. JAX does not allow iterating over specs with sums."""
    return tuple(getattr(sharding.spec, "partitions", sharding.spec))


def is_open(sharding: NamedSharding) -> bool:
    """Whether XLA is to choose how some dimension is cut."""
    return any(entry is PartitionSpec.UNCONSTRAINED for entry in entries_of(sharding))


def speaks_of_sums(sharding: NamedSharding) -> bool:
    return bool(getattr(sharding.spec, "unreduced", None) or getattr(sharding.spec, "reduced", None))


def axes_of(entry: Any) -> tuple[str, ...]:
    """The axes of an entry of a spec, major to minor; none where it is open."""
    return (entry,) if isinstance(entry, str) else entry if isinstance(entry, tuple) else ()


# --- Programs.


def _plans(movement: Movement) -> Iterator[Plan]:
    """The plans to choose from if memory is limited, the cheapest first."""
    yield plan_for(movement)
    source, target = movement.layouts()
    for options in ({"exchange": False}, {"planner": "paper"}, {"planner": "lean"}):
        with contextlib.suppress(InputError):  # there is no plan of this kind
            yield retile.plan(source, target, dtype=movement.dtype, **options)


def plan_for(movement: Movement, machine: Machine | None = None) -> Plan:
    return _retile.tensor_plan(*movement.layouts(), element_type(movement.dtype), machine)


def _lowered(plan: Plan, movement: Movement, form: str) -> TensorProgram:
    return _retile.lower(plan, movement.dtype.itemsize, form)


@dataclasses.dataclass(frozen=True)
class Program:
    """A way to move an array: a plan in one of the forms, or XLA's own reshard."""

    movement: Movement
    form: str
    plan: Plan

    def __call__(self, x: jax.Array) -> jax.Array:
        """Moves an array, inside `jit`."""
        target = self.movement.target
        if self.form == "xla" or not self.movement.shape:
            return moved_by_jax(x, target)
        if self.movement.is_on_one_mesh():
            return self.per_device(target.spec)(x)
        # Tiles one after the other, in the order of the devices, are the same array on both meshes.
        in_order = PartitionSpec(target.mesh.axis_names)
        return _per_device(lambda tile: tile, target.mesh, in_order, target.spec)(self.tiles(x))

    def tiles(self, x: jax.Array) -> jax.Array:
        """The target's tiles one after the other, in the order of the source's devices; inside `jit`. A scalar, which
        has no dimension for that, is the same on all devices."""
        return self.per_device(PartitionSpec(self.movement.source.mesh.axis_names))(x) if self.movement.shape else x

    def on_source_mesh(self, x: jax.Array) -> jax.Array:
        """The part that is compiled, inside `jit`. For a target on another mesh it ends with tiles, which are then
        given their sharding."""
        return self(x) if self.movement.is_on_one_mesh() else self.tiles(x)

    def per_device(self, out_spec: PartitionSpec) -> Callable[[jax.Array], jax.Array]:
        source = self.movement.source
        return _per_device(self.on_tile, source.mesh, source.spec, out_spec)

    def on_tile(self, tile: jax.Array) -> jax.Array:
        """Moves a tile, inside `shard_map`."""
        return run_program(self.tensors, self.movement.source.mesh.axis_names, tile)

    @functools.cached_property
    def tensors(self) -> TensorProgram:
        return _lowered(self.plan, self.movement, self.form)

    @property
    def compiled(self) -> Any:
        return _compiled((self,))

    @property
    def temporaries(self) -> int:
        """The bytes that a device holds beside source and target, as XLA counts them."""
        return self.compiled.memory_analysis().temp_size_in_bytes

    @property
    def bytes(self) -> int:
        return bytes_of((self,))

    @property
    def moved_by(self) -> str:
        if self.form == "xla":
            return "XLA's own reshard"
        return f"these steps, in the {self.form} form: {self.tensors.collectives or 'nothing is sent'}"

    @property
    def sent_bytes(self) -> int | None:
        """The most bytes that a device sends to others, and receives from others: collectives are symmetric. For XLA's
        own reshard by the model of its rules, and None where the model does not cover the movement."""
        if self.form != "xla":
            return self.tensors.received * self.movement.dtype.itemsize
        xla = _retile.xla_program(*self.movement.layouts()) if self.movement.is_on_one_mesh() else None
        return None if xla is None else xla.received * self.movement.dtype.itemsize

    def explain(self, inside_jit: "Program | None" = None) -> str:
        """Describes the program with a PartitionSpec beside each type, and the one inside `jit` if that differs."""
        movement = self.movement
        ends, mesh = (movement.source.spec, movement.target.spec), movement.layouts()[0].mesh
        lines = annotated(self.plan, ends, mesh, "jax")
        if self.sent_bytes is not None:
            lines.append(f"// each device sends, and receives, at most {self.sent_bytes:,} bytes")
        lines.append(f"// moved by {self.moved_by}")
        if inside_jit is not None and inside_jit.moved_by != self.moved_by:
            lines.append(f"// inside jit by {inside_jit.moved_by}")
        if movement.is_on_one_mesh() and retile.explain(*movement.layouts()).rematerializes:
            lines.append(
                "// XLA's own reshard makes the whole array on every device (involuntary full rematerialization)"
            )
        return "\n".join(lines) + "\n"


def _per_device(function: Callable, mesh: Any, in_spec: PartitionSpec, out_spec: PartitionSpec) -> Callable:
    """`shard_map` over all axes of a mesh that need not be the caller's: under `vmap`, plain `shard_map` would leave
    out the axes of the batch, and under another mesh it would refuse."""

    def run(x: jax.Array) -> jax.Array:
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            axes = set(mesh.axis_names)
            return jax.shard_map(
                function, mesh=mesh, in_specs=in_spec, out_specs=out_spec, axis_names=axes, check_vma=False
            )(x)

    return run


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What the caller asks of a program: the most bytes per device, a form, the machine on which it is fast, and
    whether it does nothing else or is a part of the caller's program. The best `rank` programs are left out: they do
    not fit beside other arrays."""

    memory_limit: int | None = None
    form: str | None = None
    machine: Machine | None = None
    is_alone: bool = True
    rank: int = 0


# --- Arrays that are moved together form one program.


def run_all(programs: Sequence[Program], arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Moves several arrays, inside `jit`. Arrays for other meshes end as tiles, see `Program.on_source_mesh`."""
    return [program.on_source_mesh(array) for program, array in zip(programs, arrays, strict=True)]


@functools.lru_cache(maxsize=1024)
def _compiled(programs: tuple[Program, ...]) -> Any:
    """The compiled program: one array is passed as it is, several as a list. It is no part of what the caller traces,
    under `vmap` or not."""
    arguments = [program.movement.argument() for program in programs]
    with _leaving_batches(programs[0].movement.source.mesh.axis_names):
        if len(programs) == 1:
            return jax.jit(programs[0].on_source_mesh).lower(*arguments).compile()
        return jax.jit(functools.partial(run_all, programs)).lower(arguments).compile()


def bytes_of(programs: tuple[Program, ...]) -> int:
    """The bytes that a device holds for all these arrays: sources, targets and temporaries, as XLA counts them."""
    memory = _compiled(programs).memory_analysis()
    return memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes


def program_for(movement: Movement, wishes: Wishes = Wishes()) -> Program:  # noqa: B008
    return choice_for((movement,), wishes).programs[0]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The programs that move arrays together, and the number of better choices that did not fit."""

    programs: tuple[Program, ...]
    rank: int


@functools.lru_cache(maxsize=4096)
def choice_for(movements: tuple[Movement, ...], wishes: Wishes = Wishes()) -> Choice:  # noqa: B008
    """The choice for arrays that start on one mesh. A memory limit holds for all of them together."""
    choices = _choices(movements, wishes)
    if wishes.memory_limit is None:
        return next(choices)
    leanest = None
    for choice in choices:
        # A program of many arrays takes long to compile, so it is not compiled where it cannot fit.
        least = _least_bytes_of(choice.programs)
        if least <= wishes.memory_limit and bytes_of(choice.programs) <= wishes.memory_limit:
            return choice
        leanest = min((least, choice.rank, choice), leanest or (least, choice.rank, choice))
    works = bytes_of(leanest[-1].programs)
    hint = f"the smallest limit that works is {works} bytes" if len(movements) == 1 else f"{works} bytes are enough"
    raise MemoryLimitError(f"a memory limit of {wishes.memory_limit} bytes per device is too small\nhint: {hint}")


def _least_bytes_of(programs: tuple[Program, ...]) -> int:
    """A lower bound on the bytes: sources, targets, and the temporaries of the array that needs the most."""
    every = [program.compiled.memory_analysis() for program in programs]
    ends = sum(memory.argument_size_in_bytes + memory.output_size_in_bytes for memory in every)
    return ends + max(memory.temp_size_in_bytes for memory in every)


def _choices(movements: tuple[Movement, ...], wishes: Wishes) -> Iterator[Choice]:
    """The best program of each array, then the second best of each, and so on. An array without more programs keeps its
    last."""
    last: tuple[Program | None, ...] = (None,) * len(movements)
    rank = 0
    for row in itertools.zip_longest(*(_programs(movement, wishes) for movement in movements)):
        last = tuple(new or old for new, old in zip(row, last, strict=True))
        if rank >= wishes.rank:
            yield Choice(last, rank)
        rank += 1
    if rank <= wishes.rank:
        yield Choice(last, rank)


def _programs(movement: Movement, wishes: Wishes) -> Iterator[Program]:
    """The programs to choose from, the best first."""
    if wishes.machine is not None and wishes.machine._times_programs:
        yield from _timed_programs(movement, wishes)
        return
    plan, form = plan_for(movement, wishes.machine), wishes.form
    if form is None:
        best = Program(movement, movement.best_form(wishes.is_alone), plan)
        if _is_left_to_xla(best, wishes.is_alone):
            yield Program(movement, "xla", plan)
        yield best
        if best.form != (alone := movement.best_form(is_alone=True)):  # may hold less
            yield Program(movement, alone, plan)
    if form in (None, "lean"):
        yield from (Program(movement, "lean", plan) for plan in _plans(movement))
    else:
        yield Program(movement, form, plan)


def _timed_programs(movement: Movement, wishes: Wishes) -> Iterator[Program]:
    """The programs to choose from on a machine that times them, the fastest first. Inside the caller's program, plans
    keep their collectives: XLA lays out what is around them so that other forms save no copies. Those follow where
    memory is limited: they may hold less."""
    if wishes.form is not None:
        preferred, others = (wishes.form,), ()
    else:
        known = [form for form in FORMS if form != "xla" or movement.is_on_one_mesh()]
        preferred = [form for form in known if wishes.is_alone or form in ("collectives", "xla")]
        others = [form for form in known if form not in preferred and wishes.memory_limit is not None]
    is_found = False
    for forms in filter(None, (preferred, others)):
        ends = *movement.layouts(), element_type(movement.dtype)
        for form, plan in _retile.fastest_programs(*ends, wishes.machine, [*forms]):
            is_found = True
            yield Program(movement, form, plan)
    if not is_found:  # of XLA's own program there may be no model; another form raises why there is none
        yield Program(movement, wishes.form or "xla", plan_for(movement))


def _is_left_to_xla(program: Program, is_alone: bool) -> bool:
    """Whether XLA does as well by itself, by the model of its rules; only on one mesh, for which it has rules."""
    movement = program.movement
    if not movement.is_on_one_mesh():
        return False
    xla = _retile.xla_program(*movement.layouts())
    return xla is not None and program.tensors.is_left_to_compiler(xla, is_alone)


# --- JAX's own.


def is_explicit(mesh: Any) -> bool:
    """Whether types of arrays say how they are cut along every axis."""
    return bool(mesh.axis_types) and all(kind == AxisType.Explicit for kind in mesh.axis_types)


def is_automatic(mesh: Any) -> bool:
    """Whether XLA chooses how arrays are cut along every axis."""
    return all(kind == AxisType.Auto for kind in mesh.axis_types)


def moved_by_jax(x: jax.Array, target: NamedSharding) -> jax.Array:
    """Moves an array by JAX, inside `jit`: along explicit axes by its reshard, along automatic ones by a constraint. An
    enclosing `shard_map` has cut the array along manual axes, so nothing moves along those."""
    if is_explicit(target.mesh) or speaks_of_sums(target):
        return own_reshard(x, target)
    if is_automatic(target.mesh):
        return _constrained(x, target)
    explicit, automatic = (_part_along(target, kind, x) for kind in (AxisType.Explicit, AxisType.Auto))
    if AxisType.Explicit in target.mesh.axis_types:
        x = own_reshard(x, explicit)
    return own_constraint(x, automatic) if AxisType.Auto in target.mesh.axis_types else x


def _constrained(x: jax.Array, target: NamedSharding) -> jax.Array:
    """Constrains an array on automatic axes, which may come from explicit ones: a constraint alone does not change
    types, and under a mesh of explicit axes it is an assertion, not a request."""
    mesh = target.mesh.abstract_mesh
    if is_explicit(jax.typeof(x).sharding.mesh):
        x = own_reshard(x, NamedSharding(mesh, PartitionSpec(*(None,) * x.ndim)))
    is_claim = is_explicit(jax.sharding.get_abstract_mesh())
    with jax.sharding.use_abstract_mesh(mesh) if is_claim else contextlib.nullcontext():
        return own_constraint(x, target)


def _part_along(target: NamedSharding, kind: AxisType, x: jax.Array) -> NamedSharding:
    """The part of a sharding along the axes of one type. A dimension that is open stays open along automatic axes, and
    cut as the array's type says along explicit ones, except for axes that the sharding names elsewhere."""
    kinds, named = kinds_of(target.mesh), {axis for entry in target.spec for axis in axes_of(entry)}

    def part_of(entry: Any, own: Any) -> Any:
        if entry is PartitionSpec.UNCONSTRAINED:
            if kind == AxisType.Auto:
                return entry
            entry = tuple(axis for axis in axes_of(own) if axis not in named)
        return tuple(axis for axis in axes_of(entry) if kinds.get(axis) == kind) or None

    owns = jax.typeof(x).sharding.spec
    return NamedSharding(target.mesh, PartitionSpec(*map(part_of, target.spec, owns)))


def kinds_of(mesh: Any) -> dict[str, AxisType]:
    return dict(zip(mesh.axis_names, mesh.axis_types, strict=True))


def why_not_by_jax(target: NamedSharding) -> str | None:
    """The reason why `moved_by_jax` cannot produce this sharding; None where it can."""
    kinds = kinds_of(target.mesh)
    along = [[kinds[axis] for axis in axes_of(entry)] for entry in entries_of(target)]
    if any(AxisType.Manual in one for one in along):
        return f"{target.spec} names an axis along which an enclosing shard_map has cut the array"
    if any(one != sorted(one, key=lambda kind: kind == AxisType.Auto) for one in along):
        return f"{target.spec} cuts a dimension along an automatic axis first and an explicit one second"
    return None
