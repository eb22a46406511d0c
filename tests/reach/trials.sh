#!/bin/sh
# Records and replays small programs on whatever machine this runs, with nothing but a shell and coreutils or busybox.
# usage: trials.sh BIS [GUESTS]       GUESTS: a folder of compiled guests (tests/guests), of which all are run
# Each trial records, with hooks and without; then replays; and compares status and output of the two. What is not installed is left
# out. The last line is "N passed, M failed"; status 0 only if nothing failed. Run by kernels.sh, userlands.sh and static.sh.
set -u
bis=$1 guests=${2:-}
work=$(mktemp -d "${TMPDIR:-/tmp}/reach.XXXXXX") || exit 2
export BIS_TRACES=$work/traces XDG_CACHE_HOME=$work/cache BIS_TEXTS=wait
mkdir -p "$work/cwd" "$work/cache" && cd "$work/cwd" || exit 2
passed=0 failed=0

has() { command -v "$1" > /dev/null 2>&1; }
limited() { if has timeout; then timeout "${LIMIT:-120}" "$@"; else "$@"; fi; }

failure() {
  failed=$((failed + 1))
  echo "FAILED $1: $2"
  for text in recorded replayed; do
    [ ! -s "$work/$text" ] || { echo "  $text (status $recorded_status, $replayed_status), at most 30 lines:"; tail -n 30 "$work/$text" | sed 's/^/    /'; }
  done
}

# once NAME STATUS FLAGS CMD...: recorded with these flags, and replayed.
once() {
  name=$1 wanted=$2 flags=$3
  shift 3
  recorded_status= replayed_status=
  : > "$work/replayed"
  rm -rf "$work/t"
  # shellcheck disable=SC2086
  limited "$bis" record $flags -o "$work/t" "$@" > "$work/recorded" 2>&1 < /dev/null
  recorded_status=$?
  if [ "$recorded_status" != "$wanted" ]; then failure "$name" "recorded with status $recorded_status, not $wanted"; return; fi
  limited "$bis" replay -a "$work/t" > "$work/replayed" 2>&1 < /dev/null
  replayed_status=$?
  if [ "$replayed_status" != 0 ]; then failure "$name" "replay ended with status $replayed_status"; return; fi
  if ! cmp -s "$work/recorded" "$work/replayed"; then failure "$name" "the replay has other output"; return; fi
  passed=$((passed + 1))
  echo "ok $name"
}

trial() {
  name=$1 wanted=$2
  shift 2
  once "$name" "$wanted" "" "$@"
  once "$name, no hooks" "$wanted" -n "$@"
}

trial "a shell's loop" 0 sh -c 'i=0; while [ $i -lt 100 ]; do i=$((i + 1)); done; echo $i $$'
trial "pipes and exec" 0 sh -c 'ls / | sort | wc -l; echo a b c | tr " " "\n" | sort -r; cat /proc/version; date'
trial "a status" 7 sh -c 'exit 7'
trial "a signal's handler" 0 sh -c 'trap "echo caught" USR1; kill -USR1 $$; sleep 0.01; echo done'
trial "killed" 143 sh -c 'kill -TERM $$; echo never'
trial "processes in the background" 0 sh -c 'for i in 1 2 3; do (sleep 0.0$i; echo $i) & done; wait; echo all'
trial "time and chance" 0 sh -c 'date +%s; head -c 16 /dev/urandom | od -An -tx1; cat /proc/self/stat | wc -w'
trial "files" 0 sh -c 'echo x > f; cp f g; mv g h; ln -sf h l; cat l; ls -l; rm f h l; ls -A'
if has perl; then
  trial perl 0 perl -e 'use POSIX; $SIG{ALRM} = sub { print "alarm\n" }; alarm 1; pause(); my $p = fork; if (!$p) { print rand() . "\n"; exit 3 } wait; print $? >> 8, "\n"; print "$_\n" for sort keys %ENV'
fi
if has bash; then
  trial bash 0 bash -c 'for i in {1..50}; do a[i]=$((RANDOM % 7)); done; echo "${a[@]}"; coproc cat; echo hi >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo "$x"; time true'
fi
if has python3; then
  trial python3 0 python3 -c 'import threading, subprocess, random, time, os
n = [0]
def work():
    for i in range(2000): n[0] += i
ts = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in ts]; [t.join() for t in ts]
print(n, random.random(), time.time(), os.getpid(), hash("x"))
print(subprocess.run(["sh", "-c", "echo child"], capture_output=True).stdout)'
fi

if [ -n "$guests" ]; then
  for guest in "$guests"/*; do
    [ -x "$guest" ] && [ ! -d "$guest" ] || continue
    # Each in a folder of its own: some leave files.
    rm -rf "$work/cwd" && mkdir "$work/cwd" && cd "$work/cwd" || exit 2
    status=0
    [ ! -r "$guest.status" ] || status=$(cat "$guest.status")
    case $guest in *.status) continue ;; esac
    trial "$(basename "$guest")" "$status" "$guest"
  done
fi

# Debugging without a debugger: the events, the processes, the instructions behind an event.
limited "$bis" record -o "$work/look" sh -c 'echo one; (echo two)' > /dev/null 2>&1
# How many events there are is another matter for each shell, so the instructions are those from the last write on.
event=$("$bis" dump --call write "$work/look" 2> /dev/null | sed -n '$s/^ *\([0-9]*\) .*/\1/p')
for command in info ps "dump --call write" "replay -q -t ${event:-1}"; do
  # shellcheck disable=SC2086
  set -- $command
  what=$1
  shift
  if [ "$what" = replay ]; then set -- "$@" "$work/look"; else set -- "$@" "$work/look"; fi
  limited "$bis" "$what" "$@" > "$work/out" 2>&1 < /dev/null
  status=$?
  if [ "$status" = 0 ] && [ -s "$work/out" ]; then passed=$((passed + 1)) && echo "ok bis $command"; else
    failed=$((failed + 1))
    echo "FAILED bis $command: status $status"
    tail -n 5 "$work/out"
  fi
done
# gdb, where there is one: to the end of the recording and back to its begin.
if has gdb; then
  printf 'continue\nreverse-continue\nprintf "back at %%#lx\\n", $pc\n' > "$work/commands"
  limited "$bis" replay -e -x "$work/commands" -o -batch "$work/look" > "$work/out" 2>&1 < /dev/null
  if grep -q '^back at 0x' "$work/out"; then passed=$((passed + 1)) && echo "ok gdb"; else
    failed=$((failed + 1))
    echo "FAILED gdb"
    tail -n 30 "$work/out" | sed 's/^/    /'
  fi
fi

cd / && rm -rf "$work"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
