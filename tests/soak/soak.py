#!/usr/bin/env python3
"""Draws random problems for as long as it is given, and holds everything that the retile command says of them against an
implementation that shares nothing with it: NumPy, and the formats of docs/formats.md.

    tests/soak/soak.py --seconds 600                  every kind of case in turn
    tests/soak/soak.py --seed 7 --case plans:12       one case again

A case is a kind and a number; with the seed they say what is drawn, so that it can be repeated. Kinds that need mpirun are
left out, with a word, where there is none.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
import zlib
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy (Debian's python3-numpy)")
    sys.exit(77)

from cases import KINDS, NEED_MPI
from command import Counts, Failure, Retile


class Campaign:
    def __init__(self, options):
        mpirun = shutil.which("mpirun")
        self.options = options
        self.kinds = {kind: share for kind, share in KINDS.items() if mpirun or kind not in NEED_MPI}
        self.left_out = [] if mpirun else [kind.__name__ for kind in NEED_MPI]
        self.retile = Retile(options.retile, launcher(mpirun))
        self.counts = Counts()
        self.begin = time.monotonic()

    def run_case(self, kind, number):
        index = zlib.crc32(kind.__name__.encode())  # stays where kinds are added
        try:
            kind(self.retile, np.random.default_rng([self.options.seed, index, number]), self.counts)
            return True
        except Failure as failure:
            self.clear_progress()
            print(f"FAILED {kind.__name__}:{number}: {failure}\n  {failure.command}")
        except Exception:
            self.clear_progress()
            print(f"FAILED {kind.__name__}:{number}: {traceback.format_exc()}")
        case = f"--seed {self.options.seed} --case {kind.__name__}:{number}"
        print(f"  again: {sys.argv[0]} --retile {self.options.retile} {case}")
        return False

    def run(self):
        """Cases until the time is up, the kind that is furthest below its share next; ends with the first failure."""
        spent = dict.fromkeys(self.kinds, 0.0)
        numbers = dict.fromkeys(self.kinds, 0)
        right = True
        while right and self.elapsed() < self.options.seconds:
            kind = min(self.kinds, key=lambda one: spent[one] / self.kinds[one])
            begin = time.monotonic()
            right = self.run_case(kind, numbers[kind])
            spent[kind] += time.monotonic() - begin
            numbers[kind] += 1
            self.show_progress()
        self.clear_progress()
        words = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        print(f"seed {self.options.seed}, {self.elapsed():.0f} s, {sum(numbers.values()):,} cases: {words}")
        if self.left_out:
            print(f"left out, because there is no mpirun: {', '.join(self.left_out)}")
        return right

    def elapsed(self):
        return time.monotonic() - self.begin

    def show_progress(self):
        if sys.stderr.isatty():
            words = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
            print(f"\r\033[K{self.elapsed():.0f} of {self.options.seconds} s: {words}", end="", file=sys.stderr)

    def clear_progress(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)


def launcher(mpirun):
    if mpirun is None:
        return []
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False).stdout
    if not re.search("Open MPI|OpenRTE", version):
        return [mpirun]
    # Without gds=hash, a killed rank may hold a lock of PMIx that mpirun then waits for at its end.
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", PMIX_MCA_gds="hash")
    return [mpirun, "--oversubscribe", "--bind-to", "none"]


def main():
    root = Path(__file__).parent.parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retile", default=str(root / "build/release/retile"), help="the command to test")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the time unless given")
    parser.add_argument("--case", help="one case alone, as in plans:12")
    options = parser.parse_args()
    campaign = Campaign(options)
    if options.case:
        name, _, number = options.case.partition(":")
        kind = next(kind for kind in KINDS if kind.__name__ == name)
        right = campaign.run_case(kind, int(number))
        print("passed" if right else "failed")
    else:
        right = campaign.run()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
