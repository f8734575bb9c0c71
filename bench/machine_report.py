#!/usr/bin/env python3
"""How well plans were chosen and predicted for a machine: a table of the results of `retile bench --machine`.

    bench/machine_report.py RESULTS.jsonl ...

A plan's time is the median over the repetitions of all contenders that made it. Regret is the time of the plan that was
chosen over that of the fastest. Contenders with the same plan say how noisy the machine was.
"""

import json
import math
import statistics
import sys
from pathlib import Path

CHOSEN = {"auto": "auto", "wide": "always wide", "direct": "always direct", "dtensor-costs": "DTensor's costs"}


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def quantile(values, share):
    return sorted(values)[round(share * (len(values) - 1))]


def problems_of(path):
    """The results of each problem that moves something: contender to result. Those of the last run with a machine."""
    problems = {}
    with open(path) as file:
        for line in map(json.loads, file):
            if "run" in line:
                problems = problems if line["run"]["options"].get("machine") else {}
            elif "predicted" in line and "seconds" in line and line["cost"]["floor"] > 0:
                problems.setdefault(line["id"], {})[line["contender"]] = line
    return [problem for problem in problems.values() if len(problem) > 1]


class Plan:
    """What all contenders with one plan measured."""

    def __init__(self, results):
        # None for a plan of others, such as XLA's own reshard
        self.predicted, self.least = results[0]["predicted"], results[0]["least_predicted"]
        self.time = statistics.median(seconds for result in results for seconds in result["seconds"])
        medians = [statistics.median(result["seconds"]) for result in results]
        self.noise = max(medians) / min(medians) - 1 if len(medians) > 1 else None


def plans_of(problem):
    """Contender to plan; equal plans are one."""
    by_steps = {}
    for name, result in problem.items():
        by_steps.setdefault(tuple(result["steps"]), {})[name] = result
    return {name: plan for some in by_steps.values() for plan in [Plan(list(some.values()))] for name in some}


def row_of(path):
    every = [plans_of(problem) for problem in problems_of(path)]
    if not every:
        return [Path(path).stem, "0"] + ["-"] * (len(CHOSEN) + 3)
    row = [Path(path).stem, str(len(every))]
    for name in CHOSEN:
        regrets = [plans[name].time / min(p.time for p in plans.values()) for plans in every if name in plans]
        row.append(f"{geometric_mean(regrets):.3f} ({max(regrets):.2f})" if regrets else "-")
    distinct = [plan for plans in every for plan in set(plans.values())]
    errors = [abs(plan.predicted / plan.time - 1) for plan in distinct if plan.predicted is not None]
    row.append(f"{100 * statistics.median(errors):.0f} % ({100 * quantile(errors, 0.95):.0f} %)")
    chosen = [plans["auto"] for plans in every if "auto" in plans]
    row.append(f"{geometric_mean([plan.time / plan.least for plan in chosen if plan.least]):.2f}")
    noise = [plan.noise for plan in distinct if plan.noise is not None]
    row.append(f"{100 * statistics.median(noise):.0f} % ({100 * quantile(noise, 0.95):.0f} %)" if noise else "-")
    return row


def main(paths):
    if not paths:
        sys.exit(__doc__)
    head = ["results", "problems", *CHOSEN.values(), "prediction", "over bound", "equal plans"]
    rows = [head, *map(row_of, paths)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(
        "\nregret: geometric mean (most); prediction: median error (95 %); over bound: auto's time over the least possible;"
    )
    print("equal plans: how far the times of contenders with one plan lie apart, median (95 %)")


if __name__ == "__main__":
    main(sys.argv[1:])
