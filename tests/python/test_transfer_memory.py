"""Transfers between processes of one host: who reads whose memory, and what each holds meanwhile."""

import dataclasses
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from forked_ranks import everywhere, on_forked_ranks

import retile
from retile import _retile, _transfer

MIB = 1 << 20
SLACK = 3 * MIB  # of Python's own, and of threads


def are_readable(group):
    readable = all(_retile.can_read(*mark) for mark in group.gather(_retile.process_mark()))
    return all(group.gather(readable))  # so long all are there


can_read = pytest.mark.skipif(
    everywhere(2, are_readable) != [True, True],
    reason="the system forbids processes to read each other's memory",
)


def most_resident():
    """The most bytes that this process has held since the last look."""
    most = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10
    Path("/proc/self/clear_refs").write_text("5")
    return most


def square(side, dtype=np.float32):
    return np.arange(side * side, dtype=dtype).reshape(side, side)


@can_read
@pytest.mark.parametrize("transport", ["auto", "messages"])
@pytest.mark.parametrize("hosts", [1, 2])
def test_rows_become_columns(transport, hosts):
    """On two hosts each element comes to a host once, and is passed on."""
    arrays = {"layers.0": square(512), "layers.1": square(1024)}

    def action(group):
        t = retile.Transfer(group, transport=transport, host=str(group.rank % hosts))
        targets = {name: np.zeros((len(array), len(array)), np.float32) for name, array in arrays.items()}
        for name, array in arrays.items():
            if group.rank < 2:
                first, half = group.rank * len(array) // 2, len(array) // 2
                t.add_source(name, array[first : first + half].copy(), box=[(first, first + half), (0, len(array))])
            wanted = len(array) if group.rank == 3 else len(array) // 2
            t.add_target(name, targets[name][:, :wanted], box=[(0, len(array)), (0, wanted)])
        plan = t.commit()
        reports = []
        for _ in range(2):
            for target in targets.values():
                target[...] = 0
            work = t.start()
            work.wait("layers.0")
            np.testing.assert_array_equal(targets["layers.0"][:, :256], arrays["layers.0"][:, :256])
            work.wait()
            for name, target in targets.items():
                wanted = len(target) if group.rank == 3 else len(target) // 2
                np.testing.assert_array_equal(target[:, :wanted], arrays[name][:, :wanted])
            reports.append(work.report)
        assert [report.received_bytes for report in reports] == [plan.received_bytes(group.rank)] * 2
        return reports[1].read_bytes, reports[1].received_bytes, reports[1].staged_bytes

    results = everywhere(4, action)
    read, received, staged = (sum(one) for one in zip(*results, strict=True))
    if transport == "messages":
        assert read == 0 and staged > 0
    elif hosts == 1:
        assert read == received > 0 and staged == 0
    else:
        assert 0 < read < received and staged > 0


@can_read
def test_what_is_converted_checked_or_changed_is_sent():
    def action(group):
        read = []
        for options, dtype, changed in (
            ({}, None, False),
            ({}, None, True),
            ({}, np.float16, False),
            ({"verify": "crc32"}, None, False),
        ):
            t = retile.Transfer(group, **options)
            target = np.zeros((300, 300), dtype or np.float32)
            (t.add_target("w", target) if group.rank else t.add_source("w", square(300) % 1000, dtype=dtype))
            t.commit()
            work = t.start(changed=changed)
            work.wait()
            assert group.rank == 0 or (target == square(300) % 1000).all()
            read.append(work.report.read_bytes)
        return read

    assert everywhere(2, action) == [[0, 0, 0, 0], [360000, 0, 0, 0]]


@can_read
def test_executions_follow_each_other_in_any_order():
    """Sources change as soon as wait() returns; now and then sources or targets lie elsewhere."""
    steps = np.random.default_rng(1).choice(["all", "changed", "some", "move 0", "move 1"], 40)

    def action(group):
        t = retile.Transfer(group)
        source, target = np.zeros((200, 300), np.float32), np.ones((200, 300), np.float32)
        (t.add_target("w", target) if group.rank else t.add_source("w", source))
        t.commit()
        expected = np.zeros((200, 300), np.float32)
        for i, step in enumerate(steps):
            source[i, i] = expected[i, i] = i
            if step == f"move {group.rank}":  # as frameworks do
                source, target = source.copy(), target.copy()
                array = target if group.rank else source
                for execution in t._executions.values():
                    execution.tiles = [dataclasses.replace(tile, array=array) for tile in execution.tiles]
                t._tiles = t._executions[None].tiles
            t.start(only=["w"] if step == "some" else None, changed=step == "changed").wait()
            assert group.rank == 0 or (target == expected).all(), i

    everywhere(2, action)


@can_read
def test_a_rank_that_dies_leaves_nobody_waiting():
    def action(group):
        t = retile.Transfer(group)
        target = np.zeros((500, 500), np.float32)
        (t.add_target("w", target) if group.rank else t.add_source("w", square(500)))
        t.commit()
        t.start().wait()
        if group.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.2)
        t.start().wait()

    dead, *others = on_forked_ranks(3, action)
    assert dead is None
    assert all(isinstance(other, OSError) for other in others), others


# --- What processes hold. Measured, where the report computes.


@pytest.mark.parametrize("cap", [16, 64, 256])
def test_a_process_holds_what_the_report_says(cap, monkeypatch):
    """With messages that are as long as the cap allows."""
    monkeypatch.setattr(_transfer, "MOST_MESSAGE_BYTES", 1 << 30)

    def action(group):
        t = retile.Transfer(group, max_bytes=cap * MIB, transport="messages")
        array = np.full((cap * 5 // 8, MIB), group.rank, np.int8)
        (t.add_target if group.rank else t.add_source)("w", array)
        plan = t.commit()
        most_resident()
        before = most_resident()
        work = t.start()
        work.wait()
        held = most_resident() - before
        assert not array.any()
        assert work.report.staged_bytes == plan.staged_bytes(group.rank) <= cap * MIB
        return held, work.report.staged_bytes

    for held, staged in everywhere(2, action):
        assert 0.95 * staged <= held <= staged + SLACK


@can_read
def test_a_process_that_reads_stages_nothing():
    def action(group):
        t = retile.Transfer(group, max_bytes="64MiB")
        array = np.full((40, MIB), group.rank, np.int8)
        (t.add_target if group.rank else t.add_source)("w", array)
        t.commit()
        most_resident()
        before = most_resident()
        work = t.start()
        work.wait()
        assert work.report.staged_bytes == 0 and not array.any()
        return most_resident() - before

    assert max(everywhere(2, action)) <= SLACK


def test_tables_of_scales_are_held_beside_what_is_staged():
    """Three of 4 bytes a block, on ranks that scale."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy has no eight-bit floats")

    def moved(group, side):
        t = retile.Transfer(group, max_bytes="8MiB", transport="messages")
        array, scales = np.ones((side, 4 * side), np.float32), np.ones((side, side), np.float32)
        most_resident()
        before = most_resident()
        if group.rank == 0:
            t.add_source("w", array, dtype=ml_dtypes.float8_e4m3fn, block=(1, 4))
        else:
            t.add_targets({"w_scale_inv": scales})
        t.commit()
        work = t.start()
        work.wait()
        return most_resident() - before, work.report.staged_bytes

    def action(group):
        moved(group, 8)  # loads what Python needs
        return moved(group, 1024)

    (held, staged), _ = everywhere(2, action)
    reused = 4 * MIB  # that the process this one is forked from had and no longer uses
    assert staged + 12 * MIB - reused <= held <= staged + 12 * MIB + SLACK
