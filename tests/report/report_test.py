"""Tests of bench/report.py that need no matplotlib."""

import difflib
import json
import lzma
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DATA = HERE.parent / "data"
sys.path.insert(0, str(ROOT / "bench"))

from evaluation.results_file import FileError, read_results  # noqa: E402

from evaluation import figures  # noqa: E402

RUN = {"run": {"engine": "threads", "devices": 2, "ranks": 1, "date": "2026-01-01T00:00:00Z"}}


def result(id, contender, seconds, **parts):
    line = {"id": id, "mesh": {"a": 2}, "shape": [4, 6], "src": [["a"], []], "dst": [[], ["a"]], "dtype": "f64"}
    line |= {"engine": "threads", "contender": contender, "verified": True, "seconds": seconds}
    return {key: value for key, value in (line | parts).items() if value is not None}


def model(contender, seconds):
    return {"model": "trainer to server", "engine": "gloo", "contender": contender, "seconds": seconds}


COMPLETE = RUN["run"] | {"threads": 1, "machine": {"cpu": "one", "cores": 2}, "commit": "c"}
MODELS = [{"run": COMPLETE | {"options": {"ours": "transfer"}}}]
MODELS += [model("buckets", [2.5, 3.5]), model("transfer", [2.0])]


def cost(paper, floor=1):
    return {"paper": paper, "volume": paper, "lower_bound": 0, "floor": floor, "optimal": False}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, *lines, name="results.jsonl"):
        path = self.folder / name
        path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        return path

    def read(self, *lines):
        return read_results([self.write(*lines)])

    def series(self, *results):
        return self.read(RUN, *results).series[0]

    def report(self, *arguments):
        """The finished process and the document, empty where there is none."""
        output = self.folder / "out" / "evaluation.md"
        command = [sys.executable, ROOT / "bench/report.py", *arguments, "--output", output]
        process = subprocess.run(command, capture_output=True, text=True)
        return process, output.read_text(encoding="utf-8") if output.exists() else ""


