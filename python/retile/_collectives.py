"""Tensor programs carried out by JAX, inside `shard_map`: a function for each operation. They make no decisions.

Collectives name all axes of a mesh at once: the linear index is retile's device number, so that groups and pairs are
passed on unchanged.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from retile._retile import TensorProgram

Array = Any
Shape = tuple[int, ...]
Statements = list[tuple[str, list[int], Shape, dict[str, Any]]]  # see TensorProgram.statements


def run_program(program: TensorProgram, axes: tuple[str, ...], tile: Array) -> Array:
    """Runs the program on a device's tile, and returns the result. `axes` are all axes of the mesh."""
    return Interpreter(axes).run(program.statements, tile)


class Interpreter:
    def __init__(self, axes: tuple[str, ...]):
        self.axes = axes
        self.device = lax.axis_index(axes)

    def run(self, statements: Statements, *arguments: Array) -> Array:
        values = list(arguments)
        for name, operands, shape, fields in statements:
            values.append(getattr(self, name)(*(values[number] for number in operands), shape=shape, **fields))
        return values[-1]

    def of_device(self, table: Sequence[Any]) -> Array:
        """The device's entry of a table, or the only entry where all devices share one."""
        return np.array(table[0]) if len(table) == 1 else jnp.asarray(table, jnp.int32)[self.device]

    # --- One device's values.

    def slice(self, tile: Array, after: Array | None = None, *, shape: Shape, corners: list[list[int]]) -> Array:
        if after is None and len(corners) == 1:
            return lax.slice(tile, corners[0], [start + size for start, size in zip(corners[0], shape, strict=True)])
        corner = self.of_device(corners) + (0 if after is None else zero_after(after))
        return lax.dynamic_slice(tile, tuple(corner), shape)

    def reshape(self, tile: Array, *, shape: Shape) -> Array:
        return tile.reshape(shape)

    def transpose(self, tile: Array, *, shape: Shape, order: list[int]) -> Array:
        return tile.transpose(order)

    def stack(self, *boxes: Array, shape: Shape) -> Array:
        return jnp.stack(boxes)

    def concatenate(self, *boxes: Array, shape: Shape, dimension: int) -> Array:
        return lax.concatenate(boxes, dimension)

    def pick(self, boxes: Array, *, shape: Shape, order: list[list[int]]) -> Array:
        return boxes.take(self.of_device(order), axis=0, mode="clip")

    def select(self, one: Array, other: Array, *, shape: Shape, chosen: list[int]) -> Array:
        return jnp.where(self.of_device(chosen), other, one)

    def switch(self, *values: Array, shape: Shape, chosen: list[int], branches: list[Statements]) -> Array:
        return lax.switch(
            self.of_device(chosen), [functools.partial(self.run, statements) for statements in branches], *values
        )

    def zeros(self, tile: Array, *, shape: Shape) -> Array:
        return jnp.zeros(shape, tile.dtype)

    def update(self, tile: Array, box: Array, *, shape: Shape, corners: list[list[int]]) -> Array:
        return lax.dynamic_update_slice(tile, box, tuple(self.of_device(corners)))

    def combine(self, parts: Array, *, shape: Shape, reduction: str) -> Array:
        combined = {"sum": jnp.add, "max": jnp.maximum, "min": jnp.minimum}[reduction]
        is_half = parts.dtype in (jnp.float16, jnp.bfloat16)
        return functools.reduce(combined, parts.astype(jnp.float32) if is_half else parts).astype(parts.dtype)

    # --- Collectives.

    def gather(self, tile: Array, *, shape: Shape, dimension: int, groups: list[list[int]]) -> Array:
        return lax.all_gather(tile, self.axes, axis_index_groups=groups, axis=dimension, tiled=True)

    def all_to_all(self, tile: Array, *, shape: Shape, split: int, join: int, groups: list[list[int]]) -> Array:
        return lax.all_to_all(tile, self.axes, split, join, axis_index_groups=groups, tiled=True)

    def permute(self, box: Array, *, shape: Shape, senders: list[int]) -> Array:
        return lax.ppermute(box, self.axes, [(sender, receiver) for receiver, sender in enumerate(senders)])


def zero_after(array: Array) -> Array:
    """Returns 0, which XLA cannot compute before it has the array."""
    first = array[(slice(0, 1),) * array.ndim].reshape(())
    return lax.shift_right_logical(first.real.astype(jnp.int32) & 1, 1)
