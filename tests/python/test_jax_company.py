"""`reshard` among JAX's own transformations, caches, exports, meshes and trees."""

import os
import pickle
import re
import subprocess
import sys
import textwrap
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.experimental import serialize_executable
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from test_jax import ARRAY, COLUMNS, ROWS, assert_moved, mesh_of, message_of, put, source_for

import retile._inside_jit
from retile.jax import lower_text, reshard

AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit


@pytest.fixture(params=[AUTO, EXPLICIT], ids=["auto", "explicit"])
def mesh(request):
    return mesh_of({"x": 2, "y": 4}, request.param)


@pytest.fixture(params=["auto", "auto with source", "explicit"])
def mode(request):
    """A mesh, and how `reshard` is told of the source."""
    mesh = mesh_of({"x": 2, "y": 4}, EXPLICIT if request.param == "explicit" else AUTO)
    return mesh, lambda spec: NamedSharding(mesh, spec) if request.param == "auto with source" else None


def collectives_of(program, *arguments):
    text = program.lower(*arguments).compile().as_text()
    return {one for one in ("all-to-all", "all-gather", "collective-permute", "all-reduce") if one in text}


# --- Batches.

BATCH = np.stack([ARRAY + i for i in range(8)])


@pytest.mark.parametrize("dimension", [0, 1])
def test_a_batch_stays_cut_as_it_is(mode, dimension):
    mesh, source = mode
    batch = np.moveaxis(BATCH, 0, dimension)
    before, after = (list(spec) for spec in (P(None, "y"), P("y", None)))
    before.insert(dimension, "x")
    after.insert(dimension, "x")
    target = NamedSharding(mesh, P(*after))
    program = jax.jit(
        jax.vmap(
            lambda x: reshard(x, NamedSharding(mesh, P("y")), source=source(P(None, "y"))),
            in_axes=dimension,
            out_axes=dimension,
        )
    )
    x = put(mesh, P(*before), batch)
    assert_moved(program(x), batch, target)
    assert collectives_of(program, x) <= {"all-to-all", "collective-permute"}  # the batch is not gathered
    gradient = jax.jit(jax.grad(lambda x: (program(x) ** 2 / 2).sum()))(x)
    np.testing.assert_array_equal(np.asarray(gradient), batch)
    if mesh.axis_types[0] == EXPLICIT or source(P()):
        assert gradient.sharding.is_equivalent_to(x.sharding, 3)


def test_batches_are_moved_outside_jit(mode):
    mesh, source = mode
    before, after = P("x", None, "y"), P("x", "y")

    def move(x):
        return reshard(x, NamedSharding(mesh, P("y")), source=source(P(None, "y")))

    with jax.set_mesh(mesh):
        assert_moved(jax.vmap(move)(put(mesh, before, BATCH)), BATCH, NamedSharding(mesh, after))


@pytest.mark.parametrize("with_source", [False, True])
def test_the_axis_of_a_batch_can_be_named(with_source):
    mesh = mesh_of({"x": 2, "y": 4})
    source = NamedSharding(mesh, P(None, "y")) if with_source else None

    def moved(x, **keywords):
        def move(x):
            return reshard(x, NamedSharding(mesh, P("y")), source=source, **keywords)

        return jax.jit(jax.vmap(move, spmd_axis_name="x"))(x)

    x, target = put(mesh, P(None, None, "y"), BATCH), NamedSharding(mesh, P("x", "y"))
    assert_moved(moved(x), BATCH, target)
    if with_source:
        assert_moved(moved(x, memory_limit=10**9), BATCH, target)
    program = jax.jit(jax.vmap(lambda x: reshard(x, NamedSharding(mesh, P("x")), source=source), spmd_axis_name="x"))
    with pytest.raises(ValueError, match="spmd_axis_name .*'x'.* cannot appear|vmap cuts the batch along x"):
        program(x)


