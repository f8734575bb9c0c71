"""Code that `retile emit` writes, run by those it is written for."""

import functools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from problems import problems, small_shape

import retile
from retile._collectives import run_program
from retile._retile import lower, tensor_plan

COMMAND = os.environ.get("RETILE_COMMAND", str(Path(__file__).parents[2] / "build" / "release" / "retile"))
PLANNERS = ["wide", "paper", "direct", "lean", "gather-slice", "xla"]


def emit(target, *arguments, text=None):
    result = subprocess.run(
        [COMMAND, "emit", "--as", target, *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def emitted(target, problem, planner):
    line = json.dumps({**problem, "shape": small_shape(problem)})
    return emit(target, "--problems", "-", "--planner", planner, text=line)


def run_jax(code):
    """The emitted function on an array of numbers, and what it is to give."""
    names = {"__name__": "emitted"}
    exec(compile(code, "emitted.py", "exec"), names)
    mesh = jax.make_mesh(names["SIZES"], names["AXES"], devices=jax.devices()[: math.prod(names["SIZES"])])
    x = np.arange(math.prod(names["SHAPE"]), dtype=np.float32).reshape(names["SHAPE"])
    moved = jax.jit(names["redistribute"], static_argnums=1)(
        jax.device_put(x, NamedSharding(mesh, names["SOURCE"])), mesh
    )
    assert moved.sharding.is_equivalent_to(NamedSharding(mesh, names["TARGET"]), moved.ndim)
    return x, moved


def fits(problem):
    return math.prod(problem["mesh"].values()) <= len(jax.devices())


# Problems of the paper, its adversarial ones among them; problems sampled from its family; problems on other meshes.
SAMPLE = [one for one in problems("../../examples/paper.jsonl") if fits(one)] + problems()[3::50]
SAMPLE += [one for one in problems("xla_other_problems.jsonl") if fits(one)][::20]


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("problem", SAMPLE, ids=lambda problem: problem["id"])
def test_jax_moves_every_bit(problem, planner):
    x, moved = run_jax(emitted("jax", problem, planner))
    for shard in moved.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])


@pytest.fixture(scope="module")
def run_script():
    """Runs a script in a process that has imported JAX: its exit status, its output and its errors."""
    command = [sys.executable, str(Path(__file__).parent / "forked_scripts.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:

        def run(path):
            process.stdin.write(f"{path}\n")
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()


def test_the_emitted_jax_program_runs_by_itself(tmp_path):
    path = tmp_path / "redistribute.py"
    emit("jax", "--mesh", "x=2,y=4", "[4{x}8, 16]", "[8, 4{y}16]", "--out", str(path))
    result = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "verified on 8 devices\n"), result.stderr


@pytest.mark.parametrize(
    ("mesh", "source", "target", "form"),
    [
        ("x=2,y=4", "[8, 16] sum {x}", "[4{x}8, 4{y}16]", "collectives"),
        ("x=2,y=4", "[8, 16] sum {x}", "[4{x}8, 4{y}16]", "fast"),
        ("x=8", "[2{x:(1)4}8, 4]", "[8, 2{x:(4)2}4]", "collectives"),
        ("x=2,y=4", "[3*4{y}16*8, 6]", "[384, 3{x}6]", "collectives"),
        ("x=2,y=4", "[5{x,y}33, 8]", "[33, 1{y,x}8]", "collectives"),
        ("x=2,y=4", "[5{x,y}33, 8]", "[33, 1{y,x}8]", "lean"),
    ],
)
def test_the_emitted_jax_program_checks_itself(tmp_path, run_script, mesh, source, target, form):
    path = tmp_path / "redistribute.py"
    assert emit("jax", "--mesh", mesh, source, target, "--form", form, "--out", str(path)) == ""
    status, output, errors = run_script(path)
    assert (status, output) == (0, "verified on 8 devices\n"), errors


LARGE = [
    ("[1024{y,x}8192, 8192]", "[2048{y}8192, 4096{x}8192]"),
    ("[1024{y,x}8192, 8192]", "[8192, 2048{y}8192]"),
    ("[4, 4, 2048{y}8192, 1024]", "[4, 4, 8192, 128{x,y}1024]"),
    ("[8192, 8192] sum {x}", "[4096{x}8192, 2048{y}8192]"),
]


@pytest.mark.parametrize("form", ["collectives", "fast", "lean"])
@pytest.mark.parametrize(("source", "target"), LARGE)
def test_code_for_large_arrays_checks_itself_on_smaller_ones(tmp_path, run_script, source, target, form):
    path = tmp_path / "redistribute.py"
    emit("jax", "--mesh", "x=2,y=4", source, target, "--form", form, "--out", str(path))
    status, output, errors = run_script(path)
    assert status == 0 and "verified on 8 devices, on an array of (" in output, errors
    lengths = [int(one) for one in output.split("(")[1].split(")")[0].split(",")]
    assert math.prod(lengths) <= 2**20


def test_code_for_large_arrays_moves_them_when_it_is_imported():
    code = emit("jax", "--mesh", "x=2,y=4", "[512{y,x}4096, 4100]", "[1024{y}4096, 2050{x}4100]")
    assert "UNIT = 4 if " in code
    x, moved = run_jax(code)
    assert x.shape == (4096, 4100)
    for shard in moved.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])


