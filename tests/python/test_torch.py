"""Tensors of PyTorch, moved by plans between eight processes. Skipped without PyTorch (make test-torch)."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")

import torch_agreement_cases
import torch_cases
from test_docs import DOCS, ROOT, blocks_of, shown_below
from torch_ranks import run_cases

CASES = torch_cases.CASES + torch_agreement_cases.CASES


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    return run_cases(CASES, 8, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("name", [case.__name__ for case in CASES])
def test_in_all_ranks(outcomes, name):
    assert outcomes[name] == ""


LEAVING = """
import sys, torch.distributed as dist
from retile._agreement import Subject, calling
from retile._process_groups import participants_of

dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1]), rank=0, world_size=1)
with calling(participants_of(dist.group.WORLD, (0,)), Subject("the last tensor"), 60, "cpu"):
    pass
"""


def test_a_process_that_ends_tells_of_its_last_call(tmp_path):
    subprocess.run([sys.executable, "-c", LEAVING, tmp_path / "store"], check=True)
    assert b"the last tensor" in (tmp_path / "store").read_bytes()


def test_the_readmes_program_prints_what_it_says(tmp_path):
    page = (ROOT / "README.md").read_text()
    block = blocks_of(page)[1]
    (tmp_path / "columns.py").write_text(block)
    command, expected = shown_below(block, page).split("\n", 1)
    assert command == "$ torchrun --nproc-per-node 8 columns.py"
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "8", "columns.py"],
        cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert result.stdout == expected


def test_the_pages_script_prints_what_the_page_says(tmp_path):
    page = (DOCS / "from-pytorch.md").read_text()
    (script,) = blocks_of(page)
    command, expected = re.search(r"```\n\$ (torchrun .*)\n((?:.*\n)*?)```", page).groups()
    (tmp_path / "reshard.py").write_text(script)
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", *command.split()[1:]],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert result.stdout == expected, result.stderr
    assert "nanobind" not in result.stderr
