"""Agreement between the ranks of a process group that move something together: which calls they make, in which order.

A call has a number, counted by the ranks that take part, and a fingerprint of what is moved. Both are in the tag of its
messages, so that messages of different calls never meet, and while ranks agree nothing else is needed. A rank that has
waited for PATIENCE seconds writes what it does on a board, the store of the process group, and reads what the others
wrote. So all ranks learn within seconds that they disagree, and after the time limit which ranks are missing. A call
that fails breaks the connections of its process group, because nothing else ends the wait for a message.

Messages of backends like NCCL have no tags, and nobody waits for them in Python. There, ranks meet before they move
something for the first time. Later a thread posts the number of this rank's calls with a digest of all of them, compares
it with what its two neighbours among the participants post, and breaks the connections where they differ or stay behind.
"""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import functools
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from retile import _retile
from retile._errors import InputError

TIME_LIMIT = 60.0  # seconds that a rank waits for the others by default
PATIENCE = 1.0  # seconds of waiting after which a rank looks at the board
PERIOD = 0.5  # seconds between two looks at the board
OLDEST = 10.0  # seconds for which a record on the board is valid; allows for clocks that differ
GRACE = 3.0  # seconds for which a rank whose connections were broken looks for the reason
TAGS = 2**31 - 1  # number of tags, from 0; no message has the last one
BACKENDS_WITH_TAGS = frozenset({"gloo", "mpi", "ucc"})
BACKENDS_WITHOUT_MESSAGES = frozenset({"threaded", "fake"})


class AgreementError(RuntimeError):
    """Raised if ranks do not take part in one call. The message names them, and says what they did instead."""

    __module__ = "retile.torch"


@dataclasses.dataclass(frozen=True)
class Subject:
    """The data that a call moves, the same for all ranks that take part."""

    text: str

    @functools.cached_property
    def fingerprint(self) -> int:
        return int.from_bytes(hashlib.blake2b(f"{_retile.__version__} {self.text}".encode(), digest_size=7).digest())


class Participants:
    """Ranks of a process group that make calls together, and the number of their calls. Ranks are those of the
    world."""

    def __init__(self, group: dist.ProcessGroup, ranks: tuple[int, ...]) -> None:
        self.group = group
        self.ranks = ranks
        self.name = hashlib.blake2b(json.dumps(ranks).encode(), digest_size=8).hexdigest()
        self.calls = 0
        self.digest = 0  # of all calls
        self.posted = 0  # the number of calls that the board was told
        self.agreed = 0  # without tags: the number of calls in which the neighbours do the same
        self.latest = Progress(0, 0, "")
        self.met: set[int] = set()  # fingerprints of subjects that were moved before
        self.trail: dict[int, Call] = {}  # without tags: the last calls in which they do, and those since
        self.verdict = ""  # without tags: the reason why no further call can be made
        self.positions = {rank: dist.get_group_rank(group, rank) for rank in ranks}

    def __str__(self) -> str:
        return named(self.ranks)

    def place(self, name: Any) -> str:
        """The place on the board of what concerns all calls."""
        return f"retile/{self.name}/{name}"

    def neighbours(self) -> set[int]:
        """The ranks before and behind this one: if all agree with theirs, all agree."""
        rank = dist.get_rank()
        position = self.ranks.index(rank)
        return {self.ranks[position - 1], self.ranks[(position + 1) % len(self.ranks)]} - {rank}


@dataclasses.dataclass(frozen=True)
class Progress:
    """How many calls a rank has made with the same participants, a digest of all of them, and what the last one
    moves."""

    number: int
    digest: int
    text: str


