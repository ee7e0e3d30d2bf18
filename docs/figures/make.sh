#!/usr/bin/env bash
# Makes the pictures of docs/figures.md: runs the commands that stand there, from the repository's root.
#   docs/figures/make.sh            all of them
#   docs/figures/make.sh quest      those whose line holds the word
# Traces that exist are not captured again (out/demo/demo.h5 is that of `./kvloupe.sh demo --headless`).
# KVLOUPE names the program, ./kvloupe.sh unless set.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v pngquant > /dev/null || { echo "error: pngquant is missing; it makes the pictures small; apt-get install pngquant" >&2; exit 1; }
word="${1:-}"

# One command a line: lines of the blocks marked sh, continued ones joined.
commands() {
  awk '/^```sh$/ {inside = 1; next} /^```$/ {inside = 0} inside' docs/figures.md | sed -e ':a' -e '/\\$/N; s/\\\n */ /; ta'
}

mkdir -p out/figures
while IFS= read -r line; do
  case "$line" in kvloupe\ *) ;; *) continue ;; esac
  trace="$(sed -n 's/.* -o \([^ ]*\.h5\).*/\1/p' <<< "$line")"
  if [ -n "$trace" ]; then
    [ -e "$trace" ] && continue
  elif [[ "$line" != *"$word"* ]]; then
    continue
  fi
  echo "$line" >&2
  eval "${KVLOUPE:-./kvloupe.sh} ${line#kvloupe }" < /dev/null
  picture="$(sed -n 's/.*--png \([^ ]*\.png\).*/\1/p' <<< "$line")"
  [ -z "$picture" ] || pngquant --force --ext .png 256 "$picture"
done < <(commands)
