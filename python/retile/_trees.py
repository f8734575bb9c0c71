"""Trees of JAX arrays, and prefix trees that say something about each array."""

from typing import Any

import jax
from jax.sharding import PartitionSpec

from retile._errors import InputError


def for_leaves(what: str, prefix: Any, x: Any) -> list[Any]:
    """The entry of a prefix tree of `x` for each of its arrays."""
    found = []

    def add(one: Any, part: Any) -> None:
        found.extend([one] * len(jax.tree.leaves(part)))

    try:
        jax.tree.map(add, prefix, x, is_leaf=_is_sharding)
    except ValueError as error:
        raise InputError(f"{what} is no tree above x: {error}".replace("tree_map tree", what)) from None
    return found


def _is_sharding(value: Any) -> bool:
    return value is None or isinstance(value, (jax.sharding.Sharding, PartitionSpec))
