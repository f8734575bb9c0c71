"""tests/frameworks/compare_torch.py on tests in the manner of PyTorch's."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[1] / "frameworks" / "compare_torch.py"

TESTS = """
from torch.distributed.tensor import _redistribute
from torch.testing._internal.common_utils import TestCase

def is_enabled():
    return hasattr(_redistribute.redistribute_local_tensor, "__wrapped__")

class RedistributeTest(TestCase):
    has_failed = False

    def setUp(self):
        if RedistributeTest.has_failed:
            self.skipTest("a test of this class failed")

    def test_1_values(self):
        pass

    def test_2_operations(self):
        RedistributeTest.has_failed = is_enabled()
        if RedistributeTest.has_failed:
            raise AssertionError("another function")

    def test_3_more_values(self):
        pass

    def test_4_counts(self):
        comm_counts = 0 if is_enabled() else 1
        self.assertEqual(
            comm_counts, 1
        )

    def test_5_values_beside_counts(self):
        comm_counts = 0 if is_enabled() else 1
        self.assertEqual(comm_counts, 1)
        values = [1, 2] if is_enabled() else [1, 3]
        self.assertEqual(values, [1, 3])

    def test_6_that_fails_anyhow(self):
        RedistributeTest.has_failed = True
        raise AssertionError
"""

# What PyTorch's own base class of tests needs of the package expecttest, which only comparisons need.
EXPECTTEST = "from unittest import TestCase"


def test_tests_are_compared_one_by_one_and_beyond_counts_of_collectives(tmp_path):
    (tmp_path / "test_api.py").write_text(TESTS)
    (tmp_path / "expecttest.py").write_text(EXPECTTEST)
    command = [sys.executable, str(SCRIPT), str(tmp_path), "test_api.py"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines() == [
        "test_api.py: 5 pass without plans, 3 of them with",
        "  test_api.RedistributeTest::test_2_operations: AssertionError: another function",
        "  test_api.RedistributeTest::test_5_values_beside_counts: AssertionError: Scalars are not equal!",
        "  RedistributeTest::test_4_counts expects other collectives",
        "  RedistributeTest::test_5_values_beside_counts expects other collectives",
        "5 pass without plans, 3 of them with",
    ], result.stdout + result.stderr
    assert result.returncode == 1
