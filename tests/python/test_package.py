"""The package without any framework but NumPy."""

import concurrent.futures
import doctest
import itertools
import json
import math
import pickle
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from problems import problems, small_shape

import retile
import retile._numpy

MESH = retile.Mesh({"x": 2, "y": 4})
ROWS = retile.Layout("[4{y,x}32, 8]", MESH)
TILES = retile.Layout("[16{x}32, 2{y}8]", MESH)


def message_of(error, function, *arguments, **keywords):
    with pytest.raises(error) as caught:
        function(*arguments, **keywords)
    return str(caught.value)


def tiles_of(array, layout):
    """The array's tiles, device by device, as views."""
    boxes = [layout.boxes(device)[0] for device in range(layout.device_count)]
    return [array[tuple(slice(lo, hi) for lo, hi in zip(*box, strict=True))] for box in boxes]


def layouts_of(problem, shape):
    mesh = retile.Mesh(problem["mesh"])
    return [retile.Layout.cut(mesh, shape, problem[side]) for side in ("src", "dst")]


@pytest.mark.parametrize("module", [retile, retile._numpy, retile._retile])
def test_examples_in_docstrings_run(module):
    names = {name: getattr(retile, name) for name in retile.__all__}
    results = doctest.testmod(module, extraglobs=names)
    assert results.attempted and not results.failed


def test_no_framework_is_imported_before_it_is_used():
    code = "import retile, sys; print([name for name in ('jax', 'torch', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_command_is_installed_with_the_package():
    result = subprocess.run([sys.executable, "-m", "retile", "--version"], capture_output=True, text=True, check=False)
    assert result.stdout == f"retile {retile.__version__}\n", result.stderr
    script = Path(sysconfig.get_path("scripts")) / "retile"
    assert subprocess.run([script, "--version"], capture_output=True, text=True, check=False).stdout == result.stdout


def test_stubs_and_typing_marker_are_installed():
    from importlib.resources import files

    package = files("retile")
    assert (package / "py.typed").is_file()
    stub = (package / "_retile.pyi").read_text()
    assert "def cut(mesh: Mesh" in stub and "class Plan" in stub


# --- Values.


def test_layouts_say_who_holds_what():
    assert ROWS.shape == (32, 8) and ROWS.mesh == MESH and ROWS.device_count == 8
    assert TILES.boxes(5) == [([16, 2], [32, 4])]
    assert repr(ROWS) == "Layout('[4{y,x}32, 8]', Mesh({'x': 2, 'y': 4}))"
    with pytest.raises(IndexError):
        ROWS.boxes(8)


def test_layouts_are_read_from_specs_of_jax():
    spec = (("x", "y"), None)
    assert retile.Layout.from_partition_spec(spec, {"x": 2, "y": 4}, (32, 8)) == ROWS
    sharding = SimpleNamespace(spec=("x", "y"), mesh=SimpleNamespace(shape={"x": 2, "y": 4}))
    assert retile.Layout.from_sharding(sharding, (32, 8)) == TILES
    backwards = retile.Layout.from_sharding(sharding, (32, 8), range(7, -1, -1))
    assert backwards.boxes(0) == TILES.boxes(7)


def test_layouts_are_read_from_placements_of_pytorch():
    class Shard:
        def __init__(self, dim):
            self.dim = dim

    Replicate = type("Replicate", (), {})
    ranks = np.arange(8).reshape(2, 4)
    mesh = SimpleNamespace(mesh_dim_names=("x", "y"), ndim=2, mesh=ranks)
    from_placements = retile.Layout.from_placements
    assert from_placements(mesh, [Shard(0), Shard(0)], (32, 8)) == ROWS  # left to right is major to minor
    assert from_placements(mesh, [Shard(0), Replicate()], (5, 8)).text == "[3{x}5, 8]"
    other = SimpleNamespace(mesh_dim_names=None, ndim=2, mesh=ranks[::-1])
    assert from_placements(other, [Shard(0), Shard(1)], (32, 8)).boxes(0) == TILES.boxes(4)
    uneven = from_placements(mesh, [Shard(0), Shard(0)], (5, 8))
    assert uneven.text == "[1{y,x}5, 8] nested" and uneven.tile_shape(3) == (0, 8)
    assert message_of(retile.InputError, from_placements, mesh, [Shard(0)], (32, 8)) == (
        "error: 1 placements for a mesh of 2 dimensions\nhint: there is one for each dimension of the mesh"
    )
    other = type("Ragged", (), {"__repr__": lambda self: "Ragged()"})()
    assert message_of(retile.InputError, from_placements, mesh, [other, other], (32, 8)) == (
        "Ragged() is no placement that retile knows"
    )


