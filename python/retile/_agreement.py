"""Agreement between the ranks of a process group that move something together: which calls they make, in which order.

A call has a number, counted by the ranks that take part, and a fingerprint of what is moved. Both are in the tag of its
messages, so that messages of different calls never meet, and while ranks agree nothing else is needed. A rank that has
waited for PATIENCE seconds writes what it does on a board, the store of the process group, and reads what the others
wrote. So all ranks learn within seconds that they disagree, and after the time limit which ranks are missing. A call
that fails breaks the connections of its process group, because nothing else ends the wait for a message.

Messages of backends like NCCL have no tags, and nobody waits for them in Python. There, ranks meet before they move
something for the first time. Later a thread posts the number of this rank's calls with a digest of all of them, and
compares it with what its two neighbours among the participants post. It gives up the participants, and breaks this
rank's connections, in three cases only: digests of the same calls differ, this rank has been in a call for longer than
the time limit and another one has not begun it, or another rank has failed. So ranks that make equal calls are never
given up, however long their devices take and whenever they leave. Once the host has returned from a call, it cannot
tell a device that waits for a rank that never comes from one that has other work to do before: that wait is ended by
the time limit of the backend.
"""

import atexit
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
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from retile import _retile
from retile._errors import InputError
from retile._process_groups import (
    GroupState,
    Participants,
    Progress,
    finish_later,
    group_state,
    has_tags,
    named,
    states,
    store_of,
)

TIME_LIMIT = 60.0  # seconds that a rank waits for the others by default
PATIENCE = 1.0  # seconds of waiting after which a rank looks at the board
PERIOD = 0.5  # seconds between two looks at the board
OLDEST = 10.0  # seconds for which a record on the board is valid; allows for clocks that differ
GRACE = 3.0  # seconds for which a rank whose connections were broken looks for the reason
TAGS = 2**31 - 1  # number of tags, from 0; no message has the last one


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


