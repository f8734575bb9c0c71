"""Checkpoints of safetensors, read into PyTorch's tensors: whole models or files of ranks, into DTensors of any mesh.

Each rank reads the bytes that it holds, and no others; no rank waits for another.

    weights = retile.checkpoint.load("model", {"*.bias": (mesh, [Replicate()]), "*": (mesh, [Replicate(), Shard(0)])})
    retile.checkpoint.load("ranks", model.state_dict(), layouts="layouts.jsonl")    # as `retile reshard` wrote them
"""

import dataclasses
import fnmatch
import json
import math
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from retile._errors import InputError
from retile._retile import Layout, Mesh
from retile._shardings import device_mesh_values, dtensor_layout, placement_values

__all__ = ["load"]

_TYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}

Box = tuple[Sequence[int], Sequence[int]]  # first elements, and those behind the last


def _places(boxes: Sequence[Box]) -> list[dict[int, int]]:
    """Where the intervals of boxes begin in a tile that has them side by side, by dimension and first element."""
    places: list[dict[int, int]] = []
    for dimension in range(len(boxes[0][0])):
        at, found = 0, {}
        for low, high in sorted({(lo[dimension], hi[dimension]) for lo, hi in boxes}):
            found[low] = at
            at += high - low
        places.append(found)
    return places


class _Tile:
    """A dense tensor that has these boxes of an array."""

    def __init__(self, tensor: torch.Tensor, boxes: Sequence[Box]):
        self.tensor, self.boxes, self._places = tensor, boxes, _places(boxes)

    def part(self, box: Box, low: Sequence[int], high: Sequence[int]) -> torch.Tensor:
        """The elements from `low` to `high`, which are in the box."""
        starts = [places[first] - first for places, first in zip(self._places, box[0], strict=True)]
        return self.tensor[tuple(slice(a + s, b + s) for a, b, s in zip(low, high, starts, strict=True))]