class Call:
    """One movement in which this rank takes part."""

    def __init__(self, participants: Participants, subject: Subject, time_limit: float) -> None:
        participants.calls += 1
        self.participants = participants
        self.group = participants.group
        self.subject = subject
        self.number = participants.calls
        participants.digest = (participants.digest * 0x100000001B3 + subject.fingerprint) % 2**63
        participants.latest = Progress(self.number, participants.digest, subject.text)
        self.digest = participants.digest
        self.tag = (subject.fingerprint + self.number * 0x9E3779B1) % TAGS
        self.time_limit = time_limit
        self.began = time.monotonic()
        self.is_watched = False  # false where there are no tags: then ranks meet instead
        self.waits_for: int | None = None
        self.verdict = ""  # the reason why the call cannot be finished

    def place(self, name: Any) -> str:
        """The place on the board of a record of this call."""
        return f"retile/{self.participants.name}/{self.number}/{name}"

    def record(self) -> dict[str, Any]:
        """A record of what this rank does."""
        return {
            "time": time.time(),
            "rank": dist.get_rank(),
            "participants": self.participants.name,
            "number": self.number,
            "ranks": self.participants.ranks,
            "fingerprint": self.subject.fingerprint,
            "text": self.subject.text,
            "waits_for": self.waits_for,
            "counts": _group_state(self.group).counts(),
            "verdict": self.verdict,
        }

    def begin(self, start: Any, tensor: torch.Tensor, peer: int) -> tuple[dist.Work, int]:
        """Starts a message to or from a peer. `start` is `send` or `recv` of the group. Raises AgreementError."""
        try:
            return start([tensor], self.participants.positions[peer], self.tag), peer
        except RuntimeError as error:
            raise AgreementError(self.reason(peer, error)) from error

    def wait(self, work: dist.Work, peer: int) -> None:
        """Waits until the work is done. Raises AgreementError."""
        self.waits_for = peer
        try:
            work.wait(datetime.timedelta(seconds=self.time_limit + GRACE))
        except RuntimeError as error:
            raise AgreementError(self.reason(peer, error)) from error

    def reason(self, peer: int, error: Exception) -> str:
        """The reason why a wait ended early: the verdict, or that of the rank that broke the connection."""
        end = time.monotonic() + GRACE
        while not self.verdict and time.monotonic() < end:
            with contextlib.suppress(RuntimeError):  # the store may be gone
                judge(self, oldest_failure=self.time_limit + OLDEST)
            time.sleep(PERIOD / 5)
        return self.verdict or self.tell(f"the connection to rank {peer} broke: {error}")

    def tell(self, fault: str) -> str:
        return f"{fault}\n  in call {self.number} of {self.participants}: {self.subject.text}"


@dataclasses.dataclass
class GroupState:
    """What this process knows about a process group."""

    participants: dict[tuple[int, ...], Participants] = dataclasses.field(default_factory=dict)
    backends: dict[str, str] = dataclasses.field(default_factory=dict)  # names, by type of device
    call: Call | None = None  # the one in progress
    thread: concurrent.futures.ThreadPoolExecutor | None = None  # makes calls later, one by one
    later: concurrent.futures.Future | None = None  # the last such call
    has_board: bool = True  # false once the store is gone, with the process that has it

    def counts(self) -> dict[str, int]:
        """The number of calls made, by participants."""
        return {one.name: one.calls for one in self.participants.values()}


_states: dict[dist.ProcessGroup, GroupState] = {}
_lock = threading.Lock()
_watcher: threading.Thread | None = None


def _group_state(group: dist.ProcessGroup) -> GroupState:
    state = _states.get(group)
    if state is None:
        for other in [one for one in _states if one not in dist.distributed_c10d._world.pg_map]:
            del _states[other]  # it was destroyed
        state = _states[group] = GroupState()
    return state


def store_of(group: dist.ProcessGroup) -> dist.Store:
    return dist.distributed_c10d._world.pg_map[group][1]


def backend_of(group: dist.ProcessGroup, device_type: str) -> str:
    """The name of the backend. Raises InputError where it cannot send messages from such a device to another
    process."""
    known = _group_state(group).backends
    if device_type not in known:
        try:
            known[device_type] = group._get_backend(torch.device(device_type)).name()
        except RuntimeError:
            raise InputError(f"the process group has no backend for tensors on {device_type}") from None
    if known[device_type] in BACKENDS_WITHOUT_MESSAGES:
        raise InputError(f"the backend '{known[device_type]}' has no messages between processes")
    return known[device_type]


