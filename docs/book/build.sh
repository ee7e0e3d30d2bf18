#!/usr/bin/env bash
# build.sh PROGRAM OUT    makes the book, static pages that a browser opens from the disk: OUT/index.html
#
# Searching asks for a server: python3 -m http.server --directory OUT.
# A link that leads nowhere ends it with a message. The generator (mkdocs-material) is fetched on first use.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$here/../.."
[[ $# == 2 ]] || {
  sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
program="$(realpath "$1")"
[[ ! -e $2 ]] || {
  echo "error: the book was not made; $2 is there already; remove it or name another folder" >&2
  exit 1
}
"$root/cmake/deps.sh" fetch book
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp "$here/mkdocs.yml" "$work/"
"$here/stage.py" "$program" "$work/pages"
# The theme's note on a fork of its generator says nothing of these pages.
NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true PYTHONPATH="$("$root/cmake/deps.sh" folder book)" \
  "$("$root/cmake/deps.sh" python)" -m mkdocs build --quiet --strict --config-file "$work/mkdocs.yml"
mkdir -p "$(dirname "$2")"
mv "$work/site" "$2"
