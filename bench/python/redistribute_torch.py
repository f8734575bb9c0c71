"""Our redistribute of DTensors against PyTorch's own, in 8 processes: time, and the peak of local tensors.

In turn, in one run; every rank compares its slice before anything is timed. Contenders: DTensor as shipped (twice: the
ratio of the two is noise), DTensor with its min-cost planner and real all-to-alls (over gloo it gathers instead), ours. A
line of JSON for each problem, then ratios: theirs over ours, geometric mean and least, above 1 we are better. Problems
whose axes DTensor cannot list in that order are left out.

Over gloo on the processor, or with --device cuda --backend nccl on a GPU for each rank or on one that ranks share: then
with NCCL 2.30 or later (LD_PRELOAD=…/libnccl.so.2 where PyTorch brings an older one), and under MPS with
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12 in the environment.
"""

import argparse
import contextlib
import json
import logging
import math
import os
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, _collective_utils, _redistribute, placement_types
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "python"))
import ranks
from problems import problems, small_shape
from recorded import Recorded

import retile.torch
from retile import _point_to_point

CALLS = 4  # between two barriers, which cost as much as a small call


def placements_of(problem, side):
    """None where DTensor, which cuts along the mesh's dimensions in order, cannot say it."""
    placements = [Replicate()] * len(problem["mesh"])
    for dimension, axes in enumerate(problem[side]):
        positions = [list(problem["mesh"]).index(axis) for axis in axes]
        if positions != sorted(positions, reverse=True):
            return None
        for position in positions:
            placements[position] = Shard(dimension)
    return placements


def slice_of(tensor, mesh, placements):
    for index, size, placement in zip(mesh.get_coordinate(), mesh.shape, placements, strict=True):
        if isinstance(placement, Shard):
            tensor = tensor.chunk(size, placement.dim)[index]
    return tensor.clone(memory_format=torch.contiguous_format)


# --- Contenders.


@contextlib.contextmanager
def min_cost():
    def all_to_all(tile, gather_dim, shard_dim, mesh, mesh_dim):
        group = mesh.get_group(mesh_dim)
        pieces = torch.stack(tile.chunk(mesh.size(mesh_dim), shard_dim))
        received = torch.empty_like(pieces)
        dist.all_to_all_single(received, pieces, group=group)
        return torch.cat(received.unbind(), gather_dim)

    users = [module for module in (_collective_utils, placement_types) if hasattr(module, "shard_dim_alltoall")]
    own = _collective_utils.shard_dim_alltoall
    for module in users:
        module.shard_dim_alltoall = all_to_all
    try:
        with _redistribute.use_min_cost_redistribution_plan():
            yield
    finally:
        for module in users:
            module.shard_dim_alltoall = own


def contenders(dt, target):
    mesh = dt.device_mesh
    found = {"shipped": (lambda: dt.redistribute(mesh, target), contextlib.nullcontext)}
    if hasattr(_redistribute, "use_min_cost_redistribution_plan"):
        found["min-cost"] = lambda: dt.redistribute(mesh, target), min_cost
    found["shipped again"] = found["shipped"]
    found["ours"] = lambda: retile.torch.redistribute(dt, target), contextlib.nullcontext
    return found


# --- Memory.


