"""What is true of `retile.torch`, as every rank of eight sees it. Run by test_torch.py."""

import itertools
import json
import math
import os
import warnings
from unittest import mock

import torch
import torch.distributed as dist
from problems import problems, small_shape
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, _dtensor_spec
from torch.distributed.tensor.placement_types import _StridedShard
from torch.fx.experimental.proxy_tensor import make_fx

import retile
import retile.torch
from retile import _calibration, _movements, _point_to_point, _process_groups
from retile.torch import enabled, explain, plan_of, redistribute

CASES = []
WHOLE = [Shard(0), Shard(1), Replicate()]
DEVICE = os.environ.get("RETILE_TEST_DEVICE", "cpu")


def case(function):
    CASES.append(function)
    return function


def mesh_of(*sizes, names=None, ranks=None):
    ranks = torch.arange(math.prod(sizes)) if ranks is None else torch.tensor(ranks)
    return DeviceMesh(DEVICE, ranks.reshape(sizes), mesh_dim_names=names)


def tensor_of(*shape, dtype=torch.float32):
    return torch.arange(math.prod(shape), device=DEVICE).reshape(shape).to(dtype)


def slice_of(tensor, mesh, placements):
    """This rank's, by the rule that DTensor's documentation has: torch.chunk, from the mesh's first dimension on."""
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return tensor.new_empty(0)
    for index, size, placement in zip(coordinate, mesh.shape, placements, strict=True):
        if isinstance(placement, Shard):
            chunks = tensor.chunk(size, placement.dim)
            empty = tensor.narrow(placement.dim, 0, 0)
            tensor = chunks[index] if index < len(chunks) else empty
    return tensor


def put(tensor, mesh, placements, local=None):
    local = slice_of(tensor, mesh, placements).contiguous() if local is None else local
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride())


def is_slice(moved, tensor, mesh, placements):
    expected = slice_of(tensor, mesh, placements)
    local = moved.to_local()
    return local.shape == expected.shape and torch.equal(local, expected)


def assert_moved(moved, tensor, mesh, placements):
    assert isinstance(moved, DTensor) and moved.shape == tensor.shape and moved.dtype == tensor.dtype
    assert moved.device_mesh == mesh and moved.placements == tuple(placements)
    assert is_slice(moved, tensor, mesh, placements), (moved.to_local(), slice_of(tensor, mesh, placements))


def all_ranks(flag):
    """How many of them say so."""
    count = torch.tensor(int(flag), device=DEVICE)
    dist.all_reduce(count)
    return int(count)


def message_of(function, *arguments, error=retile.InputError, **keywords):
    try:
        function(*arguments, **keywords)
    except error as caught:
        return str(caught)
    raise AssertionError("nothing was raised")


# --- Every rank gets its slice.


@case
def placements_of_a_mesh_lead_to_each_other():
    for sizes, shape in [((8,), (16, 24)), ((2, 4), (16, 24)), ((2, 4), (5, 7)), ((4, 2), (3, 9))]:
        mesh, tensor = mesh_of(*sizes), tensor_of(*shape)
        for source, target in itertools.product(itertools.product(WHOLE, repeat=len(sizes)), repeat=2):
            assert_moved(redistribute(put(tensor, mesh, source), target), tensor, mesh, target)


@case
def problems_of_the_paper_give_each_rank_its_slice():
    mesh = mesh_of(2, 2, 2, names=("a", "b", "c"))
    checked = 0
    for problem in problems()[::7]:
        sides = []
        for side in ("src", "dst"):
            placements = [Replicate()] * 3
            for dimension, axes in enumerate(problem[side]):
                for axis in axes:
                    placements["abc".index(axis)] = Shard(dimension)
            sides.append(placements if all(axes == sorted(axes, reverse=True) for axes in problem[side]) else None)
        if None in sides:
            continue  # DTensor cuts along a mesh's dimensions in order
        tensor = tensor_of(*small_shape(problem))
        assert_moved(redistribute(put(tensor, mesh, sides[0]), sides[1]), tensor, mesh, sides[1])
        checked += 1
    assert checked > 20


@case
def elements_of_all_types_are_moved():
    mesh = mesh_of(2, 4)
    for dtype in (torch.bool, torch.int8, torch.uint8, torch.int64, torch.bfloat16, torch.float64, torch.complex64):
        tensor = tensor_of(9, 8).remainder(3).to(dtype)
        for source, target in (([Shard(0)] * 2, [Shard(1)] * 2), ([Shard(1), Replicate()], [Shard(0), Shard(1)])):
            assert_moved(redistribute(put(tensor, mesh, source), target), tensor, mesh, target)


@case
def schedules_of_many_tensors_are_made_once():
    mesh = mesh_of(2, 4)
    tensors = [put(tensor_of(8, 8 * length), mesh, [Shard(0), Shard(1)]) for length in range(1, 40)]
    for _ in range(2):
        with mock.patch("retile._point_to_point.schedule", wraps=_point_to_point.schedule) as schedule:
            for tensor in tensors:
                redistribute(tensor, [Shard(1), Shard(0)])
    assert schedule.call_count == 0


@case
def messages_of_long_tiles_are_cut():
    mesh, tensor = mesh_of(8), tensor_of(512, 1024)
    assert_moved(redistribute(put(tensor, mesh, [Shard(0)]), [Shard(1)]), tensor, mesh, [Shard(1)])
    assert_moved(redistribute(put(tensor, mesh, [Shard(1)]), [Replicate()]), tensor, mesh, [Replicate()])


