"""What planning from Python takes, on the problems of the paper's family: a first call, and a call that is repeated."""

import statistics
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests" / "python"))
from problems import problems

import retile


def seconds_of(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


ends = [
    [retile.Layout.cut(retile.Mesh(problem["mesh"]), problem["shape"], problem[side]) for side in ("src", "dst")]
    for problem in problems()
]
first = [seconds_of(retile.plan, *pair) for pair in ends]
again = [min(seconds_of(retile.plan, *pair)[0] for _ in range(5)) for pair in ends]
planner = [plan.planning_ns / 1e9 for _, plan in first]
print(f"{len(ends)} problems, medians in microseconds")
print(f"first call  {statistics.median(seconds for seconds, _ in first) * 1e6:6.2f}")
print(f"  of it the planner {statistics.median(planner) * 1e6:6.2f}")
print(f"repeated    {statistics.median(again) * 1e6:6.2f}")
