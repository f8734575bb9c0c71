#!/usr/bin/env python3
"""Times the redistributions that JAX compiles for host devices beside ours, on the same machine."""

import os
import re
import time

from layout import box_of, device_count, values_of
from peer import Peer, main
from workers import Unable

DTYPES = {"i8": "int8", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "f32": "float32", "f64": "float64"}
DTYPES |= {"c64": "complex64", "c128": "complex128"}
COLLECTIVE = re.compile(r"(?<= )(all-gather|all-to-all|collective-permute|all-reduce|reduce-scatter)(?:-start)?\(")


class JaxWorker:
    """One process with all devices. The source array is kept between repetitions: nothing is donated."""

    def __init__(self, rank, count, meeting):
        import jax
        import numpy

        jax.config.update("jax_enable_x64", True)
        self.jax, self.numpy = jax, numpy
        self.release()

    def release(self):
        self.source = self.reshard = None

    def prepare(self, problem):
        """Compiles, and checks where every element of source and target lies. Gives the compiled collectives."""
        source, target = (self._sharding(problem, problem[end]) for end in ("src", "dst"))
        dtype = self.jax.numpy.dtype(DTYPES[problem["dtype"]])
        self.source = self.jax.make_array_from_callback(
            tuple(problem["shape"]), source, lambda index: values_of(problem, _whole(index, problem)).astype(dtype)
        )
        self.reshard = self.jax.jit(lambda array: array, in_shardings=source, out_shardings=target)
        self._check(problem, problem["src"], self.source)
        self._check(problem, problem["dst"], self.reshard(self.source))
        compiled = self.reshard.lower(self.source).compile().as_text()
        return COLLECTIVE.findall(compiled)

    def measure(self, repetitions):
        self.reshard(self.source).block_until_ready()
        return [self._time_once() for _ in range(repetitions)]

    def _time_once(self):
        start = time.perf_counter()
        target = self.reshard(self.source).block_until_ready()
        seconds = time.perf_counter() - start
        del target  # afterwards: freeing is not part of it
        return seconds

    def _sharding(self, problem, layout):
        """Devices in the order of the mesh. Partition specs list axes from major to minor, problems the other way."""
        devices = self.jax.devices()[: device_count(problem)]
        if len(devices) < device_count(problem):
            raise Unable(f"JAX has {len(devices)} devices, not {device_count(problem)}")
        grid = self.numpy.array(devices).reshape(list(problem["mesh"].values()))
        mesh = self.jax.sharding.Mesh(grid, tuple(problem["mesh"]))
        spec = self.jax.sharding.PartitionSpec(*(tuple(reversed(axes)) or None for axes in layout))
        return self.jax.sharding.NamedSharding(mesh, spec)

    def _check(self, problem, layout, array):
        for shard in array.addressable_shards:
            expected = values_of(problem, box_of(problem, layout, shard.device.id)).astype(array.dtype)
            if not (expected == shard.data).all():
                raise Unable(f"wrong elements on device {shard.device.id}")


def _whole(index, problem):
    """Slices with both ends."""
    return tuple(slice(*part.indices(size)[:2]) for part, size in zip(index, problem["shape"], strict=True))


def host_devices(count):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
    return {"XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"}


if __name__ == "__main__":
    main(
        Peer(
            name="jax",
            packages=("jax",),
            make_worker=JaxWorker,
            processes=lambda problem: 1,
            combine=lambda times: times[0],
            environment=host_devices,
        ),
        __doc__,
    )
