#!/bin/bash
# php: its own web server, asked by curl, both in the recording.
# needs: php curl
# stderr varies: the server logs times and ports
# setup
mkdir w && echo '<?php $a = []; for ($i = 0; $i < 50000; $i++) $a[$i % 100] = ($a[$i % 100] ?? 0) + $i; echo array_sum($a), " ", $_GET["q"], "\n";' > w/index.php
cat > inside.sh <<'END'
php -S 127.0.0.1:8299 -t w & 
for _ in $(seq 100); do curl -s "http://127.0.0.1:8299/?q=0" > /dev/null && break; sleep 0.05; done
for i in 1 2 3; do curl -s "http://127.0.0.1:8299/?q=$i"; done
kill %1; wait
END
# record
exec bash inside.sh
# check
grep -q '^1249975000 3$' "$OUT"
