#!/usr/bin/env bash
# Checks format and code of everything written in Python, with ruff; "format" formats it instead. Skipped, with a word,
# where ruff cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=build/python/ruff
if [[ ! -x $environment/bin/ruff ]]; then
  tools/install-dependencies.sh python3-venv
  python3 -m venv "$environment"
  if ! "$environment/bin/pip" install --quiet --disable-pip-version-check 'ruff>=0.15,<1'; then
    echo "ruff cannot be installed: what is written in Python is not checked." >&2
    exit 0
  fi
fi
if [[ ${1:-} == format ]]; then
  exec "$environment/bin/ruff" format .
fi
"$environment/bin/ruff" check .
"$environment/bin/ruff" format --check .