WARNING = (
    "[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {devices=[2,1,4]<=[4,2]T(1,0)} to "
    "{devices=[1,8,1]<=[8]} efficiently for HLO operation %copy.1 = f32[8,16,4]{2,1,0} copy(%x)\n"
)


def test_explanations_of_logs_are_those_of_the_command():
    (found,) = retile.explain(WARNING * 2)
    assert found.rematerializes and found.optimal and found.planner == "wide"
    assert found.operation == "%copy.1" and found.count == 2
    assert found.xla.steps == ["allgather(2; 4)", "allgather(0; 2)", "dynslice(1; 8)"]
    assert (found.xla.moved_bytes, found.xla.peak_bytes) == (14336, 16384)
    assert (found.retile.moved_bytes, found.retile.peak_bytes, found.floor_bytes) == (1792, 2048, 1792)
    assert found.source.shape == (16, 16, 16) and found.source.text == "[8{b}16, 16, 4{a}16]"
    assert found.why[0].startswith("None of XLA's rules leads there")
    shown = (Path(__file__).parents[2] / "docs" / "from-jax.md").read_text().split("$ retile explain")[1]
    lines = str(found).splitlines()
    assert lines[0] == "log:1: %copy.1, 2 times, f32[8,16,4] taken as per device: [16, 16, 16] in all"
    assert lines[1:] == shown.split("```")[0].splitlines()[2:]
    (whole,) = retile.explain(WARNING, global_shape=True)
    assert whole.source.shape == (8, 16, 4)


def test_explanations_of_layouts():
    found = retile.explain(ROWS, TILES, dtype=np.float16)
    assert not found.rematerializes and found.xla.moved_bytes > 0 and found.target == TILES
    assert json.loads(found.to_json())["dtype"] == "f16"
    assert retile.explain(retile.Layout("[8] sum {x}", MESH), retile.Layout("[8]", MESH)).xla is None
    with pytest.raises(retile.MemoryLimitError):
        retile.explain(ROWS, TILES, memory_limit=1)
    with pytest.raises(TypeError, match="target must be a retile.Layout, not None"):
        retile.explain(ROWS)


def test_logs_without_answers():
    message = "there is no 'Involuntary full rematerialization' in this log"
    assert message_of(retile.InputError, retile.explain, "all is well") == message
    broken = WARNING.replace("%copy.1 = f32[8,16,4]", "%copy.1")
    with pytest.warns(UserWarning, match="this warning names no array"):
        assert len(retile.explain(broken + WARNING)) == 1
    assert len(retile.explain(broken + WARNING, shape="f32[16,16,16]")) == 2


def test_layouts_are_read_from_what_compilers_print():
    from_text = retile.Layout.from_text
    assert from_text("{devices=[8,1]<=[8]}", (32, 8)).boxes(3) == ROWS.boxes(3)
    assert from_text("PartitionSpec(('x', 'y'), None)", (32, 8), MESH) == ROWS
    assert from_text("(Shard(dim=0), Shard(dim=1))", (32, 8), "DeviceMesh((x=2, y=4), 'cuda')") == TILES
    assert message_of(retile.InputError, from_text, "{devices=[8,1]<=[9]}", (32, 8)).startswith("layout:1:10: error:")
    assert TILES.to_notation("xla") == ("", "{devices=[2,4]<=[8]}")
    assert message_of(retile.InputError, TILES.to_notation, "hpf") == (
        "error: 'hpf' is no notation\nhint: one of: xla, jax, shardy, dtensor, mlir"
    )
    source, target = retile.parse_ends("{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}", (16, 16, 16))
    assert source.mesh == target.mesh == retile.Mesh({"a": 4, "b": 2})
    assert str(retile.plan(source, target).steps) == "[alltoall(0 -> 1; 2, 2 -> 1; 4)]"


@pytest.mark.parametrize("value", [MESH, ROWS, retile.Layout("[3{x}5] balanced", MESH), retile.plan(ROWS, TILES)])
def test_values_survive_pickling(value):
    copy = pickle.loads(pickle.dumps(value))
    assert copy == value and hash(copy) == hash(value) and copy is not value


