"""Batches of boxes that are moved between devices of JAX: what `retile.jax.Transfer` consists of.

The library says what devices send each other, as rounds of equal boxes. Boxes of all arrays that go from the same
senders to the same receivers form one message. A batch is as many boxes as the cap allows. It is moved by three
programs: devices that hold the arrays cut boxes and pack them into messages, all devices of both sides permute the
messages, and devices that want the arrays put the boxes in their places. So no device needs to be on both sides: one
without a message to give, or to keep, uses zeros. Processes take part in the programs of their devices.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from retile import _retile
from retile._errors import InputError

NOBODY = -1
AXIS = "devices"

Shape = tuple[int, ...]
# The devices that hold an array, ascending, as numbers in the order of all devices of a transfer.
Side = tuple[int, ...]


# --- What is moved.


@dataclasses.dataclass(frozen=True)
class Kind:
    """What many arrays have in common: shape, element type and shardings."""

    shape: Shape
    dtype: Any
    source: Any  # shardings
    target: Any

    @property
    def tiles(self) -> tuple[Shape, Shape]:
        """The shapes of the tiles of source and target."""
        return tuple(tuple(side.shard_shape(self.shape)) for side in (self.source, self.target))


@dataclasses.dataclass(frozen=True)
class Message:
    """A message from devices of one side to devices of the other: boxes of one element type, one after the other."""

    dtype: Any
    # By receiver among the devices of the transfer; NOBODY where there is none. None: every device keeps its own.
    senders: tuple[int, ...] | None

    @property
    def is_kept(self) -> bool:
        return self.senders is None

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of sender and receiver."""
        return [(sender, receiver) for receiver, sender in enumerate(self.senders or ()) if sender != NOBODY]


@dataclasses.dataclass(frozen=True)
class Box:
    """A box of an array, from every sender of its message to the receiver. Corners are by device of the transfer."""

    array: int
    shape: Shape
    message: Message
    taken_from: tuple[Shape, ...]
    written_to: tuple[Shape, ...]
    receives: tuple[bool, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.message.dtype.itemsize

    @property
    def staged(self) -> int:
        """Bytes staged: once for the message sent, once for the one received; a kept box counts once."""
        return self.bytes if self.message.is_kept else 2 * self.bytes


@dataclasses.dataclass(frozen=True)
class Movement:
    """How the arrays of a kind are moved."""

    sides: tuple[Side, Side]
    rounds: Any  # of the library; None where the array is empty
    is_there: bool  # every device that wants a tile already has it


class Devices:
    """The devices of both sides of a transfer, which it numbers."""

    def __init__(self, shardings: Iterable[Any]):
        found = {device for sharding in shardings for device in sharding.device_set}
        self.all = sorted(found, key=lambda device: device.id)
        self.numbers = {device: number for number, device in enumerate(self.all)}
        self._meshes: dict[Side, Mesh] = {}

    def mesh(self, side: Side) -> Mesh:
        if side not in self._meshes:
            self._meshes[side] = Mesh(np.array([self.all[number] for number in side]), (AXIS,))
        return self._meshes[side]

    def is_here(self, number: int) -> bool:
        return self.all[number].process_index == jax.process_index()

    def here(self, side: Side) -> list[int]:
        return [number for number in side if self.is_here(number)]

    def movement(self, kind: Kind) -> Movement:
        """The movement of a kind. Raises where tiles are not equally large."""
        boxes = [self._boxes(side, kind.shape) for side in (kind.source, kind.target)]
        sides = tuple(tuple(number for number, own in enumerate(one) if own) for one in boxes)
        if 0 in kind.shape:
            return Movement(sides, None, True)
        rounds = _retile.partial_rounds(list(kind.shape), *boxes, len(self.all))
        if rounds is None:
            raise InputError(f"{list(kind.shape)} is not cut evenly")
        is_there = not rounds.exchanged and len(set(kind.tiles)) == 1
        return Movement(sides, rounds, is_there)

    def _boxes(self, sharding: Any, shape: Shape) -> list[list[tuple[list[int], list[int]]]]:
        """The boxes of each device: one, or none."""
        boxes: list[list[Any]] = [[] for _ in self.all]
        for device, index in sharding.devices_indices_map(shape).items():
            bounds = [one.indices(length)[:2] for one, length in zip(index, shape, strict=True)]
            boxes[self.numbers[device]] = [([lo for lo, _ in bounds], [hi for _, hi in bounds])]
        return boxes

    def tiles(self, array: Any) -> dict[int, Any]:
        """The tiles on this process's devices, by device."""
        shards = getattr(array, "addressable_shards", ())
        return {self.numbers[shard.device]: shard.data for shard in shards}

    def rows(self, side: Side, tile: Shape, dtype: Any, tiles: dict[int, Any]) -> Any:
        """The tiles, one after the other, as an array on the devices of a side. A scalar is the same on all of them."""
        own = [tiles[number] for number in self.here(side)]
        one = self.row_type(side, tile, dtype)
        return jax.make_array_from_single_device_arrays(one.shape, one.sharding, own, dtype=dtype)

    def row_type(self, side: Side, tile: Shape, dtype: Any) -> jax.ShapeDtypeStruct:
        shape = (len(side) * tile[0], *tile[1:]) if tile else ()
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(self.mesh(side), spec_of(tile)))

    def table(self, side: Side, rows: np.ndarray) -> Any:
        """An array with a row for each device of a side; None where this process has none of them."""
        tiles = {
            number: jax.device_put(rows[place : place + 1], self.all[number])
            for place, number in enumerate(side)
            if self.is_here(number)
        }
        return self.rows(side, (1, *rows.shape[1:]), rows.dtype, tiles) if tiles else None


