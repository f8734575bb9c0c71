"""Results files of frameworks, as bench/report.py reads them: a stopped run goes on.

    bench/python/recorded.py RESULTS.jsonl ENGINE MODEL OURS

adds the times of ways to move a whole model, which a benchmark printed as JSON; OURS is the way that others are compared
with. Other benchmarks add to theirs by `Recorded`.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from evaluation.figures import FORM
from evaluation.output import Output, run_line
from evaluation.results_file import parse_lines

import retile


class Recorded:
    """A results file of redistributions on 8 devices, or none where `path` is None."""

    def __init__(self, path, engine, framework, options):
        self.output, self.engine, self.is_begun = path and Output(path), engine, False
        self.end = time.monotonic() + options.seconds
        self.circumstances = {
            "devices": 8,
            "ranks": 1 if engine == "jax" else 8,
            "threads": os.cpu_count() if engine == "jax" else 1,
            "scale": f"{options.megabytes:g} MB",
            "repetitions": options.repetitions,
            "options": {"peer": framework, "counts": "the fastest"},
        }
        self.done = set(self._found(path)) if path and Path(path).is_file() else set()

    def _found(self, path):
        """The problems that are in the file at this scale."""
        scale = None
        for _, value in parse_lines(path)[0]:
            if "run" in value:
                scale = value["run"].get("scale")
            elif (scale, value["engine"]) == (self.circumstances["scale"], self.engine):
                yield value["id"]

    def wants(self, problem):
        """False for problems that are in the file, and for those that move nothing. Without a file, all are wanted."""
        if not self.output:
            return True
        mesh = retile.Mesh(problem["mesh"])
        ends = [retile.Layout.cut(mesh, problem["shape"], problem[side]) for side in ("src", "dst")]
        return problem["id"] not in self.done and retile.plan(*ends).floor > 0

    def is_time_up(self):
        return time.monotonic() > self.end

    def append(self, problem, seconds, forms=None):
        """The fastest repetition of each contender, and of each form of our programs."""
        if not self.output:
            return
        if not self.is_begun:
            self.output.append(run_line(retile.__version__, self.engine, **self.circumstances))
            self.is_begun = True
        line = {key: problem[key] for key in ("id", "mesh", "shape", "src", "dst")}
        line |= {"dtype": "f32", "engine": self.engine, "verified": True}
        seconds = seconds | {FORM + name: time for name, time in (forms or {}).items()}
        self.output.append(*(line | {"contender": name, "seconds": [time]} for name, time in seconds.items()))


def record_model(path, engine, model, ours, printed):
    times = printed.get("seconds", printed)
    lines = ({"model": model, "engine": engine, "contender": name, "seconds": found} for name, found in times.items())
    Output(path).append(run_line(retile.__version__, engine, devices=8, ranks=8, options={"ours": ours}), *lines)


if __name__ == "__main__":
    record_model(*sys.argv[1:], json.load(sys.stdin))
