"""Transfers in progress: what one rank packs, sends, receives and unpacks for a plan, over the messages of a group."""

import dataclasses
import difflib
import numbers
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from retile import _retile
from retile._errors import InputError
from retile._retile import MessagePlan
from retile._transfer_claims import Tile

_abandoned: list[Any] = []  # transfers whose group failed, which may still write to their staging


def bytes_of(max_bytes: int | str) -> int:
    """The number of bytes of a cap."""
    if isinstance(max_bytes, str):
        return _retile.byte_count(max_bytes, "max_bytes")
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, numbers.Integral) or max_bytes < 0:
        raise InputError(f'max_bytes is a number of bytes or a text such as "256MiB", not {max_bytes!r}')
    return int(max_bytes)


class Group(Protocol):
    """Ranks that send each other messages. Messages between two ranks arrive in order."""

    rank: int
    size: int

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, on all ranks."""

    def most(self, number: int) -> int:
        """The largest of the numbers that ranks give."""

    def send(self, message: memoryview, peer: int) -> Any:
        """Starts to send a message; the result has wait()."""

    def receive(self, message: memoryview, peer: int) -> Any:
        """Starts to receive a message that is at most as long as `message`; the result has wait()."""


@dataclasses.dataclass
class Report:
    """What a transfer did on this rank, in bytes."""

    seconds: float = 0.0
    sent_bytes: int = 0
    received_bytes: int = 0
    staged_bytes: int = 0
    rounds: int = 0
    read_bytes: int = 0  # of those received: read from the memory of other ranks of the host


class Execution:
    """A plan and this rank's part of it, which can be executed many times."""

    def __init__(
        self,
        plan: MessagePlan,
        arrays: Sequence[str],
        tiles: Sequence[Tile],
        address_of: Any,
        group: Group,
        staging: _retile.Staging,
        processes: Sequence[int] = (),
    ):
        """`processes` are those of ranks that can read this rank's memory, and whose memory it can read, by rank; 0 for
        others."""
        numbers = {name: number for number, name in enumerate(arrays)}
        self.plan, self.arrays, self.group, self._staging = plan, arrays, group, staging
        self.tiles = [tile for tile in tiles if tile.name in numbers]
        self._numbers = [numbers[tile.name] for tile in self.tiles]
        self._address_of, self._processes = address_of, processes
        self._lenders: dict[int, list[int]] = {}  # by first round of a phase: ranks whose memory this rank reads
        self._addresses: list[int] | None = None
        self.scaled: list[Tile] = []  # tiles whose scales are computed first
        self.maxima: Execution | None = None  # moves maxima of blocks between ranks before they are scaled
        self.prepare()

    def address_of(self, tile: Tile) -> int:
        return tile.memory.address if tile.array is None else self._address_of(tile.array)

    def prepare(self) -> None:
        """Updates addresses if arrays were moved to other memory."""
        addresses = [self.address_of(tile) for tile in self.tiles]
        if addresses == self._addresses:
            return
        values = [
            one
            for tile, number, address in zip(self.tiles, self._numbers, addresses, strict=True)
            for one in tile.values(number, address, self.group.rank)
        ]
        self.rank = _retile.RankTransfer(self.plan, self.group.rank, values, self._staging, self._processes)
        self._borrow()
        self.last_rounds = self.rank.last_rounds()
        self._addresses = addresses

    def readers(self) -> dict[int, list[int]]:
        """By the first round of each phase: the ranks that read this rank's memory."""
        return {first: self.rank.readers(first) for first in {0, self.rank.first_passed_on}}

    def set_lenders(self, readers: Sequence[dict[int, list[int]]]) -> None:
        """Takes the readers of all ranks."""
        own = self.group.rank
        self._lenders = {
            first: [rank for rank, theirs in enumerate(readers) if own in theirs[first]] for first in readers[own]
        }
        self._borrow()

    def _borrow(self) -> None:
        for first, lenders in self._lenders.items():
            self.rank.set_lenders(first, lenders)


