"""What ranks of `retile.torch` are told where they do not agree, as every rank of eight sees it. Run by test_torch.py.

A call that fails breaks the connections of its group, so that each case has a group of its own.
"""

import contextlib
import datetime
import threading
import time
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch_cases import DEVICE, assert_moved, mesh_of, message_of, put, slice_of, tensor_of

import retile
from retile import _agreement, _point_to_point, _process_groups
from retile.torch import AgreementError, enabled, redistribute

CASES = []
ROWS, COLUMNS = [Shard(0)], [Shard(1)]
SECONDS = 20  # within which every rank is told, also on a machine that has much else to do
ROWS_TO_COLUMNS = "from (Shard(dim=0),) to (Shard(dim=1),) on mesh {dim_0: 8} of ranks 0 to 7"


def case(function):
    CASES.append(function)
    return function


def rows_of(tensor, mesh=None):
    return put(tensor, mesh or mesh_of(8), ROWS)


def told(function, *arguments, error=AgreementError, **keywords):
    """What a rank is told, and that it does not take long."""
    start = time.monotonic()
    message = message_of(function, *arguments, error=error, **keywords)
    assert time.monotonic() - start < SECONDS, message
    return message


WRONG_TILE = "this rank's tile has shape [3, 24], and (Shard(dim=0),) makes it [2, 24]"


def assert_wrong_tile_is_told(group):
    """One rank has it, and all are told."""
    tensor = tensor_of(16, 24)
    if dist.get_rank() == 2:
        faulty = put(tensor, mesh_of(8), ROWS, torch.zeros(3, 24))
        assert told(redistribute, faulty, COLUMNS, group=group, error=retile.InputError) == WRONG_TILE
    else:
        message = told(redistribute, rows_of(tensor), COLUMNS, group=group)
        assert f"rank 2 failed: {WRONG_TILE}" in message, message


# --- Ranks that disagree.


@case
def other_elements_are_told():
    group, is_other = dist.new_group(), dist.get_rank() == 3
    tensor = tensor_of(16, 24, dtype=torch.bfloat16 if is_other else torch.float32)
    message = told(redistribute, rows_of(tensor), COLUMNS, group=group)
    assert "ranks disagree: rank " in message, message
    assert f"bfloat16[16, 24] {ROWS_TO_COLUMNS}" in message and f"float32[16, 24] {ROWS_TO_COLUMNS}" in message


@case
def other_elements_of_an_empty_source_are_told():
    group, is_sender = dist.new_group(), dist.get_rank() < 4
    trainers, servers = mesh_of(4), mesh_of(4, ranks=[4, 5, 6, 7])
    tensor = tensor_of(8, 12, dtype=torch.bfloat16)
    local = None if is_sender else torch.empty(0)  # of the default type
    dt = put(tensor, trainers, ROWS, local)
    message = told(redistribute, dt, servers, COLUMNS, group=group)
    assert "ranks disagree" in message and "bfloat16[8, 12]" in message and "float32[8, 12]" in message, message


@case
def other_orders_of_calls_are_told():
    group, tensor = dist.new_group(), tensor_of(16, 24)
    targets = [COLUMNS, [Replicate()]] if dist.get_rank() < 4 else [[Replicate()], COLUMNS]

    def call():
        for target in targets:
            redistribute(rows_of(tensor), target, group=group)

    message = told(call)
    assert "ranks disagree" in message and "in call 1 of ranks 0 to 7: float32[16, 24] from" in message, message


@case
def other_meshes_of_calls_are_told():
    group, tensor, pair = dist.new_group(), tensor_of(16, 24), mesh_of(2)
    dt = rows_of(tensor, pair if dist.get_rank() == 0 else None)
    message = told(redistribute, dt, COLUMNS, group=group, time_limit=SECONDS)
    assert "ranks disagree" in message, message
    if dist.get_rank() == 0:
        assert "rank 1 is in call 1 of ranks 0 to 7" in message, message


@case
def tiles_that_are_not_those_of_their_layouts_are_told():
    assert_wrong_tile_is_told(dist.new_group())


# --- Ranks that do not come.


@case
def missing_ranks_are_named():
    group, tensor = dist.new_group(), tensor_of(16, 24)
    if dist.get_rank() == 5:
        return
    message = told(redistribute, rows_of(tensor), COLUMNS, group=group, time_limit=3)
    assert "rank 5 did not take part within 3 s\nhint" in message, message
    assert f"in call 1 of ranks 0 to 7: float32[16, 24] {ROWS_TO_COLUMNS}" in message


