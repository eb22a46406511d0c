#!/bin/bash
# PostgreSQL, with four clients of pgbench inside of the recording.
# needs: postgres initdb pgbench psql unshare
# limit: 300
# varies: pgbench prints times
# setup
unshare --user --map-user=1000 initdb -D data -U user -A trust --no-sync > init.txt
cat > inside.sh <<'END'
cd "$1"
unshare --user --map-user=1000 postgres -D data -c listen_addresses= -c unix_socket_directories="$PWD" -c fsync=off 2> log &
for _ in $(seq 600); do psql -h "$PWD" -U user -c 'select 1' postgres > /dev/null 2>&1 && break; sleep 0.1; done
pgbench -h "$PWD" -U user -i -s 1 -q postgres
pgbench -h "$PWD" -U user -n -c 4 -j 2 -t 25 postgres
psql -h "$PWD" -U user -A -t -c 'select count(*) from pgbench_history' postgres
kill -INT "$(head -1 data/postmaster.pid)"
wait
END
# record
exec bash inside.sh "$PWD"
# check
test "$(tail -1 "$OUT")" = 100
