"""How well plans are chosen and predicted for a machine that a framework measured: JAX's devices, or ranks over gloo.

    bench/python/machine.py jax RESULTS.jsonl
    bench/python/machine.py torch RESULTS.jsonl

Calibrates the framework, then runs every plan that `auto` could have taken, in turn, in 8 devices or processes of this
machine; elements are compared before anything is timed. bench/machine_report.py makes a table of the results.
"""

import argparse
import json
import os
import socket
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "python"))
from problems import problems, small_shape

import retile

DEVICES = 8
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
    """Problems that move something, spread over all."""
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
        try:
            plan = retile.plan(*movement.layouts(), dtype=movement.dtype, planner=planner, machine=machine)
        except retile.InputError:
            continue
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
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={DEVICES}"
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
    import math

    import torch
    import torch.distributed as dist
    from redistribute_torch import CALLS, placements_of, slice_of
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor

    import retile.torch

    sides = [placements_of(problem, side) for side in ("src", "dst")]
    if None in sides or sides[0] == sides[1]:
        return
    source, target = sides
    mesh = init_device_mesh("cpu", tuple(problem["mesh"].values()), mesh_dim_names=tuple(problem["mesh"]))
    shape = small_shape(problem, options.megabytes * 2**20 / 4)
    tensor = torch.arange(math.prod(shape), dtype=torch.int32).view(torch.float32).reshape(shape)
    tile, expected = (slice_of(tensor, mesh, side) for side in sides)
    dt = DTensor.from_local(tile, mesh, source, run_check=False, shape=tensor.shape, stride=tensor.stride())
    wishes = {"auto": {"machine": machine}, "no-machine": {}, "dtensor-costs": {"machine": with_dtensor_costs(machine)}}
    wishes.update((planner, {"planner": planner, "machine": machine}) for planner in PLANNERS)
    plans = {}
    for name, wish in list(wishes.items()):
        try:
            plans[name] = retile.torch.plan_of(dt, target, **wish)
        except retile.InputError:
            del wishes[name]
    for name, wish in wishes.items():
        moved = retile.torch.redistribute(dt, target, **wish).to_local()
        assert torch.equal(moved.view(torch.int32), expected.view(torch.int32)), (problem["id"], name)
    seconds = {name: [] for name in wishes}
    for _ in range(options.repetitions):
        for name, wish in wishes.items():
            dist.barrier()
            start = time.perf_counter()
            for _ in range(CALLS):
                retile.torch.redistribute(dt, target, **wish)
            dist.barrier()
            seconds[name].append((time.perf_counter() - start) / CALLS)
    if results:
        results.append(problem, plans, dict.fromkeys(plans, "messages"), seconds)


def run_rank(rank, port, options):
    import torch
    import torch.distributed as dist

    import retile.torch

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=DEVICES)
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
    dist.destroy_process_group()


def run_torch(options):
    import torch.multiprocessing

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.start_processes(run_rank, (port, options), DEVICES, start_method="fork")


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
