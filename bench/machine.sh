#!/usr/bin/env bash
# Measures how well plans are chosen for a machine: every plan that auto could have taken is run, in turn, on threads, on
# MPI ranks, on hosts made of network namespaces, on JAX's devices and on ranks of PyTorch over gloo. What was measured
# before is kept, so that a second run goes on; JAX and PyTorch start again.
#
#   bench/machine.sh BUILD RESULTS SECONDS
#
# BUILD holds the command; RESULTS takes a machine file and a results file for each part; SECONDS are for all parts
# together. PARTS names some of: threads, ranks, hosts, unequal-hosts, two-hosts, jax, gloo.
set -euo pipefail

build=$1
results=$2
seconds=$3
root=$(cd "$(dirname "$0")/.." && pwd)
parts=(${PARTS:-threads ranks hosts unequal-hosts two-hosts jax gloo})
commit=${COMMIT:-$(git -C "$root" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)}
mkdir -p "$results"

note() { echo "== $*" >&2; }

# What starts the command, and the share of the problems' sizes: links are slow.
prepare() {
  engine=mpi
  scale=${SCALE:-0.01}
  case $1 in
    threads) start=() engine=threads scale=${SCALE:-0.2} ;;
    ranks) start=("$root/bench/mpi/run.sh") scale=${SCALE:-0.2} ;;
    hosts) start=("$root/bench/cluster/run.sh" --rate 400mbit) ;;
    unequal-hosts) start=("$root/bench/cluster/run.sh" --rate 100mbit,200mbit,400mbit,800mbit) ;;
    two-hosts) start=("$root/bench/cluster/run.sh" --hosts 2 --ranks-per-host 4 --rate 400mbit) ;;
    *) note "there is no part '$1'" && exit 2 ;;
  esac
}

measure_framework() {
  note "$1, up to $((seconds / ${#parts[@]})) s, and for what it installs"
  local file
  file=$(realpath "$results")/$1.jsonl
  cd "$root"
  FRAMEWORK=$2 tools/python-package.sh python bench/python/machine.py "$2" "$file" \
    --samples "${SAMPLES:-80}" --seconds $((seconds / ${#parts[@]}))
}

measure() {
  local machine=$results/$1.json
  if ! [[ -s $machine ]]; then
    note "$1: calibrating"
    "${start[@]}" "$build/retile" calibrate --engine "$engine" --devices 8 --out "$machine" || return
  fi
  note "$1, up to $((seconds / ${#parts[@]})) s"
  "${start[@]}" "$build/retile" bench --engine "$engine" --machine "$machine" --samples "${SAMPLES:-80}" --scale "$scale" \
    --contenders auto,wide,direct,two-level,paper,collectives,gather-slice,dtensor-costs --repeat "${REPEAT:-7}" \
    --time-limit $((seconds / ${#parts[@]})) --commit "$commit" --out "$results/$1.jsonl"
}

for part in "${parts[@]}"; do
  case $part in
    jax) (measure_framework jax jax) || note "$part is left out" ;;
    gloo) (measure_framework gloo torch) || note "$part is left out" ;;
    *) prepare "$part" && measure "$part" || note "$part is left out" ;;
  esac
done
shopt -s nullglob
exec python3 "$root/bench/machine_report.py" "$results"/*.jsonl