def test_plans_tell_what_they_cost():
    plan = retile.plan(ROWS, TILES, planner="paper")
    assert (plan.cost, plan.floor, plan.lower_bound, plan.optimal, plan.peak) == (32, 24, 32, True, 32)
    step = plan.steps[0]
    assert (step.op, step.groups, step.local_in, step.local_out) == (
        "alltoall",
        [[0, 1, 2, 3], [4, 5, 6, 7]],
        [4, 8],
        [16, 2],
    )
    assert plan.verify() == []
    assert retile.plan(ROWS, TILES, planner="paper") is plan
    assert retile.plan(ROWS, TILES, cost="volume").cost_model == "volume"
    assert retile.plan(ROWS, TILES, planner="direct") != plan


def test_notebooks_show_plans_as_pictures():
    html = retile.plan(ROWS, TILES)._repr_html_()
    assert html.startswith("<iframe ") and html.endswith('"></iframe>') and html.count("<") == 2
    assert "&lt;!doctype html>" in html.lower()
    mesh = retile.Mesh({"x": 2**20})
    many = retile.plan(retile.Layout(f"[1{{x}}{2**20}]", mesh), retile.Layout(f"[{2**20}]", mesh))
    assert many._repr_html_().startswith("<pre>mesh {x: 1048576}")


def test_plans_that_somebody_changed_are_found_out():
    plan = json.loads(retile.plan(ROWS, TILES).to_json())
    plan["steps"][0]["offsets"][0] = [16, 0]
    assert retile.Plan.from_json(json.dumps(plan)).verify()


def test_steps_have_their_lists_on_many_devices():
    mesh = retile.Mesh({"x": 512})
    plan = retile.plan(retile.Layout("[1{x}512]", mesh), retile.Layout("[512]", mesh))
    assert plan.steps[0].groups == [list(range(512))]


# --- Errors.


def test_errors_show_where_the_text_is_wrong():
    assert message_of(retile.InputError, retile.Layout, "[4{y,z}32, 8]", MESH) == (
        "layout:1:6: error: unknown axis z\n    1 | [4{y,z}32, 8]\n      |      ^\nhint: the mesh has x, y"
    )
    assert issubclass(retile.InputError, ValueError)


def test_errors_name_the_choices():
    assert message_of(retile.InputError, retile.plan, ROWS, TILES, planner="fast") == (
        "error: 'fast' is no planner\nhint: one of: auto, wide, paper, direct, lean, gather-slice, two-level"
    )
    assert message_of(retile.InputError, retile.Layout.cut, MESH, [8], []) == (
        "error: there are axes for 0 dimensions of an array of rank 1\n"
        "hint: give a list for each dimension, empty where it is not cut"
    )


def test_memory_limits_name_the_smallest_that_works():
    message = message_of(retile.MemoryLimitError, retile.plan, ROWS, TILES, memory_limit=10)
    assert message.startswith("error: a memory limit of 10 bytes per device is too small")
    smallest = int(re.search(r"the smallest limit that works is ([\d,]+) bytes", message)[1].replace(",", ""))
    assert retile.plan(ROWS, TILES, memory_limit=smallest).verify() == []


def test_relabelled_plans_say_the_order_of_devices():
    mesh = retile.Mesh({"x": 2, "y": 2})
    ends = retile.Layout("[4{x}8]", mesh), retile.Layout("[4{y}8]", mesh)
    plan = retile.plan(*ends, relabel=True)
    assert plan.target.devices == [0, 2, 1, 3]
    assert (plan.cost, plan.steps, plan.verify()) == (0, [], [])
    assert plan is retile.plan(*ends, relabel=True)
    assert retile.plan(*ends).target == ends[1]
    assert retile.Plan.from_json(plan.to_json()) == plan


GIGABIT = Path(__file__).parents[2] / "examples/machines/gigabit-4.json"


