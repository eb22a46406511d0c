#!/bin/bash
# Programs whose X server is not recorded: with this they would share memory. The picture that they get of the screen is
# the same as natively, though it comes by the socket.
# version: dpkg-query -W -f '${Version}' xvfb
# needs: Xvfb ffmpeg xwd xdpyinfo glxinfo
# stderr varies: ffmpeg says at each picture that it cannot have it by shared memory
# remark: Xvfb outside; ffmpeg, xwd, xdpyinfo, glxinfo inside
# record
export DISPLAY=:93
for _ in $(seq 100); do [ -e ready ] && break; sleep 0.1; done
ffmpeg -hide_banner -loglevel error -f x11grab -video_size 320x240 -framerate 10 -i :93 -frames:v 5 -f md5 -
xwd -root -silent | md5sum
xdpyinfo | grep 'vendor string'
glxinfo -B | grep 'OpenGL renderer'
touch finished
# drive
rm -f ready finished
Xvfb :93 -noreset -br -screen 0 640x480x24 > xvfb.txt 2>&1 &
server=$!
for _ in $(seq 100); do DISPLAY=:93 xdpyinfo > /dev/null 2>&1 && break; sleep 0.1; done
touch ready
for _ in $(seq 600); do [ -e finished ] && break; sleep 0.1; done
kill $server
wait $server
# check
grep -q '^MD5=' "$OUT"
grep -q 'OpenGL renderer' "$OUT"
