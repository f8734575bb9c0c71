"""The adapters in examples/adapters, against the base classes of vLLM and verl: those that are installed, or the modules
alone, from wheels in the folder $RETILE_WHEELS (`pip download --no-deps vllm verl`). Skipped without PyTorch."""

import importlib.util
import os
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")

import adapter_cases
from torch_ranks import run_cases


def prepare(package, folder):
    """Where the package is not installed, takes its modules from a wheel."""
    if importlib.util.find_spec(package) is not None:
        return
    found = sorted(Path(os.environ.get("RETILE_WHEELS", folder)).glob(f"{package}-*.whl"))
    if not found:
        pytest.skip(f"{package} is not installed, and RETILE_WHEELS names no folder with its wheel")
    with zipfile.ZipFile(found[-1]) as wheel:
        for module in adapter_cases.MODULES[package]:
            wheel.extract(module.replace(".", "/") + ".py", folder)
    adapter_cases.wheels[package] = str(folder)


@pytest.mark.parametrize("package", adapter_cases.CASES)
def test_servers_have_what_trainers_have(package, tmp_path):
    prepare(package, tmp_path)
    case = adapter_cases.CASES[package]
    assert run_cases([case], adapter_cases.TRAINERS + adapter_cases.SERVERS, tmp_path)[case.__name__] == ""