def test_a_memory_limit_needs_the_axis_of_a_batch():
    mesh = mesh_of({"x": 2, "y": 4})

    def move(x):
        return reshard(x, NamedSharding(mesh, P("y")), source=NamedSharding(mesh, P(None, "y")), memory_limit=10**9)

    fault = (
        "a memory limit cannot be kept under vmap, where XLA chooses how the batch is cut\n"
        "hint: name its axis: jax.vmap(…, spmd_axis_name=…)"
    )
    batch = put(mesh, P("x", None, "y"), BATCH)
    assert message_of(jax.jit(jax.vmap(move)), batch) == fault
    assert message_of(jax.jit(jax.vmap(lambda x: move({"w": [x]}))), batch) == f"x['w'][0]: {fault}"
    explicit = mesh_of({"x": 2, "y": 4}, EXPLICIT)  # types tell
    moved = jax.jit(jax.vmap(lambda x: reshard(x, NamedSharding(explicit, P("y")), memory_limit=10**9)))(
        put(explicit, P("x", None, "y"), BATCH)
    )
    assert_moved(moved, BATCH, NamedSharding(explicit, P("x", "y")))


# --- Derivatives.


def test_derivatives_of_all_kinds(mode):
    mesh, source = mode
    x, target = put(mesh), NamedSharding(mesh, COLUMNS)

    def move(x):
        return reshard(x, target, source=source(ROWS))

    def loss(x):
        return (move(x) ** 2 / 2).sum()

    with jax.set_mesh(mesh):
        for transform in (jax.jit, lambda function: function):
            tangent = transform(lambda x: jax.jvp(move, (x,), (2 * x,))[1])(x)
            assert_moved(tangent, 2 * ARRAY, target)
            twice = transform(lambda x: jax.jvp(jax.grad(loss), (x,), (3 * x,))[1])(x)
            np.testing.assert_array_equal(np.asarray(twice), 3 * ARRAY)
            back = transform(lambda y: jax.linear_transpose(move, x)(y)[0])(put(mesh, COLUMNS))
            np.testing.assert_array_equal(np.asarray(back), ARRAY)
            saved = transform(jax.grad(jax.checkpoint(loss)))(x)
            np.testing.assert_array_equal(np.asarray(saved), ARRAY)


def test_gradients_of_arrays_that_no_mesh_has_stay_as_they_are():
    mesh = mesh_of({"x": 2, "y": 4}, EXPLICIT)
    with jax.set_mesh(mesh):
        gradient = jax.jit(jax.grad(lambda x: (reshard(x, COLUMNS) ** 2 / 2).sum()))(ARRAY)
    assert_moved(gradient, ARRAY, NamedSharding(mesh, COLUMNS))  # as JAX's own does


def test_it_is_one_program_where_jit_is_disabled(mesh):
    x = put(mesh)
    with jax.set_mesh(mesh), jax.disable_jit():
        assert_moved(reshard(x, COLUMNS), ARRAY, NamedSharding(mesh, COLUMNS))
        gradient = jax.grad(lambda x: (reshard(x, COLUMNS) * 2).sum())(x)
    np.testing.assert_array_equal(np.asarray(gradient), np.full_like(ARRAY, 2))


def test_loops_and_branches_have_it_inside(mode):
    mesh, source = mode
    there, back = NamedSharding(mesh, COLUMNS), NamedSharding(mesh, ROWS)

    def body(x, _):
        y = reshard(x, there, source=source(ROWS)) * 2
        return jax.lax.cond(
            True, lambda y: reshard(y, back, source=source(COLUMNS)), lambda y: reshard(y, back), y
        ), None

    program = jax.jit(lambda x: jax.lax.scan(body, x, None, length=3)[0])
    assert_moved(program(put(mesh)), ARRAY * 8, back)
    with jax.set_mesh(mesh):
        gradient = jax.jit(jax.grad(lambda x: program(x).sum()))(put(mesh))
    np.testing.assert_array_equal(np.asarray(gradient), np.full_like(ARRAY, 8))


# --- Programs that are kept.

