"""Ranks of PyTorch on this machine: started once, they run every case one after the other."""

import contextlib
import datetime
import json
import logging
import os
import socket
import traceback
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing

SECONDS = 60  # after which a rank that waits for another one gives up


def run_cases(cases, ranks, folder, backend="gloo"):
    """What each case raised in some rank, as text; nothing where it passed everywhere."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = (ranks, port, {case.__name__: case for case in cases}, str(folder), backend)
    torch.multiprocessing.start_processes(_run_rank, arguments, ranks, start_method="fork")
    outcomes = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]
    return {
        case.__name__: "\n".join(
            f"rank {rank}: {outcome[case.__name__]}" for rank, outcome in enumerate(outcomes) if outcome[case.__name__]
        )
        for case in cases
    }


def _run_rank(rank, ranks, port, cases, folder, backend):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # DTensor warns of its own plans
    if os.environ.get("RETILE_TEST_DEVICE") == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group(backend, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=SECONDS))
    outcomes = {}
    for name, case in cases.items():
        try:
            case()
            outcomes[name] = ""
        except Exception:
            outcomes[name] = traceback.format_exc()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(outcomes))
    with contextlib.suppress(RuntimeError):  # where a case broke the connections
        dist.barrier()  # the first rank has the store
    dist.destroy_process_group()
