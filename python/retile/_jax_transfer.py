"""`retile.jax.Transfer`: the arrays of a whole model from some devices to others, under a cap on what is staged."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from retile._errors import InputError, MemoryLimitError
from retile._jax_batches import Batch, Devices, Kind, Movement, Zeros, batch_of_a_row, batches_of
from retile._transfer_work import Report, bytes_of
from retile._trees import for_leaves


class Transfer:
    """Moves a tree of arrays to other shardings, on the same devices or others, under a cap on what a device holds
    beside its tiles of the arrays.

        t = retile.jax.Transfer(params, shardings, max_bytes="256MiB", donate=True)
        print(t.explain())
        served = t(params)

    `params` is a tree of arrays, or of `jax.ShapeDtypeStruct`s with shardings. `shardings` is a prefix tree of it, with
    shardings (under `jax.set_mesh`, also PartitionSpecs), or None for arrays that stay. Source and target may be on any
    devices, also of several processes: then all processes make the same transfer and call it together. Making a
    transfer plans and compiles; calls do neither, and take trees of the same shapes, types and shardings. With
    `donate`, arrays are given up as they are moved.
    """

    def __init__(self, params: Any, shardings: Any, *, max_bytes: int | str = "256MiB", donate: bool = False):
        self._max_bytes = bytes_of(max_bytes)
        self._donate = bool(donate)
        leaves, self._tree = jax.tree_util.tree_flatten_with_path(params)
        self._names = [_name_of(path) for path, _ in leaves]
        targets = for_leaves("shardings", shardings, params)
        kinds = _together(self._names, [leaf for _, leaf in leaves], targets, _kind_of)
        self._kinds: list[Kind | None] = kinds
        moved = [number for number, kind in enumerate(kinds) if kind is not None]
        self._devices = Devices(side for number in moved for side in (kinds[number].source, kinds[number].target))
        known: dict[Kind, Movement] = {}

        def movement_of(kind: Kind | None, _: Any) -> Movement | None:
            if kind is not None and kind not in known:
                known[kind] = self._devices.movement(kind)
            return known.get(kind)

        self._movements = _together(self._names, kinds, targets, movement_of)
        places = {kind: place for place, kind in enumerate(known)}
        # Arrays of a kind come one after the other, so that batches are equal.
        order = [number for number in moved if not self._movements[number].is_there]
        order.sort(key=lambda number: (self._movements[number].sides, places[kinds[number]]))
        self._batches = self._fitting_batches(order)
        for batch in self._batches:
            batch.prepare()
        self._staged = self._most_staged(self._batches)
        self._last = {array: place for place, batch in enumerate(self._batches) for array in batch.arrays}
        self._sent, self._received = self._traffic()
        self._report: Report | None = None

    def _fitting_batches(self, order: list[int]) -> list[Batch]:
        """Batches that fit the cap. How much programs hold beside messages is known only once they are compiled, so
        batches are made smaller until they fit."""
        known: dict[Any, Any] = {}
        first = {self._kinds[number]: number for number in reversed(order)}  # the first array of each kind
        rows = [batch_of_a_row(self._devices, self._kinds, self._movements, number) for number in first.values()]
        least = self._most_staged(rows, known)
        most = max(self._max_bytes, 1)  # if nothing is moved, nothing is staged
        while least <= self._max_bytes and most > 0:
            most //= 2
            batches = batches_of(self._devices, self._kinds, self._movements, order, most)
            staged = self._most_staged(batches, known)
            if staged <= self._max_bytes:
                return batches
            least = max(least, staged) if most == 0 else least
        raise MemoryLimitError(f"max_bytes of {self._max_bytes:,} is too small\nhint: {least} bytes are enough")

    @staticmethod
    def _most_staged(batches: Sequence[Batch], known: dict[Any, Any] | None = None) -> int:
        """The most bytes that one of the batches stages. Compiles those that are not compiled yet."""
        for batch in batches if known is not None else ():
            batch.compile(known)
        return _agreed_most(max((batch.staged_bytes() for batch in batches), default=0))

    # Descriptions.

    def explain(self) -> str:
        """What is moved, by how many programs, and with how much staging, as text."""
        moved = [number for number, kind in enumerate(self._kinds) if kind is not None]
        kinds = len({self._kinds[number] for number in moved})
        tiles = self._tile_bytes(moved)
        messages = sum(len(batch.messages[number].pairs) for batch in self._batches for number in batch.sent)
        programs = {id(one) for batch in self._batches for one in (batch.cut, batch.permute, batch.put) if one}
        sides = [{number for array in moved for number in self._movements[array].sides[side]} for side in (0, 1)]
        lines = [
            f"{_counted(len(moved), 'array')} of {_counted(kinds, 'kind')} from {_counted(len(sides[0]), 'device')} to "
            f"{len(sides[1])}, {sum(self._received):,} bytes to move",
            f"sent      {_range(self._sent)}",
            f"received  {_range(self._received)}; what each lacks, once",
            f"rounds    {len(self._batches):,}, {messages:,} messages, {_counted(len(programs), 'program')}",
            f"peak      {max(tiles, default=0) + self._staged:,} bytes per device at most: {max(tiles, default=0):,} of tiles, "
            f"{self._staged:,} staged (cap {self._max_bytes:,})",
        ]
        if self._donate:
            lines.append("donated   sources are given up round by round")
        return "\n".join(lines) + "\n"

    @property
    def report(self) -> Report | None:
        """The report of the last call, for this process's devices; None before the first call."""
        return self._report

    def _traffic(self) -> tuple[list[int], list[int]]:
        """The bytes that each device sends, and those that it receives."""
        sent, received = [0] * len(self._devices.all), [0] * len(self._devices.all)
        for batch in self._batches:
            for box in batch.boxes:
                for sender, receiver in box.message.pairs:
                    sent[sender] += box.bytes
                    received[receiver] += box.bytes
        return sent, received

    def _tile_bytes(self, moved: Iterable[int]) -> list[int]:
        """The bytes of all tiles of sources and targets, by device."""
        held = [0] * len(self._devices.all)
        for number in moved:
            kind, movement = self._kinds[number], self._movements[number]
            for side, tile in zip(movement.sides, kind.tiles, strict=True):
                for device in side:
                    held[device] += math.prod(tile) * kind.dtype.itemsize
        return held

    # Calls.

    def __call__(self, params: Any) -> Any:
        """Moves the arrays, and returns the tree with its arrays in the target shardings."""
        begin = time.perf_counter()
        paths_and_leaves, tree = jax.tree_util.tree_flatten_with_path(params)
        if tree != self._tree:
            raise InputError(f"params has another structure than the transfer was made for: {tree}, not {self._tree}")
        arrays = [leaf for _, leaf in paths_and_leaves]
        _together(self._names, arrays, self._kinds, _require_alike)
        targets: dict[int, Any] = {}
        zeros = Zeros(self._devices)
        # An array may occur several times in a tree.
        needed = {id(array) for number, array in enumerate(arrays) if number not in self._last}
        last = {id(arrays[number]): place for number, place in sorted(self._last.items(), key=lambda one: one[1])}
        for place, batch in enumerate(self._batches):
            batch.run(arrays, targets, zeros)
            zeros.end_batch()
            for array in (arrays[number] for number in batch.arrays) if self._donate else ():
                if last[id(array)] == place and id(array) not in needed and isinstance(array, jax.Array):
                    array.delete()
        moved = [self._result(number, array, targets) for number, array in enumerate(arrays)]
        here = self._devices.here(tuple(range(len(self._devices.all))))
        self._report = Report(
            time.perf_counter() - begin,
            sum(self._sent[number] for number in here),
            sum(self._received[number] for number in here),
            self._staged,
            len(self._batches),
        )
        return jax.tree.unflatten(tree, moved)

    def _result(self, number: int, array: Any, targets: dict[int, Any]) -> Any:
        kind, movement = self._kinds[number], self._movements[number]
        if kind is None:
            return array
        if movement.rounds is None:
            return jax.make_array_from_callback(
                kind.shape, kind.target, lambda index: np.zeros(kind.tiles[1], kind.dtype), dtype=kind.dtype
            )
        held = self._devices.tiles(array if movement.is_there else targets.get(number))
        tiles = [held[one] for one in self._devices.here(movement.sides[1])]
        return jax.make_array_from_single_device_arrays(kind.shape, kind.target, tiles, dtype=kind.dtype)