CACHED = """
    import sys, jax, numpy as np, retile.jax
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    kind = getattr(AxisType, sys.argv[1])
    jax.config.update("jax_compilation_cache_dir", sys.argv[2])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind, kind))
    x = jax.device_put(np.arange(64.0).reshape(8, 8), NamedSharding(mesh, P(("x", "y"))))
    target = NamedSharding(mesh, P("y", "x"))
    y = jax.jit(lambda x: retile.jax.reshard(x + 1, target))(x)
    np.testing.assert_array_equal(np.asarray(y), np.arange(1, 65.0).reshape(8, 8))
"""


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_compiled_programs_are_found_in_the_cache_on_disk(tmp_path, kind):
    kept = []
    for _ in range(2):
        command = [sys.executable, "-c", textwrap.dedent(CACHED), kind, str(tmp_path)]
        subprocess.run(command, check=True, env=os.environ)
        kept.append({path.name for path in tmp_path.iterdir() if path.name.endswith("-cache")})
    assert any("jit__lambda" in name for name in kept[0])
    assert kept[0] == kept[1]


def test_compiled_programs_can_be_serialized(mode):
    mesh, source = mode
    target = NamedSharding(mesh, COLUMNS)
    compiled = jax.jit(lambda x: reshard(x + 1, target, source=source(ROWS))).lower(put(mesh)).compile()
    kept = pickle.dumps(serialize_executable.serialize(compiled))
    assert_moved(serialize_executable.deserialize_and_load(*pickle.loads(kept))(put(mesh)), ARRAY + 1, target)


LOADED = """
    import pickle, sys, jax, numpy as np, retile.jax
    from jax.experimental import serialize_executable
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(getattr(AxisType, sys.argv[1]),) * 2)
    x = jax.device_put(np.arange(64 * 16, dtype=np.float32).reshape(64, 16), NamedSharding(mesh, P(("x", "y"))))
    y = serialize_executable.deserialize_and_load(*pickle.loads(open(sys.argv[2], "rb").read()))(x)
    assert y.sharding.is_equivalent_to(NamedSharding(mesh, P("y", "x")), 2)
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x) + 1)
"""


def test_compiled_programs_are_loaded_by_other_processes(mode, tmp_path):
    mesh, source = mode
    program = jax.jit(lambda x: reshard(x + 1, NamedSharding(mesh, COLUMNS), source=source(ROWS)))
    file = tmp_path / "program"
    file.write_bytes(pickle.dumps(serialize_executable.serialize(program.lower(put(mesh)).compile())))
    command = [sys.executable, "-c", textwrap.dedent(LOADED), mesh.axis_types[0].name, str(file)]
    subprocess.run(command, check=True, env=os.environ)


def test_programs_are_exported_with_their_plans_where_the_source_is_known(mode):
    mesh, source = mode
    target = NamedSharding(mesh, COLUMNS)
    program = jax.jit(lambda x: reshard(x + 1, target, source=source(ROWS)))
    retile._inside_jit._warn_of_export.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exported = [export.export(program)(put(mesh)) for _ in range(2)][1]
    said = [str(one.message) for one in caught if "retile" in str(one.message)]
    is_known = mesh.axis_types[0] == EXPLICIT or source(ROWS) is not None
    assert (
        said == []
        if is_known
        else said
        == [
            "retile.jax.reshard: XLA moves an array of an exported program, since its sharding is not known when it is "
            "exported\nhint: give it as source, or use explicit axes"
        ]
    )
    again = jax.jit(exported.call)
    assert_moved(again(put(mesh)), ARRAY + 1, target)
    assert ("all-to-all" in collectives_of(again, put(mesh))) == (not is_known)


def test_shapes_may_have_symbols(mode):
    mesh, source = mode
    target = NamedSharding(mesh, COLUMNS)
    (n,) = export.symbolic_shape("n")
    program = jax.jit(lambda x: reshard(x + 1, target, source=source(ROWS)))
    shape = jax.ShapeDtypeStruct((8 * n, 16), np.float32, sharding=put(mesh).sharding)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = export.export(program)(shape)
    assert_moved(jax.jit(exported.call)(put(mesh)), ARRAY + 1, target)


