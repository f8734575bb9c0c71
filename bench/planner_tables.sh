#!/usr/bin/env bash
# Measures planning and writes the tables between the markers of a document:
#   bench/planner_tables.sh FOLDER-OF-PROGRAMS DOCUMENT
# The document is left as it is unless all programs have ended well.
set -euo pipefail

programs=$1
document=$2
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT

times_table() {
  "$programs/planner_benchmark" --benchmark_format=csv >"$work/times.csv"
  awk -F, '
    function cell(name, form, factor) { return $column[name] == "" ? "–" : sprintf(form, factor * $column[name]) }
    { gsub(/"/, "") }
    $1 == "name" { for (i = 1; i <= NF; ++i) column[$i] = i; known = 1; next }
    !known { next }
    $column["error_occurred"] == "true" { print "failed: " $0 > "/dev/stderr"; exit 1 }
    !titled {
      print "| family | planner | problems | median µs | 99 % µs | most µs | proved optimal | mean gap | peak heap kB |"
      print "|---|---|---|---|---|---|---|---|---|"
      titled = 1
    }
    {
      split($1, name, "/")
      if (name[2] ~ /^iterations/) name[2] = "–"
      printf "| %s | %s | %d | %s | %s | %s | %s | %s | %s |\n", name[1], name[2], $column["problems"], \
        cell("median_us", "%.1f", 1), cell("p99_us", "%.1f", 1), cell("max_us", "%.1f", 1), \
        cell("proved", "%.1f %%", 100), cell("mean_gap", "%.2f %%", 100), cell("peak_heap_kb", "%.0f", 1)
    }' "$work/times.csv"
}

# replace NAME FILE: the file's text between <!-- NAME --> and <!-- /NAME -->.
replace() {
  awk -v name="$1" -v file="$2" '
    $0 == "<!-- /" name " -->" { inside = 0 }
    !inside { print }
    $0 == "<!-- " name " -->" {
      inside = found = 1
      while ((getline line < file) > 0) print line
    }
    END { if (!found || inside) { print "no section " name > "/dev/stderr"; exit 1 } }' "$document" >"$work/document"
  cat "$work/document" >"$document"
}

# Where and of what the figures were measured.
circumstances() {
  local model commit
  model=$(lscpu | sed -n 's/^Model name: *//p' | head -n 1)
  commit=$(git -C "$(dirname "$0")" log -1 --format=%h 2>/dev/null || echo unknown)
  if ! git -C "$(dirname "$0")" diff --quiet HEAD 2>/dev/null; then commit+=" and changes since"; fi
  echo "$(date +%Y-%m-%d), $model, $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg);" \
    "release build, $(c++ --version | head -n 1), commit $commit."
}

times_table >"$work/times"
{ circumstances && echo && cat "$work/times"; } >"$work/times-section"
"$programs/planner_growth" >"$work/growth"
"$programs/compare_xla" >"$work/xla"
replace planner-times "$work/times-section"
replace planner-growth "$work/growth"
replace compare-xla "$work/xla"
