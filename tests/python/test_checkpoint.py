"""Checkpoints of safetensors, read by ranks into DTensors of meshes of any shape."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Partial, Replicate, Shard, empty  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

import retile  # noqa: E402
import retile.checkpoint  # noqa: E402

COMMAND = os.environ.get("RETILE_COMMAND", str(Path(__file__).parents[2] / "build" / "release" / "retile"))
NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float8_e4m3fn: "F8_E4M3", torch.int64: "I64"}
MODEL = {
    "embed.weight": torch.arange(50 * 12, dtype=torch.float32).view(50, 12),
    "layers.0.qkv": torch.arange(48 * 10).view(48, 10).to(torch.bfloat16),
    "layers.0.norm": torch.arange(7, dtype=torch.int64),
    "layers.0.small": torch.arange(16, dtype=torch.float32).view(4, 4).to(torch.float8_e4m3fn),
    "scale": torch.tensor(3.5),
}


def write(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else tensor.numpy().tobytes()
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(values)],
        }
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.fixture
def model(tmp_path):
    write(tmp_path / "model.safetensors", MODEL)
    return tmp_path


def on_ranks(count, test):
    """Calls a function as each rank of a world, one after the other."""
    for rank in range(count):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=count)
        try:
            test(rank)
        finally:
            dist.destroy_process_group()


def tile_of(whole, mesh, placements):
    """What this rank has, by PyTorch's own cuts."""
    for dimension, placement in enumerate(placements):
        if isinstance(placement, Shard):
            parts = whole.chunk(mesh.size(dimension), placement.dim)
            place = mesh.get_local_rank(dimension)
            whole = parts[place] if place < len(parts) else whole.narrow(placement.dim, 0, 0)
    return whole


def same(a, b):
    return a.shape == b.shape and torch.equal(
        a.contiguous().flatten().view(torch.uint8), b.contiguous().flatten().view(torch.uint8)
    )


def check_pairs(path, **options):
    def test(rank):
        mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))
        wanted = {
            "embed.*": (mesh, [Shard(0), Shard(1)]),
            "*.qkv": (mesh, [Shard(0), Shard(0)]),
            "*.norm": (mesh, [Replicate(), Shard(0)]),
            "*": (mesh, [Replicate(), Replicate()]),
        }
        loaded = retile.checkpoint.load(path, wanted, **options)
        assert set(loaded) == set(MODEL)
        for name, tensor in loaded.items():
            assert tensor.dtype == MODEL[name].dtype and tensor.shape == MODEL[name].shape
            assert same(tensor.to_local(), tile_of(MODEL[name], mesh, tensor.placements)), (rank, name)

    on_ranks(6, test)


def test_a_whole_model_becomes_dtensors_of_any_mesh(model):
    check_pairs(model)


def test_an_index_of_files_is_one_model(tmp_path):
    names = list(MODEL)
    for number, some in enumerate((names[:2], names[2:])):
        write(tmp_path / f"part-{number}.safetensors", {name: MODEL[name] for name in some})
    index = {name: f"part-{int(name in names[2:])}.safetensors" for name in names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    check_pairs(tmp_path)


def test_files_of_other_ranks_are_read_by_their_layouts(model):
    lines = [
        {"name": "embed.weight", "mesh": {"x": 4}, "layout": "[13{x}50, 12]"},
        {"name": "*.qkv", "mesh": {"x": 4}, "layout": "[3*4{x}16, 10]"},  # fused: each rank has some of all three
        {"name": "*.norm", "mesh": {"x": 4}, "layout": "[7]"},
        {"name": "*.small", "mesh": {"x": 4}, "layout": "[4, 1{x}4]"},
        {"name": "scale", "mesh": {"x": 4}, "layout": "[]"},
    ]
    (model / "layouts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = [COMMAND, "reshard", "model.safetensors", "--to", "layouts.jsonl", "--out", "ranks"]
    done = subprocess.run(command, cwd=model, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_pairs(model / "ranks", layouts=model / "layouts.jsonl")


def test_the_pages_code_runs(model, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "checkpoints.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(model)

    def test(rank):
        names = {}
        exec(compile(block, "checkpoints.md", "exec"), names)
        rows = MODEL["embed.weight"].chunk(4)
        assert torch.equal(names["weights"]["embed.weight"].to_local(), rows[rank % 4])
        assert torch.equal(names["weights"]["layers.0.norm"].to_local(), MODEL["layers.0.norm"])

    on_ranks(8, test)


def test_tensors_that_are_there_are_filled(model):
    def test(rank):
        mesh = init_device_mesh("cpu", (4,))
        state = {
            "embed.weight": empty(50, 12, dtype=torch.float64, device_mesh=mesh, placements=[Shard(1)]),
            "scale": torch.zeros(()),
        }
        loaded = retile.checkpoint.load(model / "model.safetensors", state)
        assert loaded["scale"] is state["scale"] and state["scale"] == 3.5
        assert torch.equal(state["embed.weight"].to_local(), MODEL["embed.weight"][:, 3 * rank : 3 * rank + 3].double())

    on_ranks(4, test)


def test_what_does_not_fit_is_refused_with_its_name(model):
    def refused(wanted, path=model):
        with pytest.raises(retile.InputError) as error:
            retile.checkpoint.load(path, wanted)
        return str(error.value)

    def test(rank):
        mesh = init_device_mesh("cpu", (1,))
        assert f"'{model}' lacks 'head'" in refused({"head": torch.zeros(3)})
        assert refused({"scale": torch.zeros(3)}) == f"'scale' has shape (3,), and in {model} ()"
        assert "'scale': it is a sum" in refused({"scale": (mesh, [Partial()])})
        (model / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-4])
        assert "these offsets do not lie in the file" in refused({"scale": torch.zeros(())})
        (model / "model.safetensors").write_bytes(b"no header")
        assert "is no file of safetensors" in refused({"scale": torch.zeros(())})
        assert "it does not exist" in refused({"scale": torch.zeros(())}, model / "none.safetensors")

    on_ranks(1, test)
