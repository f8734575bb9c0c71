"""PyTorch's own tests of DTensor, with and without `retile.torch.enabled()`, test by test.

    python tests/frameworks/compare_torch.py ~/pytorch/test/distributed/tensor
    python tests/frameworks/compare_torch.py ~/pytorch/test/distributed/tensor test_redistribute.py -k shard_to_replicate

Takes the folder of a checkout of PyTorch at the version that is installed; its files are PyTorch's and are not part of this
project. Each file runs twice in processes of its own, in the second run with plans enabled in every process that it starts.
Prints the tests that pass without plans and not with them, with the last line of their errors. Exit status: 0 where there are
none, 1 where there are some, 2 where there is nothing to compare. Needs retile, PyTorch, pytest and expecttest, which PyTorch's
tests import; not a part of `make test`.
"""

import argparse
import os
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
# Python runs this at the start of every process, also of those that tests start. A context that nobody holds is left at once.
ENABLING = "import retile.torch\ncontext = retile.torch.enabled(time_limit=20)\ncontext.__enter__()\n"


def run(file, options, folder, is_enabled, left_out=()):
    """What became of each test: '' where it passed, what pytest says where it failed, None where it was skipped."""
    environment = dict(os.environ) | ({"CUDA_VISIBLE_DEVICES": ""} if options.cpu else {})
    if is_enabled:
        (folder / "sitecustomize.py").write_text(ENABLING)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", f"--junitxml={report}", file.name]
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
            lines = (faults[0].get("message") or faults[0].text or "failed").strip().splitlines()
            outcomes[name] = lines[-1]
        else:
            outcomes[name] = None if any(one.tag == "skipped" for one in test) else ""
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="PyTorch's test/distributed/tensor")
    parser.add_argument("files", nargs="*", default=FILES, help="in it (default: those that redistribute)")
    parser.add_argument("-k", dest="select", help="tests whose names fit, as for pytest")
    parser.add_argument("--seconds", type=int, default=3600, help="for a file, after which it is given up (3600)")
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
        lost = [(test, enabled.get(test, "did not run")) for test in passed if enabled.get(test, "did not run") != ""]
        if not passed:
            print(*(f"  {test}: {outcome}" for test, outcome in plain.items() if outcome), sep="\n", file=sys.stderr)
        print(f"{name}: {len(passed)} pass without plans, {len(passed) - len(lost)} of them with", flush=True)
        for test, reason in lost:
            print(f"  {test}: {reason}", flush=True)
        compared += len(passed)
        worse += lost
    print(f"{compared} pass without plans, {compared - len(worse)} of them with")
    sys.exit(2 if compared == 0 else int(bool(worse)))


if __name__ == "__main__":
    main()
