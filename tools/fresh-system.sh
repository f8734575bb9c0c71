#!/usr/bin/env bash
# Shows that `make demo` and `make test` work on a system that has only make and git: a minimal Debian, made by
# debootstrap in a temporary folder from the package sources of this machine, and a clone of the committed HEAD.
#
#   fresh-system.sh [--keep] [--repository DIR] [--wheel FILE]
#     --keep            leave the system in place afterwards, and say where
#     --repository DIR  the repository to clone; by default, this one
#     --wheel FILE      try this wheel instead, in a system that has Python and no compiler
set -euo pipefail

keep=false
wheel=
repository=$(cd "$(dirname "$0")/.." && pwd)

fail() {
  echo "fresh-system: $*" >&2
  exit 1
}

while (($#)); do
  case $1 in
    --keep) keep=true ;;
    --repository)
      (($# > 1)) || fail "--repository needs a folder"
      repository=$2
      shift
      ;;
    --wheel)
      [[ -f ${2:-} ]] || fail "--wheel needs a file"
      wheel=$2
      shift
      ;;
    *) fail "unknown argument $1" ;;
  esac
  shift
done

((EUID == 0)) || fail "needs root, for debootstrap and chroot"
for program in debootstrap unshare git; do
  command -v "$program" >/dev/null || fail "needs $program"
done
git=(git -c safe.directory='*' -C "$repository")
"${git[@]}" rev-parse --quiet --verify HEAD >/dev/null 2>&1 || fail "$repository has no commit to clone"
if [[ -n $("${git[@]}" status --porcelain) ]]; then
  echo "fresh-system: uncommitted changes in $repository are not part of this" >&2
fi

# --- The package sources of this machine, as "URI SUITE COMPONENT" lines. Only Debian's own: others may need keys or
# certificates that a minimal system lacks.

# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
package_sources() {
  # shellcheck disable=SC2016 # apt's own variables
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    sed -n 's/^Debian //p' | sort -u
}
sources=$(package_sources)
if [[ -z $sources ]]; then # apt knows of them once it has fetched its lists
  apt-get -qq update
  sources=$(package_sources)
fi
mirror=$(awk -v release="$release" '$2 == release && $3 == "main" { print $1; exit }' <<<"$sources")
[[ -n $mirror ]] || fail "apt on this machine has no Debian source for '$release'"

# debootstrap asks the environment for the proxy; apt has it in its configuration.
proxy=$(apt-config dump --format '%v%n' Acquire::http::Proxy)
if [[ -n $proxy ]]; then
  export http_proxy=$proxy
fi

# --- The system. Mounts are made in a namespace of their own, which ends with the command: nothing of this machine is
# mounted below $root when it is removed.

work=$(mktemp --directory --tmpdir retile-fresh.XXXXXX)
root=$work/system # not $work itself, which only root may enter: apt drops its privileges
step=
clean_up() {
  local status=$?
  if ((status)); then
    echo "fresh-system: failed (status $status): $step" >&2
  fi
  if $keep; then
    echo "fresh-system: kept $work"
  else
    rm -rf --one-file-system "$work"
  fi
}
trap clean_up EXIT

in_namespace() {
  unshare --mount --pid --fork --kill-child "$@"
}

# in_system COMMAND...: as root in the new system, with an environment that holds nothing but the proxy.
in_system() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  in_namespace bash -euc '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" "$@"
  ' in_system "$root" \
    /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 ${http_proxy:+http_proxy="$http_proxy"} \
    "$@"
}

timings=()
timed() {
  step=$1
  shift
  echo "=== $step"
  local start=$EPOCHREALTIME
  "$@"
  timings+=("$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%8.1f s", b - a }')  $step")
}

make_system() {
  if ! in_namespace debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$mirror" \
    >"$work/debootstrap.log" 2>&1; then
    tail -n 20 "$work/debootstrap.log" >&2
    return 1
  fi
  cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
  awk '{ print "deb", $0 }' <<<"$sources" >"$root/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::https?::' >"$root/etc/apt/apt.conf.d/00host" || true # it may have none
}

