"""A model from four trainers to four servers over gloo: our transfer against buckets and against tensor by tensor.

The trainers are FSDP x tensor parallel (2 x 2), the servers tensor parallel (4), in bf16. Contenders, in turn and in one
run: buckets (all trainers gather, the first one broadcasts buckets of 64 MiB, servers take their slices), one
`retile.torch.redistribute` for each tensor, one `retile.torch.Transfer`, with and without checksums, and the same once
more, which shows the noise. Every server compares its slices before anything is timed. One line of JSON, then ratios:
theirs over ours, above 1 we are faster, of medians and in parentheses of the fastest runs. Compared are the time from the
first rank's start to the last one's end, and the processors' time of all ranks, which other work on the machine disturbs
less. Then what ranks held beside their tensors in a transfer, measured by the system and as reports say. The last rows are many small tensors against one message of the same bytes, and what commit() takes for many names.
"""

import argparse
import json
import os
import statistics
import sys
import time
import warnings

import ranks
import torch
import torch.distributed as dist
from resident import held_by
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import retile.torch

BUCKET = 64 << 20  # bytes
COLUMNS, ROWS, WHOLE = "columns", "rows", "whole"  # what tensor parallelism cuts: the outputs, the inputs, nothing


def model_of(options):
    """Names, shapes and cuts: three tensors, and nine in each layer."""
    hidden, inner = options.hidden, options.hidden * 11 // 4
    table = {"embed": ((options.vocabulary, hidden), COLUMNS)}
    for i in range(options.layers):
        for name in ("q", "k", "v"):
            table[f"layers.{i}.{name}"] = (hidden, hidden), COLUMNS
        table[f"layers.{i}.o"] = (hidden, hidden), ROWS
        table[f"layers.{i}.gate"] = table[f"layers.{i}.up"] = (inner, hidden), COLUMNS
        table[f"layers.{i}.down"] = (hidden, inner), ROWS
        table[f"layers.{i}.norm_1"] = table[f"layers.{i}.norm_2"] = (hidden,), WHOLE
    table["norm"] = (hidden,), WHOLE
    table["head"] = (options.vocabulary, hidden), COLUMNS
    return table


def placements_of(cut):
    """On the trainers' mesh and on the servers'."""
    if cut == WHOLE:
        return [Shard(0), Replicate()], [Replicate()]
    own, other = (0, 1) if cut == COLUMNS else (1, 0)
    return [Shard(other), Shard(own)], [Shard(own)]


def tile_of(tensor, mesh, placements):
    for index, size, placement in zip(mesh.get_coordinate(), mesh.shape, placements, strict=True):
        if isinstance(placement, Shard):
            tensor = tensor.chunk(size, placement.dim)[index]
    return tensor.clone(memory_format=torch.contiguous_format)


