# steps.sh   sourced by run.sh: steps that have a limit. What became of a step stays in $details and is what page.py
#            and a later run read: NAME.exit (0, its exit code, 124: it ran past its time, or words), NAME.json (what it
#            printed), NAME.txt (all else).
# Of whoever sources it: details, deadline (in seconds of this shell), SLOWNESS, LIMITS.

is_done() {
  local name
  for name in "$@"; do
    [ "$(cat "$details/$name.exit" 2> /dev/null)" = 0 ] || return 1
  done
}

# leave_out NAME WHY: what cannot be done here, which is no fault of the kit.
leave_out() {
  echo "$2" > "$details/$1.txt"
  echo "left out" > "$details/$1.exit"
  echo "$1: left out: $2"
}

# limit_of NAME SECONDS: LIMITS counts in place of SECONDS where it has NAME; what is left counts where it is less.
limit_of() {
  local seconds=$(($2 * SLOWNESS)) left=$((deadline - SECONDS)) one
  for one in ${LIMITS:-}; do
    [ "${one%%=*}" != "$1" ] || seconds="${one#*=}"
  done
  echo $((left < seconds ? left : seconds))
}

# step NAME SECONDS COMMAND...: unless it is done already. Returns 0 whatever becomes of it.
step() {
  local name="$1" seconds code=0 begun=$SECONDS
  ! is_done "$name" || return 0
  seconds="$(limit_of "$1" "$2")"
  shift 2
  echo "was ended before it was done" > "$details/$name.exit"
  if ((seconds > 0)); then
    # In the background: a shell that waits hears at once that it is to end.
    timeout --kill-after=10 "$seconds" "$@" > "$details/$name.json" 2> "$details/$name.txt" &
    running=$!
    wait $running || code=$?
    running=""
    ((code != 137 || SECONDS - begun < seconds)) || code=124
  else
    echo "no time was left" > "$details/$name.txt"
    code=124
  fi
  echo "$code" > "$details/$name.exit"
  echo "$name: exit $code $(tail -n 1 "$details/$name.txt")"
}

# answer NAME SECONDS COMMAND...: a step that prints JSON.
answer() {
  step "$@"
  is_done "$1" || return 0
  python3 -m json.tool "$details/$1.json" > /dev/null 2>&1 || echo "gave no whole JSON" > "$details/$1.exit"
}

# Before a command that prints words: they go to NAME.txt.
in_words=(bash -c 'exec "$@" >&2' in_words)

# beside STEP...: a step in the background. all_ended waits for those.
beside() {
  (
    trap end_running TERM
    "$@"
  ) &
  background+=($!)
}
all_ended() {
  wait "${background[@]}" || true
  background=()
}

# Ends what runs, and this shell.
running="" background=()
end_running() {
  kill $running "${background[@]}" 2> /dev/null || true
  wait
  exit 143
}
