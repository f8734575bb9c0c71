"""Whole models of PyTorch's tensors, from four trainers to four servers. Skipped without PyTorch (make test-torch)."""

import os
import re
import subprocess
import sys
from pathlib import Path

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


def test_the_page_shows_what_its_script_prints():
    root = Path(__file__).parents[2]
    page = (root / "docs/train-then-serve.md").read_text()
    script, shown = re.search(
        r"^\$ torchrun --nproc-per-node 8 (\S+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL
    ).groups()
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "8",
        str(root / script),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_LOGS": "-all"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout == shown
