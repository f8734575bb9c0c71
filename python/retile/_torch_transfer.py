"""Transfers of whole models of PyTorch tensors, between the ranks of any process group that carries tensors of the
host."""

import contextlib
import difflib
import itertools
import json
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

import retile
from retile import _retile
from retile._elements import element_type
from retile._errors import InputError
from retile._recording import Recorder
from retile._retile import Layout, Machine, Mesh
from retile._shardings import device_mesh_values, dtensor_layout, from_placements, placement_values, unless_in_order
from retile._transfer import Transfer as _Transfer
from retile._transfer_claims import Memory, catalogue_of, require

TAG = 25713  # keeps messages apart from others of the group


class _ProcessGroup:
    """A process group of PyTorch. Ranks are those in the group."""

    def __init__(self, group: Any):
        self._group = dist.group.WORLD if group is None else group
        self.rank, self.size = dist.get_rank(self._group), dist.get_world_size(self._group)
        if self.rank < 0:
            raise InputError("this rank is not in the group")
        self.world = [dist.get_global_rank(self._group, rank) for rank in range(self.size)]

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, self._group)
        return values

    def most(self, number: int) -> int:
        result = torch.tensor([number])
        dist.all_reduce(result, dist.ReduceOp.MAX, self._group)
        return int(result)

    def send(self, message: memoryview, peer: int) -> Any:
        return dist.isend(torch.frombuffer(message, dtype=torch.uint8), self.world[peer], self._group, TAG)

    def receive(self, message: memoryview, peer: int) -> Any:
        return dist.irecv(torch.frombuffer(message, dtype=torch.uint8), self.world[peer], self._group, TAG)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def _place_of(error: Exception) -> str:
    """The loader's file and line: the last ones outside of this package and PyTorch."""
    packages = tuple(str(Path(module.__file__).parent) + os.sep for module in (retile, torch))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(packages)]
    return ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-1:])


class Transfer(_Transfer):
    """Moves the tensors of a whole model between the ranks of a process group, within a cap on what a rank holds beside
    them: for example from trainers to servers, whose ranks the group joins.

    Every rank adds the tensors that it has and those that it wants: DTensors, tensors with their layout over the ranks
    of the group, boxes, or whole tensors. No rank knows those of others. `commit` compares and plans; `start` moves, as
    often as it is called. Tensors are in the memory of the host.

        t = retile.torch.Transfer(group=joint, max_bytes=256 << 20, verify="crc32")
        t.add_sources(model.named_parameters(), dtype=torch.bfloat16)      # on trainers
        t.add_target("q_proj", qkv[:64], box=((0, 64), (0, 512)))          # on servers
        print(t.commit())
        work = t.start()
        work.wait("layers.0")
        work.wait()
    """

    def __init__(
        self,
        *,
        group: Any = None,
        max_bytes: int | str = 256 << 20,
        verify: str | None = None,
        host: str | None = None,
        machine: Machine | None = None,
        transport: str = "auto",
    ):
        """`group` is a process group (the default one if omitted) or a group of your own: see
        `retile._transfer_work.Group`. `host` names this rank's host; the default is the system's name. A `machine`
        names the hosts of all ranks; the plan of `commit` then tells how long the transfer takes on it. With
        `transport="messages"`, ranks of one host send each other what they could read from each other's memory."""
        is_own = group is not None and not isinstance(group, dist.ProcessGroup)
        super().__init__(group if is_own else _ProcessGroup(group), max_bytes, verify, host, machine, transport)

    @contextlib.contextmanager
    def record(self, model: torch.nn.Module) -> Iterator[list[tuple[str, torch.Tensor]]]:
        """Adds as targets what a loader of weights copies into the model.

            with t.record(model) as weights:
                model.load_weights(weights)

        `weights` are the arrays that other ranks add as sources, by name, as tensors without data: the loader may take
        views of them, copy, widen and join them. A rank that records waits here until all others are in record() or
        commit(). commit() reports what the loader does that cannot be recorded.
        """
        arrays = [(name, shape, getattr(torch, dtype)) for name, shape, dtype in catalogue_of(self._gather_sources())]
        recorder = Recorder(arrays, itertools.chain(model.parameters(), model.buffers()))
        try:
            with recorder:
                yield recorder.weights
        except InputError as error:
            self._faults.append(str(error))
        except Exception as error:  # the other ranks are told by commit()
            self._faults.append(f"the loader failed at {_place_of(error)}: {type(error).__name__}: {error}")
        self._faults += recorder.unfilled_faults()
        for name, (lo, hi), memory in recorder.copies:
            self._add(name, memory, None, list(zip(lo, hi, strict=True)), None, True)

    def _memory_of(self, array: Any) -> Memory:
        if not isinstance(array, torch.Tensor):
            raise InputError(f"it is of type {type(array).__name__}, not a tensor")
        tensor = _local(array)
        if tensor.device.type != "cpu":
            raise InputError(f"it is on {tensor.device}, and tensors in the memory of the host are moved")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            raise InputError("it does not lie in memory as its elements are")
        strides = tuple(stride * tensor.itemsize for stride in tensor.stride())
        return Memory(tensor.data_ptr(), tuple(tensor.shape), strides, tensor.dtype, tensor.itemsize)

    def _address_of(self, array: torch.Tensor) -> int:
        return _local(array).data_ptr()

    def _layout_of(self, array: torch.Tensor) -> Layout | None:
        if not isinstance(array, DTensor):
            return None
        names, sizes, ranks = device_mesh_values(array.device_mesh)
        world = getattr(self._group, "world", range(self._group.size))
        places = {rank: place for place, rank in enumerate(world)}
        missing = [rank for rank in ranks if rank not in places]
        if missing:
            raise InputError(f"rank {missing[0]} of its mesh is not in the group")
        placements = [placement_values(one) for one in array.placements]
        return dtensor_layout(names, sizes, [places[rank] for rank in ranks], placements, array.shape)

    def _dtype_of(self, dtype: Any) -> Any:
        if not isinstance(dtype, torch.dtype):
            raise InputError(f"dtype is a type of PyTorch's, not {dtype!r}")
        return dtype