@case
def all_missing_ranks_are_named():
    group, tensor = dist.new_group(), tensor_of(16, 24)
    if dist.get_rank() in (2, 3, 6):
        return
    message = told(redistribute, rows_of(tensor), COLUMNS, group=group, time_limit=3)
    assert "ranks 2 to 3, 6 did not take part within 3 s\nhint" in message, message


@case
def ranks_that_call_less_often_are_named():
    group, tensor = dist.new_group(), tensor_of(16, 24)
    moved = redistribute(rows_of(tensor), COLUMNS, group=group)
    assert_moved(moved, tensor, moved.device_mesh, COLUMNS)
    if dist.get_rank() != 0:
        message = told(redistribute, rows_of(tensor), COLUMNS, group=group, time_limit=3)
        assert "rank 0 did not take part within 3 s" in message and "in call 2 of ranks 0 to 7" in message, message


@case
def ranks_where_plans_are_not_enabled_are_named():
    group, tensor = dist.new_group(), tensor_of(16, 24)
    if dist.get_rank() == 6:
        return
    with enabled(group=group, time_limit=3):
        message = told(rows_of(tensor).redistribute, placements=COLUMNS)
    assert "rank 6 did not take part within 3 s" in message, message
    assert message.count("enabled() is entered by all ranks or by none") >= 1


@case
def ranks_that_come_late_are_waited_for():
    group, tensor, mesh = dist.new_group(), tensor_of(16, 24), mesh_of(8)
    if dist.get_rank() == 4:
        time.sleep(3 * _agreement.PATIENCE)
    assert_moved(redistribute(rows_of(tensor), COLUMNS, group=group), tensor, mesh, COLUMNS)


