#!/usr/bin/env bash
# Shows what retile does on redistributions of the paper: plans them, checks the plans, runs them on
# real data, and takes a sequence of collectives into normal form.
set -euo pipefail
cd "$(dirname "$0")/.."
retile=build/release/retile
plans=$(mktemp)
trap 'rm -f "$plans"' EXIT

title() { printf '\n== %s\n\n' "$1"; }

title "plans with the paper's collectives: type, collective and cost, type, ..."
"$retile" plan --problems examples/paper.jsonl --planner paper

title "the first of them gathered and sliced instead"
head -n 1 examples/paper.jsonl | "$retile" plan --problems - --planner gather-slice

title "wide plans: at most one slice, one exchange and one gather"
"$retile" plan --problems examples/paper.jsonl

title "checked by a verifier that knows nothing of the planner"
"$retile" plan --problems examples/paper.jsonl --json > "$plans"
"$retile" verify - < "$plans"

title "run on real data, every device's result compared with a slice of the global array"
"$retile" run --problems examples/paper.jsonl

title "a program of the language: what its redistributions become and cost, then run and verified"
"$retile" lower --summary examples/chain.spmd
"$retile" run examples/chain.spmd --verify

title "a sequence that gathers everything, rewritten into normal form"
"$retile" normalize examples/peak.txt

title "a mistake"
"$retile" plan --mesh devices=32 '[8{device}256, 1024]' '[256, 1024]' || printf '(exit status %s)\n' $?