class Work:
    """A transfer in progress."""

    def __init__(self, execution: Execution, changed: bool):
        self._execution, self._changed = execution, changed
        self._progress = threading.Condition()
        self._done = -1  # the last round that was unpacked; -1: none
        self._is_through = False
        self._is_agreed = False
        self._error: BaseException | None = None  # in messages: the rank continues, so that no rank waits for it
        self._failure: BaseException | None = None  # of the group: no rank can continue
        self._report = Report()
        self._thread = threading.Thread(target=self._run, name="retile transfer", daemon=True)
        self._thread.start()

    def wait(self, name: str | None = None) -> None:
        """Waits until this rank has the array of this name, or all arrays below it ("layers.0"); without a name, until
        all ranks have everything. Then all ranks call it, and an error on one is raised on all."""
        if name is not None:
            self._wait_for(self._round_of(name))
            return
        self._thread.join()
        if not self._is_agreed and self._failure is None:
            self._agree()
        if self._failure is not None:
            raise self._failure

    def _agree(self) -> None:
        """Makes ranks tell each other whether what they received is right."""
        group, self._is_agreed = self._execution.group, True
        try:
            if group.most(int(self._error is not None)) == 0:
                return
            self._execution.rank.forget_sent()
            texts = group.gather("" if self._error is None else str(self._error))
            self._failure = RuntimeError("\n".join(dict.fromkeys(text for text in texts if text)))
        except BaseException as error:  # others may still read
            self._failure = error

    @property
    def is_over(self) -> bool:
        """Whether wait() without a name has returned or raised: the same on all ranks, however fast they are."""
        return self._is_agreed or (self._is_through and self._failure is not None)

    @property
    def report(self) -> Report:
        """The report of the transfer, after wait()."""
        return self._report

    def _round_of(self, name: str) -> int:
        arrays = self._execution.arrays
        found = [i for i, array in enumerate(arrays) if is_below(array, name)]
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

    _started = False  # whether what the rank keeps was copied

    def _run(self) -> None:
        begin = time.perf_counter()
        execution, rank = self._execution, self._execution.rank
        try:
            self._scale()
            rank.copy_kept()
            self._advance(-1)
            self._carry(execution, self._changed, self._advance)
        except BaseException as error:  # raised by another thread
            self._failure = error
            _abandoned.append(rank)
        self._report.seconds = time.perf_counter() - begin
        for one in filter(None, (execution, execution.maxima)):
            self._report.staged_bytes = max(self._report.staged_bytes, one.rank.staged_bytes)
        self._report.rounds = rank.rounds
        with self._progress:
            self._is_through = True
            self._progress.notify_all()

    def _advance(self, done: int) -> None:
        with self._progress:
            self._started, self._done = True, done
            self._progress.notify_all()

    def _scale(self) -> None:
        """Computes the scales of blocks from their largest elements, which holders of a block tell each other."""
        execution = self._execution
        for tile in execution.scaled:
            tile.measure(execution.address_of(tile), execution.group.rank)
        if execution.maxima is not None:
            self._carry(execution.maxima, False, lambda done: None)
        for tile in execution.scaled:
            tile.scales.finish()

    def _carry(self, execution: Execution, changed: bool, advance: Any) -> None:
        rank = execution.rank
        for rounds in (range(rank.first_passed_on), range(rank.first_passed_on, rank.rounds)):
            self._move(execution, rounds, changed, advance)

    def _move(self, execution: Execution, rounds: range, changed: bool, advance: Any) -> None:
        """Moves the rounds. Two are under way: one is packed and sent while the one before arrives."""
        rank, group = execution.rank, execution.group
        if len(rounds) > 0:
            self._exchange_offers(execution, rounds.start, changed)
        sent: dict[int, list[Any]] = {}
        received: dict[int, list[tuple[int, Any]]] = {}
        for i in rounds:
            for request in sent.pop(i - 2, ()):
                request.wait()
            received[i] = [(peer, group.receive(message, peer)) for peer, message in rank.received(i)]
            sent[i] = []
            for peer, message in rank.sent(i):
                length = rank.pack(i, peer, changed)
                self._report.sent_bytes += length
                sent[i].append(group.send(message[:length], peer))
            read = self._checked(rank.read, i) if self._error is None else 0
            self._report.read_bytes += read
            self._report.received_bytes += read
            if i - 1 in received:
                self._unpack(rank, i - 1, received.pop(i - 1), advance)
        for i, messages in received.items():
            self._unpack(rank, i, messages, advance)
        for requests in sent.values():
            for request in requests:
                request.wait()

    def _exchange_offers(self, execution: Execution, first: int, changed: bool) -> None:
        """Tells the readers of this rank's memory that it is ready, and waits until what this rank reads is."""
        rank, group = execution.rank, execution.group
        awaited = [(peer, group.receive(offer, peer)) for peer, offer in rank.awaited_offers(first)]
        offers = rank.make_offers(first, changed)
        self._report.sent_bytes += sum(len(offer) for _, offer in offers)
        sent = [group.send(offer, peer) for peer, offer in offers]
        for peer, request in awaited:
            request.wait()
            self._checked(rank.accept_offer, first, peer)
        for request in sent:
            request.wait()

    def _checked(self, function: Any, *arguments: int) -> int:
        """The bytes that came; 0 after a fault, of which all ranks are told later."""
        try:
            return function(*arguments) or 0
        except RuntimeError as error:
            self._error = self._error or error
            return 0

    def _unpack(self, rank: Any, round_number: int, messages: list[tuple[int, Any]], advance: Any) -> None:
        for peer, request in messages:
            request.wait()
            if self._error is None:
                self._report.received_bytes += self._checked(rank.unpack, round_number, peer)
        if self._error is None:
            advance(round_number)


def is_below(array: str, name: str) -> bool:
    return array == name or array.startswith(name + ".")
