#!/bin/sh
# Builds bis, records a program, replays it, and compares what both wrote.
#
#   ./try.sh                    records `ls -l /`
#   ./try.sh python3 app.py     records that
#
# It leaves the trace in a temporary folder and says how to look at it.
set -eu
cargo build --release --manifest-path "$(dirname "$0")/Cargo.toml" --package bis
target=${CARGO_TARGET_DIR:-$(dirname "$0")/target}
bis=$target/release/bis
[ $# -gt 0 ] || set -- ls -l /

folder=$(mktemp -d "${TMPDIR:-/tmp}/bis-try.XXXXXX")
echo "recording: $*"
status=0
"$bis" record -o "$folder/trace" -- "$@" >"$folder/recorded" || status=$?
cat "$folder/recorded"
if [ "$status" -ge 125 ] && [ ! -e "$folder/trace/log" ]; then
    echo "nothing was recorded; '$bis doctor' says what works on this machine" >&2
    exit "$status"
fi
echo "replaying it"
"$bis" replay -a "$folder/trace" >"$folder/replayed"
cmp "$folder/recorded" "$folder/replayed"
echo "the replay wrote the same $(wc -c <"$folder/replayed") bytes; the program's exit status was $status"
echo "look at the trace: $bis ps $folder/trace; $bis dump $folder/trace; $bis info $folder/trace"