@case
def messages_of_a_stage_are_one_batch_where_there_are_no_tags():
    group, mesh = dist.new_group(), mesh_of(2, 4)
    batched = mock.Mock(wraps=dist.batch_isend_irecv)
    moves = [
        ((16, 24), [Shard(0), Shard(1)], [Shard(1), Shard(0)]),
        ((512, 1024), [Shard(0), Shard(0)], [Shard(1), Shard(1)]),  # over gloo in several rounds to a peer
        ((9, 24, 5), [Shard(0), Replicate()], [Shard(2), Shard(1)]),
        ((16, 24), [Replicate(), Shard(0)], [Replicate(), Replicate()]),
    ]
    with (
        mock.patch.object(_process_groups, "BACKENDS_WITH_TAGS", frozenset()),
        mock.patch.object(dist, "batch_isend_irecv", batched),
    ):
        for shape, source, target in moves:
            tensor = tensor_of(*shape)
            batched.reset_mock()
            assert_moved(redistribute(put(tensor, mesh, source), target, group=group), tensor, mesh, target)
            (call,) = batched.call_args_list or [mock.call([])]
            ends = [(one.op, one.peer) for one in call.args[0]]
            assert len(ends) == len(set(ends)), (shape, ends)
        batched.reset_mock()
        with mock.patch.object(_point_to_point, "BATCHED_STAGING_BYTES", 2**17):  # for tiles that are larger
            tensor = tensor_of(512, 1023)
            assert_moved(
                redistribute(put(tensor, mesh, WHOLE[:2]), [Shard(1)] * 2, group=group), tensor, mesh, [Shard(1)] * 2
            )
        assert batched.call_count > 1


@case
def messages_are_one_batch_only_where_every_rank_has_room():
    group, mesh = dist.new_group(), mesh_of(2, 4)
    options, found = ("auto", None, group.group_name, None, None), []
    sources, targets = (list(itertools.product(some, repeat=2)) for some in ([*WHOLE, Partial()], WHOLE))
    with (
        mock.patch.object(_process_groups, "BACKENDS_WITH_TAGS", frozenset()),
        mock.patch.object(_point_to_point, "BATCHED_STAGING_BYTES", 2**17),
    ):
        for shape, source, target in itertools.product([(1, 16384), (3, 4000), (128, 64)], sources, targets):
            request = _movements.request_text(mesh, source, mesh, target, options)
            movement = _movements.movement_of(request, shape, torch.float32)
            plan, message = movement.plan, movement.message
            stages = [_point_to_point.schedule(plan, rank, 4, message, ()) for rank in range(8)]
            most = max(
                sum(end.elements for one in stage.rounds for end in (one.send, one.receive) if end is not None)
                for stage in itertools.chain(*stages)
            )
            assert not movement.is_one_batch or 4 * most <= movement.staging, (shape, source, target)
            found.append(movement.is_one_batch)
    assert any(found) and not all(found)


@case
def equal_regions_at_equal_distances_are_copied_at_once():
    region = _point_to_point.Region
    rows = [region((2, 3), (8, 1), 100 * i + 40 * j + 4 * k) for i in range(3) for j in range(2) for k in range(2)]
    assert _point_to_point.merged([(one,) for one in rows]) == [(region((3, 2, 2, 2, 3), (100, 40, 4, 8, 1), 0),)]
    numbers = torch.arange(400)
    (found,) = _point_to_point.merged([(one,) for one in rows])[0]
    assert torch.equal(found.of(numbers).flatten(), torch.cat([one.of(numbers).flatten() for one in rows]))
    odd = [region((2,), (1,), offset) for offset in (0, 10, 20, 31)] + [region((3,), (1,), 41)]
    assert _point_to_point.merged([(one,) for one in odd]) == [
        (region((3, 2), (10, 1), 0),), (region((2,), (1,), 31),), (region((3,), (1,), 41),)
    ]  # fmt: skip
    assert len(_point_to_point.merged([(region((2,), (1,), 8),), (region((2,), (1,), 4),)])) == 2
    pairs = [(region((2,), (1,), 4 * i), region((2,), (1,), 9 * i + (i == 3))) for i in range(4)]
    assert len(_point_to_point.merged(pairs)) == 2


@case
def aligned_gathers_are_one_collective_where_that_is_fast():
    gathered = mock.Mock(wraps=dist.all_gather_into_tensor)
    moves = [  # gathered by DTensor's own groups: whole tiles, evenly, and in their order
        ((16, 24), [Shard(0), Shard(1)], [Replicate(), Shard(1)], None, 1),
        ((16, 24), [Shard(0), Shard(0)], [Shard(0), Replicate()], None, 1),
        ((16, 24), [Shard(1), Replicate()], [Replicate(), Replicate()], None, 0),
        ((9, 24), [Shard(0), Replicate()], [Replicate(), Replicate()], None, 0),
        ((15, 24), [Shard(0), Shard(0)], [Shard(0), Replicate()], None, 0),
        ((16, 7), [Shard(1), Shard(0)], [Shard(1), Replicate()], None, 1),
        ((16, 24), [Replicate(), Shard(0)], [Replicate(), Replicate()], [0, 4, 2, 6, 1, 5, 3, 7], 0),
    ]
    with (
        mock.patch("retile._movements.has_fast_gather", return_value=True),
        mock.patch.object(dist, "all_gather_into_tensor", gathered),
        mock.patch("retile._movements._meet_first"),
    ):
        for shape, source, target, ranks, calls in moves:
            mesh, tensor = mesh_of(2, 4, ranks=ranks), tensor_of(*shape, dtype=torch.bfloat16)
            gathered.reset_mock()
            assert_moved(redistribute(put(tensor, mesh, source), target), tensor, mesh, target)
            assert gathered.call_count == calls, (shape, source, target, ranks)


@case
def tiles_are_moved_as_they_lie():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 24)
    local = slice_of(tensor, mesh, [Shard(0), Replicate()]).t().contiguous().t()
    moved = redistribute(put(tensor, mesh, [Shard(0), Replicate()], local), [Shard(1), Shard(0)])
    assert_moved(moved, tensor, mesh, [Shard(1), Shard(0)])


@case
def scalars_and_empty_tensors_are_moved():
    mesh = mesh_of(2, 4)
    for tensor, source, target in (
        (tensor_of(1).reshape(()), [Replicate()] * 2, [Replicate()] * 2),
        (tensor_of(0, 8), [Shard(1), Replicate()], [Shard(0), Shard(1)]),
    ):
        assert_moved(redistribute(put(tensor, mesh, source), target), tensor, mesh, target)


