#!/usr/bin/env bash
# make_pictures.sh [PRESET]    makes all reference pictures of the views (tests/data/pictures) anew
# Look at what changed before it is committed: git diff --stat, and the pictures themselves.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
preset="${1:-release}"
tests/tools/build.sh "$preset" test_view_pictures
mkdir -p tests/data/pictures
rm -f tests/data/pictures/*.png
KVLOUPE_MAKE_PICTURES=1 ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --tests-regex '^view_pictures$'
git status --short tests/data/pictures
