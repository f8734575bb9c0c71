#!/usr/bin/env bash
# Draws the pictures of documents into a folder (default: docs/pictures), with the retile on the PATH or of the release
# build. `retile draw` writes pictures that follow the reader's setting; a page with its own switch needs one of each kind.
set -euo pipefail
folder=${1:-$(dirname "$0")/../docs/pictures}
PATH="$PATH:$(dirname "$0")/../build/release"
mkdir -p "$folder"

picture=$(retile draw --mesh x=2,y=4 '[2{y,x}16, 16]' '[16, 4{y}16]' --beside xla --as svg)
sed '/@media (prefers-color-scheme: dark)/,/^  }$/d' <<<"$picture" >"$folder/reshard-light.svg"
sed '/@media (prefers-color-scheme: dark)/d; /^  }$/d' <<<"$picture" >"$folder/reshard-dark.svg"
