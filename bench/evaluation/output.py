"""A results file that is written by Python: results are appended, so that a stopped run goes on."""

import datetime
import json
import os
import platform
import subprocess
from pathlib import Path

from evaluation.results_file import parse_lines

ROOT = Path(__file__).resolve().parent.parent.parent


class Output:
    """Results are appended; those that are there count as done."""

    def __init__(self, path):
        self.path = Path(path)
        self.done = {}  # what a problem is told apart by -> contenders
        if self.path.is_file():  # a device may have no end
            values, cut_off = parse_lines(path)
            for _, value in values:
                if "run" not in value:
                    self.done.setdefault(self._key(value), set()).add(value.get("contender"))
            self._end_last_line(cut_off)

    @staticmethod
    def _key(line):
        return json.dumps([line.get(key) for key in ("id", "shape", "engine")])

    def has(self, problem, engine, contenders):
        return contenders <= self.done.get(self._key(problem | {"engine": engine}), set())

    def _end_last_line(self, cut_off):
        with self.path.open("r+b") as file:
            content = file.read()
            if cut_off:
                file.truncate(content.rfind(b"\n") + 1)
            elif content and not content.endswith(b"\n"):
                file.write(b"\n")

    def append(self, *values):
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(value) + "\n" for value in values))


def run_line(version, engine, **parts):
    """The first line of a run, with the circumstances that every run has; `version` is retile's."""
    # What is measured may come from elsewhere than the tree around this script: COMMIT says what it is.
    commit = os.environ.get("COMMIT") or said_by(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"])
    run = {
        "version": version,
        "commit": commit or "unknown",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": _machine(),
        "engine": engine,
    }
    return {"format": 1, "run": run | {"ranks": 1, "threads": 1, "seed": 0} | parts}


def said_by(command):
    """Nothing where the command fails or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _machine():
    cpu = "unknown"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), cpu)
    except OSError:
        pass
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release()}",
    }