@case
def dimensions_may_be_counted_from_the_end():
    mesh, tensor = mesh_of(8), tensor_of(8, 16)
    assert_moved(redistribute(put(tensor, mesh, [Shard(0)]), [Shard(-1)]), tensor, mesh, [Shard(1)])


@case
def strided_shards_are_moved():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 8)
    strided = [_StridedShard(0, split_factor=4), Shard(0)]  # cut along the mesh's second dimension first
    x, y = mesh.get_coordinate()
    local = tensor.chunk(4)[y].chunk(2)[x].contiguous()
    dt = put(tensor, mesh, strided, local)
    for target in itertools.product(WHOLE, repeat=2):
        moved = redistribute(dt, target)
        assert_moved(moved, tensor, mesh, target)
        back = redistribute(moved, strided)
        assert back.placements == tuple(strided) and torch.equal(back.to_local(), local)


@case
def strided_shards_of_several_boxes_are_moved():
    mesh, tensor = mesh_of(8), tensor_of(48, 5)
    strided, rank = [_StridedShard(0, split_factor=3)], dist.get_rank()
    local = torch.cat([part.chunk(8)[rank] for part in tensor.chunk(3)])
    for source in ([Shard(0)], [Shard(1)], [Replicate()]):
        moved = redistribute(put(tensor, mesh, source), strided)
        assert torch.equal(moved.to_local(), local)
        assert_moved(redistribute(moved, source), tensor, mesh, source)
    lying = put(tensor, mesh, strided, local.t().contiguous().t())  # other strides in memory
    assert_moved(redistribute(lying, [Shard(1)]), tensor, mesh, [Shard(1)])
    total = redistribute(put(tensor, mesh, [Partial()], tensor.clone()), strided)
    assert torch.equal(total.to_local(), local * 8)


@case
def strided_shards_of_six_rows_go_between_two_ranks():
    mesh, tensor, strided = mesh_of(2), tensor_of(6, 5), [_StridedShard(0, split_factor=3)]
    if dist.get_rank() > 1:
        return  # no mesh names it
    local = tensor[dist.get_rank() :: 2]
    for move in (redistribute, lambda dt, placements: counted(lambda: dt.redistribute(mesh, placements))[0]):
        moved = move(put(tensor, mesh, [Shard(0)]), strided)
        assert torch.equal(moved.to_local(), local)
        assert_moved(move(moved, [Shard(0)]), tensor, mesh, [Shard(0)])
        assert torch.equal(move(put(tensor, mesh, [Partial()], tensor.clone()), strided).to_local(), local * 2)


@case
def strided_shards_need_not_divide():
    """FSDP over TP cuts along the mesh's last dimension first."""
    mesh = mesh_of(2, 4, names=("dp", "tp"))
    strided = [_StridedShard(0, split_factor=4), Shard(0)]
    for rows in (13, 30, 3, 151):
        tensor, (x, y) = tensor_of(rows, 3), mesh.get_coordinate()
        chunks = (*tensor.chunk(4), *[tensor[:0]] * 4)[y].chunk(2)
        local = (*chunks, tensor[:0])[x].contiguous()
        moved = redistribute(put(tensor, mesh, strided, local), [Replicate(), Replicate()])
        assert_moved(moved, tensor, mesh, [Replicate(), Replicate()])
        assert torch.equal(redistribute(moved, strided).to_local(), local)


@case
def other_meshes_are_reached():
    tensor = tensor_of(10, 12)
    mesh, flat, backwards = mesh_of(2, 4), mesh_of(8), mesh_of(4, 2, ranks=[7, 6, 5, 4, 3, 2, 1, 0])
    for source, target in itertools.product(WHOLE, repeat=2):
        dt = put(tensor, mesh, [source, Shard(1)])
        assert_moved(redistribute(dt, [target], mesh=flat), tensor, flat, [target])
        assert_moved(redistribute(dt, [target, Shard(0)], mesh=backwards), tensor, backwards, [target, Shard(0)])


@case
def strided_shards_may_be_counted_from_the_end():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 8)
    dt = put(tensor, mesh, [Shard(0), Shard(1)])
    moved = redistribute(dt, [_StridedShard(-2, split_factor=4), Shard(-2)])
    assert moved.placements == (_StridedShard(0, split_factor=4), Shard(0))
    assert_moved(redistribute(moved, [Replicate()] * 2), tensor, mesh, [Replicate()] * 2)


@case
def tensors_stay_on_their_own_mesh_where_another_is_equal():
    tensor = tensor_of(8, 16)
    for mesh in (mesh_of(2, 4), mesh_of(2, 4)):
        moved = redistribute(put(tensor, mesh, [Shard(0), Shard(1)]), [Shard(1), Shard(0)])
        assert moved.device_mesh is mesh


@case
def what_is_where_it_should_be_is_not_copied():
    mesh, tensor = mesh_of(2, 4), tensor_of(8, 16)
    dt = put(tensor, mesh, [Shard(0), Shard(1)])
    moved = redistribute(dt, [Shard(0), Shard(1)], mesh=mesh)
    assert moved.to_local().data_ptr() == dt.to_local().data_ptr()


@case
def ranks_that_no_mesh_names_have_nothing():
    tensor, mesh = tensor_of(4, 6), mesh_of(2, ranks=[1, 2])
    dt = put(tensor, mesh, [Shard(0)]) if dist.get_rank() in (1, 2) else put(tensor, mesh, [Shard(0)], torch.empty(0))
    moved = redistribute(dt, [Shard(1)])
    if dist.get_rank() in (1, 2):
        assert_moved(moved, tensor, mesh, [Shard(1)])
    else:
        assert moved.to_local().numel() == 0


@case
def tensors_go_from_some_ranks_to_others():
    tensor = tensor_of(10, 12)
    trainers, servers = mesh_of(2, 2), mesh_of(4, ranks=[4, 5, 6, 7])
    dt = put(tensor, trainers, [Shard(0), Shard(1)])
    moved = redistribute(dt, [Shard(1)], mesh=servers)
    if dist.get_rank() >= 4:
        assert_moved(moved, tensor, servers, [Shard(1)])
    else:
        assert moved.to_local().numel() == 0


# --- Sums.


