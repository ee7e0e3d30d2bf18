#!/usr/bin/env bash
# KVLoupe's launcher. Completes the set-up when something is missing, then runs.
#
#   ./kvloupe.sh                      opens the window
#   ./kvloupe.sh demo [--headless]    captures a demonstration and opens it, or writes its views as PNG files
#   ./kvloupe.sh tour                 leads through the window, page by page, on a trace that is in the box
#   ./kvloupe.sh test [ctest args]    builds and runs the whole test suite
#   ./kvloupe.sh package              builds a Debian package in out/
#   ./kvloupe.sh clean [--all]        removes what other versions left in the cache (--all: all of the cache)
#   ./kvloupe.sh ARGUMENTS            runs kvloupe ARGUMENTS; see ./kvloupe.sh --help
#
# Environment:
#   KVLOUPE_NO_INSTALL=1  never installs Debian packages
#   KVLOUPE_GPU=0         does without the CUDA libraries (2 GB) and KVLoupe's kernels for GPUs, otherwise fetched and
#                         compiled where nvidia-smi lists a GPU; 1 takes them anywhere
#   KVLOUPE_DATA_DIR      replaces the folder that holds the default model, the word lists and the corpus
#   KVLOUPE_PRESET        another preset of CMakePresets.json than release
#   XDG_CACHE_HOME        moves the dependency cache
set -euo pipefail
shopt -s inherit_errexit

