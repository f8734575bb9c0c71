#!/usr/bin/env bash
# Makes a site of the documents, build/docs/site: the pages by MkDocs, which refuses dead links, the reference of the Python
# package from its docstrings, that of C++ and C from the installed headers by Doxygen. Takes the package of `make python`.
set -euo pipefail
cd "$(dirname "$0")/.."

place=build/docs
environment=$place/environment
tools/install-dependencies.sh --command doxygen python3-venv
if [[ ! -x $environment/bin/mkdocs ]]; then
  python3 -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check 'mkdocs>=1.6,<2' 'mkdocstrings[python]<2'
fi
rm -rf "$place"/{pages,package,include,doxygen,site}

# The pages lie as they do in the repository, so that links hold; what they link to lies beside them.
mkdir -p "$place/pages/reference"
cp -r c docs examples ./*.md LICENSE "$place/pages"
rm -r "$place/pages/docs/site"

# Types and docstrings of the extension are in the stubs that the wheel has.
"$environment/bin/python" -m zipfile -e build/python/*.whl "$place/package"
rm -f "$place"/package/retile/*.so
cat >"$place/pages/reference/python.md" <<'EOF'
# The Python package

::: retile

::: retile.jax

::: retile.torch
EOF

cp -r build/python/library/include "$place/include"
doxygen docs/site/Doxyfile
cp -r "$place/doxygen/html" "$place/pages/reference/cpp"
cat >"$place/pages/reference/cpp.md" <<'EOF'
# C++ and C

[The installed headers](cpp/index.html), one by one: [retile/retile.h](cpp/retile_8h.html) is the whole library.
EOF

"$environment/bin/mkdocs" build --config-file docs/site/mkdocs.yml # --quiet would hear no warning
echo "$place/site/index.html"
