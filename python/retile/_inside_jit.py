"""`retile_reshard`, JAX's primitive for a reshard by a plan inside `jit`.

It is linear, and transformed like JAX's own: on explicit axes like `jax.sharding.reshard`, on automatic ones like
`with_sharding_constraint`. Only the lowering differs: it becomes a plan's tensor program if source and target are
known, and otherwise a call that becomes one when XLA has chosen them.
"""

import functools
import warnings
from typing import Any

import jax
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from retile._errors import InputError
from retile._programs import (
    Movement,
    Wishes,
    axes_of,
    is_explicit,
    is_open,
    moved_by_jax,
    own_constraint,
    own_reshard,
    program_for,
)
from retile._retile import __version__

try:
    from jax._src.custom_partitioning import _sharding_callbacks
except ImportError:  # in other versions of JAX: programs with calls are then compiled anew in every process
    _sharding_callbacks = None
try:
    from jax._src.dispatch import prim_requires_devices_during_lowering as _primitives_that_need_devices
except ImportError:
    _primitives_that_need_devices = set()

UNCONSTRAINED = PartitionSpec.UNCONSTRAINED

# The operand is the array. Parameters are `source`, `target` and `wishes`. `source` is a sharding on automatic axes,
# open where XLA chooses. It is None if nothing is known, and on explicit axes, where the type has it. On automatic
# axes, constraints before and after the primitive give XLA the same shardings.
reshard_p = Primitive("retile_reshard")
# The same primitive for shardings that XLA has yet to choose. JAX then needs to know the devices.
reshard_later_p = Primitive("retile_reshard_later")
_primitives_that_need_devices.add(reshard_later_p)


def reshard_inside_jit(x: Any, source: NamedSharding | None, target: NamedSharding, wishes: Wishes) -> jax.Array:
    """The resharded array, on axes that are all explicit or all automatic. Raises where the wishes cannot be met."""
    target = _at_full_length(target, np.ndim(x))
    if is_explicit(target.mesh):
        return _bound(x, None, target, wishes)
    if source is not None:
        source = _at_full_length(source, np.ndim(x))
        x = own_constraint(x, source)
    return own_constraint(_bound(x, source, target, wishes), target)


def _at_full_length(sharding: NamedSharding, rank: int) -> NamedSharding:
    return NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec, *(None,) * (rank - len(sharding.spec))))


def _bound(x: Any, source: NamedSharding | None, target: NamedSharding, wishes: Wishes) -> jax.Array:
    """Binds the primitive. Raises where the wishes cannot be met: here, at the caller's own line, and not when it is
    lowered."""
    movement = _known_movement(jax.typeof(x), source, target)
    if wishes.memory_limit is not None or wishes.machine is not None:
        if movement is None:
            what = "a memory limit cannot be kept" if wishes.machine is None else "no plan can be made for a machine"
            raise InputError(
                f"{what} under vmap, where XLA chooses how the batch is cut\n"
                "hint: name its axis: jax.vmap(…, spmd_axis_name=…)"
            )
        program_for(movement, wishes)
    is_known = movement is not None or is_explicit(target.mesh)
    primitive = reshard_p if is_known else reshard_later_p
    return primitive.bind(x, source=source, target=target, wishes=wishes)


def _known_movement(array: Any, source: NamedSharding | None, target: NamedSharding) -> Movement | None:
    """The movement; None where XLA has something to choose, and where a batch is not cut evenly."""
    if is_explicit(target.mesh):
        source = NamedSharding(target.mesh, array.sharding.spec)
    if source is None or is_open(source) or is_open(target):
        return None
    movement = Movement(source, target, tuple(array.shape), array.dtype)
    return movement if movement.has_known_shape() and movement.is_even() else None


# --- Types and transformations.


@functools.partial(jax.jit, static_argnames=("source", "target", "wishes"))
def _jitted(x: jax.Array, **parameters: Any) -> jax.Array:
    return _bound(x, **parameters)


def _run(x: jax.Array, **parameters: Any) -> jax.Array:
    with jax.disable_jit(False):  # without jit, it would call itself
        return _jitted(x, **parameters)


def _type_of(x: Any, *, target: NamedSharding, **_: Any) -> Any:
    mesh = target.mesh.abstract_mesh
    return x.update(sharding=NamedSharding(mesh, target.spec)) if is_explicit(mesh) else x


def _transpose(
    cotangent: Any, x: Any, *, source: NamedSharding | None, target: NamedSharding, wishes: Wishes
) -> list[Any]:
    """Gradients take the way back. If it is not known, they are left to XLA."""
    if is_explicit(target.mesh):
        if x.aval.sharding.mesh.empty:  # the array has no sharding to go back to
            return jax.linear_transpose(lambda x: own_reshard(x, target), x.aval)(cotangent)
        return [_bound(cotangent, None, NamedSharding(target.mesh, x.aval.sharding.spec), wishes)]
    return [cotangent if source is None else _bound(cotangent, target, source, wishes)]