class Report(Folder):
    def test_recorded_results_give_the_expected_document(self):
        process, document = self.report(DATA / "bench_results.jsonl", "--no-plots")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("the last line of bench_results.jsonl was cut off", process.stderr)
        expected = (DATA / "bench_results.md").read_text(encoding="utf-8")
        difference = difflib.unified_diff(
            expected.splitlines(), document.splitlines(), "expected", "found", lineterm=""
        )
        self.assertEqual(expected, document, "\n" + "\n".join(difference))

    def test_several_files_are_not_mixed(self):
        one = self.write(RUN, result("p", "paper", [1.0]), name="one.jsonl")
        other = self.write(RUN, result("p", "xla", [2.0]), name="other.jsonl")
        process, document = self.report(one, other, "--no-plots")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("## threads, 2 devices\n", document)
        self.assertIn("## threads, 2 devices (2)\n", document)
        self.assertEqual(document.count("No problem was measured for both paper and another contender."), 2)

    def test_whole_models_have_a_table(self):
        process, document = self.report(self.write(*MODELS), "--no-plots")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("| trainer to server | buckets | 2 | 3.00 s | 1.50 |\n", document)
        self.assertIn("| trainer to server | transfer | 1 | 2.00 s | 1.00 |\n", document)

    def test_faults_are_told_by_place(self):
        good = result("p", "paper", [1.0])
        self.check_fault([*MODELS, MODELS[1] | {"seconds": []}], 'results.jsonl:4: expected either "seconds" or the')
        self.check_fault([], "there are no results in")
        self.check_fault([RUN], "there are no results in")
        self.check_fault([RUN, "{\n", good], "results.jsonl:2: this is no JSON")
        self.check_fault([RUN, "{\n"], "results.jsonl:2: this is no JSON")
        self.check_fault([RUN, "[" * 100000 + "\n"], "results.jsonl:2: this is no JSON")
        self.check_fault([RUN, "[1]\n"], "results.jsonl:2: expected an object")
        self.check_fault([good], "results.jsonl:1: a result before the first run")
        self.check_fault([RUN, good | {"contender": 1}], 'results.jsonl:2: no "contender"')
        self.check_fault([RUN, good | {"seconds": []}], 'expected either "seconds" or the reason "skipped"')
        self.check_fault([RUN, good | {"seconds": [-1]}], '"seconds" must be a list of times')
        self.check_fault([RUN, good | {"seconds": [float("nan")]}], '"seconds" must be a list of times')
        self.check_fault([RUN, good | {"dst": [[], ["z"]]}], '"dst" names an axis that the mesh does not have')
        self.check_fault([RUN, good | {"dst": [["a"], ["a"]]}], '"dst" uses an axis twice')
        self.check_fault([RUN, good | {"dst": [["a"]]}], '"dst" needs a list of axes for each dimension')
        self.check_fault([RUN, good | {"src_view": [[4], [2]]}], '"src_view" does not make up the shape')
        self.check_fault([RUN, good | {"shape": [3, 6]}], '"src" cuts a dimension of 3 into 2')
        self.check_fault([RUN, good | {"cost": {"paper": 1}}], '"cost" must be null or have the numbers')
        self.check_fault([RUN, good | {"steps": "none"}], '"steps" must be a list of texts')

    def check_fault(self, lines, message):
        process, document = self.report(self.write(*lines), "--no-plots")
        self.assertEqual((process.returncode, document), (1, ""), process.stderr)
        self.assertIn(message, process.stderr)
        self.assertNotIn("Traceback", process.stderr)

    def test_a_missing_file_is_named(self):
        process, _ = self.report(self.folder / "nowhere.jsonl", "--no-plots")
        self.assertEqual(process.returncode, 1)
        self.assertIn("nowhere.jsonl: No such file or directory", process.stderr)

    def test_a_full_disk_is_told(self):
        command = [sys.executable, ROOT / "bench/report.py", DATA / "bench_results.jsonl", "--no-plots"]
        process = subprocess.run([*command, "--output", "/dev/full"], capture_output=True, text=True)
        self.assertEqual(process.returncode, 1)
        self.assertIn("report: /dev/full: No space left on device", process.stderr)

    def test_without_matplotlib_the_way_out_is_named(self):
        (self.folder / "matplotlib.py").write_text("raise ImportError('not here')")
        script = f"import sys; sys.path.insert(0, {str(self.folder)!r}); sys.path.insert(0, {str(ROOT / 'bench')!r})\n"
        script += "import report; report.main()"
        output = self.folder / "evaluation.md"
        command = [sys.executable, "-c", script, DATA / "bench_results.jsonl", "--output", output]
        process = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(process.returncode, 1)
        self.assertIn("python3-matplotlib), or give --no-plots", process.stderr)


class Reading(Folder):
    def test_results_of_a_resumed_run_belong_together(self):
        later = {"run": RUN["run"] | {"date": "2026-01-02T00:00:00Z", "commit": "abc"}}
        reading = self.read(RUN, result("p", "paper", [1.0]), later, result("p", "xla", [2.0]))
        self.assertEqual(len(reading.series), 1)
        self.assertEqual(len(reading.series[0].runs), 2)

    def test_results_of_other_circumstances_do_not(self):
        other = {"run": RUN["run"] | {"scale": 0.5}}
        reading = self.read(RUN, result("p", "paper", [1.0]), other, result("p", "xla", [2.0]))
        self.assertEqual(len(reading.series), 2)

    def test_the_last_of_equal_results_counts(self):
        reading = self.read(RUN, result("p", "paper", [1.0]), result("p", "paper", [3.0]))
        self.assertEqual(reading.series[0].results["p"]["paper"].time, 3)
        self.assertIn("stand again further down", reading.warnings[0])

    def test_a_result_that_was_not_verified_has_no_time(self):
        series = self.series(result("p", "paper", [1.0], verified=False))
        self.assertEqual(series.results["p"]["paper"].skipped, "the result was not verified")
        self.assertEqual(figures.measured(series.results["p"]), {})

    def test_compressed_results_are_read_as_others(self):
        path = self.write(RUN, result("p", "paper", [1.0]))
        compressed = self.folder / "results.jsonl.xz"
        compressed.write_bytes(lzma.compress(path.read_bytes()))
        self.assertEqual(read_results([compressed]).series[0].results, read_results([path]).series[0].results)
        compressed.write_bytes(compressed.read_bytes()[:50])
        with self.assertRaisesRegex(FileError, "results.jsonl.xz: Compressed file ended"):
            read_results([compressed])

    def test_problems_of_the_paper_are_known_by_both_names(self):
        series = self.series(*(result("tbl:adversarial, P1", contender, [1.0]) for contender in ("paper", "xla")))
        self.assertEqual((list(series.results), figures.sampled(series)), (["P1"], {}))

    def test_parts_of_axes_are_read(self):
        line = result("p", "paper", [1.0], mesh={"a": 12, "an axis": 4}, shape=[12, 8])
        line |= {"src": [["a:(2)3"], ['"an axis":(1)2']], "dst": [["a:(1)2", "a:(2)3"], []]}
        read = self.series(line).results["p"]["paper"]
        self.assertEqual(read.type_text(read.src, read.src_view), '[4{a:(2)3}12, 4{"an axis":(1)2}8]')
        with self.assertRaisesRegex(FileError, "names an axis that the mesh does not have"):
            self.series(line | {"src": [["a:(2)5"], []]})

    def test_types_read_as_retile_prints_them(self):
        line = result("p", "paper", [1.0], mesh={"a": 2, "b": 3}, shape=[12, 5], src=[["b", "a"], []], dst=[[], []])
        printed = self.series(line).results["p"]["paper"]
        self.assertEqual(printed.type_text(printed.src, printed.src_view), "[2{b,a}12, 5]")
        self.assertEqual(printed.total_bytes, 480)
        line |= {"dst": [[], ["a"], [], []], "dst_view": [[3, 2, 2], [5]]}
        printed = self.series(line).results["p"]["paper"]
        self.assertEqual(printed.type_text(printed.dst, printed.dst_view), "[3*1{a}2*2, 5]")


