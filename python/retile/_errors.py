"""What is raised where the input is at fault; the extension raises these too."""


class InputError(ValueError):
    """What was given is at fault; the message shows where."""

    __module__ = "retile"


class MemoryLimitError(InputError):
    """Nothing fits the memory limit; the message names the smallest that something fits."""

    __module__ = "retile"