@case
def sums_are_added_up():
    mesh, tensor = mesh_of(2, 4), tensor_of(8, 12)
    combined = {"sum": sum, "max": lambda parts: max(parts), "min": lambda parts: min(parts)}
    for name, other in itertools.product(combined, WHOLE):
        source = [Partial(name), other]
        own = slice_of(tensor, mesh, [Replicate(), other]) + 100 * mesh.get_coordinate()[0]
        expected = tensor * 2 + 100 if name == "sum" else tensor + (100 if name == "max" else 0)
        for target in itertools.product(WHOLE, repeat=2):
            moved = redistribute(put(tensor, mesh, source, own.contiguous()), target)
            assert_moved(moved, expected, mesh, target)


def assert_same(some, other):
    """To the bit, but for what NaN carries."""
    torch.testing.assert_close(some, other, rtol=0, atol=0, equal_nan=True)
    numbers = ~torch.isnan(other)
    assert torch.equal(torch.signbit(some)[numbers], torch.signbit(other)[numbers])  # of zeros, too


@case
def sums_have_the_bits_of_the_engine():
    """Halves are added as f32 and rounded once, on any device; what retile has no name for is added as what it is."""
    mesh = mesh_of(8)
    numbers = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    numbers[:, :2] = torch.tensor([[0.0, -0.0], [-0.0, 0.0]]).repeat(4, 1)
    for dtype, name in itertools.product((torch.float16, torch.bfloat16, torch.int64), ("sum", "max", "min")):
        parts = (numbers * (1 if dtype.is_floating_point else 2**40)).to(dtype).to(DEVICE)
        own = parts[dist.get_rank()].clone()
        moved = redistribute(put(own, mesh, [Partial(name)], own), [Replicate()]).to_local()
        wide = parts.float() if dtype.is_floating_point else parts
        total = {"sum": sum(wide[1:], wide[0]), "max": wide.amax(0), "min": wide.amin(0)}[name]
        torch.testing.assert_close(moved, total.to(dtype), rtol=0, atol=0)
        assert_same(_point_to_point.combine_block(parts, name).to(dtype), moved)  # what other devices than CPUs do


@case
def nan_wins():
    mesh = mesh_of(8)
    own = torch.full((4,), math.nan if dist.get_rank() == 3 else 1.0, device=DEVICE)
    for name in ("sum", "max", "min"):
        assert redistribute(put(own, mesh, [Partial(name)], own), [Replicate()]).to_local().isnan().all()
        assert _point_to_point.combine_block(torch.tensor([[1.0], [math.nan], [2.0]]), name).isnan().all()


@case
def sums_may_stay_open():
    mesh, tensor = mesh_of(2, 4), tensor_of(8, 12)
    local = slice_of(tensor, mesh, [Replicate(), Shard(0)]) + mesh.get_coordinate()[0]
    moved = redistribute(put(tensor, mesh, [Partial(), Shard(0)], local), [Partial(), Shard(1)])
    expected = slice_of(tensor, mesh, [Replicate(), Shard(1)]) + mesh.get_coordinate()[0]
    assert moved.placements == (Partial(), Shard(1)) and torch.equal(moved.to_local(), expected)


# --- Gradients.


@case
def gradients_take_the_way_back():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 24)
    for source, target in itertools.product(itertools.product(WHOLE, repeat=2), repeat=2):
        dt = put(tensor, mesh, source).requires_grad_()
        weights = put(tensor * 3, mesh, target)
        (redistribute(dt, target) * weights).to_local().sum().backward()
        assert_moved(dt.grad, tensor * 3, mesh, source)  # what is replicated is neither summed nor divided


@case
def gradients_of_sums_are_replicated():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 24)
    dt = put(tensor, mesh, [Partial(), Shard(0)], slice_of(tensor, mesh, [Replicate(), Shard(0)]).clone())
    dt.requires_grad_()
    (redistribute(dt, [Shard(1), Shard(0)]) * put(tensor, mesh, [Shard(1), Shard(0)])).to_local().sum().backward()
    assert_moved(dt.grad, tensor, mesh, [Replicate(), Shard(0)])


@case
def gradients_of_sums_that_stay_open_stay_open():
    """Where what flows back is a part of a sum itself; as in DTensor's own, in versions that move such tensors."""
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 24)
    dt = put(tensor, mesh, [Partial(), Shard(0)], slice_of(tensor, mesh, [Replicate(), Shard(0)]).clone())
    own = redistribute(dt.requires_grad_(), [Partial(), Shard(1)])
    try:
        moves = [own, dt.redistribute(mesh, [Partial(), Shard(1)])]
    except RuntimeError:
        moves = [own]
    for kind in (Partial(), Replicate()):
        gradient = put(tensor, mesh, [kind, Shard(1)], slice_of(tensor, mesh, [Replicate(), Shard(1)]).clone())
        for moved in moves:
            dt.grad = None
            moved.backward(gradient, retain_graph=True)
            assert dt.grad.placements == (kind, Shard(0))
            assert torch.equal(dt.grad.to_local(), slice_of(tensor, mesh, [Replicate(), Shard(0)]))


@case
def gradients_cross_meshes():
    """Also where a rank is in one of them only."""
    tensor, rank = tensor_of(8, 12), dist.get_rank()
    trainers, servers = mesh_of(2, 2), mesh_of(4, ranks=[2, 3, 4, 5])
    nothing = tensor.new_empty(0)
    dt = put(tensor, trainers, [Shard(0), Shard(1)], None if rank < 4 else nothing).requires_grad_()
    moved = redistribute(dt, servers, [Shard(1)])
    gradient = put(tensor * 3, servers, [Shard(1)], None if 2 <= rank < 6 else tensor.new_empty(0, 0))
    moved.backward(gradient)
    if rank < 4:
        assert_moved(dt.grad, tensor * 3, trainers, [Shard(0), Shard(1)])


