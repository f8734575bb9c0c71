"""One of several processes of JAX, each with four devices: ADDRESS PROCESSES RANK. Models go between their devices, and
arrays that span processes are resharded."""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import retile.jax

ARRAYS = {
    "w": np.arange(64 * 32, dtype=np.float32).reshape(64, 32),
    "norm": np.arange(32, dtype=np.float16),
    "step": np.int32(3),
}


def shardings_on(devices, w, norm):
    mesh = Mesh(np.array(devices).reshape(2, -1), ("x", "y"))
    return {"w": NamedSharding(mesh, w), "norm": NamedSharding(mesh, norm), "step": NamedSharding(mesh, P())}


def made(shardings):
    """Arrays, of which a process may hold nothing."""
    return {
        name: jax.make_array_from_callback(
            array.shape, shardings[name], lambda i, array=array: array[i], dtype=array.dtype
        )
        for name, array in ARRAYS.items()
    }


def check(source, target, max_bytes):
    params = made(source)
    transfer = retile.jax.Transfer(params, target, max_bytes=max_bytes, donate=True)
    moved = transfer(params)
    for name, array in ARRAYS.items():
        assert moved[name].sharding == target[name], name
        for shard in moved[name].addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), array[shard.index])
    assert transfer.report.staged_bytes <= max_bytes
    return transfer


devices = jax.devices()
trained = shardings_on(devices[:4], P("x", "y"), P("y"))  # on one process alone
served = shardings_on(devices[4:], P(None, ("x", "y")), P())  # on another
everywhere = shardings_on(devices, P("y"), P(("y", "x")))
for source, target in ((trained, served), (served, everywhere), (everywhere, trained), (everywhere, served)):
    transfer = check(source, target, 1 << 20)
    check(source, target, 4096)

# Arrays that span processes, alone, as a tree, inside jit and within a limit.
columns = NamedSharding(everywhere["w"].mesh, P(None, ("x", "y")))
arrays = made(everywhere)
inside = jax.jit(lambda x: retile.jax.reshard(x, columns, source=everywhere["w"]))
for resharded in (
    retile.jax.reshard(arrays["w"], columns),
    retile.jax.reshard(arrays["w"], columns, memory_limit=1 << 20),
    retile.jax.reshard(arrays, {"w": columns, "norm": None, "step": None})["w"],
    inside(arrays["w"]),
):
    assert resharded.sharding.is_equivalent_to(columns, 2) and len(resharded.addressable_shards) == 4
    for shard in resharded.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), ARRAYS["w"][shard.index])

# A process that holds no tile of a model may know its types alone.
types = {name: jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=trained[name]) for name, one in ARRAYS.items()}
params = made(trained) if jax.process_index() == 0 else types
transfer = retile.jax.Transfer(types, served)
moved = transfer(params)
for shard in moved["w"].addressable_shards:
    np.testing.assert_array_equal(np.asarray(shard.data), ARRAYS["w"][shard.index])
print(transfer.explain(), end="")
print("every bit is right")
