#!/bin/bash
# How often the bugs of tests/rare show: natively, recorded, recorded with --chaos.
#
#   tests/rare/rates.sh [-n NATIVE] [-d DEFAULT] [-c CHAOS] [-f FIRST_SEED] [NAME...]
#
# Runs each program (all, or those named) so many times in each way, and prints a line of a table for each, with the
# seconds that a run takes on average. It keeps nothing and compares nothing; that recordings replay is the driver's
# matter (crates/bis/tests/rare.rs). BIS says which command to measure.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bis=${BIS:-$here/../../target/release/bis}
native=1000 default=200 chaos=200 first=1
while getopts n:d:c:f: option; do
  case $option in
    n) native=$OPTARG ;;
    d) default=$OPTARG ;;
    c) chaos=$OPTARG ;;
    f) first=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- $(cd "$here" && ls ./*.c | sed 's,^\./\(.*\)\.c$,\1,')
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

# count TIMES PREFIX...: "failed of times (seconds a run)"; everything that is neither right nor wrong is shown.
count() {
  local times=$1 failed=0 other=0 began ended status seed
  shift
  began=$(date +%s%N)
  for ((seed = first; seed < first + times; seed++)); do
    rm -rf "$folder/t"
    timeout -k 1 20 "${@//SEED/$seed}" >"$folder/out" 2>"$folder/err" </dev/null
    status=$?
    if [ $status = 1 ] && grep -q '^wrong: ' "$folder/out"; then
      failed=$((failed + 1))
    elif [ $status != 0 ] || ! grep -q '^right: ' "$folder/out"; then
      other=$((other + 1))
      echo "$* (seed $seed): status $status: $(head -c 300 "$folder/err")" >&2
    fi
  done
  ended=$(date +%s%N)
  printf ' %d of %d (%d ms)%s |' $failed "$times" $(((ended - began) / (times > 0 ? times : 1) / 1000000)) \
    "$([ $other = 0 ] || echo ", $other neither")"
}

echo '| bug | native | recorded | with `--chaos` |'
echo '| --- | --- | --- | --- |'
for name; do
  gcc -O1 -g -pthread -Wall -Wextra -o "$folder/$name" "$here/$name.c" || exit 1
  printf '| `%s` |' "$name"
  count "$native" "$folder/$name"
  count "$default" "$bis" record -o "$folder/t" -- "$folder/$name"
  count "$chaos" "$bis" record --chaos --seed SEED -o "$folder/t" -- "$folder/$name"
  echo
done
