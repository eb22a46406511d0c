#!/bin/bash
# redis with an append-only file that it rewrites in a child meanwhile; its clients are in the recording.
# needs: redis-server redis-benchmark redis-cli
# varies: redis-benchmark prints rates
# setup
cat > inside.sh << 'END'
redis-server --port 0 --unixsocket ./socket --save "" --appendonly yes --appendfsync everysec > log 2>&1 &
for _ in $(seq 600); do redis-cli -s ./socket ping 2> /dev/null | grep -q PONG && break; sleep 0.1; done
redis-benchmark -s ./socket -q -n 2000 -c 20 -t set,lpush | tr '\r' '\n' | grep 'requests per second'
redis-cli -s ./socket bgrewriteaof
while redis-cli -s ./socket info persistence | grep -q aof_rewrite_in_progress:1; do sleep 0.05; done
redis-cli -s ./socket shutdown nosave
wait
END
# record
exec bash inside.sh
# check
test "$(grep -c 'requests per second' "$OUT")" = 2
grep -q 'AOF rewrite finished successfully\|AOF rewrite terminated with success' log
