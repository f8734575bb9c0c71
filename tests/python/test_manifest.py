"""Manifests of live models, planned by the command. Skipped without PyTorch (make test-torch)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")

import retile

ROOT = Path(__file__).parents[2]

# A world of eight ranks in one process, without data: four train with FSDP2 x tensor parallelism, four serve.
WORLD = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

import retile
import retile.torch

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
trainers = DeviceMesh("cpu", torch.arange(4).reshape(2, 2), mesh_dim_names=("fsdp", "tp"))
servers = DeviceMesh("cpu", torch.arange(4, 8), mesh_dim_names=("tp",))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(10, 12, bias=False), torch.nn.Linear(12, 10, bias=False)
        self.norm = torch.nn.LayerNorm(10, bias=False)


with torch.device("meta"):
    model, server = Model(), Model()
parallelize_module(model, trainers["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
fully_shard(model, mesh=trainers["fsdp"])
parallelize_module(server, servers, {"up": ColwiseParallel(), "down": RowwiseParallel()})
names = [name for name, _ in model.named_parameters()]
"""


def printed(code):
    run = subprocess.run([sys.executable, "-c", WORLD + code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def planned(manifest):
    command = os.environ.get("RETILE_COMMAND", ROOT / "build/release/retile")
    run = subprocess.run(
        [command, "transfer", "-", "--dry-run", "--json"], input=manifest, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


# Bytes of each server's tiles: 3 rows of `up`, 3 columns of `down`, and `norm` as a whole.
TILES = 3 * 10 + 10 * 3 + 10


def test_a_live_model_is_planned_to_another_one():
    manifest = printed("print(retile.torch.manifest(model, server), end='')")
    lines = {json.loads(line)["name"]: line for line in manifest.splitlines()}
    assert list(lines) == ["up.weight", "down.weight", "norm.weight"]
    source, target, dtype = retile.parse_problem(lines["up.weight"])
    assert dtype == "f32"
    # The rows of a rank of tensor parallelism are cut once more by FSDP.
    assert [source.boxes(rank)[0] for rank in range(4)] == [
        ([0, 0], [3, 10]),
        ([6, 0], [9, 10]),
        ([3, 0], [6, 10]),
        ([9, 0], [12, 10]),
    ]
    assert [target.boxes(rank)[0] for rank in range(4, 8)] == [([3 * i, 0], [3 * i + 3, 10]) for i in range(4)]
    plan = planned(manifest)
    assert plan["received_bytes"] == plan["floor_bytes"] == [0] * 4 + [4 * TILES] * 4
    assert sum(plan["sent_bytes"]) == 4 * 4 * TILES
    assert plan["arrays"] == 3


def test_targets_are_placements_and_layouts_by_name():
    manifest = printed("""
layout = retile.Layout.cut(retile.Mesh({"x": 4}), (10,), [[]], devices=[4, 5, 6, 7])
targets = {"up.weight": (servers, [Shard(0)]), "down.weight": (servers, [Shard(1)]), "norm.weight": layout}
print(retile.torch.manifest(model, targets, dtype=torch.bfloat16), end="")
""")
    plan = planned(manifest)
    assert plan["received_bytes"] == plan["floor_bytes"] == [0] * 4 + [2 * TILES] * 4


def test_all_that_is_wrong_is_told_at_once():
    assert printed("""
whole = distribute_tensor(torch.zeros(3), servers, [Replicate()])
try:
    retile.torch.manifest(
        model,
        {
            "up.weigth": (servers, [Shard(0)]),
            "up.weight": torch.zeros(3, 3),
            "down.weight": torch.zeros(10, 12, dtype=torch.bfloat16),
            "norm.weight": (servers, [Partial()]),
        },
    )
except retile.InputError as error:
    print(error)
""") == (
        '"up.weigth": the model has no such tensor: did you mean "up.weight"?\n'
        '"up.weight": the target has shape [3, 3], and the source [12, 10]\n'
        '"down.weight": it is sent as torch.float32, and the target is of torch.bfloat16\n'
        "hint: dtype=… converts it\n"
        '"norm.weight": it is a sum: redistribute it first\n'
    )
