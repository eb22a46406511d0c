#!/bin/sh
# Runs a copy of a program without its debugging information, which is left where a server finds it by the program's build id.
# usage: stripped.sh PROGRAM
cp "$1" ./mine
id=$(readelf -n ./mine | sed -n 's/.*Build ID: //p')
mkdir -p "served/buildid/$id"
objcopy --only-keep-debug ./mine "served/buildid/$id/debuginfo"
strip ./mine
cp "$(dirname "$0")/debuginfod.py" .
./mine