@case
def tensors_are_cast_before_they_move():
    mesh, tensor = mesh_of(8), tensor_of(16, 24) / 3
    for backward in (None, torch.bfloat16):
        dt = put(tensor, mesh, [Shard(0)]).requires_grad_()
        moved = redistribute(dt, [Shard(1)], forward_dtype=torch.bfloat16, backward_dtype=backward)
        assert_moved(moved.detach(), tensor.bfloat16(), mesh, [Shard(1)])
        moved.backward(put(tensor.bfloat16(), mesh, [Shard(1)]))
        assert_moved(dt.grad, tensor.bfloat16().float(), mesh, [Shard(0)])
    same = redistribute(dt.detach(), [Shard(0)], forward_dtype=torch.float64)
    assert_moved(same, tensor.double(), mesh, [Shard(0)])


@case
def arguments_come_in_dtensors_order():
    mesh, flat, tensor = mesh_of(2, 4), mesh_of(8), tensor_of(16, 24)
    dt = put(tensor, mesh, [Shard(0), Shard(1)])
    assert_moved(redistribute(dt, mesh, [Shard(1), Shard(0)]), tensor, mesh, [Shard(1), Shard(0)])
    assert_moved(redistribute(dt, flat, [Shard(1)], async_op=True), tensor, flat, [Shard(1)])
    assert_moved(redistribute(dt, placements=[Replicate()] * 2), tensor, mesh, [Replicate()] * 2)
    assert_moved(redistribute(dt, device_mesh=flat, placements=[Shard(0)]), tensor, flat, [Shard(0)])
    assert plan_of(dt, flat, [Shard(1)]).target.device_count == 8


@case
def machines_are_measured_with_messages():
    with mock.patch.object(_calibration, "TILE_BYTES", 1 << 20), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a machine that has much else to do
        try:
            machine = retile.torch.calibrate()
        except RuntimeError as error:  # on all ranks
            assert str(error).endswith("the machine is too busy to be measured")
            return
    machines = [None] * dist.get_world_size()
    dist.all_gather_object(machines, machine.to_json())
    assert len(set(machines)) == 1
    assert machine.hosts == [list(range(dist.get_world_size()))]
    assert json.loads(machine.to_json())["inside"]["rate"] > 0


@case
def plans_are_made_for_machines():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 24)
    dt = put(tensor, mesh, [Shard(0), Shard(1)])
    hosts = {"hosts": [[0, 1, 2, 3], [4, 5, 6, 7]], "link": {"out": 1e8, "in": 1e8}, "inside": {"rate": 1e9}}
    machine = retile.Machine({"name": "two hosts", **hosts})
    plan = plan_of(dt, [Shard(1), Shard(0)], machine=machine)
    assert plan.cost_model == "seconds" and plan.seconds >= plan.least_seconds > 0
    assert "on two hosts" in explain(dt, [Shard(1), Shard(0)], machine=machine)
    assert_moved(redistribute(dt, [Shard(1), Shard(0)], machine=machine), tensor, mesh, [Shard(1), Shard(0)])
    assert (
        message_of(plan_of, dt, [Shard(1), Shard(0)], machine="fast")
        == "machine is a retile.Machine or None, not 'fast'"
    )


@case
def averages_are_sums_that_are_divided():
    mesh, tensor = mesh_of(2, 4), tensor_of(8, 12)
    own = slice_of(tensor, mesh, [Replicate(), Shard(0)]) + 100 * mesh.get_coordinate()[0]
    for target in ([Replicate(), Shard(0)], [Shard(0), Shard(1)]):
        moved = redistribute(put(tensor, mesh, [Partial("avg"), Shard(0)], own), target)
        assert_moved(moved, tensor + 50, mesh, target)
    kept = redistribute(put(tensor, mesh, [Partial("avg"), Shard(0)], own), [Partial("avg"), Replicate()])
    assert torch.equal(kept.to_local(), tensor + 100 * mesh.get_coordinate()[0])
    mixed = redistribute(put(tensor, mesh, [Partial("avg"), Partial("sum")], tensor.clone()), [Shard(0), Shard(1)])
    assert_moved(mixed, tensor * 4, mesh, [Shard(0), Shard(1)])
    whole = put(tensor.int(), mesh, [Partial("avg"), Replicate()], tensor.int())
    assert message_of(redistribute, whole, [Replicate()] * 2) == (
        "(Partial(avg), Replicate()) of torch.int32 is no average of such elements"
    )


ANY_DEVICE = list(CASES)  # where tensors are matters to none of these


@case
def asynchronous_results_are_waited_for_where_they_are_used():
    mesh, tensor, target = mesh_of(8), tensor_of(64, 48), [Shard(1)]
    dt = put(tensor, mesh, [Shard(0)])

    def begin():
        return redistribute(dt, target, async_op=True, time_limit=20)

    # Were the others to wait for rank 0 in the call, it would never come.
    first = begin() if dist.get_rank() else None
    dist.barrier()
    first = begin() if first is None else first
    others = [redistribute(dt, placements, async_op=True) for placements in ([Replicate()], [Shard(1)])]
    assert_moved(redistribute(dt, target), tensor, mesh, target)  # after those that were begun
    assert all(type(one._local_tensor) is AsyncCollectiveTensor for one in (first, *others))
    assert_moved(first, tensor, mesh, target)
    assert_moved(redistribute(first, [Shard(0)]), tensor, mesh, [Shard(0)])
    for one in others:
        assert_moved(one + one, tensor * 2, mesh, one.placements)
    own = tensor + 100 * dist.get_rank()
    average = redistribute(put(tensor, mesh, [Partial("avg")], own), [Shard(0)], async_op=True)
    assert_moved(average, tensor + 350, mesh, [Shard(0)])
    limited = redistribute(dt, target, async_op=True, memory_limit=2**20)
    assert type(limited._local_tensor) is torch.Tensor


@case
def gradients_are_asynchronous_too():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 16)
    rows, columns = [Shard(0), Shard(0)], [Shard(1), Replicate()]
    dt = put(tensor, mesh, rows).requires_grad_()
    moved = redistribute(dt, columns, async_op=True)
    (moved * put(tensor, mesh, columns)).to_local().sum().backward()
    assert_moved(dt.grad, tensor, mesh, rows)


