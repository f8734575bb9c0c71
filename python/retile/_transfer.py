"""Whole models between the ranks of a group: what the transfers of NumPy's and PyTorch's arrays have in common.

Plans, packing and checks are the library's. Here ranks tell each other what they have and want, and carry the messages.
"""

import dataclasses
import difflib
import functools
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from retile import _retile
from retile._elements import ELEMENT_TYPES, element_type
from retile._errors import InputError
from retile._retile import Layout, MessagePlan

MOST_MESSAGE_BYTES = 4 << 20  # longer ones are no faster over gloo, and stage more
MOST_TOLD = 20  # faults
FLOATING = {"float16", "bfloat16", "float32", "float64"}  # which are converted into each other
_abandoned: list[Any] = []  # transfers whose group failed, and may still write to their staging


class Group(Protocol):
    """Ranks that send each other messages. Those between two ranks arrive in their order."""

    rank: int
    size: int

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, on all ranks."""

    def most(self, number: int) -> int:
        """The largest number that a rank gives."""

    def send(self, message: memoryview, peer: int) -> Any:
        """Starts to send; the result has wait()."""

    def receive(self, message: memoryview, peer: int) -> Any:
        """Starts to receive a message that is at most so long; the result has wait()."""


# --- What ranks add.


@dataclasses.dataclass(frozen=True)
class Claim:
    """Which part of an array a rank has or wants: by a layout of all ranks, a box, or the whole array of a shape."""

    dtype: str  # as it is sent
    element: str  # the same as retile names it, or another one of that size
    layout: Layout | None = None
    box: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # the first elements, and those beyond the last
    shape: tuple[int, ...] | None = None  # of the array; None where it is not known

    def boxes(self, rank: int) -> list[tuple[Sequence[int], Sequence[int]]]:
        if self.layout is not None:
            return _boxes_in(self.layout, rank)
        return [self.box] if self.box is not None else [((0,) * len(self.shape), self.shape)]


def _boxes_in(layout: Layout, rank: int) -> list[tuple[Sequence[int], Sequence[int]]]:
    return layout.boxes(rank) if rank < layout.device_count else []


@functools.cache
def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@dataclasses.dataclass(frozen=True)
class Memory:
    """An array of some framework as it lies in memory."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    dtype: Any
    itemsize: int

    @property
    def dtype_name(self) -> str:
        return _name_of(self.dtype)

    @property
    def packed_strides(self) -> tuple[int, ...]:
        strides, step = [], self.itemsize
        for length in reversed(self.shape):
            strides.append(step)
            step *= length
        return tuple(reversed(strides))

    @property
    def is_packed(self) -> bool:
        pairs = zip(self.shape, self.strides, self.packed_strides, strict=True)
        return 0 in self.shape or all(length == 1 or stride == packed for length, stride, packed in pairs)


@dataclasses.dataclass(frozen=True)
class Tile:
    """Memory of this rank's for what it claims."""

    name: str
    claim: Claim
    array: Any
    memory: Memory
    is_target: bool

    def values(self, number: int, address: int) -> tuple[Any, ...]:
        """As the library takes them."""
        box = None if self.claim.layout is not None else self.claim.boxes(0)[0]
        strides = () if self.memory.is_packed else self.memory.strides
        is_converted = self.claim.dtype != self.memory.dtype_name
        stored = ELEMENT_TYPES[self.memory.dtype_name] if is_converted else None
        return number, self.is_target, address, strides, box, stored


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What a rank claims, for the others. Many arrays have one claim, which is there once."""

    claims: list[Claim]
    names: list[str]
    numbers: list[int]  # by name: which claim


def declaration_of(tiles: Iterable[Tile]) -> Declaration:
    claims: dict[Claim, int] = {}
    names, numbers = [], []
    for tile in tiles:
        names.append(tile.name)
        numbers.append(claims.setdefault(tile.claim, len(claims)))
    return Declaration(list(claims), names, numbers)


def box_of(box: Any, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The corners of a box that is given as slices or pairs, one for each dimension. Throws where it is none."""
    try:
        pairs = [(one.start, one.stop) if isinstance(one, slice) else tuple(one) for one in box]
        corners = tuple(int(lo) for lo, _ in pairs), tuple(int(hi) for _, hi in pairs)
    except (TypeError, ValueError):
        raise InputError(f"box is a pair (first, beyond the last) for each dimension, not {box!r}") from None
    if tuple(hi - lo for lo, hi in zip(*corners, strict=True)) != tuple(shape) or min(corners[0], default=0) < 0:
        raise InputError(f"memory of shape {list(shape)} is no room for box {_text_of(corners)}")
    return corners


