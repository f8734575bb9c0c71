"""Whole models of PyTorch's tensors: what test_torch_transfer.py runs in eight processes, four trainers and four servers."""

import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import retile
import retile.torch
from retile import _retile

TRAINERS, SERVERS = range(4), range(4, 8)


def is_trainer():
    return dist.get_rank() < 4


def weights(dtype=torch.float32):
    """As FSDP and tensor parallelism cut them: shapes, and placements on the trainers' 2 x 2 and the servers' 4."""
    generator = torch.Generator().manual_seed(1)
    table = {
        "embed": ((24, 16), [Shard(0), Shard(0)], [Shard(0)]),
        "norm": ((16,), [Shard(0), Replicate()], [Replicate()]),
    }
    for i in range(3):
        table[f"layers.{i}.q"] = ((16, 16), [Shard(1), Shard(0)], [Shard(0)])
        table[f"layers.{i}.o"] = ((16, 16), [Shard(0), Shard(1)], [Shard(1)])
        table[f"layers.{i}.up"] = ((20, 16), [Shard(0), Replicate()], [Shard(0)])
    return {
        name: (torch.randn(shape, generator=generator).to(dtype), source, target)
        for name, (shape, source, target) in table.items()
    }


def meshes():
    """Every rank makes both, as groups are made by all."""
    trainers = DeviceMesh("cpu", torch.arange(4).reshape(2, 2), mesh_dim_names=("fsdp", "tp"))
    return trainers, DeviceMesh("cpu", torch.arange(4, 8), mesh_dim_names=("tp",))


def tile_of(tensor, mesh, placements):
    """This rank's slice."""
    for index, size, placement in zip(mesh.get_coordinate(), mesh.shape, placements, strict=True):
        if isinstance(placement, Shard):
            tensor = tensor.chunk(size, placement.dim)[index]
    return tensor.clone(memory_format=torch.contiguous_format)


def sources_of(model, mesh):
    return {
        name: DTensor.from_local(
            tile_of(tensor, mesh, source), mesh, source, shape=tensor.shape, stride=tensor.stride()
        )
        for name, (tensor, source, _) in model.items()
    }


def targets_of(model, mesh, dtype=None):
    return {
        name: DTensor.from_local(
            torch.zeros_like(tile_of(tensor, mesh, target), dtype=dtype),
            mesh,
            target,
            shape=tensor.shape,
            stride=tensor.stride(),
        )
        for name, (tensor, _, target) in model.items()
    }


def refusal_of(action):
    begin = time.monotonic()
    try:
        action()
    except (retile.InputError, RuntimeError) as error:
        assert time.monotonic() - begin < 20
        return str(error)
    raise AssertionError("nothing was raised")


def servers_get_what_trainers_have():
    trainers, servers = meshes()
    model = weights()
    for verify, dtype in ((None, None), ("crc32", torch.bfloat16), (None, torch.float16)):
        t = retile.torch.Transfer(max_bytes=4096, verify=verify)
        if is_trainer():
            t.add_sources(sources_of(model, trainers), dtype=dtype)
        else:
            targets = targets_of(model, servers, dtype)
            t.add_targets(targets)
        plan = t.commit()
        for _ in range(2):
            work = t.start()
            work.wait()
            assert work.report.staged_bytes <= 4096 and work.report.rounds == plan.rounds
            if is_trainer():
                continue
            for name, (tensor, _, placements) in model.items():
                expected = tile_of(tensor, servers, placements).to(dtype or tensor.dtype)
                assert torch.equal(targets[name].to_local(), expected), name
                targets[name].to_local().zero_()