@case
def what_fails_asynchronously_is_told_at_every_use():
    mesh, tensor, group = mesh_of(8), tensor_of(16, 8), dist.new_group()
    dt = put(tensor, mesh, [Shard(0)], local=tensor.clone())  # each has all of it
    moved = redistribute(dt, [Shard(1)], async_op=True, group=group)
    for _ in range(2):
        said = message_of(lambda: moved.to_local() + 1)
        assert said == "this rank's tile has shape [16, 8], and (Shard(dim=0),) makes it [2, 8]"


@case
def the_compiler_sees_one_operation():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 24)
    operations = []

    def count(graph, inputs):
        operations.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    def function(x):
        return redistribute(x * 2, [Shard(1), Shard(1)]) + 1

    from torch._dynamo.backends.common import aot_autograd

    compiled = torch.compile(function, fullgraph=True, backend=aot_autograd(fw_compiler=count))
    dt = put(tensor, mesh, [Shard(0), Replicate()]).requires_grad_()
    moved = compiled(dt)
    assert_moved(moved, tensor * 2 + 1, mesh, [Shard(1), Shard(1)])
    assert operations.count("retile.redistribute.default") == 1, operations
    (moved * put(tensor, mesh, [Shard(1), Shard(1)])).to_local().sum().backward()
    assert_moved(dt.grad, tensor * 2, mesh, [Shard(0), Replicate()])
    torch.library.opcheck(
        torch.ops.retile.redistribute.default,
        (dt.to_local().detach(), _movements.request_text(*[mesh, (Shard(0), Replicate())] * 2, ("auto", None)),
         (16, 24), torch.float32, torch.float32),
        test_utils=("test_schema", "test_faketensor"),
    )  # fmt: skip


@case
def compiled_functions_take_any_shape():
    mesh = mesh_of(2, 4)

    def function(x):
        return redistribute(x, [Shard(1), Shard(0)]) + 1

    for dynamic in (None, True):
        torch.compiler.reset()
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for rows in (8, 16, 21):  # the last of which does not divide
            tensor = tensor_of(rows, 16)
            assert_moved(compiled(put(tensor, mesh, [Shard(0), Shard(1)])), tensor + 1, mesh, [Shard(1), Shard(0)])


@case
def traces_of_other_kinds_have_the_operation_too():
    mesh, tensor = mesh_of(2, 4), tensor_of(8, 16)
    ends = [Shard(0), Shard(1)], [Shard(1), Shard(0)]

    def move(tile):
        dt = DTensor.from_local(tile, mesh, ends[0], run_check=False)
        return redistribute(dt, ends[1]).to_local()

    traced = make_fx(move)(slice_of(tensor, mesh, ends[0]).contiguous())
    assert str(traced.graph).count("retile.redistribute") == 1
    moved = traced(slice_of(tensor + 1, mesh, ends[0]).contiguous())
    assert torch.equal(moved, slice_of(tensor + 1, mesh, ends[1]))


@case
def fake_tensors_are_moved_before_any_real_one():
    mesh = mesh_of(4, 2, names=("not", "seen"))
    with FakeTensorMode():
        dt = DTensor.from_local(torch.empty(2, 4), mesh, [Shard(0), Shard(1)], run_check=False)
        assert redistribute(dt, [Shard(1), Replicate()]).to_local().shape == (8, 2)


# --- Right where DTensor is wrong.


@case
def meshes_in_another_order_are_kept():
    mesh, tensor = mesh_of(8, ranks=[7, 6, 5, 4, 3, 2, 1, 0]), tensor_of(8, 16)
    moves = [([Shard(0)], [Shard(1)]), ([Shard(0)], [Replicate()])]
    theirs = [all_ranks(is_slice(put(tensor, mesh, s).redistribute(mesh, t), tensor, mesh, t)) for s, t in moves]
    ours = [all_ranks(is_slice(redistribute(put(tensor, mesh, s), t), tensor, mesh, t)) for s, t in moves]
    with enabled():
        taken = [all_ranks(is_slice(put(tensor, mesh, s).redistribute(mesh, t), tensor, mesh, t)) for s, t in moves]
    assert ours == taken == [8, 8]
    assert theirs == [0, 0]  # of 8 ranks right; where this fails, DTensor has learnt it


@case
def flattened_meshes_keep_uneven_shards():
    mesh, tensor = init_device_mesh(DEVICE, (2, 4), mesh_dim_names=("x", "y")), tensor_of(10, 3)
    source, target = [Shard(0), Shard(0)], [Replicate(), Replicate()]
    assert_moved(put(tensor, mesh, source).redistribute(mesh, target), tensor, mesh, target)
    mesh._flatten()  # from now on DTensor gathers along both dimensions at once
    theirs = all_ranks(is_slice(put(tensor, mesh, source).redistribute(mesh, target), tensor, mesh, target))
    assert_moved(redistribute(put(tensor, mesh, source), target), tensor, mesh, target)
    with enabled():
        assert_moved(put(tensor, mesh, source).redistribute(mesh, target), tensor, mesh, target)
    assert theirs == 0 or torch.__version__ < "2.7"  # which gathers along one after the other


# --- Inside DTensor.


def statistics_of(function):
    """What the function gives where plans are enabled, how many movements went by plans, and why others did not."""
    before = retile.torch.statistics()
    with enabled():
        result = function()
    after = retile.torch.statistics()
    left = {reason: count - before.left.get(reason, 0) for reason, count in after.left.items()}
    return result, after.moved - before.moved, {reason: count for reason, count in left.items() if count}


def counted(function):
    result, moved, _ = statistics_of(function)
    return result, moved


@case
def dtensors_own_redistributions_go_by_plans():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 16)
    rows, columns = [Shard(0), Shard(0)], [Shard(1), Shard(1)]
    moved, count = counted(lambda: put(tensor, mesh, rows).redistribute(mesh, columns))
    assert_moved(moved, tensor, mesh, columns)
    assert count == 1
    moved, count = counted(lambda: put(tensor, mesh, rows) + put(tensor, mesh, columns))  # which have to meet
    assert_moved(moved, tensor * 2, mesh, moved.placements)
    assert count == 1
    product, count = counted(lambda: put(tensor, mesh, columns) @ put(tensor, mesh, rows))
    full, more = counted(product.full_tensor)
    torch.testing.assert_close(full, tensor @ tensor)
    assert more == 1  # the sum


