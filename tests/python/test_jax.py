"""Arrays of JAX, moved by plans: on eight devices, against what XLA's own reshard gives."""

import doctest
import math
import pickle
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from problems import small_shape

import retile
import retile.jax
from retile._programs import Movement, Program, plan_for
from retile.jax import explain, lower_text, plan_of, reshard


def mesh_of(sizes, kind=AxisType.Auto, order=None):
    devices = np.array(jax.devices())[: math.prod(sizes.values())]
    devices = devices if order is None else devices[order]
    return Mesh(devices.reshape(tuple(sizes.values())), tuple(sizes), axis_types=(kind,) * len(sizes))


def assert_moved(moved, array, sharding):
    """The array's values in each device's own slice, bit by bit."""
    assert moved.sharding.is_equivalent_to(sharding, array.ndim) and moved.dtype == array.dtype
    for shard in moved.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data).view(np.uint8), array[shard.index].view(np.uint8))


def movement_of(problem):
    mesh = mesh_of(problem["mesh"])
    source, target = (
        NamedSharding(mesh, P(*(tuple(reversed(axes)) or None for axes in problem[side]))) for side in ("src", "dst")
    )
    return source, target, small_shape(problem)


ROWS, COLUMNS = P(("x", "y")), P("y", "x")
ARRAY = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)


@pytest.fixture(params=[AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
def mesh(request):
    return mesh_of({"x": 2, "y": 4}, request.param)


def source_for(mesh):
    """What `reshard` has to be told inside jit: nothing where axes are explicit."""
    return None if mesh.axis_types[0] == AxisType.Explicit else NamedSharding(mesh, ROWS)


def put(mesh, spec=ROWS, array=ARRAY):
    return jax.device_put(array, NamedSharding(mesh, spec))


MACHINE = retile.Machine.from_file(Path(__file__).parents[2] / "examples/machines/gigabit-4.json")


def test_plans_are_made_for_machines(mesh):
    x, target = put(mesh), NamedSharding(mesh, COLUMNS)
    assert plan_of(x, target, machine=MACHINE).cost_model == "seconds"
    assert "on four hosts on gigabit Ethernet" in explain(x, target, machine=MACHINE)
    assert_moved(reshard(x, target, machine=MACHINE), ARRAY, target)
    inside = jax.jit(lambda x: reshard(x, target, source=source_for(mesh), machine=MACHINE))
    assert_moved(inside(x), ARRAY, target)
    two = retile.Machine({"hosts": [[0, 1]], "inside": {"rate": 1}})
    assert "the machine has 2 devices, and the problem 8" in message_of(reshard, x, target, machine=two)
    assert message_of(reshard, x, target, machine="fast") == "machine is a retile.Machine or None, not 'fast'"


def test_machines_need_a_source_that_is_known():
    mesh = mesh_of({"x": 2, "y": 4})
    moved = jax.jit(lambda x: reshard(x, NamedSharding(mesh, COLUMNS), machine=MACHINE))
    assert message_of(moved, put(mesh)).startswith("no plan can be made for a machine, since XLA moves this array: ")


def test_examples_in_docstrings_run():
    results = doctest.testmod(retile.jax)
    assert results.attempted and not results.failed


# --- The same bits as XLA's own, by every form.


@pytest.mark.parametrize("form", ["collectives", "fast", "lean"])
def test_forms_give_xlas_bits(problem, form):
    source, target, shape = movement_of(problem)
    array = np.random.default_rng(1).integers(0, 2**32, shape, np.uint32).view(np.float32)
    x = jax.device_put(array, source)
    movement = retile.jax._movement(x, target)
    assert_moved(Program(movement, form, plan_for(movement)).compiled(x), array, target)
    # XLA aborts on a few of these itself, so its bits are those of the array's slices.


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "bfloat16", "float16", "int32", "uint32", "complex64", "float8_e4m3fn"]
)
def test_elements_of_all_types_are_moved(dtype):
    mesh = mesh_of({"x": 2, "y": 4})
    array = np.asarray(jnp.asarray(ARRAY % 3).astype(dtype))
    x, target = put(mesh, ROWS, array), NamedSharding(mesh, COLUMNS)
    assert_moved(reshard(x, target), array, target)
    movement = retile.jax._movement(x, target)
    assert_moved(Program(movement, "lean", plan_for(movement)).compiled(x), array, target)


