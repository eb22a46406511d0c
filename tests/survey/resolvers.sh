#!/bin/bash
# dnsmasq, and unbound with two threads that asks it.
# needs: dnsmasq unbound dig unbound-checkconf
# package: unbound
# limit: 240
# stderr varies: the servers log times
# setup
cat > u.conf <<END
server:
  num-threads: 2
  interface: 127.0.0.1
  port: 8426
  do-not-query-localhost: no
  access-control: 127.0.0.0/8 allow
  chroot: ""
  username: ""
  directory: "$PWD"
  pidfile: "$PWD/pid"
  use-syslog: no
  module-config: "iterator"
  local-data: "here.test. A 192.0.2.1"
forward-zone:
  name: "."
  forward-addr: 127.0.0.1@8427
END
cat > inside.sh <<'END'
dnsmasq -k -p 8427 -i lo -z -R -h --user=root --pid-file= --address=/there.corp/192.0.2.2 --txt-record=t.there.corp,words & m=$!
unbound-checkconf u.conf > /dev/null; unbound -d -c u.conf & u=$!
D="dig @127.0.0.1 -p 8426 +short +time=5"
for _ in $(seq 100); do $D here.test > got && grep -q 192 got && break; sleep 0.1; done
for i in $(seq 20); do $D here.test & p="$p $!"; $D a$i.there.corp & p="$p $!"; done; wait $p
$D +tcp there.corp; $D t.there.corp TXT
kill $u; wait $u; echo end $?; kill $m; wait $m; echo end $?
END
# record
exec bash inside.sh
# check
test "$(grep -c '^192.0.2.1' "$OUT")" = 20 && test "$(grep -c '^192.0.2.2' "$OUT")" = 21 && test "$(grep -c '^end 0' "$OUT")" = 2
