"""Figures of one series: ratios of times, planning times, costs and memory.

A ratio is a contender's time over ours, each the median of its repetitions: above 1 we are the faster side."""

import math
import statistics
from dataclasses import dataclass

PARTS = ("paper", "wide", "direct")  # planners that auto chooses from
OURS = ("auto", *PARTS)  # the best of ours is the fastest of these on each problem
RIVALS = ("xla", "jax", "dtensor", "min-cost", "alltoallw", "scalapack", "fftw", "gather-slice")
FLOOR = "memcpy"
CONTENDERS = OURS + RIVALS + (FLOOR,)
AGAIN = " again"  # after the name of a contender that was timed twice
FORM = "form "  # before the name of a form of our programs
ADVERSARIAL = ("P1", "P2", "P3", "P4")  # chosen for being hard: reported by themselves, in no average


@dataclass(frozen=True)
class Comparison:
    """One problem: a contender's result beside ours."""

    theirs: object
    ours: object

    @property
    def ratio(self):
        return self.theirs.time / self.ours.time


@dataclass(frozen=True)
class Summary:
    """Of ratios, or of other positive numbers."""

    count: int
    mean: float  # geometric
    median: float
    least: float
    most: float


def summarize(values):
    """Nothing where there are no values."""
    if not values:
        return None
    return Summary(len(values), statistics.geometric_mean(values), statistics.median(values), min(values), max(values))


def in_order(contenders):
    """Known contenders first, in the order above."""
    known = [name for name in CONTENDERS if name in contenders]
    return known + sorted(set(contenders) - set(known))


def compared(series):
    """Contenders that ratios are shown of: neither the forms of our programs, nor those that were timed again."""
    names = in_order(series.contenders)
    return [name for name in names if not (name.startswith(FORM) or name.endswith(AGAIN))]


def moves_data(results):
    """Whether some device must receive something. Unknown costs count as yes."""
    floors = [result.cost["floor"] for result in results.values() if result.cost]
    return not floors or max(floors) > 0


def sampled(series):
    return {id: results for id, results in series.results.items() if id not in ADVERSARIAL}


def moving(series):
    return {id: results for id, results in sampled(series).items() if moves_data(results)}


def measured(results):
    return {contender: result for contender, result in results.items() if not result.skipped and result.time > 0}


def main_base(series):
    """Whom others are compared with: what a user gets, or the paper's planner where that was not measured."""
    return "auto" if any("auto" in measured(results) for results in series.results.values()) else "paper"


def our_result(results, base):
    """The result of a planner, or of the fastest of ours ("best"). Nothing where it was not measured."""
    ours = [result for contender, result in measured(results).items() if contender in OURS]
    if base != "best":
        ours = [result for result in ours if result.contender == base]
    return min(ours, key=lambda result: result.time, default=None)


def compare(problems, contender, base):
    """Where both sides were measured, by problem id."""
    comparisons = {}
    for id, results in problems.items():
        theirs, ours = measured(results).get(contender), our_result(results, base)
        if theirs and ours:
            comparisons[id] = Comparison(theirs, ours)
    return comparisons


def repeated(series):
    """Ratios of equal plans: those of other planners that have the steps of ours over ours. They show the noise."""
    compared = (compare(moving(series), part, "auto") for part in PARTS)
    return [c.ratio for some in compared for c in some.values() if c.theirs.steps == c.ours.steps]


def timed_again(series):
    """Ratios of equal contenders: the second time over the first. They show the noise, too."""
    problems = [measured(results) for results in moving(series).values()]
    return [
        results[name + AGAIN].time / result.time
        for results in problems
        for name, result in results.items()
        if name + AGAIN in results
    ]


def main_rival(series):
    """The contender that plots and the table of P1 to P4 set beside ours."""
    return next((name for name in RIVALS if any(name in measured(r) for r in series.results.values())), None)


def results_of(problems, contender):
    return [results[contender] for results in problems.values() if contender in measured(results)]


def planning_seconds(series, contender):
    """Of every problem that it planned, whether or not the plan was run."""
    plans = [results[contender] for results in series.results.values() if contender in results]
    return [result.planning_ns / 1e9 for result in plans if result.planning_ns]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _ranks(values):
    """From 1; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for position in order[start:end]:
            ranks[position] = (start + 1 + end) / 2
        start = end
    return ranks


def rank_correlation(first, second):
    """Spearman's. Nothing where fewer than three pairs, or equal values throughout, leave it undefined."""
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return statistics.correlation(_ranks(first), _ranks(second))


def cost_bytes(result, model):
    return result.cost[model] * result.element_bytes


def cost_correlation(results, model):
    priced = [result for result in results if result.cost]
    return rank_correlation([cost_bytes(r, model) for r in priced], [r.time for r in priced])


def cheaper_is_faster(problems, model):
    """Over pairs of plans of one problem whose costs differ: how many pairs, and in how many the cheaper is faster."""
    pairs = agreeing = 0
    for results in problems.values():
        priced = [result for result in measured(results).values() if result.cost]
        for i, one in enumerate(priced):
            for other in priced[:i]:
                cheaper, dearer = sorted((one, other), key=lambda result: result.cost[model])
                if cheaper.cost[model] < dearer.cost[model]:
                    pairs += 1
                    agreeing += cheaper.time < dearer.time
    return pairs, agreeing


def peak_over_bound(results):
    """Of plans: the most elements that a device holds over the larger of source and target tile."""
    memories = [result.memory for result in results if result.memory]
    return [memory["peak"] / max(memory["source"], memory["target"]) for memory in memories]


def measured_over_predicted(results):
    """Of runs: peak bytes per device."""
    peaks = [result.peak_bytes for result in results if result.peak_bytes]
    return [peak["measured"] / peak["predicted"] for peak in peaks if peak["predicted"]]
