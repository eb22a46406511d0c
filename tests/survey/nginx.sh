#!/bin/bash
# nginx with two workers, serving files to curl outside of the recording.
# needs: nginx curl
# version: nginx -v
# setup
mkdir www && head -c 300000 /dev/urandom > www/data && echo hello > www/index.html
cat > nginx.conf <<END
daemon off; worker_processes 2; pid $PWD/pid; error_log $PWD/error.log; user root;
events {}
http { access_log $PWD/access.log; server { listen unix:$PWD/socket; root $PWD/www; } }
END
# record
exec nginx -c "$PWD/nginx.conf" -e "$PWD/error.log"
# drive
for _ in $(seq 200); do curl -s --unix-socket socket http://x/ > first.txt && break; sleep 0.05; done
for _ in 1 2 3 4 5 6 7 8; do curl -s --unix-socket socket http://x/data -o got && cmp got www/data; done
kill -QUIT "$(cat pid)"
# check
grep -q hello first.txt && test "$(grep -c 'GET /data' access.log)" = 8
