#!/usr/bin/env bash
# run.sh PROGRAM SECONDS: fuzzes for that long, starting from the seeds in corpus/ and from what earlier runs found.
set -euo pipefail

program=$1
seconds=$2
name=$(basename "$program")
here=$(cd "$(dirname "$0")" && pwd)

found=$(dirname "$program")/corpus/$name
failures=$(dirname "$program")/failures
mkdir -p "$found" "$failures"

# libFuzzer writes new inputs into the first directory only; the seeds stay as they are.
directories=("$found")
if [[ -d $here/corpus/$name ]]; then
  directories+=("$here/corpus/$name")
fi

exec "$program" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
  -artifact_prefix="$failures/$name-" "${directories[@]}"