def _name_of(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".") or "the array"


def _together(names: Sequence[str], first: Sequence[Any], second: Sequence[Any], function: Callable) -> list[Any]:
    """The results of the function for all arrays. Raises with everything that is wrong."""
    found, faults = [], []
    for name, *arguments in zip(names, first, second, strict=True):
        try:
            found.append(function(*arguments))
        except InputError as error:
            faults.append(f"{name}: {error}")
    if faults:
        raise InputError("\n".join(faults))
    return found


def _kind_of(leaf: Any, target: Any) -> Kind | None:
    if target is None:
        return None
    source = getattr(leaf, "sharding", None)
    if not isinstance(source, jax.sharding.Sharding) or isinstance(getattr(source, "mesh", None), AbstractMesh):
        raise InputError(f"{type(leaf).__name__} has no sharding on devices")
    if isinstance(target, PartitionSpec):
        mesh = jax.sharding.get_mesh()
        if mesh.empty:
            raise InputError(f"{target} needs a mesh\nhint: with jax.set_mesh(mesh): …, or give a NamedSharding")
        target = NamedSharding(mesh, target)
    if not isinstance(target, jax.sharding.Sharding):
        raise InputError(f"{type(target).__name__} is no sharding")
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        raise InputError(f"its elements are {leaf.dtype}\nhint: move what jax.random.key_data gives")
    for what, side in (("source", source), ("target", target)):
        spec = getattr(side, "spec", None)
        if getattr(spec, "unreduced", None) or getattr(spec, "reduced", None):
            raise InputError(f"the {what}'s {spec} speaks of sums")
        if _is_in_host_memory(side):
            raise InputError(f"the {what} is in the host's memory")
        try:
            side.shard_shape(tuple(leaf.shape))
        except ValueError as error:
            raise InputError(f"the {what}: {error}") from None
    return Kind(tuple(leaf.shape), np.dtype(leaf.dtype), source, target)


