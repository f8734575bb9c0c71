"""Bits on a GPU, where there is one; and what check_cuda.py does there, on the processor."""

import subprocess
import sys
from pathlib import Path

import check_cuda
import jax
import pytest


@pytest.mark.parametrize("part", check_cuda.PARTS)
def test_bits_on_a_gpu(part):
    command = [sys.executable, str(Path(check_cuda.__file__)), part]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == check_cuda.SKIPPED:
        pytest.skip(result.stdout.strip())
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("backend", ["cpu", "gpu"])  # which lower rounds in different ways
def test_steps_for_devices_that_vmap_stands_for(backend, monkeypatch, capsys):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    check_cuda.check_lowering(every=25)
    assert capsys.readouterr().out.startswith("40 programs")
