"""Runs scripts that import JAX, each in a process of its own, without importing JAX in each.

    python forked_scripts.py

Reads a script's path from each line of standard input, runs the script in a forked process, and answers with a line of JSON:
the exit status, and what the script wrote to standard output and to standard error.
"""

import json
import os
import runpy
import sys
import tempfile
import traceback

import jax  # imported before processes are forked
import numpy as np

assert jax and np


def run(path, outputs):
    """Runs the script in this process, and ends it."""
    for number, file in enumerate(outputs, 1):
        os.dup2(file.fileno(), number)
    status = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    os._exit(status)


def main():
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
            process = os.fork()
            if process == 0:
                run(line.rstrip("\n"), (out, errors))
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            texts = [(file.seek(0), file.read())[1] for file in (out, errors)]
        print(json.dumps([status, *texts]), flush=True)


if __name__ == "__main__":
    main()