# --- Where it can be called.


def test_it_moves_inside_jit(mesh):
    target = NamedSharding(mesh, COLUMNS)
    program = jax.jit(lambda x: reshard(x + 1, target, source=source_for(mesh)) * 2)
    assert_moved(program(put(mesh)), (ARRAY + 1) * 2, target)
    # by rounds of the plan: XLA's own takes an all-to-all
    text = program.lower(put(mesh)).compile().as_text()
    assert "collective-permute" in text and "all-to-all" not in text


def test_in_jit_the_plan_is_made_when_xla_has_chosen_the_source():
    mesh = mesh_of({"x": 2, "y": 4})
    target = NamedSharding(mesh, COLUMNS)
    program = jax.jit(lambda x: reshard(x + 1, target) * 2)
    assert_moved(program(put(mesh)), (ARRAY + 1) * 2, target)
    text = program.lower(put(mesh)).compile().as_text()
    assert "collective-permute" in text and "all-to-all" not in text
    for spec in (P(), P("x"), P(None, ("y", "x"))):
        assert_moved(program(put(mesh, spec)), (ARRAY + 1) * 2, target)
    gradient = jax.jit(jax.grad(lambda x: (reshard(x, target) ** 2).sum()))(put(mesh))
    np.testing.assert_array_equal(np.asarray(gradient), 2 * ARRAY)
    batch = jax.device_put(np.stack([ARRAY, ARRAY + 1]), NamedSharding(mesh, P(None, "x")))
    moved = jax.jit(jax.vmap(lambda x: reshard(x, target)))(batch)
    assert_moved(moved, np.asarray(batch), NamedSharding(mesh, P(None, *COLUMNS)))


def test_gradients_take_the_way_back(mesh):
    source, target = NamedSharding(mesh, ROWS), NamedSharding(mesh, COLUMNS)
    weights = put(mesh, COLUMNS, ARRAY * 3)

    def loss(x, weights):
        return (reshard(x, target, source=source_for(mesh)) * weights).sum()

    with jax.set_mesh(mesh):
        assert_moved(jax.jit(jax.grad(loss))(put(mesh), weights), ARRAY * 3, source)
        eager = jax.grad(loss)(put(mesh), weights)
    np.testing.assert_array_equal(np.asarray(eager), ARRAY * 3)


@pytest.mark.parametrize("spec", [P(), P("x"), P(None, "y")])
def test_gradients_of_replicated_arrays_are_neither_summed_nor_divided(spec):
    mesh = mesh_of({"x": 2, "y": 4})
    source, target = NamedSharding(mesh, spec), NamedSharding(mesh, P("y"))

    def loss(x, weights):
        return (reshard(x, target, source=source) * weights).sum()

    gradient = jax.jit(jax.grad(loss))(put(mesh, spec), put(mesh, P("y"), ARRAY * 3))
    assert_moved(gradient, ARRAY * 3, source)


def test_batches_are_moved_as_one(mesh):
    target = NamedSharding(mesh, COLUMNS)
    batch = np.stack([ARRAY, ARRAY + 1, ARRAY + 2])
    x = jax.device_put(batch, NamedSharding(mesh, P(None, *ROWS)))
    moved = jax.jit(jax.vmap(lambda x: reshard(x, target, source=source_for(mesh))))(x)
    assert_moved(moved, batch, NamedSharding(mesh, P(None, *COLUMNS)))


def test_specs_are_enough_where_a_mesh_is_set(mesh):
    with jax.set_mesh(mesh):
        assert_moved(reshard(put(mesh), COLUMNS), ARRAY, NamedSharding(mesh, COLUMNS))
        for source in (source_for(mesh), ROWS):
            moved = jax.jit(lambda x, s=source: reshard(x, COLUMNS, source=s, memory_limit=10**9))(put(mesh))
            assert_moved(moved, ARRAY, NamedSharding(mesh, COLUMNS))


@pytest.mark.filterwarnings("ignore:.with mesh:DeprecationWarning")
def test_specs_are_enough_where_a_mesh_is_entered():
    mesh = mesh_of({"x": 2, "y": 4})
    with mesh:
        for move in (reshard, jax.jit(reshard, static_argnums=1)):
            assert_moved(move(put(mesh), COLUMNS), ARRAY, NamedSharding(mesh, COLUMNS))


