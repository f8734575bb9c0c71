"""Checkpoints of safetensors, read into PyTorch tensors: whole models or files of ranks, into DTensors of any mesh.

Each rank reads the bytes that it holds, and no others; no rank waits for another.

    weights = retile.checkpoint.load("model", {"*.bias": (mesh, [Replicate()]), "*": (mesh, [Replicate(), Shard(0)])})
    retile.checkpoint.load("ranks", model.state_dict(), layouts="layouts.jsonl")    # as `retile reshard` wrote them
"""

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from retile._errors import InputError
from retile._retile import Checkpoint
from retile._shardings import device_mesh_values, dtensor_layout, placement_values

__all__ = ["load"]


def _type_of(stored: Checkpoint, name: str) -> torch.dtype:
    dtype = getattr(torch, stored.element_type(name), None)
    if dtype is None:
        raise InputError(f"'{name}' has elements of {stored.element_type(name)}, which PyTorch does not have")
    return dtype


def _fill(stored: Checkpoint, name: str, tensor: torch.Tensor) -> None:
    """Reads this rank's part of a tensor."""
    layout, device, local = None, 0, tensor
    if isinstance(tensor, DTensor):
        placements = [placement_values(one) for one in tensor.placements]
        if any(kind not in ("replicate", "shard") for kind, _, _ in placements):
            raise InputError(f"'{name}': it is a sum of what ranks have, which a file cannot fill")
        layout = dtensor_layout(*device_mesh_values(tensor.device_mesh), placements, tensor.shape)
        device, local = dist.get_rank(), tensor.to_local()
        if device >= layout.device_count:
            return
    if local.numel() == 0:
        return
    dtype = _type_of(stored, name)
    is_direct = local.dtype == dtype and local.device.type == "cpu" and local.is_contiguous()
    packed = local if is_direct else torch.empty(local.shape, dtype=dtype)
    stored.read(name, layout, device, packed.data_ptr(), packed.numel() * packed.element_size())
    if not is_direct:
        local.copy_(packed)


def _empty(stored: Checkpoint, name: str, mesh: Any, placements: Sequence[Any]) -> DTensor:
    shape, dtype = stored.shape(name), _type_of(stored, name)
    return torch.distributed.tensor.empty(*shape, dtype=dtype, device_mesh=mesh, placements=placements)


def load(path: str | Path, wanted: Mapping[str, Any], *, layouts: str | Path | None = None) -> dict[str, torch.Tensor]:
    """Reads tensors of a checkpoint by name; each rank reads its own part of them.

    `path` is a safetensors file, an index of several, or a folder with either; with `layouts`, a folder with a file for
    each rank, and the layouts by which `retile reshard` wrote them (docs/checkpoints.md). `wanted` has DTensors and
    tensors, which are filled and cast to their types, or pairs of a mesh and placements, for which DTensors are made.
    Names of pairs may have wildcards; the first that matches counts. Raises InputError where a name or a shape does not
    fit, before anything is filled.
    """
    stored = Checkpoint(str(path), None if layouts is None else str(layouts))
    result: dict[str, torch.Tensor] = {}
    for name, one in wanted.items():
        if isinstance(one, torch.Tensor):
            if (shape := tuple(stored.shape(name))) != tuple(one.shape):
                raise InputError(f"'{name}' has shape {tuple(one.shape)}, and in {path} {shape}")
            result[name] = one
    for name in stored.names():
        fits = (one for text, one in wanted.items() if fnmatch.fnmatchcase(name, text) and isinstance(one, tuple))
        if name not in result and (one := next(fits, None)) is not None:
            result[name] = _empty(stored, name, *one)
    with torch.no_grad():
        for name, tensor in result.items():
            _fill(stored, name, tensor)
    return result
