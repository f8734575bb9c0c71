#!/usr/bin/env python3
"""Makes a report of results files, as Markdown with plots as SVG beside it: all tables of all results, or the few of a
page whose words a person owns (bench/evaluation/page.py). Needs matplotlib for the plots alone."""

import argparse
import re
import sys
from pathlib import Path

from evaluation.page import Page
from evaluation.results_file import FileError, read_results

from evaluation import figures, tables

ROOT = Path(__file__).resolve().parent.parent
INTRODUCTION = """Nothing is timed before its result was compared with slices of the array. Contenders of one problem
take turns; the median of their repetitions counts. docs/evaluation.md says who they are."""

EXAMPLES = """examples:
  bench/report.py results.jsonl
  bench/report.py threads.jsonl mpi.jsonl jax.jsonl --output /tmp/evaluation.md
  bench/report.py results.jsonl --no-plots        # tables alone, without matplotlib
  bench/report.py docs/evaluation/results/* --page docs/evaluation.md

Results of one file that were made under the same circumstances are compared with each other, and with
no others. A last line that was cut off, where a run was stopped, is left out.
"""

CAPTIONS = {
    "times": "Run times: each point is a problem; below the diagonal ours is faster",
    "ratios": "Ratios of run times: to the right of the line ours is faster",
    "contenders": "Ratios of run times by contender: least, quartiles, most",
    "planning": "Planning times",
    "cost": "Predicted cost and run time: each point is a plan",
    "memory": "Peak of plans over the bound: least, quartiles, most",
}


class Plots:
    """Draws into a folder beside the document. Without matplotlib, or where it is not wanted, draws nothing."""

    def __init__(self, document, wanted):
        self.folder = document.with_suffix("")
        self.functions = {}
        if not wanted:
            return
        try:
            from evaluation.plots import PLOTS
        except ImportError as error:
            raise FileError(
                f"plots need matplotlib (Debian: python3-matplotlib), or give --no-plots: {error}"
            ) from error
        self.functions = PLOTS
        self.folder.mkdir(exist_ok=True)

    def draw(self, series, title, *names):
        """A picture with its caption for each of the plots that there is something to draw for."""
        blocks = []
        for name in names:
            file = f"{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}-{name}.svg"
            if name in self.functions and self.functions[name](series, self.folder / file):
                blocks.append(f"![{CAPTIONS[name]}]({self.folder.name}/{file})\n\n*{CAPTIONS[name]}.*")
        return blocks

    def redraw(self, page):
        for series, kind, path in page.plots():
            if self.functions and not (kind in self.functions and self.functions[kind](series, path)):
                raise FileError(f"{page.path}: there is nothing to draw for {path.name}")


def series_section(series, title, plots):
    if series.models:
        models = tables.table(tables.MODELS_HEADER, tables.model_rows(series))
        return [f"## {title}", tables.circumstances(series), models]
    rivals = [name for name in figures.compared(series) if name not in (*figures.OURS, figures.FLOOR)]
    return [
        f"## {title}",
        tables.circumstances(series),
        *tables.counts(series),
        "### RQ1: planning time",
        *tables.planning(series),
        *plots.draw(series, title, "planning"),
        "### RQ2: run time against others",
        *tables.run_times(series),
        *plots.draw(series, title, "times", "ratios", "contenders"),
        *(block for rival in rivals for block in tables.slowest(series, rival)),
        "### The problems P1 to P4 of the paper",
        *tables.adversarial(series),
        "### RQ3: the cost model",
        *tables.cost_model(series),
        *plots.draw(series, title, "cost"),
        "### Memory",
        *tables.memory(series),
        *plots.draw(series, title, "memory"),
    ]


def full_report(reading, plots):
    blocks = ["<!-- Written by bench/report.py. -->", "# Evaluation", INTRODUCTION]
    blocks += [f"Note: {warning}." for warning in reading.warnings]
    for series, title in zip(reading.series, tables.distinct_titles(reading.series), strict=True):
        blocks += series_section(series, title, plots)
    return "\n\n".join(blocks) + "\n"


def write_report(arguments):
    reading = read_results(arguments.results)
    for warning in reading.warnings:
        print(f"report: {warning}", file=sys.stderr)
    if not reading.series:
        raise FileError(f"there are no results in {', '.join(arguments.results)}")
    output = arguments.page or arguments.output
    output.parent.mkdir(parents=True, exist_ok=True)
    plots = Plots(output, arguments.plots)
    if arguments.page:
        page = Page(arguments.page, reading.series)
        text = page.filled()
        plots.redraw(page)
    else:
        text = full_report(reading, plots)
    output.write_text(text, encoding="utf-8")
    print(f"report: wrote {output}", file=sys.stderr)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    output = ROOT / "build/report/evaluation.md"
    parser.add_argument("results", nargs="+", metavar="RESULTS", help="files that retile bench or a peer wrote")
    parser.add_argument("--output", type=Path, default=output, help="default: build/report/evaluation.md")
    parser.add_argument("--page", type=Path, help="write the tables of this page anew instead")
    parser.add_argument("--no-plots", dest="plots", action="store_false", help="tables and words alone")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    try:
        write_report(arguments)
    except FileError as error:
        sys.exit(f"report: {error}")
    except OSError as error:
        sys.exit(f"report: {error.filename or arguments.output}: {error.strerror}")


if __name__ == "__main__":
    main()
