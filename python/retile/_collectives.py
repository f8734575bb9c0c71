"""A plan as a function of one device's tile, in JAX's collectives. What moves when is the plan's to say, not ours.

Collectives name all axes of a mesh at once: the linear index is retile's device number, and groups and pairs of the
plan are given as they are. There are two forms: `fast` takes few passes over memory, `lean` holds little beside tiles.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from retile._retile import Plan, Step

Array = Any
MOST_PERMUTED = 4  # devices that send each other boxes one by one: less is held at once than by one collective
MOST_BRANCHES = 64  # by which devices put boxes together
LONG_RUN_BYTES = 512  # of boxes that XLA puts side by side faster by copies of whole runs than element by element
LEAN_PARTS = 8  # of a tile: the lean form sends no more than one of them at a time


class Lowering:
    """The steps of a plan inside `shard_map`; `axes` are all axes of its mesh."""

    def __init__(self, plan: Plan, axes: tuple[str, ...], form: str):
        self.plan = plan
        self.steps: Sequence[Step] = plan.steps
        self.axes = axes
        self.is_lean = form == "lean"

    def __call__(self, tile: Array) -> Array:
        self.device = lax.axis_index(self.axes)
        first = 0  # of a stage: slices, and the step that takes them up
        for last, step in enumerate(self.steps):
            if step.op == "dynslice" and last + 1 < len(self.steps):
                continue
            tile = self.stage(tile, first, last)
            first = last + 1
        return tile

    def stage(self, tile: Array, first: int, last: int) -> Array:
        step = self.steps[last]
        collective = {"allgather": self.gather, "alltoall": self.all_to_all, "dynslice": self.slice}.get(step.op)
        function = collective and collective(step)
        if function is None:
            return self.rounds(tile, first, last)
        if first < last:
            tile = self.cut(tile, self.moved(first, last - 1), self.steps[last - 1].local_out)
        return function(tile)

    # --- Slices: corners are by device, and constants where all devices have the same.

    def moved(self, first: int, last: int) -> np.ndarray:
        """How far the corner of each device's tile moves from before one step to after another."""
        return np.array(self.steps[last].offsets_out) - np.array(self.steps[first].offsets_in)

    def of_device(self, table: np.ndarray) -> Any:
        """A device's row of a table."""
        if (table == table[0]).all():
            return table[0]
        return jnp.asarray(table, jnp.int32)[self.device]

    def cut(self, tile: Array, corners: np.ndarray, shape: Sequence[int], after: Array | None = None) -> Array:
        corner = self.of_device(np.asarray(corners))
        if after is not None:
            corner = jnp.asarray(corner, jnp.int32) + zero_after(after)
        elif tuple(shape) == tile.shape:
            return tile
        elif isinstance(corner, np.ndarray):
            return lax.slice(tile, corner, corner + np.array(shape))
        return lax.dynamic_slice(tile, tuple(corner), shape)

    def slice(self, step: Step) -> Callable[[Array], Array]:
        return lambda tile: self.cut(tile, np.array(step.offsets_out) - np.array(step.offsets_in), step.local_out)

    # --- Collectives over groups. None where rounds do better.

    def gather(self, step: Step) -> Callable[[Array], Array] | None:
        factors = [after // before for before, after in zip(step.local_in, step.local_out, strict=True)]
        groups = step.groups
        inner = math.prod(factors[1:])
        if inner > 1 and (self.is_lean or (factors[0] == 1 and len(groups[0]) <= MOST_PERMUTED)):
            return None

        def gather(tile: Array) -> Array:
            # Members are in row-major order of their corners. The outermost dimension comes last: there, whole tiles
            # lie one after the other, and XLA needs no memory beside them.
            if inner > 1:
                rows = [group[first : first + inner] for group in groups for first in range(0, len(group), inner)]
                tile = joined(lax.all_gather(tile, self.axes, axis_index_groups=rows), [1, *factors[1:]])
            if factors[0] == 1:
                return tile
            columns = [group[first::inner] for group in groups for first in range(inner)]
            return lax.all_gather(tile, self.axes, axis_index_groups=columns, axis=0, tiled=True)

        return gather

    def all_to_all(self, step: Step) -> Callable[[Array], Array] | None:
        before, after, groups = step.local_in, step.local_out, step.groups
        size = len(groups[0])
        cuts = [max(1, old // new) for old, new in zip(before, after, strict=True)]
        joins = [max(1, new // old) for old, new in zip(before, after, strict=True)]
        piece = [old // count for old, count in zip(before, cuts, strict=True)]
        is_plain = math.prod(cuts) == math.prod(joins) == size and after == [
            length * count for length, count in zip(piece, joins, strict=True)
        ]
        # Among four, one collective is faster and holds more, which counts where no step after it holds as much.
        is_cut_once = sum(cut > 1 for cut in cuts) == 1
        most_permuted = MOST_PERMUTED if is_cut_once and step is self.steps[-1] else 2
        if self.is_lean or not is_plain or size <= most_permuted:
            return None
        # Where the piece lies that each device wants; then, by member of its group and device, those that they want.
        wanted = (np.array(step.offsets_out) - np.array(step.offsets_in)) * (np.array(cuts) > 1)
        corners = np.empty((size, *wanted.shape), np.int32)
        for group in groups:
            corners[:, group] = wanted[group][:, None]

        def exchange(tile: Array) -> Array:
            pieces = jnp.stack([self.cut(tile, table, piece) for table in corners])
            return put_together(list(lax.all_to_all(pieces, self.axes, 0, 0, axis_index_groups=groups)), joins)

        return exchange

    # --- Rounds: everything else.

    def rounds(self, tile: Array, first: int, last: int) -> Array:
        cell, own, exchanged = self.plan._rounds(first, last)
        shape = self.steps[last].local_out
        grid = [extent // length for extent, length in zip(shape, cell, strict=True)]
        if math.prod(grid) > 1 and self.is_lean:
            return self.copied_rounds(tile, cell, own, exchanged, shape)
        received: list[Array] = []
        for senders, corners, _ in exchanged:
            # Of many cells, one is cut when the one before has come: otherwise XLA holds all that it sends at once.
            after = received[-1] if received and len(exchanged) > 2 and tuple(cell) != tile.shape else None
            received.append(self.send(self.cut(tile, corners, cell, after), senders))
        places = np.stack([np.array(one) // np.array(cell) for _, _, one in own + exchanged])  # by round and device
        order = np.argsort(np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), grid), axis=0).T  # by device
        kept = np.reshape([corners for _, corners, _ in own], (len(own), *np.shape(self.steps[last].offsets_out)))
        # What devices do differs by where they keep cells from and where cells go: a branch for each such way.
        ways, number = np.unique(np.hstack([order, *kept]), axis=0, return_inverse=True)
        if len(ways) > MOST_BRANCHES or jax.default_backend() != "cpu":
            return self.taken([self.cut(tile, corners, cell) for corners in kept] + received, order, grid)

        is_gathered = any(step.local_in[0] < step.local_out[0] for step in self.steps[last + 1 : last + 2])
        if len(ways) == 2 and len(received) == 2 and not own and is_gathered:
            # Before a collective, and without a branch, XLA lends these cells what is the result's afterwards.
            is_swapped = jnp.asarray(order[:, 0] == 1)[self.device]
            cells = [jnp.where(is_swapped, other, one) for one, other in zip(received, received[::-1], strict=True)]
            return joined(jnp.stack(cells), grid)

        def branch(way: np.ndarray) -> Callable[..., Array]:
            order, corners = way[: len(places)], way[len(places) :].reshape(len(own), len(cell))

            def put(tile: Array, *received: Array) -> Array:
                cells = [lax.slice(tile, corner, corner + np.array(cell)) for corner in corners] + list(received)
                cells = [cells[i] for i in order]
                # What is kept is cut as it is joined, where XLA can: along the last dimension.
                is_cut = bool(own) and tuple(cell) != tile.shape and grid[-1] > 1
                return joined(jnp.stack(cells), grid) if is_cut else put_together(cells, grid)

            return put

        if len(ways) == 1:
            return branch(ways[0])(tile, *received)
        mine = jnp.asarray(number.reshape(-1), jnp.int32)[self.device]
        return lax.switch(mine, [branch(way) for way in ways], tile, *received)

    def taken(self, cells: list[Array], order: np.ndarray, grid: list[int]) -> Array:
        """The cells in each device's own order, row-major, as one tile."""
        own_order = self.of_device(order.astype(np.int32))
        if isinstance(own_order, np.ndarray):
            return put_together([cells[i] for i in own_order], grid)
        return joined(jnp.stack(cells).take(own_order, axis=0, mode="clip"), grid)

    def copied_rounds(self, tile: Array, cell: list[int], own: list, exchanged: list, shape: list[int]) -> Array:
        result = jnp.zeros(shape, tile.dtype)
        for senders, corners, places in exchanged:
            for start, box in parts_of(cell, max(math.prod(shape) // LEAN_PARTS, 1)):
                # A round starts when the one before is written: otherwise XLA holds the cells of all at once.
                received = self.send(self.cut(tile, np.array(corners) + start, box, after=result), senders)
                result = self.put(result, received, np.array(places) + start)
        for _, corners, places in own:  # from tile to tile, and last: a round that waits for them would copy the result
            result = self.put(result, self.cut(tile, corners, cell), places)
        return result

    def put(self, result: Array, box: Array, places: np.ndarray) -> Array:
        return lax.dynamic_update_slice(result, box, tuple(jnp.asarray(self.of_device(np.asarray(places)), jnp.int32)))

    def send(self, cell: Array, senders: Sequence[int]) -> Array:
        return lax.ppermute(cell, self.axes, [(sender, receiver) for receiver, sender in enumerate(senders)])


def joined(boxes: Array, counts: Sequence[int]) -> Array:
    """Equal boxes, so many in each dimension, one after the other row-major, as one tile."""
    piece, rank = boxes.shape[1:], len(counts)
    turned = [dimension for pair in zip(range(rank), range(rank, 2 * rank), strict=True) for dimension in pair]
    return boxes.reshape(*counts, *piece).transpose(turned).reshape([n * k for n, k in zip(piece, counts, strict=True)])


def parts_of(box: Sequence[int], elements: int) -> Iterator[tuple[list[int], list[int]]]:
    """Corners and shapes of boxes that make up one, each of about so many elements at most: runs stay whole."""
    if math.prod(box) <= elements:
        yield [0] * len(box), list(box)
        return
    outer = next(dimension for dimension, length in enumerate(box) if length > 1)
    rest = math.prod(box[outer + 1 :])
    length = max(1, elements // rest)
    for start in range(0, box[outer], length):
        corner, shape = [0] * len(box), list(box)
        corner[outer], shape[outer] = start, min(length, box[outer] - start)
        yield corner, shape


def put_together(boxes: Sequence[Array], counts: Sequence[int]) -> Array:
    """The same of single boxes."""
    cut = [dimension for dimension, count in enumerate(counts) if count > 1]
    if len(cut) == 1 and cut[0] > 0 and math.prod(boxes[0].shape[cut[0] :]) * boxes[0].dtype.itemsize >= LONG_RUN_BYTES:
        return lax.concatenate(boxes, cut[0])
    return joined(jnp.stack(boxes), counts)


def zero_after(array: Array) -> Array:
    """0, which XLA does not know before it has the array."""
    first = array[(slice(0, 1),) * array.ndim].reshape(())
    if jnp.issubdtype(first.dtype, jnp.complexfloating):
        first = first.real
    bits = (
        lax.bitcast_convert_type(first, jnp.dtype(f"uint{8 * first.dtype.itemsize}")) if first.dtype != bool else first
    )
    return lax.shift_right_logical(bits.astype(jnp.int32) & 1, 1)