@case
def dtensors_gradients_go_by_plans():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 16)

    def run():
        dt = put(tensor, mesh, [Shard(0), Shard(0)]).requires_grad_()
        moved = dt.redistribute(mesh, [Shard(1), Replicate()])
        (moved * put(tensor, mesh, [Shard(1), Replicate()])).to_local().sum().backward()
        return dt.grad

    gradient, count = counted(run)
    assert_moved(gradient, tensor, mesh, [Shard(0), Shard(0)])
    assert count == 2


@case
def what_retile_does_not_know_stays_with_dtensor():
    mesh, tensor = mesh_of(8), tensor_of(8, 16)
    dt = put(tensor, mesh, [Partial("product")], tensor.clamp(max=1))
    moved, count = counted(lambda: dt.redistribute(mesh, [Replicate()]))
    assert_moved(moved, tensor.clamp(max=1), mesh, [Replicate()])
    assert count == 0
    original = torch.distributed.tensor._redistribute.redistribute_local_tensor
    with enabled():
        assert torch.distributed.tensor._redistribute.redistribute_local_tensor is not original
    assert torch.distributed.tensor._redistribute.redistribute_local_tensor is original


@case
def shards_in_an_order_of_their_own_stay_with_dtensor():
    if not hasattr(_dtensor_spec, "ShardOrderEntry"):
        return
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 8)
    x, y = mesh.get_coordinate()
    meta = _dtensor_spec.TensorMeta(tensor.shape, tensor.stride(), tensor.dtype)
    order = (_dtensor_spec.ShardOrderEntry(0, (1, 0)),)
    spec = _dtensor_spec.DTensorSpec(mesh, (Shard(0), Shard(0)), tensor_meta=meta, shard_order=order)
    dt = DTensor(tensor.chunk(4)[y].chunk(2)[x].contiguous(), spec, requires_grad=False)
    assert message_of(redistribute, dt, [Replicate(), Replicate()]) == (
        "the source's shards are in an order of their own (shard_order), which retile does not know"
    )
    with enabled():
        assert torch.equal(dt.full_tensor(), tensor)


@case
def redistributions_are_counted():
    mesh, tensor = mesh_of(8), tensor_of(8, 16)
    product = put(tensor, mesh, [Partial("product")], tensor.clamp(max=1))
    _, moved, left = statistics_of(lambda: product.redistribute(mesh, [Replicate()]))
    assert (moved, left) == (0, {f"{Partial('product')!r} is no placement that retile knows": 1})
    flags = put(tensor, mesh, [Partial("max")], tensor > 1)
    _, moved, left = statistics_of(lambda: flags.redistribute(mesh, [Replicate()]))
    assert (moved, left) == (0, {"parts of bool cannot be combined": 1})
    waited, moved, left = statistics_of(
        lambda: put(tensor, mesh, [Shard(0)]).redistribute(mesh, [Replicate()], async_op=True).to_local() + 0
    )
    assert (moved, left) == (1, {}) and torch.equal(waited, tensor)
    with mock.patch.object(_process_groups, "has_thread", return_value=False):  # as for tensors on a GPU
        waited, moved, left = statistics_of(
            lambda: put(tensor, mesh, [Shard(0)]).redistribute(mesh, [Replicate()], async_op=True).to_local() + 0
        )
    assert (moved, left) == (0, {"async_op on a GPU or in a graph": 1}) and torch.equal(waited, tensor)
    _, moved, left = statistics_of(lambda: put(tensor, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)]))
    assert (moved, left) == (1, {})
    total = retile.torch.statistics()
    assert str(total).startswith(f"{total.moved} by plans, {sum(total.left.values())} left to DTensor\n  ")


@case
def sums_of_masked_rows_and_of_powers_go_by_plans():
    mesh, tensor = mesh_of(8), tensor_of(16, 24)
    indices = torch.tensor([0, 3, 15, 7, 7])
    table, positions = put(tensor, mesh, [Shard(0)]), put(indices, mesh, [Replicate()])
    embed = torch.nn.functional.embedding
    found, moved, left = statistics_of(lambda: embed(positions, table).full_tensor())
    assert torch.equal(found, tensor[indices])
    assert (moved, left) == (1, {"a target that is a sum, to which nothing is moved": 1})  # where indices are masked
    masked = embed(positions, table)
    assert_moved(redistribute(masked, [Shard(0)]), tensor[indices], mesh, [Shard(0)])
    for exponent in (2, 3):
        norm, moved, left = statistics_of(lambda p=exponent: torch.linalg.vector_norm(table, p).full_tensor())
        torch.testing.assert_close(norm, torch.linalg.vector_norm(tensor, exponent))
        assert moved == 1 and not left, (moved, left)
    mean, moved, left = statistics_of(lambda: table.mean().full_tensor())
    assert mean == tensor.mean() and moved == 1 and not left, (moved, left)


@case
def compiled_functions_go_by_plans():
    """Of other shapes, DTensor's own where the compiler makes a graph for any shape."""
    mesh = mesh_of(2, 4)

    def function(x):
        return x.redistribute(mesh, [Shard(1), Shard(0)]) + 1

    with enabled():
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        for rows in (8, 16, 24):
            tensor = tensor_of(rows, 16)
            assert_moved(compiled(put(tensor, mesh, [Shard(0), Shard(1)])), tensor + 1, mesh, [Shard(1), Shard(0)])


@case
def ranks_in_one_process_stay_with_dtensor():
    """LocalTensorMode has all ranks' tensors in one; a threaded process group has no messages."""
    try:
        from torch.distributed._local_tensor import LocalTensorMode
    except ImportError:
        return
    mesh, tensor = mesh_of(8), tensor_of(16, 24)
    with enabled(), LocalTensorMode(8):
        local = put(tensor, mesh, [Replicate()], tensor.clone()).redistribute(mesh, [Shard(0)]).to_local()
    assert tuple(local.shape) == (2, 24)
    with mock.patch.object(_process_groups, "BACKENDS_WITHOUT_MESSAGES", frozenset({"gloo"})):
        dt = put(tensor, mesh, [Shard(0)])
        _, moved, left = statistics_of(lambda: dt.redistribute(mesh, [Shard(1)]))
        assert (moved, left) == (0, {"the backend 'gloo' has no messages between processes": 1})
        assert message_of(redistribute, dt, [Replicate()]) == "the backend 'gloo' has no messages between processes"


