#!/bin/bash
# zsh, fish, ksh, tcsh, dash and busybox's sh: pipes, jobs, functions, traps.
# needs: zsh fish ksh tcsh dash busybox
# setup
cat > a.sh <<'END'
f() { echo "f $1" | tr a-z A-Z; }
for i in 1 2 3; do f $i; done
(sleep 0.1; echo late) & wait
trap 'echo ends' EXIT
x=$(seq 100 | tail -1); echo $((x * 2))
END
# record
for s in zsh ksh dash 'busybox sh'; do $s a.sh; done; HOME=$PWD fish -c 'for i in (seq 3); echo "f $i" | tr a-z A-Z; end; function g; echo g $argv; end; g 1 2'; tcsh -f -c 'foreach i (1 2 3)
echo $i | tr 1 x
end'
# check
grep -q '^g 1 2$' "$OUT"
