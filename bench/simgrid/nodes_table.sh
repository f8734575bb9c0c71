#!/usr/bin/env bash
# A table of predicted and simulated times on 64 nodes of eight GPUs: XLA's rules, wide plans, the plan that auto takes, and
# whole models. With a document, the table takes the place of what is between its <!-- nodes --> marks.
#
#   bench/simgrid/nodes_table.sh BUILD [DOCUMENT]
#
# Plans of more than MOST_MESSAGES (20,000) messages are predicted and not simulated.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
replay=$1/bench/simgrid/simgrid_replay
machine=$root/examples/machines/h100-cluster-64.json
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT

{
  "$replay" "$machine" --problems "$root/bench/simgrid/nodes.jsonl" --contenders xla,wide,auto \
    --most-messages "${MOST_MESSAGES:-20000}"
  for model in llama-70b qwen3-235b deepseek-v3; do
    "$root/examples/models/manifest.py" "$model" 384 128 >"$work/${model}_from_384_to_128"
    "$replay" "$machine" --manifest "$work/${model}_from_384_to_128" --most-messages "${MOST_MESSAGES:-20000}"
  done
} >"$work/replay"

# From the right: error, simulated, predicted, phases, messages.
awk '
  BEGIN { print "| what moves | plan | messages | predicted ms | simulated ms |"; print "|---|---|---|---|---|" }
  NF >= 7 && $(NF - 4) ~ /^[0-9]+$/ && $(NF - 2) ~ /^[0-9.]+$/ && $1 != "predicted" {
    gsub("_", " ", $1)
    plan = $2
    for (i = 3; i <= NF - 5; ++i) plan = plan " " $i
    printf "| %s | %s | %s | %s | %s |\n", $1, plan, $(NF - 4), $(NF - 2), $(NF - 1)
  }' "$work/replay" >"$work/table"

if (($# < 2)); then
  cat "$work/table"
else
  sed -e "/<!-- nodes -->/r $work/table" -e '/<!-- nodes -->/,/<!-- \/nodes -->/{/<!-- /!d}' "$2" >"$work/document"
  cp "$work/document" "$2"
fi
