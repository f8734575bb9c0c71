"""The code of docs/python.md, as it stands there; that for PyTorch is run by torch_cases.py."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def blocks_of(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_pages_code_runs(capsys):
    blocks = blocks_of(PAGE.read_text().split("## From PyTorch")[0])
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "alltoall(0 -> 1; 8)" in capsys.readouterr().out