def test_meshes_without_devices_get_those_of_the_array_or_the_set_mesh(mesh):
    renamed = mesh_of({"a": 2, "b": 4}, mesh.axis_types[0])
    target = NamedSharding(renamed.abstract_mesh, P("b", "a"))
    assert_moved(reshard(put(mesh), target), ARRAY, NamedSharding(renamed, P("b", "a")))
    assert message_of(reshard, ARRAY, target) == (
        "the target's mesh (('a', 2), ('b', 4)) names no devices\nhint: give a mesh of devices"
    )
    with jax.set_mesh(mesh):
        assert_moved(reshard(ARRAY, target), ARRAY, NamedSharding(renamed, P("b", "a")))


def test_there_may_be_one_device(mesh):
    target = NamedSharding(mesh_of({"x": 1}, mesh.axis_types[0]), P("x"))
    for x in (put(target.mesh, P()), jnp.asarray(ARRAY)):
        assert_moved(jax.jit(lambda x: reshard(x, target))(x), ARRAY, target)


def test_trees_are_moved_with_one_sharding_or_many(mesh):
    rows, columns = NamedSharding(mesh, ROWS), NamedSharding(mesh, COLUMNS)
    tree = {"a": put(mesh), "b": [put(mesh), put(mesh)]}
    for leaf in jax.tree.leaves(reshard(tree, columns)):
        assert_moved(leaf, ARRAY, columns)
    moved = reshard(tree, {"a": columns, "b": rows})
    assert_moved(moved["a"], ARRAY, columns)
    assert_moved(moved["b"][1], ARRAY, rows)


def test_what_has_no_sharding_to_go_to_is_left_alone(mesh):
    columns = NamedSharding(mesh, COLUMNS)
    moved = reshard({"a": put(mesh), "b": None, "c": [put(mesh), None]}, {"a": columns, "b": columns, "c": None})
    assert_moved(moved["a"], ARRAY, columns)
    assert moved["b"] is None and moved["c"][1] is None
    assert_moved(moved["c"][0], ARRAY, NamedSharding(mesh, ROWS))
    assert_moved(reshard({"a": put(mesh), "b": None}, columns)["a"], ARRAY, columns)


@pytest.mark.parametrize("spec", [P(("x", "y")), P(("x", "y"), None), P("y"), P("y", None), P(), P(None, "x")])
def test_results_have_the_very_sharding_asked_for(mesh, spec):
    target = NamedSharding(mesh, spec)
    assert reshard(put(mesh, COLUMNS), target).sharding == target
    other = NamedSharding(mesh_of({"x": 4, "y": 2}, mesh.axis_types[0]), spec)
    assert reshard(put(mesh, COLUMNS), other).sharding == other


def test_results_are_in_the_memory_asked_for(mesh):
    source, target = NamedSharding(mesh, ROWS), NamedSharding(mesh, COLUMNS)
    in_host_memory = target.with_memory_kind("pinned_host")
    for move in (
        reshard,
        jax.jit(lambda x, target: reshard(x, target), static_argnums=1),
        jax.jit(lambda x, target: reshard(x, target, source=source), static_argnums=1),
    ):
        host = move(put(mesh), in_host_memory)
        assert_moved(host, ARRAY, in_host_memory)
        assert host.sharding.memory_kind == "pinned_host"
        back = move(jax.device_put(ARRAY, source.with_memory_kind("pinned_host")), target)
        assert_moved(back, ARRAY, target)
        assert back.sharding.memory_kind == target.memory_kind
    abstract = NamedSharding(mesh.abstract_mesh, COLUMNS, memory_kind="pinned_host")
    assert reshard(put(mesh), abstract).sharding == in_host_memory


def test_random_keys_are_moved(mesh):
    keys = jax.random.split(jax.random.key(7), (8, 8))
    source, target = NamedSharding(mesh, ROWS), NamedSharding(mesh, COLUMNS)
    for move in (
        lambda x: reshard(x, target),
        jax.jit(lambda x: reshard(x, target)),
        jax.jit(lambda x: reshard(x, target, source=source)),
    ):
        moved = move(jax.device_put(keys, source))
        assert moved.sharding.is_equivalent_to(target, 2)
        np.testing.assert_array_equal(jax.random.key_data(moved), jax.random.key_data(keys))


