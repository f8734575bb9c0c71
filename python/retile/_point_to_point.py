"""A rank's part of a plan, carried out by the messages of a PyTorch process group.

Every rank packs, sends, receives and unpacks its own boxes; what lies together in memory is sent from and received into
its place. Messages are cut so that little is held beside tiles, and no group is made. They belong to a call
(`_agreement.py`), which gives their tag and waits for them, so that ranks learn if they disagree.
"""

import collections
import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist

from retile import _retile
from retile._agreement import Call
from retile._elements import ELEMENT_TYPES
from retile._process_groups import backend_of, has_tags
from retile._retile import Layout, Plan

LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES = 2**16, 2**23
STAGED_MESSAGES = 2  # the least held at once beside tiles: one of the longest each way
LEAST_STAGING_BYTES = 2**21  # without a memory limit: all messages of small tensors are under way at once
BATCHED_STAGING_BYTES = 2**26  # likewise where messages go in batches, each of which takes long to begin


def message_bytes(source: Layout, target: Layout, itemsize: int, is_limited: bool, is_batched: bool = False) -> int:
    """The most bytes of a message: a part of a tile, smaller if memory is limited, and all that goes to a peer if
    messages are batched. The same on every rank."""
    tile = max(source.local_size, target.local_size) * itemsize
    if is_batched:
        return min(max(tile, LEAST_MESSAGE_BYTES), BATCHED_STAGING_BYTES // STAGED_MESSAGES)
    return min(max(tile // (8 if is_limited else 2), LEAST_MESSAGE_BYTES), MOST_MESSAGE_BYTES)


def staging_bytes(message: int, is_limited: bool, is_batched: bool = False) -> int:
    """The most bytes that are held beside tiles, for messages of this size."""
    least = BATCHED_STAGING_BYTES if is_batched else LEAST_STAGING_BYTES
    return max(STAGED_MESSAGES * message, 0 if is_limited else least)


@dataclasses.dataclass(frozen=True)
class Region:
    """A region of a tensor; strides and offset count elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(self.shape, self.strides, tensor.storage_offset() + self.offset)

    def repeated(self, count: int, distance: int) -> "Region":
        return Region((count, *self.shape), (distance, *self.strides), self.offset)

    def is_contiguous(self) -> bool:
        inner = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != inner:
                return False
            inner *= length
        return True


def merged(rows: Sequence[tuple[Region, ...]]) -> list[tuple[Region, ...]]:
    """Rows of regions that are copied one after the other: equal regions at equal distances become one region of one
    more dimension, so that one operation copies them. The order of the elements stays."""
    rows = list(rows)
    while True:
        fewer = list(_merged_once(rows))
        if len(fewer) == len(rows):
            return rows
        rows = fewer


def _merged_once(rows: list[tuple[Region, ...]]) -> Iterator[tuple[Region, ...]]:
    first = 0
    while first < len(rows):
        end, distances = _run_from(rows, first)
        pairs = zip(rows[first], distances, strict=True) if distances else ()
        yield tuple(one.repeated(end - first, distance) for one, distance in pairs) or rows[first]
        first = end


def _run_from(rows: list[tuple[Region, ...]], first: int) -> tuple[int, list[int]]:
    """The end of a run of equal regions at equal distances, and the distances; none where the run has one row."""
    end, distances = first + 1, []
    while end < len(rows):
        pairs = list(zip(rows[end - 1], rows[end], strict=True))
        steps = [after.offset - before.offset for before, after in pairs]
        is_alike = all((one.shape, one.strides) == (other.shape, other.strides) for one, other in pairs)
        if not is_alike or min(steps) <= 0 or (distances and steps != distances):
            break
        end, distances = end + 1, steps
    return end, distances


@dataclasses.dataclass(frozen=True)
class Message:
    peer: int
    elements: int
    regions: tuple[Region, ...]
    is_in_place: bool  # sent from, or received into, its place

    def staged(self) -> int:
        return 0 if self.is_in_place else self.elements

    def in_place(self, tensor: torch.Tensor) -> torch.Tensor:
        return Region((self.elements,), (1,), self.regions[0].offset).of(tensor)

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.is_in_place:
            return self.in_place(tensor)
        buffer = tensor.new_empty(self.elements)
        for region, part in self.parts(buffer):
            part.copy_(region.of(tensor))
        return buffer

    def unpack(self, buffer: torch.Tensor, tensor: torch.Tensor) -> None:
        for region, part in self.parts(buffer):
            region.of(tensor).copy_(part)

    def parts(self, buffer: torch.Tensor) -> Iterator[tuple[Region, torch.Tensor]]:
        if len(self.regions) == 1:
            yield self.regions[0], buffer.view(self.regions[0].shape)
            return
        sizes = [math.prod(region.shape) for region in self.regions]
        for region, part in zip(self.regions, buffer.split(sizes), strict=True):
            yield region, part.view(region.shape)


@dataclasses.dataclass(frozen=True)
class Round:
    send: Message | None
    receive: Message | None
    staged: int  # elements


@dataclasses.dataclass(frozen=True)
class Stage:
    elements: int  # of the tile after the stage
    copies: tuple[tuple[Region, Region], ...]
    rounds: tuple[Round, ...]
    reduction: str | None

    @functools.cached_property
    def staged(self) -> int:
        """Elements staged if all rounds are under way at once."""
        return sum(one.staged for one in self.rounds)

    def receives_in_place(self) -> bool:
        return all(one.receive.is_in_place for one in self.rounds if one.receive is not None)


def schedule(plan: Plan, rank: int, itemsize: int, message: int, strides: Sequence[int]) -> tuple[Stage, ...]:
    """The stages of a rank. `strides` are those of its tile, in elements; none where it is packed."""

    def region_of(region: tuple) -> Region:
        offset, shape, steps = region
        return Region(tuple(shape), tuple(step // itemsize for step in steps), offset // itemsize)

    def message_of(message: tuple | None) -> Message | None:
        if message is None:
            return None
        peer, size, regions = message
        found = tuple(region for (region,) in merged([(region_of(one),) for one in regions]))
        return Message(peer, size // itemsize, found, len(found) == 1 and found[0].is_contiguous())

    def round_of(send: tuple | None, receive: tuple | None) -> Round:
        ends = message_of(send), message_of(receive)
        return Round(*ends, sum(end.staged() for end in ends if end is not None))

    return tuple(
        Stage(
            elements,
            tuple(merged([(region_of(one), region_of(other)) for one, other in copies])),
            tuple(round_of(*ends) for ends in rounds),
            reduction,
        )
        for elements, copies, rounds, reduction in _retile.schedule(
            plan, rank, itemsize, message, [stride * itemsize for stride in strides]
        )
    )


def move(
    tile: torch.Tensor,
    stages: Sequence[Stage],
    shape: Sequence[int],
    staging: int,
    call: Call,
    target: torch.Tensor | None = None,
    is_one_batch: bool = False,
) -> torch.Tensor:
    """Moves the rank's tile, and returns its tile of the target, of this shape, in `target` if that is given. `staging`
    is in bytes. With `is_one_batch`, all messages of a stage begin at once, on all ranks."""
    for number, stage in enumerate(stages):
        is_last = number + 1 == len(stages)
        place = target if is_last else None
        result = tile.new_empty(shape if is_last else (stage.elements,)) if place is None else place
        if stage.reduction is not None:
            combine(tile, result, stage.reduction, staging)
        else:
            exchange(tile, result, stage, staging // tile.element_size(), call, is_one_batch)
        tile = result
    return tile if target is None or tile is target else target.copy_(tile)


def combine(tile: torch.Tensor, result: torch.Tensor, reduction: str, staging: int) -> None:
    """Combines the tile's rows in order, with the same bits as retile's engines: halves are added in f32 and rounded
    once."""
    if result.numel() == 0:
        return
    total, rows = result.view(-1), tile.view(-1, result.numel())
    element = ELEMENT_TYPES.get(str(tile.dtype).removeprefix("torch."))
    if element is not None and tile.device.type == "cpu":
        _retile.combine(reduction, element, *rows.shape, rows.data_ptr(), total.data_ptr())
        return
    for place, block in zip(total.split(staging // 32), rows.split(staging // 32, dim=1), strict=True):
        place.copy_(combine_block(block, reduction))


def combine_block(rows: torch.Tensor, reduction: str) -> torch.Tensor:
    """Combines rows. Holds at most 32 bytes for each element."""
    is_half = rows.dtype in (torch.float16, torch.bfloat16)
    total = rows[0].to(torch.float32 if is_half else rows.dtype, copy=True)
    for row in rows[1:]:
        if reduction == "sum":
            total += row
        else:  # like the engines, also for NaN and signed zeros
            is_kept = (total > row if reduction == "max" else total < row) | (total != total)
            total = torch.where(is_kept, total, row.to(total.dtype))
    return total


def exchange(
    tile: torch.Tensor, result: torch.Tensor, stage: Stage, staging: int, call: Call, is_one_batch: bool
) -> None:
    messages = TaggedMessages(call) if has_tags(call.group, tile.device.type) else BatchedMessages(call)
    rounds = [Exchanged(one, tile, result, messages) for one in stage.rounds]
    if is_one_batch:
        exchange_at_once(rounds, stage, tile, result, messages)
        return
    pending: collections.deque[Exchanged] = collections.deque()
    copies = iter(stage.copies)
    held = 0  # elements, beside the tiles

    def copy_own() -> None:  # while the first messages are on their way
        for source, target in copies:
            target.of(result).copy_(source.of(tile))

    if messages.may_receive_early and (stage.staged <= staging or stage.receives_in_place()):
        for one in rounds:
            one.receive()
    for one in rounds:
        while pending and held + one.round.staged > staging:
            copy_own()
            held -= pending.popleft().finish()
        one.begin()
        pending.append(one)
        held += one.round.staged
    copy_own()
    for one in pending:
        one.finish()


def exchange_at_once(
    rounds: "list[Exchanged]",
    stage: Stage,
    tile: torch.Tensor,
    result: torch.Tensor,
    messages: "TaggedMessages | BatchedMessages",
) -> None:
    for one in rounds:
        one.prepare()
    works = messages.begin([work for one in rounds for work in one.works])
    for source, target in stage.copies:
        target.of(result).copy_(source.of(tile))
    messages.wait(works)
    for one in rounds:
        one.unpack()


class Exchanged:
    """A round in progress. What is sent is kept until it has arrived."""

    def __init__(
        self, one: Round, tile: torch.Tensor, result: torch.Tensor, messages: "TaggedMessages | BatchedMessages"
    ) -> None:
        self.round, self.tile, self.result, self.messages = one, tile, result, messages
        self.works: list = []
        self.sent: torch.Tensor | None = None
        self.received: torch.Tensor | None = None  # None where it is received directly into the result
        self.is_receiving = False
        self.is_through_host = tile.device.type != "cpu" and messages.has_host_buffers(tile.device.type)

    def receive(self) -> None:
        message = self.round.receive
        if message is None or self.is_receiving:
            return
        self.is_receiving = True
        if message.is_in_place and not self.is_through_host:
            place = message.in_place(self.result)
        else:
            device = "cpu" if self.is_through_host else None
            place = self.received = self.result.new_empty(message.elements, device=device)
        self.works.append(self.messages.receive(place, message.peer))

    def prepare(self) -> None:
        self.receive()
        if self.round.send is not None:
            sent = self.round.send.pack(self.tile)
            self.sent = sent.cpu() if self.is_through_host else sent
            self.works.append(self.messages.send(self.sent, self.round.send.peer))

    def begin(self) -> None:
        self.prepare()
        self.works = self.messages.begin(self.works)

    def finish(self) -> int:
        """Waits for the round, and returns the number of elements that were staged."""
        self.messages.wait(self.works)
        self.unpack()
        return self.round.staged

    def unpack(self) -> None:
        if self.received is not None:
            self.round.receive.unpack(self.received, self.result)
        self.sent = self.received = None


class TaggedMessages:
    """Messages of a call over a backend with tags: all are under way at once, and each waits up to the time limit."""

    may_receive_early = True  # so that senders need not wait for their receivers

    def __init__(self, call: Call) -> None:
        self.call = call

    def has_host_buffers(self, device_type: str) -> bool:
        return backend_of(self.call.group, device_type) == "gloo"

    def send(self, tensor: torch.Tensor, peer: int) -> tuple[dist.Work, int]:
        return self.call.begin(self.call.group.send, as_bytes(tensor), peer)

    def receive(self, tensor: torch.Tensor, peer: int) -> tuple[dist.Work, int]:
        return self.call.begin(self.call.group.recv, as_bytes(tensor), peer)

    def begin(self, works: list) -> list:
        return works

    def wait(self, works: list) -> None:
        for work, peer in works:
            self.call.wait(work, peer)


class BatchedMessages:
    """Messages of a call over a backend like NCCL: all of a round begin at once, and the device waits for them."""

    may_receive_early = False

    def __init__(self, call: Call) -> None:
        self.call = call

    def has_host_buffers(self, device_type: str) -> bool:
        return False

    def send(self, tensor: torch.Tensor, peer: int) -> dist.P2POp:
        return dist.P2POp(dist.isend, as_bytes(tensor), peer, self.call.group)

    def receive(self, tensor: torch.Tensor, peer: int) -> dist.P2POp:
        return dist.P2POp(dist.irecv, as_bytes(tensor), peer, self.call.group)

    def begin(self, works: list) -> list:
        return dist.batch_isend_irecv(works) if works else []

    def wait(self, works: list) -> None:
        for work in works:
            work.wait()


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as bytes: backends support only some element types, but all support bytes."""
    return tensor.view(torch.uint8)
