"""Tests of bench/peers: what needs neither JAX nor PyTorch, and with them a few real problems.

The variable RETILE names the command."""

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import time
import unittest
from types import SimpleNamespace
from unittest import mock

from report_test import ROOT, Folder

PEERS = ROOT / "bench/peers"
sys.path.insert(0, str(PEERS))

import dtensor  # noqa: E402
import layout  # noqa: E402
import peer  # noqa: E402
from ours import CommandFailure, Ours  # noqa: E402
from workers import Unable, WorkerFailure, Workers  # noqa: E402

RETILE = os.environ.get("RETILE", ROOT / "build/release/retile")


def problem(id="p", **parts):
    cube = {"id": id, "mesh": {"a": 2, "b": 3, "c": 2}, "shape": [24, 36], "src": [["c", "a"], ["b"]]}
    return cube | {"dst": [["b"], ["a", "c"]], "dtype": "f32"} | parts


def has(package):
    return importlib.util.find_spec(package) is not None


def text(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


class Layout(unittest.TestCase):
    def test_boxes_are_those_of_plans(self):
        command = [RETILE, "plan", "--problems", "-", "--planner", "direct", "--json"]
        plan = json.loads(subprocess.run(command, input=text(problem()), capture_output=True, text=True).stdout)
        boxes = [layout.box_of(problem(), problem()["dst"], device) for device in range(12)]
        self.assertEqual([[part.start for part in box] for box in boxes], plan["steps"][-1]["offsets"])
        self.assertEqual({tuple(part.stop - part.start for part in box) for box in boxes}, {(8, 9)})

    def test_axes_go_from_minor_to_major(self):
        # Device 1 is (a, b, c) = (0, 0, 1), device 6 is (1, 0, 0): c is minor, a is major.
        self.assertEqual(layout.box_of(problem(), [["c", "a"], []], 1), (slice(6, 12), slice(0, 36)))
        self.assertEqual(layout.box_of(problem(), [["c", "a"], []], 6), (slice(12, 18), slice(0, 36)))

    @unittest.skipUnless(has("numpy"), "no numpy")
    def test_values_depend_on_the_place_alone(self):
        whole = layout.values_of(problem(), (slice(0, 24), slice(0, 36)))
        self.assertEqual(whole.shape, (24, 36))
        self.assertEqual(len(set(whole.flat)), 24 * 36)
        for device in range(12):
            box = layout.box_of(problem(), problem()["src"], device)
            self.assertTrue((layout.values_of(problem(), box) == whole[box]).all())

    def test_scaling_keeps_layouts(self):
        self.assertEqual(peer.scale_problem(problem(), 1)["shape"], [24, 36])
        # Units are lcm(4, 3) = 12 and lcm(3, 4) = 12, so 2 and 3 of them: 3 is halved to 1, then 2 to 1.
        self.assertEqual(peer.scale_problem(problem(), 0.5)["shape"], [24, 12])
        self.assertEqual(peer.scale_problem(problem(), 0.3)["shape"], [12, 12])
        self.assertEqual(peer.scale_problem(problem(), 0.001)["shape"], [12, 12])

    def test_dtensor_meshes_have_the_major_axis_first(self):
        order = dtensor.mesh_order(problem(dst=[["b"], []]))
        self.assertLess(order.index("a"), order.index("c"))
        with self.assertRaisesRegex(Unable, "two different orders"):
            dtensor.mesh_order(problem())

    def test_times_of_processes_span_from_first_start_to_last_end(self):
        self.assertEqual(dtensor.spans([[(1, 2), (5, 6)], [(1.5, 4), (4, 5)]]), [3, 2])


class Command(unittest.TestCase):
    def test_plans_are_told_as_the_command_tells_them(self):
        overlapping = problem(mesh={"x": 4, "y": 2, "z": 4}, shape=[8, 8, 8, 4])
        overlapping |= {"src": [["y", "x"], [], [], []], "dst": [[], ["y"], ["x"], []]}
        plan = Ours(RETILE, "paper", "reference").plan(overlapping)
        steps = ["dynslice(3; 4)", "alltoall(0 -> 1; 2)", "alltoall(0 -> 2; 4)", "allgather(3; 4)"]
        self.assertEqual(plan["steps"], steps)
        self.assertEqual((plan["cost"]["paper"], plan["cost"]["volume"]), (384, 32 + 48 + 192))
        wide = Ours(RETILE, "wide", "reference").plan(overlapping)
        self.assertEqual(wide["steps"], ["alltoall(0 -> 1; 2, 0 -> 2; 4)"])

    def test_volumes_are_those_of_the_command(self):
        permuted = problem(shape=[24, 36], src=[["a"], []], dst=[["c"], []])
        for planner in ("direct", "gather-slice"):  # whose plans do not depend on the cost model
            for given in (problem(), permuted):
                ours = Ours(RETILE, planner, "reference")
                by_volume = ours._ask("plan", given, "--cost", "volume")
                self.assertEqual(ours.plan(given)["cost"]["volume"], by_volume["cost"]["total"])

    def test_faults_of_the_command_are_reasons(self):
        with self.assertRaisesRegex(CommandFailure, "error"):
            Ours(RETILE, "paper", "reference").plan(problem(shape=[25, -36]))


class Worker:
    """Misbehaves as it is told to."""

    def __init__(self, rank, count, meeting):
        self.rank, self.count = rank, count

    def prepare(self, problem):
        self.sleep = 0 if problem["id"] != "slow" else 1e6
        if problem["id"] == "unable":
            raise Unable("no such luck")
        if problem["id"] == "crash" and self.rank == 1:
            os.abort()
        if problem["id"] == "failure" and self.rank == 0:
            raise ValueError("first line\nsecond line")
        time.sleep(self.sleep)
        return ["step"]

    def measure(self, repetitions):
        return [self.rank + 1.0] * repetitions

    def release(self):
        pass


class FailingWorkers(unittest.TestCase):
    def start(self, timeout=60):
        workers = Workers(Worker, 2, timeout)
        self.addCleanup(workers.close)
        return workers

    def test_answers_come_in_order_of_ranks(self):
        self.assertEqual(self.start().call("measure", 2), [[1.0, 1.0], [2.0, 2.0]])

    def test_who_is_unable_stays(self):
        workers = self.start()
        with self.assertRaisesRegex(Unable, "no such luck"):
            workers.call("prepare", problem("unable"))
        self.assertEqual(workers.call("prepare", problem()), [["step"], ["step"]])

    def test_who_fails_ends_all(self):
        for id, reason in (("crash", "ended with status -6"), ("failure", "^ValueError: first line$")):
            with self.subTest(id):
                workers = self.start()
                processes = list(workers.processes)
                with self.assertRaisesRegex(WorkerFailure, reason):
                    workers.call("prepare", problem(id))
                self.assertFalse(any(process.is_alive() for process in processes))

    def test_who_has_ended_meanwhile_is_noticed(self):
        workers = self.start()
        workers.processes[0].kill()
        workers.processes[0].join()
        with self.assertRaisesRegex(WorkerFailure, "ended with status -9"):
            workers.call("measure", 1)

    def test_who_hangs_ends_all(self):
        workers = self.start(timeout=20)
        workers.timeout = 0.2
        with self.assertRaisesRegex(WorkerFailure, "no answer within"):
            workers.call("prepare", problem("slow"))
        self.assertEqual(workers.count(), 0)


def made_up_peer():
    return peer.Peer("made-up", ("json",), Worker, lambda problem: 2, lambda times: times[1], lambda devices: {})


class Turns(Folder):
    def measure(self, *problems, arguments=()):
        """What is said, and the lines of the results file."""
        given = self.write(*problems, name="problems.jsonl")
        self.output = self.folder / "made-up.jsonl"
        line = [
            "peer",
            given,
            "--output",
            self.output,
            "--retile",
            RETILE,
            "--engine",
            "reference",
            "--planners",
            "paper",
        ]
        said = io.StringIO()
        with (
            mock.patch.object(sys, "argv", [str(part) for part in [*line, *arguments]]),
            mock.patch.object(peer.Peer, "version", lambda self: "1.0"),
            contextlib.redirect_stderr(said),
        ):
            peer.main(made_up_peer(), "A peer.")
        return said.getvalue(), [json.loads(line) for line in self.output.read_text().splitlines()]

    def test_results_are_what_the_report_reads(self):
        said, lines = self.measure(problem(), arguments=["--repeat", "2", "--rounds", "3"])
        self.assertIn("[1/1] p: made-up 2000.00 ms; paper", said)
        run, theirs, ours = lines[0]["run"], lines[1], lines[2]
        self.assertEqual((run["devices"], run["repetitions"], run["options"]["peer"]), (12, 6, "made-up 1.0"))
        self.assertEqual((theirs["contender"], theirs["seconds"], theirs["steps"]), ("made-up", [2.0] * 6, ["step"]))
        self.assertEqual((ours["contender"], len(ours["seconds"]), ours["verified"]), ("paper", 6, True))
        self.assertEqual(ours["shape"], [24, 36])
        process, document = self.report(self.output, "--no-plots")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("## reference, 12 devices, problems.jsonl, beside made-up 1.0", document)
        self.assertIn("| made-up | paper | 1 |", document)

    def test_a_failure_costs_one_problem(self):
        _, lines = self.measure(problem("one"), problem("crash"), problem("unable"), problem("two"))
        theirs = {line["id"]: line for line in lines[1:] if line["contender"] == "made-up"}
        self.assertEqual(theirs["crash"]["skipped"], "its process ended with status -6")
        self.assertEqual(theirs["unable"]["skipped"], "no such luck")
        self.assertNotIn("seconds", theirs["crash"])
        self.assertEqual((len(theirs["one"]["seconds"]), len(theirs["two"]["seconds"])), (6, 6))
        self.assertEqual(len([line for line in lines[1:] if line["contender"] == "paper" and line["verified"]]), 4)

    def test_a_stopped_run_goes_on(self):
        _, first = self.measure(problem("one"), problem("two"), problem("three"), arguments=["--limit", "2"])
        whole = self.output.read_text()
        self.output.write_text(whole[:-40])  # the last line, two's, is cut off
        said, lines = self.measure(problem("one"), problem("two"), problem("three"))
        self.assertIn("2 of 3 problems to do", said)
        self.assertEqual(lines[: len(first) - 1], first[:-1])
        names = [(line["id"], line["contender"]) for line in lines[len(first) - 1 :] if "run" not in line]
        both = [(id, contender) for id in ("two", "three") for contender in ("made-up", "paper")]
        self.assertEqual(names, both)
        said, again = self.measure(problem("one"), problem("two"), problem("three"))
        self.assertIn("0 of 3 problems to do", said)
        self.assertEqual(lines, again)
        said, _ = self.measure(problem("one"), arguments=["--scale", "0.5"])
        self.assertIn("1 of 1 problems to do", said)

    def test_problems_of_a_results_file_keep_their_scale(self):
        run = {"run": {"seed": 7, "scale": 0.25}}
        row = problem() | {"contender": "paper", "seconds": [1]}
        given = peer.Input(self.write(run, row, row | {"contender": "xla"}), 0.5)
        self.assertEqual((given.seed, given.scale), (7, 0.125))
        self.assertEqual(given.problems, [problem(shape=[24, 12])])

    def test_faults_are_told(self):
        for lines, words in (
            ([], "there are no problems"),
            (["x\n"], "problems.jsonl:1: this is no JSON"),
            (
                [problem(), problem(dst=[["z"], []])],
                'problems.jsonl:2: "dst" names an axis that the mesh does not have',
            ),
        ):
            with self.subTest(words), self.assertRaisesRegex(SystemExit, words):
                self.measure(*lines)

    def test_a_full_disk_is_told(self):
        with self.assertRaisesRegex(SystemExit, "made-up: /dev/full: No space left on device"):
            self.measure(problem(), arguments=["--output", "/dev/full"])

    def test_an_unknown_planner_ends_the_run(self):
        with self.assertRaisesRegex(SystemExit, "nonsense"):
            self.measure(problem(), arguments=["--planners", "nonsense"])

    def test_a_missing_package_is_named(self):
        missing = peer.Peer("made-up", ("no_such_package",), Worker, None, None, None)
        with self.assertRaisesRegex(peer.FileError, "has no no_such_package; install it there"):
            peer._check_prerequisites(missing, SimpleNamespace(retile=RETILE))

    def test_a_missing_command_is_named(self):
        with self.assertRaisesRegex(peer.FileError, "nowhere does not run; build it"):
            peer._check_prerequisites(made_up_peer(), SimpleNamespace(retile=self.folder / "nowhere"))


class RealPeers(Folder):
    """Orders of axes, replicas, types of elements, and a problem that moves nothing."""

    def check(self, script, contender, unable):
        cases = [problem("mixed"), problem("same", dst=problem()["src"]), problem("gather", dst=[[], []])]
        cases += [problem("reordered", src=[["a", "c"], ["b"]], dst=[["b"], ["a"]])]
        cases += [problem(dtype, dst=[["c", "a"], []], dtype=dtype) for dtype in ("i8", "bf16", "f64")]
        output = self.folder / "results.jsonl"
        command = [sys.executable, PEERS / script, self.write(*cases), "--output", output, "--retile", RETILE]
        command += ["--engine", "reference", "--planners", "wide", "--rounds", "1", "--repeat", "1"]
        process = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(process.returncode, 0, process.stderr)
        lines = [json.loads(line) for line in output.read_text().splitlines()]
        theirs = {line["id"]: line for line in lines if line.get("contender") == contender}
        self.assertEqual(list(theirs), [case["id"] for case in cases])
        self.assertEqual({id: line["skipped"] for id, line in theirs.items() if "skipped" in line}, unable)

    @unittest.skipUnless(has("jax"), "no jax")
    def test_jax(self):
        self.check("jax_reshard.py", "jax", {})

    @unittest.skipUnless(has("torch"), "no torch")
    def test_dtensor(self):
        reason = "DTensor cannot cut a dimension along axes in two different orders"
        self.check("dtensor.py", "dtensor", {"mixed": reason})


if __name__ == "__main__":
    unittest.main()
