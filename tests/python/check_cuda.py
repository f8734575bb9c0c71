"""Bits on a GPU: `python tests/python/check_cuda.py`, with retile, JAX and PyTorch installed; pytest is not needed.

Parts, each in a process of its own; a part that is named (`… check_cuda.py jax`) alone:
- arrays: `retile.redistribute` on arrays of PyTorch and CuPy, on their streams, where retile has CUDA;
- jax: arrays on one GPU, and steps of plans for eight devices that `vmap` stands for, all in that GPU's memory;
- gloo: eight ranks of PyTorch share the GPU, messages go through the host;
- nccl: the same over NCCL, where there are eight GPUs, or NCCL 2.30 or later, which lets ranks share one.
What cannot be checked is said, and is no failure.
"""

import functools
import itertools
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from unittest import mock

sys.path.append(str(Path(__file__).parent))
RANKS = 8
SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}", flush=True)
    sys.exit(SKIPPED)


# --- JAX.


def check_arrays(device):
    """On meshes of one device, every movement ends with the same bits."""
    import jax
    import numpy as np
    from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

    import retile.jax

    specs = [PartitionSpec(), PartitionSpec("x"), PartitionSpec("y", "x"), PartitionSpec(None, ("x", "y"))]
    checked = 0
    for dtype in ("float32", "bfloat16", "int8", "complex64"):
        array = np.arange(24 * 16).reshape(24, 16).astype(jax.numpy.dtype(dtype))
        for kind in (AxisType.Auto, AxisType.Explicit):
            mesh = Mesh(np.array([device]).reshape(1, 1), ("x", "y"), axis_types=(kind,) * 2)
            for source, target in itertools.product([NamedSharding(mesh, spec) for spec in specs], repeat=2):
                x = jax.device_put(array, source)
                moved = [retile.jax.reshard(x, target), jax.jit(lambda x, t=target: retile.jax.reshard(x, t))(x)]
                for one in moved:
                    assert one.devices() == {device} and np.asarray(one).tobytes() == array.tobytes()
                    checked += 1
    print(f"{checked} arrays on {device.device_kind}", flush=True)


def check_programs(every):
    """Steps for eight devices: `vmap` knows permutations; collectives of groups are taken from one of all devices."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from problems import problems, small_shape

    import retile
    from retile import _collectives

    def of_group(axes, groups):
        """The members of a device's group."""
        members = np.empty((sum(map(len, groups)), len(groups[0])), np.int32)
        for group in groups:
            members[group] = group
        return jnp.asarray(members)[lax.axis_index(axes)]

    def all_gather(tile, axes, *, axis_index_groups, axis, tiled):
        return jnp.concatenate(list(lax.all_gather(tile, axes)[of_group(axes, axis_index_groups)]), axis)

    def all_to_all(tile, axes, split_axis, concat_axis, *, axis_index_groups, tiled):
        members = of_group(axes, axis_index_groups)
        position = jnp.argmax(members == lax.axis_index(axes))
        pieces = jnp.stack(jnp.split(tile, len(axis_index_groups[0]), split_axis))
        return jnp.concatenate(list(lax.all_gather(pieces, axes)[members, position]), concat_axis)

    def tiles_of(array, corners, shape):
        boxes = [tuple(slice(at, at + length) for at, length in zip(corner, shape, strict=True)) for corner in corners]
        return np.stack([array[box] for box in boxes])

    emulated = types.SimpleNamespace(**{**vars(lax), "all_gather": all_gather, "all_to_all": all_to_all})
    checked = 0
    for problem in problems()[::every]:
        shape = small_shape(problem)
        array = np.arange(np.prod(shape), dtype=np.int32).view(np.float32).reshape(shape)
        layouts = [retile.Layout.cut(retile.Mesh(problem["mesh"]), shape, problem[side]) for side in ("src", "dst")]
        plan = retile.plan(*layouts, dtype="float32")
        if not plan.steps:
            continue
        before = tiles_of(array, plan.steps[0].offsets_in, plan.steps[0].local_in)
        after = tiles_of(array, plan.steps[-1].offsets_out, plan.steps[-1].local_out)
        for form in ("collectives", "fast", "lean"):
            program = retile._retile.lower(plan, array.itemsize, form)
            run = functools.partial(_collectives.run_program, program, ("device",))
            with mock.patch.object(_collectives, "lax", emulated):
                moved = jax.jit(jax.vmap(run, axis_name="device"))(before)
            assert np.asarray(moved).tobytes() == after.tobytes(), (problem["id"], form)
            checked += 1
    print(f"{checked} programs of plans for eight devices, on {jax.devices()[0].device_kind}", flush=True)


