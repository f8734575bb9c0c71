#!/usr/bin/env bash
# Measures everything that docs/evaluation.md rests on, as much as fits in the time it is given; what was measured
# before is kept, so that a second run goes on.
#
#   bench/evaluate.sh BUILD RESULTS SECONDS SCALE
#
# BUILD holds the programs, RESULTS takes a results file for each part, SECONDS are for all parts together, SCALE is the
# share of each array's size that is measured. No part needs a network. A part that cannot be measured here is left out,
# with the reason. PARTS names some of
#
#   mpi-collectives mpi  our plans and XLA's rules on 8 ranks, with MPI's collectives and with our engine
#   threads cuda         the same on threads, and on a GPU
#   hosts                the same on four hosts that are network namespaces (bench/cluster/run.sh)
#   matrices cyclic      ranks beside MPI_Alltoallw, ScaLAPACK and FFTW: matrices in blocks, and block-cyclic ones
#   own-memory           ranks beside MPI_Alltoallw, with tiles in the program's own memory
#   jax_reshard dtensor  threads beside XLA with its runtime, and beside DTensor
#   jax torch            the Python package's reshard beside JAX's own, its redistribute beside DTensor's
#   models model-ranks   whole models: over gloo, and on MPI ranks from Python beside the library
#
# The last three rows need the environments that `make test-python` and `make test-torch` make.
set -euo pipefail

if (($# != 4)); then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
build=$(realpath "$1")
mkdir -p "$2"
results=$(realpath "$2")
seconds=$3
scale=$4
samples=${SAMPLES:-1000}
repeat=${REPEAT:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
COMMIT=${COMMIT:-$(git -C "$root" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)}
export COMMIT # for what is written in Python
cd "$root"

# The share of the time for each part.
declare -A shares=([mpi-collectives]=25 [mpi]=15 [threads]=8 [cuda]=4 [hosts]=8 [matrices]=4 [cyclic]=4 [own-memory]=5
  [jax_reshard]=4 [dtensor]=4 [jax]=6 [torch]=6 [models]=4 [model-ranks]=3)
read -ra parts <<<"${PARTS:-mpi-collectives mpi threads cuda hosts matrices cyclic own-memory jax_reshard dtensor jax torch models model-ranks}"
total=0
for part in "${parts[@]}"; do
  [[ -v shares[$part] ]] || { echo "evaluate: there is no part '$part'" >&2 && exit 2; }
  ((total += shares[$part]))
done

note() { echo "== $*" >&2; }

require() {
  "$@" >/dev/null 2>&1 || { note "there is no ${*: -1}" && return 1; }
}

# Ranks have a core each where there are enough; bench/mpi/run.sh lets them share some.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=8
on_ranks=("$root/bench/mpi/run.sh")
if (($(nproc) >= ranks)); then on_ranks=(mpirun -np "$ranks" --bind-to core); fi

# Programs begin no problem after a part's time. One that hangs is ended; so is one that knows no time, after `patience`.
bounded() { timeout --signal=INT --kill-after=30 "${patience:-$((2 * limit + 60))}" "$@"; }

# sampled CONTENDERS START...: our command, started so, on problems that are sampled as in the paper.
sampled() {
  local contenders=$1
  shift
  bounded "$@" --samples "$samples" --adversarial --scale "$part_scale" --repeat "$repeat" --time-limit "$limit" \
    --commit "$COMMIT" --contenders "$contenders" --out "$file"
}

# peers PROBLEMS CONTENDERS OPTION...
peers() {
  require test -x "$build/bench/mpi/mpi_peers" || return
  local problems=$1 contenders=$2
  shift 2
  bounded "${on_ranks[@]}" "$build/bench/mpi/mpi_peers" "$problems" --contenders "$contenders" --repeat "$repeat" \
    --time-limit "$limit" --commit "$COMMIT" --out "$file" "$@"
}

# Ours, and of the named peers those that were built.
with_peers() {
  local contenders=auto,memcpy,direct,wide,paper,alltoallw
  for peer in "$@"; do
    if "$build/bench/mpi/mpi_peers" --help 2>/dev/null | grep -q "$peer"; then contenders+=,$peer; fi
  done
  echo "$contenders"
}

# Our command beside a framework's program.
beside_peer() {
  patience=$limit in_environment "$1" "bench/peers/$part.py" tests/data/problems.jsonl --retile "$build/retile" --scale "$scale" \
    --limit 100 --output "$file"
}

# in_environment FRAMEWORK SCRIPT ARGUMENT...: as `make python` has made it; nothing is installed here.
in_environment() {
  local python=$root/build/python/$1/bin/python
  shift
  require test -x "$python" || return
  "$python" -c 'import retile' || { note "retile is not installed there: $python" && return 1; }
  PATH="$(dirname "$python"):$PATH" bounded "$python" "$@"
}

whole_model() { # ENGINE NAME OURS FRAMEWORK SCRIPT ARGUMENT...
  [[ ! -s $file ]] || return 0
  local engine=$1 name=$2 ours=$3 framework=$4 printed
  printed=$(in_environment "${@:4}") || return
  in_environment "$framework" bench/python/recorded.py "$file" "$engine" "$name" "$ours" <<<"$printed"
}

measure() {
  local file=$results/$1.jsonl limit=$((seconds * shares[$1] / total)) part_scale=$scale
  local ours=auto,paper,xla,wide,direct,memcpy
  note "$1, up to $limit s"
  case $1 in
    mpi-collectives)
      require command -v mpirun && sampled auto,paper,xla,wide,gather-slice,memcpy "${on_ranks[@]}" \
        "$build/retile" bench --engine mpi --transport collectives
      ;;
    mpi) require command -v mpirun && sampled "$ours" "${on_ranks[@]}" "$build/retile" bench --engine mpi ;;
    threads) sampled "$ours" "$build/retile" bench --engine threads --threads "$ranks" ;;
    cuda) require nvidia-smi && sampled "$ours" "$build/retile" bench --engine cuda ;;
    hosts)
      part_scale=${HOSTS_SCALE:-0.01} # their links have 1 Gbit/s
      sampled "$ours" "$root/bench/cluster/run.sh" "$build/retile" bench --engine mpi
      ;;
    matrices) peers bench/mpi/peers/matrices.jsonl "$(with_peers scalapack fftw)" --scale "$(awk "BEGIN { print 2 * $scale < 1 ? 2 * $scale : 1 }")" ;;
    cyclic) peers bench/mpi/peers/cyclic.jsonl "$(with_peers scalapack)" ;;
    own-memory) peers tests/data/problems.jsonl "$(with_peers)" --own-memory --scale "$scale" ;;
    jax_reshard) beside_peer jax ;;
    dtensor) beside_peer torch ;;
    jax) in_environment jax bench/python/reshard.py --every 4 --seconds "$limit" --out "$file" >/dev/null ;;
    torch) in_environment torch bench/python/redistribute_torch.py --every 6 --seconds "$limit" --out "$file" >/dev/null ;;
    models) whole_model gloo "trainers to servers, PyTorch" transfer torch bench/python/transfer_torch.py ;;
    model-ranks)
      RETILE_COMMAND=$build/retile whole_model mpi "Qwen3-30B-A3B, MPI ranks" Python jax bench/python/transfer_mpi.py
      ;;
  esac
}

for part in "${parts[@]}"; do
  (measure "$part") || note "$part: stopped, or left out"
done
