#!/bin/sh
# Runs a copy of a program, and of a library that it loads, and puts others in their places when it has ended: what a rebuild leaves.
# usage: replaced.sh PROGRAM LIBRARY
cp "$1" ./mine
cp "$2" ./mine.so
./mine ./mine.so
rm ./mine ./mine.so
cp /bin/true ./mine
cp /bin/true ./mine.so