def check_jax():
    os.environ.pop("JAX_PLATFORMS", None)
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    try:
        import jax
    except ImportError:
        skip("JAX is not installed")
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError as error:
        skip(f"JAX sees no GPU ({str(error).splitlines()[0]})")
    check_arrays(device)
    check_programs(every=5)


# --- PyTorch.


def check_torch(backend):
    os.environ.update(PYTORCH_NVML_BASED_CUDA_CHECK="1", RETILE_TEST_DEVICE="cuda")  # ranks are forked: no CUDA before
    try:
        import torch
    except ImportError:
        skip("PyTorch is not installed")
    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    if backend == "nccl" and torch.cuda.device_count() < RANKS:
        version = torch.cuda.nccl.version()
        if version < (2, 30):
            skip(f"NCCL {'.'.join(map(str, version))} wants a GPU for each rank; 2.30 and later let ranks share one")
        os.environ["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
        os.environ.setdefault("NCCL_MAX_NCHANNELS", "1")  # with more, the first collective of 8 ranks waits for ever
    from torch_agreement_cases import LATER
    from torch_cases import ANY_DEVICE
    from torch_ranks import run_cases

    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_cases(ANY_DEVICE + (LATER if backend == "nccl" else []), RANKS, folder, backend)
    for name, outcome in outcomes.items():
        print(f"{'failed' if outcome else 'ok'}: {name}\n{outcome}".rstrip(), flush=True)
    sys.exit(any(outcomes.values()))


# --- retile.redistribute, of arrays on the GPU.


def refuse(sentence, action):
    import retile

    try:
        action()
    except retile.InputError as error:
        assert sentence in str(error), error
    else:
        raise AssertionError(f"not refused: {sentence}")


def check_redistribute(package, to_gpu, to_host):
    """The bits that NumPy's arrays get; and what is refused."""
    import numpy as np

    import retile

    mesh = retile.Mesh({"x": 4, "y": 2})
    texts = ("[4{x,y}32, 24]", "[8{x}32, 12{y}24]", "[32, 3{y,x}24]", "[32, 24]")
    layouts = [retile.Layout(text, mesh) for text in texts]
    random = np.random.default_rng(5)
    checked = 0
    for dtype in ("float32", "float16", "int8", "complex64"):
        for source, target in itertools.product(layouts[:3], layouts):
            plan = retile.plan(source, target, dtype=dtype)
            for _ in range(2):  # the second time it is prepared
                tiles = [(100 * random.random(source.tile_shape(i))).astype(dtype) for i in range(8)]
                expected = retile.redistribute(tiles, plan)
                moved = retile.redistribute([to_gpu(tile) for tile in tiles], plan)
                for one, other in zip(moved, expected, strict=True):
                    assert to_host(one).tobytes() == other.tobytes(), (dtype, source, target)
                checked += 1
    plan = retile.plan(layouts[0], layouts[1], dtype="float32")
    tiles = [to_gpu(np.zeros(layouts[0].tile_shape(i), "float32")) for i in range(8)]
    refuse("the source of device 3 is not on a GPU", lambda: retile.redistribute([*tiles[:3], None, *tiles[4:]], plan))
    refuse("the source of device 0 has shape", lambda: retile.redistribute([tiles[0].T, *tiles[1:]], plan))
    refuse("there are 2 sources for 8 devices", lambda: retile.redistribute(tiles[:2], plan))
    print(f"{checked} redistributions of {package}", flush=True)
    return plan


def check_torch_arrays():
    """Strided tensors, sums, and the order of streams."""
    import numpy as np
    import torch

    import retile

    plan = check_redistribute("PyTorch", lambda array: torch.from_numpy(array).cuda(), lambda one: one.cpu().numpy())
    tiles = [torch.rand(24, 4, device="cuda", requires_grad=True).T for _ in range(8)]
    out = [torch.zeros(12, 8, device="cuda").T for _ in range(8)]
    assert retile.redistribute(tiles, plan, out)[0] is out[0]
    expected = retile.redistribute([tile.detach().cpu().numpy() for tile in tiles], plan)
    assert all((one.cpu().numpy() == other).all() for one, other in zip(out, expected, strict=True))

    mesh = retile.Mesh({"x": 8})
    added = retile.plan(retile.Layout("[16, 8] sum {x}", mesh), retile.Layout("[2{x}16, 8]", mesh), dtype="float32")
    parts = [np.random.default_rng(i).random((16, 8), "float32") for i in range(8)]
    sums = retile.redistribute([torch.from_numpy(part).cuda() for part in parts], added)
    for one, other in zip(sums, retile.redistribute(parts, added), strict=True):
        assert one.cpu().numpy().tobytes() == other.tobytes()

    # Nobody waits: what the stream did before is there, and what it does afterwards finds the targets.
    rows, columns = retile.Layout("[1024{x}8192, 8192]", mesh), retile.Layout("[8192, 1024{x}8192]", mesh)
    large = retile.plan(rows, columns, dtype="float32")
    with torch.cuda.stream(torch.cuda.Stream()):
        results = []
        for value in range(5):
            sources = [torch.full((1024, 8192), 8.0 * value + i, device="cuda") for i in range(8)]
            results.append(sum(one.double().sum() for one in retile.redistribute(sources, large)))
            del sources
        totals = torch.stack(results).cpu()
    assert totals.tolist() == [1024 * 8192 * (64.0 * value + 28) for value in range(5)]

    graph = torch.cuda.CUDAGraph()
    sources = [torch.zeros(1024, 8192, device="cuda") for _ in range(8)]
    targets = [torch.empty(8192, 1024, device="cuda") for _ in range(8)]
    retile.redistribute(sources, large, targets)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        retile.redistribute(sources, large, targets)
    for i, tile in enumerate(sources):
        tile.fill_(i)
    graph.replay()
    assert all((target[1024 * i : 1024 * (i + 1)] == i).all() for target in targets for i in range(8))
    print("strides, sums, streams and a graph of PyTorch", flush=True)


def check_on_gpu():
    try:
        import torch
    except ImportError:
        skip("PyTorch is not installed")
    from retile import _retile

    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    if not _retile.has_cuda:
        skip("retile was built without CUDA")
    check_torch_arrays()
    try:
        import cupy
    except ImportError:
        print("CuPy is not installed", flush=True)
    else:
        check_redistribute("CuPy", cupy.asarray, cupy.asnumpy)


PARTS = {
    "arrays": check_on_gpu,
    "jax": check_jax,
    "gloo": lambda: check_torch("gloo"),
    "nccl": lambda: check_torch("nccl"),
}


def main():
    if len(sys.argv) > 1:
        PARTS[sys.argv[1]]()
        return
    codes = {}
    for part in PARTS:
        print(f"--- {part}", flush=True)
        codes[part] = subprocess.run([sys.executable, __file__, part], check=False).returncode
    words = {0: "ok", SKIPPED: "skipped"}
    print(", ".join(f"{part} {words.get(code, f'failed ({code})')}" for part, code in codes.items()))
    sys.exit(any(code not in words for code in codes.values()))


if __name__ == "__main__":
    main()