def test_plans_are_made_for_machines():
    machine = retile.Machine.from_file(GIGABIT)
    assert (machine.name, machine.device_count) == ("four hosts on gigabit Ethernet", 8)
    assert machine.hosts == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert machine == retile.Machine(json.loads(GIGABIT.read_text())) == pickle.loads(pickle.dumps(machine))
    mesh = retile.Mesh({"a": 2, "b": 2, "c": 2})
    ends = retile.Layout("[256, 84{c}168, 156{a,b}624]", mesh), retile.Layout("[256, 84{b}168, 624]", mesh)
    plan = retile.plan(*ends, machine=machine)
    assert plan is retile.plan(*ends, machine=retile.Machine.from_file(str(GIGABIT)))
    assert str(plan.steps) == "[exchange, allgather(2; 4)]"
    assert plan.cost_model == "seconds"
    assert plan.least_seconds <= plan.seconds == pytest.approx(plan.cost * 1e-12)
    assert "on four hosts on gigabit Ethernet, " in str(plan)
    assert plan.verify() == []
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert "It takes 343 ms on four hosts on gigabit Ethernet" in str(retile.explain(*ends, machine=machine))
    by_elements = retile.plan(*ends, machine=machine, cost="volume")
    assert (by_elements.cost_model, by_elements.seconds >= plan.seconds) == ("volume", True)
    assert retile.plan(*ends).seconds is None
    # One host: nothing is gained by what crosses first.
    node = retile.Machine({"hosts": [list(range(8))], "inside": {"rate": 1e10, "latency": 1e-6}, "step": 1e-5})
    assert len(retile.plan(*ends, machine=node).steps) == 1


def test_orders_of_devices_are_found_by_seconds():
    machine = retile.Machine({"hosts": [[0, 1], [2, 3]], "link": {"out": 10, "in": 10}, "inside": {"rate": 100}})
    world, pair = retile.Mesh({"x": 4}), retile.Mesh({"x": 2})
    ends = retile.Layout("[2{x}8]", world), retile.Layout("[4{x}8] on [3, 1]", pair)
    given, found = retile.plan(*ends, machine=machine), retile.plan(*ends, machine=machine, relabel=True)
    assert (given.target.devices, found.target.devices) == ([3, 1], [1, 3])
    assert found.seconds < given.seconds


def test_faults_of_machines_are_shown_where_they_are(tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"hosts": [[0, 0]], "inside": {"rate": 0}}')
    assert message_of(retile.InputError, retile.Machine.from_file, wrong) == (
        f"{wrong}:1:16: error: device 0 is listed twice\n"
        '    1 | {"hosts": [[0, 0]], "inside": {"rate": 0}}\n'
        "      |                ^\n"
        "hint: a device is on one host"
    )
    nowhere = tmp_path / "nowhere.json"
    assert message_of(retile.InputError, retile.Machine.from_file, nowhere) == (
        f"error: cannot read '{nowhere}': No such file or directory"
    )
    two = retile.Machine({"hosts": [[0, 1]], "inside": {"rate": 1}})
    assert "the machine has 2 devices, and the problem 8" in message_of(
        retile.InputError, retile.plan, ROWS, TILES, machine=two
    )
    assert message_of(retile.InputError, retile.plan, ROWS, TILES, cost="seconds") == (
        "error: costs in seconds need a machine\nhint: plan(…, machine=…)"
    )


FRAMEWORKS_TYPE = type("dtype", (), {"__module__": "torch", "__str__": lambda self: "torch.int64", "itemsize": 8})()


@pytest.mark.parametrize(
    ("dtype", "element"),
    [(np.float32, "f32"), (np.dtype("float32"), "f32"), ("float32", "f32"), ("f4", "f32"), ("=f4", "f32")]
    + [(b"f4", "f32"), (np.float32(1), "f32"), (float, "f64"), (complex, "c128"), (np.int8, "i8"), ("bfloat16", "bf16")]
    + [("i8", "i8"), ("<i8", "i64"), (np.int64, "i64"), (bool, "bool"), (">f4", "u32"), ([("a", "f4")], "u32")]
    + [(SimpleNamespace(dtype=np.dtype("float16")), "f16"), ("datetime64[s]", "u64"), (FRAMEWORKS_TYPE, "i64")]
    + [("u8", "u8"), (np.uint8, "u8"), ("uint16", "u16"), ("f8e4m3fn", "f8e4m3fn"), ("float8_e5m2", "f8e5m2")],
    ids=str,
)
def test_types_of_elements_are_spelled_as_numpy_takes_them(dtype, element):
    assert retile._elements.element_type(dtype) == element
    assert retile.plan(ROWS, TILES, dtype=dtype) is retile.plan(ROWS, TILES, dtype=element)


@pytest.mark.parametrize("dtype", [None, "float33", "(2,", object, list, np.floating, 4, np.zeros(2), "O"], ids=str)
def test_what_is_no_type_of_elements_is_said(dtype):
    assert message_of(retile.InputError, retile.plan, ROWS, TILES, dtype=dtype) == (
        f"{dtype!r} is no element type\n"
        "hint: one of: bool, i8, i16, i32, i64, u8, u16, u32, u64, f8e4m3fn, f8e5m2, f16, bf16, f32, f64, c64, c128, "
        "or what numpy.dtype() takes"
    )


