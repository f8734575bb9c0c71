"""Tables of one series, in Markdown. Each function gives a list of blocks."""

import json
import statistics

from evaluation import figures

PAPER_SLOWDOWNS = {"P1": 1.6, "P2": 1.6, "P3": 1.5, "P4": 1.5}  # tbl:adversarial, on 8 TPU devices
WORST_SHOWN = 10
NAMES_SHOWN = 5


def number(value):
    """About three digits that count."""
    if value is None:
        return "–"
    if isinstance(value, int) or value == 0:
        return str(int(value))
    for least, digits in ((100, 0), (10, 1), (0.1, 2)):
        if abs(value) >= least:
            return f"{value:.{digits}f}"
    return f"{value:.2g}"


def duration(seconds):
    units = (("s", 1), ("ms", 1e3), ("µs", 1e6))
    unit, factor = next((one for one in units if seconds * one[1] >= 1), units[-1])
    return f"{number(seconds * factor)} {unit}"


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "–"


def steps_text(result):
    return ", ".join(f"`{step}`" for step in result.steps) or "–"


def problem_text(result):
    source = result.type_text(result.src, result.src_view)
    target = result.type_text(result.dst, result.dst_view)
    return f"`{source}` ⇝ `{target}`, {result.total_bytes / 1e6:.0f} MB"


def names_text(names):
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    escaped = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in escaped)


def series_title(series):
    run = series.runs[-1]
    options = run.get("options") if isinstance(run.get("options"), dict) else {}
    ranks = f" on {run['ranks']} ranks" if run.get("ranks", 1) != 1 else ""
    transport = f", transport {options['transport']}" if options.get("transport", "auto") != "auto" else ""
    problems = f", {options['problems']}" if options.get("problems") else ""
    peer = f", beside {options['peer']}" if options.get("peer") else ""
    memory = f", in the {options['memory']}'s memory" if options.get("memory") else ""
    return f"{series.engine}, {run.get('devices', '?')} devices{ranks}{transport}{problems}{memory}{peer}"


def distinct_titles(all_series):
    titles = []
    for series in all_series:
        title = series_title(series)
        count = sum(title == other or other.startswith(f"{title} (") for other in titles)
        titles.append(f"{title} ({count + 1})" if count else title)
    return titles


def circumstances(series):
    def all_of(key):
        return ", ".join(dict.fromkeys(str(run.get(key, "unknown")) for run in series.runs))

    run = series.runs[-1]
    machine = run.get("machine") if isinstance(run.get("machine"), dict) else {}
    memory = machine.get("memory_bytes")
    rows = [
        ("results", f"{series.file}, written in {len(series.runs)} go{'es' if len(series.runs) > 1 else ''}"),
        ("machine", f"{machine.get('cpu', 'unknown')}, {machine.get('cores', '?')} cores"),
        ("memory", f"{memory / 2**30:.0f} GiB" if isinstance(memory, int) else "unknown"),
        ("system", machine.get("system", "unknown")),
        ("date", all_of("date")),
        ("version, commit", f"{all_of('version')}, {all_of('commit')}"),
        ("devices, ranks, threads", ", ".join(str(run.get(key, "?")) for key in ("devices", "ranks", "threads"))),
        ("seed", run.get("seed", "unknown")),
        ("scale", f"{run.get('scale', 'unknown')} of the elements of each array"),
        ("repetitions", f"{run.get('repetitions', 'unknown')}, of which the median counts"),
        ("options", f"`{json.dumps(run.get('options', {}), sort_keys=True)}`"),
    ]
    return table(["", ""], rows)


def counts(series):
    sampled, moving = figures.sampled(series), figures.moving(series)
    sentence = f"{len(sampled)} problems were sampled; {len(moving)} of them move data."
    if len(moving) < len(sampled):
        sentence += " On the others no device lacks anything of its target tile: they stand in no ratio below."
    blocks = [sentence]
    rows = []
    reasons = {}
    for contender in figures.in_order(series.contenders):
        results = [results[contender] for results in series.results.values() if contender in results]
        skipped = [result for result in results if result.skipped]
        missing = len(series.results) - len(results)
        rows.append((contender, len(results) - len(skipped), len(skipped), missing))
        for result in skipped:
            reasons.setdefault((contender, result.skipped), []).append(result.id)
    blocks.append(table(["contender", "measured", "skipped", "no result in the file"], rows))
    if reasons:
        rows = [(contender, reason, len(ids), names_text(ids)) for (contender, reason), ids in reasons.items()]
        blocks.append(table(["skipped by", "why", "problems", "which"], rows))
    return blocks


def planning(series):
    rows = []
    for contender in figures.in_order(series.contenders):
        seconds = figures.planning_seconds(series, contender)
        if seconds:
            times = (statistics.median(seconds), figures.percentile(seconds, 0.99), max(seconds))
            rows.append((contender, len(seconds), *map(duration, times)))
    return (
        [table(["planner", "plans", "median", "99 %", "most"], rows)] if rows else ["No planning times were recorded."]
    )


def ratio_rows(series, contender):
    rows = []
    for base in (figures.main_base(series), "best"):
        if contender == base or (contender in figures.OURS and base == "best"):
            continue
        ratios = [c.ratio for c in figures.compare(figures.moving(series), contender, base).values()]
        summary = figures.summarize(ratios)
        if not summary:
            continue
        slower = sum(ratio < 1 for ratio in ratios)
        rows.append(
            (contender, base, summary.count)
            + tuple(map(number, (summary.mean, summary.median, summary.most, summary.least)))
            + (f"{slower} ({percent(slower, summary.count)})", number(1 / summary.least) if slower else "–")
        )
    return rows