# --- Manifests.


class _End:
    """The source or the target of a manifest: the layout of each tensor, by name. Devices are ranks of the world."""

    def __init__(self, tensors: Any):
        if isinstance(tensors, torch.nn.Module):
            tensors = tensors.named_parameters()
        self.tensors = dict(tensors.items() if isinstance(tensors, Mapping) else tensors)
        meshes = {one.device_mesh: None for one in self.tensors.values() if isinstance(one, DTensor)}
        self._ranks = sorted({rank for mesh in meshes for rank in device_mesh_values(mesh)[2]}) or [0]
        self._known: dict[Any, Layout] = {}

    def layout(self, name: str, shape: Sequence[int]) -> Layout:
        """The layout of a tensor. Raises InputError where what is given is no layout for such a tensor."""
        given, shape = self.tensors[name], tuple(shape)
        if isinstance(given, Layout):
            layout = given
        elif isinstance(given, torch.Tensor) and tuple(given.shape) != shape:
            raise InputError(f"the target has shape {list(given.shape)}, and the source {list(shape)}")
        elif isinstance(given, DTensor):
            layout = self._placed(given.device_mesh, tuple(given.placements), shape)
        elif isinstance(given, torch.Tensor):
            layout = self._everywhere(shape)
        elif isinstance(given, tuple) and len(given) == 2:
            layout = self._placed(given[0], tuple(given[1]), shape)
        else:
            raise InputError(f"{given!r} is no tensor, layout or pair (mesh, placements)")
        if layout.partial:
            raise InputError("it is a sum: redistribute it first")
        return layout

    def _placed(self, mesh: Any, placements: tuple[Any, ...], shape: tuple[int, ...]) -> Layout:
        key = mesh, placements, tuple(map(type, placements)), shape
        if key not in self._known:
            self._known[key] = from_placements(mesh, placements, shape)
        return self._known[key]

    def _everywhere(self, shape: tuple[int, ...]) -> Layout:
        if shape not in self._known:
            mesh = Mesh({"rank": len(self._ranks)})
            self._known[shape] = Layout.cut(mesh, shape, [[]] * len(shape), devices=unless_in_order(self._ranks))
        return self._known[shape]


def manifest(model: Any, targets: Any, *, dtype: torch.dtype | None = None) -> str:
    """The manifest of a transfer, for `retile transfer`: a line for each tensor that `targets` names. Nothing moves,
    and tensors need no data: a model on the meta device suffices, in a world of the backend "fake".

        Path("model.jsonl").write_text(retile.torch.manifest(model, {"lm_head.weight": (mesh, [Shard(0)])}))

    `model` is a module, or a mapping or pairs of names and DTensors. `targets` is a second model, or maps names to
    DTensors, pairs (mesh, placements) or layouts. A tensor that is no DTensor is whole on every rank that has DTensors
    of its model. Devices are ranks of the world. `dtype` is the type that tensors are converted to on their way.
    """
    source, target = _End(model), _End(targets)
    lines: dict[Any, str] = {}
    faults, text = [], []
    for name in target.tensors:
        try:
            problem = _problem(source, target, name, dtype)
            if problem not in lines:
                lines[problem] = _retile.problem_json(*problem)[1:]
            text.append(f'{{"name":{json.dumps(name)},{lines[problem]}\n')
        except InputError as error:
            faults.append(f'"{name}": {error}')
    require(faults)
    return "".join(text)


def _problem(source: _End, target: _End, name: str, dtype: torch.dtype | None) -> tuple[Layout, Layout, str]:
    if name not in source.tensors:
        near = difflib.get_close_matches(name, source.tensors, 1)
        raise InputError("the model has no such tensor" + (f': did you mean "{near[0]}"?' if near else ""))
    tensor, wanted = source.tensors[name], target.tensors[name]
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"the model has {type(tensor).__name__} under this name, not a tensor")
    sent = tensor.dtype if dtype is None else dtype
    if isinstance(wanted, torch.Tensor) and wanted.dtype != sent:
        raise InputError(f"it is sent as {sent}, and the target is of {wanted.dtype}\nhint: dtype=… converts it")
    return source.layout(name, tensor.shape), target.layout(name, tensor.shape), element_type(sent)