def has_tags(group: dist.ProcessGroup, device_type: str) -> bool:
    return backend_of(group, device_type) in BACKENDS_WITH_TAGS


def participants_of(group: dist.ProcessGroup, ranks: tuple[int, ...]) -> Participants:
    """These ranks of the group as participants. Raises InputError where some are not in the group."""
    state = _group_state(group)
    found = state.participants.get(ranks)
    if found is None:
        members = set(dist.get_process_group_ranks(group))
        absent = [rank for rank in ranks if rank not in members]
        if absent:
            raise InputError(
                f"the process group of {named(sorted(members))} has no {named(absent)}, which a mesh names"
            )
        found = state.participants[ranks] = Participants(group, ranks)
    return found


# --- Calls that a thread makes later. Every rank makes the calls of a group in one order, so that a call made at once
# waits for these.


def has_thread(group: dist.ProcessGroup, device_type: str) -> bool:
    """Whether calls can be made later: for tensors in the host's memory, over backends whose messages have tags."""
    return device_type == "cpu" and has_tags(group, device_type)


def call_later(group: dist.ProcessGroup, function: Callable, *arguments: Any) -> concurrent.futures.Future:
    """Runs a function that makes one call on the group's thread, and returns a future of its result."""
    state = _group_state(group)
    if state.thread is None:
        state.thread = concurrent.futures.ThreadPoolExecutor(1, "retile", initializer=_become_later)
    state.later = state.thread.submit(function, *arguments)
    return state.later


_thread = threading.local()


def _become_later() -> None:
    _thread.is_later = True


def _finish_later(state: GroupState) -> None:
    """Waits for the calls that were made later. Their errors are raised where their results are used."""
    if state.later is not None and not getattr(_thread, "is_later", False):
        concurrent.futures.wait([state.later])
        state.later = None


@contextlib.contextmanager
def calling(participants: Participants, subject: Subject, time_limit: float, device_type: str) -> Iterator[Call]:
    """A context in which this rank makes a call. If it fails for any reason, the other ranks are told."""
    state = _group_state(participants.group)
    _finish_later(state)
    with _lock:
        if state.call is not None:
            raise InputError(
                "another thread moves a tensor over this process group\n"
                "hint: give each thread a group of its own, group=torch.distributed.new_group()"
            )
        call = state.call = Call(participants, subject, time_limit)
        if _watcher is None:
            _start_watcher()
    try:
        call.is_watched = has_tags(participants.group, device_type)
        if call.is_watched:
            yield call
        else:
            yield from _without_tags(call)
    except BaseException as error:
        call.verdict = call.verdict or str(error) or type(error).__name__
        with contextlib.suppress(RuntimeError):
            write(call)
        raise
    finally:
        state.call = None


def _without_tags(call: Call) -> Iterator[Call]:
    """The call over a backend without tags. Raises AgreementError, also if it was an earlier call that failed."""
    participants = call.participants
    if participants.verdict:
        raise AgreementError(participants.verdict)
    participants.trail[call.number] = call
    try:
        meet(call)
        yield call
    except AgreementError:
        raise
    except RuntimeError as error:
        end = time.monotonic() + GRACE
        while not participants.verdict and time.monotonic() < end:  # another rank broke the connection for a reason
            time.sleep(PERIOD / 5)
        if participants.verdict:
            raise AgreementError(participants.verdict) from error
        raise


# --- The board. Records are rewritten while they are true, so that an old one means nothing.


def write(call: Call) -> None:
    store = store_of(call.group)
    store.set(f"retile/{dist.get_rank()}", json.dumps(call.record()))
    if call.verdict:  # the first failure is the reason
        store.compare_set(call.place("failure"), "", json.dumps(call.record()))
        if not call.is_watched:
            give_up(call.participants, call.verdict)


def post(participants: Participants) -> None:
    latest = participants.latest
    if latest.number != participants.posted:
        place = participants.place(f"progress/{dist.get_rank()}")
        store_of(participants.group).set(place, json.dumps(dataclasses.astuple(latest)))
        participants.posted = latest.number


