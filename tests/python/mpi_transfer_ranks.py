"""Whole models between ranks of MPI: run by test_mpi.py under mpirun, on four ranks."""

import numpy as np
from mpi4py import MPI

import retile
from retile import _retile

comm = MPI.COMM_WORLD
rank = comm.Get_rank()


def arrays():
    generator = np.random.default_rng(5)
    return {f"layers.{i}": generator.normal(size=(12 + i, 10)).astype(np.float32) for i in range(6)}


def rows_become_columns():
    t = retile.Transfer(comm, max_bytes=500, verify="crc32")
    mesh = retile.Mesh({"x": 2})
    targets = {}
    for name, array in arrays().items():
        if rank < 2:
            layout = retile.Layout.cut(mesh, array.shape, [["x"], []])
            (lo, hi), *_ = layout.boxes(rank)
            t.add_source(name, array[lo[0] : hi[0]], layout, dtype=np.float16)
        else:
            targets[name] = np.zeros((5, array.shape[0]), np.float16).T
            t.add_target(name, targets[name], box=((0, array.shape[0]), (5 * (rank - 2), 5 * (rank - 1))))
    plan = t.commit()
    assert plan.rounds > 1
    for _ in range(2):
        work = t.start()
        work.wait()
        assert work.report.staged_bytes <= 500
        for name, target in targets.items():
            expected = arrays()[name][:, 5 * (rank - 2) : 5 * (rank - 1)].astype(np.float16)
            np.testing.assert_array_equal(target, expected)
            target[...] = 0


def ranks_read_each_others_memory():
    array = np.arange(512 * 512, dtype=np.float32).reshape(512, 512)
    mesh = retile.Mesh({"x": 4})
    for transport in ("auto", "messages"):
        t = retile.Transfer(comm, transport=transport)
        layout = retile.Layout.cut(mesh, array.shape, [["x"], []])
        target = np.zeros((512, 128), np.float32)
        t.add_source("w", array[128 * rank : 128 * (rank + 1)].copy(), layout)
        t.add_target("w", target, retile.Layout.cut(mesh, array.shape, [[], ["x"]]))
        t.commit()
        for _ in range(2):
            target[...] = 0
            work = t.start()
            work.wait()
            np.testing.assert_array_equal(target, array[:, 128 * rank : 128 * (rank + 1)])
        assert work.report.received_bytes == 3 * 128 * 128 * 4
        can_read = _retile.can_read(*comm.allgather(_retile.process_mark())[rank - 1])
        is_read = transport == "auto" and comm.allreduce(can_read, MPI.LAND)
        assert work.report.read_bytes == (work.report.received_bytes if is_read else 0)


def what_is_wrong_is_told_on_all_ranks():
    t = retile.Transfer(comm)
    (t.add_target if rank else t.add_source)("w", np.zeros(3 if rank != 2 else 4))
    try:
        t.commit()
    except retile.InputError as error:
        assert str(error) == '"w": ranks say that it has different shapes: [3] on rank 0, [4] on rank 2'
        return
    raise AssertionError("nothing was raised")


for check in (rows_become_columns, ranks_read_each_others_memory, what_is_wrong_is_told_on_all_ranks):
    check()
    if rank == 0:
        print(check.__name__, flush=True)
