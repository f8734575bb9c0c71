"""Whole models of PyTorch's tensors, from four trainers to four servers. Skipped without PyTorch (make test-torch)."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")

from torch_ranks import run_cases
from transfer_cases import CASES


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    return run_cases(CASES, 8, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("name", [case.__name__ for case in CASES])
def test_in_all_ranks(outcomes, name):
    assert outcomes[name] == ""