def _is_in_host_memory(sharding: Any) -> bool:
    kinds = {device.default_memory().kind for device in sharding.addressable_devices}
    return bool(kinds) and sharding.memory_kind not in {None, "device", *kinds}


def _require_alike(array: Any, kind: Kind | None) -> None:
    if kind is None:
        return
    if tuple(array.shape) != kind.shape or array.dtype != kind.dtype:
        raise InputError(
            f"it is {array.dtype}{list(array.shape)}, and the transfer was made for {kind.dtype}{list(kind.shape)}"
        )
    if not array.sharding.is_equivalent_to(kind.source, len(kind.shape)):
        raise InputError(f"it has {array.sharding}, and the transfer was made for {kind.source}")


def _agreed_most(staged: int) -> int:
    """The most bytes that a process stages. Equal programs stage the same, but not every process has all programs."""
    if jax.process_count() == 1:
        return staged
    from jax.experimental import multihost_utils

    halves = np.array(divmod(staged, 1 << 30), np.int32)  # JAX has no larger integers by default
    return max((int(high) << 30) + int(low) for high, low in multihost_utils.process_allgather(halves))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _range(numbers: Sequence[int]) -> str:
    """A text such as "80 to 160 bytes, 4 devices", for the devices that have something."""
    some = [number for number in numbers if number]
    if not some:
        return "nothing"
    least, most = min(some), max(some)
    return (
        f"{most:,} bytes, {_counted(len(some), 'device')}"
        if least == most
        else (f"{least:,} to {most:,} bytes, {_counted(len(some), 'device')}")
    )