class Figures(Folder):
    def test_ratios(self):
        series = self.series(
            *(result("one", contender, [time]) for contender, time in (("paper", 2), ("wide", 1), ("xla", 8))),
            *(result("two", contender, [time]) for contender, time in (("paper", 4), ("wide", 8), ("xla", 1))),
            *(result("P1", contender, [time]) for contender, time in (("paper", 1), ("xla", 0.5))),
            *(result("still", contender, [1], cost=cost(0, floor=0)) for contender in ("paper", "xla")),
            result("skipped", "xla", None, skipped="why"),
        )
        self.assertEqual((len(figures.sampled(series)), len(figures.moving(series))), (4, 3))

        def ratios(base):
            return [c.ratio for c in figures.compare(figures.moving(series), "xla", base).values()]

        self.assertEqual(ratios("paper"), [4, 0.25])
        self.assertAlmostEqual(figures.summarize(ratios("paper")).mean, 1)
        self.assertEqual(ratios("best"), [8, 0.25])
        self.assertEqual(figures.compare(series.results, "xla", "paper")["P1"].ratio, 0.5)

    def test_medians_count(self):
        series = self.series(result("p", "paper", [1, 100, 2]), result("p", "xla", [4, 0.1, 5]))
        self.assertEqual(figures.compare(series.results, "xla", "paper")["p"].ratio, 2)

    def test_equal_plans_show_the_noise(self):
        plans = (("auto", 2, ["exchange"]), ("wide", 1, ["exchange"]), ("paper", 8, ["allgather"]))
        series = self.series(*(result("p", name, [time], steps=steps) for name, time, steps in plans))
        self.assertEqual(figures.repeated(series), [0.5])

    def test_contenders_that_are_timed_again_show_the_noise_and_are_no_rivals(self):
        times = (("auto", 2), ("jax", 4), ("jax again", 3), ("form lean", 8))
        path = self.write(RUN, *(result("p", name, [time]) for name, time in times))
        self.assertEqual(figures.timed_again(self.read(path.read_text()).series[0]), [0.75])
        process, document = self.report(path, "--no-plots")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("| jax | auto | 1 |", document)
        self.assertIn("Contenders that were timed twice: 0.75 (0.75 to 0.75).", document)
        for name in ("jax again", "form lean"):
            self.assertNotIn(f"| {name} | auto |", document)
            self.assertNotIn(f"*{name}*", document)

    def test_rank_correlation(self):
        self.assertAlmostEqual(figures.rank_correlation([1, 2, 3], [10, 200, 3000]), 1)
        self.assertAlmostEqual(figures.rank_correlation([1, 2, 3], [3, 2, 1]), -1)
        self.assertAlmostEqual(figures.rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]), 3 / 10**0.5)
        self.assertIsNone(figures.rank_correlation([1, 1, 1], [1, 2, 3]))
        self.assertIsNone(figures.rank_correlation([1, 2], [1, 2]))

    def test_cheaper_is_faster_looks_at_one_problem_at_a_time(self):
        series = self.series(
            result("p", "paper", [1], cost=cost(10)),
            result("p", "xla", [2], cost=cost(20)),
            result("p", "wide", [3], cost=cost(10)),
            result("q", "paper", [9], cost=cost(1)),
        )
        self.assertEqual(figures.cheaper_is_faster(series.results, "paper"), (2, 1))

    def test_memory(self):
        series = self.series(
            result(
                "p",
                "xla",
                [1],
                memory={"source": 2, "target": 4, "peak": 8},
                peak_bytes={"predicted": 64, "measured": 96},
            ),
            result(
                "q",
                "xla",
                [1],
                memory={"source": 4, "target": 4, "peak": 4},
                peak_bytes={"predicted": 64, "measured": 64},
            ),
        )
        results = figures.results_of(series.results, "xla")
        self.assertEqual(figures.peak_over_bound(results), [2, 1])
        self.assertEqual(figures.measured_over_predicted(results), [1.5, 1])

    def test_percentiles(self):
        self.assertEqual(figures.percentile(range(1, 101), 0.99), 99)
        self.assertEqual(figures.percentile([5], 0.99), 5)


