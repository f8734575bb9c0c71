"""A page whose tables and plots come from results, and whose words a person owns.

What stands between <!-- NAME --> and <!-- /NAME --> is written here. A picture FOLDER/SERIES-KIND.svg is a plot of the
series that is called by its file. Words outside name no figure that was measured."""

import re
import statistics

from evaluation.results_file import FileError
from evaluation.tables import (
    MODELS_HEADER,
    duration,
    model_rows,
    number,
    percent,
    problem_text,
    steps_text,
    table,
)

from evaluation import figures

PEERS = {  # in the words of people who use them
    "xla": "XLA's rules on our engine",
    "jax": "XLA with its runtime",
    "dtensor": "PyTorch's DTensor",
    "min-cost": "DTensor's min-cost planner",
    "alltoallw": "one `MPI_Alltoallw`",
    "scalapack": "ScaLAPACK `p?gemr2d`",
    "fftw": "FFTW-MPI transpose",
    "gather-slice": "gather, then slice",
}
OURS = {  # what runs our plans, but for threads and MPI ranks
    "cuda": "one GPU",
    "jax": "`retile.jax.reshard`",
    "gloo": "`retile.torch.redistribute` over gloo",
    "nccl": "`retile.torch.redistribute` over NCCL",
}


def _large(all_series, contender):
    """Those with enough problems of a contender's for shares of them to mean something."""
    counts = {name: len(_ratios_to(series, contender)) for name, series in all_series.items()}
    return {name: series for name, series in all_series.items() if counts[name] >= 30}


def _ratios_to(series, contender):
    compared = figures.compare(figures.moving(series), contender, figures.main_base(series))
    return [comparison.ratio for comparison in compared.values()]


def _ours(series):
    """What runs our plans, and whose memory the tiles are in."""
    run = series.runs[-1]
    words = OURS.get(series.engine) or _workers(run)
    if series.engine != "mpi":
        return words
    options = run["options"]
    if options.get("transport") == "collectives":
        return f"{words}, MPI's collectives"
    return f"{words}, own memory" if options.get("memory") == "caller" else f"{words}, engine's memory"


def _workers(run):
    if run["engine"] == "cuda":
        return OURS["cuda"]
    return f"{run['ranks']} ranks" if run["ranks"] > 1 else f"{run['threads']} threads"


def _measured(all_series):
    rows = []
    for name, series in all_series.items():
        run = series.runs[-1]
        machine = run["machine"]
        options = run["options"]
        transport = f", transport {options['transport']}" if "transport" in options else ""
        rows.append(
            (name, f"{run['engine']}, {_workers(run)}{transport}")
            + (len(figures.sampled(series)), len(figures.moving(series)))
            + (run.get("scale", "–"), run.get("repetitions", "–"))
            + (f"{machine['cpu']}, {machine['cores']} cores", run["commit"][:7], run["date"][:10])
        )
    header = ["results", "engine", "problems", "that move data", "scale", "repetitions", "machine", "commit", "date"]
    return table(header, rows)


def _planning(all_series):
    rows = []
    for contender in figures.OURS:
        seconds = [s for series in all_series.values() for s in figures.planning_seconds(series, contender)]
        if not seconds:
            continue
        times = (statistics.median(seconds), figures.percentile(seconds, 0.99), max(seconds))
        rows.append((contender, len(seconds), *map(duration, times)))
    return table(["planner", "plans", "median", "99 %", "most"], rows)


def _ratios(all_series):
    return _against(all_series, PEERS, _with_span)


def _peers(all_series):
    """The ratios in short, without those that nobody would choose."""
    peers = {peer: words for peer, words in PEERS.items() if peer != "gather-slice"}
    return _against(all_series, peers, lambda summary: number(summary.mean))


def _against(all_series, peers, text_of):
    rows = []
    for peer, words in peers.items():
        for name, series in all_series.items():
            ratios = _ratios_to(series, peer)
            if ratios:
                text = text_of(figures.summarize(ratios))
                rows.append((words, _ours(series), name, len(ratios), text, *_slower(ratios)))
    return table(["against", "ours", "results", "problems", "over ours", *SLOWER], rows)


def _with_span(summary):
    return f"{number(summary.mean)} ({number(summary.least)} to {number(summary.most)})"


def _parts(all_series):
    """A row for each series, a column for each planner, for copying and for what is equal to another contender."""
    rows = []
    for name, series in all_series.items():
        found = [_ratios_to(series, part) for part in (*figures.PARTS, figures.FLOOR)]
        found.append(figures.repeated(series) + figures.timed_again(series))
        if any(found):
            rows.append((name, *map(_part_text, found)))
    planners = (f"*{part}*" for part in figures.PARTS)
    return table(["results", *planners, "copying each target tile once", "equal contenders"], rows)


def _part_text(ratios):
    if not ratios:
        return "–"
    return f"{_with_span(figures.summarize(ratios))}; {_count_below(CLEARLY_SLOWER, ratios)} of {len(ratios)}"


SLOWER = ["ours is slower on", "by more than a tenth on"]
CLEARLY_SLOWER = 1 / 1.1


def _slower(ratios):
    counts = [_count_below(least, ratios) for least in (1, CLEARLY_SLOWER)]
    return [f"{count} ({percent(count, len(ratios))})" for count in counts]


def _count_below(least, ratios):
    return sum(ratio < least for ratio in ratios)


def _models(all_series):
    return table(MODELS_HEADER, [row for series in all_series.values() for row in model_rows(series)])


