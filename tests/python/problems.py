"""The problems of tests/data, scaled down."""

import json
import math
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"


def problems(name="problems.jsonl"):
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def unit_shape(problem):
    """The smallest shape that both sides divide."""
    sides = problem["src"], problem["dst"]
    return [
        math.lcm(*(math.prod(problem["mesh"][axis] for axis in side[dimension]) for side in sides))
        for dimension in range(len(problem["shape"]))
    ]


def small_shape(problem, elements=4096):
    """A shape of about so many elements, in the proportions of the problem's."""
    scale = (elements / math.prod(problem["shape"])) ** (1 / len(problem["shape"]))
    return tuple(
        max(1, round(length * scale / unit)) * unit
        for length, unit in zip(problem["shape"], unit_shape(problem), strict=True)
    )