class PageOfResults(Folder):
    """The page of the evaluation, and what is wrong with others."""

    RESULTS = sorted((ROOT / "docs/evaluation/results").iterdir())

    def fill(self, text, results=RESULTS):
        """The finished process, and the page as it is afterwards."""
        path = self.folder / "evaluation.md"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, ROOT / "bench/report.py", *results, "--page", path, "--no-plots"]
        process = subprocess.run(command, capture_output=True, text=True)
        return process, path.read_text(encoding="utf-8")

    def test_pages_are_what_the_results_say(self):
        for document in ("docs/evaluation.md", "README.md", "docs/train-then-serve.md"):
            page = (ROOT / document).read_text(encoding="utf-8")
            emptied = re.sub(r"(<!-- [a-z]+ -->\n).*?(<!-- /)", r"\1\2", page, flags=re.DOTALL)
            self.assertLess(len(emptied), len(page))
            process, filled = self.fill(emptied)
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertEqual(filled, page, "make evaluation-page was not run")

    def test_tables_are_made_of_whatever_results_are_there(self):
        blocks = re.findall(r"there are ([a-z, ]+)", self.fill("<!-- magic -->\n<!-- /magic -->\n")[0].stderr)[0].split(
            ", "
        )
        page = "".join(f"<!-- {block} -->\n<!-- /{block} -->\n" for block in blocks)
        jax = {"run": COMPLETE | {"engine": "jax", "scale": 1, "repetitions": 1, "options": {}}}
        times = [
            result(str(i), name, [time], engine="jax") for i in range(40) for name, time in (("auto", 1), ("jax", 2))
        ]
        process, filled = self.fill(page, [self.write(*MODELS), self.write(jax, *times, name="jax.jsonl")])
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("| XLA with its runtime | `retile.jax.reshard` | jax | 40 | 2.00 (2.00 to 2.00) |", filled)
        self.assertIn("| trainer to server | buckets | 2 | 3.00 s | 1.50 |", filled)

    def test_the_evaluation_is_one_page_with_its_plots(self):
        page = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
        self.assertLessEqual(len(page.splitlines()), 150)
        shown = sorted(re.findall(r"\]\(evaluation/(.*svg)\)", page))
        self.assertEqual(shown, sorted(path.name for path in (ROOT / "docs/evaluation").glob("*.*")))
        self.assertLessEqual(len(shown), 8)

    def test_faults_are_told_by_place(self):
        for text, message in (
            ("words\n<!-- magic -->\n<!-- /magic -->\n", "evaluation.md:2: no table is called 'magic'; there are"),
            ("\n\n<!-- cost -->\n", "evaluation.md:3: expected <!-- NAME --> with <!-- /NAME --> below"),
            ("![](evaluation/magic-times.svg)", "evaluation.md:1: there are no results called 'magic'"),
        ):
            with self.subTest(text):
                process, after = self.fill(text)
                self.assertEqual((process.returncode, after), (1, text), process.stderr)
                self.assertIn(message, process.stderr)


if __name__ == "__main__":
    unittest.main()