@pytest.mark.parametrize("order", [range(8), range(7, -1, -1), [0, 3, 1, 2, 7, 5, 6, 4]], ids=str)
def test_meshes_may_differ(mesh, order):
    other = mesh_of({"p": 4, "q": 2}, mesh.axis_types[0], list(order))
    target = NamedSharding(other, P(None, ("q", "p")))
    assert_moved(reshard(put(mesh), target), ARRAY, target)
    with jax.set_mesh(other):
        assert_moved(reshard(put(mesh), target.spec), ARRAY, target)


def test_meshes_of_one_order_may_differ_inside_jit():
    mesh, other = mesh_of({"x": 2, "y": 4}), mesh_of({"p": 8})
    target = NamedSharding(other, P(None, "p"))
    moved = jax.jit(lambda x: reshard(x, target, source=NamedSharding(mesh, ROWS)))(put(mesh))
    assert_moved(moved, ARRAY, target)


def test_xla_changes_meshes_inside_jit_where_no_source_is_given():
    target = NamedSharding(mesh_of({"p": 4, "q": 2}), P(None, ("p", "q")))
    moved = jax.jit(lambda x: reshard(x + 1, target))(put(mesh_of({"x": 2, "y": 4})))
    assert_moved(moved, ARRAY + 1, target)


def test_arrays_without_named_shardings_go_by_device_put(mesh):
    target = NamedSharding(mesh, COLUMNS)
    for x in (ARRAY, jnp.asarray(ARRAY)):
        assert_moved(reshard(x, target), ARRAY, target)
    everywhere = NamedSharding(mesh, P())
    for moved, number in zip(reshard([3.0, 2], everywhere), [3.0, 2], strict=True):
        assert moved.sharding == everywhere and moved == number


def test_arrays_without_elements_are_moved(mesh):
    empty = np.zeros((8, 0), np.float32)
    for before, after in ((P(), P()), (P(), P("y")), (P("x"), P())):
        target = NamedSharding(mesh, after)
        assert reshard(put(mesh, before, empty), target).sharding == target
        assert jax.jit(reshard, static_argnums=1)(put(mesh, before, empty), target).shape == empty.shape


def test_elements_without_bytes_are_left_alone(mesh):
    gradient = jax.grad(lambda x: jnp.sum(x * 1.0), allow_int=True)(jnp.arange(8))  # of type float0
    tree = {"step": gradient, "w": put(mesh)}
    moved = reshard(tree, NamedSharding(mesh, P("x")))
    assert moved["step"].dtype == jax.dtypes.float0 and moved["step"].shape == (8,)
    assert_moved(moved["w"], ARRAY, NamedSharding(mesh, P("x")))


def test_xla_chooses_what_a_target_leaves_open():
    mesh = mesh_of({"x": 2, "y": 4})
    target = NamedSharding(mesh, P(P.UNCONSTRAINED, "x"))
    assert reshard(ARRAY, target).sharding.spec[1] == "x"
    inside = (jax.jit(lambda x, s=source: reshard(x, target, source=s)) for source in (None, NamedSharding(mesh, ROWS)))
    for move in (lambda x: reshard(x, target), *inside):
        moved = move(put(mesh))
        assert moved.sharding.spec[1] == "x"
        np.testing.assert_array_equal(np.asarray(moved), ARRAY)


def test_donated_arrays_are_given_up(mesh):
    x = put(mesh)
    reshard(x, NamedSharding(mesh, COLUMNS), donate=True)
    assert x.is_deleted()


# --- What it says.


def test_plans_can_be_seen_before_they_run():
    mesh = mesh_of({"x": 2, "y": 4})
    x, target = put(mesh), NamedSharding(mesh, COLUMNS)
    plan = plan_of(x, target)
    assert [step.op for step in plan.steps] == ["exchange"] and plan.verify() == []
    assert pickle.loads(pickle.dumps(plan)) == plan
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
    assert plan_of(shape, target) is plan
    assert explain(x, target).endswith("// moved by these steps, in the collectives form: 2 ppermute\n")
    large = jax.ShapeDtypeStruct((2048, 512), x.dtype, sharding=x.sharding)
    assert explain(large, target).endswith(
        "// moved by these steps, in the fast form: 2 ppermute\n"
        "// inside jit by these steps, in the collectives form: 2 ppermute\n"
    )
    assert "collective-permute" in lower_text(x, target)


