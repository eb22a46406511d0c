#!/bin/bash
# varnishd: a manager, which has a C compiler make a library of its configuration, and a child with 100 threads.
# needs: varnishd varnishadm curl python3 gcc
# package: varnish
# limit: 240
# stderr varies: the server logs
# setup
mkdir www v; seq 3000 > www/a; echo behind > www/index.html
cat > inside.sh <<'END'
python3 -m http.server -d www -b 127.0.0.1 8430 > /dev/null 2>&1 & w=$!
varnishd -F -j none -n "$PWD/v" -a 127.0.0.1:8431 -b 127.0.0.1:8430 -s malloc,10m -T 127.0.0.1:0 > log 2>&1 & s=$!
for _ in $(seq 200); do curl -sf http://127.0.0.1:8431/ > /dev/null && break; sleep 0.1; done
for i in 1 2 3 4 5 6; do curl -s http://127.0.0.1:8431/a | md5sum & p="$p $!"; done; wait $p
kill $w; for i in 1 2 3; do curl -s http://127.0.0.1:8431/; done
varnishadm -n "$PWD/v" status; varnishadm -n "$PWD/v" vcl.list | grep -c active
varnishadm -n "$PWD/v" stop; kill $s; wait $s; echo end $?
END
# record
exec bash inside.sh
# check
test "$(grep -c behind "$OUT")" = 3 && grep -q '^end 0' "$OUT"
