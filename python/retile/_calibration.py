"""Calibration of frameworks: a machine of one host, from the times that their own redistributions take."""

import statistics
from collections.abc import Callable
from datetime import datetime, timezone

from retile._retile import Machine

RUNS = 16, 256, 4096, 65536  # bytes
TILE_BYTES = 16 << 20  # per device: beyond the caches
REPETITIONS = 9

# Times one redistribution (group size, rows, run), in seconds. In each group of devices, every device has `rows` rows
# of a matrix of bytes, and gets `run` bytes of every row of its group: a transposition.
Trial = Callable[[int, int, int], float]


def calibrated(devices: int, trial: Trial, what: str) -> Machine:
    """The machine on which plans take as long as the trials did."""
    groups = [size for size in range(2, devices + 1) if devices % size == 0]
    step, latency = line_through([(size - 1, _median(trial, size, 1, 1)) for size in groups])
    copy, rate = [], 0.0
    for run in RUNS:
        rows = max(1, TILE_BYTES // (run * devices))
        taken = _median(trial, devices, rows, run)
        moving = max(taken - step - latency, 0.1 * taken)
        copy.append([run, rows * run * devices / moving])
        rate = max(rate, rows * run * (devices - 1) / moving)
    date = datetime.now(timezone.utc).date()
    return Machine(
        {
            "format": 1,
            "name": f"{devices} devices, {what}",
            "hosts": [list(range(devices))],
            "inside": {"rate": rate, "latency": latency},
            "copy": copy,
            "step": step,
            "source": f"measured on {date} with {what}: matrices of {TILE_BYTES} bytes per device, transposed",
        }
    )


def _median(trial: Trial, group: int, rows: int, run: int) -> float:
    trial(group, rows, run)  # warms up: what is made once is not timed
    return statistics.median(trial(group, rows, run) for _ in range(REPETITIONS))


def line_through(points: list[tuple[int, float]]) -> tuple[float, float]:
    """The start and the slope of the line through (messages, seconds), neither below 0. A single point gives only a
    start."""
    x, y = (statistics.fmean(values) for values in zip(*points, strict=True))
    squares = sum((a - x) ** 2 for a, _ in points)
    slope = max(0.0, sum((a - x) * (b - y) for a, b in points) / squares) if squares else 0.0
    return max(0.0, y - slope * x), slope
