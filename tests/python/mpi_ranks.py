"""Arrays of NumPy between ranks of MPI: run by test_mpi.py under mpirun, on four ranks."""

import itertools

import ml_dtypes
import numpy as np
from mpi4py import MPI

import retile

comm = MPI.COMM_WORLD
rank = comm.Get_rank()
MESH = retile.Mesh({"x": 2, "y": 2})


def array_of(shape):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def slice_of(array, layout, device=rank):
    boxes = layout.boxes(device)
    if not boxes:
        return array[tuple(slice(0, length) for length in layout.tile_shape(device))]
    return array[tuple(slice(lo, hi) for lo, hi in zip(*boxes[0], strict=True))]


def every_rank_gets_its_slice():
    axes = [[], ["x"], ["y"], ["y", "x"], ["x", "y"]]
    sides = [(a, b) for a, b in itertools.product(axes, axes) if not set(a) & set(b)]
    for shape, planner in (((8, 12), "wide"), ((8, 12), "direct"), ((5, 7), "direct")):
        array = array_of(shape)
        for source, target in itertools.product(sides, sides):
            source, target = (retile.Layout.cut(MESH, shape, side) for side in (source, target))
            plan = retile.plan(source, target, dtype=array.dtype, planner=planner)
            moved = retile.redistribute(slice_of(array, source), plan, comm=comm)  # a view, as it lies
            np.testing.assert_array_equal(moved, slice_of(array, target))


def strided_targets_are_written_where_they_lie():
    array = array_of((8, 12))
    source, target = (retile.Layout(text, MESH) for text in ("[2{y,x}8, 12]", "[4{x}8, 6{y}12]"))
    memory = np.full((12, 8), -1)
    out = memory[::-2, ::2]
    moved = retile.redistribute(
        slice_of(array, source), retile.plan(source, target, dtype="f64"), out.T[:4, :6], comm=comm
    )
    np.testing.assert_array_equal(moved, slice_of(array, target))
    assert (memory[:, 1::2] == -1).all() and (memory[::2] == -1).all()


def sums_are_added_up():
    source, target = retile.Layout("[8, 12] sum {x}", MESH), retile.Layout("[8, 6{x}12]", MESH)
    array = array_of((8, 12)).astype(float)
    moved = retile.redistribute(array + rank // 2, retile.plan(source, target, dtype=float), comm=comm)
    np.testing.assert_array_equal(moved, slice_of(2 * array + 1, target))


def sums_have_the_bits_of_the_engine():
    """Halves are added as f32 and rounded once; NaN and the signs of zeros are as the engine's."""
    source, target = retile.Layout("[64] sum {y,x}", MESH), retile.Layout("[32{x}64]", MESH)
    numbers = np.random.default_rng(1).normal(size=(4, 64))
    numbers[:, :3] = [[0.0, -0.0, 1], [-0.0, 0.0, np.nan], [0.0, -0.0, 2], [-0.0, 0.0, 3]]
    for dtype in ("float16", "bfloat16", "float32"):
        parts = numbers.astype(getattr(ml_dtypes, dtype, dtype))
        plan = retile.plan(source, target, dtype=parts.dtype)
        moved = retile.redistribute(parts[rank], plan, comm=comm)
        expected = retile.redistribute(list(parts), plan)[rank]
        assert moved.tobytes() == expected.tobytes(), (dtype, moved, expected)


def sums_of_other_elements_are_added_as_what_they_are():
    source, target = retile.Layout("[8] sum {y,x}", MESH), retile.Layout("[4{x}8]", MESH)
    array = np.arange(8) + 2**60
    moved = retile.redistribute(array, retile.plan(source, target, dtype=array.dtype), comm=comm)
    np.testing.assert_array_equal(moved, slice_of(4 * array, target))


def the_callers_communicator_is_used():
    """Two halves at once, each by itself; and a plan of two devices among three ranks."""
    half = comm.Split(rank // 2, rank)
    mesh = retile.Mesh({"x": 2})
    source, target = retile.Layout("[4{x}8, 6]", mesh), retile.Layout("[8, 3{x}6]", mesh)
    plan = retile.plan(source, target, dtype="f64")
    array = array_of((8, 6)) + rank // 2
    moved = retile.redistribute(slice_of(array, source, rank % 2), plan, comm=half)
    np.testing.assert_array_equal(moved, slice_of(array, target, rank % 2))
    tile = slice_of(array_of((8, 6)), source) if rank < 2 else np.empty((0, 0), int)
    moved = retile.redistribute(tile, plan, comm=comm)
    assert moved.shape == (target.tile_shape(rank) if rank < 2 else (0, 0))
    half.Free()


def refusal_of(tile, plan, out):
    try:
        retile.redistribute(tile, plan, out, comm=comm)
    except retile.InputError as error:
        return str(error)
    raise AssertionError("nothing was raised")


def what_one_rank_cannot_do_all_refuse():
    source, target = retile.Layout("[2{y,x}8, 12]", MESH), retile.Layout("[8, 3{y,x}12]", MESH)
    plan = retile.plan(source, target)
    tile = np.zeros((2, 12 if rank != 1 else 11), np.float32 if rank != 2 else np.float64)
    assert refusal_of(tile, plan, np.zeros((8, 3), np.float32)) == (
        "rank 1: the source has shape [2, 11], not [2, 12]\n"
        "rank 2: the target has elements of float32, the source of float64\n"
        "ranks have different elements: <f4, <f8"
    )


def what_cannot_be_moved_as_it_lies_is_refused():
    source, target = retile.Layout("[2{y,x}8, 12]", MESH), retile.Layout("[8, 3{y,x}12]", MESH)
    memory = np.zeros(24)
    tile, out = memory.reshape(2, 12), memory.reshape(8, 3)
    out = [out.copy(), out.copy(), [0], out][rank]
    assert refusal_of(tile if rank != 1 else np.ma.array(tile), retile.plan(source, target), out) == (
        "rank 1: the source is a masked array, whose mask would be lost\n"
        "rank 2: the target is of type list, not an array of NumPy\n"
        "rank 3: the target overlaps the source"
    )


for check in (
    every_rank_gets_its_slice,
    strided_targets_are_written_where_they_lie,
    sums_are_added_up,
    sums_have_the_bits_of_the_engine,
    sums_of_other_elements_are_added_as_what_they_are,
    the_callers_communicator_is_used,
    what_one_rank_cannot_do_all_refuse,
    what_cannot_be_moved_as_it_lies_is_refused,
):
    check()
    if rank == 0:
        print(check.__name__, flush=True)
