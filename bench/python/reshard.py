"""Our reshard in JAX against XLA's own: time and temporaries, on 8 devices of this machine's processor.

In one process, in turn; bits are compared before anything is timed. A line of JSON for each problem, then ratios: XLA's
over ours, geometric mean and least, above 1 we are better.
"""

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA warns of its own rematerialization

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "python"))
from problems import small_shape

from retile.jax import _movement, _plan, _Program, _program

# Temporaries below a page are the program's own, whatever it moves.
LEAST_BYTES = 4096


def shardings_of(problem):
    mesh = jax.make_mesh(
        tuple(problem["mesh"].values()), tuple(problem["mesh"]), axis_types=(AxisType.Auto,) * len(problem["mesh"])
    )
    for side in ("src", "dst"):
        yield NamedSharding(mesh, PartitionSpec(*(tuple(reversed(axes)) or None for axes in problem[side])))


def measure(problem, elements, repetitions):
    source, target = shardings_of(problem)
    shape = small_shape(problem, elements)
    array = np.random.default_rng(1).random(shape, np.float32)
    x = jax.device_put(array, source)
    movement = _movement(x, target)
    plan = _plan(movement)
    chosen = _program(movement).form
    programs = {form: _Program(movement, form, plan).compiled for form in ("xla", "fast", "lean")}
    for form, program in programs.items():
        np.testing.assert_array_equal(np.asarray(program(x)), array, form)
    seconds = {form: [] for form in programs}
    for _ in range(repetitions):
        for form, program in programs.items():
            start = time.perf_counter()
            program(x).block_until_ready()
            seconds[form].append(time.perf_counter() - start)
    temporaries = {form: program.memory_analysis().temp_size_in_bytes for form, program in programs.items()}
    return {
        "id": problem["id"],
        "shape": shape,
        "plan": [str(step) for step in plan.steps],
        "chosen": chosen,
        "seconds": {form: min(times) for form, times in seconds.items()},
        "temporaries": temporaries,
    }


def ratios(results, what, form):
    """XLA's over ours; 1 where we chose XLA's."""
    least = LEAST_BYTES if what == "temporaries" else 0
    for result in results:
        ours = result["chosen"] if form == "chosen" else form
        yield (result[what]["xla"] + least) / (result[what][ours] + least)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=Path, default=ROOT / "tests" / "data" / "problems.jsonl")
    parser.add_argument("--every", type=int, default=10, help="take each so-manieth problem (10)")
    parser.add_argument("--megabytes", type=float, default=8, help="of an array, about (8)")
    parser.add_argument("--repetitions", type=int, default=15, help="of which the fastest counts (15)")
    options = parser.parse_args()
    results = []
    for line in options.problems.read_text().splitlines()[:: options.every]:
        result = measure(json.loads(line), options.megabytes * 2**20 / 4, options.repetitions)
        results.append(result)
        print(json.dumps(result), flush=True)
    print(
        f"{len(results)} problems, {options.megabytes} MB, JAX {jax.__version__}, {os.cpu_count()} cores",
        file=sys.stderr,
    )
    for what in ("seconds", "temporaries"):
        for form in ("chosen", "fast", "lean"):
            values = list(ratios(results, what, form))
            mean = math.exp(sum(map(math.log, values)) / len(values))
            worse = sum(value < 0.9 for value in values)
            print(
                f"{what:12} XLA's over ours, {form:7} {mean:5.2f} (least {min(values):.2f}, below 0.9: {worse})",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