def progress_of(participants: Participants, rank: int) -> Progress:
    """What a rank last posted, within PERIOD of its last call."""
    store, place = store_of(participants.group), participants.place(f"progress/{rank}")
    return Progress(*json.loads(store.get(place))) if store.check([place]) else Progress(0, 0, "")


def read(store: dist.Store, place: str, oldest: float = OLDEST) -> dict[str, Any] | None:
    """The record at a place, if it is at most so many seconds old."""
    record = json.loads(store.get(place)) if store.check([place]) else None
    return record if record is not None and abs(time.time() - record["time"]) < oldest else None


def judge(call: Call, *, is_over: bool = False, oldest_failure: float = OLDEST) -> None:
    """Sets the verdict if the call cannot be finished. `is_over` says that its time limit has passed."""
    store = store_of(call.group)
    failed = read(store, call.place("failure"), oldest_failure)
    fault = "" if failed is None else f"rank {failed['rank']} failed: {failed['verdict']}"
    peer = None if call.waits_for is None else read(store, f"retile/{call.waits_for}")
    if not fault and peer is not None:
        fault = find_disagreement(call, peer)
    if not fault and is_over:
        fault = find_missing(call)
    if fault:
        call.verdict = call.tell(fault)


def find_disagreement(call: Call, peer: dict[str, Any]) -> str:
    """The reason why this rank and the one it waits for cannot both finish what they do; empty where they can."""
    name, number = peer["participants"], peer["number"]
    if name == call.participants.name:  # if numbers differ, one rank is behind
        is_other = number == call.number and peer["fingerprint"] != call.subject.fingerprint
        return f"ranks disagree: rank {peer['rank']} moves {peer['text']}" if is_other else ""
    own = _group_state(call.group).counts()
    is_this_call_to_come = peer["counts"].get(call.participants.name, 0) < call.number
    if dist.get_rank() not in peer["ranks"] or own.get(name, 0) >= number or not is_this_call_to_come:
        return ""
    return f"ranks disagree: rank {peer['rank']} is in call {number} of {named(peer['ranks'])}: {peer['text']}"


def find_missing(call: Call) -> str:
    """Names all ranks that have not made the call, and what they do instead."""
    store, participants = store_of(call.group), call.participants
    others = [rank for rank in participants.ranks if rank != dist.get_rank()]
    missing = [rank for rank in others if progress_of(participants, rank).number < call.number]
    if not missing:
        return f"ranks waited for each other for {call.time_limit:g} s"
    records = [read(store, f"retile/{rank}") for rank in missing]
    elsewhere = "".join(
        f"\n  rank {record['rank']} is in call {record['number']} of {named(record['ranks'])}"
        for record in records
        if record is not None
    )
    return (
        f"{named(missing)} did not take part within {call.time_limit:g} s{elsewhere}\n"
        "hint: every rank of both meshes makes the call, and enabled() is entered by all ranks or by none"
    )


def named(ranks: Any) -> str:
    """A text such as `ranks 0 to 3, 7`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(texts)}"


# --- The watcher: a thread that looks at the board for calls that take long.


def _start_watcher() -> None:
    global _watcher
    _watcher = threading.Thread(target=_watch, name="retile", daemon=True)
    _watcher.start()


def _forget() -> None:  # in a forked process, which has no such thread
    global _watcher
    _watcher = None
    _states.clear()


os.register_at_fork(after_in_child=_forget)


def _watch() -> None:
    while True:
        time.sleep(PERIOD)
        for state in list(_states.values()):
            if state.has_board:
                try:
                    _look_after(state)
                except (RuntimeError, KeyError, ValueError):  # the store, the group or all of them are gone
                    state.has_board = False


def _look_after(state: GroupState) -> None:
    for participants in list(state.participants.values()):
        post(participants)
        if not participants.verdict:
            compare(participants)
    call = state.call
    if call is not None and call.is_watched and not call.verdict and time.monotonic() - call.began > PATIENCE:
        write(call)
        judge(call, is_over=time.monotonic() - call.began > call.time_limit)
        if call.verdict and state.call is call:
            write(call)
            break_connections(call.participants)


def break_connections(participants: Participants) -> None:
    """Ends this rank's waits. Over gloo, one message that times out gives up all of them."""
    if "gloo" not in _group_state(participants.group).backends.values():
        with contextlib.suppress(AttributeError, RuntimeError):  # older versions leave it to the backend's own limit
            participants.group.abort()
        return
    nothing = torch.empty(1, dtype=torch.uint8)
    for rank, position in participants.positions.items():
        if rank != dist.get_rank():
            with contextlib.suppress(RuntimeError):  # nothing times out where the connection is broken already
                participants.group.recv([nothing], position, TAGS).wait(datetime.timedelta(milliseconds=1))


