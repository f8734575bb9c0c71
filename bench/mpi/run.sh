#!/usr/bin/env bash
# Starts a program on 8 ranks of this machine, whatever its number of cores; or on RANKS, by another MPI's MPIRUN.
set -euo pipefail

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
options=()
mpirun=${MPIRUN:-mpirun}
[[ $("$mpirun" --version 2>&1) == *open-mpi.org* ]] && options=(--quiet --oversubscribe --bind-to none)
exec "$mpirun" "${options[@]}" -n "${RANKS:-8}" "$@"
