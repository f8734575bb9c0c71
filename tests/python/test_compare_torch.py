"""tests/frameworks/compare_torch.py on tests in the manner of PyTorch's."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[1] / "frameworks" / "compare_torch.py"

TESTS = """
import unittest
from torch.distributed.tensor import _redistribute

class RedistributeTest(unittest.TestCase):
    has_failed = False

    def setUp(self):
        if RedistributeTest.has_failed:
            self.skipTest("a test of this class failed")

    def test_1_values(self):
        pass

    def test_2_operations(self):
        RedistributeTest.has_failed = hasattr(_redistribute.redistribute_local_tensor, "__wrapped__")
        if RedistributeTest.has_failed:
            raise AssertionError("another function")

    def test_3_more_values(self):
        pass

    def test_4_that_fails_anyhow(self):
        RedistributeTest.has_failed = True
        raise AssertionError
"""


def test_what_is_skipped_after_a_failure_is_compared_too(tmp_path):
    (tmp_path / "test_api.py").write_text(TESTS)
    command = [sys.executable, str(SCRIPT), str(tmp_path), "test_api.py"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines() == [
        "test_api.py: 3 pass without plans, 2 of them with",
        "  test_api.RedistributeTest::test_2_operations: AssertionError: another function",
        "3 pass without plans, 2 of them with",
    ], result.stdout + result.stderr
    assert result.returncode == 1
