"""Transfers of whole models between the ranks of a group: what NumPy's and PyTorch's transfers have in common.

The library plans, packs and checks. Here ranks tell each other what they have and want, and carry the messages.
"""

import dataclasses
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from retile import _retile
from retile._elements import element_type
from retile._errors import InputError
from retile._machines import require_machine
from retile._retile import Layout, Machine, MessagePlan
from retile._transfer_claims import (
    SCALES,
    Box,
    Claim,
    Comparison,
    Declaration,
    Holders,
    Memory,
    Tile,
    block_counts,
    blocks_of,
    box_of,
    box_within,
    declaration_of,
    name_of,
    own_memory,
    require,
    shared_box,
    text_of,
)
from retile._transfer_work import Execution, Group, Work, bytes_of, is_below

MOST_MESSAGE_BYTES = 4 << 20  # longer ones are no faster over gloo, and stage more
TRANSPORTS = "auto", "messages"
FLOATING = {"float16", "bfloat16", "float32", "float64"}  # types that are converted into each other
SCALED = "float8_e4m3fn"  # the type that they are converted to block by block

# The arrays that are moved, or boxes of them, by the names in `only`; None for a whole array, or all arrays below a
# name.
Choice = tuple[tuple[str, tuple[Box, ...] | None], ...]


