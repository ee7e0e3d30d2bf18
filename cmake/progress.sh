# shellcheck shell=bash
# The line of progress of a long set-up or build on a terminal: per cent, and the time left at the pace so far. Sourced by
# kvloupe.sh and cmake/deps.sh. Without a terminal nothing is drawn.

# progress_line WHAT DONE TOTAL SECONDS: rewrites the line. SECONDS have gone since the beginning.
progress_line() {
  local what="$1" done="$2" total="$3" seconds="$4" left=""
  if ((done > 0 && seconds > 0)); then
    left=$((seconds * (total - done) / done))
    if ((left >= 90)); then left=", about $(((left + 30) / 60)) min left"; else left=", about $left s left"; fi
  fi
  printf '\r\033[K%s: %d %%%s' "$what" $((total > 0 ? 100 * done / total : 0)) "$left" >&2
}

progress_end() { printf '\r\033[K' >&2; }

# What ninja says with NINJA_STATUS as below, on standard input, as such a line. The rest, such as a compiler's message, is
# printed as it is.
# shellcheck disable=SC2034
progress_status='[%f/%t] '
progress_of_ninja() {
  local line begin=$SECONDS
  progress_line "$1" 0 1 0
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\  ]]; then
      progress_line "$1" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" $((SECONDS - begin))
    elif [[ $line != "-- "* && $line != "ninja: Entering directory"* ]]; then
      progress_end
      printf '%s\n' "$line" >&2
    fi
  done
  progress_end
}
