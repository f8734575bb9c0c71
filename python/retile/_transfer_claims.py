"""Claims: what ranks add to a transfer, and how the claims of all ranks are compared."""

import dataclasses
import difflib
import functools
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from retile import _retile
from retile._elements import ELEMENT_TYPES
from retile._errors import InputError
from retile._retile import Layout

MOST_TOLD = 20  # the most faults that are reported
SCALES = "_scale_inv"  # suffix of the name of an array of scales, as in checkpoints

# The first elements, and those beyond the last.
Box = tuple[tuple[int, ...], tuple[int, ...]]


# --- Claims of ranks.


@dataclasses.dataclass(frozen=True)
class Claim:
    """The part of an array that a rank has or wants: by a layout of all ranks, a box, or the whole array of a shape."""

    dtype: str  # in messages
    element: str  # retile's name for it, or for a type of the same size
    layout: Layout | None = None
    box: Box | None = None
    shape: tuple[int, ...] | None = None  # of the array; None where it is unknown
    block: tuple[int, ...] | None = None  # of elements of a source that share a scale, by dimension

    def boxes(self, rank: int, is_source: bool) -> list[Box]:
        if self.layout is not None:
            return [box for box, _, _ in parts_in(self.layout, rank, is_source)]
        return [self.box] if self.box is not None else [((0,) * len(self.shape), self.shape)]


@functools.lru_cache(maxsize=4096)
def parts_in(
    layout: Layout, rank: int, is_source: bool, strides: tuple[int, ...] = (), itemsize: int = 1
) -> list[tuple[Box, int, tuple[int, ...]]]:
    """The boxes of a rank's tile, each with the bytes before it in memory and its strides. A source has no ghost zones.
    Without strides the tile is packed."""
    if rank >= layout.device_count:
        return []
    parts = _retile.parts_of_tile(layout, rank, is_source, strides, itemsize)
    return [((tuple(lo), tuple(hi)), offset, tuple(own)) for (lo, hi), offset, own in parts]


@functools.cache
def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@dataclasses.dataclass(frozen=True)
class Memory:
    """An array of a framework as it lies in memory."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    dtype: Any
    itemsize: int

    @property
    def dtype_name(self) -> str:
        return name_of(self.dtype)

    @property
    def is_packed(self) -> bool:
        return _are_packed(self.shape, self.strides, self.itemsize)


@functools.lru_cache(maxsize=4096)
def _are_packed(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether elements of this size lie in row-major order without gaps."""
    step = itemsize
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != step:
            return 0 in shape
        step *= length
    return True


@dataclasses.dataclass(frozen=True)
class Tile:
    """Memory of this rank for what it claims."""

    name: str
    claim: Claim
    array: Any
    memory: Memory  # the transfer's own where there is no array
    is_target: bool
    scales: _retile.BlockScales | None = None

    def parts(self, rank: int) -> list[tuple[Box, int, tuple[int, ...]]]:
        """The boxes, each with the bytes before it in memory and its strides (none: packed)."""
        strides = () if self.memory.is_packed else self.memory.strides
        if self.claim.layout is not None:
            return parts_in(self.claim.layout, rank, not self.is_target, strides, self.memory.itemsize)
        return [(box, 0, strides) for box in self.claim.boxes(rank, not self.is_target)]

    def values(self, number: int, address: int, rank: int) -> list[tuple[Any, ...]]:
        """The values that the library takes, for each box."""
        is_converted = self.claim.dtype != self.memory.dtype_name
        stored = ELEMENT_TYPES[self.memory.dtype_name] if is_converted else None
        return [
            (number, self.is_target, address + offset, strides, box, stored, self.scales)
            for box, offset, strides in self.parts(rank)
        ]

    def measure(self, address: int, rank: int) -> None:
        [(_, offset, strides)] = self.parts(rank)
        self.scales.measure(address + offset, strides, ELEMENT_TYPES[self.memory.dtype_name])


@dataclasses.dataclass(frozen=True)
class Declaration:
    """The claims of a rank, for the others. Many arrays have one claim, which is sent once. Many ranks have the same
    arrays, which are one text: a million names that ranks send each other are parsed only where they differ."""

    claims: list[Claim]
    arrays: str  # JSON: names, and the number of each one's claim

    def named_claims(self) -> Iterator[tuple[str, int]]:
        return zip(*json.loads(self.arrays), strict=True)