@dataclasses.dataclass
class _Stored:
    """A tensor in a file."""

    path: Path
    dtype: str
    shape: list[int]
    offset: int

    def tensor(self, maps: dict[Path, mmap.mmap]) -> torch.Tensor:
        if self.dtype not in _TYPES:
            raise InputError(f"{self.path}: elements of type {self.dtype} are not known to PyTorch")
        if self.path not in maps:
            with self.path.open("rb") as file:
                maps[self.path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        count = math.prod(self.shape)
        if count == 0:
            return torch.empty(self.shape, dtype=_TYPES[self.dtype])
        flat = torch.frombuffer(maps[self.path], dtype=_TYPES[self.dtype], count=count, offset=self.offset)
        return flat.view(self.shape)


def _header(path: Path) -> dict[str, _Stored]:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            size = file.seek(0, 2)
    except (OSError, ValueError, struct.error) as error:
        raise InputError(f"{path} is no file of safetensors: {error}") from error
    tensors = {}
    for name, one in header.items():
        if name == "__metadata__":
            continue
        begin, end = one["data_offsets"]
        if 8 + length + end > size:
            raise InputError(f"{path} is damaged: it ends before '{name}' does")
        tensors[name] = _Stored(path, one["dtype"], one["shape"], 8 + length + begin)
    return tensors


def _whole_model(path: Path) -> dict[str, _Stored]:
    if path.is_dir():
        found = sorted(path.glob("*.safetensors.index.json")) or sorted(path.glob("*.safetensors"))
        if len(found) != 1:
            raise InputError(f"{path} has {len(found)} models: one file of safetensors, or one index, is expected")
        path = found[0]
    if path.suffix != ".json":
        return _header(path)
    names = json.loads(path.read_text())["weight_map"]
    headers = {file: _header(path.parent / file) for file in sorted(set(names.values()))}
    missing = [name for name, file in names.items() if name not in headers[file]]
    if missing:
        raise InputError(f"{path.parent / names[missing[0]]} lacks '{missing[0]}', which the index says is there")
    return {name: headers[file][name] for name, file in names.items()}


class _Checkpoint:
    """Tensors by name, each as the boxes of it that files have."""

    def __init__(self, path: Path, layouts: str | Path | None):
        self._maps: dict[Path, mmap.mmap] = {}
        if layouts is None:
            self._lines: list[dict[str, Any]] = []
            self._ranks = [_whole_model(path)]
        else:
            self._lines = [json.loads(line) for line in Path(layouts).read_text().splitlines() if line.strip()]
            self._ranks = [_header(file) for file in sorted(path.glob("rank-*.safetensors"))]
            if not self._ranks:
                raise InputError(f"{path} has no files of ranks")
        self.names = list(dict.fromkeys(name for rank in self._ranks for name in rank))

    def layout_of(self, name: str) -> Layout | None:
        """How ranks have it; nothing where a file has all of it."""
        if not self._lines:
            return None
        line = next((line for line in self._lines if fnmatch.fnmatchcase(name, line["name"])), None)
        if line is None:
            raise InputError(f"the layouts have none for '{name}'")
        mesh = line["mesh"]
        mesh = Mesh(mesh) if isinstance(mesh, dict) else mesh
        if "shape" in line:
            return Layout.from_text(line["layout"], line["shape"], mesh)
        return Layout(line["layout"], mesh)

    def shape_of(self, name: str) -> tuple[int, ...]:
        layout = self.layout_of(name)
        return tuple(self._ranks[0][name].shape if layout is None else layout.shape)

    def tiles_of(self, name: str) -> Iterator[_Tile]:
        """All that files have of it; boxes that several have come again."""
        layout = self.layout_of(name)
        if layout is None:
            stored = self._ranks[0][name]
            yield _Tile(stored.tensor(self._maps), [([0] * len(stored.shape), stored.shape)])
            return
        if layout.device_count > len(self._ranks):
            raise InputError(f"'{name}' is on {layout.device_count} ranks, and there are files of {len(self._ranks)}")
        for device in range(layout.device_count):
            boxes = layout.boxes(device)
            stored = self._ranks[device].get(name)
            if boxes and stored is None:
                raise InputError(f"the file of rank {device} lacks '{name}'")
            if boxes:
                yield _Tile(stored.tensor(self._maps), boxes)


def _wanted_tile(tensor: torch.Tensor) -> _Tile | None:
    """What this rank has of it; nothing where it has none."""
    if not isinstance(tensor, DTensor):
        return _Tile(tensor, [([0] * tensor.dim(), tuple(tensor.shape))])
    names, sizes, ranks = device_mesh_values(tensor.device_mesh)
    placements = [placement_values(one) for one in tensor.placements]
    if any(kind not in ("replicate", "shard") for kind, _, _ in placements):
        raise InputError("it is a sum of what ranks have, which a file cannot fill")
    layout = dtensor_layout(names, sizes, ranks, placements, tensor.shape)
    rank = dist.get_rank()
    boxes = layout.boxes(rank) if rank < layout.device_count else []
    return _Tile(tensor.to_local(), boxes) if boxes else None


def _fill(wanted: _Tile, tiles: Iterator[_Tile]) -> None:
    left = sum(math.prod(b - a for a, b in zip(*box, strict=True)) for box in wanted.boxes)
    seen = set()
    for tile in tiles:
        for source in tile.boxes:
            if (key := (tuple(source[0]), tuple(source[1]))) in seen:
                continue
            seen.add(key)
            for target in wanted.boxes:
                low = [max(a, b) for a, b in zip(source[0], target[0], strict=True)]
                high = [min(a, b) for a, b in zip(source[1], target[1], strict=True)]
                if all(a < b for a, b in zip(low, high, strict=True)):
                    wanted.part(target, low, high).copy_(tile.part(source, low, high))
                    left -= math.prod(b - a for a, b in zip(low, high, strict=True))
        if left == 0:
            return
    if left > 0:
        raise InputError(f"the files lack {left} of its elements")


def _empty(stored: _Checkpoint, name: str, mesh: Any, placements: Sequence[Any]) -> DTensor:
    shape = stored.shape_of(name)
    dtype = next(stored.tiles_of(name)).tensor.dtype
    return torch.distributed.tensor.empty(*shape, dtype=dtype, device_mesh=mesh, placements=placements)


def load(path: str | Path, wanted: Mapping[str, Any], *, layouts: str | Path | None = None) -> dict[str, torch.Tensor]:
    """Reads tensors of a checkpoint, by name: each rank what it has of them.

    `path` is a file of safetensors, an index of several, or a folder with either; with `layouts`, a folder with a file
    for each rank and the layouts that `retile reshard` wrote them by (docs/checkpoints.md). `wanted` has DTensors and
    tensors that are filled, cast to their types, or pairs of a mesh and placements, for which DTensors are made; names
    of pairs may have wildcards, and the first one that fits counts. Raises InputError, before anything is filled where a
    name or a shape does not fit.
    """
    stored = _Checkpoint(Path(path), layouts)
    result: dict[str, torch.Tensor] = {}
    for name, one in wanted.items():
        if isinstance(one, torch.Tensor):
            if name not in stored.names:
                raise InputError(f"{path} lacks '{name}'")
            if (shape := stored.shape_of(name)) != tuple(one.shape):
                raise InputError(f"'{name}' has shape {tuple(one.shape)}, and in {path} {shape}")
            result[name] = one
    for name in stored.names:
        fits = (one for text, one in wanted.items() if fnmatch.fnmatchcase(name, text) and isinstance(one, tuple))
        if name not in result and (one := next(fits, None)) is not None:
            result[name] = _empty(stored, name, *one)
    with torch.no_grad():
        for name, tensor in result.items():
            try:
                if (tile := _wanted_tile(tensor)) is not None:
                    _fill(tile, stored.tiles_of(name))
            except InputError as error:
                raise InputError(f"'{name}': {error}") from error
    return result