def test_plans_are_explained_in_specs_and_bytes():
    mesh = mesh_of({"x": 2, "y": 4})
    assert explain(put(mesh), NamedSharding(mesh, P(None, "y"))) == (
        "mesh {x: 2, y: 4}  // planner wide\n"
        "  [8{y,x}64, 16]     // 128 elements per device, P(('x', 'y'),)\n"
        "    -> alltoall(0 -> 1; 4)  // cost 128\n"
        "  [32{x}64, 4{y}16]  // 128, P('x', 'y')\n"
        "    -> allgather(0; 2)  // cost 256\n"
        "  [64, 4{y}16]       // 256, P(None, 'y')\n"
        "// cost 384 (paper, optimal over wide plans), floor 224\n"
        "// largest tile 256 elements per device, no more than the larger of source and target\n"
        "// each device sends, and receives, at most 896 bytes\n"
        "// moved by these steps, in the collectives form: all_to_all, all_gather\n"
        "// XLA's own reshard makes the whole array on every device (involuntary full rematerialization)\n"
    )
    other = NamedSharding(mesh_of({"p": 4, "q": 2}), P(None, ("q", "p")))
    assert "  [16{y:(1)2,x}64, 8{y:(2)2}16]  // 128\n" in explain(put(mesh, P("x")), other)  # no PartitionSpec has it


def test_plans_and_warnings_may_be_in_one_stream():
    mesh = mesh_of({"a": 4, "b": 2})
    shape = jax.ShapeDtypeStruct((16, 16, 16), np.float32, sharding=NamedSharding(mesh, P("b", None, "a")))
    log = explain(shape, NamedSharding(mesh, P(None, ("a", "b")))) + (
        "[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {devices=[2,1,4]<=[4,2]T(1,0)} "
        "to {devices=[1,8,1]<=[8]} efficiently for HLO operation %copy.1 = f32[8,16,4]{2,1,0} copy(%x)\n"
    )
    command = [sys.executable, "-m", "retile", "explain", "-"]
    result = subprocess.run(command, input=log, capture_output=True, text=True, check=False)
    assert result.returncode == 0 and "names no shardings" not in result.stdout + result.stderr, result.stderr
    assert len(retile.explain(log)) == 1


def test_it_says_where_xla_would_make_the_whole_array():
    mesh = mesh_of({"a": 4, "b": 2})
    x = jax.device_put(np.zeros((16, 16, 16), np.float32), NamedSharding(mesh, P("b", None, "a")))  # of a public report
    line = "// XLA's own reshard makes the whole array on every device (involuntary full rematerialization)\n"
    assert explain(x, NamedSharding(mesh, P(None, ("a", "b")))).endswith(line)
    assert line not in explain(x, NamedSharding(mesh, P("b")))


def test_programs_say_what_devices_receive():
    mesh = mesh_of({"x": 2, "y": 4})
    tile = ARRAY.size // 8
    exchange = retile.jax._movement(put(mesh), NamedSharding(mesh, COLUMNS))
    assert Program(exchange, "fast", plan_for(exchange)).tensors.received == tile  # device 1 keeps nothing
    gather = retile.jax._movement(put(mesh), NamedSharding(mesh, P()))
    assert Program(gather, "collectives", plan_for(gather)).tensors.received == 7 * tile


@pytest.mark.parametrize(
    ("shape", "form"),
    [((32768, 64), "fast"), ((32768, 60), "collectives"), ((8192, 16, 8), "fast"), ((65536, 4, 8), "collectives")],
)
def test_collectives_stay_where_runs_are_short(shape, form):
    """Runs of 64, 60, 128 and 32 bytes."""
    mesh = mesh_of({"x": 2, "y": 4})
    x = jax.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, P("y")))
    assert f"// moved by these steps, in the {form} form: " in explain(x, NamedSharding(mesh, P(None, "y")))


