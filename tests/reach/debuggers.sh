#!/bin/bash
# Runs the debug sessions (tests/debug, and the hunts of examples/) with the gdb of other Debian releases, on this system's programs.
# usage: tests/reach/debuggers.sh [SUITE...]        as root; without any: trixie sid (gdb 16 and 18 in November 2026)
# Each suite's gdb, and the libraries that it needs, are unpacked by debootstrap (not configured: nothing is installed) below
# target/reach/debuggers; gdb is started by its own dynamic linker, so it sees the files of this system. A suite that cannot be had
# is named, and the status is 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=${CARGO_TARGET_DIR:-$PWD/target}/reach/debuggers
mkdir -p "$dir"
command -v debootstrap > /dev/null || { echo "debootstrap is needed" >&2; exit 2; }
[ $# -gt 0 ] || set -- trixie sid

status=0
for suite in "$@"; do
  root=$dir/$suite bin=$dir/$suite.bin
  if [ ! -e "$root/unpacked" ]; then
    rm -rf "$root"
    if ! debootstrap --foreign --variant=minbase --include=gdb,libpython3-stdlib "$suite" "$root" http://deb.debian.org/debian > "$dir/$suite.debootstrap.log" 2>&1; then
      echo "$suite: not tried, it could not be had ($dir/$suite.debootstrap.log)"
      status=1
      continue
    fi
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    touch "$root/unpacked"
  fi
  mkdir -p "$bin"
  cat > "$bin/gdb" << GDB
#!/bin/bash
export PYTHONHOME='$root/usr'
exec '$root/usr/lib64/ld-linux-x86-64.so.2' --library-path '$root/usr/lib/x86_64-linux-gnu:$root/usr/lib' \\
  '$root/usr/bin/gdb' --data-directory '$root/usr/share/gdb' "\$@"
GDB
  chmod +x "$bin/gdb"
  version=$("$bin/gdb" -nx -batch -ex 'python print(gdb.VERSION)') || { echo "$suite: its gdb does not start"; status=1; continue; }
  log=$dir/$suite.log
  PATH=$bin:$PATH cargo test --quiet --release -p bis --test debug > "$log" 2>&1 || status=1
  echo "$suite, gdb $version: $(grep '^test result' "$log" || echo "see $log")"
  grep '\.\.\. FAILED$' "$log" || true
done
exit $status
