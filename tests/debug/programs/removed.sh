#!/bin/sh
# Runs a copy of a program, and removes it.
cp "$1" ./mine
./mine
rm ./mine