def declaration_of(tiles: Iterable[Tile]) -> Declaration:
    claims: dict[Claim, int] = {}
    names, numbers = [], []
    for tile in tiles:
        names.append(tile.name)
        numbers.append(claims.setdefault(tile.claim, len(claims)))
    return Declaration(list(claims), json.dumps((names, numbers)))


def _corners_of(box: Any) -> Box:
    """The corners of a box that is given as slices or pairs, one for each dimension. Raises where it is no box."""
    try:
        if any(isinstance(one, slice) and one.step not in (None, 1) for one in box):
            raise ValueError
        pairs = [(one.start, one.stop) if isinstance(one, slice) else tuple(one) for one in box]
        return tuple(int(lo) for lo, _ in pairs), tuple(int(hi) for _, hi in pairs)
    except (TypeError, ValueError):
        raise InputError(f"box is a pair (first, beyond the last) for each dimension, not {box!r}") from None


def box_of(box: Any, shape: Sequence[int]) -> Box:
    """The box that memory of this shape is for."""
    corners = _corners_of(box)
    if tuple(hi - lo for lo, hi in zip(*corners, strict=True)) != tuple(shape) or min(corners[0], default=0) < 0:
        raise InputError(f"memory of shape {list(shape)} is no room for box {text_of(corners)}")
    return corners


def box_within(box: Any, shape: Sequence[int]) -> Box:
    """A box of an array of this shape. Slices without steps count as in indexing."""
    if isinstance(box, Sequence) and len(box) == len(shape):
        sides = zip(box, shape, strict=True)
        box = tuple(
            slice(*one.indices(length)[:2]) if isinstance(one, slice) and one.step is None else one
            for one, length in sides
        )
    corners = _corners_of(box)
    if len(corners[0]) != len(shape) or any(
        not 0 <= lo <= hi <= length for lo, hi, length in zip(*corners, shape, strict=False)
    ):
        raise InputError(f"{text_of(corners)} is no box of an array of {list(shape)}")
    return corners


