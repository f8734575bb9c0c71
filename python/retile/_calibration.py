"""Calibration of frameworks: a machine of one host, from the times that their own redistributions take."""

import statistics
import warnings
from collections.abc import Callable, Iterable
from datetime import datetime, timezone

from retile._retile import Machine

RUNS = 16, 256, 4096, 65536  # bytes
TILE_BYTES = 16 << 20  # per device: beyond the caches
LEAST_REPETITIONS, MOST_REPETITIONS = 3, 9
SECONDS = 10.0  # of all trials, about
CALLS = 4  # of a trial, one after the other, as a program makes them
MOST_SPREAD = 0.25  # of repetitions that are not warned of

# Times one redistribution (group size, rows, run), in seconds: the mean of CALLS in a row. In each group of devices,
# every device has `rows` rows of a matrix of bytes, and gets `run` bytes of every row of its group: a transposition.
# All processes get the same time, so that they go on together.
Trial = Callable[[int, int, int], float]


def calibrated(devices: int, trial: Trial, what: str) -> Machine:
    """The machine on which plans take as long as the trials did. Raises RuntimeError where the times make no sense, and
    warns where they are uncertain."""
    groups = [size for size in range(2, devices + 1) if devices % size == 0]
    sizes = [(size, 1, 1) for size in groups]
    sizes += [(devices, max(1, TILE_BYTES // (run * devices)), run) for run in RUNS]
    times = {size: _repeated(trial, size, SECONDS / CALLS / len(sizes)) for size in sizes}
    warn_of_spread(times.values())
    step, latency = line_through([(size - 1, statistics.median(times[size, 1, 1])) for size in groups])
    copy, rate = [], 0.0
    for size in sizes[len(groups) :]:
        _, rows, run = size
        moving = statistics.median(times[size]) - step - latency
        if moving <= 0:
            raise RuntimeError(
                f"{rows * run * devices} bytes take no longer than none: the machine is too busy to be measured"
            )
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


def _repeated(trial: Trial, size: tuple[int, int, int], seconds: float) -> list[float]:
    """The times of repetitions, for as long as they take together."""
    trial(*size)  # warms up: what is made once is not timed
    times: list[float] = []
    while len(times) < LEAST_REPETITIONS or (len(times) < MOST_REPETITIONS and sum(times) < seconds):
        times.append(trial(*size))
    return times


def warn_of_spread(every: Iterable[list[float]]) -> float:
    """How far the middle half of repetitions lies apart: the median over what was repeated. Warns where that is far."""
    quartiles = (statistics.quantiles(times, n=4) for times in every)
    spread = statistics.median((high - low) / middle for low, middle, high in quartiles)
    if spread > MOST_SPREAD:
        warnings.warn(f"repetitions lie {spread:.0%} apart: the machine has much else to do", stacklevel=4)
    return spread


def line_through(points: list[tuple[int, float]]) -> tuple[float, float]:
    """The start and the slope of the line through (messages, seconds), neither below 0. A single point gives only a
    start."""
    x, y = (statistics.fmean(values) for values in zip(*points, strict=True))
    squares = sum((a - x) ** 2 for a, _ in points)
    slope = max(0.0, sum((a - x) * (b - y) for a, b in points) / squares) if squares else 0.0
    return max(0.0, y - slope * x), slope
