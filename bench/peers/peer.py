"""What the peers share: arguments, problems, turns, and a results file that a stopped run goes on with."""

import argparse
import importlib.metadata
import importlib.util
import math
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from evaluation.output import Output, run_line, said_by  # noqa: E402
from evaluation.results_file import FileError, axis_size, check_problem, parse_lines  # noqa: E402
from layout import device_count  # noqa: E402
from ours import CommandFailure, Ours, UsageFailure  # noqa: E402
from workers import Unable, WorkerFailure, Workers  # noqa: E402

METHOD = """For each problem, contenders take turns in rounds: retile with each planner, then the peer. Every round begins
with a repetition that does not count. Results are verified before anything is timed."""
PROBLEM_KEYS = ("id", "mesh", "shape", "src", "dst", "dtype")
NOTHING_KNOWN = {"steps": [], "cost": None, "memory": None, "planning_ns": None}


@dataclass(frozen=True)
class Peer:
    """Another system, whose processes have prepare(problem) -> steps, measure(repetitions) -> times, release()."""

    name: str
    packages: tuple  # that it needs; the version of the first is recorded
    make_worker: Callable  # as Workers needs it
    processes: Callable  # how many of them a problem needs
    combine: Callable  # seconds per repetition from what measure gave on each process
    environment: Callable  # variables for the processes, given the most devices of any problem

    def version(self):
        return importlib.metadata.version(self.packages[0])


