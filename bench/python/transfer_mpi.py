"""A model on eight MPI ranks: `retile.Transfer` over mpi4py against the library's transfer on the same ranks.

Both move the arrays of one manifest, from Qwen3-30B-A3B's trainer to its server (examples/models/manifest.py), scaled to
fit. They run in turn, in jobs of their own, and compare every tile before anything is timed. The library's transfer runs
twice in a turn, which shows the noise, and both run once more by messages alone. A line of JSON, then ratios of the fastest
runs: Python's over the library's; and what ranks of Python's transfers held beside their tiles, measured by the system and
as the report says.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import retile

ROOT = Path(__file__).parents[2]
RANKS = 8


def slice_of(shape, box):
    """Of an array whose elements are their own numbers, as far as 16 bits tell them apart."""
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    numbers = sum(
        np.arange(lo, hi, dtype=np.int64).reshape([-1 if i == j else 1 for j in range(len(shape))]) * strides[i]
        for i, (lo, hi) in enumerate(zip(*box, strict=True))
    )
    return (numbers % 65521).astype(np.uint16)


def run_rank(manifest, max_bytes, repetitions, transport):
    from mpi4py import MPI
    from resident import held_by

    comm, targets = MPI.COMM_WORLD, []
    rank = comm.Get_rank()
    t = retile.Transfer(comm, max_bytes=max_bytes, transport=transport)
    for line in Path(manifest).read_text().splitlines():
        name = json.loads(line)["name"]
        source, target, dtype = retile.parse_problem(line)
        assert dtype == "bf16"  # moved as the bits that they are
        for box in source.boxes(rank) if rank < source.device_count else ():
            t.add_source(name, slice_of(source.shape, box), box=list(zip(*box, strict=True)))
        for box in target.boxes(rank) if rank < target.device_count else ():
            tile = np.ones([hi - lo for lo, hi in zip(*box, strict=True)], np.uint16)  # pages that are there
            t.add_target(name, tile, box=list(zip(*box, strict=True)))
            targets.append((tile, slice_of(target.shape, box)))
    t.commit()
    reports = []

    def move():
        work = t.start()
        work.wait()
        reports.append(work.report)

    held = comm.gather((held_by(move), reports[0].staged_bytes))
    assert all(np.array_equal(tile, expected) for tile, expected in targets)
    times = []
    for _ in range(repetitions):
        comm.Barrier()
        begin = time.perf_counter()
        move()
        comm.Barrier()
        times.append(time.perf_counter() - begin)
    if rank == 0:
        held, staged = map(max, zip(*held, strict=True))
        print(json.dumps({"seconds": min(times), "held": held, "staged": staged}))


def result_of(command):
    job = list(map(str, [ROOT / "bench/mpi/run.sh", *command]))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "RANKS": str(RANKS)}
    result = subprocess.run(job, capture_output=True, text=True, env=environment, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(job)}\n{result.stderr}")
    found = json.loads(result.stdout.strip().splitlines()[-1])
    seconds = found["seconds"]
    return {"seconds": min(seconds) if isinstance(seconds, list) else seconds, "memory": _memory_of(found)}


def _memory_of(found):
    return f"; held {found['held']:,} bytes, {found['staged']:,} reported" if "held" in found else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=2, help="of the model (2)")
    parser.add_argument("--divide", type=int, default=4, help="widths by this (4)")
    parser.add_argument("--max-bytes", type=int, default=64 << 20, help="that a rank stages (64 MiB)")
    parser.add_argument("--repetitions", type=int, default=10, help="in a job (10)")
    parser.add_argument("--turns", type=int, default=3, help="jobs of each, in turn (3)")
    parser.add_argument("--transport", default="auto", help=argparse.SUPPRESS)  # in a job
    parser.add_argument("--manifest", help=argparse.SUPPRESS)  # in a job
    options = parser.parse_args()
    if options.manifest:
        return run_rank(options.manifest, options.max_bytes, options.repetitions, options.transport)
    generator = [sys.executable, ROOT / "examples/models/manifest.py", "qwen3-30b-a3b", RANKS, RANKS]
    generator += ["--layers", options.layers, "--divide", options.divide]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as manifest:
        manifest.write(subprocess.check_output(list(map(str, generator)), text=True))
        manifest.flush()
        command = os.environ.get("RETILE_COMMAND", ROOT / "build/release/retile")
        library = [command, "transfer", manifest.name, "--json", "--max-bytes", options.max_bytes]
        library += ["--repeat", options.repetitions]
        python = [sys.executable, __file__, "--manifest", manifest.name, "--max-bytes", options.max_bytes]
        python += ["--repetitions", options.repetitions]
        contenders = {
            "library": library,
            "library again": library,
            "library by messages": [*library, "--transport", "messages"],
            "Python": python,
            "Python by messages": [*python, "--transport", "messages"],
        }
        results = {name: [] for name in contenders}
        for _ in range(options.turns):
            for name, one in contenders.items():
                results[name].append(result_of(one))
    print(json.dumps({name: [one["seconds"] for one in listed] for name, listed in results.items()}), flush=True)
    fastest = {name: min(listed, key=lambda one: one["seconds"]) for name, listed in results.items()}
    for name, one in fastest.items():
        ratio = fastest["Python"]["seconds"] / one["seconds"]
        print(f"{name:20} {one['seconds']:8.4f} s, Python over it {ratio:6.2f}{one['memory']}", file=sys.stderr)


if __name__ == "__main__":
    main()
