#!/usr/bin/env bash
# make_window_pictures.sh PROGRAM TRACE [FOLDER] [SIZES]    pictures of the window's six workspaces, drawn under Xvfb:
# FOLDER/workspace_<name>_<size>.png (docs/images). The trace opens where a new one does, with its needle watched.
# SIZES: "1000x700 1280x800 1600x900 2560x1440"; the last one at 150 %. THEME=light for the other one.
# Look at each of them before it is committed: nothing cut, nothing overlapping, no half wasted.
set -euo pipefail
program=$(realpath "$1") trace=$(realpath "$2")
folder=$(realpath "${3:-$(dirname "${BASH_SOURCE[0]}")/../../docs/images}")
sizes=${4:-1000x700 1280x800 1600x900 2560x1440}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$trace" "$work/$(basename "$trace")"  # its session is kept beside the link
export program folder work trace_link="$work/$(basename "$trace")"
export LIBGL_ALWAYS_SOFTWARE=1 XDG_STATE_HOME="$work/state" XDG_CONFIG_HOME="$work/config"

for size in $sizes; do
  scale=1
  [[ $size == 2560x1440 ]] && scale=1.5
  rm -rf "$XDG_STATE_HOME" "$XDG_CONFIG_HOME"
  mkdir -p "$XDG_CONFIG_HOME/kvloupe" "$XDG_STATE_HOME"
  printf '{"width": %s, "height": %s, "scale": %s, "theme": "%s"}' "${size%x*}" "${size#*x}" $scale "${THEME:-dark}" \
    >"$XDG_CONFIG_HOME/kvloupe/settings.json"
  export size
  xvfb-run -a -s "-screen 0 ${size}x24" bash -c '
    "$program" "$trace_link" --config-dir "$XDG_CONFIG_HOME/kvloupe" >/dev/null 2>"$work/errors" &
    pid=$!
    sleep 1
    xdotool mousemove "$((${size%x*} / 3))" "$((${size#*x} - 2))"  # where nothing has a tooltip
    # A picture counts once it stays as it is for two looks: the rate of frames below changes all the time.
    settled() {
      last=""
      for ((i = 0; i < 60; i++)); do
        sleep 1.5
        import -window root "$work/now.png"
        now=$(convert "$work/now.png" -gravity south -chop 0x44 -format "%#" info:)
        [[ $now == "$last" && $i -gt 2 ]] && return
        last=$now
      done
      echo "make_window_pictures: $1 at $size kept changing" >&2
    }
    settled start
    key=1
    for name in where kept lost much works ran; do
      xdotool key $key
      key=$((key + 1))
      settled $name
      convert "$work/now.png" -dither None -colors 256 -define png:compression-level=9 "PNG8:$folder/workspace_${name}_$size.png"
    done
    kill $pid
    wait $pid 2>/dev/null || true
  '
done
ls -l "$folder"/workspace_*.png
