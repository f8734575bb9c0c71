"""Tests of the plots of bench/report.py. Exit status 77, skipped, where matplotlib is missing."""

import re
import subprocess
import sys
import unittest

from report_test import DATA, ROOT, RUN, Folder, result

try:
    import matplotlib  # noqa: F401
except ImportError:
    print(f"skipped: {sys.executable} has no matplotlib (Debian: python3-matplotlib)")
    sys.exit(77)


class Plots(Folder):
    def draw(self, results):
        """The document, and the bytes of each file beside it."""
        process, document = self.report(results)
        self.assertEqual(process.returncode, 0, process.stderr)
        return document, {f"evaluation/{path.name}": path.read_bytes() for path in self.folder.glob("out/evaluation/*")}

    def test_plots_are_those_of_the_document_and_the_same_every_time(self):
        document, files = self.draw(DATA / "bench_results.jsonl")
        self.assertEqual(len(files), 12)
        self.assertEqual(sorted(re.findall(r"\((evaluation/.*svg)\)", document)), sorted(files))
        self.assertEqual(self.draw(DATA / "bench_results.jsonl"), (document, files))

    @unittest.skipUnless(matplotlib.__version__ == "3.6.3", "another matplotlib draws the same with other bytes")
    def test_plots_of_the_evaluation_are_what_its_results_say(self):
        documents = self.folder / "docs"
        documents.mkdir()
        (documents / "evaluation.md").write_bytes((ROOT / "docs/evaluation.md").read_bytes())
        results = sorted((ROOT / "docs/evaluation/results").iterdir())
        command = [sys.executable, ROOT / "bench/report.py", *results, "--page", documents / "evaluation.md"]
        subprocess.run(command, check=True, capture_output=True)
        drawn = {path.name: path.read_bytes() for path in documents.glob("evaluation/*")}
        self.assertEqual(drawn, {path.name: path.read_bytes() for path in (ROOT / "docs/evaluation").glob("*.svg")})

    def test_what_was_not_measured_is_not_drawn(self):
        document, files = self.draw(self.write(RUN, result("p", "paper", [1.0])))
        self.assertEqual(files, {})
        self.assertNotIn("![", document)

    def test_one_problem_is_enough(self):
        lines = [result("p", contender, [1.0], planning_ns=5) for contender in ("paper", "xla", "another")]
        _, files = self.draw(self.write(RUN, *lines))
        self.assertEqual(len(files), 4)


if __name__ == "__main__":
    unittest.main()
