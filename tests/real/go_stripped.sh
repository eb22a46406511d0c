#!/bin/bash
# go: a program without symbols, on each core. Go asks cpuid at the begin, and has then in a register on which core that was.
# needs: go taskset
# needs hooks: with `-n` nothing keeps what cpuid says of the core from the program, so all of the recording stays on the first one
# version: go version
# setup
cat > work.go <<'SCRIPT'
package main

func main() {
	println("finished")
}
SCRIPT
GOFLAGS=-mod=mod go build -ldflags "-s -w" -o work work.go
# record
for core in $(taskset -cp $$ | sed 's/.*: //; s/[,-]/ /g'); do taskset -c $core ./work; taskset -c $core ./work; done
# check
grep -q finished "$ERR"