root="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
preset="${KVLOUPE_PRESET:-release}"
build="$root/build/$preset"
program="$build/bin/kvloupe"
# The XDG specification: a relative path in this variable is invalid and ignored.
cache="${XDG_CACHE_HOME:-}"
[[ $cache == /* ]] || cache="${HOME:?}/.cache"
cache+=/kvloupe

# shellcheck source=cmake/progress.sh
source "$root/cmake/progress.sh"
# shellcheck source=cmake/configured.sh
source "$root/cmake/configured.sh"

# Ctrl+C is no failure of what it ends.
trap '[[ ! -t 2 ]] || progress_end; exit 130' INT

say() { printf '%s\n' "$*" >&2; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# --- Debian packages -------------------------------------------------------------------------------------------------

# Beside those that everyone needs.
more_packages=()

missing_packages() {
  local wanted installed
  mapfile -t wanted < <(grep -v '^#' "$root/cmake/debian_packages.txt")
  wanted+=("${more_packages[@]}")
  installed=" $(dpkg-query --show --showformat '${db:Status-Status}:${Package} ' "${wanted[@]}" 2>/dev/null || true)"
  local package
  for package in "${wanted[@]}"; do
    [[ $installed == *" installed:$package "* ]] || printf '%s\n' "$package"
  done
}

install_packages() {
  local packages sudo=()
  mapfile -t packages < <(missing_packages)
  [[ ${#packages[@]} -gt 0 ]] || return 0
  if [[ $(id -u) != 0 ]]; then sudo=(sudo -n); fi
  if [[ -n ${KVLOUPE_NO_INSTALL:-} ]] || { [[ ${#sudo[@]} -gt 0 ]] && ! sudo -n true 2>/dev/null; }; then
    say "sudo apt-get install ${packages[*]}"
    exit 1
  fi

  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -o DPkg::Lock::Timeout=600)
  local plan needed free
  if ! plan="$("${apt[@]}" install --no-install-recommends --simulate "${packages[@]}" 2>/dev/null)"; then
    say "set-up: refreshing the Debian package lists"
    "${apt[@]}" update -qq >&2 || fail "the Debian package lists could not be refreshed;" \
      "apt's message is above; check the network connection and run the same command again"
  fi
  # With --assume-no apt prints the sizes and stops, which it reports as a failure.
  plan="$("${apt[@]}" install --no-install-recommends --assume-no "${packages[@]}" 2>&1 || true)"
  say "set-up: installing Debian packages: ${packages[*]}"
  grep -E '^(Need to get|After this operation)' <<<"$plan" >&2 || true
  needed="$(awk '/^(Need to get|After this operation)/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^[kMG]B/) {
      v = $i; gsub(",", "", v); sub("/.*", "", v); u = substr($(i + 1), 1, 1)
      sum += v * (u == "G" ? 1000 : u == "k" ? 0.001 : 1); break } } END { print int(sum) + 1 }' <<<"$plan")"
  free="$(df -Pm /usr | awk 'NR == 2 { print $4 }')"
  [[ $free -gt $needed ]] || fail "not enough disk space for the Debian packages; $needed MB are needed in /usr and" \
    "$free MB are free; free some space and run the same command again"
  "${apt[@]}" install --yes --quiet --no-install-recommends "${packages[@]}" >"$cache/apt.log" 2>&1 || {
    tail -n 10 "$cache/apt.log" >&2
    fail "the Debian packages could not be installed; apt's message is above;" \
      "repair it or run: sudo apt-get install ${packages[*]}"
  }
}

# --- build -----------------------------------------------------------------------------------------------------------

# up_to_date TARGET: answers without building.
up_to_date() {
  configured "$build" "$dependencies" && [[ "$(ninja -C "$build" -n "$1" 2>/dev/null)" == *"no work to do"* ]]
}

build_target() {
  up_to_date "$1" && return 0
  local log="$build/build.log" free
  mkdir -p "$build" 2>/dev/null ||
    fail "the build folder $build cannot be written; the program is built there; use a checkout that you own"
  if [[ ! -e $build/build.ninja ]]; then
    free="$(df -Pm "$build" | awk 'NR == 2 { print $4 }')"
    [[ $free -gt 2000 ]] || fail "not enough disk space to build; $build needs 2000 MB and $free MB are free;" \
      "free some space and run the same command again"
  fi
  say "building KVLoupe ($1, $preset)"
  if [[ -t 2 ]]; then
    NINJA_STATUS="$progress_status" "$root/tests/tools/build.sh" "$preset" "$1" 2>&1 | progress_of_ninja "building" ||
      fail "the build failed; the compiler's message is above; if the sources are unchanged, remove $build and run again"
  else
    "$root/tests/tools/build.sh" "$preset" "$1" >"$log" 2>&1 || {
      tail -n 60 "$log" >&2
      fail "the build failed; the compiler's message is above and in $log;" \
        "if the sources are unchanged, remove $build and run again"
    }
  fi
}

# Where a GPU is, its libraries are fetched and the plug-in for it is compiled. Asked once, nvidia-smi takes its time.
find_gpu() {
  [[ -z ${KVLOUPE_GPU:-} ]] || return 0
  if "$root/cmake/deps.sh" gpu; then export KVLOUPE_GPU=1; else export KVLOUPE_GPU=0; fi
}

set_up_program() {
  find_gpu
  if [[ $KVLOUPE_GPU == 0 ]]; then set_up run_needs; else set_up run_needs_with_gpu; fi
}

# set_up_python MODULES: what a method of one's own and arrays need: the packages of the user's own Python where it has them, else those of the cache.
set_up_python() {
  # Who names a Python gets that one, and is told what it lacks.
  [[ -z ${KVLOUPE_PYTHON:-} ]] || return 0
  python3 -c "import h5py, numpy$1" 2>/dev/null && return 0
  set_up "" arrays
  KVLOUPE_PYTHON="$("$root/cmake/deps.sh" python)"
  PYTHONPATH="$("$root/cmake/deps.sh" folder arrays)${PYTHONPATH:+:$PYTHONPATH}"
  export KVLOUPE_PYTHON PYTHONPATH
}

# Opens what set-ups wait for each other by, as file descriptor 7.
lock_set_up() {
  { exec 7>"$cache/.setup.lock"; } 2>/dev/null ||
    fail "$cache/.setup.lock cannot be written; set-ups wait for each other by it; make the folder $cache yours"
}

# ask_dependencies [PART...]: which folders the build is configured for, and which parts are missing.
ask_dependencies() {
  local state line
  state="$("$root/cmake/deps.sh" state "$@")"
  dependencies="" missing=""
  while IFS= read -r line; do
    case "$line" in
      *=*) dependencies+="${dependencies:+$'\n'}$line" ;;
      *) missing+="$line" ;;
    esac
  done <<<"$state"
}

# set_up TARGET [PART...]: packages, dependency cache (of the parts that not everyone needs, these), build. Prints nothing
# when nothing is missing. Without a target nothing is built.
set_up() {
  local missing
  missing="$(missing_packages)"
  [[ -n $missing ]] || ask_dependencies "${@:2}"
  if [[ -n $missing ]]; then
    [[ -e /etc/debian_version ]] ||
      fail "this system is not Debian; the set-up needs the packages of Debian 12; run it there or in a container of it"
    { mkdir -p "$cache" 2>/dev/null && [[ -w $cache ]]; } ||
      fail "the cache folder $cache cannot be written; dependencies are kept there; set XDG_CACHE_HOME to a folder you own"
    lock_set_up
    if ! flock --nonblock 7; then
      say "waiting for another set-up to finish"
      flock 7
    fi
    install_packages
    "$root/cmake/deps.sh" fetch "${@:2}"
    ask_dependencies "${@:2}"
    exec 7>&-
  fi
  [[ -z $1 ]] || build_target "$1"
}

# --- commands --------------------------------------------------------------------------------------------------------

run_tests() {
  set_up all python book eval ray
  exec ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" "$@"
}

# Without the kernels for GPUs, whose libraries no package could hold.
package() {
  # CPack asks them which libraries a program depends on.
  more_packages=(dpkg-dev file)
  set_up package_needs
  mkdir -p "$root/out"
  # CPack takes the rights of folders from the umask.
  (umask 022 && cd "$build" && cpack -G DEB -B "$build/package" >"$build/package.log") ||
    fail "the package could not be made; cpack's message is above and in $build/package.log"
  mv "$build"/package/kvloupe_*.deb "$root/out/"
  rm -rf "$build/package"
  say "wrote $(ls -t "$root"/out/kvloupe_*.deb | head -1)"
}

clean() {
  local all="" entry keep
  case "${1:-}" in
    "") ;;
    --all) all=1 ;;
    *)
      say "error: clean does not know '$1'; it takes --all alone; see the head of kvloupe.sh"
      exit 2
      ;;
  esac
  [[ -d $cache ]] || return 0
  lock_set_up
  { exec 8>"$cache/.lock"; } 2>/dev/null ||
    fail "$cache/.lock cannot be written; set-ups wait for each other by it; make the folder $cache yours"
  flock 7 && flock 8
  [[ -n $all ]] || keep=" $({ "$root/cmake/deps.sh" folders && "$root/tests/tools/peer.sh" folder; } | tr '\n' ' ')"
  shopt -s nullglob
  local entries=("$cache"/{torch,imgui,hdf5,llama,data,cuda,python,arrays,book,eval,ray,gemma3,peer}-* "$cache"/.filling-*)
  [[ -z $all ]] || entries=("$cache"/* "$cache"/.filling-*)
  for entry in "${entries[@]}"; do
    if [[ -z $all && $keep == *" $entry "* ]]; then continue; fi
    printf 'removing %s (%s)\n' "$entry" "$(du -sh "$entry" | cut -f1)"
    rm -rf "$entry" || fail "$entry could not be removed; rm's message is above; make the folder $cache yours"
  done
}

# What the words of a call ask for. The command is the first that is neither an option of the whole program nor its value.
read_words() {
  local word is_value=""
  command="" asks_help="" names_output="" takes_python=""
  for word in "$@"; do
    case "$word" in
      -h | --help) asks_help=1 ;;
      -o* | --output | --output=*) names_output=1 ;;
      --python | --python=* | --plugin | --plugin=*) takes_python=1 ;;
    esac
    if [[ -n $is_value ]]; then
      is_value=""
    elif [[ $word == --@(threads|memory-limit|config-dir|goto) ]]; then
      is_value=1
    elif [[ $word != -* ]]; then
      command="${command:-$word}"
    fi
  done
}

case "${1:-}" in
  test) run_tests "${@:2}" ;;
  package) package ;;
  clean) clean "${@:2}" ;;
  *)
    set_up_program
    read_words "$@"
    if [[ $command == demo && -z $names_output ]]; then set -- "$@" --output "$root/out/demo"; fi
    # Help reads no arrays.
    if [[ $command == import && -z $asks_help ]]; then set_up_python ", safetensors"; fi
    if [[ -n $takes_python && -z $asks_help ]]; then set_up_python ""; fi
    exec "$program" "$@"
    ;;
esac
