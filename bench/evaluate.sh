#!/usr/bin/env bash
# Measures everything that docs/evaluation.md rests on, as much as fits in the time it is given; what was measured
# before is kept, so that a second run goes on.
#
#   bench/evaluate.sh BUILD RESULTS SECONDS SCALE
#
# BUILD holds the programs, RESULTS takes the results files, SECONDS are for all measurements together, SCALE is the
# share of each array's size that is measured. PARTS names what to measure: mpi, threads, peers.
set -euo pipefail

build=$1
results=$2
seconds=$3
scale=$4
samples=${SAMPLES:-1000}
root=$(cd "$(dirname "$0")/.." && pwd)
parts=${PARTS:-mpi threads peers}
commit=${COMMIT:-$(git -C "$root" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)}
export COMMIT=$commit # for the peers
mkdir -p "$results"

# Open MPI asks for permission where root runs it, and to be told where ranks outnumber cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=8
placement=(--bind-to core)
if (($(nproc) < ranks)); then
  placement=(--oversubscribe --bind-to none)
fi

note() { echo "== $*" >&2; }

sampled() {
  local file=$1 share=$2
  shift 2
  note "$file, up to $((seconds * share / 100)) s"
  "$@" --samples "$samples" --adversarial --scale "$scale" --repeat 5 --time-limit $((seconds * share / 100)) \
    --commit "$commit" --out "$results/$file"
}

measure_mpi() {
  if ! command -v mpirun >/dev/null || ! [ -x "$build/bench/mpi/mpi_peers" ]; then
    note "no MPI: its measurements are left out"
    return
  fi
  local mpi=(mpirun -np "$ranks" "${placement[@]}")
  sampled mpi-collectives.jsonl 40 "${mpi[@]}" "$build/retile" bench --engine mpi --transport collectives \
    --contenders auto,paper,xla,wide,gather-slice,memcpy
  sampled mpi.jsonl 20 "${mpi[@]}" "$build/retile" bench --engine mpi --contenders auto,paper,xla,wide,direct,memcpy
  note "peers on matrices, cut into blocks and block-cyclic"
  local contenders=auto,memcpy,direct,wide,paper,alltoallw
  for peer in scalapack fftw; do
    if "$build/bench/mpi/mpi_peers" --help | grep -q "$peer"; then contenders=$contenders,$peer; fi
  done
  "${mpi[@]}" "$build/bench/mpi/mpi_peers" "$root/bench/mpi/peers/matrices.jsonl" --contenders "$contenders" \
    --scale 0.25 --time-limit $((seconds * 5 / 100)) --commit "$commit" --out "$results/matrices.jsonl"
  "${mpi[@]}" "$build/bench/mpi/mpi_peers" "$root/bench/mpi/peers/cyclic.jsonl" --contenders "${contenders%,fftw}" \
    --time-limit $((seconds * 5 / 100)) --commit "$commit" --out "$results/cyclic.jsonl"
}

measure_threads() {
  sampled threads.jsonl 15 "$build/retile" bench --engine threads --threads "$ranks" \
    --contenders auto,paper,xla,wide,direct,memcpy
}

# Each is there where its Python package is.
measure_peers() {
  for peer in jax_reshard dtensor; do
    note "$peer, up to $((seconds * 7 / 100)) s"
    timeout --signal=INT $((seconds * 7 / 100)) python3 "$root/bench/peers/$peer.py" \
      "$root/tests/data/problems.jsonl" --retile "$build/retile" --scale "$scale" --limit 100 \
      --output "$results/$peer.jsonl" || note "$peer: stopped, or not there"
  done
}

for part in $parts; do "measure_$part"; done