@pytest.mark.parametrize("target", [ROWS, P(("y", "x")), P("x"), P("y")])
def test_what_xla_does_as_well_is_left_to_it(target):
    mesh = mesh_of({"x": 2, "y": 4})
    x = put(mesh, P() if target == P("y") else ROWS)
    assert explain(x, NamedSharding(mesh, target)).endswith("// moved by XLA's own reshard\n")


@pytest.mark.parametrize(
    ("form", "collectives", "moved_by"),
    [
        ("collectives", {"all-to-all"}, "these steps, in the collectives form: all_to_all"),
        ("fast", {"collective-permute"}, "these steps, in the fast form: 3 ppermute"),
        ("lean", {"collective-permute"}, "these steps, in the lean form: 6 ppermute"),
        ("xla", {"all-to-all"}, "XLA's own reshard"),
    ],
)
def test_a_form_can_be_chosen_by_hand(mesh, form, collectives, moved_by):
    x, target = put(mesh, P("y")), NamedSharding(mesh, P(None, "y"))
    assert_moved(reshard(x, target, form=form), ARRAY, target)
    source = None if source_for(mesh) is None else x.sharding
    program = jax.jit(lambda x: reshard(x, target, source=source, form=form))
    assert_moved(program(x), ARRAY, target)
    for text in (program.lower(x).compile().as_text(), lower_text(x, target, form=form)):
        assert {one for one in ("all-to-all", "collective-permute", "all-gather") if one in text} == collectives
    assert explain(x, target, form=form).endswith(f"// moved by {moved_by}\n")


@pytest.mark.parametrize(
    ("before", "after", "alone", "inside", "collective"),
    [
        (P(None, "y"), P(), "3 ppermute", "XLA's own reshard", "all-gather"),
        (P("y"), P(None, "y"), "3 ppermute", "XLA's own reshard", "all-to-all"),
        (P("x", "y"), P(None, ("y", "x")), "ppermute", "XLA's own reshard", "all-to-all"),
    ],
)
def test_collectives_stay_inside_jit(mesh, before, after, alone, inside, collective):
    """Where XLA has operations around them write the order in memory that they need, and rounds would wait for each other."""
    target, array = NamedSharding(mesh, after), np.zeros((2048, 1024), np.float32)
    x = jax.device_put(array, NamedSharding(mesh, before))
    alone = f"these steps, in the fast form: {alone}"
    assert explain(x, target).endswith(f"// moved by {alone}\n// inside jit by {inside}\n")
    assert "collective-permute" in lower_text(x, target)
    source = None if source_for(mesh) is None else x.sharding
    text = jax.jit(lambda x: reshard(x * 2, target, source=source) + 1).lower(x).compile().as_text()
    assert collective in text and "collective-permute" not in text
    if source is None:  # there, what is explained is what runs there
        told = []
        jax.jit(lambda x: told.append(explain(x, target)) or x).lower(x)
        assert inside in told[0] and alone not in told[0]


def test_forms_that_are_none_are_refused():
    mesh = mesh_of({"x": 2, "y": 4})
    target = NamedSharding(mesh, COLUMNS)
    assert message_of(reshard, put(mesh), target, form="quick") == (
        "form is 'quick'\nhint: one of: collectives, fast, lean, xla"
    )
    assert message_of(reshard, ARRAY, target, form="fast") == (
        "no form can be chosen, since XLA moves this array: it has no NamedSharding"
    )


def test_the_compiler_is_not_asked_what_it_would_do(capfd):
    mesh = mesh_of({"a": 4, "b": 2})
    source, target = NamedSharding(mesh, P("b", None, "a")), NamedSharding(mesh, P(None, ("a", "b")))  # of a report
    x = jax.device_put(np.zeros((16, 16, 16), np.float32), source)
    reshard(x, target)
    explain(x, target)
    assert "ematerialization" not in capfd.readouterr().err
    jax.jit(lambda x: jax.lax.with_sharding_constraint(x + 1, target)).lower(x).compile()
    assert "ematerialization" in capfd.readouterr().err


