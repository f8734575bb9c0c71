"""PyTorch's own tests of DTensor, with and without `retile.torch.enabled()`, test by test.

    python tests/frameworks/compare_torch.py ~/pytorch/test/distributed/tensor
    python tests/frameworks/compare_torch.py ~/pytorch/test/distributed/tensor test_redistribute.py -k shard_to_replicate

Takes the folder of a checkout of PyTorch at the version that is installed; its files are PyTorch's and are not part of this
project. Each file runs twice in processes of its own, in the second run with plans enabled in every process that it starts.
Prints the tests that pass without plans and not with them, with their errors. Exit status: 0 where there are none, 1 where
there are some, 2 where there is nothing to compare.

Many tests also count collectives by a CommDebugMode, and a plan has others. In the second run a wrong count does not end a test,
so that the rest of it is compared, and tests with such counts are named. Under a mode, a plan is one operation, and
asynchronous redistributions are left to DTensor; with --unwatched the mode does not count, so that plans run as without it.

Needs Python 3.11, retile, PyTorch, pytest, hypothesis and expecttest, which PyTorch's tests import; not a part of `make test`.
This file is also a plugin of pytest: it forks ranks that need no GPU, which saves most of the time.
"""

import argparse
import functools
import inspect
import linecache
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

FILES = [
    "test_redistribute.py",
    "test_dtensor.py",
    "test_tensor_ops.py",
    "test_math_ops.py",
    "test_matrix_ops.py",
    "test_api.py",
    "test_embedding_ops.py",
    "parallel/test_tp_style.py",
    "parallel/test_parallelize_api.py",
    "parallel/test_tp_examples.py",
]
COUNTS = re.compile(r"comm_|_counts?\b")  # what tests call the counts of a CommDebugMode
# Python runs this at the start of every process; ranks are those that multiprocessing starts.
ENABLING = """import sys
if "--multiprocessing-fork" in sys.orig_argv:
    import compare_torch
    compare_torch.enable()
"""


# --- In the processes of the tests.


def enable():
    """Enables plans for the rest of this process."""
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.testing._internal.common_utils import TestCase

    import retile.torch

    enable.context = retile.torch.enabled(time_limit=20)  # held, because a context that nobody holds is left
    enable.context.__enter__()
    for name in ("assertEqual", "assertDictEqual", "assertTrue"):
        setattr(TestCase, name, without_counts(getattr(TestCase, name)))
    if "COMPARE_UNWATCHED" in os.environ:
        CommDebugMode.__enter__ = enter_unwatched
        CommDebugMode.__exit__ = lambda mode, *exception: None


def enter_unwatched(mode):
    """Enters a CommDebugMode that counts nothing."""
    mode.comm_module_counts = {"Global": {"forward": {}, "backward": {}}}
    return mode


def without_counts(assertion):
    """The assertion; where it fails on counts of collectives, the test is noted and goes on."""

    @functools.wraps(assertion)
    def asserted(test, *values, **keywords):
        try:
            assertion(test, *values, **keywords)
        except AssertionError:
            if not COUNTS.search(call_text(sys._getframe(1))):
                raise
            with open(os.environ["COMPARE_COUNTS"], "a") as file:
                file.write(f"{type(test).__name__}::{test._testMethodName}\n")

    return asserted


def call_text(frame):
    """The lines of the call that a frame is in."""
    positions = inspect.getframeinfo(frame).positions
    lines = range(positions.lineno, positions.end_lineno + 1)
    return "".join(linecache.getline(frame.f_code.co_filename, line) for line in lines)


def pytest_configure(config):
    """Enables plans if the run is with them. Ranks without a GPU are forked, in place of starting Python in each."""
    if "COMPARE_COUNTS" in os.environ:
        enable()
    import torch
    from torch.testing._internal.common_distributed import MultiProcessTestCase

    if torch.cuda.is_available():
        return
    torch.multiprocessing.set_start_method("fork")
    forked = torch.multiprocessing.get_context("fork").Process
    MultiProcessTestCase._spawn_processes = lambda test: test._start_processes(forked)


