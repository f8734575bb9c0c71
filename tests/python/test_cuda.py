"""Bits on a GPU, where there is one; and what check_cuda.py does there, on the processor."""

import subprocess
import sys
from pathlib import Path

import check_cuda
import pytest


@pytest.mark.parametrize("part", check_cuda.PARTS)
def test_bits_on_a_gpu(part):
    command = [sys.executable, str(Path(check_cuda.__file__)), part]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == check_cuda.SKIPPED:
        pytest.skip(result.stdout.strip())
    assert result.returncode == 0, result.stdout + result.stderr


def test_programs_for_devices_that_vmap_stands_for(capsys):
    check_cuda.check_programs(every=25)
    assert capsys.readouterr().out.startswith("60 programs")
