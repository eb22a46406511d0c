#!/bin/bash
# Builds bis as one static binary, target/static/bis, and prints its path. It runs on any Linux from 5.10 on, whatever C library is there.
# usage: tests/reach/static.sh [--try]     --try: records and replays what trials.sh has, too
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
# Only the last step is another one than that of the usual build.
cargo rustc --quiet --release -p bis --bin bis -- -C target-feature=+crt-static >&2
mkdir -p "$target/static"
cp "$target/release/bis" "$target/static/bis.new"
mv "$target/static/bis.new" "$target/static/bis"
if readelf -lW "$target/static/bis" | grep -qE 'INTERP|NEEDED'; then
  echo "it is not static" >&2
  exit 1
fi
# What others expect there.
cargo build --quiet --release -p bis --bin bis >&2
[ "${1-}" != --try ] || tests/reach/trials.sh "$target/static/bis" >&2
realpath "$target/static/bis"
