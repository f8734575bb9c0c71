"""Calibration of compiled programs: a machine of one host, from the times of tensor programs that XLA compiled.

Latencies are slopes: of chains of the same small collective. Rates are fitted to programs of plans, whose copies XLA
fuses: by itself, a copy takes another time.
"""

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from retile._calibration import line_through, warn_of_spread
from retile._programs import Movement, Program, plan_for
from retile._retile import Machine

SECONDS = 10.0  # of all
LEAST_REPETITIONS, MOST_REPETITIONS = 5, 40
TILE_BYTES = 1 << 17, 1 << 20
CHAINS = 1, 2, 4, 8
SMALL = 8  # elements of a tile that takes no time beside latencies

# The sizes that figures are given for: bytes of collectives' results, and of contiguous runs of copies.
KNOTS = {"copy": [4, 16, 64, 512, 4096]} | dict.fromkeys(
    ("permute", "gather", "all_to_all"), [1 << 15, 1 << 18, 1 << 20, 1 << 23]
)

# What moves between layouts of arrays of three dimensions: how each is cut, by all axes of the mesh (a), the first (f)
# or the rest (r). The fit is judged by those that it does not see.
FITTED = "a..>.a.", ".a.>..a", "fr.>rf.", ".r.>...", "r..>...", "..f>...", "a..>f.r", "f.r>.fr", "..a>r.."
HELD_OUT = "a..>.rf", "rf.>.r.", "f.r>rf.", ".a.>f.."

Work = tuple[str, int, int]  # the kind, the devices of a group or the bytes of a run, the bytes


class Trials:
    """Compiled programs and their arguments, run in turn."""

    def __init__(self, end: float):
        self.end = end
        self.runs: dict[Any, tuple[Any, jax.Array]] = {}
        self.seconds: dict[Any, list[float]] = {}

    def add(self, name: Any, compiled: Any, argument: jax.Array) -> None:
        compiled(argument).block_until_ready()  # what is made once is not timed
        self.runs[name] = compiled, argument
        self.seconds[name] = []

    def run(self) -> None:
        """Runs all programs in a new order each time, for as long as there is time. A result is freed before the next
        run."""
        generator = random.Random(1)
        names = list(self.runs)
        for repetition in range(MOST_REPETITIONS):
            if repetition >= LEAST_REPETITIONS and time.monotonic() > self.end:
                break
            generator.shuffle(names)
            for name in names:
                compiled, argument = self.runs[name]
                start = time.perf_counter()
                result = compiled(argument).block_until_ready()
                self.seconds[name].append(time.perf_counter() - start)
                del result

    def quartile(self, name: Any) -> float:
        """The lower quartile: runs in which the process was put aside do not count."""
        return statistics.quantiles(self.seconds[name], n=4)[0]


def calibrated_programs(devices: np.ndarray) -> Machine:
    """The machine on which programs take as long as they do on these devices. Raises RuntimeError where the times make
    no sense, and warns where they are uncertain."""
    begin = time.monotonic()
    trials = Trials(begin + SECONDS)
    _add_chains(trials, devices)
    programs = _add_programs(trials, devices, begin + 0.7 * SECONDS)
    trials.run()
    start, latencies = _latencies(trials, len(devices))
    works = {name: program.tensors.work(4) for name, program in programs.items()}
    seen = [name for name in programs if name[0] in FITTED]
    rates = _fitted_rates([(works[name], trials.quartile(name)) for name in seen], start, latencies)
    machine = _machine(devices, start, latencies, rates)
    held_out = [name for name in programs if name[0] in HELD_OUT]
    return _with_source(machine, devices, trials, {name: programs[name] for name in held_out}, len(seen))


# --- Programs of one collective.


def _add_chains(trials: Trials, devices: np.ndarray) -> None:
    count = len(devices)
    sharding = NamedSharding(Mesh(devices, ("device",)), PartitionSpec("device"))
    tile = jax.device_put(np.zeros(SMALL * count, np.float32), sharding)

    def add(name: Any, function: Callable) -> None:
        on_tiles = jax.shard_map(
            function, mesh=sharding.mesh, in_specs=sharding.spec, out_specs=sharding.spec, check_vma=False
        )
        trials.add(name, jax.jit(on_tiles).lower(tile).compile(), tile)

    def chained(collective: Callable, length: int) -> Callable:
        def run(x: jax.Array) -> jax.Array:
            for _ in range(length):
                x = collective(x)
            return x

        return run

    add("start", lambda x: x + 1)
    for name, collective in _collectives(count):
        for length in CHAINS if name[0] == "permute" else CHAINS[::2]:
            add((*name, length), chained(collective, length))


