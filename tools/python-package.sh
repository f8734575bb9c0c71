#!/usr/bin/env bash
# Builds the Python package into build/python, from the library of the release build, so that nothing is compiled twice.
# With a command, installs it into a virtual environment with NumPy, mpi4py, readers of files and JAX (FRAMEWORK=torch: PyTorch), and runs the
# command there; that is skipped, with a word, where no package index can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."

place=build/python
framework=${FRAMEWORK:-jax}
environment=$place/$framework
packages=(scikit-build-core nanobind numpy mpi4py zarr "$framework" pytest pytest-xdist)
[[ $framework == jax ]] && packages+=(h5py h5netcdf xarray tensorstore) # readers and writers of files
python=${PYTHON:-python3}
[[ -x /usr/bin/python3 ]] && python=${PYTHON:-/usr/bin/python3} # Debian's, whose headers we can install

can_reach_index() {
  "$environment/bin/pip" download --quiet --no-deps --no-cache-dir --dest "$place/probe" iniconfig >/dev/null 2>&1
}

# Made once; made again where other packages are asked for.
make_environment() {
  [[ "$(cat "$environment/packages" 2>/dev/null)" == "${packages[*]}" ]] && return
  tools/install-dependencies.sh --command python3-dev python3-venv
  "$python" -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-compile "${packages[@]}" || return
  echo "${packages[*]}" >"$environment/packages"
}

if ! make_environment; then
  if (($#)) && ! can_reach_index; then
    echo "No package index can be reached: the Python package is not tested." >&2
    exit 0
  fi
  exit 1
fi

export PATH="$PWD/$environment/bin:$PATH"
rm -rf "$place/library" "$place"/*.whl
cmake --build build/release --target retile_installed
cmake --install build/release --prefix "$place/library" >/dev/null
pip wheel . --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$place" \
  --config-settings=cmake.define.retile_ROOT="$PWD/$place/library"
echo "$place"/*.whl
if (($#)); then
  pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$place"/*.whl
  "$@"
fi
