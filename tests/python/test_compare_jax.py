"""tests/frameworks/compare_jax.py on tests in the manner of JAX's."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "frameworks" / "compare_jax.py"

TESTS = """
import unittest
import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P, reshard

class ReshardTest(unittest.TestCase):
    def setUp(self):
        self.mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
        self.x = jax.device_put(np.arange(64.0).reshape(8, 8), NamedSharding(self.mesh, P(("x", "y"))))

    def test_values(self):
        y = jax.jit(lambda x: reshard(x, NamedSharding(self.mesh, P("y", "x"))))(self.x)
        np.testing.assert_array_equal(y, self.x)

    def test_operations(self):
        jaxpr = jax.make_jaxpr(lambda x: reshard(x, NamedSharding(self.mesh, P("y", "x"))))(self.x)
        assert "reshard" in [equation.primitive.name for equation in jaxpr.eqns], "no reshard"

    def test_that_fails_anyhow(self):
        reshard(self.x, NamedSharding(self.mesh, P("z")))

    def test_something_else(self):
        raise AssertionError
"""


def run(checkout, *options):
    command = [sys.executable, str(SCRIPT), str(checkout), "--files", "pjit_test", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_tests_are_compared_one_by_one(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "pjit_test.py").write_text(TESTS)
    result = run(tmp_path)
    assert result.stdout.splitlines() == [
        "pjit_test.py: 2 of 3 pass without retile, 1 of these with it",
        "  pjit_test.ReshardTest.test_operations: AssertionError: no reshard",
    ], result.stdout + result.stderr
    assert result.returncode == 1
    excepted = run(tmp_path, "--except", "test_operations")
    assert excepted.returncode == 0 and "test_operations (excepted): " in excepted.stdout
    assert "there is no " in run(tmp_path / "nowhere").stderr
