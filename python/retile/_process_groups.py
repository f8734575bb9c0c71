"""Process groups as this process knows them: who takes part in calls over them, what their backends can do, the store
by which their ranks tell each other what they do, and the thread that makes calls later."""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from retile._errors import InputError

BACKENDS_WITH_TAGS = frozenset({"gloo", "mpi", "ucc"})
BACKENDS_WITHOUT_MESSAGES = frozenset({"threaded", "fake"})


class Participants:
    """Ranks of a process group that make calls together, and the number of their calls. Ranks are those of the
    world."""

    def __init__(self, group: dist.ProcessGroup, ranks: tuple[int, ...]) -> None:
        self.group = group
        self.ranks = ranks
        self.rank = dist.get_rank()
        self.name = hashlib.blake2b(json.dumps(ranks).encode(), digest_size=8).hexdigest()
        self.posted = 0  # the number of calls that the board was told
        self.agreed = 0  # without tags: the number of calls in which the neighbours do the same
        self.latest = Progress(0, 0, "", "")
        self.met: set[int] = set()  # fingerprints of subjects that were moved before
        self.trail: dict[int, Any] = {}  # without tags: the last calls in which they do, and those since
        self.verdict = ""  # without tags: the reason why no further call can be made
        self.positions = {rank: dist.get_group_rank(group, rank) for rank in ranks}

    def __str__(self) -> str:
        return named(self.ranks)

    def place(self, name: Any) -> str:
        """The place on the board of what concerns all calls."""
        return f"retile/{self.name}/{name}"

    def neighbours(self) -> set[int]:
        """The ranks before and behind this one: if all agree with theirs, all agree."""
        position = self.ranks.index(self.rank)
        return {self.ranks[position - 1], self.ranks[(position + 1) % len(self.ranks)]} - {self.rank}


@dataclasses.dataclass(frozen=True)
class Progress:
    """How many calls a rank has made with the same participants, a digest of all of them, what the last one moves, and
    its fault, if nothing was sent because of one."""

    number: int
    digest: int
    text: str
    fault: str


@dataclasses.dataclass
class GroupState:
    """What this process knows about a process group."""

    store: dist.Store
    participants: dict[tuple[int, ...], Participants] = dataclasses.field(default_factory=dict)
    backends: dict[str, str] = dataclasses.field(default_factory=dict)  # names, by type of device
    call: Any = None  # the one in progress
    thread: concurrent.futures.ThreadPoolExecutor | None = None  # makes calls later, one by one
    later: concurrent.futures.Future | None = None  # the last such call
    failures: int = 0  # of the store, one after the other
    rests_until: float = 0.0  # the time until which the store is left alone

    def counts(self) -> dict[str, int]:
        """The number of calls made, by participants."""
        return {one.name: one.latest.number for one in self.participants.values()}


states: dict[dist.ProcessGroup, GroupState] = {}


def group_state(group: dist.ProcessGroup) -> GroupState:
    state = states.get(group)
    if state is None:
        state = states.setdefault(group, GroupState(_board_of(group)))
    return state


def _board_of(group: dist.ProcessGroup) -> dist.Store:
    """The store of the group, by a connection of its own: a wait blocks all threads that share a connection."""
    store = dist.distributed_c10d._world.pg_map[group][1]
    with contextlib.suppress(AttributeError, RuntimeError):  # not every store can be cloned
        return store.clone()
    return store


def store_of(group: dist.ProcessGroup) -> dist.Store:
    return group_state(group).store


def backend_of(group: dist.ProcessGroup, device_type: str) -> str:
    """The name of the backend. Raises InputError where it cannot send messages from such a device to another
    process."""
    known = group_state(group).backends
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
    state = group_state(group)
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
    state = group_state(group)
    if state.thread is None:
        state.thread = concurrent.futures.ThreadPoolExecutor(1, "retile", initializer=_become_later)
    state.later = state.thread.submit(function, *arguments)
    return state.later


_thread = threading.local()


def _become_later() -> None:
    _thread.is_later = True


def finish_later(state: GroupState) -> None:
    """Waits for the calls that were made later. Their errors are raised where their results are used."""
    if state.later is not None and not getattr(_thread, "is_later", False):
        concurrent.futures.wait([state.later])
        state.later = None


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
