#!/bin/bash
# A bash script with pipes, subshells, traps, here-documents, arrays, arithmetic and job control.
# setup
cat > script <<'SCRIPT'
set -u
trap 'echo "exit trap in $$"' EXIT
trap 'echo "USR1 in $$"' USR1
echo "start $$ at $(date +%s.%N), random $RANDOM"
for i in {1..20}; do echo "line $i"; done | grep 1 | sort -r | while read -r _ n; do echo "got $n"; done
( cd /; pwd; exit 3 ); echo "subshell gave $?"
cat <<HERE | tr a-z A-Z
a here-document with $((6 * 7)) and $(echo a command)
HERE
kill -USR1 $$
declare -A map=([one]=1 [two]=2)
for key in "${!map[@]}"; do echo "$key=${map[$key]}"; done | sort
set -m
sleep 0.05 & sleep 0.02 &
jobs -r | wc -l
wait -n; echo "one is done: $?"
wait; echo "all are done"
(trap 'echo child got TERM; exit 9' TERM; while :; do sleep 0.01; done) & child=$!
sleep 0.05; kill -TERM $child; wait $child; echo "child gave $?"
sh -c 'kill -STOP $$; exit 6' & stopped=$!
until jobs -s | grep -q STOP; do sleep 0.01; done
kill -CONT $stopped
while wait $stopped; gave=$?; [ $gave = 147 ]; do sleep 0.01; done; echo "stopped one gave $gave"
coproc CAT { cat; }
echo "through a coprocess" >&"${CAT[1]}"; read -r line <&"${CAT[0]}"; echo "$line"
exec {CAT[1]}>&-
mapfile -t lines < <(seq 5); echo "${lines[*]}"
diff <(seq 3) <(seq 4); echo "diff gave $?"
printf '%s\n' "${BASH_VERSION}" "$(ulimit -n)" >&2
SCRIPT
# record
exec bash script
# check
grep -q 'subshell gave 3' "$OUT" && grep -q 'A HERE-DOCUMENT WITH 42' "$OUT" && grep -q 'child gave 9' "$OUT"
grep -q 'stopped one gave 6' "$OUT" && grep -q 'through a coprocess' "$OUT" && grep -q 'exit trap' "$OUT"
