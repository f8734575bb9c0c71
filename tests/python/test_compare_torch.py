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


MODE = """
import torch
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.common_utils import TestCase
from test_api import is_enabled

class ModeTest(TestCase):
    def test_only_the_run_with_plans_is_unwatched(self):
        with CommDebugMode() as mode:
            assert torch._C._len_torch_dispatch_stack() == (0 if is_enabled() else 1)
        assert mode.comm_module_counts["Global"]["forward"] == {}
"""


def compare(folder, *options):
    (folder / "test_api.py").write_text(TESTS)
    (folder / "test_mode.py").write_text(MODE)
    (folder / "expecttest.py").write_text(EXPECTTEST)
    command = [sys.executable, str(SCRIPT), str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_tests_are_compared_one_by_one_and_beyond_counts_of_collectives(tmp_path):
    result = compare(tmp_path, "test_api.py")
    assert result.stdout.splitlines() == [
        "test_api.py: 5 pass without plans, 3 of them with",
        "  test_api.RedistributeTest::test_2_operations: AssertionError: another function",
        "  test_api.RedistributeTest::test_5_values_beside_counts: AssertionError: Scalars are not equal!",
        "  RedistributeTest::test_4_counts expects other collectives",
        "  RedistributeTest::test_5_values_beside_counts expects other collectives",
        "5 pass without plans, 3 of them with",
    ], result.stdout + result.stderr
    assert result.returncode == 1


def test_a_mode_that_counts_can_be_left_out_with_plans(tmp_path):
    assert compare(tmp_path, "test_mode.py").returncode == 1
    result = compare(tmp_path, "test_mode.py", "--unwatched")
    assert result.returncode == 0, result.stdout + result.stderr
