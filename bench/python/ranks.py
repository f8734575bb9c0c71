"""The ranks of benchmarks of PyTorch: processes of this machine, with messages over gloo."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing

RANKS = 8


def start(measure, options):
    """Calls measure(rank, options) in each rank, and waits for all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.start_processes(_run, (port, measure, options), RANKS, start_method="fork")


def _run(rank, port, measure, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    measure(rank, options)
    dist.destroy_process_group()