def test_memory_limits_choose_the_form():
    mesh = mesh_of({"x": 2, "y": 4})
    x, target = put(mesh, ROWS, np.tile(ARRAY, (32, 32))), NamedSharding(mesh, COLUMNS)
    movement = retile.jax._movement(x, target)
    fast, lean = (Program(movement, form, plan_for(movement)).bytes for form in ("fast", "lean"))
    assert lean < fast
    assert "in the fast form" in explain(x, target, memory_limit=fast)
    assert "in the lean form" in explain(x, target, memory_limit=fast - 1)
    assert_moved(reshard(x, target, memory_limit=lean), np.tile(ARRAY, (32, 32)), target)
    with pytest.raises(retile.MemoryLimitError) as caught:
        reshard(x, target, memory_limit=1000)
    smallest = int(re.fullmatch(
        "a memory limit of 1000 bytes per device is too small\nhint: the smallest limit that works is (.*) bytes",
        str(caught.value),
    )[1])  # fmt: skip
    assert smallest <= lean and explain(x, target, memory_limit=smallest)


def test_the_lean_form_holds_a_part_of_a_tile_however_much_stays():
    mesh = mesh_of({"x": 2, "y": 2})
    shape = (28, 25, 25, 116)  # half of each tile stays on its device, in seven rows
    movement = Movement(
        NamedSharding(mesh, P(("x", "y"))), NamedSharding(mesh, P("x", None, None, "y")), shape, np.dtype(np.float32)
    )
    tile = math.prod(shape)  # bytes, of four devices
    assert Program(movement, "lean", plan_for(movement)).temporaries < tile / 4


# --- Bad input: everything is said at once, before anything moves.


def message_of(function, *arguments, **keywords):
    with pytest.raises(retile.InputError) as caught:
        function(*arguments, **keywords)
    return str(caught.value)


def test_every_fault_of_every_array_is_named():
    mesh = mesh_of({"x": 2, "y": 4})
    few = NamedSharding(mesh_of({"x": 2, "y": 2}), P("x", None, "y"))
    devices = [str(device) for device in jax.devices()]
    faults = (
        "the target's P('x', None, 'y') names 3 dimensions of an array of 2\n"
        f"source and target are on different devices: {devices} and {devices[:4]} (retile.jax.Transfer moves arrays there)"
    )
    assert message_of(reshard, put(mesh), few) == faults
    assert message_of(reshard, [put(mesh), put(mesh)], few) == f"x[0]: {faults}\nx[1]: {faults}"
    assert message_of(reshard, {"layers": [{"w": put(mesh)}]}, few) == f"x['layers'][0]['w']: {faults}"


def test_shardings_that_are_none_are_refused():
    x = put(mesh_of({"x": 2, "y": 4}))
    assert message_of(reshard, x, P("x")) == (
        "P('x',) needs a mesh\nhint: with jax.set_mesh(mesh): …, or give a NamedSharding"
    )
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    assert message_of(reshard, x, device, source="rows") == (
        "sharding: SingleDeviceSharding is no NamedSharding and no PartitionSpec\n"
        "source: str is no NamedSharding and no PartitionSpec"
    )
    assert message_of(plan_of, jnp.zeros(8), x.sharding) == "there is no plan for this array: it has no NamedSharding"


def test_shardings_that_leave_something_open_are_refused():
    mesh, explicit = (mesh_of({"x": 2, "y": 4}, kind) for kind in (AxisType.Auto, AxisType.Explicit))
    unconstrained = NamedSharding(mesh, P("x", P.UNCONSTRAINED))
    assert message_of(jax.jit(lambda x: reshard(x, NamedSharding(mesh, P()), source=unconstrained)), put(mesh)) == (
        "the source's P('x', UNCONSTRAINED) leaves a dimension open: only a target may"
    )
    summed = NamedSharding(explicit, P(unreduced={"x"}))
    assert message_of(reshard, put(explicit), summed, memory_limit=10**9) == (
        f"a memory limit cannot be kept, since XLA moves this array: {summed.spec} speaks of sums"
    )
    assert message_of(retile.Layout.from_sharding, summed, (8, 8)) == f"{summed.spec} leaves a sum open"


def test_what_is_no_array_is_refused():
    target = NamedSharding(mesh_of({"x": 2, "y": 4}), P())
    assert message_of(plan_of, {"a": ARRAY}, target) == "dict is no array"
    assert message_of(reshard, ["a", object()], target) == "x[0]: str is no array\nx[1]: object is no array"


