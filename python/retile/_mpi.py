"""NumPy arrays, one on each rank of MPI, moved by the ranks among themselves. MPI's datatypes describe where boxes
lie."""

import functools
import types
from collections.abc import Sequence
from typing import Any

from retile import _retile
from retile._elements import ELEMENT_TYPES
from retile._errors import InputError
from retile._numpy import array_faults
from retile._retile import Plan

ONE_MESSAGE = 2**62  # bytes, so that all that one rank sends another is one message


def redistribute(tile: Any, plan: Plan, out: Any, comm: Any) -> Any:
    """Moves this rank's tile, and returns its tile of the plan's target. Ranks of the communicator are the plan's
    devices."""
    import numpy

    tile = numpy.asanyarray(tile)
    rank, target = comm.Get_rank(), plan.target
    shape = target.tile_shape(rank) if rank < target.device_count else (0,) * len(target.shape)
    result = numpy.empty(shape, tile.dtype) if out is None else out
    _refuse_together(_faults(tile, result, plan, comm), tile.dtype.str, comm)
    # Rows that are added up lie one after the other, before and after the addition.
    is_sum = bool(plan.source.partial)
    packed_source = numpy.ascontiguousarray(tile) if is_sum else tile
    packed_target = numpy.empty_like(result, order="C") if is_sum and not result.flags.c_contiguous else result
    _run(packed_source, packed_target, plan, comm)
    if packed_target is not result:
        result[...] = packed_target
    return result


def _faults(tile: Any, result: Any, plan: Plan, comm: Any) -> list[str]:
    import numpy

    faults = array_faults(tile, "the source") + array_faults(result, "the target")
    if faults:
        return faults
    rank = comm.Get_rank()
    devices = max(plan.source.device_count, plan.target.device_count)
    if comm.Get_size() < devices:
        faults.append(f"the communicator has {comm.Get_size()} ranks for {devices} devices")
    for array, layout, what in ((tile, plan.source, "source"), (result, plan.target, "target")):
        expected = layout.tile_shape(rank) if rank < layout.device_count else array.shape
        if tuple(array.shape) != tuple(expected):
            faults.append(f"the {what} has shape {list(array.shape)}, not {list(expected)}")
        if array.dtype != tile.dtype:
            faults.append(f"the {what} has elements of {array.dtype}, the source of {tile.dtype}")
    if not result.flags.writeable:
        faults.append("the target is read-only")
    if numpy.shares_memory(tile, result):
        faults.append("the target overlaps the source")
    return faults


def _refuse_together(faults: list[str], dtype: str, comm: Any) -> None:
    """Makes all ranks refuse what one of them cannot do, so that no rank waits for it."""
    found = comm.allgather((faults, dtype))
    lines = [f"rank {rank}: {fault}" for rank, (own, _) in enumerate(found) for fault in own]
    types = {dtype for _, dtype in found}
    if len(types) > 1:
        lines.append(f"ranks have different elements: {', '.join(sorted(types))}")
    if lines:
        raise InputError("\n".join(lines))


@functools.lru_cache(maxsize=64)
def _schedule(plan: Plan, rank: int, itemsize: int, source: tuple[int, ...], target: tuple[int, ...]) -> list:
    return _retile.schedule(plan, rank, itemsize, ONE_MESSAGE, list(source), list(target))


def _run(tile: Any, result: Any, plan: Plan, comm: Any) -> None:
    import numpy

    rank = comm.Get_rank()
    ends = [() if array.flags.c_contiguous else array.strides for array in (tile, result)]
    if rank < max(plan.source.device_count, plan.target.device_count):
        stages = _schedule(plan, rank, tile.itemsize, *ends)
    else:  # it takes part in collective calls
        stages = [(0, [], [], reduction) for *_, reduction in _schedule(plan, 0, tile.itemsize, (), ())]
    for number, (elements, copies, rounds, reduction) in enumerate(stages):
        after = result if number + 1 == len(stages) else numpy.empty(elements, tile.dtype)
        if reduction is not None:
            _combine(tile, after, reduction)
        else:
            _exchange(tile, after, rounds, comm)
            for source, target in copies:
                numpy.copyto(_view(after, target), _view(tile, source))
        tile = after


def _view(array: Any, region: tuple) -> Any:
    """A view of an array's elements, wherever they lie in its memory."""
    import numpy

    offset, shape, strides = region
    place = {"data": (array.ctypes.data + offset, False), "shape": tuple(shape), "strides": tuple(strides)}
    return numpy.asarray(types.SimpleNamespace(__array_interface__=array.__array_interface__ | place))


def _combine(tile: Any, result: Any, reduction: str) -> None:
    """Combines the tile's rows in order, like the engines; elements that retile has no name for like NumPy."""
    import numpy

    if result.size == 0:
        return
    total, rows = result.reshape(-1), tile.reshape(-1, result.size)
    element = ELEMENT_TYPES.get(str(tile.dtype))
    if element is not None:
        _retile.combine(reduction, element, *rows.shape, rows.ctypes.data, total.ctypes.data)
        return
    combined = {"sum": numpy.add, "max": numpy.maximum, "min": numpy.minimum}[reduction]
    total[:] = rows[0]
    for row in rows[1:]:
        combined(total, row, out=total)


def _exchange(tile: Any, result: Any, rounds: list, comm: Any) -> None:
    from mpi4py import MPI

    ends = []
    for array, messages in zip((tile, result), zip(*rounds, strict=True) if rounds else ((), ()), strict=True):
        kinds = [MPI.BYTE] * comm.Get_size()
        for peer, _, regions in filter(None, messages):
            kinds[peer] = _datatype(array, regions)
        ends.append([MPI.BOTTOM, [int(kind != MPI.BYTE) for kind in kinds], [0] * len(kinds), kinds])
    comm.Alltoallw(*ends)
    for kind in (kind for end in ends for kind in end[3] if kind != MPI.BYTE):
        kind.Free()


def _datatype(array: Any, regions: list) -> Any:
    """The datatype of regions of the array, by their addresses in memory."""
    from mpi4py import MPI

    kinds = [_region_datatype(array.itemsize, shape, strides) for _, shape, strides in regions]
    places = [array.ctypes.data + offset for offset, _, _ in regions]
    whole = MPI.Datatype.Create_struct([1] * len(kinds), places, kinds).Commit()
    for kind in kinds:
        kind.Free()
    return whole


def _region_datatype(itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
    from mpi4py import MPI

    # Dimensions without gaps between them are one run.
    run, inner = itemsize, len(shape)
    while inner > 0 and (strides[inner - 1] == run or shape[inner - 1] == 1) and run * shape[inner - 1] < 2**31:
        inner -= 1
        run *= shape[inner]
    kind = MPI.BYTE.Create_contiguous(run)
    for length, stride in zip(reversed(shape[:inner]), reversed(strides[:inner]), strict=True):
        outer = kind.Create_hvector(length, 1, stride)
        kind.Free()
        kind = outer
    return kind
