"""The code of the pages for Python, as it stands there; that for PyTorch is run by torch_cases.py."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def blocks_of(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run_blocks(page):
    blocks = blocks_of((DOCS / page).read_text().split("## From PyTorch")[0])
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return len(blocks)


@pytest.mark.parametrize(("page", "blocks"), [("python.md", 4), ("from-jax.md", 2)])
def test_the_pages_code_runs(page, blocks, capsys):
    assert run_blocks(page) == blocks
    printed = capsys.readouterr().out
    assert "alltoall(0 -> 1; " in printed
    if page == "from-jax.md":  # what programs hold is for XLA to say, so the line of the peak may differ
        (shown,) = re.findall(r"^16 arrays .*?^donated.*?\n", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
        both = (re.sub("peak .*", "", text) for text in (shown, printed))
        assert next(both) in next(both)
        (explained,) = re.findall(r"```\n(mesh (?:.*\n)*?)```", (DOCS / page).read_text())
        assert explained in printed


def test_the_pages_commands_for_python_run(tmp_path):
    commands = re.findall(r"^\$ (retile .*python .*)\n(.*)$", (DOCS / "from-jax.md").read_text(), re.MULTILINE)
    programs = os.environ.get("RETILE_COMMAND", ROOT / "build/release/retile"), sys.executable
    path = os.pathsep.join([*(str(Path(program).parent) for program in programs), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    for command, expected in commands:
        result = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert result.stdout == expected + "\n", result.stderr
    assert len(commands) == 1


def shown_below(block, page):
    """What the page says that a block of code prints."""
    return re.match(r"```\n\n```\n((?:.*\n)*?)```", page[page.index(block) + len(block) :])[1]


def test_the_warning_goes_away_in_the_readmes_program():
    page = (ROOT / "README.md").read_text()
    block = blocks_of(page)[0]
    theirs = block.replace("retile.jax.reshard", "jax.sharding.reshard")
    assert theirs != block
    warned = []
    for program in (block, theirs):
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        warned.append("Involuntary full rematerialization" in result.stderr)
        assert result.stdout == shown_below(block, page)
    assert warned == [False, True]