class Transfer:
    """Moves the arrays of a whole model between the ranks of a group, within a cap on what a rank holds beside them.

    Every rank adds the arrays that it has and those that it wants, and knows nothing of the others. `commit` is
    collective: it compares what all ranks added, tells all of them what is wrong, and plans. `start` moves everything,
    as often as it is called; `max_bytes` is the most that a rank stages. With `verify="crc32"` every message carries a
    checksum of its bytes, which its receiver compares. With `transport="auto"` ranks of one host read what is sent as
    it lies from each other's memory; with "messages" they send everything.
    """

    def __init__(
        self,
        group: Group,
        max_bytes: int | str,
        verify: str | None,
        host: str | None,
        machine: Machine | None,
        transport: str,
    ):
        if verify not in (None, "crc32"):
            raise InputError(f'verify is "crc32" or None, not {verify!r}')
        if transport not in TRANSPORTS:
            raise InputError(f"transport is one of {', '.join(TRANSPORTS)}, not {transport!r}")
        require_machine(machine)
        if machine is not None and host is not None:
            raise InputError("the machine says which host each rank is on: no host beside it")
        self._group, self._max_bytes, self._verify, self._machine = group, bytes_of(max_bytes), verify, machine
        self._transport = transport
        self._processes: list[int] = []  # of ranks that this rank can read and that can read it, by rank; 0 for others
        self._host = socket.gethostname() if host is None else host
        self._tiles: list[Tile] = []
        self._faults: list[str] = []
        self._catalogue: list[Declaration] | None = None  # sources of all ranks
        self._kinds: list[tuple[Any, ...]] = []
        self._arrays: list[tuple[str, int]] = []
        self._scales: dict[str, _retile.BlockScales] = {}  # of the arrays that this rank scales, by name
        self._scaled: dict[str, int | None] = {}  # by scaled array: the kind of the maxima that ranks share
        self._maxima_kinds: list[tuple[Any, ...]] = []
        self._maxima_tiles: list[Tile] = []
        self._hosts: list[int] = []
        self._executions: dict[Choice | None, Execution] = {}  # by `only`
        self._staging = _retile.Staging()  # shared by all executions
        self._last: Execution | None = None
        self._work: Work | None = None

    # Implemented by frameworks.

    def _memory_of(self, array: Any) -> Memory:
        """The memory of an array. Raises InputError where the array cannot be moved as it lies."""
        raise NotImplementedError

    def _address_of(self, array: Any) -> int:
        raise NotImplementedError

    def _layout_of(self, array: Any) -> Layout | None:
        """The layout that the array itself has, if any."""
        return None

    # Additions by ranks.

    def add_source(
        self,
        name: str,
        array: Any,
        layout: Layout | None = None,
        *,
        box: Any = None,
        dtype: Any = None,
        block: Sequence[int] | None = None,
    ) -> None:
        """Adds memory of this rank that holds a part of the array `name`: its tile of a layout of all ranks, a box (a
        pair for each dimension), or without both the whole array. With `dtype`, elements are converted while they are
        packed.

        With dtype float8_e4m3fn and `block`, such as (128, 128), each block of the last dimensions is scaled so that
        its largest element becomes 448. The inverse scales form an array of their own, `name` + "_scale_inv". Blocks
        may extend over several ranks.

        Errors are reported by `commit`, on all ranks.
        """
        self._require_open("sources")
        self._add(name, array, layout, box, dtype, False, block)

    def add_sources(self, arrays: Any, *, dtype: Any = None, block: Sequence[int] | None = None) -> None:
        """Adds many sources: a mapping or pairs of names and arrays, each alone or with its layout: (array, layout)."""
        for name, value in arrays.items() if isinstance(arrays, Mapping) else arrays:
            array, layout = value if isinstance(value, tuple) else (value, None)
            self.add_source(name, array, layout, dtype=dtype, block=block)

    def add_target(self, name: str, array: Any, layout: Layout | None = None, *, box: Any = None) -> None:
        """Adds memory of this rank for a part of the array `name`, as in `add_source`."""
        if self._executions:
            raise InputError("targets are added before commit()")
        self._add(name, array, layout, box, None, True)

    def add_targets(self, arrays: Any) -> None:
        """Adds many targets, as in `add_sources`."""
        for name, value in arrays.items() if isinstance(arrays, Mapping) else arrays:
            array, layout = value if isinstance(value, tuple) else (value, None)
            self.add_target(name, array, layout)

    def _require_open(self, what: str) -> None:
        if self._catalogue is not None:
            raise InputError(f"{what} are added before record() and commit()")

    def _add(
        self, name: str, array: Any, layout: Layout | None, box: Any, dtype: Any, is_target: bool, block: Any = None
    ) -> None:
        try:
            tile = self._tile(name, array, layout, box, dtype, is_target, block)
            self._tiles += [tile] if block is None else self._with_scales(tile, block)
        except InputError as error:
            self._faults.append(f'"{name}": the {"target" if is_target else "source"}: {error}')

    def _with_scales(self, tile: Tile, block: Any) -> list[Tile]:
        """The tile, scaled block by block, and its scales."""
        dimensions = len(tile.memory.shape)
        if (
            not isinstance(block, Sequence)
            or not 0 < len(block) <= dimensions
            or not all(isinstance(one, int) and one > 0 for one in block)
        ):
            raise InputError(f"block is a length for each of its last dimensions, not {block!r}")
        if tile.name in self._scales:
            raise InputError("another part of it is scaled on this rank, and one can be")
        block = (1,) * (dimensions - len(block)) + tuple(block)
        claim = dataclasses.replace(tile.claim, block=block)
        boxes = [box for box in claim.boxes(self._group.rank, is_source=True) if shared_box(box, box)]
        if len(boxes) > 1:
            raise InputError("it is several boxes, and one can be scaled")
        if not boxes:
            return [dataclasses.replace(tile, claim=claim)]
        scales = self._scales[tile.name] = _retile.BlockScales(boxes[0], block)
        blocks = blocks_of(boxes[0], block)
        shape = claim.shape and block_counts(claim.shape, block)
        scale_claim = Claim("float32", "f32", box=blocks, shape=shape)
        memory = own_memory(scales.inverses, blocks)
        return [
            dataclasses.replace(tile, claim=claim, scales=scales),
            Tile(tile.name + SCALES, scale_claim, None, memory, False),
        ]

    def _tile(
        self, name: str, array: Any, layout: Layout | None, box: Any, dtype: Any, is_target: bool, block: Any
    ) -> Tile:
        if not isinstance(name, str) or not name:
            raise InputError(f"the name of an array is a text, not {name!r}")
        memory = self._memory_of(array)
        dtype = memory.dtype if dtype is None else self._dtype_of(dtype)
        sent, element = name_of(dtype), element_type(dtype)
        if block is not None and (sent != SCALED or memory.dtype_name not in FLOATING):
            raise InputError(f"block is for what is converted to {SCALED}: {memory.dtype_name} is sent as {sent}")
        if sent != memory.dtype_name and block is None and not {sent, memory.dtype_name} <= FLOATING:
            is_scaled = sent == SCALED and memory.dtype_name in FLOATING
            hint = "\nhint: block=(128, 128) scales them" if is_scaled else ""
            raise InputError(f"elements of {memory.dtype_name} are not converted to {sent}{hint}")
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
        claim = Claim(sent, element, layout, shape=tuple(layout.shape))
        if len(claim.boxes(rank, not is_target)) > 1 and not memory.is_packed:
            raise InputError("a tile of several boxes lies without gaps")
        return Tile(name, claim, array, memory, is_target)

    def _dtype_of(self, dtype: Any) -> Any:
        return dtype

    # Plans.

    def _gather_sources(self) -> list[Declaration]:
        if self._catalogue is None:
            self._catalogue = self._group.gather(declaration_of(tile for tile in self._tiles if not tile.is_target))
        return self._catalogue

    def commit(self) -> MessagePlan:
        """Compares what all ranks added, and plans. All ranks call it. If something is wrong on one rank, raises on all
        of them, with everything that is wrong. The plan can be printed."""
        if self._executions:
            raise InputError("commit() is called once")
        sources = self._gather_sources()
        own = declaration_of(tile for tile in self._tiles if tile.is_target)
        settings = {
            "max_bytes": self._max_bytes,
            "verify": self._verify,
            "transport": self._transport,
            "machine": self._machine,
        }
        found = self._group.gather((own, self._faults, settings, self._host, _retile.process_mark()))
        targets, faults, all_settings, hosts, marks = (list(one) for one in zip(*found, strict=True))
        listed = [f"rank {rank}: {fault}" for rank, own_faults in enumerate(faults) for fault in own_faults]
        for key in settings:
            values = list(dict.fromkeys(one[key] for one in all_settings))
            if len(values) > 1:
                listed.append(f"ranks have different {key}: {', '.join(map(repr, values))}")
        if listed:  # arrays that were not added would be reported as missing
            require(listed)
        comparison = Comparison(sources, targets)
        require(comparison.faults)
        numbers = {host: number for number, host in enumerate(dict.fromkeys(hosts))}
        self._hosts = [numbers[host] for host in hosts] if len(numbers) > 1 else []
        self._kinds, self._arrays = comparison.kinds, comparison.arrays
        self._share_maxima(comparison)
        if self._transport == "auto" and self._verify is None:
            self._processes = self._readable_processes(hosts, marks)
        self._execute_with(None)
        return self._executions[None].plan

    def _readable_processes(self, hosts: Sequence[str], marks: Sequence[tuple[Any, ...]]) -> list[int]:
        """The processes of the ranks of this host that can read this one and that this one can read."""
        own = self._group.rank
        readable = [
            rank != own and hosts[rank] == hosts[own] and _retile.can_read(*mark) for rank, mark in enumerate(marks)
        ]
        others = self._group.gather(readable)
        return [mark[1] if readable[rank] and others[rank][own] else 0 for rank, mark in enumerate(marks)]

    def _share_maxima(self, comparison: Comparison) -> None:
        """Adds kinds and memory of the maxima that ranks tell each other, of blocks that several hold parts of."""
        known: dict[Holders, int | None] = {}
        for name, holders in comparison.scaled().items():
            if holders not in known:
                kind = comparison.maxima_kind(holders)
                known[holders] = None if kind is None else len(self._maxima_kinds)
                self._maxima_kinds += [] if kind is None else [kind]
            number = self._scaled[name] = known[holders]
            if number is None or name not in self._scales:
                continue
            _, _, sources, targets, _ = self._maxima_kinds[number]
            scales, rank = self._scales[name], self._group.rank
            for is_target, boxes in ((False, sources[rank]), (True, targets[rank])):
                for lo, hi in boxes:
                    address = scales.add_shared((lo[1:], hi[1:])) if is_target else scales.maxima
                    claim = Claim("float32", "f32", box=(lo, hi))
                    self._maxima_tiles.append(Tile(name, claim, None, own_memory(address, (lo, hi)), is_target))

    def _partner(self, name: str) -> str:
        """The array of the array's scales, or the array whose scales it is; both are moved together."""
        base = name.removesuffix(SCALES)
        return name + SCALES if name in self._scaled else base if base in self._scaled else name

    def _chosen(self, only: Choice | None) -> tuple[list[tuple[Any, ...]], list[tuple[str, int]]]:
        """The kinds, with the boxes that are moved, and the arrays of each."""
        if only is None:
            return [(*kind, None) for kind in self._kinds], self._arrays
        numbers: dict[tuple[int, tuple[Box, ...] | None], int] = {}
        arrays = []
        for name, kind in self._arrays:
            names = name, self._partner(name)
            found = [
                boxes
                for key, boxes in only
                if name == key or (boxes is None and any(is_below(one, key) for one in names))
            ]
            if found:
                boxes = None if None in found else sum(found, ())
                arrays.append((name, numbers.setdefault((kind, boxes), len(numbers))))
        return [(*self._kinds[kind], boxes) for kind, boxes in numbers], arrays

    def _execute_with(self, only: Choice | None) -> Execution:
        """The execution of all arrays, or of some, which is planned once. All ranks call it."""
        if only in self._executions:
            return self._executions[only]
        kinds, arrays = self._chosen(only)
        names = {name for name, _ in arrays}
        scaled = {name: kind for name, kind in self._scaled.items() if not names.isdisjoint((name, name + SCALES))}
        shared = [(name, kind) for name, kind in scaled.items() if kind is not None]
        error, execution = "", None
        try:
            execution = self._planned(kinds, arrays, self._tiles, self._processes)
            execution.scaled = [tile for tile in self._tiles if tile.scales is not None and tile.name in scaled]
            # Maxima change before all ranks have finished: they are sent.
            execution.maxima = self._planned(self._maxima_kinds, shared, self._maxima_tiles, ()) if shared else None
        except RuntimeError as fault:
            error = str(fault)
        told = self._group.gather((error, execution.readers() if not error else None))
        require(text for text, _ in told if text)
        execution.set_lenders([readers for _, readers in told])
        self._executions[only] = execution
        return execution

    def _planned(
        self,
        kinds: list[tuple[Any, ...]],
        arrays: list[tuple[str, int]],
        tiles: Sequence[Tile],
        processes: Sequence[int],
    ) -> Execution:
        plan = MessagePlan(
            kinds,
            arrays,
            self._group.size,
            self._max_bytes,
            self._hosts,
            MOST_MESSAGE_BYTES,
            self._verify is not None,
            self._machine,
        )
        names = [name for name, _ in arrays]
        return Execution(plan, names, tiles, self._address_of, self._group, self._staging, processes)

    # Executions.

    def start(self, *, only: Sequence[str] | Mapping[str, Any] | None = None, changed: bool = False) -> Work:
        """Starts to move what sources have now. All ranks call it; until wait(), sources and targets belong to the
        transfer.

        `only` names arrays, or prefixes of their names ("layers.0"); all ranks name the same. As a mapping it gives
        boxes of arrays, each a slice or pair for each dimension, or None for all: only={"embed": [np.s_[64:80, :]],
        "norm": None}. Everything else is left as it is. With `changed`, messages with the same bytes as last time are
        not sent again: targets must still hold what they received.
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

    def _some(self, only: Any) -> Execution:
        choice, fault = None, ""
        try:
            choice = self._choice_of(only)
        except InputError as error:
            fault = str(error)
        told = self._group.gather((choice, fault))
        require(text for _, text in told if text)
        if any(one != choice for one, _ in told):
            listed = [f"rank {rank}: {', '.join(map(_choice_text, one))}" for rank, (one, _) in enumerate(told)]
            raise InputError("ranks want different arrays\n" + "\n".join(listed))
        return self._execute_with(choice)

    def _choice_of(self, only: Any) -> Choice:
        """The value of `only` in one form. Raises with everything that is wrong."""
        if isinstance(only, str):
            only = (only,)
        shapes = {name: self._kinds[kind][0] for name, kind in self._arrays}
        choice: list[tuple[str, tuple[Box, ...] | None]] = []
        faults = []
        for name, boxes in only.items() if isinstance(only, Mapping) else ((one, None) for one in only):
            try:
                if not (name in shapes or (boxes is None and any(is_below(one, name) for one in shapes))):
                    raise InputError(f'no array of this transfer is called "{name}"')
                if boxes is not None and {name, self._partner(name)} & self._scaled.keys():
                    raise InputError(f'"{name}" is scaled block by block, and moved as a whole')
                choice.append((name, boxes if boxes is None else self._boxes_of(name, boxes, shapes[name])))
            except InputError as error:
                faults.append(str(error))
        require(faults)
        return tuple(choice)

    def _boxes_of(self, name: str, boxes: Any, shape: Sequence[int]) -> tuple[Box, ...]:
        try:
            if not isinstance(boxes, Iterable):
                raise InputError(f"only has a list of boxes, not {boxes!r}")
            return tuple(box_within(box, shape) for box in boxes)
        except InputError as error:
            raise InputError(f'"{name}": {error}') from None


def _choice_text(choice: tuple[str, tuple[Box, ...] | None]) -> str:
    name, boxes = choice
    return name if boxes is None else f"{name} {' '.join(map(text_of, boxes))}"