install_packages() {
  in_system apt-get -qq update
  in_system env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o Dpkg::Use-Pty=0 install --yes --no-install-recommends "$@" >/dev/null
}

clone() {
  "${git[@]}" bundle create --quiet "$root/root/retile.bundle" HEAD
  in_system git -c advice.detachedHead=false clone --quiet /root/retile.bundle /root/retile
}

# NumPy comes from this machine, so that the new one needs no package index.
install_wheel() {
  mkdir "$root/root/wheels"
  cp "$wheel" "$root/root/wheels"
  python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --dest "$root/root/wheels" \
    --python-version "$(in_system python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" numpy
  in_system python3 -m venv /root/environment
  in_system /root/environment/bin/pip install --quiet --no-index --find-links /root/wheels retile numpy
}

# The command, the package, files in each codec; and that nothing but the system's own libraries is linked.
try_wheel() {
  cat >"$root/root/try.py" <<'END'
import subprocess, sys
import numpy as np, retile

array = np.arange(64.0, dtype=np.float32).reshape(8, 8)
rows, columns = (retile.Layout(text, retile.Mesh({"x": 4})) for text in ("[2{x}8, 8]", "[8, 2{x}8]"))
tiles = retile.redistribute([array[2 * i : 2 * i + 2] for i in range(4)], retile.plan(rows, columns))
assert all((tile == array[:, 2 * i : 2 * i + 2]).all() for i, tile in enumerate(tiles))
np.save("array.npy", array)
for codec in ("blosc", "zstd", "lz4", "zlib", "gzip"):
    for source, target, more in (("array.npy", f"{codec}.zarr", ["--format", "zarr2", "--codec", codec]), (f"{codec}.zarr", f"{codec}.npy", [])):
        subprocess.run([sys.executable, "-m", "retile", "rechunk", source, target, "--chunks", "8,8", *more], check=True)
    assert (np.load(f"{codec}.npy") == array).all()
print("the wheel works")
END
  local ends=(--mesh "x=2,y=4" '[2{y,x}16, 16]' '[16, 4{y}16]')
  in_system /root/environment/bin/retile run "${ends[@]}"
  in_system /root/environment/bin/retile draw "${ends[@]}" --out /root/plan.svg
  in_system /root/environment/bin/python -m retile plan "${ends[@]}"
  in_system bash -c 'cd /root && environment/bin/python try.py'
  in_system bash -c 'cd /root/environment && find . -path "*retile*" -type f -exec ldd {} + 2>/dev/null' >"$work/linked" || true # not all are programs
  require_system_libraries "$work/linked"
}

# What ldd prints may name the system's C and C++ libraries, zlib, which manylinux counts among a system's libraries, and
# what the wheel brings.
require_system_libraries() {
  local allowed='libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux-[a-z0-9-]+|linux-vdso|libz'
  grep -qE '[[:space:]]libc\.so' "$1" || fail "ldd printed nothing of the wheel's programs"
  local others
  others=$(grep '=>\|\.so' "$1" | grep -vE "^[[:space:]]+(/[^ ]*/)?($allowed)\.so|/retile[^ ]*\.libs/|:$" || true)
  [[ -z $others ]] || fail "the wheel needs more than the system's C and C++ libraries and zlib:"$'\n'"$others"
}

timed "debootstrap $release" make_system
if [[ -n $wheel ]]; then
  timed "apt-get install python3-venv" install_packages python3-venv
  timed "pip install $(basename "$wheel")" install_wheel
  timed "the wheel" try_wheel
else
  timed "apt-get install make git" install_packages make git ca-certificates
  timed "git clone" clone
  timed "make demo" in_system make -C /root/retile demo
  timed "make test" in_system make -C /root/retile test
  timed "make demo, again" in_system make -C /root/retile demo
fi
echo "=== done"
printf '%s\n' "${timings[@]}"
