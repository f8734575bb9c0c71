"""Machines from the times that redistributions by messages take, on made-up clocks."""

import json

import pytest

from retile import _calibration

STEP, LATENCY, RATE = 1e-3, 1e-4, 2e9


def seconds_of(group, rows, run):
    """Of a machine that is easy to add up: messages one after the other, then bytes."""
    size = rows * run * group
    return STEP + (group - 1) * LATENCY if size < 100 else STEP + LATENCY + size / RATE


def test_the_machine_takes_as_long_as_the_trials():
    figures = json.loads(_calibration.calibrated(8, seconds_of, "messages").to_json())
    assert figures["step"] == pytest.approx(STEP)
    assert figures["inside"]["latency"] == pytest.approx(LATENCY)
    assert figures["inside"]["rate"] == pytest.approx(RATE * 7 / 8)
    assert [rate for _, rate in figures["copy"]] == pytest.approx([RATE] * 4)


def test_times_that_make_no_sense_are_refused():
    with pytest.raises(RuntimeError, match="16777216 bytes take no longer than none: the machine is too busy"):
        _calibration.calibrated(8, lambda group, rows, run: 1e-3, "messages")


def test_repetitions_that_lie_apart_are_warned_of():
    times = iter(range(1, 10**6))
    with pytest.warns(UserWarning, match="repetitions lie .*% apart: the machine has much else to do"):
        _calibration.calibrated(2, lambda *size: seconds_of(*size) * (1 + next(times) % 3), "messages")


def test_trials_end_when_their_time_is_up():
    calls = []
    _calibration.calibrated(8, lambda *size: calls.append(size) or 10 * seconds_of(*size) * 100, "messages")
    assert len(calls) == (1 + _calibration.LEAST_REPETITIONS) * len(set(calls))
