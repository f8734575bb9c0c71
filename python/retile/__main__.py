"""`python -m retile`: the retile command that was installed with this package."""

import os
import sys
import sysconfig
from pathlib import Path


def find_command() -> Path:
    """The file of the command that pip installed: among the scripts of the environment, of the user, or of `pip
    --target`."""
    folders = [
        Path(sysconfig.get_path("scripts")),
        Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))),
        Path(__file__).parents[1] / "bin",
    ]
    for folder in folders:
        if (folder / "retile").is_file():
            return folder / "retile"
    raise SystemExit(f"retile: the command is in none of {', '.join(map(str, folders))}")


if __name__ == "__main__":
    os.execv(find_command(), ["retile", *sys.argv[1:]])
