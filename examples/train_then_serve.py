#!/usr/bin/env python3
"""Trains a small model on four ranks and serves it on four others, with new weights after every step.

    torchrun --nproc-per-node 8 examples/train_then_serve.py

The trainers are FSDP2 x tensor parallel; the servers are tensor parallel, with fused matrices and a loader of their own. The
last lines say that every parameter of every server has the bits that its loader would have loaded.
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import retile.torch

HIDDEN, INNER, LAYERS, STEPS = 64, 192, 3, 3


# --- The trainers' model.


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("q", "k", "v", "o"):
            setattr(self, name, torch.nn.Linear(HIDDEN, HIDDEN, bias=False))

    def forward(self, x):
        return self.o(torch.softmax(self.q(x) * self.k(x), -1) * self.v(x))


class FeedForward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward, self.norm = Attention(), FeedForward(), torch.nn.LayerNorm(HIDDEN)

    def forward(self, x):
        return x + self.feed_forward(self.norm(x + self.attention(x)))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def sharded_model(mesh):
    torch.manual_seed(0)
    model = Model()
    cuts = {"attention.o": RowwiseParallel(), "feed_forward.down": RowwiseParallel()}
    cuts |= {f"attention.{name}": ColwiseParallel() for name in "qkv"}
    cuts |= {f"feed_forward.{name}": ColwiseParallel() for name in ("gate", "up")}
    for layer in model.layers:
        parallelize_module(layer, mesh["tp"], cuts)
        fully_shard(layer, mesh=mesh["fsdp"])  # norms are on this mesh alone: others of the layer on both
    return fully_shard(model, mesh=mesh["fsdp"])


# --- The servers' model: bf16, q|k|v and gate|up in one matrix each.


class Server(torch.nn.Module):
    def __init__(self, rank, ranks):
        super().__init__()
        self.rank, self.ranks = rank, ranks
        shapes = {
            "qkv": (3 * HIDDEN // ranks, HIDDEN),
            "o": (HIDDEN, HIDDEN // ranks),
            "gate_up": (2 * INNER // ranks, HIDDEN),
            "down": (HIDDEN, INNER // ranks),
            "norm_weight": (HIDDEN,),
            "norm_bias": (HIDDEN,),
        }
        self.layers = torch.nn.ModuleList(
            torch.nn.ParameterDict(
                {
                    name: torch.nn.Parameter(torch.zeros(shape, dtype=torch.bfloat16), False)
                    for name, shape in shapes.items()
                }
            )
            for _ in range(LAYERS)
        )

    def load_weights(self, weights):
        for name, weight in weights:
            _, layer, *path = name.split(".")
            self.load(self.layers[int(layer)], path, weight)

    def load(self, layer, path, weight):
        if path[0] == "norm":
            layer[f"norm_{path[1]}"].data.copy_(weight)
            return
        for fused, parts in (("qkv", "q k v"), ("gate_up", "gate up")):
            if path[1] in parts.split():
                room = layer[fused].data.chunk(len(parts.split()))[parts.split().index(path[1])]
                room.copy_(weight.chunk(self.ranks)[self.rank])
                return
        layer[path[1]].data.copy_(weight.chunk(self.ranks, 1)[self.rank])


# --- Both.


def train(mesh):
    model = sharded_model(mesh)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    transfer = retile.torch.Transfer(max_bytes=1 << 20, verify="crc32")
    transfer.add_sources(model.named_parameters(), dtype=torch.bfloat16)  # converted while it is packed
    plan = transfer.commit()
    if dist.get_rank() == 0:
        print(plan, end="")
    for step in range(STEPS):
        torch.manual_seed(step)
        model(torch.randn(8, HIDDEN)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        transfer.start().wait()
    return {name: parameter.detach().full_tensor() for name, parameter in model.named_parameters()}


def serve(rank, ranks):
    model = Server(rank, ranks)
    transfer = retile.torch.Transfer(max_bytes=1 << 20, verify="crc32")
    with transfer.record(model) as weights:
        model.load_weights(weights)  # on tensors without data: retile sees what goes where
    transfer.commit()
    for _ in range(STEPS):
        work = transfer.start()
        work.wait("layers.0")  # the first layer is there
        work.wait()
    return model, work.report


def main():
    dist.init_process_group("gloo")
    rank, half = dist.get_rank(), dist.get_world_size() // 2
    trainers = DeviceMesh("cpu", torch.arange(half).reshape(2, half // 2), mesh_dim_names=("fsdp", "tp"))
    if rank < half:
        weights = train(trainers)
    else:
        model, report = serve(rank - half, half)
    # What a server would have loaded from the whole weights.
    found = [weights if rank == 0 else None]
    dist.broadcast_object_list(found)
    result = ""
    if rank >= half:
        expected = Server(rank - half, half)
        expected.load_weights((name, weight.to(torch.bfloat16)) for name, weight in found[0].items())
        for (name, own), other in zip(model.named_parameters(), expected.parameters(), strict=True):
            assert torch.equal(own, other), name
        result = f"every bit is right, {report.received_bytes} bytes received, {report.staged_bytes} staged"
    results = [""] * dist.get_world_size()
    dist.all_gather_object(results, result)
    if rank == 0:
        for server, text in enumerate(results[half:]):
            print(f"server {server}: {text}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
