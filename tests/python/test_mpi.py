"""Arrays of NumPy between processes, by the plan's messages over MPI. Skipped where there is no MPI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="mpi4py is not installed")
HERE = Path(__file__).parent


def checks_of(script):
    """What the script checked on four ranks."""
    options = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    command = ["mpirun", "-np", "4", sys.executable, "-m", "mpi4py", str(HERE / script)]  # one that fails stops all
    run = subprocess.run(command, env=os.environ | options, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.split()


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
def test_ranks_move_whole_models():
    assert checks_of("mpi_transfer_ranks.py") == [
        "rows_become_columns",
        "ranks_read_each_others_memory",
        "what_is_wrong_is_told_on_all_ranks",
    ]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
def test_ranks_move_arrays_among_themselves():
    assert checks_of("mpi_ranks.py") == [
        "every_rank_gets_its_slice",
        "strided_targets_are_written_where_they_lie",
        "sums_are_added_up",
        "sums_have_the_bits_of_the_engine",
        "sums_of_other_elements_are_added_as_what_they_are",
        "the_callers_communicator_is_used",
        "what_one_rank_cannot_do_all_refuse",
        "what_cannot_be_moved_as_it_lies_is_refused",
    ]