ONE = "SingleDeviceSharding(device=CpuDevice(id=3), memory_kind=device)"
MANY = "NamedSharding(mesh=Mesh('x': 2, 'y': 4), spec=PartitionSpec(('y', 'x')))"


@pytest.mark.parametrize(("source", "target"), [(ONE, MANY), (MANY, ONE)], ids=["out", "in"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "i64", "bool", "f8e4m3fn"])
def test_arrays_on_one_device_are_copied(tmp_path, run_script, source, target, dtype):
    path = tmp_path / "redistribute.py"
    emit("jax", "--shape", f"{dtype}[8, 16]", source, target, "--out", str(path))
    status, output, errors = run_script(path)
    assert (status, output) == (0, "verified on 8 devices\n"), errors


def as_replicas(code):
    """The module of what partitions do, for XLA's client to run on replicas: it takes partitions from its partitioner
    alone."""
    for old, new in [
        ("mhlo.num_partitions = 8", "mhlo.num_partitions = 1"),
        ("mhlo.num_replicas = 1", "mhlo.num_replicas = 8"),
        ("channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, ", ""),
        (", use_global_device_ids", ""),
        ("stablehlo.partition_id", "stablehlo.replica_id"),
    ]:
        code = code.replace(old, new)
    return code


def run_stablehlo(code, tiles):
    """What the devices hold after it."""
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir

    with mlir.make_ir_context():
        assert ir.Module.parse(code).operation.verify()  # as it is
        module = ir.Module.parse(as_replicas(code))
        options = xla_client.CompileOptions()
        options.num_replicas, options.num_partitions = 8, 1
        options.executable_build_options.num_replicas = 8
        options.executable_build_options.num_partitions = 1
        options.device_assignment = xla_client.DeviceAssignment.create(np.arange(8).reshape(8, 1))
        devices = jax.devices()[:8]
        program = devices[0].client.compile_and_load(module, xla_client.DeviceList(tuple(devices)), options)
    mesh = jax.make_mesh((8,), ("device",))
    stacked = jax.make_array_from_single_device_arrays(
        (8 * tiles[0].shape[0], *tiles[0].shape[1:]),
        NamedSharding(mesh, PartitionSpec("device")),
        [jax.device_put(tile, device) for tile, device in zip(tiles, devices, strict=True)],
    )
    return [np.asarray(tile) for tile in program.execute_sharded([stacked]).disassemble_into_single_device_arrays()[0]]


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("problem", problems()[9::90], ids=lambda problem: problem["id"])
def test_stablehlo_moves_every_bit(problem, planner):
    shape = small_shape(problem)
    mesh = jax.make_mesh(tuple(problem["mesh"].values()), tuple(problem["mesh"]))
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)

    def tiles(side):
        spec = PartitionSpec(*(tuple(reversed(axes)) for axes in problem[side]))
        places = NamedSharding(mesh, spec).devices_indices_map(shape)
        return [x[places[device]] for device in jax.devices()[: mesh.size]]

    moved = run_stablehlo(emitted("stablehlo", problem, planner), tiles("src"))
    for tile, expected in zip(moved, tiles("dst"), strict=True):
        np.testing.assert_array_equal(tile, expected)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "u8"])