def _collectives(count: int) -> Iterator[tuple[tuple[str, int], Callable]]:
    """The collectives whose latency is measured, by kind and group: each makes a small tile of a small tile."""
    yield ("permute", count), lambda x: lax.ppermute(x, "device", [(i, (i + 1) % count) for i in range(count)])
    for group in _group_sizes(count):
        groups = np.arange(count).reshape(-1, group).tolist()
        if group <= SMALL and SMALL % group == 0:
            yield (
                ("all_to_all", group),
                lambda x, groups=groups: lax.all_to_all(x, "device", 0, 0, axis_index_groups=groups, tiled=True),
            )
        yield (
            ("gather", group),
            lambda x, groups=groups: lax.dynamic_slice(
                lax.all_gather(x, "device", axis_index_groups=groups, tiled=True), (lax.axis_index("device"),), (SMALL,)
            ),
        )


def _group_sizes(count: int) -> list[int]:
    return [size for size in range(2, count + 1) if count % size == 0]


def _latencies(trials: Trials, count: int) -> tuple[float, dict[str, list[list[float]]]]:
    """The time of a start, and by kind the latency in each size of groups."""
    points: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for name in trials.runs:
        if name[0] in KNOTS:
            kind, group, length = name
            points.setdefault((kind, group), []).append((length, trials.quartile(name)))
    latencies: dict[str, list[list[float]]] = {}
    for (kind, group), line in points.items():
        _, slope = line_through(line)
        latencies.setdefault(kind, []).append([group, slope])
    latencies.setdefault("all_to_all", latencies["gather"])  # of groups that a small tile cannot be cut for
    if latencies["permute"][0][1] == 0:
        raise RuntimeError("eight permutations take no longer than one: the machine is too busy to be measured")
    return trials.quartile("start"), latencies


# --- Programs of plans.


def _add_programs(trials: Trials, devices: np.ndarray, end: float) -> dict[Any, Program]:
    """The programs by case, form and size of tiles. Those that are not seen by the fit come first, and others while
    there is time."""
    found: dict[Any, Program] = {}
    sizes = sorted(TILE_BYTES, reverse=True)
    cases = [(case, sizes[number % len(sizes)]) for number, case in enumerate(HELD_OUT)]
    cases += [(case, size) for size in sizes for case in FITTED]
    for case, tile_bytes in cases:
        if time.monotonic() > end and len(found) > 2 * len(HELD_OUT):
            break
        movement = _movement_of(case, devices, tile_bytes)
        if movement is None:
            continue
        plan, array = plan_for(movement), None
        known: list[Any] = []
        for form in ("fast",) if case in HELD_OUT else ("collectives", "fast"):
            program = Program(movement, form, plan)
            if not program.tensors.statements or program.tensors.statements in known:
                continue
            known.append(program.tensors.statements)
            if array is None:
                array = jax.device_put(np.zeros(movement.shape, np.float32), movement.source)
            trials.add((case, form, tile_bytes), program.compiled, array)
            found[case, form, tile_bytes] = program
    return found


def _movement_of(case: str, devices: np.ndarray, tile_bytes: int) -> Movement | None:
    """The case on these devices; None where nothing moves. Arrays of every other case have a short last dimension."""
    factors = _prime_factors(len(devices))
    names = tuple(f"axis{number}" for number in range(len(factors)))
    mesh = Mesh(devices.reshape(factors), names, axis_types=(AxisType.Auto,) * len(names))
    axes = {".": None, "a": names, "f": names[:1], "r": names[1:] or None}
    specs = [PartitionSpec(*(axes[letter] for letter in side)) for side in case.split(">")]
    if specs[0] == specs[1]:
        return None
    count, last = len(devices), len(devices) * (1 if sum(map(ord, case)) % 2 else 16)
    side = math.sqrt(tile_bytes / 4 * count / last)
    shape = (max(1, round(side / count)) * count,) * 2 + (last,)
    source, target = (NamedSharding(mesh, spec) for spec in specs)
    return Movement(source, target, shape, np.dtype(np.float32))


def _prime_factors(number: int) -> list[int]:
    factors, factor = [], 2
    while number > 1:
        while number % factor == 0:
            factors.append(factor)
            number //= factor
        factor += 1
    return factors


# --- The fit.


