#!/usr/bin/env bash
# Makes what is published of a version, from a clean tree whose tests pass, into build/dist: the sources as a tarball and
# as an sdist, a wheel that stands alone, built from that sdist, and their checksums. Publishes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "release: $*" >&2
  exit 1
}

[[ -z $(git status --porcelain) ]] || fail "the tree has changes that are not committed (git status)"
version=$(sed -nE 's/^  VERSION ([0-9.]+)$/\1/p' CMakeLists.txt)
for file in pyproject.toml:"version = \"$version\"" CITATION.cff:"version: $version" CHANGELOG.md:"## $version"; do
  grep -qF -- "${file#*:}" "${file%%:*}" || fail "${file%%:*} does not say \"${file#*:}\", as CMakeLists.txt does"
done
grep -qxE "## ${version//./\\.}, [0-9]{4}-[0-9]{2}-[0-9]{2}" CHANGELOG.md ||
  fail "CHANGELOG.md has no date for $version: \"## $version, $(date +%Y-%m-%d)\""
if git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null; then
  [[ $(git rev-parse "v$version^{commit}") == $(git rev-parse HEAD) ]] || fail "v$version is another commit"
fi

make test-release

place=build/dist
environment=build/release-environment
rm -rf "$place" "$environment"
mkdir -p "$place"
git archive --format=tar.gz --prefix="retile-$version/" --output="$place/retile-$version-sources.tar.gz" HEAD
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check build
"$environment/bin/pyproject-build" --sdist --outdir "$place" . >/dev/null # python -m would find our folder build
SOURCE=$place/retile-$version.tar.gz tools/wheel.sh
cp build/wheel/*.whl "$place"
"$environment/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$place"/*.whl
[[ $("$environment/bin/retile" --version) == "retile $version" ]] || fail "the wheel's command is not of $version"
(cd "$place" && sha256sum -- * >SHA256SUMS)
cat "$place/SHA256SUMS"