def test_elements_of_odd_sizes_are_refused():
    assert message_of(retile.InputError, retile.plan, ROWS, TILES, dtype="S3") == (
        "elements of |S3 have 3 bytes\nhint: those of 1, 2, 4, 8 and 16 are moved"
    )


def test_arguments_of_wrong_types_are_told_what_is_taken():
    planned = {"source": ROWS, "target": TILES}
    cut = {"mesh": MESH, "shape": (32, 8), "axes": [["x"], []]}
    ends = {"source": "{replicated}", "target": "{replicated}", "shape": (32, 8)}
    for function, arguments, words in [
        (retile.plan, planned | {"source": "[32]"}, "source must be a retile.Layout, not '[32]'"),
        (retile.plan, planned | {"target": None}, "target must be a retile.Layout, not None"),
        (retile.plan, planned | {"source": [32]}, "source must be a retile.Layout, not [32]"),  # which has no hash
        (retile.plan, planned | {"planner": None}, "planner must be a string, not None"),
        (retile.plan, planned | {"cost": 1}, "cost must be a string or None, not 1"),
        (retile.plan, planned | {"memory_limit": 1e6}, "memory_limit must be an integer or None, not 1000000.0"),
        (retile.plan, planned | {"exchange": 1}, "exchange must be True or False, not 1"),
        (retile.plan, planned | {"relabel": "yes"}, "relabel must be True or False, not 'yes'"),
        (retile.plan, planned | {"machine": "m"}, "machine must be a retile.Machine or None, not 'm'"),
        (retile.explain, planned | {"machine": {}}, "machine must be a retile.Machine or None, not {}"),
        (retile.Machine, {"machine": []}, "machine must be a dict with the keys of a machine file, not []"),
        (retile.Mesh, {"axes": None}, "axes must be a dict of names and sizes, not None"),
        (retile.Mesh, {"axes": {"x": 2.0}}, "the size of axis x must be an integer, not 2.0"),
        (retile.Mesh, {"axes": {2: 2}}, "the name of an axis must be a string, not 2"),
        (retile.Layout, {"text": None, "mesh": MESH}, "text must be a string, not None"),
        (retile.Layout, {"text": "[32]", "mesh": {"x": 2}}, "mesh must be a retile.Mesh, not {'x': 2}"),
        (retile.Layout, {"text": "[32]", "mesh": None}, "mesh must be a retile.Mesh, not None"),
        (retile.Layout.cut, cut | {"shape": (8.0, 8)}, "shape must be a sequence of integers, not (8.0, 8)"),
        (retile.Layout.cut, cut | {"axes": ["x", []]}, "axes must be a sequence of names of axes for each dimension, "
         "not ['x', []]"),
        (retile.Layout.cut, cut | {"sum": "x"}, "sum must be a sequence of names of axes, not 'x'"),
        (retile.Layout.from_text, {"text": "[8]", "shape": 8}, "shape must be a sequence of integers, not 8"),
        (retile.parse_ends, ends | {"shape": 8}, "shape must be a sequence of integers, not 8"),
        (retile.parse_ends, ends | {"mesh": 8}, "mesh must be a retile.Mesh, a mesh's text or None, not 8"),
        (retile.parse_problem, {"line": None}, "line must be a string, not None"),
        (retile.Plan.from_json, {"text": {}}, "text must be a string, not {}"),
        (ROWS.to_notation, {"notation": None}, "notation must be a string, not None"),
        (ROWS.boxes, {"device": 1.0}, "device must be an integer, not 1.0"),
        (ROWS.tile_shape, {"device": None}, "device must be an integer, not None"),
    ]:  # fmt: skip
        assert message_of(TypeError, function, **arguments) == words


def test_integers_of_numpy_are_integers():
    assert retile.Mesh({"x": np.int32(2), "y": np.uint8(4)}) == MESH
    assert retile.Layout.cut(MESH, np.array([32, 8]), [["y", "x"], []]) == ROWS
    assert ROWS.boxes(np.int64(3)) == ROWS.boxes(3)
    assert retile.plan(ROWS, TILES, memory_limit=np.int64(10**6)) == retile.plan(ROWS, TILES, memory_limit=10**6)


# --- Runs.


