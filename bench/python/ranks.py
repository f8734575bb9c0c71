"""The ranks of benchmarks of PyTorch: processes of this machine, with messages over gloo or another backend."""

import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing

RANKS = 8


def add_options(parser: argparse.ArgumentParser):
    parser.add_argument("--device", default="cpu", help="of tensors: cpu (default) or cuda")
    parser.add_argument("--backend", default="gloo", help="of messages: gloo (default) or nccl")


def start(measure, options):
    """Calls measure(rank, options) in each rank, and waits for all."""
    if getattr(options, "device", "cpu") == "cuda":
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # ranks are forked: no CUDA before
    if getattr(options, "backend", "gloo") == "nccl":  # also where ranks share a GPU, which NCCL 2.30 or later allows
        os.environ.setdefault("NCCL_MULTI_RANK_GPU_ENABLE", "1")
        os.environ.setdefault("NCCL_MAX_NCHANNELS", "1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.start_processes(_run, (port, measure, options), RANKS, start_method="fork")


def _run(rank, port, measure, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    if getattr(options, "device", "cpu") == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group(getattr(options, "backend", "gloo"), rank=rank, world_size=RANKS)
    measure(rank, options)
    dist.destroy_process_group()
