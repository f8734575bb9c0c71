"""Our reshard in JAX against XLA's own: time and temporaries, on 8 devices of this machine's processor.

In one process, in turn; bits are compared before anything is timed. A line of JSON for each problem, then ratios: XLA's
over ours, geometric mean and least, above 1 we are better. XLA's own is timed twice: the ratio of the two is noise. With
--device cuda on 8 GPUs, or with --processes 8 on one that as many processes share, by NCCL 2.30 or later (LD_PRELOAD, and
under MPS CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12 in the environment). With --reports, the layouts of public reports of involuntary
full rematerialization, on up to 256 devices, and how many of them XLA's compiler warns of.
"""

import argparse
import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def options_given():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=Path, default=ROOT / "tests" / "data" / "problems.jsonl")
    parser.add_argument("--every", type=int, default=10, help="take each so-manieth problem (10)")
    parser.add_argument("--megabytes", type=float, default=8, help="of an array, about (8)")
    parser.add_argument("--repetitions", type=int, default=45, help="of which the fastest counts (45)")
    parser.add_argument("--reports", action="store_true", help="the layouts of public reports instead")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no problem is begun")
    parser.add_argument(
        "--out", type=Path, help="a results file for bench/report.py; problems that are in it are left out"
    )
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--processes", type=int, default=1, help="that have equally many of the 8 devices (1)")
    parser.add_argument("--process", nargs=2, metavar=("ADDRESS", "NUMBER"), help=argparse.SUPPRESS)
    return parser.parse_args(None if __name__ == "__main__" else [])  # other benchmarks import this one


OPTIONS = options_given()
DEVICES = 256 if OPTIONS.reports else 8
os.environ["JAX_PLATFORMS"] = OPTIONS.device
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={DEVICES // OPTIONS.processes}"
)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
if OPTIONS.processes > 1:  # which may share a GPU
    os.environ.setdefault("NCCL_MULTI_RANK_GPU_ENABLE", "1")
    os.environ.setdefault("NCCL_MAX_NCHANNELS", "1")

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

sys.path.append(str(ROOT / "tests" / "python"))
from problems import small_shape
from recorded import Recorded

import retile
from retile._programs import Program, axes_of, plan_for, program_for
from retile.jax import _movement

# Temporaries below a page are the program's own, whatever it moves.
LEAST_BYTES = 4096
# A problem is not timed for longer, but so often at least.
MOST_SECONDS, LEAST_REPETITIONS = 10, 5


def problem_of(report):
    """A report's layouts as a problem; None where they are no named shardings of so many devices."""
    if report["devices"] > DEVICES or "maximal" in report["from"]:
        return None
    layouts = retile.parse_ends(report["from"], report["to"], report["shape"])
    if layouts[0].mesh != layouts[1].mesh or any(one.devices != list(range(report["devices"])) for one in layouts):
        return None
    sides = [eval(one.to_notation("jax")[1], {"PartitionSpec": PartitionSpec}) for one in layouts]
    axes = [[list(reversed(axes_of(entry))) for entry in side] for side in sides]
    src, dst = (side + [[]] * (len(report["shape"]) - len(side)) for side in axes)
    return {"id": report["id"], "mesh": layouts[0].mesh.axes, "shape": report["shape"], "src": src, "dst": dst}


def shardings_of(problem):
    devices = jax.devices()[: math.prod(problem["mesh"].values())]
    mesh = jax.make_mesh(
        tuple(problem["mesh"].values()),
        tuple(problem["mesh"]),
        axis_types=(AxisType.Auto,) * len(problem["mesh"]),
        devices=devices,
    )
    for side in ("src", "dst"):
        yield NamedSharding(mesh, PartitionSpec(*(tuple(reversed(axes)) or None for axes in problem[side])))


@contextlib.contextmanager
def standard_error():
    """What is written to it meanwhile, by XLA too: a function that reads it."""
    own = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: (file.seek(0), file.read().decode(errors="replace"))[1]
        finally:
            os.dup2(own, 2)
            os.close(own)


def compiled(program):
    """And whether the compiler warned of it."""
    with standard_error() as read:
        return program.compiled, "ematerialization" in read()