class Call:
    """One movement in which this rank takes part. With a `fault`, it sends nothing. The digest tells such calls from
    others, so that ranks agree if all of them have a fault."""

    def __init__(
        self, participants: Participants, subject: Subject, time_limit: float, device_type: str, fault: str
    ) -> None:
        self.participants = participants
        self.group = participants.group
        self.subject = subject
        self.number = participants.latest.number + 1
        try:
            self.has_tags = has_tags(self.group, device_type)
        except InputError as error:
            self.has_tags, fault = False, fault or str(error)
        digest = (participants.latest.digest * 0x100000001B3 + subject.fingerprint + bool(fault)) % 2**63
        participants.latest = self.progress = Progress(self.number, digest, subject.text, fault)
        self.tag = (subject.fingerprint + self.number * 0x9E3779B1) % TAGS
        self.time_limit = time_limit
        self.device_type = device_type
        self.began = time.monotonic()
        self.waits_for: int | None = None
        self.verdict = ""  # the reason why the call cannot be finished

    def place(self, name: Any) -> str:
        """The place on the board of a record of this call."""
        return f"retile/{self.participants.name}/{self.number}/{name}"

    def record(self) -> dict[str, Any]:
        """A record of what this rank does."""
        return {
            "time": time.time(),
            "rank": self.participants.rank,
            "participants": self.participants.name,
            "number": self.number,
            "ranks": self.participants.ranks,
            "fingerprint": self.subject.fingerprint,
            "text": self.subject.text,
            "waits_for": self.waits_for,
            "counts": group_state(self.group).counts(),
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
                judge(self, self.time_limit + OLDEST)
            time.sleep(PERIOD / 5)
        return self.verdict or self.tell(f"the connection to rank {peer} broke: {error}")

    def tell(self, fault: str) -> str:
        return f"{fault}\n  in call {self.number} of {self.participants}: {self.subject.text}"


_lock = threading.Lock()
_watcher: threading.Thread | None = None
_ending = threading.Event()


@contextlib.contextmanager
def calling(
    participants: Participants, subject: Subject, time_limit: float, device_type: str, fault: str = ""
) -> Iterator[Call]:
    """A context in which this rank makes a call. If it fails for any reason, the other ranks are told. A `fault` of the
    input is raised before anything is sent: if all ranks have one, the group can still be used."""
    state = group_state(participants.group)
    finish_later(state)
    with _lock:
        if state.call is not None:
            raise InputError(
                "another thread moves a tensor over this process group\n"
                "hint: give each thread a group of its own, group=torch.distributed.new_group()"
            )
        call = state.call = Call(participants, subject, time_limit, device_type, fault)
        if not (call.has_tags or participants.verdict):
            participants.trail[call.number] = call
        if _watcher is None:
            _start_watcher()
    try:
        if call.progress.fault:
            raise InputError(call.progress.fault)
        if call.has_tags:
            yield call
        else:
            yield from _without_tags(call)
    except BaseException as error:
        call.verdict = call.verdict or str(error) or type(error).__name__
        if call.has_tags:
            with contextlib.suppress(RuntimeError):
                write(call)
        elif not call.progress.fault:
            give_up(participants, call.verdict)
        raise
    finally:
        state.call = None


def _without_tags(call: Call) -> Iterator[Call]:
    """The call over a backend without tags. Raises AgreementError, also if it was an earlier call that failed."""
    participants = call.participants
    if participants.verdict:
        raise AgreementError(participants.verdict)
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
    store.set(f"retile/{call.participants.rank}", json.dumps(call.record()))
    if call.verdict:  # the first failure is the reason
        store.compare_set(call.place("failure"), "", json.dumps(call.record()))


def post(participants: Participants) -> None:
    latest = participants.latest
    if latest.number != participants.posted:
        place = participants.place(f"progress/{participants.rank}")
        store_of(participants.group).set(place, json.dumps(dataclasses.astuple(latest)))
        participants.posted = latest.number


def progress_of(participants: Participants, rank: int) -> Progress:
    """What a rank last posted, within PERIOD of its last call."""
    store, place = store_of(participants.group), participants.place(f"progress/{rank}")
    return Progress(*json.loads(store.get(place))) if store.check([place]) else Progress(0, 0, "", "")


def read(store: dist.Store, place: str, oldest: float = OLDEST) -> dict[str, Any] | None:
    """The record at a place, if it is at most so many seconds old."""
    record = json.loads(store.get(place)) if store.check([place]) else None
    return record if record is not None and abs(time.time() - record["time"]) < oldest else None


def judge(call: Call, oldest_failure: float = OLDEST) -> None:
    """Sets the verdict if the call cannot be finished."""
    store = store_of(call.group)
    failed = read(store, call.place("failure"), oldest_failure)
    fault = "" if failed is None else f"rank {failed['rank']} failed: {failed['verdict']}"
    peer = None if call.waits_for is None else read(store, f"retile/{call.waits_for}")
    if not fault and peer is not None:
        fault = find_disagreement(call, peer)
    fault = fault or find_missing(call)
    if fault:
        call.verdict = call.tell(fault)


def find_disagreement(call: Call, peer: dict[str, Any]) -> str:
    """The reason why this rank and the one it waits for cannot both finish what they do; empty where they can."""
    name, number = peer["participants"], peer["number"]
    if name == call.participants.name:  # if numbers differ, one rank is behind
        is_other = number == call.number and peer["fingerprint"] != call.subject.fingerprint
        return f"ranks disagree: rank {peer['rank']} moves {peer['text']}" if is_other else ""
    own = group_state(call.group).counts()
    is_this_call_to_come = peer["counts"].get(call.participants.name, 0) < call.number
    if call.participants.rank not in peer["ranks"] or own.get(name, 0) >= number or not is_this_call_to_come:
        return ""
    return f"ranks disagree: rank {peer['rank']} is in call {number} of {named(peer['ranks'])}: {peer['text']}"


def find_missing(call: Call) -> str:
    """Names all ranks that have not made the call within its time limit, and what they do instead. Ranks that have may
    post it a little later."""
    if time.monotonic() - call.began < call.time_limit + 2 * PERIOD:
        return ""
    store, participants = store_of(call.group), call.participants
    others = [rank for rank in participants.ranks if rank != participants.rank]
    missing = [rank for rank in others if progress_of(participants, rank).number < call.number]
    if not missing:
        return ""
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


# --- The watcher: a thread that looks at the board for calls that take long.


def _start_watcher() -> None:
    global _watcher
    _watcher = threading.Thread(target=_watch, name="retile", daemon=True)
    _watcher.start()
    atexit.register(_end_watcher)


def _end_watcher() -> None:
    """Lets it post the last calls of this process, if the store answers soon."""
    if _watcher is not None:
        _ending.set()
        _watcher.join(1)


def _forget() -> None:  # in a forked process, which has no such thread
    global _watcher, _ending
    _watcher, _ending = None, threading.Event()
    states.clear()


os.register_at_fork(after_in_child=_forget)


def _watch() -> None:
    is_ending = False
    while not is_ending:
        is_ending = _ending.wait(PERIOD)
        for group, state in list(states.items()):
            if time.monotonic() >= state.rests_until:
                _look_after(state, is_ending)
            if group not in dist.distributed_c10d._world.pg_map:
                states.pop(group, None)  # it was destroyed


def _look_after(state: GroupState, is_ending: bool) -> None:
    try:
        for participants in list(state.participants.values()):
            post(participants)
        if not is_ending:
            _find_failures(state)
        state.failures = 0
    except RuntimeError:  # the store did not answer: it may do later, or is gone with the process that has it
        state.rests_until = time.monotonic() + PERIOD * 2**state.failures
        state.failures += 1


def _find_failures(state: GroupState) -> None:
    for participants in list(state.participants.values()):
        if not participants.verdict:
            compare(participants)
    call = state.call
    if call is not None and call.has_tags and not call.verdict and time.monotonic() - call.began > PATIENCE:
        write(call)
        judge(call)
        if call.verdict and state.call is call:
            write(call)
            break_connections(call)


def break_connections(call: Call) -> None:
    """Ends this rank's waits. Over gloo, one message that times out gives up all of them."""
    if group_state(call.group).backends.get(call.device_type) != "gloo":
        with contextlib.suppress(AttributeError, RuntimeError):  # older versions leave it to the backend's own limit
            call.group._get_backend(torch.device(call.device_type)).abort()
        return
    nothing = torch.empty(1, dtype=torch.uint8)
    for rank, position in call.participants.positions.items():
        if rank != call.participants.rank:
            with contextlib.suppress(RuntimeError):  # nothing times out where the connection is broken already
                call.group.recv([nothing], position, TAGS).wait(datetime.timedelta(milliseconds=1))


# --- Without tags, ranks are compared later: where they disagree, messages may have been mixed up, or wait for ever.


def compare(participants: Participants) -> None:
    """Gives up if another rank has failed, a neighbour makes other calls, or this rank waits for one that stays away."""
    calls = list(participants.trail.values())
    if not calls:
        return
    verdict = find_failure(participants) or find_difference(participants, calls[-1]) or find_wait(participants)
    if verdict:
        give_up(participants, verdict)
        logging.getLogger("retile").error(verdict)
        break_connections(calls[-1])
        return
    for call in calls:
        is_old = time.monotonic() - call.began > call.time_limit + OLDEST  # all others have been told by now, too
        if call.number < participants.agreed or (call.number == participants.agreed and is_old):
            del participants.trail[call.number]


def find_failure(participants: Participants) -> str:
    store, place = store_of(participants.group), participants.place("failure")
    if not store.check([place]):
        return ""
    rank, verdict = json.loads(store.get(place))
    return f"rank {rank} failed: {verdict}"


def find_difference(participants: Participants, last: Call) -> str:
    """How a neighbour's calls differ from this rank's, the last of which is given. Where they do not, notes how many
    agree."""
    if participants.agreed == last.number:
        return ""
    agreed = participants.posted
    for rank in participants.neighbours():
        theirs = progress_of(participants, rank)
        own = participants.trail.get(theirs.number)
        if own is not None and own.progress.digest != theirs.digest:
            failed, fault = (rank, theirs.fault) if theirs.fault else (participants.rank, own.progress.fault)
            reason = f"rank {failed} failed: {fault}" if fault else f"ranks disagree: rank {rank} moves {theirs.text}"
            return own.tell(reason)
        agreed = min(agreed, theirs.number)
    participants.agreed = agreed
    return ""


def find_wait(participants: Participants) -> str:
    """Names the ranks that do not come, if this rank is in a call for longer than its time limit."""
    state = group_state(participants.group)
    call = state.call
    if call is None or participants.trail.get(call.number) is not call or call.number <= participants.agreed:
        return ""
    missing = find_missing(call)
    return call.tell(missing) if missing and state.call is call else ""


def give_up(participants: Participants, verdict: str) -> None:
    participants.verdict = participants.verdict or verdict
    record = json.dumps([participants.rank, verdict])
    with contextlib.suppress(RuntimeError):  # connections are broken even if the store is gone
        store_of(participants.group).compare_set(participants.place("failure"), "", record)


# --- Without tags, ranks meet before they move something for the first time: connections are made then.


def meet(call: Call) -> None:
    """Returns when all ranks have made the call. Raises AgreementError."""
    participants, own = call.participants, call.subject.fingerprint
    if own in participants.met:
        return
    store, place = store_of(call.group), call.place
    first = store.compare_set(place("first"), "", json.dumps([own, call.subject.text, participants.rank]))
    fingerprint, text, rank = json.loads(first)
    if fingerprint != own:
        raise AgreementError(call.tell(f"ranks disagree: rank {rank} moves {text}"))
    if store.add(place("count"), 1) == len(participants.ranks):
        store.set(place("end"), "")
    pause = 0.001
    while not store.check([place("end")]):  # a wait would block the other threads that use the store
        if participants.verdict:
            raise AgreementError(participants.verdict)
        if time.monotonic() - call.began > call.time_limit + GRACE:  # and all of them have begun the call
            raise AgreementError(call.tell(f"ranks waited for each other for {call.time_limit:g} s"))
        time.sleep(pause)
        pause = min(2 * pause, PERIOD / 5)
    participants.met.add(own)
