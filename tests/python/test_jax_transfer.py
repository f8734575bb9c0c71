"""`retile.jax.Transfer`: trees between any devices, under a cap."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import retile.jax

TYPES = [jnp.bfloat16, np.float32, np.int8, np.bool_, np.complex64, jnp.float8_e4m3fn, np.uint16]


def mesh_of(numbers, shape, names="xy", kind=AxisType.Auto):
    devices = np.array([jax.devices()[number] for number in numbers])
    return Mesh(devices.reshape(shape), tuple(names[: len(shape)]), axis_types=(kind,) * len(shape))


def bits(shape, dtype, seed=0):
    """Any bits, those of numbers that are none among them where XLA's CPU devices do not change them."""
    random = np.random.default_rng(seed)
    if dtype == jnp.bfloat16:
        return random.normal(size=shape).astype(dtype)
    values = random.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
    if dtype == np.bool_:
        return (values[..., 0] % 2).astype(bool)
    return values.reshape(-1).view(dtype).reshape(shape)


SPECS = (P("x"), P(None, "y"), P("x", "y"), P(("x", "y")), P(), P("y", None, "x"))


def model(mesh, specs=SPECS):
    """A tree with arrays of several ranks and types, a number and an empty array."""
    shapes = [(16, 24), (16, 24), (16, 8), (32,), (8, 16), (8, 3, 8)]
    arrays = {f"w{number}": bits(shape, TYPES[number % len(TYPES)], number) for number, shape in enumerate(shapes)}
    placed = {
        name: jax.device_put(array, NamedSharding(mesh, spec))
        for (name, array), spec in zip(arrays.items(), specs, strict=True)
    }
    arrays |= {"step": np.int32(7), "none": np.zeros((0, 4), np.float32)}
    for name in ("step", "none"):
        placed[name] = jax.device_put(arrays[name], NamedSharding(mesh, P()))
    return arrays, placed


def assert_moved(moved, arrays, shardings):
    for name, array in arrays.items():
        one = moved[name]
        assert one.sharding == shardings[name] and one.dtype == array.dtype and one.shape == array.shape, name
        for shard in one.addressable_shards:
            own, expected = np.asarray(shard.data), np.asarray(array[shard.index])
            assert own.tobytes() == expected.tobytes(), (name, shard.device)


def targets_on(mesh):
    specs = [P(None, "y"), P("x"), P("y", "x"), P("y"), P(("x", "y")), P(None, None, ("x", "y")), P(), P()]
    names = [f"w{number}" for number in range(6)] + ["step", "none"]
    return {name: NamedSharding(mesh, spec) for name, spec in zip(names, specs, strict=True)}


