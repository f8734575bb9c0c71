#!/usr/bin/env bash
# Makes a site of the documents, build/docs/site: the pages by MkDocs, which refuses dead links, the reference of the Python
# package from its docstrings, that of C++, C and Fortran by Doxygen, from the sources: whatever is configured, all of them
# are there. Takes the package of `make python`.
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
cp -r c docs examples ./*.md CITATION.cff LICENSE "$place/pages"
rm -r "$place/pages/docs/site"

# show_notebook FILE: its cells and what they printed, as Markdown.
show_notebook() {
  python3 - "$1" <<'EOF'
import json, sys
for cell in json.load(open(sys.argv[1]))["cells"]:
    text = "".join(cell["source"])
    print(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```", end="\n\n")
    for output in cell.get("outputs", []):
        shown = "".join(output.get("text") or output["data"]["text/plain"])
        print(f"```\n{shown.rstrip()}\n```", end="\n\n")
EOF
}
show_notebook docs/python.ipynb >"$place/pages/reference/notebook.md"
{ echo '# Citation' && echo && echo '```yaml' && cat CITATION.cff && echo '```'; } >"$place/pages/reference/citation.md"

# Types and docstrings of the extension are in the stubs that the wheel has.
"$environment/bin/python" -m zipfile -e build/python/*.whl "$place/package"
rm -f "$place"/package/retile/*.so
cat >"$place/pages/reference/python.md" <<'EOF'
# The Python package

::: retile

::: retile.jax

::: retile.torch

::: retile.checkpoint
EOF

# The headers that are installed are those that CMakeLists.txt names; version.h is made from its version.
mkdir -p "$place/include"
grep -oE '(c/)?retile/[a-z_0-9/]+\.h' CMakeLists.txt | grep -v '^retile/version.h$' | sort -u | while read -r header; do
  install -D --mode=644 "$header" "$place/include/${header#c/}"
done
install -D --mode=644 c/fortran/retile.f90 "$place/include/fortran/retile.f90"
doxygen docs/site/Doxyfile
for page in retile_8h c_8h c__mpi_8h mpi_8h cuda__engine_8h namespaceretile retile_8f90; do
  [[ -s $place/doxygen/html/$page.html ]] || { echo "docs: the reference lacks $page.html" >&2 && exit 1; }
done
cp -r "$place/doxygen/html" "$place/pages/reference/cpp"
cat >"$place/pages/reference/cpp.md" <<'EOF'
# C++, C and Fortran

[The installed headers](cpp/index.html), one by one: [retile/retile.h](cpp/retile_8h.html) is the whole library, [retile/mpi.h](cpp/mpi_8h.html) the engine on MPI,
[retile/c.h](cpp/c_8h.html) and [retile/c_mpi.h](cpp/c__mpi_8h.html) are the C interface, [retile.f90](cpp/retile_8f90.html) is the Fortran module.
EOF

"$environment/bin/mkdocs" build --config-file docs/site/mkdocs.yml # --quiet would hear no warning
echo "$place/site/index.html"
