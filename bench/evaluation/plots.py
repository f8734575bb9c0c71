"""The plots of one series, as SVG files whose bytes depend on the results alone."""

import math

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update(
    {"svg.hashsalt": "retile", "svg.fonttype": "none", "font.size": 9, "axes.axisbelow": True, "figure.dpi": 72}
)

from matplotlib import pyplot, ticker  # noqa: E402 (the backend is chosen first)

from evaluation import figures  # noqa: E402

COLORS = {name: f"C{i % 10}" for i, name in enumerate(figures.CONTENDERS)}


def _color(contender):
    return COLORS.get(contender, "black")


def _axes(x_label, y_label, size=(5.2, 4)):
    _, axes = pyplot.subplots(figsize=size, layout="constrained")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(color="0.9")
    return axes


def _save(axes, path):
    axes.figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(axes.figure)


def _scatter(axes, x, y, contender):
    axes.plot(x, y, ".", markersize=3, color=_color(contender), label=contender)


def _logarithmic_bins(values, count):
    low, high = math.log(min(values)), math.log(max(values))
    if low == high:
        low, high = low - 0.1, high + 0.1
    return [math.exp(low + (high - low) * i / count) for i in range(count + 1)]


def _ratio_axis(axes):
    """Logarithmic, with plain numbers and a line at 1."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.axvline(1, linestyle="--", color="0.4")


def _boxes(values, x_label, path):
    """One box for each contender, whiskers from least to most."""
    axes = _axes(x_label, "", size=(5.2, 0.6 + 0.35 * len(values)))
    axes.boxplot(list(values.values())[::-1], vert=False, whis=(0, 100), widths=0.6)
    axes.set_yticks(range(1, len(values) + 1), list(values)[::-1])
    _ratio_axis(axes)
    _save(axes, path)


def plot_times(series, path):
    """As fig:sub1: below the diagonal we are faster."""
    rival, base = figures.main_rival(series), figures.main_base(series)
    comparisons = figures.compare(figures.moving(series), rival, base).values()
    if not comparisons:
        return False
    theirs, ours = [c.theirs.time for c in comparisons], [c.ours.time for c in comparisons]
    axes = _axes(f"{rival}, seconds", f"{base}, seconds", size=(4.6, 4.6))
    ends = [min(theirs + ours) / 1.2, max(theirs + ours) * 1.2]
    axes.plot(ends, ends, "--", color="0.4")
    _scatter(axes, theirs, ours, base)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    _save(axes, path)
    return True


def plot_ratios(series, path):
    """As fig:sub2: to the right of the line we are faster."""
    rival, base = figures.main_rival(series), figures.main_base(series)
    ratios = [c.ratio for c in figures.compare(figures.moving(series), rival, base).values()]
    if not ratios:
        return False
    axes = _axes(f"time of {rival} over time of {base}", "problems", size=(5.2, 3.2))
    axes.hist(ratios, bins=_logarithmic_bins(ratios, 40), color=_color(base))
    _ratio_axis(axes)
    _save(axes, path)
    return True


def plot_contenders(series, path):
    """Ratios of every contender to ours."""
    values, base = {}, figures.main_base(series)
    for contender in figures.compared(series):
        if contender == base:
            continue
        ratios = [c.ratio for c in figures.compare(figures.moving(series), contender, base).values()]
        if ratios:
            values[contender] = ratios
    if values:
        _boxes(values, f"time over time of {base}", path)
    return bool(values)


def plot_planning(series, path):
    times = {name: figures.planning_seconds(series, name) for name in figures.in_order(series.contenders)}
    times = {name: values for name, values in times.items() if values}
    if not times:
        return False
    bins = _logarithmic_bins([value for values in times.values() for value in values], 40)
    axes = _axes("planning time, seconds", "problems", size=(5.2, 3.2))
    for name, values in times.items():
        axes.hist(values, bins=bins, histtype="step", color=_color(name), label=name)
    axes.set_xscale("log")
    axes.legend()
    _save(axes, path)
    return True


def plot_cost(series, path):
    axes = _axes("predicted cost, bytes", "run time, seconds")
    drawn = False
    for contender in figures.in_order(series.contenders):
        priced = [r for r in figures.results_of(figures.moving(series), contender) if r.cost and r.cost["paper"] > 0]
        if priced:
            costs = [figures.cost_bytes(result, "paper") for result in priced]
            _scatter(axes, costs, [result.time for result in priced], contender)
            drawn = True
    if drawn:
        axes.set(xscale="log", yscale="log")
        axes.legend(markerscale=3)
        _save(axes, path)
    else:
        pyplot.close(axes.figure)
    return drawn


def plot_memory(series, path):
    """Plans: the most that a device holds, over the bound."""
    problems = figures.sampled(series)
    values = {c: figures.peak_over_bound(figures.results_of(problems, c)) for c in figures.in_order(series.contenders)}
    values = {contender: peaks for contender, peaks in values.items() if peaks}
    if values:
        _boxes(values, "peak over the larger of source and target tile", path)
    return bool(values)


PLOTS = {
    "times": plot_times,
    "ratios": plot_ratios,
    "contenders": plot_contenders,
    "planning": plot_planning,
    "cost": plot_cost,
    "memory": plot_memory,
}
