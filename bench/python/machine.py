"""How well plans are chosen and predicted for a machine that a framework measured: JAX's devices, or ranks over gloo.

    bench/python/machine.py jax RESULTS.jsonl
    bench/python/machine.py torch RESULTS.jsonl

Calibrates the framework, then runs every plan that `auto` could have taken, in turn, in 8 devices or processes of this
machine; elements are compared before anything is timed. bench/machine_report.py makes a table of the results.
"""

import argparse
import contextlib
import functools
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "python"))
from problems import problems, small_shape

import retile

PLANNERS = "wide", "direct", "paper", "gather-slice"


def with_dtensor_costs(machine):
    """The machine with the constants of _collective_utils.py in PyTorch's DTensor."""
    return retile.Machine(
        {"hosts": json.loads(machine.to_json())["hosts"], "inside": {"rate": 87.7e9, "latency": 6e-7}}
    )


class Results:
    """A file of results, as `retile bench --machine` writes them."""

    def __init__(self, path, engine, machine):
        self.path = path
        path.write_text(json.dumps({"run": {"engine": engine, "options": {"machine": machine.to_json()}}}) + "\n")

    def append(self, problem, plans, ways, seconds):
        """By contender: the plan, how it is carried out, and the seconds of each repetition. Plans that were not made
        for the machine have the prediction of an equal one."""
        timed = {steps_of(plan): plan for name, plan in plans.items() if name == "auto" or name in PLANNERS}
        with self.path.open("a") as file:
            for name, plan in plans.items():
                predicted = timed.get(steps_of(plan)) if ways[name] != "xla" else None
                line = {
                    "id": problem["id"],
                    "contender": name,
                    "steps": [ways[name]] if ways[name] == "xla" else [ways[name], *steps_of(plan)],
                    "predicted": predicted and predicted.seconds,
                    "least_predicted": predicted and predicted.least_seconds,
                    "cost": {"floor": plan.floor},
                    "seconds": seconds[name],
                }
                file.write(json.dumps(line) + "\n")


def steps_of(plan):
    return tuple(str(step) for step in plan.steps)


def sample(options):
    """Problems spread over all of the family."""
    every = problems()
    return every[:: max(1, len(every) // options.samples)]


# --- JAX.


def programs_of(movement, machine):
    """Contender to program: plans of all planners in the form that fits, auto's in the others, and XLA's own."""
    from retile._programs import Program, Wishes, plan_for, program_for

    chosen = program_for(movement, Wishes(machine=machine))
    form = movement.best_form(is_alone=True)
    found = {"auto": chosen, "no-machine": program_for(movement)}
    found["dtensor-costs"] = Program(movement, form, plan_for(movement, with_dtensor_costs(machine)))
    for planner in PLANNERS:
        with contextlib.suppress(retile.InputError):  # there is no plan of this kind
            plan = retile.plan(*movement.layouts(), dtype=movement.dtype, planner=planner, machine=machine)
            found[planner] = Program(movement, form, plan)
    for other in ("fast", "collectives", "xla"):
        found[f"auto-{other}"] = Program(movement, other, chosen.plan)
    return found


def measure_jax(problem, machine, options, results):
    import jax
    import numpy as np
    from reshard import shardings_of

    from retile.jax import _movement

    source, target = shardings_of(problem)
    shape = small_shape(problem, options.megabytes * 2**20 / 4)
    array = np.random.default_rng(1).random(shape, np.float32)
    x = jax.device_put(array, source)
    movement = _movement(x, target)
    found = programs_of(movement, machine)
    for name, program in found.items():
        np.testing.assert_array_equal(np.asarray(program.compiled(x)), array, name)
    seconds = {name: [] for name in found}
    for _ in range(options.repetitions):
        for name, program in found.items():
            run = program.compiled
            start = time.perf_counter()
            run(x).block_until_ready()
            seconds[name].append(time.perf_counter() - start)
    plans = {name: program.plan for name, program in found.items()}
    results.append(problem, plans, {name: program.form for name, program in found.items()}, seconds)


def run_jax(options):
    import reshard  # noqa: F401 (makes 8 devices, before JAX starts)

    import retile.jax

    machine = retile.jax.calibrate()
    print(machine.to_json(), file=sys.stderr)
    results = Results(options.results, "jax", machine)
    end = time.monotonic() + options.seconds
    for problem in sample(options):
        if problem["src"] != problem["dst"] and time.monotonic() < end:
            measure_jax(problem, machine, options, results)


# --- PyTorch.


def measure_torch(problem, machine, options, results):
    from redistribute_torch import placed, require_moved, timed

    import retile.torch

    found = placed(problem, options.megabytes)
    if found is None:
        return
    dt, target, expected = found
    wishes = {"auto": {"machine": machine}, "no-machine": {}, "dtensor-costs": {"machine": with_dtensor_costs(machine)}}
    wishes.update((planner, {"planner": planner, "machine": machine}) for planner in PLANNERS)
    plans, runs = {}, {}
    for name, wish in wishes.items():
        with contextlib.suppress(retile.InputError):  # there is no plan of this kind
            plans[name] = retile.torch.plan_of(dt, target, **wish)
            runs[name] = functools.partial(retile.torch.redistribute, dt, target, **wish), contextlib.nullcontext
    for name, (run, _) in runs.items():
        require_moved(run, expected, (problem["id"], name))
    seconds = timed(runs, options.repetitions)
    if results:
        results.append(problem, plans, dict.fromkeys(plans, "messages"), seconds)


def run_rank(rank, options):
    import torch
    import torch.distributed as dist

    import retile.torch

    machine = retile.torch.calibrate()
    if rank == 0:
        print(machine.to_json(), file=sys.stderr)
    results = Results(options.results, "gloo", machine) if rank == 0 else None
    end = time.monotonic() + options.seconds
    for problem in sample(options):
        goes_on = torch.tensor(time.monotonic() < end)
        dist.broadcast(goes_on, 0)  # one rank's clock decides
        if goes_on:
            measure_torch(problem, machine, options, results)


def run_torch(options):
    import ranks

    ranks.start(run_rank, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["jax", "torch"])
    parser.add_argument("results", type=Path)
    parser.add_argument("--samples", type=int, default=80, help="problems, about (80)")
    parser.add_argument("--megabytes", type=float, default=8, help="of an array, about (8)")
    parser.add_argument("--repetitions", type=int, default=9, help="of which the median counts (9)")
    parser.add_argument("--seconds", type=float, default=600, help="after which no problem is begun (600)")
    options = parser.parse_args()
    (run_jax if options.framework == "jax" else run_torch)(options)


if __name__ == "__main__":
    main()