WAYS = {
    "the same devices": ((range(8), (2, 4)), (range(8), (4, 2))),
    "in another order": ((range(8), (2, 4)), (range(7, -1, -1), (2, 4))),
    "other devices": ((range(4), (2, 2)), (range(4, 8), (2, 2))),
    "more": ((range(4), (2, 2)), (range(8), (2, 4))),
    "fewer": ((range(8), (2, 4)), ((6, 1), (2, 1))),
    "some of both": ((range(6), (2, 3)[::-1]), ((4, 5, 6, 7), (2, 2))),
    "to one": ((range(8), (2, 4)), ((3,), (1, 1))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("max_bytes", ["1MiB", 4096])
def test_trees_go_to_any_devices(way, max_bytes):
    source, target = (mesh_of(*side) for side in WAYS[way])
    arrays, params = model(source, (P("y"), P(), P("y"), P("y"), P(), P("y")) if source.shape["x"] == 3 else SPECS)
    shardings = targets_on(target)
    transfer = retile.jax.Transfer(params, shardings, max_bytes=max_bytes)
    for _ in range(2):
        assert_moved(transfer(params), arrays, shardings)
    assert not any(array.is_deleted() for array in params.values())
    assert transfer.report.staged_bytes <= (1 << 20 if max_bytes == "1MiB" else 4096)


def test_meshes_with_explicit_axes_and_single_devices_are_taken():
    arrays, params = model(mesh_of(range(8), (2, 4), kind=AxisType.Explicit))
    params["step"] = jax.device_put(np.int32(7), jax.devices()[3])
    shardings = targets_on(mesh_of(range(8), (4, 2), kind=AxisType.Explicit))
    shardings["w0"] = SingleDeviceSharding(jax.devices()[5])
    assert_moved(retile.jax.Transfer(params, shardings)(params), arrays, shardings)


def test_sources_are_given_up_where_that_is_said():
    arrays, params = model(mesh_of(range(4), (2, 2)))
    for twice, name in (("again", "w0"), ("kept", "w1")):
        params[twice], arrays[twice] = params[name], arrays[name]
    shardings = targets_on(mesh_of(range(4, 8), (2, 2)))
    shardings["again"] = NamedSharding(mesh_of((0, 5), (2,)), P())
    shardings["kept"], shardings["w2"] = params["w1"].sharding, params["w2"].sharding
    transfer = retile.jax.Transfer(params, shardings, donate=True)
    assert_moved(transfer(params), arrays, shardings)
    assert {name for name, array in params.items() if not array.is_deleted()} == {"w1", "kept", "w2", "none"}


def test_what_is_there_is_not_copied():
    array = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh_of(range(8), (2, 4)), P("x")))
    few = NamedSharding(mesh_of((1, 6), (2,), "z"), P("z"))  # of the holders of each half, one
    (moved,) = retile.jax.Transfer([array], [few])([array])
    pointers = {shard.device: shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards}
    assert moved.sharding == few and np.asarray(moved).tobytes() == np.asarray(array).tobytes()
    assert all(pointers[one.device] == one.data.unsafe_buffer_pointer() for one in moved.addressable_shards)


def test_arrays_stay_where_nothing_is_said():
    array = jnp.arange(4.0)
    params = {"a": {"b": array, "c": "text"}}
    assert retile.jax.Transfer(params, {"a": None})(params) == params


def test_partition_specs_are_on_the_mesh_that_is_set():
    array = jax.device_put(np.arange(16.0), NamedSharding(mesh_of(range(8), (8,)), P("x")))
    with jax.set_mesh(mesh_of(range(8), (2, 4))):
        moved = retile.jax.Transfer(array, P("y"))(array)
    assert moved.sharding.spec == P("y") and (np.asarray(moved) == np.arange(16)).all()


def layers(count, mesh, spec, shape=(64, 64)):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return {f"layer{i}": {"w": jax.device_put(array + i, NamedSharding(mesh, spec))} for i in range(count)}


def test_programs_are_few_whatever_the_number_of_arrays():
    source, target = mesh_of(range(4), (4,)), NamedSharding(mesh_of(range(4, 8), (4,)), P(None, "x"))
    params = layers(40, source, P("x"))
    # A tile has 4 KiB, and two of messages beside each other: three arrays at once, and one at last.
    transfer = retile.jax.Transfer(params, target, max_bytes="64KiB")
    rounds, programs = re.search("rounds    (.*), .* messages, (.*) programs", transfer.explain()).groups()
    assert int(rounds) == 10 and int(programs) == 3
    moved = transfer(params)
    for name, layer in params.items():
        assert (np.asarray(moved[name]["w"]) == np.asarray(layer["w"])).all()


def test_it_says_what_it_does():
    params = layers(3, mesh_of(range(4), (4,)), P("x"))
    target = NamedSharding(mesh_of(range(8), (8,)), P("x"))
    transfer = retile.jax.Transfer(params, target, max_bytes="1MiB", donate=True)
    assert transfer.report is None
    # A tile has 4 KiB on four devices, and 2 KiB on eight. Device 0 keeps one of the latter and sends the other.
    assert re.sub("peak .* staged", "peak …", transfer.explain()) == (
        "3 arrays of 1 kind from 4 devices to 8, 43,008 bytes to move\n"
        "sent      6,144 to 12,288 bytes, 4 devices\n"
        "received  6,144 bytes, 7 devices; what each lacks, once\n"
        "rounds    1, 7 messages, 3 programs\n"
        "peak … (cap 1,048,576)\n"
        "donated   sources are given up round by round\n"
    )
    peak, tiles, staged = (
        int(number.replace(",", ""))
        for number in re.search(
            "peak +(.*) bytes per device at most: (.*) of tiles, (.*) staged", transfer.explain()
        ).groups()
    )
    assert tiles == 3 * (4096 + 2048) and peak == tiles + staged
    transfer(params)
    assert (transfer.report.sent_bytes, transfer.report.received_bytes, transfer.report.rounds) == (43008, 43008, 1)
    assert transfer.report.staged_bytes == staged