@case
def versions_that_retile_does_not_know_are_refused():
    own = torch.distributed.tensor._redistribute.redistribute_local_tensor
    version = torch.__version__
    torch.distributed.tensor._redistribute.redistribute_local_tensor = lambda tensor, spec: tensor
    torch.__version__ = "2.5.1"
    try:
        message = message_of(enabled().__enter__)
    finally:
        torch.distributed.tensor._redistribute.redistribute_local_tensor = own
        torch.__version__ = version
    assert message == (
        "PyTorch 2.5.1 is older than 2.6\nPyTorch 2.5.1 redistributes in a way that retile does not know"
    )


# --- What it says.


@case
def the_pages_code_runs():
    from test_docs import DOCS, blocks_of

    (block,) = blocks_of((DOCS / "python.md").read_text().split("## From PyTorch")[1])
    names = {
        "tensor": tensor_of(16, 24).requires_grad_(),
        "mesh": mesh_of(2, 4),
        "other_mesh": mesh_of(4, ranks=[7, 6, 5, 4]),
        "model": lambda x: x * 2,
    }
    exec(compile(block, "python.md", "exec"), names)
    assert_moved(names["columns"].detach(), tensor_of(16, 24), names["mesh"], [Shard(1), Shard(1)])


@case
def plans_can_be_seen_before_they_run():
    mesh, tensor = mesh_of(2, 4, names=("dp", "tp")), tensor_of(16, 24)
    dt = put(tensor, mesh, [Shard(0), Replicate()])
    assert [step.op for step in plan_of(dt, [Shard(1), Shard(1)]).steps] == ["exchange"]
    rank = dist.get_rank()
    assert explain(dt, [Replicate(), Replicate()], planner="paper") == (
        "mesh {dp: 2, tp: 4}  // planner paper\n"
        "  [8{dp}16, 24]  // 192 elements per device, (Shard(dim=0), Replicate())\n"
        "    -> allgather(0; 2)  // cost 192\n"
        "  [16, 24]       // 384, (Replicate(), Replicate())\n"
        "// cost 192 (volume, optimal over all plans), floor 192\n"
        "// largest tile 384 elements per device, no more than the larger of source and target\n"
        f"// rank {rank} sends 768 bytes in 1 message, and receives 768 bytes in 1 message\n"
    )
    alone = put(tensor, mesh_of(2, ranks=[1, 2]), [Shard(0)], None if rank in (1, 2) else torch.empty(0))
    taken = "sends 384 bytes in 1 message, and receives 384 bytes in 1 message" if rank in (1, 2) else "takes no part"
    assert explain(alone, [Shard(1)]).endswith(f"// rank {rank} {taken}\n")
    some = dist.new_group([0, 1])
    if rank < 2:
        for function in (plan_of, explain):
            assert message_of(function, dt, [Shard(1), Shard(1)], group=some) == (
                "the process group of ranks 0 to 1 has no ranks 2 to 7, which a mesh names"
            )


@case
def memory_limits_name_the_smallest_that_works():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 24)
    dt = put(tensor, mesh, [Shard(0), Shard(0)])
    message = message_of(redistribute, dt, [Shard(1), Shard(1)], memory_limit=10, error=retile.MemoryLimitError)
    assert message.startswith("error: a memory limit of 10 bytes per device is too small"), message
    smallest = int(message.split("the smallest limit that works is ")[1].split(" bytes")[0].replace(",", ""))
    assert_moved(redistribute(dt, [Shard(1), Shard(1)], max_bytes=smallest), tensor, mesh, [Shard(1), Shard(1)])


@case
def everything_that_is_wrong_is_said_at_once():
    mesh, tensor = mesh_of(2, 4), tensor_of(16, 24)
    dt = put(tensor, mesh, [Shard(0), Replicate()])
    assert message_of(redistribute, dt, [Shard(2), Partial("product"), Partial()]) == (
        f"{Partial('product')!r} is no placement that retile knows\n"
        "there are 3 placements for a mesh of 2 dimensions\n"
        "Shard(dim=2) cuts a dimension that a tensor of 2 dimensions has not\n"
        f"{Partial('product')!r} cannot be a target: the source is no such sum on this mesh"
    )
    assert message_of(redistribute, tensor, [Shard(0)]) == "Tensor is no DTensor"
    assert message_of(redistribute, dt, [Shard(0), Shard(0)], planner="fast") == (
        "error: 'fast' is no planner\nhint: one of: auto, wide, paper, direct, lean, gather-slice, two-level"
    )
    assert message_of(redistribute, dt, mesh, [Shard(0), Shard(0)], mesh=mesh) == "the mesh is given twice"
    assert message_of(redistribute, dt, Shard(0)) == (
        "Shard(dim=0) is no list of placements, one for each dimension of the mesh"
    )
    assert message_of(redistribute, dt, [Shard, Shard(0)], mesh=(2, 4), memory_limit="1MB") == (
        "memory_limit is a whole number of bytes, not '1MB'\n"
        f"{Shard!r} is no placement that retile knows\n"
        "mesh is a DeviceMesh, not (2, 4)"
    )
    assert message_of(redistribute, dt, [Shard(1)] * 2, time_limit=0, memory_limit=True) == (
        "memory_limit is a whole number of bytes, not True\ntime_limit is a number of seconds above 0, not 0"
    )
    assert message_of(redistribute, dt, [Shard(1)] * 2, group=8) == "group is no process group that this rank is in"
    scalar = put(torch.tensor(1.0), mesh, [Replicate(), Replicate()])
    assert message_of(redistribute, scalar, (one for one in [Shard(0), Replicate()])) == (
        "Shard(dim=0) cuts a dimension that a tensor of 0 dimensions has not"
    )
