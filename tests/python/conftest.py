"""Eight devices on this machine's processor, and programs that are compiled soon, before JAX is imported."""

import math
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"


def pytest_addoption(parser):
    parser.addoption("--all-problems", action="store_true", help="all problems of tests/data, not every twelfth")


def pytest_generate_tests(metafunc):
    if "problem" in metafunc.fixturenames and metafunc.module.__name__ == "test_jax":
        from problems import problems

        step = 1 if metafunc.config.getoption("all_problems") else 12
        mixed = [one for one in problems("xla_other_problems.jsonl") if math.prod(one["mesh"].values()) <= 8]
        chosen = problems()[::step] + mixed[::step]
        metafunc.parametrize("problem", chosen, ids=lambda problem: problem["id"])
