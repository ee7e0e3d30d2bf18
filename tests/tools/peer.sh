#!/usr/bin/env bash
# peer.sh installed      exit 0 when the peer's Python environment is there
# peer.sh install        makes it (about 5 GB, in the dependency cache)
# peer.sh run ARGS...    runs peer_prefill.py in it
# peer.sh folder         prints where it is, or would be
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# The XDG specification: a relative path in this variable is invalid and ignored.
cache="${XDG_CACHE_HOME:-}"
[[ $cache == /* ]] || cache="${HOME:?}/.cache"
cache+=/kvloupe
folder="$cache/peer-$(sha256sum <"$here/peer_requirements.txt" | cut -c1-16)"
case "${1:-}" in
  installed) [[ -x $folder/bin/python ]] ;;
  install)
    [[ ! -x $folder/bin/python ]] || exit 0
    mkdir -p "$cache"
    free="$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')"
    echo "installing transformers and h5py to $folder: about 2.5 GB of download, 6000 MB of disk, $free MB free" >&2
    [[ $free -ge 6000 ]] || {
      echo "error: the peer was not installed; 6000 MB of disk are needed and $free MB are free; free some space" >&2
      exit 1
    }
    # A virtual environment holds its own path: it is made in place, and its python goes last.
    rm -rf "$folder"
    trap 'rm -rf "$folder"' EXIT
    python3 -m venv "$folder" >&2
    mv "$folder/bin/python" "$folder/bin/.python"
    "$folder/bin/python3" -m pip install --quiet --disable-pip-version-check --requirement "$here/peer_requirements.txt" >&2
    mv "$folder/bin/.python" "$folder/bin/python"
    trap - EXIT
    ;;
  folder) echo "$folder" ;;
  run)
    shift
    exec "$folder/bin/python" "$here/peer_prefill.py" "$@"
    ;;
  *)
    sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
