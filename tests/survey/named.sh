#!/bin/bash
# BIND's named with a zone, dig, nsupdate, rndc.
# needs: named dig nsupdate rndc rndc-confgen
# package: bind9
# limit: 240
# stderr varies: the server logs times
# setup
rndc-confgen -a -q -c "$PWD/key" -k k 2> /dev/null || rndc-confgen -a -c "$PWD/key" -k k
cat > n.conf <<END
include "$PWD/key";
controls { inet 127.0.0.1 port 8425 allow { 127.0.0.1; } keys { k; }; };
options { directory "$PWD"; listen-on port 8424 { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; pid-file "$PWD/pid"; session-keyfile "$PWD/session"; dnssec-validation no; };
zone "example.test" { type primary; file "$PWD/zone"; allow-update { 127.0.0.1; }; };
END
cat > zone <<'END'
$TTL 60
@ IN SOA ns.example.test. root.example.test. ( 1 60 60 60 60 )
@ IN NS ns
ns IN A 127.0.0.1
www IN A 192.0.2.7
END
cat > inside.sh <<'END'
named -f -n 2 -c n.conf & s=$!
D="dig @127.0.0.1 -p 8424 +short +time=5"
for _ in $(seq 100); do $D www.example.test > got && grep -q 192 got && break; sleep 0.1; done
$D www.example.test; $D +tcp www.example.test; $D nothing.example.test
printf 'server 127.0.0.1 8424\nzone example.test\nupdate add new.example.test 60 A 192.0.2.8\nsend\n' | nsupdate
$D new.example.test; $D example.test AXFR | wc -l
for i in $(seq 20); do $D www.example.test & p="$p $!"; done; wait $p
rndc -p 8425 -k key -s 127.0.0.1 status | grep -c running; rndc -p 8425 -k key -s 127.0.0.1 stop; wait $s; echo end $?
END
# record
exec bash inside.sh
# check
test "$(grep -c '^192.0.2.7' "$OUT")" = 22 && grep -q '^192.0.2.8' "$OUT" && grep -q '^end 0' "$OUT"
