#!/usr/bin/env bash
# Installs the Debian packages that are missing: those that building and testing need, or with --command those that the
# library and the command need, and those named as arguments. Silent and quick when nothing is missing. Where packages
# cannot be installed, fails only if one of those named is missing, or what CMake cannot begin without: CMake finds
# libraries in other places, or fetches them.
set -euo pipefail

packages=(
  g++ cmake ninja-build
  libcli11-dev libeigen3-dev libfmt-dev nlohmann-json3-dev
  libblosc-dev liblz4-dev libzstd-dev zlib1g-dev # codecs of files
)
if [[ ${1:-} == --command ]]; then
  shift
else
  packages+=(
    python3
    libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
    libopenmpi-dev openmpi-bin # the MPI engine
    libhdf5-dev # files of HDF5 and NetCDF-4
  )
fi
named=("$@")
packages+=("${named[@]}")

fail() {
  echo "$*" >&2
  exit 1
}

# require_programs HINT: what CMake cannot begin without.
require_programs() {
  local missing=()
  for program in cmake ninja c++; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  ((${#missing[@]} == 0)) || fail "Please install: ${missing[*]} ($1)"
}

# Not a Debian system: we cannot install, but can name what is missing.
if ! command -v dpkg-query >/dev/null; then
  require_programs "and the development files of CLI11, Eigen, fmt, nlohmann-json, GoogleTest, RapidCheck"
  exit 0
fi

# dpkg-query fails when it does not know one of the names; the list that it prints is what counts.
installed=$(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package installed" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
((EUID == 0)) || as_root=(sudo)
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >/dev/null
}
if ((EUID == 0)) || command -v sudo >/dev/null; then
  echo "Installing ${missing[*]}" >&2
  if apt update && apt install --yes --no-install-recommends "${missing[@]}"; then exit 0; fi
fi
by_hand="as root: apt-get install --no-install-recommends ${missing[*]}"
for package in "${named[@]}"; do
  ! printf '%s\n' "${missing[@]}" | grep -qxF -- "$package" || fail "Please run $by_hand"
done
require_programs "$by_hand"
echo "Packages are missing that CMake may find elsewhere, or fetch. To install them, run $by_hand" >&2
