#!/bin/bash
# redis-server with a client outside of the recording, then redis-benchmark; it is shut down by a command.
# needs: redis-server redis-benchmark redis-cli
# limit: 300
# record
exec redis-server --port 0 --unixsocket ./socket --save "" --appendonly yes --dir . --daemonize no
# drive
for _ in $(seq 600); do redis-cli -s ./socket ping 2> /dev/null | grep -q PONG && break; sleep 0.1; done
redis-cli -s ./socket set key value
test "$(redis-cli -s ./socket get key)" = value
redis-benchmark -s ./socket -q -n 500 -c 10 -P 2 -t set,get,incr,lpush,lrange_100
redis-cli -s ./socket bgrewriteaof
redis-cli -s ./socket info > info.txt
redis-cli -s ./socket eval 'local s = 0 for i = 1, 1000 do s = s + i end return s' 0 | grep -x 500500
redis-cli -s ./socket shutdown nosave || true
# check
grep -q 'ready to exit' "$OUT"
