"""Arrays in files: translates chunk sizes and stores from Python for the library."""

import json as _json
import os as _os
from collections.abc import Mapping as _Mapping
from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from retile import _retile


def _path_of(store: _Any) -> str:
    """The path of a store: the path itself, or that of an array or group of zarr-python in a local store."""
    if isinstance(store, str | _os.PathLike):
        return _os.fspath(store)
    root = getattr(getattr(store, "store", None), "root", None)
    if root is None:
        raise TypeError(f"a path or an array in a local store is needed, not {type(store).__name__}")
    return _os.path.join(_os.fspath(root), getattr(store, "path", "") or "")


def _sizes_text(sizes: _Sequence[int] | _Mapping[str, int] | str) -> str:
    if isinstance(sizes, str):
        return sizes
    if isinstance(sizes, _Mapping):
        return ",".join(f"{name}={size}" for name, size in sizes.items())
    return ",".join(str(int(size)) for size in sizes)


def rechunk(
    source: _Any,
    target: _Any,
    *,
    chunks: _Sequence[int] | _Mapping[str, int] | str,
    max_bytes: int,
    shards: _Sequence[int] | _Mapping[str, int] | str | None = None,
    codec: str = "keep",
    format: str | None = None,
    scratch: str | _os.PathLike[str] = "",
    threads: int = 0,
    overwrite: bool = False,
    resume: bool = False,
    verify: bool = False,
    dry_run: bool = False,
) -> _Any:
    """Writes an array, or a group of arrays, in other chunks.

    `source` and `target` are paths of Zarr stores or .npy files, or arrays and groups of zarr-python in local stores. A
    source may also be an HDF5 or NetCDF-4 file, or the path of an array inside one ("year.nc/temperature").
    `chunks` are sizes by position, or by names of dimensions; -1 is the whole dimension. `max_bytes` bounds the
    memory of the whole process, Python included. Raises MemoryLimitError, with the smallest cap that works, before
    anything is written. The target gets its name once it is complete.

    Returns the report of the run, or with `dry_run` the plans, one for each array (docs/formats.md).
    """
    if overwrite and resume:
        raise ValueError("overwrite and resume contradict each other")
    existing = "overwrite" if overwrite else "resume" if resume else "refuse"
    lines = _retile.rechunk(
        _path_of(source),
        _path_of(target),
        _sizes_text(chunks),
        int(max_bytes),
        None if shards is None else _sizes_text(shards),
        codec,
        format,
        _os.fspath(scratch),
        threads,
        existing,
        verify,
        dry_run,
    )
    values = [_json.loads(line) for line in lines.splitlines()]
    return values if dry_run else values[0]