@pytest.mark.parametrize("problem", problems()[::50], ids=lambda problem: problem["id"])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "uint8"])
def test_runs_give_each_device_its_slice(problem, dtype):
    shape = small_shape(problem)
    source, target = layouts_of(problem, shape)
    array = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    moved = retile.redistribute(tiles_of(array, source), retile.plan(source, target, dtype=dtype))
    for tile, expected in zip(moved, tiles_of(array, target), strict=True):
        np.testing.assert_array_equal(tile, expected)


def test_strided_arrays_are_moved_as_they_lie():
    array = np.arange(2 * 32 * 3 * 8.0).reshape(64, 24)[::-2, ::3]  # backwards, with gaps
    result = np.zeros((8, 32)).T  # columns first
    retile.redistribute(tiles_of(array, ROWS), retile.plan(ROWS, TILES), out=tiles_of(result, TILES))
    np.testing.assert_array_equal(result, array)


def test_every_array_at_fault_is_named_before_anything_moves():
    plan = retile.plan(ROWS, TILES)
    tiles = [np.zeros((4, 8), np.float32) for _ in range(8)]
    tiles[1] = np.zeros((4, 7), np.float32)
    tiles[6] = np.zeros((4, 8), np.int32)
    assert message_of(retile.InputError, retile.redistribute, tiles, plan) == (
        "the source of device 1 has shape [4, 7], not [4, 8]\n"
        "the source of device 6 has elements of int32, the first of float32"
    )
    good = [np.zeros((4, 8)) for _ in range(8)]
    targets = [np.zeros((16, 2)) for _ in range(8)]
    targets[3].flags.writeable = False
    assert message_of(retile.InputError, retile.redistribute, good, plan, targets) == (
        "the target of device 3 is read-only"
    )
    assert message_of(retile.InputError, retile.redistribute, good[:2], plan) == "there are 2 sources for 8 devices"


def test_what_cannot_be_moved_as_it_lies_is_refused():
    plan = retile.plan(ROWS, TILES)
    array = np.zeros((32, 8))
    tiles, good = tiles_of(array, ROWS), tiles_of(np.zeros((32, 8)), TILES)
    masked = np.ma.masked_equal(tiles[2], 0)
    for tiles_given, out, words in [
        (tiles[:2] + [masked] + tiles[3:], None, "the source of device 2 is a masked array, whose mask would be lost"),
        (tiles, [*good[:7], np.ma.zeros((16, 2))], "the target of device 7 is a masked array, whose mask would be lost"),
        (tiles, [None, *good[1:]], "the target of device 0 is of type NoneType, not an array of NumPy"),
        ([tile.astype(object) for tile in tiles[:1]] + tiles[1:], None,
         "the source of device 0 has Python objects, which cannot be moved as bytes"),
        (None, None, "tiles must be arrays, one for each device, not NoneType"),
        (array, None, "tiles is the whole array\nhint: give a list with the tile of each device"),
        (tiles, 8, "out must be arrays, one for each device, not int"),
    ]:  # fmt: skip
        assert message_of(retile.InputError, retile.redistribute, tiles_given, plan, out) == words
    assert message_of(retile.InputError, retile.redistribute, plan, tiles) == (
        "plan must be a retile.Plan, not list\nhint: redistribute(tiles, plan)"
    )


@pytest.mark.parametrize("order", ["C", "F"])  # packed, and not
def test_targets_that_overlap_are_refused(order):
    plan = retile.plan(ROWS, TILES)
    tiles = [np.zeros((4, 8), order=order) for _ in range(8)]
    targets = [np.zeros((16, 2), order=order) for _ in range(8)]
    whole = np.zeros(64)
    tiles[6] = whole[:32].reshape((4, 8), order=order)
    targets[3] = whole[31:63].reshape((16, 2), order=order)
    targets[5] = targets[4]
    assert message_of(retile.InputError, retile.redistribute, tiles, plan, targets) == (
        "the target of device 3 overlaps the source of device 6\nthe target of device 5 overlaps the target of device 4"
    )


def test_bytes_in_another_order_are_moved_but_not_added_up():
    array = np.arange(256, dtype=">f4").reshape(32, 8)
    for tile, expected in zip(
        retile.redistribute(tiles_of(array, ROWS), retile.plan(ROWS, TILES)), tiles_of(array, TILES), strict=True
    ):
        np.testing.assert_array_equal(tile, expected)
    plan = retile.plan(retile.Layout("[32, 8] sum {x}", MESH), retile.Layout("[32, 2{y}8]", MESH))
    assert message_of(retile.InputError, retile.redistribute, [array] * 8, plan) == (
        "the plan adds up elements of f32, and the arrays have >f4"
    )