@case
def calls_of_some_ranks_are_counted_apart():
    group, tensor = dist.new_group(), tensor_of(16, 24)
    halves = [mesh_of(4), mesh_of(4, ranks=[4, 5, 6, 7])]
    own = halves[dist.get_rank() // 4]
    for _ in range(2 + 3 * (dist.get_rank() // 4)):
        assert_moved(redistribute(rows_of(tensor, own), COLUMNS, group=group), tensor, own, COLUMNS)
    moved = redistribute(put(tensor, halves[0], ROWS), halves[1], COLUMNS, group=group)
    if dist.get_rank() >= 4:
        assert_moved(moved, tensor, halves[1], COLUMNS)


@case
def ranks_that_take_long_in_a_call_are_waited_for():
    group, tensor, mesh = dist.new_group(), tensor_of(16, 24), mesh_of(8)
    move = _point_to_point.move

    def late_move(*arguments):
        time.sleep(2.5 if dist.get_rank() == 4 else 0)
        return move(*arguments)

    with mock.patch.object(_point_to_point, "move", late_move):
        moved = redistribute(rows_of(tensor), COLUMNS, group=group, time_limit=1)
    assert_moved(moved, tensor, mesh, COLUMNS)


@case
def ranks_that_come_at_the_last_moment_have_time_to_tell():
    participants = _process_groups.Participants(dist.new_group(), tuple(range(8)))
    call = _agreement.Call(participants, _agreement.Subject("a tensor"), 60, DEVICE, "")
    for seconds, is_told in ((60.2, False), (62, True)):
        call.began = time.monotonic() - seconds
        _agreement.judge(call)
        assert ("did not take part within 60 s" in call.verdict) == is_told, call.verdict


@case
def waits_end_on_the_backend_of_the_call():
    group = mock.Mock()
    backends = {"cpu": "gloo", "cuda": "nccl"}
    _process_groups.states[group] = _process_groups.GroupState(mock.Mock(), backends=backends)
    _agreement.break_connections(mock.Mock(group=group, device_type="cuda"))
    group._get_backend.assert_called_once_with(torch.device("cuda"))
    group._get_backend.return_value.abort.assert_called_once_with()
    group.recv.assert_not_called()


# --- Backends without tags: ranks meet when they move something for the first time.


def without_tags():
    return mock.patch.object(_process_groups, "BACKENDS_WITH_TAGS", frozenset())


@case
def ranks_meet_where_there_are_no_tags():
    group, other_group, tensor, mesh = dist.new_group(), dist.new_group(), tensor_of(16, 24), mesh_of(8)
    rank = dist.get_rank()
    with without_tags():
        for _ in range(2):
            assert_moved(redistribute(rows_of(tensor), COLUMNS, group=group), tensor, mesh, COLUMNS)
        other = tensor.bfloat16() if rank == 3 else tensor
        message = told(redistribute, rows_of(other), [Replicate()], group=group)
        assert "ranks disagree: rank " in message, message
        assert told(redistribute, rows_of(tensor), COLUMNS, group=group)  # as after every failure
        dist.barrier()
        if rank != 5:
            message = told(redistribute, rows_of(tensor.double()), COLUMNS, group=other_group, time_limit=6)
            assert "rank 5 did not take part within 6 s" in message, message


def moved_until_told(*calls):
    """What a rank is told while it makes calls again and again."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            for call in calls:
                call()
        except AgreementError as error:
            return str(error)
        time.sleep(_agreement.PERIOD / 5)
    raise AssertionError("nothing was raised")


@case
def later_disagreements_are_told_where_there_are_no_tags():
    """As many bytes go between the same ranks, so that nothing waits and nothing breaks."""
    group, tensor = dist.new_group(), tensor_of(16, 24)
    others = rows_of(tensor.int())
    with without_tags():
        for dt in (rows_of(tensor), others):
            redistribute(dt, COLUMNS, group=group)
        mixed = others if dist.get_rank() == 3 else rows_of(tensor)
        message = moved_until_told(lambda: redistribute(mixed, COLUMNS, group=group))
    assert "ranks disagree: rank " in message and "int32[16, 24]" in message and "float32[16, 24]" in message, message


@case
def ranks_that_stop_coming_are_told_where_there_are_no_tags():
    group, tensor = dist.new_group(), tensor_of(16, 24)
    with without_tags():
        redistribute(rows_of(tensor), COLUMNS, group=group)
        if dist.get_rank() in (0, 5):
            return
        message = moved_until_told(lambda: redistribute(rows_of(tensor), COLUMNS, group=group, time_limit=3))
    assert "ranks 0, 5 did not take part within 3 s" in message and "in call 2 of ranks 0 to 7" in message, message


@case
def ranks_that_agree_are_compared_no_longer():
    group, tensor = dist.new_group(), tensor_of(16, 24)
    with without_tags(), mock.patch.object(_agreement, "OLDEST", 0):
        for _ in range(30):
            redistribute(rows_of(tensor), COLUMNS, group=group, time_limit=3)
        (participants,) = _process_groups.group_state(group).participants.values()
        assert 0 < len(participants.trail) <= 30
        end = time.monotonic() + SECONDS
        while participants.trail and time.monotonic() < end:
            time.sleep(_agreement.PERIOD)
        assert not participants.trail and not participants.verdict and participants.agreed == 30


@case
def ranks_that_tell_nothing_of_a_call_that_ended_are_no_fault():
    """As those whose process ends before its watcher looks at the board."""
    group, tensor, mesh = dist.new_group(), tensor_of(16, 24), mesh_of(8)
    post = (lambda participants: None) if dist.get_rank() == 3 else _agreement.post
    with without_tags():
        with mock.patch.object(_agreement, "post", post):
            redistribute(rows_of(tensor), COLUMNS, group=group, time_limit=1)
            time.sleep(3)
        assert_moved(redistribute(rows_of(tensor), COLUMNS, group=group), tensor, mesh, COLUMNS)


@case
def stores_that_fail_once_are_asked_again():
    group, tensor, post, failures = dist.new_group(), tensor_of(16, 24), _agreement.post, ["the store is busy"]

    def failing(participants):
        if participants.group is group and failures:
            raise RuntimeError(failures.pop())
        post(participants)

    with without_tags(), mock.patch.object(_agreement, "post", failing):
        redistribute(rows_of(tensor), COLUMNS, group=group)
        (participants,) = _process_groups.group_state(group).participants.values()
        end = time.monotonic() + SECONDS
        while not participants.posted and time.monotonic() < end:
            time.sleep(_agreement.PERIOD)
    assert participants.posted == 1 and not failures


@case
def waits_for_the_store_hold_up_no_call():
    group, tensor = dist.new_group(), tensor_of(16, 24)
    store = dist.distributed_c10d._world.pg_map[group][1]

    def wait():
        with contextlib.suppress(RuntimeError):
            store.wait(["what nobody sets"], datetime.timedelta(seconds=5))

    thread = threading.Thread(target=wait)
    thread.start()
    start = time.monotonic()
    with without_tags():
        redistribute(rows_of(tensor), COLUMNS, group=group)
    assert time.monotonic() - start < 4
    thread.join()


@case
def threads_that_meet_wait_for_none_but_their_own():
    first, second = dist.new_group(), dist.new_group()
    found = {}

    def run(group):
        try:
            redistribute(rows_of(tensor_of(16, 24)), COLUMNS, group=group, time_limit=6)
            found[group] = ""
        except AgreementError as error:
            found[group] = str(error)

    threads = [threading.Thread(target=run, args=(group,)) for group in (first, second)]
    is_late = dist.get_rank() == 4  # in the first group
    with without_tags():
        for thread in reversed(threads) if is_late else threads:
            thread.start()
            if is_late:
                thread.join()
            time.sleep(0.5)
        for thread in threads:
            thread.join()
    assert found == {first: "", second: ""}, found


@case
def groups_can_be_used_after_a_fault_of_all_ranks():
    group, tensor, mesh = dist.new_group(), tensor_of(16, 24), mesh_of(8)
    faulty = put(tensor, mesh, ROWS, torch.zeros(3, 24))
    with without_tags():
        for _ in range(2):  # before they meet, and afterwards
            assert told(redistribute, faulty, COLUMNS, group=group, error=retile.InputError) == WRONG_TILE
            with mock.patch.object(_process_groups, "BACKENDS_WITHOUT_MESSAGES", frozenset({"gloo"})):
                told(redistribute, rows_of(tensor), COLUMNS, group=group, error=retile.InputError)
            time.sleep(2 * _agreement.PATIENCE)
            assert_moved(redistribute(rows_of(tensor), COLUMNS, group=group), tensor, mesh, COLUMNS)


@case
def faults_of_one_rank_are_told_where_there_are_no_tags():
    for is_met in (False, True):
        group = dist.new_group()
        with without_tags():
            if is_met:
                redistribute(rows_of(tensor_of(16, 24)), COLUMNS, group=group)
            assert_wrong_tile_is_told(group)


@case
def calls_that_begin_during_a_comparison_are_compared_later():
    class Trail(dict):
        def values(self):
            found = list(super().values())
            self[2] = mock.Mock(number=2)
            return found

    participants = _process_groups.Participants(dist.new_group(), tuple(range(8)))
    participants.trail = Trail({1: mock.Mock(number=1, began=-1000, time_limit=60)})
    participants.agreed = 1
    _agreement.compare(participants)
    assert list(participants.trail) == [2]


# Cases of backends without tags that need none, and no host that waits.
LATER = [later_disagreements_are_told_where_there_are_no_tags]

# --- Process groups.


@case
def messages_go_over_the_group_that_is_given():
    everybody = dist.get_process_group_ranks(dist.group.WORLD)
    backwards, some = dist.new_group(everybody), dist.new_group([2, 3, 4, 5])
    tensor, mesh = tensor_of(16, 24), mesh_of(4, ranks=[5, 4, 2, 3])
    for group in (backwards, some):
        if dist.get_rank() in (2, 3, 4, 5):
            assert_moved(redistribute(rows_of(tensor, mesh), COLUMNS, group=group), tensor, mesh, COLUMNS)
    if dist.get_rank() in (2, 3, 4, 5):
        message = message_of(redistribute, rows_of(tensor), COLUMNS, group=some)
        assert message == "the process group of ranks 2 to 5 has no ranks 0 to 1, 6 to 7, which a mesh names"
        with enabled(group=some):
            assert_moved(rows_of(tensor, mesh).redistribute(mesh, COLUMNS), tensor, mesh, COLUMNS)


@case
def meshes_of_ranks_that_do_not_exist_are_refused():
    mesh = DeviceMesh(DEVICE, torch.arange(16), _init_backend=False)
    dt = DTensor.from_local(torch.zeros(1, 16), mesh, ROWS, run_check=False)
    message = message_of(redistribute, dt, COLUMNS)
    assert message == "the process group of ranks 0 to 7 has no ranks 8 to 15, which a mesh names"


@case
def threads_have_groups_of_their_own():
    groups, mesh = [dist.new_group() for _ in range(4)], mesh_of(8)
    found = {}

    def run(number, group):
        tensor = tensor_of(64, 64) + number
        try:
            for _ in range(10):
                moved = redistribute(rows_of(tensor, mesh), COLUMNS, group=group)
                assert torch.equal(moved.to_local(), slice_of(tensor, mesh, COLUMNS))
            found[number] = ""
        except Exception as error:
            found[number] = str(error)

    threads = [threading.Thread(target=run, args=one) for one in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), "")
    state = _process_groups.group_state(groups[0])
    state.call = mock.Mock(has_tags=False)  # of another thread
    message = message_of(redistribute, rows_of(tensor_of(8, 8)), COLUMNS, group=groups[0])
    assert message.startswith("another thread moves a tensor over this process group\nhint: give each thread a group")
