#!/usr/bin/env bash
# Predicted times against simulated ones, on 8, 256 and 1,024 devices: a line for each machine, or all of the tables with
# TABLES=1.
#
#   bench/simgrid/judge.sh BUILD
set -euo pipefail

replay=$1/bench/simgrid/simgrid_replay
machines=$(cd "$(dirname "$0")/../../examples/machines" && pwd)

judge() {
  local table
  table=$("$replay" "$machines/$1.json" --samples "${SAMPLES:-40}" "${@:2}")
  if [[ ${TABLES:-} ]]; then echo "$table"; else sed -n '1p;$p' <<<"$table"; fi
  echo
}

judge h100-node
judge gigabit-4
for machine in gigabit-4 h100-cluster-64; do
  judge "$machine" --devices 256 --axes 4,8,8 --most-messages 20000
  judge "$machine" --devices 1024 --axes 8,8,16 --most-messages 40000
done
