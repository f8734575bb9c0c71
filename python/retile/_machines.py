"""Checks of machines as arguments."""

from typing import Any

from retile._errors import InputError
from retile._retile import Machine


def require_machine(machine: Any) -> None:
    """Raises InputError unless it is a machine or None."""
    if machine is not None and not isinstance(machine, Machine):
        raise InputError(f"machine is a retile.Machine or None, not {machine!r}")