def _cause(comparison):
    """Of a loss, as far as the steps tell."""
    ours, theirs = comparison.ours.steps, comparison.theirs.steps
    if ours == theirs:
        return "the same steps"
    alltoalls = [sum(step.startswith("alltoall") for step in steps) for steps in (ours, theirs)]
    return "fewer alltoalls" if alltoalls[1] < alltoalls[0] else "other steps"


def _losses(all_series):
    """A row for each cause, a column for each series, and in each cell how many, how bad, and how many another planner
    of ours wins."""
    large = _large(all_series, "xla")
    losses = {cause: {name: [] for name in large} for cause in ("the same steps", "fewer alltoalls", "other steps")}
    for name, series in large.items():
        for comparison in figures.compare(figures.moving(series), "xla", figures.main_base(series)).values():
            if comparison.ratio < 1:
                losses[_cause(comparison)][name].append(comparison)
    rows = []
    for cause, by_series in losses.items():
        cells = []
        for name, found in by_series.items():
            clear = _count_below(CLEARLY_SLOWER, [loss.ratio for loss in found])
            best = [figures.our_result(large[name].results[loss.ours.id], "best") for loss in found]
            won = sum(loss.theirs.time >= ours.time for loss, ours in zip(found, best, strict=True))
            worst = number(min((loss.ratio for loss in found), default=None))
            cells.append(f"{len(found)}, {clear} by more than a tenth, worst {worst}; our fastest wins {won}")
        losses_of_all = [loss for found in by_series.values() for loss in found]
        if not losses_of_all:
            continue
        worst = min(losses_of_all, key=lambda loss: loss.ratio)
        example = f"{problem_text(worst.ours)}: {steps_text(worst.ours)} against {steps_text(worst.theirs)}"
        rows.append((cause, *cells, example))
    return table(["XLA's rules have", *large, "the worst of all"], rows)


def _adversarial(all_series):
    """A column for each series that has some of the problems."""
    compared = {
        name: figures.compare({id: series.results.get(id, {}) for id in figures.ADVERSARIAL}, "xla", base)
        for name, series in all_series.items()
        for base in [figures.main_base(series)]
    }
    compared = {name: found for name, found in compared.items() if found}
    rows = []
    for id in figures.ADVERSARIAL:
        shown = next((found[id] for found in compared.values() if id in found), None)
        if shown:
            ratios = (number(found[id].ratio if id in found else None) for found in compared.values())
            rows.append((id, *ratios, steps_text(shown.ours), steps_text(shown.theirs)))
    first = next(iter(compared), "")  # where arrays have another size, plans may differ
    steps = [f"ours, in {first}", f"XLA's rules, in {first}"]
    return table(["problem", *(f"{name}: over ours" for name in compared), *steps], rows)


def _cost(all_series):
    rows = []
    for name, series in _large(all_series, "paper").items():
        problems = figures.moving(series)
        cells = []
        for model in ("paper", "volume"):
            pairs, agreeing = figures.cheaper_is_faster(problems, model)
            correlation = figures.cost_correlation(figures.results_of(problems, figures.main_base(series)), model)
            cells += [number(correlation), f"{percent(agreeing, pairs)} of {pairs}"]
        rows.append((name, *cells))
    header = ["results", "model *paper*: correlation", "cheaper is faster"]
    header += ["model *volume*: correlation", "cheaper is faster"]
    return table(header, rows)


def _memory(all_series):
    rows = []
    for contender in figures.CONTENDERS:
        results = [r for series in all_series.values() for r in figures.results_of(figures.sampled(series), contender)]
        plans, runs = figures.peak_over_bound(results), figures.measured_over_predicted(results)
        if plans:
            rows.append(
                (contender, len(plans), sum(peak > 1 for peak in plans), number(max(plans)))
                + (len(runs), sum(run > 1 for run in runs))
            )
    return table(["plans of", "plans", "above the bound", "at most times it", "runs", "above what was predicted"], rows)


TABLES = {"measured": _measured, "planning": _planning, "ratios": _ratios, "parts": _parts}
TABLES |= {"losses": _losses, "peers": _peers, "models": _models}
TABLES |= {"adversarial": _adversarial, "cost": _cost, "memory": _memory}
BLOCK = re.compile(r"<!-- ([a-z]+) -->\n.*?<!-- /\1 -->", re.DOTALL)


class Page:
    def __init__(self, path, all_series):
        self.path, self.text = path, path.read_text(encoding="utf-8")
        self.series = {}
        for series in all_series:
            name = series.file.split(".")[0]
            if name in self.series:
                raise FileError(f"{series.file} holds results of several circumstances: a page needs one series a file")
            self.series[name] = series

    def filled(self):
        """The text with its blocks written anew."""
        for stray in re.finditer("<!--", BLOCK.sub(lambda match: "\n" * match[0].count("\n"), self.text)):
            self._fail(stray.start(), "expected <!-- NAME --> with <!-- /NAME --> below")
        return BLOCK.sub(self._write, self.text)

    def plots(self):
        """(series, kind of plot, path) of each plot that the page shows."""
        shown = []
        for match in re.finditer(rf"\]\({self.path.stem}/(.+)-([a-z]+)\.svg\)", self.text):
            if match[1] not in self.series:
                self._fail(match.start(), f"there are no results called '{match[1]}'")
            shown.append((self.series[match[1]], match[2], self.path.parent / match[0][2:-1]))
        return shown

    def _write(self, match):
        if match[1] not in TABLES:
            self._fail(match.start(), f"no table is called '{match[1]}'; there are {', '.join(TABLES)}")
        return f"<!-- {match[1]} -->\n{TABLES[match[1]](self.series)}\n<!-- /{match[1]} -->"

    def _fail(self, place, message):
        line = self.text.count("\n", 0, place) + 1
        raise FileError(f"{self.path}:{line}: {message}")
