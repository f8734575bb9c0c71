"""A training step of a small transformer in JAX, its shardings by retile and by JAX's own, on 8 devices of this processor.

The layers are scanned and rematerialized, on a mesh of automatic axes and on one of explicit axes. Activations go between
being cut by sequence (norms) and by heads or features (attention, MLP): four times a layer, and back for the gradients.
Losses and gradients are compared before anything is timed. Programs run in turn; JAX's own runs twice, as two programs,
so that the ratio of equal programs shows the noise.
"""

import argparse
import functools
import os
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import retile.jax

BY_SEQUENCE, BY_HEADS, BY_FEATURES = P("data", "model"), P("data", None, "model"), P("data", None, "model")


def by_jax(x, sharding):
    is_explicit = sharding.mesh.axis_types[0] == AxisType.Explicit
    return (jax.sharding.reshard if is_explicit else jax.lax.with_sharding_constraint)(x, sharding)


def by_retile_from(x, sharding, source):
    return retile.jax.reshard(x, sharding, source=source)


def parameters(mesh, layers, width, hidden):
    random = np.random.default_rng(1)
    shapes = {
        "attention": ((layers, width, 3 * width), P(None, None, "model")),
        "out": ((layers, width, width), P(None, "model")),
        "up": ((layers, width, hidden), P(None, None, "model")),
        "down": ((layers, hidden, width), P(None, "model")),
    }
    return {
        name: jax.device_put(random.normal(0, 0.02, shape).astype(np.float32), NamedSharding(mesh, spec))
        for name, (shape, spec) in shapes.items()
    }


def loss(weights, x, mesh, heads, move):
    """`move(x, to, from)` says both shardings; who does not need the second ignores it."""
    is_explicit = mesh.axis_types[0] == AxisType.Explicit

    def product(formula, a, b, out):
        return jnp.einsum(formula, a, b, **({"out_sharding": NamedSharding(mesh, out)} if is_explicit else {}))

    def normed(x):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    def moved(x, to, source):
        return move(x, NamedSharding(mesh, to), NamedSharding(mesh, source))

    @jax.checkpoint
    def layer(x, w):
        batch, length, width = x.shape
        full = moved(normed(x), P("data"), BY_SEQUENCE)
        qkv = product("bld,de->ble", full, w["attention"], P("data", None, "model"))
        queries, keys, values = (
            jax.lax.reshape(one, (batch, length, heads, width // heads), **(
                {"out_sharding": NamedSharding(mesh, P("data", None, "model"))} if is_explicit else {}
            ))
            for one in jnp.split(qkv, 3, -1)
        )  # fmt: skip
        scores = product("blhe,bmhe->bhlm", queries, keys, P("data", "model"))
        mixed = product("bhlm,bmhe->blhe", jax.nn.softmax(scores), values, P("data", None, "model"))
        mixed = jax.lax.reshape(mixed, (batch, length, width), **(
            {"out_sharding": NamedSharding(mesh, BY_HEADS)} if is_explicit else {}
        ))  # fmt: skip
        mixed = moved(mixed, BY_SEQUENCE, BY_HEADS)
        out = moved(w["out"], P(), P("model"))
        x = x + product("bld,de->ble", mixed, out, BY_SEQUENCE)
        hidden = product("bld,de->ble", moved(normed(x), P("data"), BY_SEQUENCE), w["up"], BY_FEATURES)
        hidden = moved(jax.nn.gelu(hidden), BY_SEQUENCE, BY_FEATURES)
        x = x + product("ble,ed->bld", hidden, moved(w["down"], P(), P("model")), BY_SEQUENCE)
        return moved(x, BY_SEQUENCE, BY_SEQUENCE), None

    x, _ = jax.lax.scan(layer, x, weights)
    return (x * x).mean()


def measure(kind, options):
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(kind, kind))
    weights = parameters(mesh, options.layers, options.width, 4 * options.width)
    array = np.random.default_rng(2).normal(size=(options.batch, options.length, options.width)).astype(np.float32)
    x = jax.device_put(array, NamedSharding(mesh, BY_SEQUENCE))
    ways = {
        "jax": lambda x, to, source: by_jax(x, to),
        "jax again": lambda x, to, source: by_jax(x, to),
        "retile": lambda x, to, source: retile.jax.reshard(x, to),
    }
    if kind == AxisType.Auto:
        ways["retile, source"] = by_retile_from
    with jax.set_mesh(mesh):
        steps = {
            name: jax.jit(jax.value_and_grad(functools.partial(loss, mesh=mesh, heads=options.heads, move=move)))
            .lower(weights, x)
            .compile()
            for name, move in ways.items()
        }
        expected = steps["jax"](weights, x)
        for name, step in steps.items():
            for one, other in zip(jax.tree.leaves(step(weights, x)), jax.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-3, atol=1e-5, err_msg=name)
        seconds = {name: [] for name in steps}
        for _ in range(options.repetitions):
            for name, step in steps.items():
                start = time.perf_counter()
                jax.block_until_ready(step(weights, x))
                seconds[name].append(time.perf_counter() - start)
    temporaries = {name: step.memory_analysis().temp_size_in_bytes for name, step in steps.items()}
    for name in steps:
        print(
            f"{kind.name:8} {name:15} {1000 * min(seconds[name]):8.2f} ms, JAX's own over it "
            f"{min(seconds['jax']) / min(seconds[name]):.2f} in time, {temporaries['jax'] / temporaries[name]:.2f} in "
            f"temporaries"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"layers": 2, "batch": 4, "length": 256, "width": 256, "heads": 8, "repetitions": 30}.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"({default})")
    options = parser.parse_args()
    for kind in (AxisType.Auto, AxisType.Explicit):
        measure(kind, options)


if __name__ == "__main__":
    main()