def spec_of(tile: Shape) -> PartitionSpec:
    return PartitionSpec(AXIS) if tile else PartitionSpec()


def boxes_of(array: int, kind: Kind, movement: Movement, most_bytes: int) -> Iterator[Box]:
    """The boxes of an array, each of at most so many bytes, but at least one row."""
    for is_kept, rounds in ((True, movement.rounds.own), (False, movement.rounds.exchanged)):
        for round_ in rounds:
            yield from boxes_in(array, kind, movement, round_, is_kept, most_bytes)


def boxes_in(array: int, kind: Kind, movement: Movement, round_: Any, is_kept: bool, most_bytes: int) -> Iterator[Box]:
    message = Message(kind.dtype, None if is_kept else tuple(round_.senders))
    receives = tuple(sender != NOBODY for sender in round_.senders)
    for corner, shape in parts_of(tuple(movement.rounds.cell), most_bytes // kind.dtype.itemsize):
        taken, written = (
            tuple(shifted(one, corner) for one in corners) for corners in (round_.taken_from, round_.written_to)
        )
        yield Box(array, shape, message, taken, written, receives)


def parts_of(box: Shape, most: int) -> Iterator[tuple[Shape, Shape]]:
    """Corners and shapes of the box's parts, of at most so many elements, along the first dimension that can be cut."""
    outer = next((i for i, length in enumerate(box) if length > 1), None)
    if outer is None or math.prod(box) <= most:
        yield (0,) * len(box), box
        return
    step = max(1, most // (math.prod(box) // box[outer]))
    for start in range(0, box[outer], step):
        corner = tuple(start if i == outer else 0 for i in range(len(box)))
        length = min(step, box[outer] - start)
        yield corner, tuple(length if i == outer else one for i, one in enumerate(box))


def shifted(corner: Sequence[int], by: Shape) -> Shape:
    return tuple(a + b for a, b in zip(corner, by, strict=True))


# --- Programs. All that they depend on is in their arguments, so that equal batches share one.


@dataclasses.dataclass(frozen=True)
class Slot:
    """A box in a program: the tile that it belongs to, and the message that it is in."""

    tile: int
    shape: Shape
    message: int
    is_partial: bool  # some target devices do not receive it


def per_device(function: Callable, mesh: Mesh, arguments: Any, results: Any, donated: Any = ()) -> Any:
    """The function, compiled to run on each device. Arguments and results are trees of types of rows."""
    specs = jax.tree.map(lambda one: one.sharding.spec, (arguments, results))
    mapped = jax.shard_map(function, mesh=mesh, in_specs=specs[0], out_specs=specs[1], check_vma=False)

    def run(*rows: Any) -> Any:
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):  # it need not be the caller's mesh
            return mapped(*rows)

    return jax.jit(run, donate_argnums=donated).lower(*arguments).compile()


def cut_program(mesh: Mesh, slots: Sequence[Slot], arguments: Any, results: Any) -> Any:
    def cut(tiles: list[Any], corners: Any) -> list[Any]:
        messages: list[list[Any]] = [[] for _ in results]
        for number, slot in enumerate(slots):
            corner = tuple(corners[0, number, : len(slot.shape)])
            box = lax.dynamic_slice(tiles[slot.tile], corner, slot.shape).reshape(-1)
            messages[slot.message].append(box)
        return [jnp.concatenate(boxes) for boxes in messages]

    return per_device(cut, mesh, arguments, results)


def permute_program(mesh: Mesh, pairs: Sequence[Sequence[tuple[int, int]]], messages: Any) -> Any:
    def permute(messages: list[Any]) -> list[Any]:
        return [lax.ppermute(message, AXIS, one) for message, one in zip(messages, pairs, strict=True)]

    return per_device(permute, mesh, (messages,), messages)


def put_program(mesh: Mesh, slots: Sequence[Slot], types: Sequence[Any], arguments: Any, results: Any) -> Any:
    """Puts boxes of messages into tiles. `types` are shapes and element types of tiles. The arguments are messages;
    tiles that were begun, by number; and corners, each followed by whether a device receives the box."""

    def put(messages: list[Any], begun: dict[int, Any], corners: Any) -> list[Any]:
        tiles, taken = dict(begun), [0] * len(messages)
        for number, slot in enumerate(slots):
            message, size = messages[slot.message], math.prod(slot.shape)
            start = taken[slot.message]
            taken[slot.message] += size
            box = lax.slice(message, (start,), (start + size,)).reshape(slot.shape)
            shape, dtype = types[slot.tile]
            if slot.shape == shape and not slot.is_partial:
                tiles[slot.tile] = box
                continue
            tile = tiles[slot.tile] if slot.tile in tiles else jnp.zeros(shape, dtype)
            corner = tuple(corners[0, number, : len(slot.shape)])
            if slot.is_partial:
                box = jnp.where(corners[0, number, -1] == 1, box, lax.dynamic_slice(tile, corner, slot.shape))
            tiles[slot.tile] = lax.dynamic_update_slice(tile, box, corner)
        return [tiles[number] for number in range(len(types))]

    return per_device(put, mesh, arguments, results, donated=(1,))


# --- Batches.


class Batch:
    """Boxes that are on their way at once, from devices of one side to those of the other, and the programs that move
    them."""

    def __init__(
        self, devices: Devices, sides: tuple[Side, Side], boxes: list[Box], kinds: Sequence[Kind], begun: set[int]
    ):
        """`kinds` are those of all arrays of the transfer, `begun` the arrays of which some boxes were put before."""
        self.sides, self.boxes = sides, boxes
        self.arrays = list(dict.fromkeys(box.array for box in boxes))
        self.begun = [place for place, array in enumerate(self.arrays) if array in begun]
        self.messages = list(dict.fromkeys(box.message for box in boxes))
        self.lengths = [sum(math.prod(box.shape) for box in boxes if box.message == one) for one in self.messages]
        self.union = tuple(sorted({*sides[0], *sides[1]}))
        self._devices, self._kinds = devices, [kinds[array] for array in self.arrays]

    def types(self, side: Side, which: Sequence[int]) -> list[Any]:
        """The types of messages on the devices of a side."""
        return [self._devices.row_type(side, (self.lengths[i],), self.messages[i].dtype) for i in which]

    @property
    def sent(self) -> list[int]:
        """The messages that are sent, not kept."""
        return [number for number, message in enumerate(self.messages) if not message.is_kept]

    def slots(self) -> tuple[Slot, ...]:
        places = {array: place for place, array in enumerate(self.arrays)}
        numbers = {message: number for number, message in enumerate(self.messages)}
        return tuple(
            Slot(
                places[box.array],
                box.shape,
                numbers[box.message],
                not all(box.receives[number] for number in self.sides[1]),
            )
            for box in self.boxes
        )

    def corners(self, which: int) -> np.ndarray:
        """By device of a side (0: where boxes are taken from, 1: where they go) and box: the box's corner, followed by
        whether the device receives it."""
        side = self.sides[which]
        width = max(len(box.shape) for box in self.boxes) + 1
        table = np.zeros((len(side), len(self.boxes), width), np.int32)
        for number, box in enumerate(self.boxes):
            corners = box.written_to if which else box.taken_from
            for place, device in enumerate(side):
                table[place, number, : len(box.shape)] = corners[device]
                table[place, number, -1] = box.receives[device]
        return table

    def compile(self, known: dict[Any, Any]) -> None:
        """Compiles the programs; those that are known are reused."""
        sources, targets = self.sides
        slots, every = self.slots(), range(len(self.messages))
        tiles = [tuple((kind.tiles[side], kind.dtype) for kind in self._kinds) for side in (0, 1)]
        messages = tuple((message.dtype, length) for message, length in zip(self.messages, self.lengths, strict=True))
        width = max(len(box.shape) for box in self.boxes) + 1

        def rows(side: int) -> list[Any]:
            return [self._devices.row_type(self.sides[side], *one) for one in tiles[side]]

        def table(side: int) -> Any:
            return self._devices.row_type(self.sides[side], (1, len(self.boxes), width), np.int32)

        def found(key: Any, side: Side, make: Callable[[Mesh], Any]) -> Any:
            if not self._devices.here(side):
                return None
            if key not in known:
                known[key] = make(self._devices.mesh(side))
            return known[key]

        self.cut = found(
            ("cut", sources, slots, tiles[0], messages),
            sources,
            lambda mesh: cut_program(mesh, slots, (rows(0), table(0)), self.types(sources, every)),
        )
        places = {number: place for place, number in enumerate(self.union)}
        pairs = tuple(
            tuple((places[sender], places[receiver]) for sender, receiver in self.messages[number].pairs)
            for number in self.sent
        )
        self.permute = None
        if pairs:
            self.permute = found(
                ("permute", self.union, pairs, tuple(messages[number] for number in self.sent)),
                self.union,
                lambda mesh: permute_program(mesh, pairs, self.types(self.union, self.sent)),
            )
        begun = {place: rows(1)[place] for place in self.begun}
        self.put = found(
            ("put", targets, slots, tiles[1], messages, tuple(self.begun)),
            targets,
            lambda mesh: put_program(mesh, slots, tiles[1], (self.types(targets, every), begun, table(1)), rows(1)),
        )

    def prepare(self) -> None:
        """Puts corners on the devices, ready for calls."""
        self._tables = tuple(self._devices.table(side, self.corners(which)) for which, side in enumerate(self.sides))

    def staged_bytes(self) -> int:
        """The bytes that a device holds for this batch beside tiles: messages, and what programs hold as XLA counts
        it."""
        held = [length * message.dtype.itemsize for length, message in zip(self.lengths, self.messages, strict=True)]
        sent, kept = sum(held[number] for number in self.sent), sum(held)
        kept -= sent
        programs = ((self.cut, sent + kept), (self.permute, 2 * sent + kept), (self.put, sent + kept))
        temporaries = (beside + one.memory_analysis().temp_size_in_bytes if one else 0 for one, beside in programs)
        return max(*temporaries, 2 * sent + kept)

    def run(self, arrays: Sequence[Any], targets: dict[int, Any], zeros: "Zeros") -> None:
        """Moves the boxes. `arrays` are all of the transfer's; `targets` has their rows so far."""
        devices, (sources, wanted) = self._devices, self.sides
        messages: list[dict[int, Any]] = [{} for _ in self.messages]
        if self.cut:
            rows = [
                devices.rows(sources, kind.tiles[0], kind.dtype, devices.tiles(arrays[array]))
                for array, kind in zip(self.arrays, self._kinds, strict=True)
            ]
            messages = [devices.tiles(one) for one in self.cut(rows, self._tables[0])]
        if self.permute:
            given = self._as_rows(self.union, self.sent, messages, zeros)
            for number, one in zip(self.sent, self.permute(given), strict=True):
                messages[number] = devices.tiles(one)
        if self.put:
            given = self._as_rows(wanted, range(len(messages)), messages, zeros)
            begun = {place: targets[self.arrays[place]] for place in self.begun}
            put = self.put(given, begun, self._tables[1])
            targets.update(zip(self.arrays, put, strict=True))
            jax.block_until_ready(put)
        elif self.cut or self.permute:
            jax.block_until_ready([one for message in messages for one in message.values()])

    def _as_rows(self, side: Side, which: Iterable[int], messages: list[dict[int, Any]], zeros: "Zeros") -> list[Any]:
        """Messages on all devices of a side; devices that have none get zeros."""
        rows = []
        for number in which:
            length, dtype = self.lengths[number], self.messages[number].dtype
            own = messages[number]
            tiles = {one: own[one] if one in own else zeros.on(one, length, dtype) for one in self._devices.here(side)}
            rows.append(self._devices.rows(side, (length,), dtype, tiles))
        return rows


class Zeros:
    """Messages for devices that have none. Kept from one batch to the next, which often needs the same."""

    def __init__(self, devices: Devices):
        self._devices = devices
        self._before: dict[Any, Any] = {}
        self._now: dict[Any, Any] = {}

    def on(self, number: int, length: int, dtype: Any) -> Any:
        key = number, length, dtype
        if key not in self._now:
            made = self._before.get(key)
            device = self._devices.all[number]
            self._now[key] = jnp.zeros(length, dtype, device=device) if made is None else made
        return self._now[key]

    def end_batch(self) -> None:
        self._before, self._now = self._now, {}


def batch_of_a_row(devices: Devices, kinds: Sequence[Kind], movements: Sequence[Movement], array: int) -> Batch:
    """A batch of one box of an array that cannot be cut: one that is sent, if any is, into a tile that was begun."""
    kind, movement = kinds[array], movements[array]
    sent = max(movement.rounds.exchanged, key=lambda one: one.senders.count(NOBODY), default=None)
    box = next(boxes_in(array, kind, movement, sent or movement.rounds.own[0], sent is None, 0))
    return Batch(devices, movement.sides, [box], kinds, {array})


def batches_of(
    devices: Devices, kinds: Sequence[Kind], movements: Sequence[Movement], order: Sequence[int], most_bytes: int
) -> list[Batch]:
    """The boxes of arrays, in this order, in batches that stage at most so many bytes, but have at least one box. An
    array that fits into one batch is in one."""
    batches: list[Batch] = []
    begun: set[int] = set()
    boxes: list[Box] = []
    staged = 0

    def close() -> None:
        nonlocal boxes, staged
        if boxes:
            batches.append(Batch(devices, movements[boxes[0].array].sides, boxes, kinds, begun))
            begun.update(box.array for box in boxes)
        boxes, staged = [], 0

    for array in order:
        own = list(boxes_of(array, kinds[array], movements[array], most_bytes // 2))
        total = sum(box.staged for box in own)
        sides = movements[array].sides
        if boxes and (movements[boxes[0].array].sides != sides or staged + min(total, most_bytes) > most_bytes):
            close()
        for box in own:
            if staged + box.staged > most_bytes:
                close()
            boxes.append(box)
            staged += box.staged
    close()
    return batches
