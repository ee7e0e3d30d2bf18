#!/usr/bin/env bash
# try_package.sh PACKAGE.deb FOLDER    the Debian package in a clean Debian 12
#
# Makes a minimal system in FOLDER by debootstrap (as root, from KVLOUPE_MIRROR or Debian's own), installs the package there, runs
# `kvloupe demo --headless`, opens the tour under Xvfb, purges the package and names what it has left. FOLDER stays.
set -euo pipefail
package="$(realpath "${1:?usage: try_package.sh PACKAGE.deb FOLDER}")" folder="${2:?usage: try_package.sh PACKAGE.deb FOLDER}"
mirror="${KVLOUPE_MIRROR:-http://deb.debian.org/debian}"
in_it() { chroot "$folder" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

if [[ ! -e $folder/etc/debian_version ]]; then
  debootstrap --variant=minbase bookworm "$folder" "$mirror"
  cp /etc/apt/apt.conf.d/* "$folder/etc/apt/apt.conf.d/" 2>/dev/null || true
  cp /etc/resolv.conf "$folder/etc/" 2>/dev/null || true
fi
trap 'umount "$folder/proc" "$folder/dev" 2>/dev/null || true' EXIT
mountpoint -q "$folder/proc" || mount -t proc proc "$folder/proc"
mountpoint -q "$folder/dev" || mount --bind /dev "$folder/dev"

in_it apt-get update -q
in_it apt-get install -q -y --no-install-recommends xvfb xauth
before="$(cd "$folder" && find etc usr var/lib/dpkg/info -name '*kvloupe*' | sort)"
cp "$package" "$folder/root/kvloupe.deb"
in_it apt-get install -q -y --no-install-recommends /root/kvloupe.deb
in_it kvloupe --version
in_it sh -c 'cd /root && kvloupe demo --headless'
ls -l "$folder"/root/kvloupe_demo
in_it timeout 20 xvfb-run -a kvloupe tour || [[ $? == 124 ]]  # it stays open until it is ended
in_it apt-get purge -q -y kvloupe
after="$(cd "$folder" && find etc usr var/lib/dpkg/info -name '*kvloupe*' | sort)"
[[ $before == "$after" ]] || {
  printf 'left behind:\n%s\n' "$after" >&2
  exit 1
}
echo "installed, used and removed without a trace"