def _fitted_rates(
    measured: list[tuple[list[Work], float]], start: float, latencies: dict[str, list[list[float]]]
) -> dict[str, list[list[float]]]:
    """By kind, rates for the sizes of KNOTS: those with which work takes the measured seconds, each relative to its
    own. First one rate of all bytes, then one for each kind, then one for each size: where little is known, a rate is
    as the one before."""
    seconds = np.array([taken for _, taken in measured])
    waits = [start + sum(_latency(latencies, *one) for one in work) for work, _ in measured]
    left = 1 - np.array(waits) / seconds
    kinds = list(KNOTS)
    by_kind = np.array([[sum(b for k, _, b in work if k == kind) for kind in kinds] for work, _ in measured])
    of_all = float(np.median(left * seconds / by_kind.sum(axis=1)))
    if of_all <= 0:
        raise RuntimeError("more bytes take no longer: the machine is too busy to be measured")
    of_kind = of_all * _pulled(by_kind * of_all / seconds[:, None], left, 0.1)
    places = [(kind, size) for kind in kinds for size in KNOTS[kind]]
    by_size = np.zeros((len(measured), len(places)))
    for row, (work, _) in enumerate(measured):
        for one in work:
            for size, part in _between(KNOTS[one[0]], one[1] if one[0] == "copy" else one[2]):
                by_size[row, places.index((one[0], size))] += part * one[2]
    scale = np.array([of_kind[kinds.index(kind)] for kind, _ in places])
    relative = _pulled(by_size * scale / seconds[:, None], left, 0.3)
    return {
        kind: [[size, 1 / inverse] for (of, size), inverse in zip(places, relative * scale, strict=True) if of == kind]
        for kind in kinds
    }


def _latency(latencies: dict[str, list[list[float]]], kind: str, group: int, _: int) -> float:
    """The latency in a group, between those that were measured as the machine has it."""
    return float(np.interp(group, *zip(*latencies[kind], strict=True))) if kind in latencies else 0.0


def _between(knots: list[int], size: int) -> list[tuple[int, float]]:
    """The knots around a size, and the part of each, on a logarithmic scale."""
    size = min(max(size, knots[0]), knots[-1])
    for low, high in itertools.pairwise(knots):
        if size <= high:
            part = math.log(size / low) / math.log(high / low)
            return [(low, 1 - part), (high, part)]
    return [(knots[-1], 1.0)]


def _pulled(rows: np.ndarray, values: np.ndarray, weight: float) -> np.ndarray:
    """The solution that is pulled towards 1 with this weight, and is not far below."""
    count = rows.shape[1]
    found = _least_squares(np.vstack([rows, weight * np.eye(count)]), np.concatenate([values, np.full(count, weight)]))
    return np.clip(found, 0.125, None)


def _least_squares(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The solution of all that is not below 0; rows that lie far off count little."""
    weights = np.ones(len(values))
    for _ in range(10):
        a, b = rows * weights[:, None], values * weights
        found = _nonnegative(a.T @ a, a.T @ b)
        weights = 1 / np.sqrt(np.maximum(np.abs(rows @ found - values), 0.03))
    return found


def _nonnegative(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Coordinate by coordinate."""
    found = np.zeros(len(vector))
    for _ in range(500):
        for i in range(len(vector)):
            if matrix[i, i] > 0:
                found[i] = max(0.0, found[i] + (vector[i] - matrix[i] @ found) / matrix[i, i])
    return found


# --- The machine.


def _machine(
    devices: np.ndarray, start: float, latencies: dict[str, list[list[float]]], rates: dict[str, list[list[float]]]
) -> dict[str, Any]:
    return {
        "format": 1,
        "name": f"{len(devices)} devices, JAX on {devices[0].platform} devices",
        "hosts": [list(range(len(devices)))],
        "inside": {"rate": rates["permute"][-1][1], "latency": latencies["permute"][0][1]},
        "copy": rates["copy"],
        "step": start,
        "programs": {"start": start}
        | {kind: {"latency": latencies[kind], "rate": rates[kind]} for kind in KNOTS if kind != "copy"},
    }


def _with_source(
    figures: dict[str, Any], devices: np.ndarray, trials: Trials, held_out: dict[Any, Program], seen: int
) -> Machine:
    """The machine, with a word on how well its figures fit."""
    machine = Machine(figures)
    residuals = [
        abs(program.tensors.seconds(4, machine) / trials.quartile(name) - 1) for name, program in held_out.items()
    ]
    residual = statistics.median(residuals)
    if residual > 1:
        raise RuntimeError(f"predictions of programs are {residual:.0%} off: the machine is too busy to be measured")
    spread = warn_of_spread(trials.seconds.values())
    date = datetime.now(timezone.utc).date()
    source = (
        f"measured on {date} with JAX {jax.__version__} on {devices[0].platform} devices: {seen} compiled programs; "
        f"{len(residuals)} others are predicted {residual:.0%} off (median), and repetitions lie {spread:.0%} apart"
    )
    return Machine(figures | {"source": source})