# --- Other meshes.

OTHERS = [
    ({"x": 4, "y": 2}, None),
    ({"p": 4, "q": 2}, None),
    ({"x": 2, "y": 4}, [7, 6, 5, 4, 3, 2, 1, 0]),
    ({"p": 2, "q": 2, "r": 2}, [0, 3, 1, 2, 7, 5, 6, 4]),
]


@pytest.mark.parametrize(("sizes", "order"), OTHERS, ids=str)
def test_other_meshes_take_numbers_limits_and_questions(mesh, sizes, order):
    other = mesh_of(sizes, mesh.axis_types[0], order)
    names = list(sizes)
    target, everywhere = NamedSharding(other, P(names[1], names[0])), NamedSharding(other, P())
    assert_moved(reshard(put(mesh), target, memory_limit=10**9), ARRAY, target)
    assert "ENTRY" in lower_text(put(mesh), target)
    tree = {"w": put(mesh), "step": jax.device_put(np.int32(7), NamedSharding(mesh, P())), "scale": jnp.float32(0.5)}
    for limit in (None, 10**9):
        moved = reshard(tree, {"w": target, "step": everywhere, "scale": everywhere}, memory_limit=limit)
        assert_moved(moved["w"], ARRAY, target)
        assert moved["step"].sharding == everywhere and moved["step"] == 7
        assert moved["scale"].sharding == everywhere and moved["scale"] == 0.5


def test_inside_jit_another_mesh_of_the_same_order_works_where_jit_is_told_its_result():
    mesh = mesh_of({"x": 2, "y": 4})
    target = NamedSharding(mesh_of({"x": 4, "y": 2}), COLUMNS)

    def move(x):
        return reshard(x, target, source=NamedSharding(mesh, ROWS))

    assert_moved(jax.jit(move, out_shardings=target)(put(mesh)), ARRAY, target)
    with jax.set_mesh(mesh):
        assert_moved(jax.jit(move, out_shardings=target)(put(mesh)), ARRAY, target)
    explicit = mesh_of({"x": 2, "y": 4}, EXPLICIT)
    target = NamedSharding(mesh_of({"x": 4, "y": 2}, EXPLICIT), COLUMNS)
    assert_moved(jax.jit(lambda x: reshard(x, target))(put(explicit)), ARRAY, target)


def test_axes_may_be_called_by_other_names(mesh):
    x = put(mesh)
    renamed = mesh_of({"a": 2, "b": 4}, mesh.axis_types[0])
    with jax.set_mesh(renamed):
        for move in (reshard, jax.jit(lambda x, spec: reshard(x, spec), static_argnums=1)):
            assert_moved(move(x, P("b", "a")), ARRAY, NamedSharding(renamed, P("b", "a")))


def test_arrays_that_are_closed_over_are_moved(mesh):
    x = put(mesh)
    with jax.set_mesh(mesh):
        moved = jax.jit(lambda: reshard(x, COLUMNS))()
        assert_moved(moved, ARRAY, NamedSharding(mesh, COLUMNS))


# --- Axes of several types.


@pytest.mark.parametrize("spec", [P("y", "x"), P(None, ("x", "y")), P("x"), P()], ids=str)
def test_axes_may_be_of_several_types(spec):
    devices = np.array(jax.devices()).reshape(2, 4)
    mesh = jax.sharding.Mesh(devices, ("x", "y"), axis_types=(EXPLICIT, AUTO))
    x, target = put(mesh, P("x", "y")), NamedSharding(mesh, spec)
    assert_moved(reshard(x, target), ARRAY, target)
    with jax.set_mesh(mesh):
        assert_moved(jax.jit(lambda x: reshard(x, spec))(x), ARRAY, target)
        gradient = jax.jit(jax.grad(lambda x: (reshard(x, spec) ** 2 / 2).sum()))(x)
    np.testing.assert_array_equal(np.asarray(gradient), ARRAY)


