#!/usr/bin/env bash
# check_install.sh BUILD    what `cmake --install` puts into a folder works from there, and from another one
#
# The build folder's libraries and the checkout are named nowhere in what is installed: the program finds what it needs from
# where it stands.
set -euo pipefail
build="$(realpath "${1:?usage: check_install.sh BUILD}")"
checkout="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work="$(mktemp -d "$PWD/install.XXXXXX")"
trap 'rm -rf "$work"' EXIT
failed=0
check() { # WHAT COMMAND...
  local what="$1"
  shift
  if ! "$@" >"$work/said" 2>&1; then
    printf 'FAILED: %s\n' "$what" >&2
    tail -n 5 "$work/said" >&2
    failed=1
  fi
}
says() { # TEXT COMMAND...: the command succeeds and its output has the text
  local text="$1" said
  shift
  said="$("$@")" && [[ $said == *"$text"* ]]
}

cmake --install "$build" --prefix "$work/first" >"$work/log"
mv "$work/first" "$work/moved"
at="$work/moved"
run() { env -i HOME="$work/home" PATH=/usr/bin:/bin LC_ALL=C.UTF-8 LIBGL_ALWAYS_SOFTWARE=1 "$at/bin/kvloupe" "$@"; }
tour="$at/share/kvloupe/traces/tour.h5"

check "it starts" says "kvloupe " run --version
check "the default model is there" says smollm2 run models
check "it reads the tour's trace" says SmolLM2 run info "$tour"
check "it computes: Torch is found" says '"selected"' run select "$tour" --method quoka:budget_tokens=64 --layer 21 --json
check "it draws a view" run export "$tour" --view kv_map --png "$work/kv_map.png"
check "a picture was written" test -s "$work/kv_map.png"
check "the tour is whole" run validate "$at/share/kvloupe/tours/first.md"
check "the recorder is there" says "pip install $at/share/kvloupe/python/kvloupe-" run record-help
wheel="$(run record-help | sed -nE 's/^ *pip install (.*)/\1/p')"
# As someone who may not write there: pip has nothing to build.
check "pip installs it" python3 -m pip install --quiet --no-index --no-deps --target "$work/pip" "$wheel"
sources() { (cd "$1" && find kvloupe -name '*.py' -o -name '*.yaml' | sort); }
check "all of it" test "$(sources "$work/pip")" = "$(sources "$checkout/capture/python")"
: >"$work/none.npz"
if run import --trace "$tour" --name none "$work/none.npz" >"$work/import" 2>&1; then failed=1; fi
check "Python leaves nothing beside it" test -z "$(find "$at/share" -name __pycache__)"
if run capture --model gemma3-270m --accept-terms --prompt a -o "$work/gemma.h5" >"$work/gemma" 2>&1; then failed=1; fi
check "it says that a checkout fetches models" grep -q "this program is installed" "$work/gemma"
check "chat templates are rendered" run capture --model smollm2 --prompt "Which number?" --chunk-size 8 --layers 0 -o "$work/t.h5"
if run demo --headless --output /proc/nowhere >"$work/demo" 2>&1; then failed=1; fi
check "the demo says that it cannot write" grep -q "the demonstration has no place" "$work/demo"
for file in share/man/man1/kvloupe.1.gz share/man/man1/kvloupe-capture.1.gz share/applications/kvloupe.desktop \
  share/icons/hicolor/scalable/apps/kvloupe.svg share/mime/packages/kvloupe.xml share/zsh/vendor-completions/_kvloupe \
  share/fish/vendor_completions.d/kvloupe.fish; do
  check "$file is there" test -s "$at/$file"
done
check "the page of a command says its options" says "drift" zcat "$at/share/man/man1/kvloupe-capture.1.gz"
check "no library is looked for in the build or the cache" \
  sh -c "! readelf -d '$at'/bin/kvloupe '$at'/lib*/kvloupe/libkvloupe_*.so '$at'/lib/*/kvloupe/libkvloupe_*.so 2>/dev/null |
    grep -E 'R(UN)?PATH' | grep -qE '$build|/\.cache/'"

# A path of one word may be part of another text.
[[ $checkout != /*/* ]] || check "the checkout is named nowhere" sh -c "! grep -qF '$checkout' '$at'/bin/* '$at'/lib/kvloupe/libkvloupe_*.so '$at'/lib/libkvloupe.so"

# A program in C, compiled against what is installed; and the package, with the library that lies there.
check "a program in C is compiled" cc -std=c11 -I "$at/include" "$build/tests/c_api/example.c" -o "$work/example" -L "$at/lib" -lkvloupe "-Wl,-rpath,$at/lib"
check "it selects" says "KV head 1: 32 of 192 keys" env -i HOME="$work/home" "$work/example"

completed() { # WORDS...: what bash offers for the last one
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _kvloupe
  printf '%s ' "${COMPREPLY[@]}"
}
# shellcheck source=/dev/null
source "$at/share/bash-completion/completions/kvloupe"
check "bash completes commands" says "explain export" completed kvloupe exp
check "bash completes options" says "--view" completed kvloupe export t.h5 --vi
check "bash completes the words of an option" says "f16 f32" completed kvloupe slice t.h5 --dtype ""
check "bash completes commands of commands" says "seer" completed kvloupe calibrate s

# zsh, as its bashcompinit calls it. It leaves out by itself what does not begin as the word does.
if command -v zsh >/dev/null; then
  says_in_zsh() { # TEXT WORDS...
    says "$1" zsh -f -c 'autoload -U +X compinit && compinit -u -D && source "$1" && shift && completed() {
        emulate -L sh; setopt kshglob noshglob braceexpand; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kvloupe; echo "${COMPREPLY[@]}"
      } && completed "$@"' zsh "$at/share/zsh/vendor-completions/_kvloupe" "${@:2}"
  }
  check "zsh completes commands" says_in_zsh "explain" kvloupe exp
  check "zsh completes options" says_in_zsh "--view" kvloupe export t.h5 --vi
  check "zsh completes the words of an option" says_in_zsh "f16 f32" kvloupe slice t.h5 --dtype ""
fi
exit "$failed"
