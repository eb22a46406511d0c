#!/bin/bash
# Runs the debug sessions (tests/debug, and the hunts of examples/) with gdb and LLDB of other Debian releases, on this system's programs.
# usage: tests/reach/debuggers.sh [SUITE...]        as root; without any: trixie sid (gdb 16 and 18, LLDB 19 and 21 in November 2026)
# Each suite's debuggers, and the libraries that they need, are unpacked by debootstrap (not configured: nothing is installed) below
# target/reach/debuggers, and started by their own dynamic linker, so they see the files of this system. A suite that cannot be had is
# named, and the status is 1.
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
    if ! debootstrap --foreign --variant=minbase --include=gdb,lldb,libpython3-stdlib "$suite" "$root" http://deb.debian.org/debian > "$dir/$suite.debootstrap.log" 2>&1; then
      echo "$suite: not tried, it could not be had ($dir/$suite.debootstrap.log)"
      status=1
      continue
    fi
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    touch "$root/unpacked"
  fi
  mkdir -p "$bin"
  llvm=$(dirname "$(dirname "$(ls -d "$root"/usr/lib/llvm-*/bin/lldb)")")
  starts() {
    printf '#!/bin/bash\nexport PYTHONHOME=%q PYTHONPATH=%q\nexec %q --library-path %q ' "$root/usr" "$llvm/lib/python3/dist-packages" \
      "$root/usr/lib64/ld-linux-x86-64.so.2" "$llvm/lib:$root/usr/lib/x86_64-linux-gnu:$root/usr/lib"
    printf '%q ' "$@"
    printf '"$@"\n'
  }
  # What gdb itself starts has the Python of this system.
  starts "$root/usr/bin/gdb" --data-directory "$root/usr/share/gdb" \
    -iex 'python import os; [os.environ.pop(name, None) for name in ("PYTHONHOME", "PYTHONPATH")]' > "$bin/gdb"
  starts "$llvm/bin/lldb" > "$bin/lldb"
  chmod +x "$bin/gdb" "$bin/lldb"
  versions="gdb $("$bin/gdb" -nx -batch -ex 'python print(gdb.VERSION)'), $("$bin/lldb" --version | head -1)" \
    || { echo "$suite: its debuggers do not start"; status=1; continue; }
  log=$dir/$suite.log
  BIS_TEST_PATH=$bin cargo test --quiet --release -p bis --test debug > "$log" 2>&1 || status=1
  echo "$suite, $versions: $(grep '^test result' "$log" || echo "see $log")"
  grep '\.\.\. FAILED$' "$log" || true
  # The same gdb as an editor's debug adapter.
  log=$dir/$suite.editor.log
  BIS_TEST_PATH=$bin cargo test --quiet --release -p bis --test suite -- an_editor_by_dap > "$log" 2>&1 || status=1
  echo "$suite, for editors: $(grep '^test result' "$log" || echo "see $log")"
done
exit $status