def blocks_of(box: Box, block: Sequence[int]) -> Box:
    """The blocks that a box touches, as a box of the array of all blocks."""
    return tuple(lo // one for lo, one in zip(box[0], block, strict=True)), block_counts(box[1], block)


def block_counts(shape: Sequence[int], block: Sequence[int]) -> tuple[int, ...]:
    return tuple(-(-length // one) for length, one in zip(shape, block, strict=True))


def shared_box(a: Box, b: Box) -> Box | None:
    lo, hi = tuple(map(max, a[0], b[0])), tuple(map(min, a[1], b[1]))
    return (lo, hi) if all(first < last for first, last in zip(lo, hi, strict=True)) else None


def text_of(box: tuple[Sequence[int], Sequence[int]]) -> str:
    return "[" + ", ".join(f"{lo}:{hi}" for lo, hi in zip(*box, strict=True)) + "]"


def own_memory(address: int, box: Box) -> Memory:
    """Memory of the transfer's own with an f32 element for each element of a box."""
    shape = tuple(hi - lo for lo, hi in zip(*box, strict=True))
    strides = tuple(4 * math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return Memory(address, shape, strides, "float32", 4)


# --- Comparison of what all ranks have and want.


def _ranks_text(ranks: Sequence[int]) -> str:
    """A text such as "rank 3", "ranks 0, 1 and 4"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def require(faults: Iterable[str]) -> None:
    listed = list(dict.fromkeys(faults))
    if len(listed) > MOST_TOLD:
        listed[MOST_TOLD:] = [f"and {len(listed) - MOST_TOLD} more"]
    if listed:
        raise InputError("\n".join(listed))


# The ranks that have or want parts of an array, ascending, each with the number of its claim.
Holders = tuple[tuple[int, int], ...]


class Comparison:
    """The arrays that all ranks have and want: their faults, and their kinds."""

    def __init__(self, sources: Sequence[Declaration], targets: Sequence[Declaration]):
        self.ranks = len(sources)
        self._numbers: dict[Claim, int] = {}
        self.sources, self.targets = self._by_name(sources), self._by_name(targets)
        self.claims = list(self._numbers)
        self.faults: list[str] = []
        self.kinds: list[tuple[Any, ...]] = []
        self.arrays: list[tuple[str, int]] = []
        self._compare()

    def _by_name(self, declarations: Sequence[Declaration]) -> dict[str, Holders]:
        """The holders of each array. Ranks that declare the same arrays are processed together, and arrays that ranks
        hold alike share one value: objects and time grow with the kinds of arrays, apart from one lookup for each
        name."""
        members: dict[str, list[int]] = {}
        for rank, declaration in enumerate(declarations):
            members.setdefault(declaration.arrays, []).append(rank)
        values: list[Holders] = [()]
        found: dict[str, int] = {}  # by name: index into values
        for ranks in members.values():
            claims = [
                self._holders(ranks, same) for same in zip(*(declarations[rank].claims for rank in ranks), strict=True)
            ]
            known: dict[tuple[int, int], int] = {}  # by the previous value and the claim
            for name, claim in declarations[ranks[0]].named_claims():
                step = found.get(name, 0), claim
                if step not in known:
                    known[step] = len(values)
                    values.append(tuple(sorted(values[step[0]] + claims[claim])))
                found[name] = known[step]
        return {name: values[number] for name, number in found.items()}

    def _holders(self, ranks: Sequence[int], claims: Sequence[Claim]) -> Holders:
        numbers = (self._numbers.setdefault(claim, len(self._numbers)) for claim in claims)
        return tuple(zip(ranks, numbers, strict=True))

    def _compare(self) -> None:
        known: dict[tuple[Holders, Holders], int | list[str]] = {}  # the number of the kind, or its faults
        for name in self.targets:
            if name not in self.sources:
                near = difflib.get_close_matches(name, self.sources, 1)
                hint = f': did you mean "{near[0]}"?' if near else ""
                ranks = sorted({rank for rank, _ in self.targets[name]})
                verb = "wants" if len(ranks) == 1 else "want"
                self.faults.append(f'"{name}": {_ranks_text(ranks)} {verb} it, and no rank has it{hint}')
        for name, holders in self.sources.items():
            if name not in self.targets:
                continue
            sides = holders, self.targets[name]
            if sides not in known:
                known[sides] = self._kind_of(*sides)
            found = known[sides]
            if isinstance(found, int):
                self.arrays.append((name, found))
            else:
                self.faults += [f'"{name}": {fault}' for fault in found]

    def _kind_of(self, *sides: Holders) -> int | list[str]:
        ends = [[(rank, self.claims[number]) for rank, number in holders] for holders in sides]
        faults = self._type_faults(*ends)
        shapes = {
            claim.shape: rank for side in reversed(ends) for rank, claim in reversed(side) if claim.shape is not None
        }
        if len(shapes) > 1:
            ranks = [f"{list(shape)} on rank {rank}" for shape, rank in sorted(shapes.items(), key=lambda one: one[1])]
            faults.append("ranks say that it has different shapes: " + ", ".join(ranks))
        ranks = {len(box[0]) for side in ends for rank, claim in side for box in claim.boxes(rank, side is ends[0])}
        if len(ranks) > 1:
            faults.append(f"ranks say that it has {' and '.join(map(str, sorted(ranks)))} dimensions")
        if faults:
            return faults
        shape = next(iter(shapes)) if shapes else _shape_of(ends[0])
        layouts = [self._layout_of(side, shape, faults, side is ends[0]) for side in ends]
        if faults:
            return faults
        self.kinds.append((list(shape), ends[0][0][1].element, *layouts))
        return len(self.kinds) - 1

    def scaled(self) -> dict[str, Holders]:
        """The holders of arrays that are scaled in blocks and wanted, or whose scales are wanted."""
        return {
            name: holders
            for name, holders in self.sources.items()
            if self.claims[holders[0][1]].block and not self.targets.keys().isdisjoint((name, name + SCALES))
        }

    def maxima_kind(self, holders: Holders) -> tuple[Any, ...] | None:
        """The kind of what holders of an array tell each other before it is scaled: the maxima of the blocks that they
        share with others. Its array has those of each of the boxes that the array is cut into. None where no block is
        cut."""
        block = self.claims[holders[0][1]].block
        own = [
            (rank, box)
            for rank, number in holders
            for box in self.claims[number].boxes(rank, is_source=True)
            if shared_box(box, box)
        ]
        blocks = dict(sorted(((box, blocks_of(box, block)) for _, box in own), key=lambda one: one[1]))
        numbers = {box: number for number, box in enumerate(blocks)}
        wanted: dict[Box, list[Box]] = {box: [] for box in blocks}
        for number, box in enumerate(blocks):
            for after in itertools.islice(blocks, number + 1, None):
                if blocks[after][0][0] >= blocks[box][1][0]:
                    break  # all that follow do so, too
                if (shared := shared_box(blocks[box], blocks[after])) is not None:
                    wanted[box].append(_stacked(numbers[after], shared))
                    wanted[after].append(_stacked(number, shared))
        if not any(wanted.values()):
            return None
        sides: tuple[list[Any], list[Any]] = [[] for _ in range(self.ranks)], [[] for _ in range(self.ranks)]
        for rank, box in own:
            sides[0][rank].append(_stacked(numbers[box], blocks[box]))
            sides[1][rank] += wanted[box]
        shape = [len(blocks), *map(max, zip(*(hi for _, hi in blocks.values()), strict=True))]
        return shape, "f32", *sides, None

    @staticmethod
    def _type_faults(sources: list[tuple[int, Claim]], targets: list[tuple[int, Claim]]) -> list[str]:
        blocks = {claim.block: rank for rank, claim in reversed(sources)}
        if len(blocks) > 1:
            listed = [
                f"{block or 'none'} on rank {rank}" for block, rank in sorted(blocks.items(), key=lambda one: one[1])
            ]
            return ["it is scaled in different blocks: " + ", ".join(listed)]
        types = {claim.dtype: rank for rank, claim in reversed(sources)}
        if len(types) > 1:
            listed = [f"{dtype} from rank {rank}" for dtype, rank in sorted(types.items(), key=lambda one: one[1])]
            return ["it is sent in different types: " + ", ".join(listed)]
        sent, sender = next(iter(types.items()))
        other = [(rank, claim.dtype) for rank, claim in targets if claim.dtype != sent]
        if not other:
            return []
        return [
            f"rank {sender} sends {sent}, and rank {other[0][0]} wants {other[0][1]}\n"
            "hint: add_sources(…, dtype=…) converts while it packs"
        ]

    def _layout_of(
        self, side: list[tuple[int, Claim]], shape: tuple[int, ...], faults: list[str], is_source: bool
    ) -> Any:
        """The layout that all ranks agree on, or the boxes of each rank."""
        word = "has" if is_source else "wants"
        layout = side[0][1].layout
        tiles = [(rank, claim.layout) for rank, claim in side if claim.layout is not None]
        twice = next((rank for i, (rank, claimed) in enumerate(tiles) if (rank, claimed) in tiles[:i]), None)
        if twice is not None:
            faults.append(f"rank {twice} {word} its tile of the layout {dict(tiles)[twice]} twice")
        for claimed in {claim.layout: None for _, claim in side if claim.layout is not None}:
            if claimed.device_count > self.ranks:
                faults.append(f"a layout is of {claimed.device_count} devices, and there are {self.ranks} ranks")
                return None
            there = {rank for rank, claim in side if claim.layout == claimed}
            missing = [rank for rank in range(self.ranks) if rank not in there and parts_in(claimed, rank, is_source)]
            if missing:
                faults.append(f"{_ranks_text(missing)} did not add a tile, which the layout {claimed} gives")
        if faults:
            return None
        if layout is not None and all(claim.layout == layout for _, claim in side):
            return layout
        boxes: list[list[Any]] = [[] for _ in range(self.ranks)]
        for rank, claim in side:
            boxes[rank] += claim.boxes(rank, is_source)
        for rank, own in enumerate(boxes):
            twice = next((box for i, box in enumerate(own) if box in own[:i]), None)
            if twice is not None:
                faults.append(f"rank {rank} {word} {text_of(twice)} twice")
            for box in own:
                if any(hi > length for hi, length in zip(box[1], shape, strict=True)):
                    faults.append(f"rank {rank} {word} {text_of(box)} of an array of {list(shape)}")
        return boxes


def _stacked(number: int, box: Box) -> Box:
    """A box in the array of the maxima of so many boxes."""
    return (number, *box[0]), (number + 1, *box[1])


def catalogue_of(declarations: Sequence[Declaration]) -> list[tuple[str, tuple[int, ...], str]]:
    """The arrays that ranks have: names, shapes and types. Comparison reports what ranks disagree on."""
    claims: dict[str, list[tuple[int, Claim]]] = {}
    for rank, declaration in enumerate(declarations):
        for name, number in declaration.named_claims():
            claims.setdefault(name, []).append((rank, declaration.claims[number]))
    return [(name, _shape_of(held), held[0][1].dtype) for name, held in claims.items()]


def _shape_of(side: Sequence[tuple[int, Claim]]) -> tuple[int, ...]:
    """The shape that a claim states, or that of the smallest array that contains all boxes."""
    said = next((claim.shape for _, claim in side if claim.shape is not None), None)
    if said is not None:
        return said
    corners = [claim.box[1] for _, claim in side]
    return tuple(map(max, zip(*corners, strict=True)))
