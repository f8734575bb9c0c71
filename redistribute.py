"""f32[8, 8] from [2{x}8, 8] to [8, 2{x}8].

  mesh {x: 4}  // planner wide
    [2{x}8, 8]  // 16 elements per device
      -> alltoall(0 -> 1; 4)  // cost 16
    [8, 2{x}8]  // 16
  // cost 16 (paper, optimal), floor 12
  // peak 16 elements per device, no more than the larger of source and target
"""

import math

import jax
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

AXES = ("x",)  # of the mesh; the last one numbers neighbouring devices
SIZES = (4,)
SHAPE = (8, 8)
SOURCE = P("x")
TARGET = P(None, "x")


def move_tile(tile):
    """What every device does with its tile of (2, 8)."""
    # alltoall(0 -> 1; 4), cost 16: [8, 2{x}8]
    tile = lax.all_to_all(tile, "x", split_axis=1, concat_axis=0, tiled=True)
    return tile


def redistribute(x, mesh):
    """An array of SHAPE, from SOURCE to TARGET on a mesh with these AXES; inside jit or outside.

    Costs 16 elements per device (paper), and holds tiles of 16 at most.
    """
    move = jax.shard_map(move_tile, mesh=mesh, in_specs=SOURCE, out_specs=TARGET, check_vma=False)
    return move(x)


def main():
    """Moves an array of numbers on devices of this machine's processor, and compares every one."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 4)
    mesh = jax.make_mesh(SIZES, AXES)
    x = np.arange(math.prod(SHAPE)).astype("float32").reshape(SHAPE)
    y = jax.jit(redistribute, static_argnums=1)(jax.device_put(x, NamedSharding(mesh, SOURCE)), mesh)
    expected = x
    assert y.shape == expected.shape and y.sharding.is_equivalent_to(NamedSharding(mesh, TARGET), y.ndim)
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), expected[shard.index])
    print(f"verified on {mesh.size} devices")


if __name__ == "__main__":
    main()