def test_stablehlo_adds_parts(dtype):
    code = emit("stablehlo", "--mesh", "x=2,y=4", "[8, 16] sum {x}", "[4{x}8, 4{y}16]", "--dtype", dtype)
    numpy_type = jax.numpy.dtype({"f32": "float32", "bf16": "bfloat16", "u8": "uint8"}[dtype])
    parts = (np.arange(256) % 7).reshape(2, 8, 16).astype(numpy_type)
    moved = run_stablehlo(code, [parts[device // 4 : device // 4 + 1] for device in range(8)])
    total = parts[0] + parts[1]
    for device, tile in enumerate(moved):
        x, y = divmod(device, 4)
        np.testing.assert_array_equal(tile, total[4 * x : 4 * x + 4, 4 * y : 4 * y + 4])


def test_every_report_becomes_a_stablehlo_module():
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    reports = [one for one in problems("xla_reports.jsonl") if "maximal" not in one["from"] + one["to"]]
    for report in reports:
        array = f"{report['dtype']}[{','.join(map(str, report['shape']))}]"
        with mlir.make_ir_context():
            code = emit("stablehlo", "--shape", array, report["from"], report["to"])
            assert ir.Module.parse(code).operation.verify()
    assert len(reports) > 5


# --- Emitted code is what retile.jax runs.


def groups_of(mesh, axis_names, groups):
    """Of a collective, whether it names axes or lists devices."""
    if groups is not None:
        return [list(group) for group in groups]
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    numbers = np.arange(mesh.size).reshape(tuple(mesh.shape.values()))
    kept = [axis for axis, name in enumerate(mesh.axis_names) if name not in names]
    gone = [mesh.axis_names.index(name) for name in names]
    return numbers.transpose(*kept, *gone).reshape(-1, math.prod(mesh.shape[name] for name in names)).tolist()


def inner_programs(equation):
    values = [one for value in equation.params.values() for one in (value if isinstance(value, tuple) else [value])]
    return [getattr(one, "jaxpr", one) for one in values if hasattr(one, "eqns") or hasattr(one, "jaxpr")]


def parameters_of(equation, mesh):
    """The same for collectives along axes and over groups."""
    kept = {name: str(value) for name, value in equation.params.items() if isinstance(value, (int, tuple))}
    if "axis_index_groups" not in equation.params:
        return kept
    groups = groups_of(mesh, equation.params["axis_name"], equation.params["axis_index_groups"])
    return {name: kept[name] for name in kept.keys() - {"axis_name", "axis_index_groups"}} | {"groups": groups}


def operations_of(program, mesh):
    """What is done with elements, in order, each with the numbers of what it is done with; arithmetic on numbers of
    devices is left out."""
    found = []

    def walk(program, numbers):
        for equation in program.eqns:
            inner = inner_programs(equation)
            results = []
            for one in inner:
                given = equation.invars[len(equation.invars) - len(one.invars) :]  # a switch has its number in front
                results.append(walk(one, {id(a): numbers.get(id(b)) for a, b in zip(one.invars, given, strict=True)}))
            if len(inner) == 1:
                numbers.update(zip(map(id, equation.outvars), results[0], strict=True))
            elif equation.outvars[0].aval.dtype == np.float32:
                operands = [numbers[id(one)] for one in equation.invars if id(one) in numbers]
                shapes = [one.aval.shape for one in equation.outvars]
                parameters = parameters_of(equation, mesh) if not inner else results
                numbers[id(equation.outvars[0])] = len(found)
                found.append((equation.primitive.name, operands, shapes, parameters))
        return [numbers.get(id(one)) for one in program.outvars]

    walk(program, {})
    return found


# Boxes with long runs, which are concatenated.
LONG_RUNS = {
    "id": "long runs",
    "mesh": {"x": 2, "y": 4},
    "shape": [8, 8, 64],
    "src": [[], ["y"], []],
    "dst": [["y"], [], []],
}


@pytest.mark.parametrize("form", ["collectives", "fast", "lean"])
@pytest.mark.parametrize("problem", [*SAMPLE, LONG_RUNS], ids=lambda problem: problem["id"])
def test_emitted_jax_is_what_runs(problem, form):
    line = json.dumps({**problem, "shape": small_shape(problem)})
    names = {"__name__": "emitted"}
    exec(emit("jax", "--problems", "-", "--form", form, text=line), names)
    mesh = jax.make_mesh(names["SIZES"], names["AXES"], devices=jax.devices()[: math.prod(names["SIZES"])])
    program = lower(tensor_plan(*retile.parse_problem(line)[:2], "f32"), 4, form)
    x = jax.ShapeDtypeStruct(names["SHAPE"], np.float32, sharding=NamedSharding(mesh, names["SOURCE"]))
    found = []
    for function in (names["move_tile"], functools.partial(run_program, program, names["AXES"])):
        move = jax.shard_map(function, mesh=mesh, in_specs=names["SOURCE"], out_specs=names["TARGET"], check_vma=False)
        jaxpr = jax.make_jaxpr(move)(x)
        found.append(operations_of(jaxpr.jaxpr, mesh))
    assert found[0] == found[1]