def _text_of(box: tuple[Sequence[int], Sequence[int]]) -> str:
    return "[" + ", ".join(f"{lo}:{hi}" for lo, hi in zip(*box, strict=True)) + "]"


# --- What all ranks have and want, compared.


def _ranks_text(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 0, 1 and 4"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def require(faults: Iterable[str]) -> None:
    listed = list(dict.fromkeys(faults))
    if len(listed) > MOST_TOLD:
        listed[MOST_TOLD:] = [f"and {len(listed) - MOST_TOLD} more"]
    if listed:
        raise InputError("\n".join(listed))


# Who has, or wants, which part of an array: ranks, ascending, and numbers of claims.
Holders = tuple[tuple[int, int], ...]


class _Comparison:
    """The arrays that all ranks have and want: what is wrong with them, and their kinds."""

    def __init__(self, sources: Sequence[Declaration], targets: Sequence[Declaration]):
        self.ranks = len(sources)
        self._numbers: dict[Claim, int] = {}
        self.sources, self.targets = self._by_name(sources), self._by_name(targets)
        self.claims = list(self._numbers)
        self.faults: list[str] = []
        self.kinds: list[tuple[Any, ...]] = []
        self.arrays: list[tuple[str, int]] = []
        self._compare()

    def _by_name(self, declarations: Sequence[Declaration]) -> dict[str, list[tuple[int, int]]]:
        by_name: dict[str, list[tuple[int, int]]] = {}
        for rank, declaration in enumerate(declarations):
            holders = [(rank, self._numbers.setdefault(claim, len(self._numbers))) for claim in declaration.claims]
            for name, number in zip(declaration.names, declaration.numbers, strict=True):
                by_name.setdefault(name, []).append(holders[number])
        return by_name

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
            sides = tuple(holders), tuple(self.targets[name])
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
        ranks = {len(box[0]) for side in ends for rank, claim in side for box in claim.boxes(rank)}
        if len(ranks) > 1:
            faults.append(f"ranks say that it has {' and '.join(map(str, sorted(ranks)))} dimensions")
        if faults:
            return faults
        shape = next(iter(shapes)) if shapes else _shape_of(ends[0])
        words = ("has", "wants")
        layouts = [self._layout_of(side, shape, faults, word) for side, word in zip(ends, words, strict=True)]
        if faults:
            return faults
        self.kinds.append((list(shape), ends[0][0][1].element, *layouts))
        return len(self.kinds) - 1

    @staticmethod
    def _type_faults(sources: list[tuple[int, Claim]], targets: list[tuple[int, Claim]]) -> list[str]:
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

    def _layout_of(self, side: list[tuple[int, Claim]], shape: tuple[int, ...], faults: list[str], word: str) -> Any:
        """Of all ranks: the layout that they agree on, or the boxes of each."""
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
            missing = [rank for rank in range(self.ranks) if rank not in there and _boxes_in(claimed, rank)]
            if missing:
                faults.append(f"{_ranks_text(missing)} did not add a tile, which the layout {claimed} gives")
        if faults:
            return None
        if layout is not None and all(claim.layout == layout for _, claim in side):
            return layout
        boxes: list[list[Any]] = [[] for _ in range(self.ranks)]
        for rank, claim in side:
            boxes[rank] += claim.boxes(rank)
        for rank, own in enumerate(boxes):
            twice = next((box for i, box in enumerate(own) if box in own[:i]), None)
            if twice is not None:
                faults.append(f"rank {rank} {word} {_text_of(twice)} twice")
            for box in own:
                if any(hi > length for hi, length in zip(box[1], shape, strict=True)):
                    faults.append(f"rank {rank} {word} {_text_of(box)} of an array of {list(shape)}")
        return boxes


def catalogue_of(declarations: Sequence[Declaration]) -> list[tuple[str, tuple[int, ...], str]]:
    """The arrays that ranks have: names, shapes and types. What ranks disagree on is for _Comparison to tell."""
    claims: dict[str, list[tuple[int, Claim]]] = {}
    for rank, declaration in enumerate(declarations):
        for name, number in zip(declaration.names, declaration.numbers, strict=True):
            claims.setdefault(name, []).append((rank, declaration.claims[number]))
    return [(name, _shape_of(held), held[0][1].dtype) for name, held in claims.items()]


def _shape_of(side: Sequence[tuple[int, Claim]]) -> tuple[int, ...]:
    """As a claim says it, or of the smallest array in which all boxes lie."""
    said = next((claim.shape for _, claim in side if claim.shape is not None), None)
    if said is not None:
        return said
    corners = [hi for rank, claim in side for _, hi in claim.boxes(rank)]
    return tuple(map(max, zip(*corners, strict=True)))


# --- Executions.


@dataclasses.dataclass
class Report:
    """What a transfer did on this rank. Bytes."""

    seconds: float = 0.0
    sent_bytes: int = 0
    received_bytes: int = 0
    staged_bytes: int = 0
    rounds: int = 0


class _Execution:
    """A plan, and this rank's part of it. Executed many times."""

    def __init__(self, plan: MessagePlan, arrays: Sequence[str], tiles: Sequence[Tile], address_of: Any, group: Group):
        numbers = {name: number for number, name in enumerate(arrays)}
        self.plan, self.arrays, self.group = plan, arrays, group
        self.tiles = [tile for tile in tiles if tile.name in numbers]
        self._numbers = [numbers[tile.name] for tile in self.tiles]
        self._address_of = address_of
        self._addresses: list[int] | None = None
        self.prepare()

    def prepare(self) -> None:
        """Where arrays were moved to other memory, finds them there."""
        addresses = [self._address_of(tile.array) for tile in self.tiles]
        if addresses == self._addresses:
            return
        values = [
            tile.values(number, address)
            for tile, number, address in zip(self.tiles, self._numbers, addresses, strict=True)
        ]
        self.rank = _retile.RankTransfer(self.plan, self.group.rank, values)
        self.last_rounds = self.rank.last_rounds()
        self._addresses = addresses


class Work:
    """A transfer that is under way."""

    def __init__(self, execution: _Execution, changed: bool):
        self._execution, self._changed = execution, changed
        self._progress = threading.Condition()
        self._done = -1  # rounds that are unpacked, but for the first
        self._is_through = False
        self._is_agreed = False
        self._error: BaseException | None = None  # of messages: the rank goes on, so that nobody waits for it
        self._failure: BaseException | None = None  # of the group: nobody can go on
        self._report = Report()
        self._thread = threading.Thread(target=self._run, name="retile transfer", daemon=True)
        self._thread.start()

    def wait(self, name: str | None = None) -> None:
        """Waits until this rank has the array of this name, or all arrays below it ("layers.0"); without a name, until all
        ranks have everything: then all of them call it, and what went wrong on one is raised on all."""
        if name is not None:
            self._wait_for(self._round_of(name))
            return
        self._thread.join()
        if not self._is_agreed and self._failure is None:
            self._agree()
        if self._failure is not None:
            raise self._failure

    def _agree(self) -> None:
        """Ranks tell each other whether what came was right."""
        group, self._is_agreed = self._execution.group, True
        if group.most(int(self._error is not None)) == 0:
            return
        self._execution.rank.forget_sent()
        texts = group.gather("" if self._error is None else str(self._error))
        self._failure = RuntimeError("\n".join(dict.fromkeys(text for text in texts if text)))

    @property
    def is_over(self) -> bool:
        """Whether wait() without a name has returned or raised: the same on all ranks, however fast they are."""
        return self._is_agreed or (self._is_through and self._failure is not None)

    @property
    def report(self) -> Report:
        """After wait()."""
        return self._report

    def _round_of(self, name: str) -> int:
        arrays = self._execution.arrays
        found = [i for i, array in enumerate(arrays) if array == name or array.startswith(name + ".")]
        if not found:
            near = difflib.get_close_matches(name, arrays, 1)
            hint = f': did you mean "{near[0]}"?' if near else ""
            raise InputError(f'no array of this transfer is called "{name}"{hint}')
        return max(self._execution.last_rounds[i] for i in found)

    def _wait_for(self, round_number: int) -> None:
        with self._progress:
            self._progress.wait_for(lambda: self._is_through or (self._done >= round_number and self._started))
        error = self._failure or self._error
        if error is not None:
            raise error

    _started = False  # whether what the rank keeps is copied

    def _run(self) -> None:
        begin = time.perf_counter()
        rank, plan, group = self._execution.rank, self._execution.plan, self._execution.group
        try:
            rank.copy_kept()
            self._advance(-1)
            for rounds in (range(rank.first_passed_on), range(rank.first_passed_on, rank.rounds)):
                self._move(rounds)
        except BaseException as error:  # which another thread raises
            self._failure = error
            _abandoned.append(rank)
        self._report.seconds = time.perf_counter() - begin
        self._report.received_bytes = plan.received_bytes(group.rank)
        self._report.staged_bytes = rank.staged_bytes
        self._report.rounds = rank.rounds
        with self._progress:
            self._is_through = True
            self._progress.notify_all()

    def _advance(self, done: int) -> None:
        with self._progress:
            self._started, self._done = True, done
            self._progress.notify_all()

    def _move(self, rounds: range) -> None:
        """Two rounds are under way: one is packed and sent while the one before arrives."""
        rank, group = self._execution.rank, self._execution.group
        sent: dict[int, list[Any]] = {}
        received: dict[int, list[tuple[int, Any]]] = {}
        for i in rounds:
            for request in sent.pop(i - 2, ()):
                request.wait()
            received[i] = [(peer, group.receive(message, peer)) for peer, message in rank.received(i)]
            sent[i] = []
            for peer, message in rank.sent(i):
                length = rank.pack(i, peer, self._changed)
                self._report.sent_bytes += length
                sent[i].append(group.send(message[:length], peer))
            if i - 1 in received:
                self._unpack(i - 1, received.pop(i - 1))
        for i, messages in received.items():
            self._unpack(i, messages)
        for requests in sent.values():
            for request in requests:
                request.wait()

    def _unpack(self, round_number: int, messages: list[tuple[int, Any]]) -> None:
        for peer, request in messages:
            request.wait()
            if self._error is None:
                try:
                    self._execution.rank.unpack(round_number, peer)
                except RuntimeError as error:
                    self._error = error
        if self._error is None:
            self._advance(round_number)


class Transfer:
    """Moves the arrays of a whole model between the ranks of a group, within a cap on what a rank holds beside them.

    Every rank adds the arrays that it has and those that it wants, and knows nothing of the others. `commit` is
    collective: it compares what all ranks added, tells all of them what is wrong, and plans. `start` moves everything, as
    often as it is called; `max_bytes` is the most that a rank stages. With `verify="crc32"` every message carries a
    checksum of its bytes, which its receiver compares.
    """

    def __init__(self, group: Group, max_bytes: int, verify: str | None, host: str | None):
        if not isinstance(max_bytes, int) or isinstance(max_bytes, bool):
            raise InputError(f"max_bytes is a whole number of bytes, not {max_bytes!r}")
        if verify not in (None, "crc32"):
            raise InputError(f'verify is "crc32" or None, not {verify!r}')
        self._group, self._max_bytes, self._verify = group, max_bytes, verify
        self._host = socket.gethostname() if host is None else host
        self._tiles: list[Tile] = []
        self._faults: list[str] = []
        self._catalogue: list[Declaration] | None = None  # the sources of all ranks
        self._kinds: list[tuple[Any, ...]] = []
        self._arrays: list[tuple[str, int]] = []
        self._hosts: list[int] = []
        self._executions: dict[tuple[str, ...] | None, _Execution] = {}  # by the names in `only`
        self._last: _Execution | None = None
        self._work: Work | None = None

    # What frameworks bring.

    def _memory_of(self, array: Any) -> Memory:
        """Throws InputError where it cannot be moved as it lies."""
        raise NotImplementedError

    def _address_of(self, array: Any) -> int:
        raise NotImplementedError

    def _layout_of(self, array: Any) -> Layout | None:
        """That an array brings with it."""
        return None

    # What ranks add.

    def add_source(
        self, name: str, array: Any, layout: Layout | None = None, *, box: Any = None, dtype: Any = None
    ) -> None:
        """Memory of this rank's with a part of the array `name`: its tile of a layout of all ranks, a box (a pair for each
        dimension), or without both all of it. With `dtype`, elements are converted while they are packed.

        What is wrong is told by `commit`, on all ranks.
        """
        self._require_open("sources")
        self._add(name, array, layout, box, dtype, False)

    def add_sources(self, arrays: Any, *, dtype: Any = None) -> None:
        """Many: a mapping, or pairs, of names and arrays, each alone or with its layout: (array, layout)."""
        for name, value in arrays.items() if isinstance(arrays, Mapping) else arrays:
            array, layout = value if isinstance(value, tuple) else (value, None)
            self.add_source(name, array, layout, dtype=dtype)

    def add_target(self, name: str, array: Any, layout: Layout | None = None, *, box: Any = None) -> None:
        """Memory of this rank's for a part of the array `name`, as in `add_source`."""
        if self._executions:
            raise InputError("targets are added before commit()")
        self._add(name, array, layout, box, None, True)

    def add_targets(self, arrays: Any) -> None:
        """Many, as in `add_sources`."""
        for name, value in arrays.items() if isinstance(arrays, Mapping) else arrays:
            array, layout = value if isinstance(value, tuple) else (value, None)
            self.add_target(name, array, layout)

    def _require_open(self, what: str) -> None:
        if self._catalogue is not None:
            raise InputError(f"{what} are added before record() and commit()")

    def _add(self, name: str, array: Any, layout: Layout | None, box: Any, dtype: Any, is_target: bool) -> None:
        try:
            self._tiles.append(self._tile(name, array, layout, box, dtype, is_target))
        except InputError as error:
            self._faults.append(f'"{name}": the {"target" if is_target else "source"}: {error}')

    def _tile(self, name: str, array: Any, layout: Layout | None, box: Any, dtype: Any, is_target: bool) -> Tile:
        if not isinstance(name, str) or not name:
            raise InputError(f"the name of an array is a text, not {name!r}")
        memory = self._memory_of(array)
        dtype = memory.dtype if dtype is None else self._dtype_of(dtype)
        sent, element = _name_of(dtype), element_type(dtype)
        if sent != memory.dtype_name and not {sent, memory.dtype_name} <= FLOATING:
            raise InputError(f"elements of {memory.dtype_name} are not converted to {sent}")
        if layout is None:
            layout = self._layout_of(array) if box is None else None
        if layout is not None and box is not None:
            raise InputError("a layout and a box are given, and one of them is enough")
        if box is not None:
            return Tile(name, Claim(sent, element, box=box_of(box, memory.shape)), array, memory, is_target)
        if layout is None:
            return Tile(name, Claim(sent, element, shape=memory.shape), array, memory, is_target)
        if not isinstance(layout, Layout):
            raise InputError(f"layout is a retile.Layout, not {type(layout).__name__}")
        if layout.partial:
            raise InputError("it is a sum: redistribute it first")
        rank = self._group.rank
        expected = layout.tile_shape(rank) if rank < layout.device_count else memory.shape
        if tuple(expected) != memory.shape:
            raise InputError(f"it has shape {list(memory.shape)}, and the layout {layout} gives {list(expected)}")
        if len(_boxes_in(layout, rank)) > 1 and not memory.is_packed:
            raise InputError("a tile of several boxes lies without gaps")
        return Tile(name, Claim(sent, element, layout, shape=tuple(layout.shape)), array, memory, is_target)

    def _dtype_of(self, dtype: Any) -> Any:
        return dtype

    # Plans.

    def _gather_sources(self) -> list[Declaration]:
        if self._catalogue is None:
            self._catalogue = self._group.gather(declaration_of(tile for tile in self._tiles if not tile.is_target))
        return self._catalogue

    def commit(self) -> MessagePlan:
        """Compares what all ranks added, and plans. All ranks call it. Throws on all of them where something is wrong on
        one, with everything that is. The plan prints."""
        if self._executions:
            raise InputError("commit() is called once")
        sources = self._gather_sources()
        own = declaration_of(tile for tile in self._tiles if tile.is_target)
        settings = {"max_bytes": self._max_bytes, "verify": self._verify}
        found = self._group.gather((own, self._faults, settings, self._host))
        targets, faults, all_settings, hosts = (list(one) for one in zip(*found, strict=True))
        listed = [f"rank {rank}: {fault}" for rank, own_faults in enumerate(faults) for fault in own_faults]
        for key in settings:
            values = list(dict.fromkeys(one[key] for one in all_settings))
            if len(values) > 1:
                listed.append(f"ranks have different {key}: {', '.join(map(repr, values))}")
        if listed:  # arrays that were not added would be found missing
            require(listed)
        comparison = _Comparison(sources, targets)
        require(comparison.faults)
        numbers = {host: number for number, host in enumerate(dict.fromkeys(hosts))}
        self._hosts = [numbers[host] for host in hosts] if len(numbers) > 1 else []
        self._kinds, self._arrays = comparison.kinds, comparison.arrays
        self._execute_with(None)
        return self._executions[None].plan

    def _execute_with(self, only: tuple[str, ...] | None) -> _Execution:
        """The execution of all arrays, or of some: planned once. All ranks call it."""
        if only in self._executions:
            return self._executions[only]
        arrays = self._arrays if only is None else [one for one in self._arrays if _is_below(one[0], only)]
        plan = MessagePlan(
            self._kinds,
            arrays,
            self._group.size,
            self._max_bytes,
            self._hosts,
            MOST_MESSAGE_BYTES,
            self._verify is not None,
        )
        error, execution = "", None
        try:
            names = [name for name, _ in arrays]
            execution = _Execution(plan, names, self._tiles, self._address_of, self._group)
        except RuntimeError as fault:
            error = str(fault)
        require(text for text in self._group.gather(error) if text)
        self._executions[only] = execution
        return execution

    # Executions.

    def start(self, *, only: Sequence[str] | None = None, changed: bool = False) -> Work:
        """Starts to move what sources have now. All ranks call it; until wait(), sources and targets belong to the transfer.

        `only` names arrays, or what they lie below ("layers.0"); all ranks name the same. With `changed`, messages whose
        bytes are those of the last time are not sent again: targets must still have what they received.
        """
        if not self._executions:
            raise InputError("start() comes after commit()")
        if self._work is not None and not self._work.is_over:
            raise InputError("start() comes after wait() of the transfer before")
        execution = self._executions[None] if only is None else self._some(only)
        execution.prepare()
        if self._last is not execution:
            execution.rank.forget_sent()
        self._last = execution
        self._work = Work(execution, bool(changed))
        return self._work

    def _some(self, only: Sequence[str]) -> _Execution:
        names = (only,) if isinstance(only, str) else tuple(only)
        wanted = self._group.gather(names)
        if any(one != names for one in wanted):
            listed = [f"rank {rank}: {', '.join(one)}" for rank, one in enumerate(wanted)]
            raise InputError("ranks want different arrays\n" + "\n".join(listed))
        known = [name for name, _ in self._arrays]
        require(
            f'no array of this transfer is called "{name}"'
            for name in names
            if not any(_is_below(one, (name,)) for one in known)
        )
        return self._execute_with(names)


def _is_below(array: str, names: Sequence[str]) -> bool:
    return any(array == name or array.startswith(name + ".") for name in names)
