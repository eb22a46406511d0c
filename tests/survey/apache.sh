#!/bin/bash
# Apache with the event module (processes with threads), and curl.
# needs: apache2 curl
# version: apache2 -v
# setup
mkdir w && echo apache > w/index.html
cat > a.conf <<END
ServerRoot $PWD
ServerName x
Listen 127.0.0.1:8499
PidFile $PWD/pid
ErrorLog $PWD/error.log
DocumentRoot $PWD/w
DefaultRuntimeDir $PWD
Mutex file:$PWD
User nobody
Group nogroup
StartServers 2
ThreadsPerChild 8
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
END
chmod -R a+rX . 
# record
exec apache2 -DFOREGROUND -d "$PWD" -f "$PWD/a.conf"
# drive
for _ in $(seq 100); do curl -sf http://127.0.0.1:8499/ > got && break; sleep 0.1; done
for i in 1 2 3 4 5 6; do curl -s http://127.0.0.1:8499/ & done; wait
kill -TERM "$(cat pid)"
# check
grep -q apache got