def tensor_of(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def dtensor_of(tile, mesh, placements, shape):
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(tile, mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)


class Model:
    """The sources or targets of this rank."""

    def __init__(self, options):
        self.is_trainer = dist.get_rank() < 4
        self.trainers = DeviceMesh("cpu", torch.arange(4).reshape(2, 2), mesh_dim_names=("fsdp", "tp"))
        self.servers = DeviceMesh("cpu", torch.arange(4, 8), mesh_dim_names=("tp",))
        self.table = model_of(options)
        self.tensors = {}
        for i, (name, (shape, cut)) in enumerate(self.table.items()):
            mesh, placements = (
                (self.trainers, self.servers)[not self.is_trainer],
                placements_of(cut)[not self.is_trainer],
            )
            tile = tile_of(tensor_of(shape, i), mesh, placements)
            self.tensors[name] = dtensor_of(
                tile if self.is_trainer else torch.zeros_like(tile), mesh, placements, shape
            )
        # To whom redistribute() is to move something, a rank says so with a tensor without elements.
        self.sources = {
            name: self.tensors[name]
            if self.is_trainer
            else dtensor_of(
                torch.empty((0,) * len(shape), dtype=torch.bfloat16), self.trainers, placements_of(cut)[0], shape
            )
            for name, (shape, cut) in self.table.items()
        }

    def clear(self):
        for tensor in () if self.is_trainer else self.tensors.values():
            tensor.to_local().zero_()

    def check(self, contender):
        for i, (name, (shape, cut)) in enumerate(self.table.items()):
            if not self.is_trainer:
                expected = tile_of(tensor_of(shape, i), self.servers, placements_of(cut)[1])
                assert torch.equal(self.tensors[name].to_local(), expected), (contender, name)

    # --- Contenders.

    def move_in_buckets(self):
        pending, size = [], 0
        for name, (shape, _) in self.table.items():
            pending.append(name)
            size += 2 * torch.Size(shape).numel()
            if size >= BUCKET:
                self._move_bucket(pending)
                pending, size = [], 0
        if pending:
            self._move_bucket(pending)

    def _move_bucket(self, names):
        length = sum(torch.Size(self.table[name][0]).numel() for name in names)
        if self.is_trainer:
            bucket = torch.cat([self.tensors[name].full_tensor().reshape(-1) for name in names])
        else:
            bucket = torch.empty(length, dtype=torch.bfloat16)
        dist.broadcast(bucket, 0)
        for name in () if self.is_trainer else names:
            shape, cut = self.table[name]
            whole, bucket = bucket[: torch.Size(shape).numel()], bucket[torch.Size(shape).numel() :]
            tile = self.tensors[name].to_local()
            tile.copy_(
                whole.view(shape).chunk(4, placements_of(cut)[1][0].dim)[self.servers.get_local_rank()]
                if cut != WHOLE
                else whole.view(shape)
            )

    def move_one_by_one(self):
        for name, (_, cut) in self.table.items():
            moved = retile.torch.redistribute(self.sources[name], placements_of(cut)[1], mesh=self.servers)
            if not self.is_trainer:
                self.tensors[name].to_local().copy_(moved.to_local())

    def transfer(self, **options):
        t = retile.torch.Transfer(**options)
        (t.add_sources if self.is_trainer else t.add_targets)(self.tensors)
        t.commit()

        def move():
            work = t.start()
            work.wait()
            return work.report

        return move


def measured(contenders, repetitions):
    """By contender: the seconds of every run, and the processors' of all ranks in it. The order rotates."""
    seconds, processors = {name: [] for name in contenders}, {name: [] for name in contenders}
    for turn in range(repetitions):
        names = list(contenders)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            dist.barrier()
            start, begin = time.perf_counter(), time.process_time()
            contenders[name]()
            used = torch.tensor(time.process_time() - begin, dtype=torch.float64)
            ends = torch.tensor([-start, time.perf_counter()], dtype=torch.float64)  # ranks of a host have one clock
            dist.all_reduce(ends, dist.ReduceOp.MAX)
            dist.all_reduce(used)
            seconds[name].append(float(ends.sum()))
            processors[name].append(float(used))
    return seconds, processors


def small_tensors(options):
    """1,000 of 64 KiB from rank 0 to rank 4, and as many bytes in one message."""
    rank, count = dist.get_rank(), 1000
    t = retile.torch.Transfer()
    tensors = {f"w{i}": torch.full((1 << 15,), i % 100, dtype=torch.int16) for i in range(count)}
    if rank == 0:
        t.add_sources(tensors)
    if rank == 4:
        t.add_targets(tensors)
    t.commit()
    message = torch.zeros(count << 16, dtype=torch.uint8)

    def send():
        if rank == 0:
            dist.send(message, 4)
        if rank == 4:
            dist.recv(message, 0)

    seconds, _ = measured({"one message": send, "1,000 tensors": lambda: t.start().wait()}, options.repetitions)
    return seconds


def commit_seconds(count):
    t = retile.torch.Transfer()
    rows = torch.zeros(count, 4)
    (t.add_sources if dist.get_rank() < 4 else t.add_targets)((f"layers.{i}.weight", rows[i]) for i in range(count))
    dist.barrier()
    start = time.perf_counter()
    t.commit()
    dist.barrier()
    return time.perf_counter() - start


def run_rank(rank, options):
    warnings.simplefilter("ignore")
    model = Model(options)
    contenders = {
        "buckets": model.move_in_buckets,
        "tensor by tensor": model.move_one_by_one,
        "transfer": model.transfer(max_bytes=options.max_bytes),
        "transfer again": model.transfer(max_bytes=options.max_bytes),
        "transfer, messages": model.transfer(max_bytes=options.max_bytes, transport="messages"),
        "transfer, crc32": model.transfer(max_bytes=options.max_bytes, verify="crc32"),
    }
    contenders = {name: run for name, run in contenders.items() if not options.ours or name.startswith("transfer")}
    memory = {}
    for name, run in contenders.items():
        model.clear()
        reports = []
        held = held_by(lambda run=run, reports=reports: reports.append(run()))
        model.check(name)
        if name.startswith("transfer"):
            most = torch.tensor([held, reports[0].staged_bytes])
            dist.all_reduce(most, dist.ReduceOp.MAX)
            memory[name] = most.tolist()
    seconds, processors = measured(contenders, options.repetitions)
    small, commit = small_tensors(options), commit_seconds(options.names)
    if rank == 0:
        report(model, seconds, processors, memory, small, commit, options)


def report(model, seconds, processors, memory, small, commit, options):
    size = sum(2 * torch.Size(shape).numel() for shape, _ in model.table.values())
    result = {"tensors": len(model.table), "bytes": size, "seconds": seconds, "processor_seconds": processors}
    result["held_and_staged_bytes"] = memory
    print(json.dumps(result | {"small": small, "commit": commit}), flush=True)
    print(
        f"{len(model.table)} tensors, {size} bytes, cap {options.max_bytes}, PyTorch {torch.__version__}, "
        f"{os.cpu_count()} cores",
        file=sys.stderr,
    )
    for name in seconds:
        print(
            f"{name:18} {compared(seconds[name], seconds['transfer'])}; "
            f"processors {compared(processors[name], processors['transfer'])}",
            file=sys.stderr,
        )
    for name, (held, staged) in memory.items():
        print(f"{name:18} held {held:,} bytes at most, {staged:,} reported", file=sys.stderr)
    one, many = small.values()
    print(f"1,000 tensors of 64 KiB {compared(many, one)}, which is one message", file=sys.stderr)
    print(f"commit of {options.names} tensors {commit:.2f} s", file=sys.stderr)


def compared(times, others):
    """The median, and its ratio to that of others; in parentheses those of the fastest runs."""
    median, fastest = statistics.median(times), min(times)
    return (
        f"{median:8.4f} s ({fastest:.4f}), over {median / statistics.median(others):6.3f} ({fastest / min(others):.3f})"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=512, help="elements (512)")
    parser.add_argument("--layers", type=int, default=6, help="of nine tensors each (6)")
    parser.add_argument("--vocabulary", type=int, default=8192, help="elements (8192)")
    parser.add_argument("--max-bytes", type=int, default=64 << 20, help="that a rank stages (64 MiB)")
    parser.add_argument("--repetitions", type=int, default=10, help="of each contender (10)")
    parser.add_argument("--ours", action="store_true", help="only our transfers, with and without checksums")
    parser.add_argument("--names", type=int, default=20000, help="for commit() (20000)")
    options = parser.parse_args()
    ranks.start(run_rank, options)


if __name__ == "__main__":
    main()