# --- Without tags, ranks are compared later: where they disagree, messages may have been mixed up, or wait for ever.


def compare(participants: Participants) -> None:
    """Compares this rank's calls with those of its neighbours, and gives up where they differ or stay behind."""
    calls = list(participants.trail.values())
    if not calls:
        return
    now, last = time.monotonic(), calls[-1]
    if participants.agreed == last.number and now - last.began > last.time_limit + OLDEST:
        participants.trail.clear()  # all others have been told by now, too
        return
    store, place = store_of(participants.group), participants.place("failure")
    if store.check([place]):
        rank, verdict = json.loads(store.get(place))
        fault = f"rank {rank} failed: {verdict}"
        break_off(participants, fault, fault)
        return
    if participants.agreed == last.number or now - calls[0].began < PATIENCE:
        return
    agreed = participants.posted
    for rank in participants.neighbours():
        theirs = progress_of(participants, rank)
        own = participants.trail.get(theirs.number)
        if own is not None and own.digest != theirs.digest:
            fault = f"ranks disagree: rank {rank} moves {theirs.text}"
            break_off(participants, fault, own.tell(fault))
            return
        agreed = min(agreed, theirs.number)
    participants.agreed = agreed
    for call in calls:
        if call.number < agreed:
            del participants.trail[call.number]
        elif call.number > agreed and now - call.began > call.time_limit:
            fault = find_missing(call)
            break_off(participants, fault, call.tell(fault))
            return


def break_off(participants: Participants, fault: str, verdict: str) -> None:
    """Ends all calls: the one in progress, messages that a device still waits for, and calls to come."""
    call = _group_state(participants.group).call
    if call is not None and call.participants is participants:
        call.verdict = call.verdict or verdict
        store_of(participants.group).set(call.place("end"), fault)  # for ranks that wait to meet
    give_up(participants, verdict)
    logging.getLogger("retile").error(verdict)
    break_connections(participants)


def give_up(participants: Participants, verdict: str) -> None:
    participants.verdict = participants.verdict or verdict
    record = json.dumps([dist.get_rank(), verdict])
    store_of(participants.group).compare_set(participants.place("failure"), "", record)


# --- Without tags, ranks meet before they move something for the first time: connections are made then.


def meet(call: Call) -> None:
    """Returns when all ranks have made the call. Raises AgreementError."""
    if call.subject.fingerprint in call.participants.met:
        return
    store, place = store_of(call.group), call.place
    own = json.dumps([call.subject.fingerprint, call.subject.text, dist.get_rank()])
    fingerprint, text, rank = json.loads(store.compare_set(place("first"), "", own))
    if fingerprint != call.subject.fingerprint:
        store.set(place("end"), f"ranks disagree: rank {dist.get_rank()} moves {call.subject.text}")
        raise AgreementError(call.tell(f"ranks disagree: rank {rank} moves {text}"))
    store.set(place(dist.get_rank()), "")
    if store.add(place("count"), 1) == len(call.participants.ranks):
        store.set(place("end"), "")
    try:
        store.wait([place("end")], datetime.timedelta(seconds=call.time_limit))
    except RuntimeError:
        missing = [rank for rank in call.participants.ranks if not store.check([place(rank)])]
        raise AgreementError(call.tell(f"{named(missing)} did not take part within {call.time_limit:g} s")) from None
    if call.verdict:
        raise AgreementError(call.verdict)
    fault = store.get(place("end")).decode()
    if fault:
        raise AgreementError(call.tell(fault))
    call.participants.met.add(call.subject.fingerprint)
