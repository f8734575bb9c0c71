"""Errors that are raised if the input is at fault; the extension raises them too."""


class InputError(ValueError):
    """The input is at fault; the message shows where."""

    __module__ = "retile"


class MemoryLimitError(InputError):
    """Nothing fits the memory limit; the message names the smallest limit that works."""

    __module__ = "retile"
