#!/bin/bash
# squid (two processes, a child for the log) in front of a python server; what is cached is answered by squid.
# needs: squid curl python3
# package: squid
# limit: 240
# varies: headers with times; the log of the program
# setup
mkdir cache www; echo behind > www/index.html; seq 50000 > www/big; chmod 777 . cache
cat > s.conf <<END
http_port 127.0.0.1:8423
cache_dir ufs $PWD/cache 16 4 4
acl all_of_us src 127.0.0.1
http_access allow all_of_us
pid_filename $PWD/pid
access_log stdio:$PWD/access.log
cache_log $PWD/cache.log
cache_effective_user proxy
pinger_enable off
coredump_dir $PWD
shutdown_lifetime 1 seconds
netdb_filename none
refresh_pattern . 10 50% 20
END
cat > inside.sh <<'END'
python3 -m http.server -d www -b 127.0.0.1 8422 > /dev/null 2>&1 & w=$!
squid -z -N -f s.conf 2> /dev/null
squid --foreground -f s.conf & s=$!
for _ in $(seq 100); do curl -sf -x 127.0.0.1:8423 http://127.0.0.1:8422/ > /dev/null && break; sleep 0.1; done
for i in 1 2 3; do curl -s -x 127.0.0.1:8423 http://127.0.0.1:8422/; done
for i in 1 2 3 4; do curl -s -x 127.0.0.1:8423 http://127.0.0.1:8422/big | wc -l & p="$p $!"; done; wait $p
kill $w; curl -s -x 127.0.0.1:8423 http://127.0.0.1:8422/big | tail -1
squid -k shutdown -f s.conf; wait $s; echo end $?
END
# record
exec bash inside.sh
# check
test "$(grep -c behind "$OUT")" = 3 && grep -q '^end 0' "$OUT" && test "$(grep -c '^50000$' "$OUT")" -ge 5
