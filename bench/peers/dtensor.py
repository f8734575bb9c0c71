#!/usr/bin/env python3
"""Times the redistributions of PyTorch's DTensor beside ours, on the same machine: gloo, a process for each device."""

import functools
import graphlib
import itertools
import logging
import os
import time

from layout import box_of, device_count, values_of
from peer import Peer, main
from workers import Unable

DTYPES = {"i8": "int8", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "f32": "float32", "f64": "float64"}
DTYPES |= {"c64": "complex64", "c128": "complex128"}


def mesh_order(problem):
    """Axes in an order for which DTensor means our layouts: of the axes that cut one dimension, its meshes have the
    major one first. Source and target share a mesh, so they may leave no such order."""
    sorter = graphlib.TopologicalSorter(dict.fromkeys(problem["mesh"], ()))
    for axes in problem["src"] + problem["dst"]:
        for minor, major in itertools.pairwise(axes):
            sorter.add(minor, major)
    try:
        return tuple(sorter.static_order())
    except graphlib.CycleError as error:
        raise Unable("DTensor cannot cut a dimension along axes in two different orders") from error


class DTensorWorker:
    """The process of one device."""

    def __init__(self, rank, count, meeting):
        import torch
        import torch.distributed.tensor

        self.torch, self.rank, self.count = torch, rank, count
        logging.disable(logging.WARNING)  # gloo's lack of alltoall is told anew each time, and telling takes time
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // count))
        torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
        self.mesh_of = functools.cache(self._make_mesh)  # a mesh opens connections that stay
        self.release()

    def release(self):
        self.source = self.target_placements = None

    def prepare(self, problem):
        """Redistributes once and checks the elements. DTensor has no steps to show."""
        order = mesh_order(problem)
        mesh = self.mesh_of(tuple(problem["mesh"].items()), order)
        source_placements = self._placements(order, problem["src"])
        self.target_placements = self._placements(order, problem["dst"])
        local = self._elements(problem, problem["src"])
        self.source = self.torch.distributed.tensor.DTensor.from_local(local, mesh, source_placements, run_check=False)
        expected = self._elements(problem, problem["dst"])
        found = self._redistribute()
        right = self.torch.tensor(int(self.torch.equal(found, expected)))
        self.torch.distributed.all_reduce(right, op=self.torch.distributed.ReduceOp.MIN)
        if not right:
            raise Unable("wrong elements on some device")
        return []

    def measure(self, repetitions):
        """Start and end of each repetition, on the clock that all processes share."""
        self._time_once()
        return [self._time_once() for _ in range(repetitions)]

    def _time_once(self):
        self.torch.distributed.barrier()
        start = time.monotonic()
        target = self._redistribute()
        end = time.monotonic()
        del target
        return start, end

    def _redistribute(self):
        return self.source.redistribute(placements=self.target_placements).to_local()

    def _elements(self, problem, layout):
        values = values_of(problem, box_of(problem, layout, self.rank))
        return self.torch.from_numpy(values.astype("int32")).to(getattr(self.torch, DTYPES[problem["dtype"]]))

    def _make_mesh(self, axes, order):
        """Devices are numbered row-major over the axes as declared, whatever their order in DTensor's mesh."""
        names = [name for name, _ in axes]
        devices = self.torch.arange(self.count).reshape([size for _, size in axes])
        devices = devices.permute([names.index(name) for name in order])
        return self.torch.distributed.tensor.DeviceMesh("cpu", devices.contiguous(), mesh_dim_names=order)

    def _placements(self, order, layout):
        tensor = self.torch.distributed.tensor
        dimension_of = {axis: dimension for dimension, axes in enumerate(layout) for axis in axes}
        return [tensor.Shard(dimension_of[axis]) if axis in dimension_of else tensor.Replicate() for axis in order]


def spans(times):
    """Of each repetition, from the first start to the last end: with more processes than cores, the longest time that
    a process took would say too little."""
    return [
        max(end for _, end in repetition) - min(start for start, _ in repetition)
        for repetition in zip(*times, strict=True)
    ]


if __name__ == "__main__":
    main(
        Peer(
            name="dtensor",
            packages=("torch", "numpy"),
            make_worker=DTensorWorker,
            processes=device_count,
            combine=spans,
            # Everything is on this machine: the loopback interface needs no name to be resolved.
            environment=lambda devices: {"GLOO_SOCKET_IFNAME": "lo"},
        ),
        __doc__,
    )
