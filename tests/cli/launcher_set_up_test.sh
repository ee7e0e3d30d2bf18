#!/usr/bin/env bash
# launcher_set_up_test.sh SOURCE: what cmake/deps.sh takes from where, in a checkout of its own, whose cache is empty. Nothing is
# fetched: pip, apt's downloads and df are stand-ins.
# shellcheck disable=SC2016  # stand-ins expand what is theirs
set -euo pipefail
source="$1"
failures=0
rm -rf set_up && mkdir -p set_up/{bin,tests/tools} && cd set_up
unset KVLOUPE_GPU CC CXX KVLOUPE_CACHE_DIR
export XDG_CACHE_HOME="$PWD/cache" PATH="$PWD/bin:$PATH"
cp -r "$source/cmake" "$source/requirements.txt" .
cp "$source"/tests/tools/peer* tests/tools/

stand_in() { # FILE TEXT
  printf '#!/bin/sh\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
failed() { # WHAT
  echo "FAILED: $1"
  failures=$((failures + 1))
}
is_sentence() { [[ $1 =~ ^error:\ [^\;]+\;\ [^\;]+\;\ .+$ ]]; }
# Of deps.sh: `inside COMMAND...` runs one of its functions.
inside() { bash -c 'source cmake/deps.sh && "$@"' inside "$@"; }

# --- names of folders -------------------------------------------------------------------------------------------------

paths="$(cmake/deps.sh paths)"
[[ $(CC="env cc" CXX="env c++" cmake/deps.sh paths 2>&1) == "$paths" ]] || failed "a compiler that another program calls is another one"
said="$(CXX=no-such-compiler cmake/deps.sh paths 2>&1)" && failed "folders are named without a compiler: $said"
is_sentence "$said" || failed "without a compiler it says: $said"
[[ $(XDG_CACHE_HOME=relative HOME=/home/me cmake/deps.sh paths) == "${paths//$XDG_CACHE_HOME//home/me/.cache}" ]] ||
  failed "a relative XDG_CACHE_HOME is a cache"

# What says more than a pipe holds.
stand_in bin/nvidia-smi 'echo "GPU 0: one"; seq 100000'
cmake/deps.sh gpu || failed "a GPU is not seen"
rm bin/nvidia-smi

# --- filling ----------------------------------------------------------------------------------------------------------

export KVLOUPE_GPU=0
for part in torch imgui hdf5 llama data; do mkdir -p "$(cmake/deps.sh folder "$part")"; done
stand_in bin/python3 'case "$3" in --version) ;; *) cat >read_by_pip; exit 1 ;; esac'
sed -i "s,read_by_pip,$PWD/read_by_pip," bin/python3
yes 2>/dev/null | head -n 1 | cmake/deps.sh fetch arrays >/dev/null 2>&1 && failed "what pip does not download is not there"
[[ -e read_by_pip && ! -s read_by_pip ]] || failed "what fills the cache reads from the terminal"
rm bin/python3

stand_in bin/df 'for last; do :; done; echo "$last" >measured; echo head; echo "disk 10 5 5 5"'
said="$(tests/tools/peer.sh install 2>&1)" && failed "the peer was installed on a full disk"
is_sentence "${said##*$'\n'}" || failed "the peer says: $said"
[[ $(cat measured) == "$XDG_CACHE_HOME/kvloupe" ]] || failed "the peer needs room in $(cat measured)"
rm bin/df

# --- from Debian ------------------------------------------------------------------------------------------------------

# Three archives that call their release bookworm, with lists as apt has them.
mkdir -p apt/lists/partial
archive() { # HOST_PATH COMPONENT ORIGIN LABEL
  local file="apt/lists/${1//\//_}_dists_bookworm"
  echo "deb [trusted=yes] http://$1 bookworm $2" >>apt/sources.list
  printf '%s\n' "Origin: $3" "Label: $4" "Codename: bookworm" "Date: Sat, 01 Jan 2022 00:00:00 UTC" "SHA256:" \
    " 0000000000000000000000000000000000000000000000000000000000000000 0 $2/binary-$(dpkg --print-architecture)/Packages" >"${file}_Release"
  printf '%s\n' "Package: a" "Version: 1" "Architecture: all" "" >"${file}_$2_binary-$(dpkg --print-architecture)_Packages"
}
archive download.docker.com/linux/debian stable Docker "Docker CE"
archive packages.microsoft.com/debian/12/prod main "microsoft-debian-bookworm-prod bookworm" "microsoft-debian-bookworm-prod bookworm"
archive mirror.example/debian main Debian Debian
printf '%s\n' "Dir::State::lists \"$PWD/apt/lists\";" "Dir::Etc::sourcelist \"$PWD/apt/sources.list\";" \
  "Dir::Etc::sourceparts \"$PWD/apt/none\";" "Dir::Cache \"$PWD/apt\";" >apt/apt.conf
mirrors="$(APT_CONFIG="$PWD/apt/apt.conf" inside deps_debian_mirrors | tr '\n' ' ')"
[[ $mirrors == "http://mirror.example/debian http://deb.debian.org/debian " ]] || failed "Debian's sources are looked for in $mirrors"

# Where the first of them has it not, the next is asked.
stand_in bin/apt-get 'case "$*" in *indextargets*) echo "Debian|Debian|http://mirror.example/debian/" ;;
*update*) grep URIs parts/debian.sources >>"$ASKED"; grep -q deb.debian.org parts/debian.sources ;; *source*) touch h.tar.gz ;; esac'
ASKED="$PWD/asked" inside deps_apt_source trixie h "$PWD/work" && [[ -e work/h.tar.gz && $(wc -l <asked) == 2 ]] ||
  failed "a mirror without the release ends the set-up"

# Ubuntu's package of the same version has another content.
pinned="$(echo Debian | sha256sum | cut -d' ' -f1)"
mkdir novels
stand_in bin/apt-get 'echo "$DISTRIBUTION" >r-cran-janeaustenr_1.0.0-1_all.deb'
stand_in bin/apt-helper 'for last; do :; done; echo "$*" >"$ASKED"; echo Debian >"$last"'
austen() { # DISTRIBUTION
  rm -f asked novels/*
  ASKED="$PWD/asked" DISTRIBUTION="$1" bash -c \
    'source cmake/deps.sh && deps_austen_sha256="$1" && deps_austen "$2" && sha256sum --status --check <<<"$1  $2/austen.deb"' \
    austen "$pinned" "$PWD/novels"
}
austen Debian && [[ ! -e asked ]] || failed "Debian's own package of the novels is not taken"
austen Ubuntu && grep -q "http://deb.debian.org/debian/pool/main/r/r-cran-janeaustenr/r-cran-janeaustenr_1.0.0-1_all.deb" asked ||
  failed "Debian's package of the novels is not asked for where apt's is another"
exit $((failures > 0))