# --- The comparison.


def run(file, options, folder, is_enabled, left_out=()):
    """What became of each test: '' where it passed, what pytest says where it failed, None where it was skipped."""
    environment = dict(os.environ) | ({"CUDA_VISIBLE_DEVICES": ""} if options.cpu else {})
    environment["OMP_NUM_THREADS"] = "1"  # a forked process has none of the threads of its parent
    if is_enabled:
        environment["COMPARE_COUNTS"] = str(folder / "counts")
        environment |= {"COMPARE_UNWATCHED": "1"} if options.unwatched else {}
        (folder / "sitecustomize.py").write_text(ENABLING)
    paths = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "compare_torch", f"--junitxml={report}", file.name]
    if options.select:
        command += ["-k", options.select]
    for test in left_out:
        module, name = test.split("::")
        command += ["--deselect", f"{file.name}::{module.split('.')[-1]}::{name}"]
    process = subprocess.Popen(
        command, cwd=file.parent, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(options.seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the ranks that it started
        print(f"{file.name} took more than {options.seconds} s", file=sys.stderr)
    return outcomes_of(report) if report.exists() else {}


def run_enabled(file, options, folder, passed):
    """With plans. PyTorch skips the rest of a class after a failure, so those run again without what failed."""
    outcomes = {}
    while True:
        failed = [test for test, outcome in outcomes.items() if outcome]
        found = run(file, options, folder, True, failed)
        outcomes |= found
        if not any(found.values()) or not any(outcomes.get(test) is None for test in passed):
            return outcomes


def outcomes_of(report):
    outcomes = {}
    for test in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{test.get('classname')}::{test.get('name')}"
        faults = [one for one in test if one.tag in ("failure", "error")]
        if faults:
            lines = (faults[0].text or faults[0].get("message") or "failed").strip().splitlines()
            outcomes[name] = error_of(lines)
        else:
            outcomes[name] = None if any(one.tag == "skipped" for one in test) else ""
    return outcomes


def error_of(lines):
    """The first line of the error that ended a test: the last one that begins with the name of an exception."""
    lines = [line.removeprefix("E").strip() for line in lines]
    return next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b.+", line)), lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="PyTorch's test/distributed/tensor")
    parser.add_argument("files", nargs="*", default=FILES, help="in it (default: those that redistribute)")
    parser.add_argument("-k", dest="select", help="tests whose names fit, as for pytest")
    parser.add_argument("--seconds", type=int, default=3600, help="for a file, after which it is given up (3600)")
    parser.add_argument("--unwatched", action="store_true", help="no CommDebugMode in the run with plans")
    parser.add_argument("--cpu", action="store_true", help="hide GPUs")
    options = parser.parse_args()
    compared, worse = 0, []
    for name in options.files:
        file = options.checkout / name
        if not file.exists():
            print(f"there is no {file}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            plain = run(file, options, Path(folder), False)
            passed = [test for test, outcome in plain.items() if outcome == ""]
            enabled = run_enabled(file, options, Path(folder), passed)
            counts = Path(folder) / "counts"
            counting = sorted(set(counts.read_text().splitlines())) if counts.exists() else []
        lost = [(test, enabled.get(test, "did not run")) for test in passed if enabled.get(test, "did not run") != ""]
        if not passed:
            print(*(f"  {test}: {outcome}" for test, outcome in plain.items() if outcome), sep="\n", file=sys.stderr)
        print(f"{name}: {len(passed)} pass without plans, {len(passed) - len(lost)} of them with", flush=True)
        for test, reason in lost:
            print(f"  {test}: {reason}", flush=True)
        for test in counting:
            print(f"  {test} expects other collectives", flush=True)
        compared += len(passed)
        worse += lost
    print(f"{compared} pass without plans, {compared - len(worse)} of them with")
    sys.exit(2 if compared == 0 else int(bool(worse)))


if __name__ == "__main__":
    main()
