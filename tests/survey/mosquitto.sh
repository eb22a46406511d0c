#!/bin/bash
# mosquitto with a subscriber and publishers, all in the recording.
# needs: mosquitto mosquitto_sub mosquitto_pub
# version: mosquitto -h
# stderr varies: the broker logs times
# setup
cat > inside.sh <<'END'
mosquitto -p 1899 & 
for _ in $(seq 100); do mosquitto_pub -p 1899 -t warm -m x 2> /dev/null && break; sleep 0.1; done
mosquitto_sub -p 1899 -t t -C 5 > got & s=$!
for i in $(seq 200); do mosquitto_pub -p 1899 -t t -m "m"; kill -0 $s 2> /dev/null || break; done
wait $s; wc -l < got; kill %1; wait
END
# record
exec bash inside.sh
# check
grep -q '^5$' "$OUT"
