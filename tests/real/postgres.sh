#!/bin/bash
# PostgreSQL with four clients of pgbench outside of the recording. Its processes share memory, and wait for their clients by turns.
# needs: postgres initdb pgbench psql unshare
# limit: 300
# setup
# It does not run as root; in a user namespace it does not see that it does.
unshare --user --map-user=1000 initdb -D data -U user -A trust --no-sync > init.txt
# record
exec unshare --user --map-user=1000 postgres -D data -c listen_addresses= -c unix_socket_directories="$PWD" -c fsync=off
# drive
for _ in $(seq 600); do psql -h "$PWD" -U user -c 'select 1' postgres > /dev/null 2>&1 && break; sleep 0.1; done
pgbench -h "$PWD" -U user -i -s 1 -q postgres
pgbench -h "$PWD" -U user -n -c 4 -j 2 -t 25 postgres > bench.txt
psql -h "$PWD" -U user -A -t -c 'select count(*) from pgbench_history' postgres > count.txt
kill -INT "$(head -1 data/postmaster.pid)"
# check
test "$(cat count.txt)" = 100
grep -q "database system is shut down" "$ERR"