class LiveBytes(TorchDispatchMode):
    """The most bytes of tensors that operations made and that were alive at once."""

    def __init__(self):
        super().__init__()
        self.alive, self.peak = {}, 0  # by address

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        self.alive = {place: one for place, one in self.alive.items() if not one[0].expired()}
        for tensor in torch.utils._pytree.tree_leaves(result):
            if type(tensor) is torch.Tensor:  # of others, what is inside was seen
                storage = tensor.untyped_storage()
                self.alive[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()
        self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return result


def peak_tiles(run, source, larger):
    """Source included, in tiles of the larger side."""
    mode = LiveBytes()
    storage = source.untyped_storage()
    mode.alive[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()
    move = _point_to_point.move

    def counted(*arguments):  # modes do not look into custom operations
        with mode:
            return move(*arguments)

    _point_to_point.move = counted
    try:
        with mode:
            result = run()
        del result
    finally:
        _point_to_point.move = move
    return mode.peak / larger


# --- Measuring.


def placed(problem, megabytes, device="cpu"):
    """A tensor with the source's placements, the target's placements, and this rank's slice there. None where nothing
    moves, or where DTensor cannot say it."""
    sides = [placements_of(problem, side) for side in ("src", "dst")]
    if None in sides or sides[0] == sides[1]:
        return None
    mesh = init_device_mesh(device, tuple(problem["mesh"].values()), mesh_dim_names=tuple(problem["mesh"]))
    shape = small_shape(problem, megabytes * 2**20 / 4)
    tensor = torch.arange(math.prod(shape), dtype=torch.int32, device=device).view(torch.float32).reshape(shape)
    tile, expected = (slice_of(tensor, mesh, side) for side in sides)
    dt = DTensor.from_local(tile, mesh, sides[0], run_check=False, shape=tensor.shape, stride=tensor.stride())
    return dt, sides[1], expected


def require_moved(run, expected, what):
    moved = run().to_local()
    assert torch.equal(moved.view(torch.int32), expected.view(torch.int32)), what


def wait_for_all(device):
    if device == "cuda":
        torch.cuda.synchronize()
    dist.barrier()
    if device == "cuda":  # NCCL's barrier is on the device
        torch.cuda.synchronize()


def timed(contenders, repetitions, device="cpu"):
    """The seconds of each repetition, by contender: what runs, and the setting in which it does."""
    seconds = {name: [] for name in contenders}
    for _ in range(repetitions):
        for name, (run, setting) in contenders.items():
            with setting():
                wait_for_all(device)
                start = time.perf_counter()
                for _ in range(CALLS):
                    run()
                wait_for_all(device)
                seconds[name].append((time.perf_counter() - start) / CALLS)
    return seconds


def measure(problem, options):
    found = placed(problem, options.megabytes, options.device)
    if found is None:
        return None
    dt, target, expected = found
    tile = dt.to_local()
    runs = contenders(dt, target)
    peaks = {}
    for name, (run, setting) in runs.items():
        with setting():
            require_moved(run, expected, (problem["id"], name))
            peaks[name] = peak_tiles(run, tile, max(tile.nbytes, expected.nbytes))
    seconds = timed(runs, options.repetitions, options.device)
    return {
        "id": problem["id"],
        "shape": list(dt.shape),
        "seconds": {name: min(times) for name, times in seconds.items()},
        "peak_tiles": peaks,
    }


def run_rank(rank, options):
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    results = []
    recorded = Recorded(options.out, options.backend, f"torch {torch.__version__}", options)
    chosen = [problem for problem in problems()[:: options.every] if recorded.wants(problem)]
    dist.barrier()  # all ranks have read the file
    for problem in chosen:
        is_over = torch.tensor(recorded.is_time_up(), device=options.device)
        dist.broadcast(is_over, 0)  # one rank's clock decides
        if is_over:
            break
        result = measure(problem, options)
        if result:
            results.append(result)
            if rank == 0:
                print(json.dumps(result), flush=True)
                names = {"ours": "auto", "shipped": "dtensor", "shipped again": "dtensor again"}
                seconds = {names.get(name, name): time for name, time in result["seconds"].items()}
                recorded.append(problem | {"shape": result["shape"]}, seconds)
    if rank == 0 and results:
        report(results, options)


def mean_of(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def report(results, options):
    print(
        f"{len(results)} problems, {options.megabytes} MB, PyTorch {torch.__version__} over {options.backend} on "
        f"{options.device}, {os.cpu_count()} cores",
        file=sys.stderr,
    )
    noise = [result["seconds"]["shipped"] / result["seconds"]["shipped again"] for result in results]
    print(
        f"seconds     of two equal contenders {mean_of(noise):5.2f} ({min(noise):.2f} to {max(noise):.2f})",
        file=sys.stderr,
    )
    for name in results[0]["seconds"]:
        if name not in ("ours", "shipped again"):
            values = [result["seconds"][name] / result["seconds"]["ours"] for result in results]
            print(
                f"seconds     {name:8} over ours {mean_of(values):5.2f} "
                f"(least {min(values):.2f}, below 0.95: {sum(value < 0.95 for value in values)})",
                file=sys.stderr,
            )
    for name in (name for name in results[0]["peak_tiles"] if name != "shipped again"):
        values = [result["peak_tiles"][name] for result in results]
        print(f"peak        {name:8} {mean_of(values):5.2f} tiles (most {max(values):.2f})", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ranks.add_options(parser)
    parser.add_argument("--every", type=int, default=10, help="take each so-manieth problem (10)")
    parser.add_argument("--megabytes", type=float, default=16, help="of a tensor, about (16)")
    parser.add_argument("--repetitions", type=int, default=30, help="of which the fastest counts (30)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no problem is begun")
    parser.add_argument(
        "--out", type=Path, help="a results file for bench/report.py; problems that are in it are left out"
    )
    options = parser.parse_args()
    ranks.start(run_rank, options)


if __name__ == "__main__":
    main()