def run_times(series):
    rows = [row for contender in figures.compared(series) for row in ratio_rows(series, contender)]
    if not rows:
        return [f"No problem was measured for both {figures.main_base(series)} and another contender."]
    header = ["contender", "ours", "problems", "geometric mean", "median", "best", "worst"]
    noise = figures.summarize(figures.timed_again(series))
    span = f" ({number(noise.least)} to {number(noise.most)})" if noise else ""
    return [
        "The time of a contender over ours: above 1 we are faster. *auto* is what a user gets, *paper* the planner of the "
        "paper's collectives, *best* the fastest of our planners on each problem, known only afterwards.",
        table(header + ["ours is slower on", "at most by"], rows),
        *([f"Contenders that were timed twice: {number(noise.mean)}{span}."] if noise else []),
    ]


def slowest(series, contender):
    """Where we lose most against a contender."""
    problems, base = figures.moving(series), figures.main_base(series)
    comparisons = figures.compare(problems, contender, base)
    losses = sorted((c.ratio, id) for id, c in comparisons.items() if c.ratio < 1)
    if not losses:
        return []
    rows = []
    for ratio, id in losses[:WORST_SHOWN]:
        comparison = comparisons[id]
        best = figures.our_result(problems[id], "best")
        rows.append(
            (
                f"{id}: {problem_text(comparison.ours)}",
                f"{duration(comparison.ours.time)}: {steps_text(comparison.ours)}",
                f"{duration(comparison.theirs.time)}: {steps_text(comparison.theirs)}",
                number(1 / ratio),
                f"{best.contender}: {number(best.time / comparison.theirs.time)}",
            )
        )
    shown = f"the {WORST_SHOWN} worst of {len(losses)}" if len(losses) > WORST_SHOWN else f"all {len(losses)}"
    return [
        f"Where *{base}* is slower than *{contender}*, {shown}:",
        table(["problem", base, contender, "slower by", "our fastest, over theirs"], rows),
    ]


def adversarial(series):
    rival, base = figures.main_rival(series), figures.main_base(series)
    rows = []
    for id in figures.ADVERSARIAL:
        results = series.results.get(id, {})
        for comparison in figures.compare({id: results}, rival, base).values():
            best = figures.our_result(results, "best")
            rows.append(
                (
                    f"{id}: {problem_text(comparison.ours)}",
                    f"{duration(comparison.ours.time)}: {steps_text(comparison.ours)}",
                    f"{duration(comparison.theirs.time)}: {steps_text(comparison.theirs)}",
                    number(comparison.ratio),
                    f"{best.contender}: {number(comparison.theirs.time / best.time)}",
                    number(1 / PAPER_SLOWDOWNS[id]),
                )
            )
    if not rows:
        return ["P1 to P4 were not measured here."]
    header = ["problem", base, rival, f"{rival} over {base}", f"{rival} over our fastest", "in the paper"]
    return [table(header, rows)]


MODELS_HEADER = ["model", "moved by", "runs", "median", "over ours"]


def model_rows(series):
    """Each way to move a whole model."""
    rows = []
    for model, contenders in series.models.items():
        ours = statistics.median(contenders[series.runs[-1]["options"]["ours"]])
        for contender, seconds in contenders.items():
            time = statistics.median(seconds)
            rows.append((model, contender, len(seconds), duration(time), number(time / ours)))
    return rows


def cost_model(series):
    problems = figures.moving(series)
    rows = []
    for contender in figures.in_order(series.contenders):
        results = [result for result in figures.results_of(problems, contender) if result.cost]
        if results:
            correlations = [figures.cost_correlation(results, model) for model in ("paper", "volume")]
            rows.append((contender, len(results), *map(number, correlations)))
    if not rows:
        return ["No costs were recorded."]
    blocks = [
        "Rank correlation (Spearman) of predicted cost in bytes and run time, over problems:",
        table(["plans of", "problems", "cost model *paper*", "cost model *volume*"], rows),
    ]
    for model in ("paper", "volume"):
        pairs, agreeing = figures.cheaper_is_faster(problems, model)
        if pairs:
            blocks.append(
                f"Of two plans of one problem whose *{model}* costs differ, the cheaper is the faster in {agreeing} of "
                f"{pairs} pairs ({percent(agreeing, pairs)})."
            )
    return blocks


def memory(series):
    rows = []
    for contender in figures.in_order(series.contenders):
        results = figures.results_of(figures.sampled(series), contender)
        plans, runs = figures.peak_over_bound(results), figures.measured_over_predicted(results)
        if not plans and not runs:
            continue
        largest = max((r.peak_bytes["measured"] for r in results if r.peak_bytes), default=None)
        rows.append(
            (contender, len(plans), number(max(plans, default=None)), sum(peak > 1 for peak in plans))
            + (len(runs), number(max(runs, default=None)), sum(run > 1 for run in runs))
            + (f"{largest / 1e6:.0f} MB" if largest is not None else "–",)
        )
    if not rows:
        return ["No peaks were recorded."]
    header = ["contender", "plans", "peak over bound, most", "plans above the bound"]
    header += ["runs", "measured over predicted peak, most", "runs above prediction", "largest peak of a device"]
    return [
        "The bound is the larger of source and target tile. A plan's peak counts the array's elements that a device "
        "holds; the peak of a run counts bytes of all tiles alive at once, and staging.",
        table(header, rows),
    ]