def scale_problem(problem, factor):
    """The same layouts for an array of at most factor times the size, as retile bench makes it: the dimension with the
    most tiles' worth of elements is halved, time after time, until that is reached or no dimension can shrink."""
    mesh, shape = problem["mesh"], list(problem["shape"])

    def tiles(axes):
        return math.prod(axis_size(mesh, axis) for axis in axes)

    units = [
        math.lcm(tiles(source), tiles(target)) for source, target in zip(problem["src"], problem["dst"], strict=True)
    ]
    most = math.prod(shape) * factor
    left = math.prod(shape)
    while left > most:
        counts = [size // unit for size, unit in zip(shape, units, strict=True)]
        largest = counts.index(max(counts))
        if counts[largest] == 1:
            break
        left *= (counts[largest] // 2) / counts[largest]
        shape[largest] = counts[largest] // 2 * units[largest]
    return problem | {"shape": shape}


class Input:
    """Problems of a problem file or of a results file, whose shapes are scaled already."""

    def __init__(self, path, scale):
        self.seed, self.scale = 0, scale
        problems = {}
        values, _ = parse_lines(path)
        for number, value in values:
            if isinstance(value.get("run"), dict):
                self.seed = value["run"].get("seed", 0)
                self.scale = scale * value["run"].get("scale", 1)
                continue
            try:
                check_problem(value | {"src_view": None, "dst_view": None})  # peers know no views
            except ValueError as error:
                raise FileError(f"{path}:{number}: {error}") from error
            problem = {key: value.get(key, "f32") for key in PROBLEM_KEYS}  # only dtype may be missing
            problems.setdefault(value["id"], scale_problem(problem, scale))
        if not problems:
            raise FileError(f"{path}: there are no problems")
        self.problems = list(problems.values())


def _run_line(peer, arguments, given, version):
    return run_line(
        version.removeprefix("retile "),
        arguments.engine,
        devices=max(map(device_count, given.problems)),
        threads=os.cpu_count() if arguments.engine == "threads" else 1,
        seed=given.seed,
        scale=given.scale,
        repetitions=arguments.repeat * arguments.rounds,
        options={"peer": f"{peer.name} {peer.version()}", "problems": Path(arguments.problems).name},
    )


class Turns:
    """The contenders, and one problem at a time for all of them."""

    def __init__(self, peer, arguments):
        self.peer, self.arguments = peer, arguments
        self.ours = [Ours(arguments.retile, planner, arguments.engine) for planner in arguments.planners]
        self.workers = None

    @property
    def contenders(self):
        return {ours.planner for ours in self.ours} | {self.peer.name}

    def measure(self, problem):
        """A result for each contender."""
        results = {name: dict(NOTHING_KNOWN) | {"seconds": []} for name in self.contenders}
        for ours in self.ours:
            self._attempt(results[ours.planner], ours.plan, problem)
        self._attempt(results[self.peer.name], lambda: {"steps": self._prepare(problem)})
        for _ in range(self.arguments.rounds):
            for ours in self.ours:
                self._attempt(results[ours.planner], ours.run, problem, self.arguments.repeat)
            self._attempt(results[self.peer.name], self._measure_peer)
        self._release()
        return [self._line(problem, name, result) for name, result in sorted(results.items())]

    def _attempt(self, result, function, *arguments):
        """Adds what the function gives. A contender that has failed gets no further turn."""
        if "skipped" in result:
            return
        try:
            given = function(*arguments)
        except (CommandFailure, Unable, WorkerFailure) as error:
            result["skipped"] = str(error)
            return
        seconds = result["seconds"] + given.get("seconds", [])
        result |= {key: value for key, value in given.items() if key not in ("id", "engine", "devices")}
        result["seconds"] = seconds

    def _prepare(self, problem):
        if any(axis not in problem["mesh"] for end in ("src", "dst") for axes in problem[end] for axis in axes):
            raise Unable("parts of axes cannot be told to it")
        count = self.peer.processes(problem)
        if not self.workers or self.workers.count() != count:
            self.close()
            self.workers = Workers(self.peer.make_worker, count, self.arguments.timeout)
        return self.workers.call("prepare", problem)[0]

    def _measure_peer(self):
        times = self.workers.call("measure", self.arguments.repeat)
        return {"verified": True, "seconds": self.peer.combine(times), "received_bytes_max": None, "peak_bytes": None}

    def _release(self):
        try:
            if self.workers:
                self.workers.call("release")
        except WorkerFailure:
            pass  # the next problem starts new ones

    def _line(self, problem, contender, result):
        line = problem | {"engine": self.arguments.engine, "contender": contender} | result
        if "skipped" in line:
            for key in ("seconds", "verified", "received_bytes_max", "peak_bytes"):
                line.pop(key, None)
        return line

    def close(self):
        if self.workers:
            self.workers.close()
            self.workers = None


def _progress(position, count, results):
    words = [f"[{position}/{count}] {results[0]['id']}:"]
    for result in results:
        seconds = result.get("seconds")
        outcome = f"{1e3 * statistics.median(seconds):.2f} ms" if seconds else f"skipped, {result['skipped']}"
        words.append(f"{result['contender']} {outcome};")
    print(" ".join(words).rstrip(";"), file=sys.stderr, flush=True)


def _check_prerequisites(peer, arguments):
    """The version that the command prints."""
    for package in peer.packages:
        if importlib.util.find_spec(package) is None:
            raise FileError(f"{sys.executable} has no {package}; install it there (pip install {package})")
    version = said_by([arguments.retile, "--version"])
    if version is None:
        raise FileError(f"{arguments.retile} does not run; build it (make build), or name it with --retile")
    return version


def _measure_all(peer, arguments):
    version = _check_prerequisites(peer, arguments)
    given = Input(arguments.problems, arguments.scale)
    os.environ.update(peer.environment(max(map(device_count, given.problems))))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    output = Output(arguments.output)
    turns = Turns(peer, arguments)
    # Contenders of a problem are comparable because they took turns: where one is missing, all are measured again.
    problems = given.problems[: arguments.limit]
    left = [problem for problem in problems if not output.has(problem, arguments.engine, turns.contenders)]
    print(f"{peer.name}: {len(left)} of {len(problems)} problems to do, into {arguments.output}", file=sys.stderr)
    if left:
        output.append(_run_line(peer, arguments, given, version))
    try:
        for position, problem in enumerate(left, 1):
            results = turns.measure(problem)
            output.append(*results)
            _progress(position, len(left), results)
    finally:
        turns.close()


def _positive(convert):
    def parse(text):
        value = convert(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is not positive")
        return value

    parse.__name__ = convert.__name__
    return parse


def _parse_arguments(peer, description):
    script = Path(sys.argv[0]).name
    parser = argparse.ArgumentParser(
        description=f"{description}\n\n{METHOD}",
        epilog=f"""examples:
  bench/peers/{script} tests/data/problems.jsonl --limit 20 --scale 0.125
  bench/peers/{script} results.jsonl --output {peer.name}.jsonl && bench/report.py results.jsonl {peer.name}.jsonl

The same command again goes on where a stopped run was.""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("problems", metavar="PROBLEMS", help="a file of problems, or the results file of retile bench")
    add("--output", type=Path, default=Path(f"build/{peer.name}.jsonl"), help=f"default: build/{peer.name}.jsonl")
    add("--limit", type=_positive(int), metavar="N", help="the first N problems alone")
    add("--scale", type=_positive(float), default=1.0, help="shrink arrays to this share of their elements")
    add("--repeat", type=_positive(int), default=3, metavar="N", help="repetitions in a round (default: 3)")
    add("--rounds", type=_positive(int), default=2, metavar="N", help="turns of each contender (default: 2)")
    add(
        "--planners",
        type=lambda text: text.split(","),
        default=["auto", "paper", "wide"],
        help="of ours (default: auto,paper,wide)",
    )
    add("--engine", default="threads", help="of ours (default: threads)")
    add("--retile", default=ROOT / "build/release/retile", help="the command (default: build/release/retile)")
    add("--timeout", type=_positive(float), default=600, help="most seconds that the peer may take for one turn")
    return parser.parse_args()


def main(peer, description):
    arguments = _parse_arguments(peer, description)
    try:
        _measure_all(peer, arguments)
    except (FileError, UsageFailure) as error:
        sys.exit(f"{peer.name}: {error}")
    except OSError as error:
        sys.exit(f"{peer.name}: {error.filename or arguments.output}: {error.strerror}")
    except KeyboardInterrupt:
        sys.exit(f"{peer.name}: stopped; the same command goes on from here")