def test_types_of_axes_may_change_inside_a_program():
    mesh, target = mesh_of({"x": 2, "y": 4}, EXPLICIT), NamedSharding(mesh_of({"x": 2, "y": 4}, AUTO), COLUMNS)

    def move(x):
        with jax.sharding.use_abstract_mesh(target.mesh.abstract_mesh):
            return reshard(x, COLUMNS)

    with jax.set_mesh(mesh):
        assert_moved(jax.jit(move)(put(mesh)), ARRAY, target)
        assert_moved(jax.jit(lambda x: reshard(x, target))(put(mesh)), ARRAY, target)
        program = jax.jit(move).trace(put(mesh)).jaxpr
        with jax.enable_checks(True):  # step by step, each value is held against its type
            assert_moved(*jaxpr_as_fun(program)(put(mesh)), ARRAY, target)


def test_axes_of_several_types_have_an_order():
    devices = np.array(jax.devices()).reshape(2, 4)
    mesh = jax.sharding.Mesh(devices, ("x", "y"), axis_types=(EXPLICIT, AUTO))
    with jax.set_mesh(mesh):
        assert message_of(jax.jit(lambda x: reshard(x, P(("y", "x")))), put(mesh)) == (
            "the target's P(('y', 'x'),) cuts a dimension along an automatic axis first and an explicit one second"
        )


@pytest.mark.parametrize(
    ("before", "spec", "after"),
    [
        (P("x"), P(P.UNCONSTRAINED, "y"), P("x", "y")),
        (P("x"), P(P.UNCONSTRAINED, "x"), P(None, "x")),
        (P(None, "x"), P(("x", "y"), P.UNCONSTRAINED), P(("x", "y"))),
    ],
    ids=str,
)
def test_open_dimensions_stay_cut_along_explicit_axes(before, spec, after):
    devices = np.array(jax.devices()).reshape(2, 4)
    mesh = jax.sharding.Mesh(devices, ("x", "y"), axis_types=(EXPLICIT, AUTO))
    with jax.set_mesh(mesh):
        for move in (reshard, jax.jit(reshard, static_argnums=1)):
            assert_moved(move(put(mesh, before), spec), ARRAY, NamedSharding(mesh, after))


@pytest.mark.parametrize("spec", [P(None, "y"), P("y"), P(None, None), P()], ids=str)
@pytest.mark.parametrize("with_mesh", [False, True])
def test_it_works_inside_shard_map_over_other_axes(mesh, spec, with_mesh):
    found = []

    def move(tile):
        moved = reshard(tile * 1, NamedSharding(mesh, spec) if with_mesh else spec)
        found.append(jax.typeof(moved).sharding.spec)
        return moved

    program = jax.jit(jax.shard_map(move, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}))
    x = put(mesh, P("x", "y"))
    moved = program(x)
    np.testing.assert_array_equal(np.asarray(moved), ARRAY)
    along = [("x", entry) if number == 0 and entry else entry for number, entry in enumerate((*spec, None, None)[:2])]
    expected = NamedSharding(mesh, P(along[0] or "x", along[1]))
    assert moved.sharding.is_equivalent_to(expected, 2), moved.sharding
    if mesh.axis_types[0] == EXPLICIT:
        assert found[0] == P(*(*spec, None, None)[:2])