def test_sums_are_added_up_as_what_they_are():
    source, target = retile.Layout("[32, 8] sum {x}", MESH), retile.Layout("[32, 2{y}8]", MESH)
    tiles = [np.full((32, 8), 10 ** (device // 4), np.int32) for device in range(8)]  # by x; copies along y agree
    moved = retile.redistribute(tiles, retile.plan(source, target, dtype="int32"))
    assert all((tile == 11).all() for tile in moved)
    plan = retile.plan(source, target)
    assert message_of(retile.InputError, retile.redistribute, tiles, plan) == (
        "the plan adds up elements of f32, and the arrays have int32"
    )


def test_threads_plan_and_run_at_once():
    plans = [(ROWS, TILES, planner) for planner in ("wide", "paper", "direct", "gather-slice")] * 8
    array = np.arange(256.0).reshape(32, 8)

    def run(source, target, planner):
        plan = retile._retile.plan(source, target, "f64", planner, "paper", None, True)
        return retile.redistribute(tiles_of(array, source), plan)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for moved in pool.map(run, *zip(*plans, strict=True)):
            for tile, expected in zip(moved, tiles_of(array, TILES), strict=True):
                np.testing.assert_array_equal(tile, expected)


# --- Tensor programs, which frameworks carry out: here on arrays of all devices, side by side.


def run_tensors(statements, *arguments):
    """The last value on each device; arguments are lists of arrays, one for each."""
    values = list(arguments)
    for name, operands, shape, fields in statements:
        given = [values[number] for number in operands]
        if name == "switch":
            by_branch = [run_tensors(branch, *given) for branch in fields["branches"]]
            values.append([by_branch[which][device] for device, which in enumerate(fields["chosen"])])
        elif name in ("slice", "reshape", "zeros"):
            values.append(OPERATIONS[name](given[0], shape=shape, **fields))
        else:
            values.append(OPERATIONS[name](*given, **fields))
        assert {one.shape for one in values[-1]} == {shape}, name
        values[-1] = [one.copy() for one in values[-1]]
    return values[-1]


def of_devices(table, tiles):
    return table * len(tiles) if len(table) == 1 else table


def boxes_at(tiles, corners, shape):
    corners = of_devices(corners, tiles)
    ends = np.add(corners, shape)
    return [tile[tuple(map(slice, *ends))] for tile, *ends in zip(tiles, corners, ends, strict=True)]


def gathered(tiles, groups, join):
    result = list(tiles)
    for group in groups:
        for place, member in enumerate(group):
            result[member] = join([tiles[other] for other in group], place)
    return result


def all_to_all(tiles, split, join, groups):
    size = len(groups[0])
    return gathered(
        tiles, groups, lambda all, place: np.concatenate([np.split(t, size, split)[place] for t in all], join)
    )


def updated(tiles, boxes, corners):
    result = [tile.copy() for tile in tiles]
    for place, box in zip(boxes_at(result, corners, boxes[0].shape), boxes, strict=True):
        place[...] = box
    return result


OPERATIONS = {
    "slice": boxes_at,
    "zeros": lambda tiles, shape: [np.zeros(shape, tile.dtype) for tile in tiles],
    "reshape": lambda tiles, shape: [tile.reshape(shape) for tile in tiles],
    "transpose": lambda tiles, order: [tile.transpose(order) for tile in tiles],
    "gather": lambda tiles, dimension, groups: gathered(tiles, groups, lambda all, _: np.concatenate(all, dimension)),
    "all_to_all": all_to_all,
    "permute": lambda tiles, senders: [tiles[sender] for sender in senders],
    "stack": lambda *boxes: [np.stack(one) for one in zip(*boxes, strict=True)],
    "concatenate": lambda *boxes, dimension: [np.concatenate(one, dimension) for one in zip(*boxes, strict=True)],
    "pick": lambda tiles, order: [tile[one] for tile, one in zip(tiles, order, strict=True)],
    "select": lambda *two, chosen: [one[which] for one, which in zip(zip(*two, strict=True), chosen, strict=True)],
    "update": updated,
}


@pytest.mark.parametrize("form", ["collectives", "fast", "lean"])
@pytest.mark.parametrize("problem", problems()[7::25], ids=lambda problem: problem["id"])
def test_tensor_programs_move_what_the_plan_moves(problem, form):
    shape = small_shape(problem, 512)
    source, target = layouts_of(problem, shape)
    array = np.arange(math.prod(shape)).reshape(shape)
    for planner in ("wide", "paper", "direct", "lean"):
        program = retile._retile.lower(retile.plan(source, target, planner=planner), 8, form)
        results = run_tensors(program.statements, tiles_of(array, source))
        for tile, expected in zip(results, tiles_of(array, target), strict=True):
            np.testing.assert_array_equal(tile, expected)


def test_exchanges_take_as_few_rounds_as_cells_that_some_device_lacks():
    mesh = retile.Mesh({"x": 2, "y": 3, "z": 2})
    axes = [list(some) for count in range(3) for some in itertools.permutations(("x", "y", "z"), count)]
    checked = 0
    for first, second in itertools.product(axes, axes):
        source = retile.Layout.cut(mesh, [12, 12], [first, []])
        target = retile.Layout.cut(mesh, [12, 12], [[], second])
        plan = retile.plan(source, target, planner="direct")
        if not plan.steps:
            continue
        array = np.arange(144).reshape(12, 12)
        program = retile._retile.lower(plan, 8, "collectives")
        results = run_tensors(program.statements, tiles_of(array, source))
        for tile, expected in zip(results, tiles_of(array, target), strict=True):
            np.testing.assert_array_equal(tile, expected)
        cell = [math.gcd(*lengths) for lengths in zip(plan.steps[0].local_in, plan.steps[-1].local_out, strict=True)]
        assert program.rounds * math.prod(cell) == program.received == plan.floor  # what some device lacks
        checked += 1
    assert checked > 50


# --- One device's part of a run, which somebody else's messages carry.


def run_schedules(plan, tiles):
    """What devices hold after all have done their parts, messages handed over in memory."""
    schedules = [retile._retile.schedule(plan, device, 8, 64) for device in range(len(tiles))]
    memories = [np.ascontiguousarray(tile).reshape(-1) for tile in tiles]

    def view(memory, region):
        offset, shape, strides = region
        return np.lib.stride_tricks.as_strided(memory[offset // 8 :], shape, strides)

    for stages in zip(*schedules, strict=True):
        results = [np.full(elements, -1) for elements, *_ in stages]
        mailbox = {}
        for device, (_, copies, rounds, reduction) in enumerate(stages):
            if reduction == "sum":
                results[device] = memories[device].reshape(-1, len(results[device])).sum(axis=0)
            for source, target in copies:
                view(results[device], target)[...] = view(memories[device], source)
            for send, _ in rounds:
                if send:
                    parts = [view(memories[device], region).reshape(-1) for region in send[2]]
                    mailbox.setdefault((device, send[0]), []).append(np.concatenate(parts))
                    assert send[1] == mailbox[device, send[0]][-1].nbytes
        for device, (_, _, rounds, _) in enumerate(stages):
            for _, receive in rounds:
                if receive:
                    message = mailbox[receive[0], device].pop(0)
                    for region in receive[2]:
                        count = math.prod(region[1])
                        view(results[device], region)[...] = message[:count].reshape(region[1])
                        message = message[count:]
                    assert not len(message)
        assert not any(mailbox.values())
        memories = results
    return memories


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("[4{y,x}32, 8]", "[16{x}32, 2{y}8]"),
        ("[5{x}9, 8]", "[9, 1{y,x}8]"),
        ("[3{y}9, 7] nested", "[9, 2{y}7] balanced"),
        ("[4*4{y}16, 8]", "[64, 4{x}8]"),
        ("[32, 8] sum {x}", "[8{y}32, 8]"),
        ("[32, 8]", "[32, 8]"),
    ],
)
@pytest.mark.parametrize("planner", ["wide", "direct"])
def test_what_devices_do_makes_up_the_plan(source, target, planner):
    layouts = [retile.Layout(text, MESH) for text in (source, target)]
    array = np.arange(math.prod(layouts[0].shape)).reshape(layouts[0].shape)
    threads = retile.plan(*layouts, planner=planner, dtype="f64")
    tiles = [np.zeros(layouts[0].tile_shape(device), int) + device for device in range(8)]
    if not layouts[0].partial:
        tiles = retile.redistribute([array] * 8, retile.plan(retile.Layout(str(list(array.shape)), MESH), layouts[0]))
    expected = retile.redistribute([tile.astype(float) for tile in tiles], threads)
    for device, memory in enumerate(run_schedules(threads, tiles)):
        np.testing.assert_array_equal(memory.reshape(layouts[1].tile_shape(device)), expected[device])
