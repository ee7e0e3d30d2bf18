#!/usr/bin/env bash
# check_book.sh PROGRAM    makes the book in this folder, and looks for what its pages must hold
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
rm -rf book
"$root/docs/book/build.sh" "$1" book

need() {
  grep -q -- "$2" "book/$1" || {
    echo "error: $1 of the book does not hold '$2'" >&2
    exit 1
  }
}
need index.html "KVLoupe"
need methods.html "num_queries"
need options.html "--mark-best"
need views.html "views/kv_map.png"
need format.html "query"
pictures="$(find book/views -name '*.png' -size +10k | wc -l)"
views="$("$1" views --json | grep -c '"id":')"
[[ $pictures == "$views" ]] || {
  echo "error: the book has $pictures pictures of $views views" >&2
  exit 1
}
# Pictures of the guide are drawn anew, of the tour's trace: not those that were put into the repository, of the demo's.
for picture in kv_map_snapkv slot_scores aqua_lanes block_tables; do
  [[ -s book/images/$picture.png ]] && ! cmp -s "book/images/$picture.png" "$root/docs/images/$picture.png" || {
    echo "error: the book did not draw $picture.png anew" >&2
    exit 1
  }
done
# Nothing is fetched when it is read.
if grep -rhoE '<(script|link|img)[^>]*(src|href)="https?://[^"]*"' book --include='*.html' | grep -v 'rel="canonical"'; then
  echo "error: the book fetches these" >&2
  exit 1
fi