def _batched(
    axis: Any,
    arguments: list[Any],
    dimensions: list[int | None],
    *,
    source: NamedSharding | None,
    target: NamedSharding,
    wishes: Wishes,
) -> tuple[Any, int | None]:
    """A batch is one more dimension. On explicit axes its axes are those of the type, otherwise those given to `vmap`;
    if none are given, XLA chooses."""
    (x,), (dimension,) = arguments, dimensions
    if dimension is not None:
        entry = axis.explicit_mesh_axis if is_explicit(target.mesh) else axis.spmd_name or UNCONSTRAINED
        source, target = (
            None if side is None else _with_dimension(side, dimension, entry) for side in (source, target)
        )
    return _bound(x, source, target, wishes), dimension


def _with_dimension(sharding: NamedSharding, dimension: int, entry: Any) -> NamedSharding:
    entries = list(sharding.spec)
    if twice := sorted(set(axes_of(entry)) & {axis for one in entries for axis in axes_of(one)}):
        raise InputError(f"vmap cuts the batch along {', '.join(twice)}, which {sharding.spec} names too")
    entries.insert(dimension, entry)
    return NamedSharding(sharding.mesh, PartitionSpec(*entries))


# --- Lowering.


def _lower(context: Any, x: Any, *, source: NamedSharding | None, target: NamedSharding, wishes: Wishes) -> list[Any]:
    movement = _known_movement(context.avals_in[0], source, target)
    move = functools.partial(moved_by_jax, target=target) if movement is None else program_for(movement, wishes)
    return [_lowered(context, x, move)]


def _lower_later(
    context: Any, x: Any, *, source: NamedSharding | None, target: NamedSharding, wishes: Wishes
) -> list[Any]:
    (array,) = context.avals_in
    if not all(isinstance(length, int) for length in array.shape):
        return [x]
    if context.module_context.lowering_parameters.for_export:
        _warn_of_export()
        return [x]
    open_dimensions = tuple(entry is UNCONSTRAINED for entry in target.spec)
    call = _lowered(context, x, lambda x: _to_be_moved(x, open_dimensions, wishes.form))
    if _sharding_callbacks is not None and call != x:  # on one device there is no call
        _give_lasting_name(context, call.owner)
    return [call]


def _lowered(context: Any, x: Any, function: Any) -> Any:
    (result,) = mlir.lower_fun(function, multiple_results=False)(context, x)
    return result


@functools.lru_cache(maxsize=1)
def _warn_of_export() -> None:
    """Warns once."""
    warnings.warn(
        "retile.jax.reshard: XLA moves an array of an exported program, since its sharding is not known when it is "
        "exported\nhint: give it as source, or use explicit axes",
        stacklevel=2,
    )


for primitive, lower in ((reshard_p, _lower), (reshard_later_p, _lower_later)):
    primitive.def_impl(_run)
    primitive.def_abstract_eval(_type_of)
    ad.deflinear2(primitive, _transpose)
    batching.fancy_primitive_batchers[primitive] = _batched
    mlir.register_lowering(primitive, lower)


# --- The call: it stands for the array itself until XLA has chosen its shardings.


@functools.partial(custom_partitioning, static_argnums=(1, 2))
def _to_be_moved(x: jax.Array, open_dimensions: tuple[bool, ...], form: str | None) -> jax.Array:
    return x


def _move_when_known(_: Any, form: str | None, mesh: Any, arguments: Any, result: Any) -> Any:
    source, target = arguments[0].sharding, result.sharding
    if isinstance(source, NamedSharding) and isinstance(target, NamedSharding):
        movement = Movement(source, target, tuple(result.shape), np.dtype(result.dtype))
        if movement.is_even():
            program = program_for(movement, Wishes(form=form, is_alone=False))
            if program.form != "xla":
                return mesh, program.on_tile, target, (source,)
    return mesh, lambda tile: tile, target, (target,)


def _relation(open_dimensions: tuple[bool, ...], *_: Any) -> str:
    """The sharding rule: an open dimension is cut alike before and after; other dimensions are independent."""
    sides = (
        " ".join(f"{'both' if is_open else side}{i}" for i, is_open in enumerate(open_dimensions))
        for side in ("before", "after")
    )
    return " -> ".join(sides)


_to_be_moved.def_partition(
    partition=_move_when_known,
    infer_sharding_from_operands=lambda _, __, mesh, arguments, result: result.sharding,
    sharding_rule=_relation,
)

# By name, kept as long as the process lives.
_kept_callbacks: dict[str, Any] = {}


def _give_lasting_name(context: Any, call: Any) -> None:
    """Gives the callback of a call a name that is the same in every process. JAX's own name is an address, with which a
    compiled program is never found in the cache on disk and cannot be serialized. The name has everything that
    determines what the call becomes, so callbacks with equal names are interchangeable."""
    address = mlir.ir.StringAttr(call.attributes["backend_config"]).value
    callback = _sharding_callbacks[address.encode()]
    mesh, (array,) = callback.mesh, context.avals_in
    devices = [] if mesh.empty else [device.id for device in mesh.devices.flat]
    name = f"retile {__version__}: {array.str_short()} {callback.static_args} {mesh.shape_tuple} {devices}"
    _kept_callbacks[name] = _sharding_callbacks[name.encode()] = callback
    call.attributes["backend_config"] = mlir.ir.StringAttr.get(name)
    context.module_context.keepalives.remove(callback)
