#!/bin/bash
# busybox, statically linked: its shell, and its tools in one process image after another.
# needs: busybox
# package: busybox-static
# setup
cat > script <<'SCRIPT'
echo "ash $$"
busybox seq 1 1000 > n
busybox md5sum n; busybox wc n; busybox sort -rn n | busybox head -3
busybox tar cf n.tar n && busybox gzip -k n.tar && busybox zcat n.tar.gz | busybox tar tvf -
for i in a b c; do (echo "sub $i"; busybox sleep 0.01) & done; wait
busybox awk 'BEGIN { for (i = 0; i < 5; i++) print i * i, rand() }'
busybox find / -maxdepth 1 | busybox sort
busybox date
SCRIPT
# record
exec busybox ash script
# check
grep -q '^1000$' "$OUT" && grep -q '^16 ' "$OUT"
busybox md5sum n | cmp - <(grep ' n$' "$OUT" | head -1)
