"""What benchmarks of frameworks write to results files, and how they end."""

import argparse
import subprocess
import sys
from unittest import mock

import pytest
from problems import problems
from test_docs import ROOT

sys.path.append(str(ROOT / "bench" / "python"))
from recorded import Recorded


def options(megabytes):
    return argparse.Namespace(seconds=60, megabytes=megabytes, repetitions=1)


def test_problems_are_left_out_where_the_file_has_them_at_this_scale(tmp_path):
    path = tmp_path / "results.jsonl"
    problem = next(one for one in problems() if Recorded(path, "gloo", "torch", options(8)).wants(one))
    Recorded(path, "gloo", "torch", options(8)).append(problem, {"auto": 1.0, "dtensor": 2.0})
    assert not Recorded(path, "gloo", "torch", options(8)).wants(problem)
    assert Recorded(path, "gloo", "torch", options(16)).wants(problem)
    assert Recorded(path, "nccl", "torch", options(8)).wants(problem)


def test_a_process_that_is_ended_by_a_signal_is_a_failure():
    pytest.importorskip("jax", reason="JAX is not installed")
    import reshard

    processes = [mock.Mock(wait=mock.Mock(return_value=code)) for code in (0, -9)]
    with (
        mock.patch.object(reshard, "OPTIONS", argparse.Namespace(processes=2)),
        mock.patch.object(subprocess, "Popen", side_effect=processes),
        pytest.raises(SystemExit) as ended,
    ):
        reshard.start_processes()
    assert ended.value.code
