#!/bin/bash
# Runs each real program (or those named by a filter) N times, recorded and replayed, and prints the counts.
# usage: tests/real/soak.sh N [FILTER [MODE]]        for example: tests/real/soak.sh 50 '' no_hooks
# MODE is replay (with hooks, the default) or no_hooks.
# A failed run keeps its trace; its output is in target/soak/. Exit status 0 only if nothing failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
count=${1:?usage: $0 N [FILTER]}
filter=${2:-}
mode=${3:-replay}
logs=${CARGO_TARGET_DIR:-target}/soak
mkdir -p "$logs"
test=$(cargo test --release -p bis --test real --no-run --message-format=json 2> "$logs/build.log" |
  sed -n 's/.*"executable":"\([^"]*real-[^"]*\)".*/\1/p' | tail -1)
[ -n "$test" ] || { echo "failed to build the driver; see $logs/build.log" >&2; exit 2; }
mapfile -t names < <("$test" --list --format=terse | sed -n 's/::replay: test$//p' | grep -e "$filter")
[ "${#names[@]}" -gt 0 ] || { echo "no program's name has \"$filter\" in it" >&2; exit 2; }
printf '%-16s %6s %6s %8s %10s\n' program passed failed ignored 'mean s'
failures=0
for name in "${names[@]}"; do
  passed=0 failed=0 ignored=0 began=$(date +%s%N)
  for round in $(seq "$count"); do
    if "$test" --exact "$name::$mode" > "$logs/$name.$mode.$round.log" 2>&1; then
      if grep -q '1 ignored' "$logs/$name.$mode.$round.log"; then ignored=$((ignored + 1)); else passed=$((passed + 1)); fi
      rm "$logs/$name.$mode.$round.log"
    else
      failed=$((failed + 1))
    fi
  done
  mean=$((($(date +%s%N) - began) / count / 1000000))
  printf '%-16s %6d %6d %8d %7d.%03d\n' "$name" "$passed" "$failed" "$ignored" $((mean / 1000)) $((mean % 1000))
  failures=$((failures + failed))
done
[ "$failures" = 0 ] || { echo "$failures runs failed; their output is in $logs/" >&2; exit 1; }