def test_trees_that_do_not_lie_above_the_arrays_are_refused():
    target = NamedSharding(mesh_of({"x": 2, "y": 4}), P())
    for what, given in (("sharding", {"sharding": [target]}), ("source", {"sharding": target, "source": [target]})):
        text = message_of(reshard, {"a": [ARRAY, ARRAY]}, **{key: {"a": value} for key, value in given.items()})
        assert text.startswith(f"{what} is no tree above x: ") and f"\n    {what}['a']\n" in text, text


def test_memory_limits_are_refused_where_they_cannot_be_kept():
    mesh = mesh_of({"x": 2, "y": 4})
    source, target = NamedSharding(mesh, ROWS), NamedSharding(mesh, COLUMNS)
    fault = "a memory limit cannot be kept, since XLA moves this array: "
    host = jax.device_put(ARRAY, source.with_memory_kind("pinned_host"))
    keys = jax.device_put(jax.random.split(jax.random.key(7), (8, 8)), source)
    assert message_of(reshard, [ARRAY, jnp.asarray(ARRAY), host, keys], target, memory_limit=10**9) == (
        f"x[0]: {fault}it has no NamedSharding\n"
        f"x[1]: {fault}it has no NamedSharding\n"
        f"x[2]: {fault}it is in the host's memory\n"
        f"x[3]: {fault}its elements are key<fry>"
    )

    def in_jit(x, target=target, **keywords):
        return message_of(jax.jit(lambda x: reshard(x, target, memory_limit=10**9, **keywords)), x)

    assert in_jit(put(mesh)) == f"{fault}inside jit its sharding is not known\nhint: give it as source"
    assert in_jit(jnp.ones((7, 5)), source=source) == f"{fault}(7, 5) is not cut evenly"
    unconstrained = NamedSharding(mesh, P(P.UNCONSTRAINED))
    assert in_jit(put(mesh), unconstrained, source=source) == f"{fault}P(UNCONSTRAINED,) leaves a dimension open"


def test_memory_limits_are_numbers_of_bytes(mesh):
    x, target = put(mesh), NamedSharding(mesh, COLUMNS)
    for function in (reshard, plan_of):
        for limit in ("1GB", True, -1, 1.5):
            assert message_of(function, x, target, memory_limit=limit) == (
                f"memory_limit is {limit!r}, no whole number of bytes"
            )


def test_a_memory_limit_is_for_all_arrays_of_a_tree(mesh):
    tree, target = [put(mesh), put(mesh, ROWS, np.tile(ARRAY, (2, 1)))], NamedSharding(mesh, COLUMNS)
    held = 2 * 3 * ARRAY.nbytes // 8  # both sources and both targets
    with pytest.raises(retile.MemoryLimitError) as caught:
        reshard(tree, target, memory_limit=held, donate=True)
    assert not tree[0].is_deleted()  # before anything moves
    enough = int(re.fullmatch(
        f"a memory limit of {held} bytes per device is too small\nhint: (.*) bytes are enough", str(caught.value)
    )[1])  # fmt: skip
    assert held < enough <= held + ARRAY.nbytes
    for move in (reshard, jax.jit(reshard, static_argnames=("sharding", "source", "memory_limit"))):
        source = None if move is reshard else source_for(mesh)
        assert_moved(move(tree, sharding=target, source=source, memory_limit=enough)[0], ARRAY, target)
        with pytest.raises(retile.MemoryLimitError):
            move(tree, sharding=target, source=source, memory_limit=enough - 1)


def test_a_memory_limit_is_for_one_mesh():
    tree = [put(mesh_of({"x": 2, "y": 4})), put(mesh_of({"x": 4, "y": 2}))]
    assert message_of(reshard, tree, NamedSharding(mesh_of({"p": 8}), P("p")), memory_limit=10**9) == (
        "a memory limit is for arrays that start on one mesh, and these start on several"
    )


def test_jit_refuses_what_one_program_cannot_do(mesh):
    backwards = NamedSharding(mesh_of({"x": 2, "y": 4}, mesh.axis_types[0], [7, 6, 5, 4, 3, 2, 1, 0]), COLUMNS)
    source = NamedSharding(mesh, ROWS)
    assert message_of(jax.jit(lambda x: reshard(x, backwards, source=source)), put(mesh)) == (
        "inside jit, both meshes must list their devices in the same order"
    )
