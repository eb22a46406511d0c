#!/bin/bash
# Records and replays what trials.sh has with the programs and C libraries of other Debian releases, by the static bis.
# usage: tests/reach/userlands.sh [SUITE...]        as root; without any: bullseye bookworm trixie sid
#   BIS=PATH          a static bis (without: it is built, as docs/using.md says)
# Each suite's required packages and python3 are unpacked by debootstrap (not configured: nothing is to be installed) below
# target/reach/userlands. One that cannot be had is named, and the status is 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=${CARGO_TARGET_DIR:-$PWD/target}/reach/userlands
mkdir -p "$dir"
command -v debootstrap > /dev/null || { echo "debootstrap is needed" >&2; exit 2; }
bis=${BIS:-}
[ -n "$bis" ] || bis=$(tests/reach/static.sh)
[ $# -gt 0 ] || set -- bullseye bookworm trixie sid

# In a mount namespace of its own: nothing of it stays.
run() {
  unshare --mount bash -euo pipefail -c '
    root=$1
    mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"; mount -t tmpfs tmp "$root/tmp"
    exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp sh /trials.sh /bis' run "$1"
}

status=0
for suite in "$@"; do
  root=$dir/$suite
  if [ ! -e "$root/unpacked" ]; then
    rm -rf "$root"
    if ! debootstrap --foreign --variant=minbase --include=python3-minimal,libpython3-stdlib "$suite" "$root" http://deb.debian.org/debian > "$dir/$suite.debootstrap.log" 2>&1; then
      echo "$suite: not tried, it could not be had ($dir/$suite.debootstrap.log)"
      status=1
      continue
    fi
    # The first stage unpacks only what is required.
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    # What configuring would have made.
    [ -e "$root/bin/sh" ] || ln -s dash "$root/bin/sh"
    for python in "$root"/usr/bin/python3.[0-9]*; do [ -e "$root/usr/bin/python3" ] || ln -s "$(basename "$python")" "$root/usr/bin/python3"; done
    touch "$root/unpacked"
  fi
  cp "$bis" "$root/bis"
  cp tests/reach/trials.sh "$root/"
  log=$dir/$suite.log
  run "$root" > "$log" 2>&1 || true
  library=$(find "$root/usr/lib" "$root/lib" -name 'libc.so.6' -exec strings {} + 2> /dev/null | sed -n 's/^GNU C Library.*version \([0-9.]*[0-9]\).*/\1/p' | head -1)
  result=$(tail -n 1 "$log")
  echo "$suite, glibc ${library:-?}: $result"
  case $result in *' passed, 0 failed') ;; *)
    grep '^FAILED' "$log" || true
    status=1
    ;;
  esac
done
exit $status
