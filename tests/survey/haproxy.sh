#!/bin/bash
# haproxy with two threads in front of a python server.
# needs: haproxy curl python3
# version: haproxy -v
# stderr varies: servers log times
# setup
echo behind > index.html
cat > h.cfg <<END
global
  nbthread 2
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend f
  bind 127.0.0.1:8399
  default_backend b
backend b
  server s 127.0.0.1:8398
END
cat > inside.sh <<'END'
python3 -m http.server -b 127.0.0.1 8398 > /dev/null 2>&1 & haproxy -f h.cfg &
for _ in $(seq 100); do curl -sf http://127.0.0.1:8399/ > /dev/null && break; sleep 0.1; done
for i in 1 2 3 4 5; do curl -s http://127.0.0.1:8399/index.html; done
kill %1 %2; wait
END
# record
exec bash inside.sh
# check
test "$(grep -c behind "$OUT")" = 5
