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
import random
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

    def append(self, problem, contenders, seconds):
        """The seconds of each repetition, by contender. Contenders with equal steps are one plan."""
        with self.path.open("a") as file:
            for name, contender in contenders.items():
                line = {"id": problem["id"], "contender": name, **contender, "seconds": seconds[name]}
                file.write(json.dumps(line) + "\n")


def contender_of(steps, plan, seconds):
    return {
        "steps": steps,
        "predicted": seconds,
        "least_predicted": plan.least_seconds,
        "cost": {"floor": plan.floor},
    }


def steps_of(plan):
    return [str(step) for step in plan.steps]


def sample(options):
    """Problems spread over all of the family."""
    every = problems()
    return every[:: max(1, len(every) // options.samples)]


# --- JAX.


def programs_of(movement, machine):
    """Contender to program: the ones that are chosen, every one that could be chosen, and plans of some planners in the
    form that is taken without a machine."""
    from retile import _retile
    from retile._programs import FORMS, Program, Wishes, plan_for, program_for

    ends, form = movement.layouts(), movement.best_form(is_alone=True)
    found = {
        "auto": program_for(movement, Wishes(machine=machine)),
        "no-machine": program_for(movement),
        "dtensor-costs": Program(movement, form, plan_for(movement, with_dtensor_costs(machine))),
        "xla": Program(movement, "xla", plan_for(movement)),
    }
    for own_form, plan in _retile.fastest_programs(*ends, "f32", machine, ["xla"]):
        found["xla"] = Program(movement, own_form, plan)
    for planner in PLANNERS:
        with contextlib.suppress(retile.InputError):  # there is no plan of this kind
            found[planner] = Program(movement, form, retile.plan(*ends, dtype=movement.dtype, planner=planner))
    for number, (own_form, plan) in enumerate(_retile.fastest_programs(*ends, "f32", machine, [*FORMS])):
        found[f"{number}: {plan.planner}, {own_form}"] = Program(movement, own_form, plan)
    return found


def contenders_of(programs, machine):
    """By name. Programs of equal statements are one, whatever their form is called; XLA's own is one of its own."""
    every, found = [], {}
    for name, program in programs.items():
        statements = "xla" if program.form == "xla" else program.tensors.statements
        if statements not in every:
            every.append(statements)
        seconds = programs["xla"].plan.seconds if program.form == "xla" else program.tensors.seconds(4, machine)
        found[name] = contender_of([f"program {every.index(statements)}"], program.plan, seconds)
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
    names, generator = list(found), random.Random(1)
    for _ in range(options.repetitions):
        generator.shuffle(names)  # what a program leaves in caches and freed memory is the next one's
        for name in names:
            run = found[name].compiled
            start = time.perf_counter()
            result = run(x).block_until_ready()
            seconds[name].append(time.perf_counter() - start)
            del result
    results.append(problem, contenders_of(found, machine), seconds)


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
        timed_on = {tuple(steps_of(plan)): plan.seconds for name, plan in plans.items() if name in ("auto", *PLANNERS)}
        contenders = {
            name: contender_of(steps_of(plan), plan, timed_on.get(tuple(steps_of(plan))))
            for name, plan in plans.items()
        }
        results.append(problem, contenders, seconds)


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
