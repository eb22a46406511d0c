#!/bin/bash
# A client of PulseAudio whose server is not recorded: their sound goes through the socket.
# version: pulseaudio --version
# needs: pulseaudio paplay pactl
# stderr varies: the client's library says that it may not share memory
# remark: the server outside; paplay and pactl inside
# record
export HOME=$PWD XDG_RUNTIME_DIR=$PWD/run
for _ in $(seq 100); do [ -e ready ] && break; sleep 0.1; done
paplay --raw sound.raw && echo played
pactl info | grep '^Is Local'
touch finished
# drive
rm -f ready finished
mkdir -p -m 700 run
head -c 60000 /dev/zero > sound.raw
export HOME=$PWD XDG_RUNTIME_DIR=$PWD/run
pulseaudio -n --daemonize=no --exit-idle-time=-1 -L module-null-sink -L module-native-protocol-unix > pulse.txt 2>&1 &
server=$!
for _ in $(seq 100); do pactl info > /dev/null 2>&1 && break; sleep 0.1; done
touch ready
for _ in $(seq 600); do [ -e finished ] && break; sleep 0.1; done
kill $server
wait $server
# check
grep -q '^played$' "$OUT"