def test_a_cap_that_is_too_small_is_refused_with_one_that_is_not():
    params = layers(2, mesh_of(range(4), (4,)), P("x"))
    target = NamedSharding(mesh_of(range(4, 8), (4,)), P(None, "x"))
    with pytest.raises(retile.MemoryLimitError) as caught:
        retile.jax.Transfer(params, target, max_bytes=10)
    enough = re.fullmatch("max_bytes of 10 is too small\nhint: (.*) bytes are enough", str(caught.value))[1]
    transfer = retile.jax.Transfer(params, target, max_bytes=int(enough))
    moved = transfer(params)
    assert transfer.report.staged_bytes <= int(enough)
    assert all((np.asarray(moved[name]["w"]) == np.asarray(params[name]["w"])).all() for name in params)


def message_of(*arguments, **keywords):
    with pytest.raises(retile.InputError) as caught:
        retile.jax.Transfer(*arguments, **keywords)
    return str(caught.value)


def test_every_fault_of_every_array_is_named():
    mesh = mesh_of(range(8), (8,))
    whole = NamedSharding(mesh, P())
    params = {"a": [jnp.ones(8), np.ones(8)], "b": {"key": jax.random.key(0), "odd": jnp.ones(9)}, "c": jnp.ones(8)}
    shardings = {"a": whole, "b": {"key": whole, "odd": NamedSharding(mesh, P("x"))}, "c": P("x")}
    text = message_of(params, shardings)
    assert re.sub("odd: .*", "odd: …", text) == (
        "a.1: ndarray has no sharding on devices\n"
        "b.key: its elements are key<fry>\nhint: move what jax.random.key_data gives\n"
        "b.odd: …\n"
        "c: P('x',) needs a mesh\nhint: with jax.set_mesh(mesh): …, or give a NamedSharding"
    )
    assert message_of({"a": jnp.ones(8)}, {"b": whole}).startswith("shardings is no tree above x")


@pytest.mark.parametrize("max_bytes", [True, -1, 2.5, None])
def test_caps_are_numbers_of_bytes(max_bytes):
    assert message_of(jnp.ones(8), None, max_bytes=max_bytes) == (
        f'max_bytes is a number of bytes or a text such as "256MiB", not {max_bytes!r}'
    )


def test_a_text_that_is_no_number_of_bytes_is_shown():
    assert "max_bytes" in message_of(jnp.ones(8), None, max_bytes="2x")


def test_other_arrays_than_it_was_made_for_are_refused():
    params = layers(1, mesh_of(range(4), (4,)), P("x"))
    transfer = retile.jax.Transfer(params, NamedSharding(mesh_of(range(4, 8), (4,)), P()))
    for other, fault in {
        "it is float16[64, 64], and the transfer was made for float32[64, 64]": jnp.float16,
        "and the transfer was made for NamedSharding": None,
    }.items():
        array = params["layer0"]["w"]
        array = jax.device_put(array, jax.devices()[0]) if fault is None else array.astype(fault)
        with pytest.raises(retile.InputError) as caught:
            transfer({"layer0": {"w": array}})
        assert str(caught.value).startswith("layer0.w: it ") and other in str(caught.value)
    with pytest.raises(retile.InputError, match="params has another structure"):
        transfer({"layer1": params["layer0"]})


def test_processes_move_arrays_to_each_other():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    script = Path(__file__).with_name("jax_transfer_processes.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, script, address, "2", str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    texts = [rank.communicate(timeout=300)[0] for rank in ranks]
    for rank, text in zip(ranks, texts, strict=True):
        assert rank.returncode == 0 and text.splitlines()[-1] == "every bit is right", text