def measure(problem, elements, repetitions):
    source, target = shardings_of(problem)
    shape = small_shape(problem, elements)
    array = np.random.default_rng(1).random(shape, np.float32)
    x = jax.device_put(array, source)
    movement = _movement(x, target)
    plan = plan_for(movement)
    chosen = program_for(movement).form
    found = {form: compiled(Program(movement, form, plan)) for form in ("xla", "fast", "collectives", "lean")}
    programs = {form: program for form, (program, _) in found.items()}
    programs["xla again"] = programs["xla"]
    for form, program in programs.items():
        for shard in program(x).addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), array[shard.index], form)
    seconds = {form: [] for form in programs}
    end = time.perf_counter() + MOST_SECONDS
    is_shared = OPTIONS.processes > 1  # then all repeat as often
    while len(seconds["xla"]) < (repetitions if is_shared or time.perf_counter() < end else LEAST_REPETITIONS):
        for form, program in programs.items():
            start = time.perf_counter()
            program(x).block_until_ready()
            seconds[form].append(time.perf_counter() - start)
    temporaries = {form: programs[form].memory_analysis().temp_size_in_bytes for form in found}
    return {
        "id": problem["id"],
        "shape": shape,
        "plan": [str(step) for step in plan.steps],
        "chosen": chosen,
        "seconds": {form: min(times) for form, times in seconds.items()},
        "temporaries": temporaries,
        "warned": [form for form, (_, warned) in found.items() if warned],
    }


def ratios(results, what, form):
    """XLA's over ours; 1 where we chose XLA's."""
    least = LEAST_BYTES if what == "temporaries" else 0
    for result in results:
        ours = result["chosen"] if form == "chosen" else form
        yield (result[what]["xla"] + least) / (result[what][ours] + least)


def start_processes():
    """Runs this script in several processes, and fails where one of them does, or is ended by a signal."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, *sys.argv, "--process", address]
    processes = [subprocess.Popen([*command, str(number)]) for number in range(OPTIONS.processes)]
    codes = [process.wait() for process in processes]
    sys.exit(any(codes))


def join_processes(address, number):
    if OPTIONS.device == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    ids = [0] if OPTIONS.device == "cuda" else None
    jax.distributed.initialize(address, OPTIONS.processes, int(number), local_device_ids=ids)


def report(results):
    print(
        f"{len(results)} problems, {OPTIONS.megabytes} MB, JAX {jax.__version__} on {OPTIONS.device} in "
        f"{OPTIONS.processes} process{'es' * (OPTIONS.processes > 1)}, {os.cpu_count()} cores",
        file=sys.stderr,
    )
    noise = [result["seconds"]["xla"] / result["seconds"]["xla again"] for result in results]
    mean = math.exp(sum(map(math.log, noise)) / len(noise))
    print(f"seconds of two equal contenders {mean:.2f} ({min(noise):.2f} to {max(noise):.2f})", file=sys.stderr)
    warned = {form: sum(form in result["warned"] for result in results) for form in results[0]["temporaries"]}
    print(f"compiler's warnings: {warned}", file=sys.stderr)
    for what in ("seconds", "temporaries"):
        for form in ("chosen", "fast", "collectives", "lean"):
            values = list(ratios(results, what, form))
            mean = math.exp(sum(map(math.log, values)) / len(values))
            worse = sum(value < 0.9 for value in values)
            print(
                f"{what:12} XLA's over ours, {form:11} {mean:5.2f} (least {min(values):.2f}, below 0.9: {worse})",
                file=sys.stderr,
            )


def main():
    if OPTIONS.processes > 1 and (OPTIONS.out or OPTIONS.seconds < math.inf):
        sys.exit("--out and --seconds are for one process: several would not end at the same problem")
    if OPTIONS.process:
        join_processes(*OPTIONS.process)
    elif OPTIONS.processes > 1:
        start_processes()
    results = []
    if OPTIONS.reports:
        lines = (ROOT / "tests" / "data" / "xla_reports.jsonl").read_text().splitlines()
        chosen = list(filter(None, (problem_of(json.loads(line)) for line in lines)))
    else:
        chosen = [json.loads(line) for line in OPTIONS.problems.read_text().splitlines()[:: OPTIONS.every]]
    recorded = Recorded(OPTIONS.out, "jax", f"jax {jax.__version__}", OPTIONS)
    for problem in chosen:
        if recorded.is_time_up():
            break
        if not recorded.wants(problem):
            continue
        result = measure(problem, OPTIONS.megabytes * 2**20 / 4, OPTIONS.repetitions)
        results.append(result)
        if jax.process_index() == 0:
            forms = dict(result["seconds"])
            seconds = {"auto": forms[result["chosen"]], "jax": forms.pop("xla"), "jax again": forms.pop("xla again")}
            recorded.append(problem | {"shape": result["shape"]}, seconds, forms)
            print(json.dumps(result), flush=True)
    if results and jax.process_index() == 0:
        report(results)


if __name__ == "__main__":
    main()
