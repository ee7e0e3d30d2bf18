#!/usr/bin/env bash
# desk_texts.sh PROGRAM OUT: man pages (OUT/man1) by help2man and completions, from what the program says of itself.
set -euo pipefail
program="$1" out="$2"
rm -rf "$out"
mkdir -p "$out/man1"

page() { # NAME WORDS...: of `kvloupe WORDS`
  local name="$1" summary
  shift
  summary="$("$program" "$@" --help | head -1)"
  # help2man calls one program with --help and --version.
  printf '#!/bin/sh\nexec %q%s "$@"\n' "$program" "${*:+ $*}" >"$out/$name"
  chmod +x "$out/$name"
  help2man --no-info --section 1 --name "$summary" --version-string "$version" "$out/$name" | gzip -9n >"$out/man1/$name.1.gz"
  rm "$out/$name"
}

version="$("$program" --version | cut -d' ' -f2)"
page kvloupe
subcommands="$("$program" --help | sed -n '/^Subcommands:/,$s/^  \([a-z][a-z-]*\) .*/\1/p')"
for subcommand in $subcommands; do page "kvloupe-$subcommand" "$subcommand"; done
"$program" completions bash >"$out/kvloupe.bash"
"$program" completions zsh >"$out/_kvloupe"
"$program" completions fish >"$out/kvloupe.fish"
touch "$out/done"
