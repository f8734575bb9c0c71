"""Figures of one series: ratios of times, planning times, costs and memory.

A ratio is a contender's time over ours, each the median of its repetitions: above 1 we are the faster side."""

import math
import statistics
from dataclasses import dataclass

OURS = ("paper", "wide", "direct")  # our planners; the best of ours is the fastest of these on each problem
RIVALS = ("xla", "jax", "dtensor", "alltoallw", "scalapack", "fftw", "gather-slice")
FLOOR = "memcpy"
CONTENDERS = OURS + RIVALS + (FLOOR,)
BASES = ("paper", "best")
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


def our_result(results, base):
    """The result of the paper's planner, or of the fastest of our planners. Nothing where it was not measured."""
    ours = [result for contender, result in measured(results).items() if contender in OURS]
    if base == "paper":
        ours = [result for result in ours if result.contender == "paper"]
    return min(ours, key=lambda result: result.time, default=None)


def compare(problems, contender, base):
    """Where both sides were measured, by problem id."""
    comparisons = {}
    for id, results in problems.items():
        theirs, ours = measured(results).get(contender), our_result(results, base)
        if theirs and ours:
            comparisons[id] = Comparison(theirs, ours)
    return comparisons


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
    return [memory["peak"] / memory["bound"] for memory in memories if memory["bound"]]


def measured_over_predicted(results):
    """Of runs: peak bytes per device."""
    peaks = [result.peak_bytes for result in results if result.peak_bytes]
    return [peak["measured"] / peak["predicted"] for peak in peaks if peak["predicted"]]


def _ratio_figures(series, contender, base):
    name = f"{contender}.{base}"
    ratios = [comparison.ratio for comparison in compare(moving(series), contender, base).values()]
    summary = summarize(ratios)
    if not summary:
        return {}
    slower = sum(ratio < 1 for ratio in ratios)
    return {
        f"{name}.compared": summary.count,
        f"{name}.mean": summary.mean,
        f"{name}.median": summary.median,
        f"{name}.best": summary.most,
        f"{name}.worst": summary.least,
        f"{name}.slowdown": max(1.0, 1 / summary.least),
        f"{name}.slower": slower,
        f"{name}.slower-percent": 100 * slower / summary.count,
    }


def _contender_figures(series, contender):
    figures = {}
    planning = planning_seconds(series, contender)
    if planning:
        figures[f"planning.{contender}.plans"] = len(planning)
        figures[f"planning.{contender}.median-ms"] = 1e3 * statistics.median(planning)
        figures[f"planning.{contender}.most-ms"] = 1e3 * max(planning)
    results = results_of(moving(series), contender)
    for model in ("paper", "volume"):
        correlation = cost_correlation(results, model)
        if correlation is not None:
            figures[f"cost.{contender}.{model}-correlation"] = correlation
    peaks = peak_over_bound(results_of(sampled(series), contender))
    if peaks:
        figures[f"memory.{contender}.plans"] = len(peaks)
        figures[f"memory.{contender}.peak-over-bound"] = max(peaks)
        figures[f"memory.{contender}.above-bound"] = sum(peak > 1 for peak in peaks)
    runs = measured_over_predicted(results_of(sampled(series), contender))
    if runs:
        figures[f"memory.{contender}.runs"] = len(runs)
        figures[f"memory.{contender}.above-predicted"] = sum(run > 1 for run in runs)
    return figures


RATIO_FIGURES = ("compared", "mean", "median", "best", "worst", "slowdown", "slower", "slower-percent")
TOPIC_FIGURES = {
    "planning": ("plans", "median-ms", "most-ms"),
    "cost": ("paper-correlation", "volume-correlation"),
    "memory": ("plans", "peak-over-bound", "above-bound", "runs", "above-predicted"),
}


def is_figure_name(name, contenders):
    """Whether some results file could give a figure of this name."""
    known = {*CONTENDERS, *contenders}
    match name.split("."):
        case ["problems", part]:
            return part in ("sampled", "moving")
        case ["cost", "pairs", part]:
            return part in ("paper-count", "paper-percent", "volume-count", "volume-percent")
        case [id, contender] if id in ADVERSARIAL:
            return contender in known
        case [topic, contender, part] if topic in TOPIC_FIGURES:
            return contender in known and part in TOPIC_FIGURES[topic]
        case [contender, base, part]:
            return contender in known and base in BASES and part in RATIO_FIGURES
    return False


def figures_of(series):
    """Every figure that words may speak of, by name; what was not measured is not there."""
    figures = {"problems.sampled": len(sampled(series)), "problems.moving": len(moving(series))}
    for contender in series.contenders:
        figures |= _contender_figures(series, contender)
        for base in BASES:
            figures |= _ratio_figures(series, contender, base)
        for id in ADVERSARIAL:
            for comparison in compare({id: series.results.get(id, {})}, contender, "paper").values():
                figures[f"{id}.{contender}"] = comparison.ratio
    for model in ("paper", "volume"):
        pairs, agreeing = cheaper_is_faster(moving(series), model)
        if pairs:
            figures[f"cost.pairs.{model}-count"] = pairs
            figures[f"cost.pairs.{model}-percent"] = 100 * agreeing / pairs
    return figures
