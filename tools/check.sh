#!/usr/bin/env bash
# The quick loop: builds, tests and lints what differs from BASE. By default, BASE is where this branch left its upstream.
# A changed folder of the library is tested by the folder of the same name in tests/. `make test` runs everything.
set -euo pipefail
cd "$(dirname "$0")/.."

base=${BASE:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || echo HEAD)}
jobs=${JOBS:-$(nproc)}
mapfile -t changed < <({
  git diff --name-only --diff-filter=d "$base"
  git ls-files --others --exclude-standard
} | sort -u)

declare -A folders=([architecture]=1) # who includes what: quick, and concerns every file
python=false
sources=()
for path in "${changed[@]}"; do
  case $path in
    python/* | tests/python/*) python=true ;;
    tests/*/* | retile/*/*) folder=${path#*/} && folders[${folder%%/*}]=1 ;;
    retile/*) folders[engines]=1 ;; # the interfaces for users: redistribute, transfer, rechunk, draw
    tools/retile/* | *.md | examples/*) folders[command]=1 ;;
    evaluation/*) folders[evaluation]=1 ;;
    c/*) folders[c]=1 ;;
  esac
  [[ $path == *.cpp || $path == *.h ]] && sources+=("$path")
done

programs=()
for folder in "${!folders[@]}"; do
  # Those of MPI are jobs that ctest starts.
  if [[ $folder != mpi ]] && compgen -G "tests/$folder/*_test.cpp" >/dev/null; then programs+=("retile_${folder}_tests"); fi
done
echo "${#changed[@]} files differ from $(git rev-parse --short "$base"): ${programs[*]}"

# Tests that take many seconds whatever has changed.
slow='PaperOptimality|WideOptimality|TransferOfModels|Cap.holds_for_headers'

cmake --build --preset release --target "${programs[@]}" --parallel "$jobs"
labels=$(printf '%s\n' "${!folders[@]}" | grep -vx mpi | paste -sd '|')
ctest --preset release --label-regex "^($labels)\$" --exclude-regex "$slow" --parallel "$jobs" --progress
echo "left to make test: $slow"
if [[ -n ${folders[mpi]:-} ]]; then
  cmake --build --preset release --target retile_mpi_job retile_mpi_tests --parallel "$jobs"
  ctest --preset release -L mpi
fi
if $python; then
  make --no-print-directory test-python
fi

if ((${#sources[@]})); then
  clang-format --dry-run -Werror "${sources[@]}"
  mapfile -t tidied < <(printf '%s\n' "${sources[@]}" | grep -E '^(retile|c|evaluation|tools|bench)/.*\.cpp$' || true)
  if ((${#tidied[@]})); then
    run-clang-tidy -quiet -j "$jobs" -p build/clang "${tidied[@]/#/^$PWD/}"
  fi
fi
if printf '%s\n' "${changed[@]}" | grep -q '\.py$'; then
  tools/lint-python.sh
fi
