#!/bin/bash
# redis-server with a thread that spins for work, while the main thread spins until that is done; its clients are in the recording.
# needs: redis-server redis-benchmark redis-cli
# limit: 120
# setup
cat > inside.sh << 'END'
redis-server --port 0 --unixsocket ./socket --save "" --appendonly no --io-threads 2 --io-threads-do-reads yes > log 2>&1 &
for _ in $(seq 600); do redis-cli -s ./socket ping 2> /dev/null | grep -q PONG && break; sleep 0.1; done
redis-benchmark -s ./socket -q -n 2000 -c 50 -t set,get | tr '\r' '\n' | grep 'requests per second'
redis-cli -s ./socket shutdown nosave
wait
END
# record
exec bash inside.sh
# check
test "$(grep -c 'requests per second' "$OUT")" = 2
grep -q 'ready to exit' log
