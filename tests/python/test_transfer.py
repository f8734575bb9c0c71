"""Whole models of NumPy's arrays, between ranks that are threads here."""

import functools
import pickle
import random
import re

import numpy as np
import pytest
from thread_group import everywhere, on_ranks, refusal

import retile
from retile import _retile
from retile._retile import MessagePlan
from retile._transfer_claims import Claim, Comparison, Memory, Tile, declaration_of


def slice_of(array, box):
    return array[tuple(slice(lo, hi) for lo, hi in zip(*box, strict=True))]


def tile_of(array, layout, rank):
    boxes = layout.boxes(rank)
    assert len(boxes) < 2
    return slice_of(array, boxes[0]).copy() if boxes else np.empty((0,) * array.ndim, array.dtype)


def array_of(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def random_layout(chance, ranks, shape):
    """Cut along some axes of some mesh of some ranks, in any order."""
    sizes = chance.choice([sizes for sizes in ((1,), (2,), (4,), (2, 2), (3,), (2, 3)) if np.prod(sizes) <= ranks])
    names = "abc"[: len(sizes)]
    axes = [[] for _ in shape]
    for name in names:
        if chance.random() < 0.8:
            axes[chance.randrange(len(shape))].append(name)
    devices = chance.sample(range(ranks), int(np.prod(sizes)))
    return retile.Layout.cut(retile.Mesh(dict(zip(names, sizes, strict=True))), shape, axes, devices=devices)


@pytest.mark.parametrize("seed", range(20))
def test_every_rank_gets_what_it_wants(seed, monkeypatch):
    """Those without checksums read each other's memory every second time."""
    monkeypatch.setattr(_retile, "RankTransfer", functools.partial(_retile.RankTransfer, least_part=1))
    chance = random.Random(seed)
    transport = ["auto", "messages"][seed % 4 // 2]
    ranks = chance.choice([2, 4, 6])
    arrays = {}
    for i in range(chance.randrange(1, 8)):
        shape = tuple(chance.randrange(1, 20) for _ in range(chance.randrange(1, 4)))
        dtype = chance.choice([np.float32, np.int8, np.int64, np.complex128])
        arrays[f"a{i}"] = (array_of(shape, dtype, i), *(random_layout(chance, ranks, shape) for _ in range(2)))
    cap = chance.choice([3000, 100000])
    host = chance.choice([None, 2])

    def action(group):
        t = retile.Transfer(
            group,
            max_bytes=cap,
            verify=[None, "crc32"][seed % 2],
            host=host and str(group.rank % host),
            transport=transport,
        )
        targets = {}
        for name, (array, source, target) in arrays.items():
            if group.rank < source.device_count and source.boxes(group.rank):
                t.add_source(name, tile_of(array, source, group.rank), source)
            if group.rank < target.device_count and target.boxes(group.rank):
                targets[name] = np.zeros_like(tile_of(array, target, group.rank))
                t.add_target(name, targets[name], target)
        plan = t.commit()
        for _ in range(2):
            for target in targets.values():
                target[...] = 0
            work = t.start()
            work.wait()
            for name, target in targets.items():
                np.testing.assert_array_equal(target, tile_of(arrays[name][0], arrays[name][2], group.rank))
        assert work.report.staged_bytes <= plan.staged_bytes(group.rank) <= cap
        assert work.report.received_bytes == plan.received_bytes(group.rank)
        if transport == "messages" or seed % 2:
            assert work.report.staged_bytes == plan.staged_bytes(group.rank)
            return 0
        return work.report.read_bytes - (work.report.received_bytes if host is None else 0)

    assert not any(everywhere(ranks, action)) or host is not None


@pytest.mark.parametrize("seed", range(6))
def test_ranks_may_add_arrays_in_any_order(seed):
    """And some of them in two parts: ranks that declare the same, and others, are held together by name."""
    arrays = {f"a{i}": array_of((4 + i, 6), seed=i) for i in range(5)}

    def action(group):
        chance = random.Random(10 * seed + group.rank // 2)  # two ranks each have one order
        t = retile.Transfer(group)
        names = list(arrays)
        chance.shuffle(names)
        if group.rank < 4:
            for name in names:
                rows = len(arrays[name])
                parts = [(0, 2), (2, rows)] if chance.random() < 0.5 else [(0, rows)]
                for lo, hi in parts:
                    t.add_source(name, arrays[name][lo:hi].copy(), box=[(lo, hi), (0, 6)])
            t.commit()
            t.start().wait()
            return
        targets = {name: np.zeros_like(arrays[name]) for name in names[: 2 + group.rank % 2]}
        t.add_targets(targets)
        t.commit()
        t.start().wait()
        for name, target in targets.items():
            np.testing.assert_array_equal(target, arrays[name])

    everywhere(6, action)


def test_many_arrays_that_ranks_hold_alike_are_compared_as_one():
    """However many there are: a look at each name is all that they take."""
    names = [f"layers.{i}.weight" for i in range(100)]
    array = np.zeros((2, 3), np.float32)
    memory = Memory(array.ctypes.data, array.shape, array.strides, array.dtype, array.itemsize)
    tiles = [Tile(name, Claim("float32", "f32", shape=array.shape), array, memory, False) for name in names]
    declarations = [pickle.loads(pickle.dumps(declaration_of(tiles))) for _ in range(4)]
    comparison = Comparison(declarations, declarations)
    assert comparison.faults == []
    assert comparison.arrays == [(name, 0) for name in names]
    assert len({id(holders) for holders in comparison.sources.values()}) == 1
    assert comparison.sources[names[0]] == ((0, 0), (1, 0), (2, 0), (3, 0))
    # One rank declares other arrays, and is looked at after those that declare the same.
    other = declaration_of(tiles[:1])
    comparison = Comparison([declarations[0], other, *declarations[2:]], declarations)
    assert [rank for rank, _ in comparison.sources[names[0]]] == [0, 1, 2, 3]
    assert [rank for rank, _ in comparison.sources[names[1]]] == [0, 2, 3]


def test_boxes_go_to_memory_that_is_there():
    """Two trainers with halves of q, k and v; two servers with a matrix of q|k|v each, their heads of them."""
    weights = {name: array_of((8, 6), seed=i) for i, name in enumerate("qkv")}
    halves = retile.Layout("[4{x}8, 6]", retile.Mesh({"x": 2}))

    def action(group):
        t = retile.Transfer(group)
        if group.rank < 2:
            t.add_sources({name: (tile_of(array, halves, group.rank), halves) for name, array in weights.items()})
            t.commit()
            t.start().wait()
            return
        first = 4 * (group.rank - 2)
        fused = np.zeros((12, 6), np.float32)
        for i, name in enumerate("qkv"):
            t.add_target(name, fused[4 * i : 4 * i + 4], box=[(first, first + 4), (0, 6)])
        t.commit()
        t.start().wait()
        np.testing.assert_array_equal(fused, np.concatenate([weights[name][first : first + 4] for name in "qkv"]))

    everywhere(4, action)


def with_ghosts(own, before, after):
    """Rows among ghost zones, which are out of date."""
    return np.pad(own, ((before, after), (0, 0)), constant_values=-1)


# By layout over two ranks: the tile of a rank. Ghost zones that do not wrap end where the array does.
TILES = {
    "[4{x}8, 6]": lambda array, rank: array[4 * rank : 4 * rank + 4],
    "[4{x}8 halo (2,1), 6]": lambda array, rank: with_ghosts(array[4 * rank : 4 * rank + 4], 2 * rank, 1 - rank),
    "[4{x}8 halo (2,1) wrap, 6]": lambda array, rank: with_ghosts(array[4 * rank : 4 * rank + 4], 2, 1),
    "[8, 3{x}6] order [1, 0]": lambda array, rank: array[:, 3 * rank : 3 * rank + 3].T,
    "[4{x}8 halo (2,1) wrap, 6] order [1, 0]": lambda array, rank: with_ghosts(array[4 * rank : 4 * rank + 4], 2, 1).T,
    "[8, 6 cyclic 1{x}]": lambda array, rank: array[:, rank::2],
}


@pytest.mark.parametrize("is_mixed", [False, True], ids=["alike", "mixed"])
@pytest.mark.parametrize("has_gaps", [False, True], ids=["packed", "gaps"])
@pytest.mark.parametrize("text", TILES)
def test_tiles_of_any_layout_are_sent_without_ghost_zones(text, has_gaps, is_mixed):
    array = array_of((8, 6), seed=1) + 1
    layout = retile.Layout(text, retile.Mesh({"x": 2}))
    is_one_box = "cyclic" not in text
    if has_gaps and not is_one_box:
        pytest.skip("a tile of several boxes lies without gaps")

    def action(group):
        t = retile.Transfer(group, verify="crc32" if is_mixed else None)
        target = np.zeros_like(array)
        if group.rank < 2:
            tile = np.ascontiguousarray(TILES[text](array, group.rank))
            assert tile.shape == layout.tile_shape(group.rank)
            t.add_source("w", np.repeat(tile, 2, axis=1)[:, ::2] if has_gaps else tile, layout)
        elif group.rank == 2 and is_mixed:
            t.add_source("w", array[1:2], box=((1, 2), (0, 6)))
        elif group.rank == 3:
            t.add_target("w", target)
        t.commit()
        t.start().wait()
        if group.rank == 3:
            np.testing.assert_array_equal(target, array)

    everywhere(4, action)


def test_a_rank_may_want_a_tile_and_a_box():
    array = array_of((8, 6)) + 1
    halves = retile.Layout("[4{x}8, 6]", retile.Mesh({"x": 2}))

    def action(group):
        t = retile.Transfer(group)
        memory, box = np.zeros((8, 6), np.float32), np.zeros((2, 6), np.float32)
        t.add_target("w", memory[:4], halves)
        if group.rank == 0:
            t.add_source("w", array)
            t.add_target("w", box, box=((5, 7), (0, 6)))
        t.commit()
        t.start().wait()
        np.testing.assert_array_equal(memory[:4], tile_of(array, halves, group.rank))
        assert not memory[4:].any()
        assert group.rank == 1 or (box == array[5:7]).all()

    everywhere(2, action)


def test_a_rank_may_not_want_the_box_of_its_tile_again():
    def action(group):
        t = retile.Transfer(group)
        t.add_target("w", np.zeros((4, 6), np.float32), retile.Layout("[4{x}8, 6]", retile.Mesh({"x": 2})))
        if group.rank == 0:
            t.add_source("w", np.zeros((8, 6), np.float32))
            t.add_target("w", np.zeros((4, 6), np.float32), box=((0, 4), (0, 6)))
        t.commit()

    assert refusal(2, action) == '"w": rank 0 wants [0:4, 0:6] twice'


def test_ranks_may_want_boxes_that_overlap_and_leave_some_out():
    array = array_of((10, 7))
    wanted = [None, ((0, 6), (0, 7)), ((4, 10), (2, 5)), (slice(0, 10), slice(0, 3))]

    def action(group):
        t = retile.Transfer(group, verify="crc32")
        if group.rank == 0:
            t.add_source("w", array)
        else:
            box = wanted[group.rank]
            pairs = [(one.start, one.stop) if isinstance(one, slice) else one for one in box]
            target = np.zeros([hi - lo for lo, hi in pairs], np.float32)
            t.add_target("w", target[:, ::-1] if group.rank == 1 else target, box=box)
        t.commit()
        t.start().wait()
        if group.rank:
            expected = slice_of(array, list(zip(*pairs, strict=True)))
            np.testing.assert_array_equal(target[:, ::-1] if group.rank == 1 else target, expected)

    everywhere(4, action)


def test_arrays_may_be_scalars_and_have_no_elements():
    arrays = {"scalar": np.array(3.5), "empty": np.zeros((0, 3)), "flag": np.array([True, False]), "wide": np.arange(3)}

    def action(group):
        t = retile.Transfer(group)
        targets = {name: np.zeros_like(array) for name, array in arrays.items()}
        (t.add_targets(targets) if group.rank else t.add_sources(arrays))
        t.commit()
        work = t.start()
        for _ in range(2):
            work.wait()
        assert group.rank == 0 or all((targets[name] == array).all() for name, array in arrays.items())

    everywhere(2, action)


def test_elements_are_converted_while_they_are_packed():
    array = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    rows = retile.Layout("[5{x}9, 5]", retile.Mesh({"x": 2}))

    def action(group):
        t = retile.Transfer(group, max_bytes=2000)
        t.add_sources([("w", (tile_of(array, rows, group.rank), rows))], dtype=np.float16)
        target = np.zeros((9, 5), np.float16)  # what a rank keeps is converted, too
        t.add_target("w", target)
        t.commit()
        t.start().wait()
        np.testing.assert_array_equal(target, array.astype(np.float16))

    everywhere(2, action)


def test_arrays_can_be_waited_for():
    arrays = {f"layers.{i}.w": array_of((64, 64), seed=i) for i in range(8)}

    def action(group):
        t = retile.Transfer(group, max_bytes=20000)
        targets = {name: np.zeros_like(array) for name, array in arrays.items()}
        if group.rank == 0:
            t.add_sources(arrays)
        else:
            t.add_targets(targets)
        assert t.commit().rounds > 8
        work = t.start()
        if group.rank:
            for i in range(8):
                work.wait(f"layers.{i}")
                np.testing.assert_array_equal(targets[f"layers.{i}.w"], arrays[f"layers.{i}.w"])
            with pytest.raises(retile.InputError, match='no array of this transfer is called "layers.9": did you mean'):
                work.wait("layers.9")
        work.wait()

    everywhere(2, action)


@pytest.mark.parametrize("call", ["most", "gather"])
def test_a_group_that_fails_while_ranks_agree_is_told_each_time(call):
    def action(group):
        def fail(value):
            raise ConnectionError("a rank is gone")

        t = retile.Transfer(group)
        (t.add_target if group.rank else t.add_source)("w", np.zeros(4))
        t.commit()
        work = t.start()
        group.most = lambda number: 1
        setattr(group, call, fail)
        for _ in range(2):
            with pytest.raises(ConnectionError, match="a rank is gone"):
                work.wait()

    everywhere(2, action)


def test_some_arrays_are_moved_alone():
    arrays = {name: array_of((8, 8), seed=i) for i, name in enumerate(("layers.0.w", "layers.1.w", "norm"))}

    def action(group):
        t = retile.Transfer(group)
        targets = {name: np.zeros_like(array) for name, array in arrays.items()}
        (t.add_targets(targets) if group.rank else t.add_sources(arrays))
        t.commit()
        for _ in range(2):
            t.start(only=["layers.1", "norm"]).wait()
        if group.rank:
            assert not targets["layers.0.w"].any()
            np.testing.assert_array_equal(targets["layers.1.w"], arrays["layers.1.w"])
            np.testing.assert_array_equal(targets["norm"], arrays["norm"])
        with pytest.raises(retile.InputError, match='no array of this transfer is called "layers.2"'):
            t.start(only=["layers.2"])
        with pytest.raises(retile.InputError, match="ranks want different arrays\nrank 0: norm\nrank 1: layers"):
            t.start(only=["layers" if group.rank else "norm"])

    everywhere(2, action)


def random_box(chance, shape):
    corners = [sorted((chance.randrange(length + 1), chance.randrange(length + 1))) for length in shape]
    return [slice(*pair) if chance.random() < 0.5 else tuple(pair) for pair in corners]


def mask_of(boxes, shape):
    mask = np.zeros(shape, bool)
    for box in boxes:
        mask[tuple(one if isinstance(one, slice) else slice(*one) for one in box)] = True
    return mask


@pytest.mark.parametrize("seed", range(12))
def test_boxes_of_arrays_are_moved_alone(seed):
    """The bits of a full transfer inside, and nothing is written outside."""
    chance = random.Random(100 + seed)
    ranks = chance.choice([2, 4])
    arrays, only = {}, {}
    for i in range(4):
        shape = tuple(chance.randrange(1, 20) for _ in range(chance.randrange(1, 4)))
        arrays[f"a{i}"] = (array_of(shape, np.int32, i), *(random_layout(chance, ranks, shape) for _ in range(2)))
        if i < 3:
            only[f"a{i}"] = None if i == 0 else [random_box(chance, shape) for _ in range(chance.randrange(4))]
    has_gaps = chance.random() < 0.5

    def action(group):
        t = retile.Transfer(group, max_bytes=3000, verify="crc32")
        targets = {}
        for name, (array, source, target) in arrays.items():
            if group.rank < source.device_count and source.boxes(group.rank):
                t.add_source(name, tile_of(array, source, group.rank), source)
            if group.rank < target.device_count and target.boxes(group.rank):
                shape = tile_of(array, target, group.rank).shape
                memory = np.full((*shape[:-1], 2 * shape[-1]), -1, np.int32)
                targets[name] = memory[..., ::2] if has_gaps else memory[..., : shape[-1]].copy()
                t.add_target(name, targets[name], target)
        t.commit()
        for _ in range(2):
            work = t.start(only=only)
            work.wait()
            assert work.report.staged_bytes <= 3000
        for name, target in targets.items():
            array, layout = arrays[name][0], arrays[name][2]
            boxes = only.get(name, [])
            mask = np.full(array.shape, True) if boxes is None else mask_of(boxes, array.shape)
            np.testing.assert_array_equal(target, tile_of(np.where(mask, array, -1), layout, group.rank))

    everywhere(ranks, action)


def test_boxes_that_are_none_are_told_on_all_ranks():
    def told(*only):
        def action(group):
            t = retile.Transfer(group)
            (t.add_target if group.rank else t.add_source)("w.x", np.zeros((4, 6)))
            t.commit()
            t.start(only=only[group.rank % len(only)]).wait()

        return refusal(2, action)

    assert told({"w.x": [np.s_[:, 2:4], ((0, 5), (0, 6))], "v": None}) == (
        '"w.x": [0:5, 0:6] is no box of an array of [4, 6]\nno array of this transfer is called "v"'
    )
    assert told({"w": [np.s_[:, 2:4]]}) == 'no array of this transfer is called "w"'
    assert told({"w.x": [(0, 4)]}) == ('"w.x": box is a pair (first, beyond the last) for each dimension, not (0, 4)')
    assert told({"w.x": [np.s_[::2, :]]}) == (
        '"w.x": box is a pair (first, beyond the last) for each dimension, not (slice(None, None, 2), slice(0, 6, None))'
    )
    assert told({"w.x": 3}) == '"w.x": only has a list of boxes, not 3'
    assert told({"w.x": [np.s_[1:, 2:4]]}, ["w"]) == "ranks want different arrays\nrank 0: w.x [1:4, 2:4]\nrank 1: w"


def test_executions_share_their_staging():
    """However many choices of arrays are moved alone, a rank stages no more than the cap."""

    def action(group):
        t = retile.Transfer(group, max_bytes=1 << 20, transport="messages")
        arrays = {f"w{i}": np.zeros(1 << 17, np.int8) for i in range(4)}
        (t.add_targets if group.rank else t.add_sources)(arrays)
        t.commit()
        for i in range(4):
            t.start(only=[f"w{i}"]).wait()
        views = [execution.rank.received(0) for execution in t._executions.values()] if group.rank else []
        return {np.frombuffer(message, np.int8).ctypes.data for ((_, message),) in views}

    assert len(everywhere(2, action)[1]) == 1


def test_only_what_changed_is_sent():
    """Some elements change, others change back, arrays are moved alone in between: bits are those of a full transfer."""
    chance = np.random.default_rng(3)
    arrays = {f"w{i}": array_of((40, 30), seed=i) for i in range(4)}
    steps = [(chance.integers(4), chance.integers(1200), chance.integers(5) == 0) for _ in range(40)]

    def action(group):
        t = retile.Transfer(group, max_bytes=3000)
        own = {name: array.copy() for name, array in arrays.items()}
        targets = {name: np.zeros_like(array) for name, array in arrays.items()}
        (t.add_targets(targets) if group.rank else t.add_sources(own))
        t.commit()
        t.start(changed=True).wait()
        lengths = []
        for array, element, is_alone in steps:
            own[f"w{array}"].reshape(-1)[element] += 1
            if group.rank == 0 and element % 3 == 0:
                own[f"w{array}"].reshape(-1)[element] -= 1
            work = t.start(only=[f"w{array}"]) if is_alone else t.start(changed=element % 4 > 0)
            work.wait()
            lengths.append(work.report.sent_bytes)
        t.start(changed=True).wait()
        return own if group.rank == 0 else targets, lengths

    (sources, lengths), (targets, _) = everywhere(2, action)
    for name in arrays:
        np.testing.assert_array_equal(targets[name], sources[name])
    assert min(lengths) < max(lengths) / 5


def test_a_report_counts_what_came():
    def action(group):
        t = retile.Transfer(group, max_bytes=3000)
        array = np.zeros(2000, np.int8)
        (t.add_targets if group.rank else t.add_sources)({"w": array})
        t.commit()
        came = []
        for _ in range(2):
            work = t.start(changed=True)
            work.wait()
            came.append(work.report.received_bytes)
        array[1999] = 1 - group.rank
        work = t.start(changed=True)
        work.wait()
        return [*came, work.report.received_bytes]

    sender, (all_of_it, nothing, some) = everywhere(2, action)
    assert sender == [0, 0, 0]
    assert all_of_it == 2000 and nothing == 0 and 0 < some < 2000


def test_what_was_moved_alone_in_between_counts():
    """An array that changes, is moved alone, and changes back has changed."""

    def action(group):
        t = retile.Transfer(group)
        source, target = np.zeros(4), np.ones(4)
        (t.add_target("w", target) if group.rank else t.add_source("w", source))
        t.commit()
        t.start(changed=True).wait()
        source[:] = 5
        t.start(only=["w"]).wait()
        source[:] = 0
        t.start(changed=True).wait()
        return target

    assert not everywhere(2, action)[1].any()


def test_memory_that_moved_is_found():
    def action(group):
        t = retile.Transfer(group)
        target = np.zeros(4)
        source = np.arange(4.0)
        (t.add_target("w", target) if group.rank else t.add_source("w", source))
        t.commit()
        t.start().wait()
        if group.rank == 0:  # as a framework may do
            tile = t._tiles[0]
            t._executions[None].tiles[0] = type(tile)(tile.name, tile.claim, source + 10, tile.memory, False)
        t.start().wait()
        return target

    assert everywhere(2, action)[1].tolist() == [10, 11, 12, 13]


# --- What is wrong is told on all ranks.


def test_everything_that_is_wrong_is_told_at_once():
    layout = retile.Layout("[4{x}8, 6]", retile.Mesh({"x": 2}))

    def action(group):
        t = retile.Transfer(group)
        if group.rank == 0:
            t.add_source("w", np.zeros((3, 6)), layout)
            t.add_source("v", [1, 2])
        else:
            t.add_source("w", np.zeros((4, 6)), layout)
            t.add_target("u", np.zeros(3), box=[(0, 4)])
        t.commit()

    assert refusal(2, action) == (
        'rank 0: "w": the source: it has shape [3, 6], and the layout [4{x}8, 6] gives [4, 6]\n'
        'rank 0: "v": the source: it is of type list, not an array of NumPy\n'
        'rank 1: "u": the target: memory of shape [3] is no room for box [0:4]'
    )


def test_names_shapes_and_types_of_all_ranks_are_compared():
    layout = retile.Layout("[4{x}8, 6]", retile.Mesh({"x": 2}))

    def action(group):
        t = retile.Transfer(group)
        if group.rank == 0:
            t.add_sources({"up.w1": np.zeros((8, 6)), "type": np.zeros(3), "shape": np.zeros(3), "rank": np.zeros(3)})
            t.add_source("tile", np.zeros((4, 6)), layout)
            t.add_source("lacking", np.zeros(2), box=[(0, 2)])
            t.add_source("beyond", np.zeros(2), box=[(0, 2)])
        else:
            t.add_target("up.w2", np.zeros((8, 6)))
            t.add_target("type", np.zeros(3, np.float32))
            t.add_target("shape", np.zeros(4))
            t.add_target("rank", np.zeros((3, 1)))
            t.add_target("tile", np.zeros((8, 6)))
            t.add_target("lacking", np.zeros(1), box=[(0, 1)])
            t.add_target("beyond", np.zeros(2), box=[(1, 3)])
        t.commit()

    assert refusal(2, action) == (
        '"up.w2": rank 1 wants it, and no rank has it: did you mean "up.w1"?\n'
        '"type": rank 0 sends float64, and rank 1 wants float32\n'
        "hint: add_sources(…, dtype=…) converts while it packs\n"
        '"shape": ranks say that it has different shapes: [3] on rank 0, [4] on rank 1\n'
        '"rank": ranks say that it has different shapes: [3] on rank 0, [3, 1] on rank 1\n'
        '"rank": ranks say that it has 1 and 2 dimensions\n'
        '"tile": rank 1 did not add a tile, which the layout [4{x}8, 6] gives\n'
        '"beyond": rank 1 wants [1:3] of an array of [2]'
    )


def test_elements_that_nobody_has_are_missed():
    def action(group):
        t = retile.Transfer(group)
        if group.rank == 0:
            t.add_source("w", np.zeros(4), box=[(0, 4)])
            t.add_source("w", np.zeros(4), box=[(6, 10)])
        else:
            t.add_target("w", np.zeros(6), box=[(3, 9)])
        t.commit()

    assert refusal(2, action) == 'error: array "w": no rank holds [4:6], which rank 1 wants'


def test_memory_that_overlaps_is_refused():
    def action(group):
        t = retile.Transfer(group)
        memory = np.zeros(8)
        t.add_source("w", memory[:4])
        if group.rank:
            t.add_target("w", memory[2:6])
        t.commit()

    assert refusal(2, action) == 'the target of "w" on rank 1 overlaps the source of "w"'


def test_a_tile_that_is_added_twice_is_refused():
    layout = retile.Layout("[4{x}8, 6]", retile.Mesh({"x": 2}))

    def action(group):
        t = retile.Transfer(group)
        t.add_source("w", np.ones((4, 6)), layout)
        for _ in range(2 if group.rank else 1):
            t.add_target("w", np.zeros((4, 6)), layout)
        t.commit()

    assert refusal(2, action) == '"w": rank 1 wants its tile of the layout [4{x}8, 6] twice'


def test_the_next_one_starts_when_all_ranks_have_agreed():
    """However fast the messages were: what one rank is told, all are."""

    def action(group):
        t = retile.Transfer(group)
        (t.add_target if group.rank else t.add_source)("w", np.zeros(4))
        t.commit()
        work = t.start()
        work._thread.join()
        with pytest.raises(retile.InputError, match=r"start\(\) comes after wait\(\) of the transfer before"):
            t.start()
        work.wait()
        t.start().wait()

    everywhere(2, action)


def test_machines_say_hosts_and_times():
    machine = {"hosts": [[0, 2], [1, 3]], "link": {"out": 1e6, "in": 1e6}, "inside": {"rate": 1e9}, "step": 1e-3}
    layout = retile.Layout("[2{x}8, 1024]", retile.Mesh({"x": 4}))
    array = array_of((8, 1024))

    def action(group):
        t = retile.Transfer(group, machine=retile.Machine(machine))
        t.add_source("a", tile_of(array, layout, group.rank), layout)
        target = np.zeros_like(array)
        t.add_target("a", target, box=((0, 8), (0, 1024)))
        plan = t.commit()
        t.start().wait()
        np.testing.assert_array_equal(target, array)
        return str(plan)

    texts = set(everywhere(4, action))
    assert len(texts) == 1
    text = texts.pop()
    assert "hosts     2, 16,384 bytes into each, once" in text  # 0 and 2 share what they lack
    assert text.endswith("ms of it host 0's link out; no transfer takes less than 17.4 ms\n")

    def with_other_devices(group):
        retile.Transfer(group, machine=retile.Machine(machine)).commit()

    assert refusal(2, with_other_devices).startswith(
        "machine:1:11: error: the machine has 4 devices, and the problem 2"
    )

    def with_host(group):
        retile.Transfer(group, machine=retile.Machine(machine), host="a")

    assert refusal(2, with_host) == "the machine says which host each rank is on: no host beside it"


def test_settings_are_those_of_all_ranks():
    def action(group):
        t = retile.Transfer(group, max_bytes=[100, 200][group.rank], verify=[None, "crc32"][group.rank])
        t.commit()

    assert refusal(2, action) == "ranks have different max_bytes: 100, 200\nranks have different verify: None, 'crc32'"


def test_a_cap_may_be_a_text():
    """Ranks agree on its bytes, however each writes them."""

    def action(group):
        t = retile.Transfer(group, max_bytes=["1KiB", np.int64(1024)][group.rank])
        (t.add_target if group.rank else t.add_source)("w", np.zeros(1000))
        return str(t.commit())

    assert "(cap 1,024)" in everywhere(2, action)[0]


def test_a_cap_that_is_too_small_is_refused():
    def action(group):
        t = retile.Transfer(group, max_bytes=50)
        (t.add_target if group.rank else t.add_source)("w", np.zeros(100))
        t.commit()

    results = on_ranks(2, action)
    assert all(isinstance(result, retile.MemoryLimitError) for result in results)
    assert "a cap of 50 bytes per device is too small" in str(results[0])
    assert "the smallest that works is 82 bytes" in str(results[0])


def test_arguments_are_checked():
    refused = 'max_bytes is a number of bytes or a text such as "256MiB", not '
    for max_bytes in (True, 1.5, -1, None):
        with pytest.raises(retile.InputError, match=re.escape(f"{refused}{max_bytes!r}")):
            retile.Transfer(None, max_bytes=max_bytes)
    with pytest.raises(retile.InputError, match="transport is one of auto, messages, not 'collectives'"):
        retile.Transfer(None, transport="collectives")
    with pytest.raises(retile.InputError, match='verify is "crc32" or None, not 5'):
        retile.Transfer(None, verify=5)

    def action(group):
        t = retile.Transfer(group)
        with pytest.raises(retile.InputError, match=r"start\(\) comes after commit\(\)"):
            t.start()
        t.commit()
        with pytest.raises(retile.InputError, match=r"sources are added before record\(\) and commit\(\)"):
            t.add_source("w", np.zeros(1))
        with pytest.raises(retile.InputError, match=r"targets are added before commit\(\)"):
            t.add_target("w", np.zeros(1))
        with pytest.raises(retile.InputError, match=r"commit\(\) is called once"):
            t.commit()
        t.start().wait()  # nothing

    everywhere(1, action)


def test_damaged_messages_are_told_on_all_ranks():
    class Damaging:
        def __init__(self, group):
            self._group, self.rank, self.size = group, group.rank, group.size
            self.gather, self.most, self.receive = group.gather, group.most, group.receive
            self.is_damaging = True

        def send(self, message, peer):
            if self.rank == 0 and self.is_damaging:
                message[50] ^= 4
            return self._group.send(message, peer)

    def action(group):
        group = Damaging(group)
        t = retile.Transfer(group, max_bytes=4000, verify="crc32")
        target = np.zeros(1000)
        (t.add_target("w", target) if group.rank == 1 else t.add_source("w", np.arange(1000.0)))
        t.commit()
        work = t.start()
        with pytest.raises(RuntimeError) as told:
            work.wait()
        group.is_damaging = False
        t.start(changed=True).wait()
        assert group.rank != 1 or (target == np.arange(1000.0)).all()
        return str(told.value)

    # Both hold the array and send half of it; rank 2 only looks on.
    told = everywhere(3, lambda group: action(group))
    assert set(told) == {
        'round 0 from rank 0 to rank 1 did not arrive as it was sent: its checksum is wrong; it has "w"'
    }


def test_plans_print():
    def action(group):
        t = retile.Transfer(group)
        (t.add_target if group.rank else t.add_source)("w", np.zeros(100))
        plan = t.commit()
        assert isinstance(plan, MessagePlan)
        return str(plan)

    assert everywhere(2, action)[0].splitlines()[0] == "1 array of 1 kind on 2 devices, 800 bytes to move"