def boxes_go_to_memory_that_is_there():
    """Fused q|k|v of the servers' heads, with k and v for two servers each."""
    trainers, _ = meshes()
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(rows, 8, generator=generator) for rows in (16, 8, 8))
    t = retile.torch.Transfer()
    if is_trainer():
        names = {"q": q, "k": k, "v": v}
        t.add_sources((name, distribute_tensor(one, trainers, [Shard(1), Shard(0)])) for name, one in names.items())
    else:
        server = dist.get_rank() - 4
        rows = [(4 * server, 4 * server + 4)] + [(server // 2 * 4, server // 2 * 4 + 4)] * 2
        fused = torch.nn.Parameter(torch.zeros(12, 8))
        for i, (name, box) in enumerate(zip("qkv", rows, strict=True)):
            t.add_target(name, fused.data[4 * i : 4 * i + 4], box=(box, (0, 8)))
    t.commit()
    t.start().wait()
    if not is_trainer():
        expected = torch.cat([one[slice(*box)] for one, box in zip((q, k, v), rows, strict=True)])
        assert torch.equal(fused.data, expected)


def norms_on_sub_meshes_are_replicas():
    """As FSDP2 has them beside tensor parallelism: each row of the mesh is a mesh of its own."""
    trainers, _ = meshes()
    norm = torch.arange(10.0)
    t = retile.torch.Transfer()
    if is_trainer():
        fsdp = trainers["fsdp"]
        t.add_source("norm", DTensor.from_local(tile_of(norm, fsdp, [Shard(0)]), fsdp, [Shard(0)]))
    target = torch.zeros(10)
    t.add_target("norm", target)
    plan = t.commit()
    t.start().wait()
    assert torch.equal(target, norm)
    assert {plan.sent_bytes(rank) for rank in TRAINERS} == {60}  # half of what six ranks want of a half
    assert plan.received_bytes(5) == 40


def memory_of_ranks_of_one_host_is_read():
    """Trainers' columns and servers' rows, from strided memory to strided memory; what passes between hosts is sent."""
    trainers, servers = meshes()
    weight = torch.arange(1 << 18, dtype=torch.int32).view(512, 512)
    for hosts, transport in ((1, "auto"), (2, "auto"), (1, "messages")):
        t = retile.torch.Transfer(host=str(dist.get_rank() % hosts), transport=transport)
        if is_trainer():
            tile = torch.zeros(512, 600, dtype=torch.int32)[:, :256]
            tile = tile.copy_(weight[:, 256 * (dist.get_rank() % 2) :][:, :256])
            box = ((0, 512), (256 * (dist.get_rank() % 2), 256 * (dist.get_rank() % 2) + 256))
            t.add_source("w", tile, box=box)
        target = torch.zeros(128, 700, dtype=torch.int32)[:, 100:612]
        if not is_trainer():
            t.add_target("w", DTensor.from_local(target, servers, [Shard(0)]))
        t.commit()
        for _ in range(2):
            target.zero_()
            work = t.start()
            work.wait("w") if not is_trainer() else None
            assert is_trainer() or torch.equal(target, tile_of(weight, servers, [Shard(0)]))
            work.wait()
        report = work.report
        marks, readable = [None] * 8, [None] * 8
        dist.all_gather_object(marks, _retile.process_mark())
        dist.all_gather_object(readable, all(_retile.can_read(*mark) for mark in marks))
        if not is_trainer() and all(readable):
            expected = {(1, "auto"): 1 << 18, (2, "auto"): 1 << 17, (1, "messages"): 0}[hosts, transport]
            assert report.read_bytes == expected, report


def any_group_carries_it():
    """Ranks 6, 1 and 3 as a group: layouts are over its ranks, meshes over the world's."""
    group = dist.new_group([1, 3, 6])
    mesh = DeviceMesh("cpu", [3, 1], mesh_dim_names=("x",))
    rank = dist.get_rank()
    if rank in (1, 3, 6):
        whole = torch.arange(24.0).reshape(6, 4)
        t = retile.torch.Transfer(group=group)
        if rank == 6:
            target = torch.zeros(4, 6).T
            t.add_target("w", target)
        else:
            t.add_source("w", DTensor.from_local(tile_of(whole, mesh, [Shard(0)]), mesh, [Shard(0)]))
        t.commit()
        t.start().wait()
        assert rank != 6 or torch.equal(target, whole)
    dist.barrier()
    t = retile.torch.Transfer()  # tensors with layouts over the ranks of the group
    layout = retile.Layout.cut(retile.Mesh({"x": 4}), (8, 3), [["x"], []], devices=[7, 5, 2, 0])
    whole = torch.arange(24.0).reshape(8, 3)
    boxes = layout.boxes(rank)
    if boxes:
        t.add_source("w", whole[boxes[0][0][0] : boxes[0][1][0]], layout)
    target = torch.zeros(8, 3)
    t.add_target("w", target)
    t.commit()
    t.start().wait()
    assert torch.equal(target, whole)


def weights_are_scaled_in_blocks():
    """FSDP's rows and tensor parallelism's columns are cut across blocks; servers have rows of both, as they load them."""
    trainers, _ = meshes()
    weight = torch.randn(50, 36, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    blocks = torch.nn.functional.pad(weight.float(), (0, 4, 0, 6)).view(7, 8, 5, 8)
    scales = 448.0 / blocks.abs().amax(dim=(1, 3), keepdim=True)
    expected = torch.clamp(blocks * scales, -448, 448).to(torch.float8_e4m3fn).view(torch.uint8).view(56, 40)[:50, :36]
    for max_bytes in (4096, 1 << 20):
        t = retile.torch.Transfer(max_bytes=max_bytes, verify="crc32")
        if is_trainer():
            placements = [Shard(0), Shard(1)]
            tile = tile_of(weight, trainers, placements)
            one = DTensor.from_local(tile, trainers, placements, shape=weight.shape, stride=weight.stride())
            t.add_source("w", one, dtype=torch.float8_e4m3fn, block=(8, 8))
        data, inverses = torch.zeros(50, 36, dtype=torch.float8_e4m3fn), torch.zeros(7, 5)
        if not is_trainer():
            t.add_targets({"w": data, "w_scale_inv": inverses})
        t.commit()
        for _ in range(2):
            work = t.start()
            work.wait()
            assert work.report.staged_bytes <= max_bytes
        if not is_trainer():
            assert torch.equal(data.view(torch.uint8), expected)
            assert torch.equal(inverses, scales.reciprocal().view(7, 5))


def layers_are_waited_for():
    trainers, servers = meshes()
    model = weights()
    t = retile.torch.Transfer(max_bytes=2048)
    targets = {} if is_trainer() else targets_of(model, servers)
    t.add_sources(sources_of(model, trainers) if is_trainer() else {})
    t.add_targets(targets)
    t.commit()
    work = t.start()
    for name in targets and ("layers.0", "layers.1", "layers.2"):
        work.wait(name)
        for array in targets:
            if array.startswith(name):
                expected = tile_of(model[array][0], servers, model[array][2])
                assert torch.equal(targets[array].to_local(), expected), array
    work.wait()


def what_changed_is_sent():
    trainers, servers = meshes()
    model = weights()
    t = retile.torch.Transfer(max_bytes=2048, verify="crc32")
    sources = sources_of(model, trainers) if is_trainer() else {}
    targets = {} if is_trainer() else targets_of(model, servers)
    t.add_sources(sources)
    t.add_targets(targets)
    t.commit()
    lengths = []
    for step in range(3):
        if step == 2 and is_trainer():
            sources["norm"].to_local().add_(1)
        work = t.start(changed=True)
        work.wait()
        lengths.append(work.report.sent_bytes)
    assert not is_trainer() or lengths[0] > lengths[2] >= lengths[1]
    if targets:
        assert torch.equal(targets["norm"].to_local(), model["norm"][0] + 1)
        assert torch.equal(targets["embed"].to_local(), tile_of(model["embed"][0], servers, [Shard(0)]))


def elements_of_any_size_are_moved():
    bits = torch.arange(64, dtype=torch.uint8)
    tensors = {
        str(dtype): bits.view(dtype) for dtype in (torch.float8_e4m3fn, torch.int64, torch.bfloat16, torch.complex128)
    }
    t = retile.torch.Transfer()
    targets = {name: torch.empty_like(tensor) for name, tensor in tensors.items()}
    (t.add_targets(targets) if dist.get_rank() else t.add_sources(tensors))
    t.commit()
    t.start().wait()
    assert dist.get_rank() == 0 or all(torch.equal(target.view(torch.uint8), bits) for target in targets.values())


def tensors_that_moved_are_found():
    t = retile.torch.Transfer()
    parameter = torch.nn.Parameter(torch.full((4,), 1.0))
    target = torch.zeros(4)
    (t.add_target("w", target) if dist.get_rank() else t.add_source("w", parameter))
    t.commit()
    t.start().wait()
    parameter.data = torch.full((4,), 2.0)
    t.start().wait()
    assert dist.get_rank() == 0 or target.tolist() == [2] * 4


def what_is_wrong_is_told_everywhere():
    trainers, servers = meshes()
    model = weights()

    def commit():
        t = retile.torch.Transfer()
        if is_trainer():
            t.add_sources(sources_of(model, trainers))
        else:
            targets = targets_of(model, servers, torch.bfloat16)
            targets["layers.3.q"] = targets.pop("layers.2.q")
            targets = {name: targets[name] for name in ("norm", "layers.3.q")}
            t.add_targets(targets)
        t.commit()

    assert refusal_of(commit) == (
        '"layers.3.q": ranks 4, 5, 6 and 7 want it, and no rank has it: did you mean "layers.2.q"?\n'
        '"norm": rank 0 sends float32, and rank 4 wants bfloat16\n'
        "hint: add_sources(…, dtype=…) converts while it packs"
    )

    def add_wrong():
        t = retile.torch.Transfer()
        rank = dist.get_rank()
        if rank == 1:
            t.add_source("meta", torch.zeros(3, device="meta"))
        if rank == 2:
            t.add_source("sum", DTensor.from_local(torch.zeros(3), trainers, [Partial(), Replicate()]))
        if rank == 3:
            t.add_source("list", [1, 2])
            t.add_source("whole", torch.zeros(3), dtype="bf16")
        t.commit()

    assert refusal_of(add_wrong) == (
        'rank 1: "meta": the source: it is on meta, and tensors in the memory of the host are moved\n'
        'rank 2: "sum": the source: it is a sum: redistribute it first\n'
        'rank 3: "list": the source: it is of type list, not a tensor\n'
        "rank 3: \"whole\": the source: dtype is a type of PyTorch's, not 'bf16'"
    )


CASES = [
    servers_get_what_trainers_have,
    boxes_go_to_memory_that_is_there,
    norms_on_sub_meshes_are_replicas,
    memory_of_ranks_of_one_host_is_read,
    any_group_carries_it,
    weights_are_scaled_in_blocks,
    layers_are_waited_for,
    what_changed_is_sent,
    elements_of_any_size_are_moved,
    tensors_that_moved_are_found,
    what_is_wrong_is_told_everywhere,
]