def test_axes_that_shard_map_has_taken_are_refused(mesh):
    program = jax.jit(
        jax.shard_map(lambda x: reshard(x, P("x")), mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    )
    assert message_of(program, put(mesh)) == (
        "the target's P('x',) names an axis along which an enclosing shard_map has cut the array"
    )


# --- Sums are left to JAX.


def test_sums_are_added_up_by_jax():
    mesh = mesh_of({"x": 2, "y": 4}, EXPLICIT)
    weights = np.ones((16, 8), np.float32)

    def product(x, weights):
        return jnp.einsum("ij,jk->ik", x, weights, out_sharding=P("x", unreduced={"y"}))

    with jax.set_mesh(mesh):
        x, w = put(mesh, P("x", "y")), put(mesh, P("y"), weights)
        target = NamedSharding(mesh, P("x", "y"))
        assert_moved(jax.jit(lambda x, w: reshard(product(x, w), P("x", "y")))(x, w), ARRAY @ weights, target)
        assert_moved(reshard(jax.jit(product)(x, w), target), ARRAY @ weights, target)
        assert reshard(x, P("x", reduced={"y"})).sharding.spec.reduced == {"y"}


# --- Trees.


def test_inside_jit_it_adds_no_other_operations(mode):
    """Than its own, and constraints on automatic axes."""
    mesh, source = mode
    program = jax.make_jaxpr(lambda x: reshard(x, NamedSharding(mesh, COLUMNS), source=source(ROWS)))(put(mesh))
    names = [equation.primitive.name for equation in program.eqns if equation.primitive.name != "sharding_constraint"]
    assert names in (["retile_reshard"], ["retile_reshard_later"])


def test_a_tree_is_one_program(mesh):
    target = NamedSharding(mesh, COLUMNS)
    tree = {i: put(mesh, ROWS, ARRAY + i) for i in range(16)}
    started = []
    run = retile.jax.run_all
    retile.jax._jitted.cache_clear()
    try:
        retile.jax.run_all = lambda programs, arrays: started.append(len(programs)) or run(programs, arrays)
        moved = reshard(tree, target)
    finally:
        retile.jax.run_all = run
    assert started == [16]
    for number, one in moved.items():
        assert_moved(one, ARRAY + number, target)


def test_many_arrays_are_moved_again_and_again(mesh):
    target = NamedSharding(mesh, COLUMNS)
    tree = [put(mesh, ROWS, ARRAY + i) for i in range(64)]
    for _ in range(3):
        moved = reshard(tree, target)
    for number, one in enumerate(moved):
        assert_moved(one, ARRAY + number, target)


# --- In the place of JAX's own.


def test_it_can_take_the_place_of_jaxs_own(mesh, monkeypatch):
    monkeypatch.setattr(jax.sharding, "reshard", reshard)
    monkeypatch.setattr(jax.lax, "with_sharding_constraint", reshard)
    for spec in (COLUMNS, P("x"), ROWS):
        target = NamedSharding(mesh, spec)
        assert_moved(
            jax.jit(lambda x, t=target: jax.sharding.reshard(x, t, source=source_for(mesh)))(put(mesh)), ARRAY, target
        )
        assert_moved(jax.lax.with_sharding_constraint(put(mesh), target), ARRAY, target)


def test_faults_of_batches_name_the_array():
    mesh = mesh_of({"x": 2, "y": 4})
    by_x = NamedSharding(mesh, P("x"))
    program = jax.vmap(
        lambda x: reshard({"w": x}, by_x, source=NamedSharding(mesh, P(None, "y"))), axis_name="i", spmd_axis_name="x"
    )
    with pytest.raises(
        ValueError, match="spmd_axis_name .*'x'.* cannot appear|x\\['w'\\]: vmap cuts the batch along x"
    ):
        jax.jit(program)(put(mesh, P(None, None, "y"), BATCH))
    columns = NamedSharding(mesh, P(None, "x"))
    limited = jax.vmap(lambda x: reshard([x], columns, source=by_x, memory_limit=9000), spmd_axis_name="y")
    with pytest.raises(retile.MemoryLimitError, match=r"^x\[0\]: a memory limit of 9000 bytes per device is too small"):
        jax.jit(limited)(put(mesh, P("y", "x"), BATCH))


def test_errors_come_from_the_callers_line(mesh):
    target = NamedSharding(mesh, P("x", None, "y"))

    def line_of_the_user(x):
        return reshard({"w": x}, target)

    for program in (jax.jit(line_of_the_user), jax.jit(jax.vmap(line_of_the_user)), jax.grad(line_of_the_user)):
        with pytest.raises(retile.InputError, match=re.escape("x['w']: the target's")) as caught:
            program(put(mesh))
        assert any(entry.name == "line_of_the_user" for entry in caught.traceback)
