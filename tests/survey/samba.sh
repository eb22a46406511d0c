#!/bin/bash
# smbd with a share for guests, and smbclient.
# needs: smbd smbclient
# package: samba
# limit: 240
# varies: times in listings
# setup
mkdir p share; for d in lock state cache private pid ncalrpc; do mkdir p/$d; done; chmod 777 share; seq 30000 > up
cat > s.conf <<END
[global]
  server role = standalone server
  map to guest = Bad User
  lock directory = $PWD/p/lock
  state directory = $PWD/p/state
  cache directory = $PWD/p/cache
  private dir = $PWD/p/private
  pid directory = $PWD/p/pid
  ncalrpc dir = $PWD/p/ncalrpc
  smb ports = 8445
  bind interfaces only = yes
  interfaces = 127.0.0.1
  disable netbios = yes
  load printers = no
  log file = $PWD/log
[x]
  path = $PWD/share
  guest ok = yes
  read only = no
END
cat > inside.sh <<'END'
smbd -F -s s.conf & s=$!
C="smbclient -p 8445 -N -s s.conf //127.0.0.1/x"
for _ in $(seq 100); do $C -c ls > /dev/null 2>&1 && break; sleep 0.1; done
$C -c 'put up; get up down; mkdir d; ls' 2> /dev/null; cmp up down && echo same
for i in 1 2 3; do $C -c "get up down$i" 2> /dev/null & p="$p $!"; done; wait $p; md5sum down?
kill $s; wait $s; echo end $?
END
# record
exec bash inside.sh
# check
grep -q '^same' "$OUT" && grep -q '^end' "$OUT"
