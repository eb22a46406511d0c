#!/bin/bash
# go: goroutines in loops without calls, which the runtime stops by signals, and the garbage collector beside them.
# needs: go
# version: go version
# setup
cat > work.go <<'SCRIPT'
package main

import (
	"fmt"
	"runtime"
)

func main() {
	results := make(chan [2]uint64)
	for number := uint64(0); number < 6; number++ {
		go func() {
			sum := number
			for k := uint64(0); k < 40000000; k++ {
				sum = sum*3 + k
			}
			results <- [2]uint64{number, sum}
		}()
	}
	kept := [][]byte{}
	for k := 0; k < 200; k++ {
		kept = append(kept, make([]byte, 10000))
		if k%50 == 0 {
			runtime.GC()
		}
	}
	for k := 0; k < 6; k++ {
		result := <-results
		fmt.Println(result[0], result[1])
	}
	fmt.Println(len(kept), "finished")
}
SCRIPT
GOFLAGS=-mod=mod go build -o work work.go
# record
exec ./work
# check
grep -q finished "$OUT"
