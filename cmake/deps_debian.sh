# What the dependency cache takes from Debian's archive, whatever this machine's own apt has; read by deps.sh.
# shellcheck shell=bash

deps_debian=http://deb.debian.org/debian

# Mirrors of Debian that this machine uses, then Debian's own. Other archives call their releases as Debian does.
deps_debian_mirrors() {
  {
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' | sed -nE 's,^Debian\|Debian\|(.*[^/])/*$,\1,p' || true
    echo "$deps_debian"
  } | awk '!seen[$0]++'
}

# deps_apt_source RELEASE PACKAGE FOLDER: the upstream archive of a source package of another Debian release, by an apt
# whose sources, lists and cache are all in FOLDER; the system's stay as they are. Its content is for the caller to check.
deps_apt_source() {
  local release="$1" package="$2" folder="$3" mirrors mirror options
  options=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$folder/parts" -o APT::Sandbox::User=
    -o "Dir::State::lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o Acquire::Languages=none)
  mapfile -t mirrors < <(deps_debian_mirrors)
  for mirror in "${mirrors[@]}"; do
    rm -rf "$folder"
    mkdir -p "$folder"/{parts,lists/partial,cache/archives/partial}
    # Trusted: this machine need not know the keys of a later release, the caller's pinned hash decides.
    printf '%s\n' "Types: deb-src" "URIs: $mirror" "Suites: $release" "Components: main" "Trusted: yes" \
      >"$folder/parts/debian.sources"
    (
      cd "$folder" && apt-get "${options[@]}" update &&
        apt-get "${options[@]}" source --download-only --tar-only --only-source "$package"
    ) >"$folder/log" 2>&1 && return
  done
  tail -n 5 "$folder/log" >&2
  deps_fail "the Debian source package $package of $release could not be downloaded; apt's message is above;" \
    "check the network and run again"
}

# deps_austen WORK: WORK/austen.deb, the package of the pinned content. A system that is built from Debian, such as Ubuntu, has
# one of the same version that is packed anew.
deps_austen() {
  local work="$1" name="${deps_austen_package}_${deps_austen_version}_all.deb"
  # apt-get download needs the package lists, which a bare machine may lack.
  (
    cd "$work" && { apt-get download -qq "$deps_austen_package=$deps_austen_version" ||
      { [[ $(id -u) == 0 ]] && apt-get update -qq && apt-get download -qq "$deps_austen_package=$deps_austen_version"; } ||
      { sudo -n apt-get update -qq && apt-get download -qq "$deps_austen_package=$deps_austen_version"; }; }
  ) >"$work/log" 2>&1 && mv "$work/$name" "$work/austen.deb" && deps_is_austen "$work/austen.deb" && return
  PATH="$PATH:/usr/lib/apt" apt-helper -o APT::Sandbox::User= download-file \
    "$deps_debian/pool/main/r/$deps_austen_package/$name" "$work/austen.deb" >>"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    deps_fail "the Debian package $deps_austen_package $deps_austen_version could not be downloaded; apt's message is" \
      "above; run 'apt-get update' as root, check the network and run again"
  }
  deps_is_austen "$work/austen.deb" ||
    deps_fail "the package $deps_austen_package has an unexpected content; its sha256 is not the pinned one; report this"
}

deps_is_austen() { echo "$deps_austen_sha256  $1" | sha256sum --check --status; }
