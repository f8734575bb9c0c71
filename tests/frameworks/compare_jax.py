"""JAX's own tests with retile in the place of its reshard, test by test against the same tests without.

Takes a checkout of JAX of the installed version, whose tests are theirs and are not kept here:

    python tests/frameworks/compare_jax.py CHECKOUT
    python tests/frameworks/compare_jax.py CHECKOUT --files pjit_test shard_map_test --except test_that_counts_collectives

Of the files, those tests run that speak of `reshard` or `with_sharding_constraint`. Exit status 1 where one that passes
without retile does not pass with it, but for those that are excepted: some look for the exact operations of a program.
This file is also the plugin of pytest that puts retile there.
"""

import argparse
import ast
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

FILES = ["pjit_test", "shard_map_test", "export_test", "memories_test", "layout_test", "shard_alike_test"]
WORDS = ("reshard", "with_sharding_constraint")


# --- The plugin.


def pytest_configure(config):
    """Before a test is imported. What is no NamedSharding and no PartitionSpec is for JAX alone."""
    if not os.environ.get("COMPARE_WITH_RETILE"):
        return
    import jax

    import retile.jax

    def takes(shardings):
        leaves = jax.tree.leaves(shardings, is_leaf=lambda one: isinstance(one, jax.sharding.PartitionSpec))
        kinds = jax.sharding.NamedSharding, jax.sharding.PartitionSpec
        return bool(leaves) and all(isinstance(one, kinds) for one in leaves)

    def in_place_of(own):
        return lambda x, shardings: retile.jax.reshard(x, shardings) if takes(shardings) else own(x, shardings)

    jax.sharding.reshard = in_place_of(jax.sharding.reshard)
    jax.lax.with_sharding_constraint = in_place_of(jax.lax.with_sharding_constraint)


# --- The comparison.


def names_of_tests(path):
    """Of the tests that speak of resharding, by themselves or in their decorators."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
            if any(word in line for line in lines for word in WORDS):
                yield node.name


def outcomes_of(path, names, with_retile, seconds):
    """By test: None where it passed or was skipped, or else what it said first."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
        "COMPARE_WITH_RETILE": "1" if with_retile else "",
        "JAX_NUM_CPU_DEVICES": "8",
    }
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "compare_jax", f"--junitxml={report}"]
        command += ["-k", " or ".join(names), str(path)]
        result = subprocess.run(
            command, env=environment, cwd=path.parent, capture_output=True, text=True, timeout=seconds, check=False
        )
        if not report.exists():
            sys.exit(f"{path.name} was not run to its end:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
        found = {}
        for case in ElementTree.parse(report).iter("testcase"):
            fault = next((one for one in case if one.tag in ("failure", "error")), None)
            name = f"{case.get('classname')}.{case.get('name')}"
            found[name] = None if fault is None else (fault.get("message") or "failed").splitlines()[0]
        return found


def compare(path, excepted, seconds):
    names = sorted(set(names_of_tests(path)))
    if not names:
        print(f"{path.name}: no test speaks of resharding")
        return True
    without, with_retile = (outcomes_of(path, names, is_ours, seconds) for is_ours in (False, True))
    passed = [name for name, fault in without.items() if fault is None]
    lost = [name for name in passed if with_retile.get(name, "was not run") is not None]
    print(
        f"{path.name}: {len(passed)} of {len(without)} pass without retile, {len(passed) - len(lost)} of these with it"
    )
    lost_unexpectedly = False
    for name in lost:
        is_excepted = any(one in name for one in excepted)
        lost_unexpectedly |= not is_excepted
        print(f"  {name}{' (excepted)' if is_excepted else ''}: {with_retile.get(name, 'was not run')[:200]}")
    return not lost_unexpectedly


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of JAX, with its tests")
    parser.add_argument("--files", nargs="+", default=FILES, help=f"without .py ({' '.join(FILES)})")
    parser.add_argument(
        "--except", nargs="+", default=[], dest="excepted", help="parts of names of tests that may fail"
    )
    parser.add_argument("--seconds", type=int, default=3600, help="for one file at most (3600)")
    options = parser.parse_args()
    paths = [options.checkout / "tests" / f"{name}.py" for name in options.files]
    if missing := [path for path in paths if not path.exists()]:
        sys.exit(f"there is no {missing[0]}")
    results = [compare(path, options.excepted, options.seconds) for path in paths]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
